/* bpe_encode.c -- a text into tokens
 *
 * Words end where GPT-2's pattern says:
 *
 *   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 *
 * Bytes that are no UTF-8 count as punctuation, so every text has tokens, and
 * they give it back.  A word of n bytes takes n log n: candidates wait in a
 * heap, and one whose tokens have changed meanwhile is passed over.
 *
 * SPDX-License-Identifier: MIT */
#include "io/bpe.h"
#include "tensor/tensor.h"

#include <string.h>
#include <utf8proc.h>

/* ---- words --------------------------------------------------------------- */

typedef enum byte_kind { LETTER, NUMBER, SPACE, OTHER } byte_kind;

/* White_Space, as Unicode has it. */
static bool is_space(utf8proc_int32_t c) {
  return (c >= 9 && c <= 13) || c == 32 || c == 0x85 || c == 0xa0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
         c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

/* What the character at `p` is, and its bytes. */
static byte_kind look(const uint8_t *p, const uint8_t *end, size_t *size) {
  utf8proc_int32_t c;
  utf8proc_ssize_t n = utf8proc_iterate(p, end - p > 4 ? 4 : end - p, &c);
  *size = n > 0 ? (size_t)n : 1;
  if (n <= 0) return OTHER;
  if (is_space(c)) return SPACE;
  utf8proc_category_t g = utf8proc_category(c);
  if (g >= UTF8PROC_CATEGORY_LU && g <= UTF8PROC_CATEGORY_LO) return LETTER;
  if (g >= UTF8PROC_CATEGORY_ND && g <= UTF8PROC_CATEGORY_NO) return NUMBER;
  return OTHER;
}

/* The end of the run of one kind that begins at `p`. */
static const uint8_t *run_of(byte_kind k, const uint8_t *p, const uint8_t *end,
                             const uint8_t **last) {
  size_t n;
  while (p < end && look(p, end, &n) == k) {
    if (last) *last = p;
    p += n;
  }
  return p;
}

static size_t contraction(const uint8_t *p, size_t left) {
  static const char *const after[] = { "s", "t", "re", "ve", "m", "ll", "d" };
  for (int i = 0; i < MRT_COUNT(after); i++) {
    size_t n = strlen(after[i]);
    if (left > n && memcmp(p + 1, after[i], n) == 0) return n + 1;
  }
  return 0;
}

/* The end of the word at `p`. */
static const uint8_t *word_end(const uint8_t *p, const uint8_t *end) {
  size_t n, m;
  if (*p == '\'' && (n = contraction(p, (size_t)(end - p)))) return p + n;
  byte_kind k = look(p, end, &n);
  if (k != SPACE) return run_of(k, p, end, NULL);
  if (*p == ' ' && p + 1 < end) {
    byte_kind next = look(p + 1, end, &m);
    if (next != SPACE) return run_of(next, p + 1, end, NULL);
  }
  /* Of several spaces before something, the last goes with that. */
  const uint8_t *last = p, *stop = run_of(SPACE, p, end, &last);
  return stop == end || last == p ? stop : last;
}

bool mrt_bpe_is_word(const char *text, size_t size) {
  const uint8_t *p = (const uint8_t *)text, *end = p + size;
  utf8proc_int32_t c;
  for (const uint8_t *q = p; q < end;) {
    utf8proc_ssize_t n = utf8proc_iterate(q, end - q > 4 ? 4 : end - q, &c);
    if (n <= 0) return true;
    q += n;
  }
  return size == 0 || word_end(p, end) == end;
}

/* ---- the heap of candidates ---------------------------------------------- */

static bool comes_first(const mrt_bpe_candidate *a,
                        const mrt_bpe_candidate *b) {
  return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

static void push(mrt_word *w, mrt_bpe_candidate c) {
  size_t i = w->heap_count++;
  for (; i && comes_first(&c, &w->heap[(i - 1) / 2]); i = (i - 1) / 2)
    w->heap[i] = w->heap[(i - 1) / 2];
  w->heap[i] = c;
}

static mrt_bpe_candidate pop(mrt_word *w) {
  mrt_bpe_candidate top = w->heap[0], last = w->heap[--w->heap_count];
  size_t i = 0, child;
  while ((child = 2 * i + 1) < w->heap_count) {
    if (child + 1 < w->heap_count &&
        comes_first(&w->heap[child + 1], &w->heap[child]))
      child++;
    if (!comes_first(&w->heap[child], &last)) break;
    w->heap[i] = w->heap[child];
    i = child;
  }
  w->heap[i] = last;
  return top;
}

/* ---- one word ------------------------------------------------------------ */

static bool grow(const mrt_allocator *a, void **block, size_t old, size_t room,
                 size_t size) {
  void *more = mrt_resize(a, *block, old * size, room * size);
  if (more) *block = more;
  return more != NULL;
}

/* Room for n tokens, and for n candidates and two more for each merge. */
static mrt_status make_room(mrt_bpe *b, size_t n) {
  const mrt_allocator *a = b->ctx->allocator;
  mrt_word *w = &b->word;
  if (n <= w->room && 3 * n <= w->heap_room) return MRT_OK;
  if (n > INT32_MAX / 4)
    return mrt_fail(&b->ctx->error, MRT_EVALUE, "encode: a word of %zu bytes",
                    n);
  /* Three blocks of one size, so all anew: a failure leaves none. */
  mrt_release(a, w->token, w->room * sizeof *w->token);
  mrt_release(a, w->before, w->room * sizeof *w->before);
  mrt_release(a, w->after, w->room * sizeof *w->after);
  mrt_release(a, w->heap, w->heap_room * sizeof *w->heap);
  *w = (mrt_word){ .token = NULL };
  size_t room = n < 64 ? 64 : n + n / 2;
  bool ok = grow(a, (void **)&w->heap, 0, 3 * room, sizeof *w->heap);
  w->heap_room = ok ? 3 * room : 0;
  int32_t *all[3] = { NULL };
  for (int i = 0; ok && i < 3; i++)
    ok = grow(a, (void **)&all[i], 0, room, sizeof **all);
  if (ok) {
    w->token = all[0], w->before = all[1], w->after = all[2], w->room = room;
    return MRT_OK;
  }
  for (int i = 0; i < 3; i++) mrt_release(a, all[i], room * sizeof **all);
  return mrt_nomem(&b->ctx->error);
}

static void consider(mrt_bpe *b, int32_t at) {
  mrt_word *w = &b->word;
  if (at < 0 || w->after[at] < 0) return;
  int32_t first = w->token[at], second = w->token[w->after[at]];
  const mrt_merge *m = mrt_bpe_find(b, first, second);
  if (m) push(w, (mrt_bpe_candidate){ m->rank, at, first, second });
}

/* Merge what the candidate says, if it still holds. */
static void merge(mrt_bpe *b, const mrt_bpe_candidate *c) {
  mrt_word *w = &b->word;
  int32_t next = w->token[c->at] == c->first ? w->after[c->at] : -1;
  if (next < 0 || w->token[next] != c->second) return;
  w->token[c->at] = mrt_bpe_find(b, c->first, c->second)->token;
  w->after[c->at] = w->after[next];
  if (w->after[next] >= 0) w->before[w->after[next]] = c->at;
  w->token[next] = -1; /* no candidate fits it any more */
  consider(b, w->before[c->at]);
  consider(b, c->at);
}

static mrt_status encode_word(mrt_bpe *b, const uint8_t *p, size_t n,
                              int32_t *ids, size_t *count) {
  MRT_TRY(make_room(b, n));
  mrt_word *w = &b->word;
  for (size_t i = 0; i < n; i++) {
    w->token[i] = b->bytes[p[i]];
    if (w->token[i] < 0)
      return mrt_fail(&b->ctx->error, MRT_EVALUE,
                      "encode: byte 0x%02x is not in the vocabulary", p[i]);
    w->before[i] = (int32_t)i - 1;
    w->after[i] = i + 1 < n ? (int32_t)i + 1 : -1;
  }
  w->heap_count = 0;
  for (size_t i = 0; i + 1 < n; i++) consider(b, (int32_t)i);
  while (w->heap_count) {
    mrt_bpe_candidate c = pop(w);
    merge(b, &c);
  }
  for (int32_t i = 0; i >= 0; i = w->after[i]) ids[(*count)++] = w->token[i];
  return MRT_OK;
}

MRT_API mrt_status mrt_bpe_encode(mrt_bpe *b, const char *text, size_t size,
                                  int32_t *ids, size_t *count) {
  const uint8_t *p = (const uint8_t *)text, *end = p + size;
  *count = 0;
  while (p < end) {
    const uint8_t *next = word_end(p, end);
    MRT_TRY(encode_word(b, p, (size_t)(next - p), ids, count));
    p = next;
  }
  return MRT_OK;
}
