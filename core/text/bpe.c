/* bpe.c -- a word into the tokens that byte-pair encoding makes of it
 *
 * Its characters become tokens; then neighbours are merged (merge.c).  Where a
 * word is long, it is first cut at places that no token crosses, so that a text
 * that comes as one word, as sentencepiece's do, is still many short ones for
 * the cache and the merges.  A place is such where its two characters are
 * neighbours in no token.
 *
 * SPDX-License-Identifier: MIT */
#include "text/text.h"

#include <stdio.h>
#include <string.h>

/* ---- characters ---------------------------------------------------------- */

static int32_t token_of(const mrt_tokenizer *t, const char *p, size_t n) {
  if (n <= 2 && t->bpe.character) {
    size_t size;
    uint32_t c = mrt_utf8_get(p, &size);
    return t->bpe.character[c];
  }
  return mrt_vocab_find(&t->vocab, p, n);
}

/* The token of a character with what is written before those that do not begin
 * a word, and behind the last. */
static int32_t marked_token(mrt_tokenizer *t, const char *p, size_t n,
                            bool first, bool last) {
  const mrt_bpe *b = &t->bpe;
  char text[256];
  size_t before = first ? 0 : b->prefix.size, after = last ? b->suffix.size : 0;
  if (before + after == 0) return token_of(t, p, n);
  if (before + n + after > sizeof text) return -1;
  if (before) memcpy(text, b->prefix.at, before);
  memcpy(text + before, p, n);
  if (after) memcpy(text + before + n, b->suffix.at, after);
  return mrt_vocab_find(&t->vocab, text, before + n + after);
}

static bool all_bytes(const mrt_bpe *b, const char *p, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (b->byte[(uint8_t)p[i]] < 0) return false;
  return true;
}

/* What stands for a character without a token. */
static mrt_status put_unknown(mrt_tokenizer *t, mrt_merging *m, const char *p,
                              size_t n, bool *unknown) {
  const mrt_bpe *b = &t->bpe;
  if (b->byte_fallback && all_bytes(b, p, n)) {
    for (size_t i = 0; i < n; i++)
      m->token[m->count++] = b->byte[(uint8_t)p[i]];
    return MRT_OK;
  }
  if (b->strict) {
    size_t size;
    int byte = mrt_byte_of_name(mrt_utf8_get(p, &size));
    return mrt_fail(&t->ctx->error, MRT_EVALUE,
                    "encode: byte 0x%02x is not in the vocabulary", byte);
  }
  if (b->unknown >= 0 && !(b->fuse_unknown && *unknown))
    m->token[m->count++] = b->unknown;
  *unknown = b->unknown >= 0;
  return MRT_OK;
}

/* Its characters as tokens.  *unknown: does what comes before end, and does
 * this end, in one that is not known? */
static mrt_status put_characters(mrt_tokenizer *t, const char *p, size_t size,
                                 bool first, bool last, bool *unknown) {
  mrt_merging *m = &t->merging;
  m->count = 0;
  MRT_TRY(mrt_merging_room(t->ctx, m, size));
  for (size_t i = 0, n; i < size; i += n) {
    n = mrt_utf8_length(p[i]);
    int32_t token =
        marked_token(t, p + i, n, first && i == 0, last && i + n == size);
    if (token >= 0) {
      m->token[m->count++] = token, *unknown = false;
    } else {
      MRT_TRY(put_unknown(t, m, p + i, n, unknown));
    }
  }
  return MRT_OK;
}

/* ---- words --------------------------------------------------------------- */

mrt_status mrt_bpe_word(mrt_tokenizer *t, const char *p, size_t n) {
  uint64_t hash;
  const int32_t *known;
  size_t count, before = t->ids.count;
  bool unknown = false;
  if (mrt_cache_get(&t->cache, p, n, &hash, &known, &count)) {
    MRT_TRY(mrt_ids_room(t->ctx, &t->ids, count));
    for (size_t i = 0; i < count; i++) t->ids.at[before + i] = known[i];
    t->ids.count += count;
    return MRT_OK;
  }
  int32_t whole = t->bpe.whole_words ? mrt_vocab_find(&t->vocab, p, n) : -1;
  if (whole >= 0) return mrt_ids_put(t->ctx, &t->ids, whole);
  MRT_TRY(put_characters(t, p, n, true, true, &unknown));
  MRT_TRY(mrt_merge_all(t->ctx, &t->bpe.merges, &t->merging, &t->ids));
  mrt_cache_put(t->ctx, &t->cache, p, n, hash, t->ids.at + before,
                t->ids.count - before);
  return MRT_OK;
}

mrt_status mrt_bpe_prepare(mrt_tokenizer *t) {
  mrt_bpe *b = &t->bpe;
  char text[8];
  b->character = MRT_NEW(&t->arena, int32_t, MRT_CHARACTERS);
  if (!b->character) return mrt_nomem(&t->ctx->error);
  for (uint32_t c = 0; c < MRT_CHARACTERS; c++) {
    size_t n = mrt_utf8_put(c, text);
    b->character[c] = mrt_vocab_find(&t->vocab, text, n);
  }
  for (int i = 0; i < 256; i++) {
    snprintf(text, sizeof text, "<0x%02X>", (unsigned)i);
    b->byte[i] = mrt_vocab_find(&t->vocab, text, 6);
  }
  t->word = mrt_bpe_word;
  return MRT_OK;
}
