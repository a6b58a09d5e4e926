/* model.c -- vocabularies and merges, read in place
 *
 * SPDX-License-Identifier: MIT */
#include "text/json.h"

#include <string.h>

static mrt_status broken(mrt_source *s, const char *what) {
  return mrt_source_fail(s, MRT_EDATA, "%s: this is no such JSON", what);
}

/* ---- token -> id --------------------------------------------------------- */

/* One entry of {"token": id, ...}. */
static bool entry(mrt_scan *p, char *out, size_t *size, double *id) {
  return mrt_scan_string(p, out, size) && mrt_scan_is(p, ':') &&
         mrt_scan_number(p, id);
}

/* How many there are and the largest id. */
static mrt_status count_entries(mrt_source *s, mrt_slice text, int *entries,
                                int *largest) {
  mrt_scan p = { text.at, text.at + text.size };
  double id;
  *entries = 0, *largest = -1;
  if (!mrt_scan_is(&p, '{')) return broken(s, "vocab");
  if (mrt_scan_is(&p, '}')) return MRT_OK;
  do {
    const char *from = p.at;
    if (!entry(&p, NULL, NULL, &id)) return broken(s, "vocab");
    if (id < 0 || id >= MRT_MOST_TOKENS || id != (double)(int)id)
      return mrt_source_fail(s, MRT_EDATA, "vocab: %.*s: an id below %d wanted",
                             (int)(p.at - from < 80 ? p.at - from : 80), from,
                             MRT_MOST_TOKENS);
    if ((int)id > *largest) *largest = (int)id;
    ++*entries;
  } while (mrt_scan_is(&p, ','));
  return mrt_scan_is(&p, '}') ? MRT_OK : broken(s, "vocab");
}

mrt_status mrt_read_vocab(mrt_tokenizer *t, mrt_source *s, mrt_slice text) {
  int entries, largest;
  MRT_TRY(count_entries(s, text, &entries, &largest));
  if (largest > 16 * (entries + 4096))
    return mrt_source_fail(s, MRT_EDATA, "vocab: %d tokens with ids up to %d",
                           entries, largest);
  if (mrt_vocab_make(&t->vocab, &t->arena, entries, largest + 1))
    return mrt_nomem(&t->ctx->error);
  char *room = mrt_arena_alloc(&t->arena, text.size + 1, 1);
  if (!room) return mrt_nomem(&t->ctx->error);
  mrt_scan p = { text.at, text.at + text.size };
  (void)mrt_scan_is(&p, '{');
  for (int i = 0; i < entries; i++, (void)mrt_scan_is(&p, ',')) {
    mrt_slice token = { room, 0 };
    double id;
    (void)entry(&p, room, &token.size, &id);
    room += token.size;
    const char *wrong =
        mrt_vocab_put(&t->vocab, token, (int64_t)id, MRT_TOKEN_ONCE);
    if (wrong)
      return mrt_source_fail(s, MRT_EDATA, "vocab: '%.*s': %s",
                             (int)(token.size < 80 ? token.size : 80), token.at,
                             wrong);
  }
  return MRT_OK;
}

/* ---- merges -------------------------------------------------------------- */

static mrt_status add_merge(mrt_tokenizer *t, mrt_source *s, mrt_slice first,
                            mrt_slice second, int32_t rank) {
  char both[2 * 4096];
  size_t skip = t->bpe.prefix.size, n = first.size + second.size - skip;
  int32_t a = mrt_vocab_find(&t->vocab, first.at, first.size);
  int32_t b = mrt_vocab_find(&t->vocab, second.at, second.size), token = -1;
  if (a >= 0 && b >= 0 && second.size >= skip && n <= sizeof both) {
    memcpy(both, first.at, first.size);
    memcpy(both + first.size, second.at + skip, second.size - skip);
    token = mrt_vocab_find(&t->vocab, both, n);
  }
  if (token < 0)
    return mrt_source_fail(
        s, MRT_EDATA, "merge %d, '%.*s %.*s', is not two tokens that make one",
        rank + 1, (int)(first.size < 40 ? first.size : 40), first.at,
        (int)(second.size < 40 ? second.size : 40), second.at);
  const char *wrong = mrt_merges_put(&t->bpe.merges, a, b, rank, token);
  return wrong ? mrt_source_fail(s, MRT_EDATA, "%s", wrong) : MRT_OK;
}

/* "first second"; what has another space is no merge. */
static mrt_status add_line(mrt_tokenizer *t, mrt_source *s, mrt_slice line,
                           int32_t rank) {
  const char *space = memchr(line.at, ' ', line.size);
  size_t n = space ? (size_t)(space - line.at) : 0;
  mrt_slice first = { line.at, n };
  mrt_slice second = { line.at + n + 1, space ? line.size - n - 1 : 0 };
  if (!space || memchr(second.at, ' ', second.size))
    return mrt_source_fail(
        s, MRT_EDATA, "merge %d, '%.*s', is not two tokens that make one",
        rank + 1, (int)(line.size < 80 ? line.size : 80), line.at);
  return add_merge(t, s, first, second, rank);
}

mrt_status mrt_read_merge_lines(mrt_tokenizer *t, mrt_source *s,
                                mrt_slice text) {
  const char *p = text.at, *end = p + text.size;
  size_t lines = 1;
  int32_t rank = 0;
  for (const char *q = p; q < end; q++) lines += *q == '\n';
  if (mrt_merges_make(&t->bpe.merges, &t->arena, lines))
    return mrt_nomem(&t->ctx->error);
  while (p < end) {
    const char *stop = memchr(p, '\n', (size_t)(end - p));
    mrt_slice line = { p, (size_t)((stop ? stop : end) - p) };
    p = stop ? stop + 1 : end;
    if (line.size && line.at[line.size - 1] == '\r') line.size--;
    if (line.size == 0 ||
        (line.size >= 8 && memcmp(line.at, "#version", 8) == 0))
      continue;
    MRT_TRY(add_line(t, s, line, rank++));
  }
  return MRT_OK;
}

