/* tiktoken.c -- ranks in tiktoken's form: a token in base64, a space, its rank
 *
 * Of two neighbours those become one first whose bytes together have the least
 * rank; as merges, every way to cut a token in two others.  The files do not say
 * how texts are cut into words.
 *
 *   from  github.com/openai/tiktoken, tiktoken/load.py, src/lib.rs
 *
 * SPDX-License-Identifier: MIT */
#include "text/json.h"

#include <string.h>

enum { LARGEST = 1 << 28, LONGEST = 2048 };

/* One line; false: it is none.  An empty token is what nobody has. */
static bool read_line(mrt_slice line, char *bytes, size_t *size,
                      int64_t *rank) {
  const char *space = memchr(line.at, ' ', line.size);
  if (!space) return false;
  size_t n = (size_t)(space - line.at);
  if (n == 0 || n > LONGEST || !mrt_base64(line.at, n, bytes, size))
    return false;
  *rank = 0;
  const char *p = space + 1, *end = line.at + line.size;
  if (p == end || end - p > 8) return false;
  for (; p < end; p++) {
    if (*p < '0' || *p > '9') return false;
    *rank = *rank * 10 + *p - '0';
  }
  return *size > 0 && *rank < MRT_MOST_TOKENS;
}

/* The line from *at on. */
static mrt_slice next_line(const mrt_source *s, size_t *at) {
  const char *p = (const char *)s->bytes.data + *at;
  const char *stop = memchr(p, '\n', s->bytes.size - *at);
  size_t n = stop ? (size_t)(stop - p) : s->bytes.size - *at;
  *at += n + (stop != NULL);
  if (n && p[n - 1] == '\r') n--;
  return (mrt_slice){ p, n };
}

bool mrt_is_tiktoken(const mrt_source *s) {
  char bytes[LONGEST];
  size_t at = 0, size;
  int64_t rank;
  return s->bytes.size && read_line(next_line(s, &at), bytes, &size, &rank);
}

static mrt_status count_ranks(mrt_source *s, int *entries, int64_t *largest) {
  char bytes[LONGEST];
  size_t size;
  int64_t rank;
  *entries = 0, *largest = -1;
  for (size_t at = 0, number = 1; at < s->bytes.size; number++) {
    mrt_slice line = next_line(s, &at);
    if (line.size == 0) continue;
    if (!read_line(line, bytes, &size, &rank))
      return mrt_source_fail(s, MRT_EDATA,
                             "line %zu: a token in base64 and its "
                             "rank wanted",
                             number);
    if (rank > *largest) *largest = rank;
    ++*entries;
  }
  return MRT_OK;
}

static mrt_status add_ranks(mrt_tokenizer *t, mrt_source *s) {
  char bytes[LONGEST];
  size_t size;
  int64_t rank;
  mrt_chars *name = &t->normal[0];
  for (size_t at = 0, number = 1; at < s->bytes.size; number++) {
    mrt_slice line = next_line(s, &at);
    if (!read_line(line, bytes, &size, &rank)) continue;
    name->size = 0;
    MRT_TRY(mrt_bytes_name(t->ctx, name, bytes, size));
    mrt_slice token = mrt_slice_copy(&t->arena, name->at, name->size);
    if (!token.at) return mrt_nomem(&t->ctx->error);
    const char *wrong = mrt_vocab_put(&t->vocab, token, rank, MRT_TOKEN_ONCE);
    if (wrong)
      return mrt_source_fail(s, MRT_EDATA, "line %zu: %s", number, wrong);
  }
  return MRT_OK;
}

/* Count, or add, the ways to cut all tokens. */
static mrt_status cut_tokens(mrt_tokenizer *t, mrt_source *s, bool add,
                             size_t *count) {
  *count = 0;
  for (int i = 0; i < t->vocab.count; i++) {
    mrt_slice k = t->vocab.tokens[i];
    for (size_t at = 0; at < k.size; at += mrt_utf8_length(k.at[at])) {
      if (at == 0) continue;
      int32_t a = mrt_vocab_find(&t->vocab, k.at, at);
      int32_t b =
          a < 0 ? -1 : mrt_vocab_find(&t->vocab, k.at + at, k.size - at);
      if (b < 0) continue;
      ++*count;
      if (!add) continue;
      const char *wrong = mrt_merges_put(&t->bpe.merges, a, b, i, i);
      if (wrong) return mrt_source_fail(s, MRT_EDATA, "%s", wrong);
    }
  }
  return MRT_OK;
}

static mrt_status add_parts(mrt_tokenizer *t, mrt_source *s,
                            const char *pattern) {
  mrt_splitter *cut = mrt_tokenizer_splitter(t);
  mrt_splitter *name = cut ? mrt_tokenizer_splitter(t) : NULL;
  mrt_decoder *d = name ? mrt_tokenizer_decoder(t) : NULL;
  if (!d) return mrt_nomem(&t->ctx->error);
  cut->split = mrt_split_pattern, cut->behavior = MRT_SPLIT_REMOVED;
  cut->invert = true;
  name->split = mrt_split_bytes;
  d->decode = mrt_decode_bytes;
  t->byte_level = true;
  return mrt_pattern_make(t, s, (mrt_slice){ pattern, strlen(pattern) },
                          MRT_PATTERN_RUST, &cut->pattern);
}

mrt_status mrt_read_tiktoken(mrt_tokenizer *t, mrt_source *s,
                             const char *pattern) {
  int entries;
  int64_t largest;
  size_t count;
  if (!pattern)
    return mrt_source_fail(s, MRT_EDATA,
                           "ranks in tiktoken's form do not say "
                           "how texts are cut: a pattern is wanted");
  if (s->bytes.size > LARGEST)
    return mrt_source_fail(s, MRT_EDATA, "larger than any vocabulary");
  MRT_TRY(count_ranks(s, &entries, &largest));
  if (largest > 16 * ((int64_t)entries + 4096))
    return mrt_source_fail(s, MRT_EDATA, "%d tokens with ranks up to %d",
                           entries, (int)largest);
  if (mrt_vocab_make(&t->vocab, &t->arena, entries, (int)largest + 1))
    return mrt_nomem(&t->ctx->error);
  MRT_TRY(add_ranks(t, s));
  MRT_TRY(cut_tokens(t, s, false, &count));
  if (mrt_merges_make(&t->bpe.merges, &t->arena, count))
    return mrt_nomem(&t->ctx->error);
  MRT_TRY(cut_tokens(t, s, true, &count));
  MRT_TRY(add_parts(t, s, pattern));
  t->bpe.whole_words = t->bpe.strict = true;
  return mrt_bpe_prepare(t);
}
