/* bpe.c -- a vocabulary and its merges, from vocab.json and merges.txt
 *
 * SPDX-License-Identifier: MIT */
#include "io/bpe.h"
#include "io/json.h"
#include "tensor/tensor.h"

#include <stdio.h>
#include <string.h>

enum { LARGEST_FILE = 100000000, LONGEST_TOKEN = 4096 };

/* ---- bytes as characters ------------------------------------------------- */

/* Printable ones stand for themselves, the rest for what follows 255. */
static bool is_itself(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte != 0xad);
}

int mrt_bpe_code(uint8_t byte) {
  if (is_itself(byte)) return byte;
  int before = 0;
  for (int b = 0; b < byte; b++) before += !is_itself(b);
  return 256 + before;
}

/* The character for a byte in UTF-8: one or two bytes. */
static void write_code(uint8_t byte, char text[3]) {
  int code = mrt_bpe_code(byte);
  memset(text, 0, 3);
  if (code < 0x80) {
    text[0] = (char)code;
  } else {
    text[0] = (char)(0xc0 | code >> 6);
    text[1] = (char)(0x80 | (code & 63));
  }
}

/* Bytes for the characters of a token; false for one that stands for none. */
static bool read_codes(const uint8_t byte_of[512], const char *text, char *out,
                       size_t *size) {
  const uint8_t *p = (const uint8_t *)text;
  for (*size = 0; *p; p++) {
    int code = *p;
    if (code >= 0x80) {
      if (code < 0xc2 || code > 0xc7) return false;
      code = (code & 31) << 6 | (*++p & 63);
    }
    uint8_t byte = byte_of[code];
    if (mrt_bpe_code(byte) != code) return false;
    out[(*size)++] = (char)byte;
  }
  return true;
}

/* ---- the vocabulary ------------------------------------------------------ */

static mrt_status add_token(mrt_bpe *b, mrt_source *s, const char *name,
                            const json_t *value, const uint8_t byte_of[512]) {
  json_int_t id = json_is_integer(value) ? json_integer_value(value) : -1;
  if (id < 0 || id >= b->count || b->tokens[id].bytes)
    return mrt_source_fail(s, MRT_EDATA,
                           "'%.80s': a number below %d, of its own, wanted",
                           name, b->count);
  char *bytes = mrt_arena_alloc(&b->arena, strlen(name) + 1, 1);
  if (!bytes) return mrt_nomem(&b->ctx->error);
  if (strlen(name) > LONGEST_TOKEN ||
      !read_codes(byte_of, name, bytes, &b->tokens[id].size))
    return mrt_source_fail(s, MRT_EDATA, "'%.80s' stands for no bytes", name);
  b->tokens[id].bytes = bytes;
  return MRT_OK;
}

static int32_t id_of(const json_t *vocab, const char *name) {
  const json_t *value = json_object_get(vocab, name);
  return value ? (int32_t)json_integer_value(value) : -1;
}

static mrt_status add_tokens(mrt_bpe *b, mrt_source *s, json_t *vocab) {
  uint8_t byte_of[512] = { 0 };
  const char *name;
  json_t *value;
  char text[3];
  for (int i = 0; i < 256; i++) byte_of[mrt_bpe_code((uint8_t)i)] = (uint8_t)i;
  b->count = (int)json_object_size(vocab);
  b->tokens = MRT_NEW(&b->arena, mrt_bpe_text, b->count + 1);
  if (!b->tokens) return mrt_nomem(&b->ctx->error);
  json_object_foreach(vocab, name, value)
      MRT_TRY(add_token(b, s, name, value, byte_of));
  for (int i = 0; i < 256; i++) {
    write_code((uint8_t)i, text);
    b->bytes[i] = id_of(vocab, text);
  }
  return MRT_OK;
}

/* ---- merges -------------------------------------------------------------- */

static size_t slot_of(const mrt_bpe *b, uint64_t key) {
  size_t i = (size_t)(key * 0x9e3779b97f4a7c15 >> 32) & b->mask;
  while (b->merges[i].key && b->merges[i].key != key) i = (i + 1) & b->mask;
  return i;
}

static uint64_t key_of(int32_t first, int32_t second) {
  return 1 + ((uint64_t)(uint32_t)first << 32 | (uint32_t)second);
}

const mrt_merge *mrt_bpe_find(const mrt_bpe *b, int32_t first, int32_t second) {
  const mrt_merge *m = &b->merges[slot_of(b, key_of(first, second))];
  return m->key ? m : NULL;
}

/* One line: "first second". */
static mrt_status add_merge(mrt_bpe *b, mrt_source *s, const json_t *vocab,
                            const char *line, size_t size, int32_t rank) {
  char text[2 * LONGEST_TOKEN];
  const char *space = memchr(line, ' ', size);
  int32_t first = -1, second = -1, both = -1;
  if (space && size < sizeof text) {
    size_t n = (size_t)(space - line);
    memcpy(text, line, size);
    text[n] = text[size] = 0;
    first = id_of(vocab, text), second = id_of(vocab, text + n + 1);
    memmove(text + n, text + n + 1, size - n);
    both = id_of(vocab, text);
  }
  if (first < 0 || second < 0 || both < 0)
    return mrt_source_fail(s, MRT_EDATA,
                           "merge %d, '%.*s', is not two tokens that make one",
                           rank + 1, (int)(size < 80 ? size : 80), line);
  size_t slot = slot_of(b, key_of(first, second));
  if (!b->merges[slot].key)
    b->merges[slot] = (mrt_merge){ key_of(first, second), rank, both };
  return MRT_OK;
}