/* One of [["a", "b"], ...] or ["a b", ...]. */
static mrt_status read_merge(mrt_tokenizer *t, mrt_source *s, mrt_scan *p,
                             char *room, int32_t rank) {
  size_t n, m;
  if (!mrt_scan_is(p, '[')) {
    if (!mrt_scan_string(p, room, &n)) return broken(s, "merges");
    return add_line(t, s, (mrt_slice){ room, n }, rank);
  }
  if (!mrt_scan_string(p, room, &n) || !mrt_scan_is(p, ',') ||
      !mrt_scan_string(p, room + n, &m) || !mrt_scan_is(p, ']'))
    return broken(s, "merges");
  return add_merge(t, s, (mrt_slice){ room, n }, (mrt_slice){ room + n, m },
                   rank);
}

static mrt_status count_merges(mrt_source *s, mrt_slice text, size_t *count) {
  mrt_scan p = { text.at, text.at + text.size };
  size_t values = 0;
  *count = 0;
  if (!mrt_scan_is(&p, '[')) return broken(s, "merges");
  if (mrt_scan_is(&p, ']')) return MRT_OK;
  do {
    if (!mrt_scan_skip(&p, &values)) return broken(s, "merges");
    ++*count;
  } while (mrt_scan_is(&p, ','));
  if (*count > MRT_MOST_TOKENS) return broken(s, "merges");
  return mrt_scan_is(&p, ']') ? MRT_OK : broken(s, "merges");
}

mrt_status mrt_read_merges(mrt_tokenizer *t, mrt_source *s, mrt_slice text) {
  size_t count;
  MRT_TRY(count_merges(s, text, &count));
  if (mrt_merges_make(&t->bpe.merges, &t->arena, count))
    return mrt_nomem(&t->ctx->error);
  char *room = mrt_calloc(t->ctx->allocator, text.size + 1, 1);
  if (!room) return mrt_nomem(&t->ctx->error);
  mrt_scan p = { text.at, text.at + text.size };
  mrt_status status = MRT_OK;
  (void)mrt_scan_is(&p, '[');
  for (size_t i = 0; i < count && !status; i++, (void)mrt_scan_is(&p, ','))
    status = read_merge(t, s, &p, room, (int32_t)i);
  mrt_release(t->ctx->allocator, room, text.size + 1);
  return status;
}

/* ---- tokens with scores -------------------------------------------------- */

/* One of [["token", score], ...]. */
static bool scored(mrt_scan *p, char *out, size_t *size, double *score) {
  return mrt_scan_is(p, '[') && mrt_scan_string(p, out, size) &&
         mrt_scan_is(p, ',') && mrt_scan_number(p, score) &&
         mrt_scan_is(p, ']');
}

mrt_status mrt_scores_make(mrt_tokenizer *t, int count) {
  mrt_unigram *u = &t->unigram;
  u->scores = MRT_NEW(&t->arena, double, count + 1);
  if (!u->scores || mrt_vocab_make(&t->vocab, &t->arena, count, count))
    return mrt_nomem(&t->ctx->error);
  return MRT_OK;
}

/* All tokens by their bytes; of equal ones the last. */
mrt_status mrt_scores_trie(mrt_tokenizer *t) {
  mrt_unigram *u = &t->unigram;
  size_t n = 0, room = (size_t)t->vocab.count + 1;
  mrt_trie_entry *e = mrt_calloc(t->ctx->allocator, room, sizeof *e);
  if (!e) return mrt_nomem(&t->ctx->error);
  for (int i = 0; i < t->vocab.count; i++)
    if (t->vocab.tokens[i].size && u->scores[i] == u->scores[i])
      e[n++] = (mrt_trie_entry){ t->vocab.tokens[i], i };
  mrt_status status = mrt_trie_make(&u->trie, &t->arena, &t->ctx->error, e, n);
  mrt_release(t->ctx->allocator, e, room * sizeof *e);
  return status;
}

mrt_status mrt_read_scores(mrt_tokenizer *t, mrt_source *s, mrt_slice text) {
  mrt_unigram *u = &t->unigram;
  size_t count;
  MRT_TRY(count_merges(s, text, &count));
  MRT_TRY(mrt_scores_make(t, (int)count));
  char *room = mrt_arena_alloc(&t->arena, text.size + 1, 1);
  if (!room) return mrt_nomem(&t->ctx->error);
  mrt_scan p = { text.at, text.at + text.size };
  (void)mrt_scan_is(&p, '[');
  for (size_t i = 0; i < count; i++, (void)mrt_scan_is(&p, ',')) {
    mrt_slice token = { room, 0 };
    if (!scored(&p, room, &token.size, &u->scores[i]))
      return broken(s, "vocab");
    room += token.size;
    const char *wrong =
        mrt_vocab_put(&t->vocab, token, (int64_t)i, MRT_TOKEN_AGAIN);
    if (wrong)
      return mrt_source_fail(s, MRT_EDATA, "vocab: token %zu: %s", i, wrong);
    if (i == 0 || u->scores[i] < u->least) u->least = u->scores[i];
  }
  return mrt_scores_trie(t);
}