/* Merges never cross the ends of words, so those that do were made with other
 * words (a pattern that keeps a bracket with its letters, say), and encoding
 * with ours would give other tokens than the model was trained on.  A few are
 * let pass: tables of Unicode differ. */
static mrt_status check_words(const mrt_bpe *b, mrt_source *s, int32_t ranks) {
  int32_t across = 0, first = -1;
  for (size_t i = 0; i <= b->mask; i++) {
    const mrt_merge *m = &b->merges[i];
    const mrt_bpe_text *t = &b->tokens[m->token];
    if (!m->key || mrt_bpe_is_word(t->bytes, t->size)) continue;
    across++;
    if (first < 0 || m->rank < b->merges[first].rank) first = (int32_t)i;
  }
  if ((int64_t)across * 1000 <= ranks) return MRT_OK;
  const mrt_bpe_text *t = &b->tokens[b->merges[first].token];
  return mrt_source_fail(s, MRT_EDATA,
                         "%d of %d merges, such as that to '%.*s', cross what "
                         "GPT-2 takes for words: they belong to a tokenizer "
                         "that cuts texts otherwise",
                         across, ranks, (int)(t->size < 40 ? t->size : 40),
                         t->bytes);
}

static mrt_status add_merges(mrt_bpe *b, mrt_source *s, const json_t *vocab) {
  const char *p = (const char *)s->bytes.data, *end = p + s->bytes.size;
  size_t lines = 1, room = 16;
  int32_t rank = 0;
  for (const char *q = p; q < end; q++) lines += *q == '\n';
  while (room < 2 * lines) room *= 2;
  b->merges = MRT_NEW(&b->arena, mrt_merge, room);
  if (!b->merges) return mrt_nomem(&b->ctx->error);
  b->mask = room - 1;
  while (p < end) {
    const char *stop = memchr(p, '\n', (size_t)(end - p));
    const char *next = stop ? stop + 1 : end;
    size_t size = (size_t)((stop ? stop : end) - p);
    if (size && p[size - 1] == '\r') size--;
    if (size && (size < 8 || memcmp(p, "#version", 8) != 0))
      MRT_TRY(add_merge(b, s, vocab, p, size, rank++));
    p = next;
  }
  return check_words(b, s, rank);
}

/* ---- opening and closing ------------------------------------------------- */

static mrt_status fill(mrt_bpe *b, mrt_source *vocab, mrt_source *merges) {
  mrt_status status;
  if (vocab->bytes.size > LARGEST_FILE || merges->bytes.size > LARGEST_FILE)
    return mrt_source_fail(vocab, MRT_EDATA, "larger than any vocabulary");
  MRT_TRY(mrt_source_hold(vocab));
  MRT_TRY(mrt_source_hold(merges));
  json_t *root = mrt_json_parse(vocab, vocab->bytes.data, vocab->bytes.size, 1,
                                1, &status);
  if (!root) return status;
  status = add_tokens(b, vocab, root);
  if (!status) status = add_merges(b, merges, root);
  json_decref(root);
  return status;
}

mrt_status mrt_bpe_from(mrt_source *vocab, mrt_source *merges, mrt_bpe **out) {
  mrt_context *ctx = vocab->ctx;
  mrt_bpe *b = mrt_calloc(ctx->allocator, 1, sizeof *b);
  if (!b) return mrt_nomem(&ctx->error);
  b->ctx = ctx;
  mrt_context_ref(ctx);
  mrt_arena_init(&b->arena, ctx->allocator);
  mrt_status status = fill(b, vocab, merges);
  if (status) return mrt_bpe_free(b), status;
  *out = b;
  return MRT_OK;
}

MRT_API mrt_status mrt_bpe_open(mrt_context *ctx, const char *vocab,
                                const char *merges, mrt_bpe **out) {
  mrt_source *v = NULL, *m = NULL;
  mrt_status status = mrt_source_of(ctx, vocab, &v);
  if (!status) status = mrt_source_of(ctx, merges, &m);
  if (!status) status = mrt_bpe_from(v, m, out);
  mrt_source_free(v);
  mrt_source_free(m);
  return status;
}

MRT_API void mrt_bpe_free(mrt_bpe *b) {
  if (!b) return;
  mrt_context *ctx = b->ctx;
  const mrt_allocator *a = ctx->allocator;
  mrt_word *w = &b->word;
  mrt_release(a, w->token, w->room * sizeof *w->token);
  mrt_release(a, w->before, w->room * sizeof *w->before);
  mrt_release(a, w->after, w->room * sizeof *w->after);
  mrt_release(a, w->heap, w->heap_room * sizeof *w->heap);
  mrt_arena_free(&b->arena);
  mrt_release(a, b, sizeof *b);
  mrt_context_unref(ctx);
}

MRT_API int mrt_bpe_count(const mrt_bpe *b) { return b->count; }

MRT_API const char *mrt_bpe_token(const mrt_bpe *b, int id, size_t *size) {
  if (id < 0 || id >= b->count) return NULL;
  *size = b->tokens[id].size;
  return b->tokens[id].bytes;
}
