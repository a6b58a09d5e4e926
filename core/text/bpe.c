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

enum { LONGEST_MARKED = 2 * MRT_LONGEST_MARK + 4 };

/* A character with what is written before those that do not begin a word, and
 * behind the last: in `room`, if there is any. */
static mrt_slice marked(const mrt_bpe *b, mrt_slice c, bool first, bool last,
                        char room[LONGEST_MARKED]) {
  size_t before = first ? 0 : b->prefix.size, after = last ? b->suffix.size : 0;
  if (before + after == 0) return c;
  if (before) memcpy(room, b->prefix.at, before);
  memcpy(room + before, c.at, c.size);
  if (after) memcpy(room + before + c.size, b->suffix.at, after);
  return (mrt_slice){ room, before + c.size + after };
}

static bool all_bytes(const mrt_bpe *b, mrt_slice c) {
  for (size_t i = 0; i < c.size; i++)
    if (b->byte[(uint8_t)c.at[i]] < 0) return false;
  return true;
}

/* What stands for a character without a token; one for what is unknown comes
 * behind the bytes that follow it. */
static mrt_status put_unknown(mrt_tokenizer *t, mrt_slice c, bool *unknown) {
  const mrt_bpe *b = &t->bpe;
  mrt_merging *m = &t->merging;
  if (b->byte_fallback && all_bytes(b, c)) {
    m->count -= *unknown;
    for (size_t i = 0; i < c.size; i++)
      m->token[m->count++] = b->byte[(uint8_t)c.at[i]];
    if (*unknown) m->token[m->count++] = b->unknown;
    return MRT_OK;
  }
  if (b->strict) {
    size_t size;
    int byte = mrt_byte_of_name(mrt_utf8_get(c.at, &size));
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
  char room[LONGEST_MARKED];
  size_t most = 1 + (t->bpe.byte_fallback ? t->bpe.prefix.size : 0);
  m->count = 0;
  if (size > SIZE_MAX / 2 / most) return mrt_nomem(&t->ctx->error);
  MRT_TRY(mrt_merging_room(t->ctx, m, most * size + t->bpe.suffix.size));
  for (size_t i = 0, n; i < size; i += n) {
    int32_t kept =
        t->bpe.kept ? mrt_trie_longest(t->bpe.kept, p + i, size - i, &n) : -1;
    if (kept >= 0) {
      m->token[m->count++] = kept, *unknown = false;
      continue;
    }
    n = mrt_utf8_length(p[i]);
    mrt_slice c = marked(&t->bpe, (mrt_slice){ p + i, n }, first && i == 0,
                         last && i + n == size, room);
    int32_t token = c.at == room ? mrt_vocab_find(&t->vocab, c.at, c.size)
                                 : token_of(t, c.at, c.size);
    if (token >= 0) {
      m->token[m->count++] = token, *unknown = false;
    } else {
      MRT_TRY(put_unknown(t, c, unknown));
    }
  }
  return MRT_OK;
}

/* ---- places that no token crosses ---------------------------------------- */

enum { PAIRS = 1 << 20, LONG = 48 };

static size_t pair_of(uint32_t a, uint32_t b) {
  return (a * 0x9e3779b1u ^ (b * 0x85ebca6bu >> 3)) >> 12;
}

static bool is_pair(const mrt_bpe *b, uint32_t first, uint32_t second) {
  size_t i = pair_of(first, second);
  return b->pairs[i / 8] >> i % 8 & 1;
}

static void add_pairs(mrt_bpe *b, mrt_slice token) {
  uint32_t before = 0;
  for (size_t i = 0, n; i < token.size; i += n) {
    uint32_t c = mrt_utf8_get(token.at + i, &n);
    size_t k = pair_of(before, c);
    if (i) b->pairs[k / 8] |= (uint8_t)(1 << k % 8);
    before = c;
  }
}

/* The end of the part of a word that begins at `from`.  What is left out, being
 * unknown, brings its neighbours together. */
static size_t next_cut(mrt_tokenizer *t, const char *p, size_t n, size_t from) {
  const mrt_bpe *b = &t->bpe;
  size_t size, last = from;
  uint32_t before = mrt_utf8_get(p + from, &size);
  for (size_t i = from + size; i < n; i += size) {
    uint32_t c = mrt_utf8_get(p + i, &size);
    if (!is_pair(b, before, c) &&
        (b->unknown >= 0 || (token_of(t, p + last, i - last) >= 0 &&
                             token_of(t, p + i, size) >= 0)))
      return i;
    before = c, last = i;
  }
  return n;
}

/* ---- words --------------------------------------------------------------- */

/* A word, or a part of one that ended in something unknown. */
static mrt_status encode_part(mrt_tokenizer *t, const char *p, size_t n,
                              bool after_unknown) {
  const mrt_bpe *b = &t->bpe;
  uint64_t hash;
  const int32_t *known;
  size_t count, before = t->ids.count;
  bool unknown = false;
  if (mrt_cache_get(&t->cache, p, n, &hash, &known, &count)) {
    size_t skip = after_unknown && count && known[0] == b->unknown;
    MRT_TRY(mrt_ids_room(t->ctx, &t->ids, count));
    for (size_t i = skip; i < count; i++) t->ids.at[t->ids.count++] = known[i];
    return MRT_OK;
  }
  MRT_TRY(put_characters(t, p, n, true, true, &unknown));
  MRT_TRY(mrt_merge_all(t->ctx, &b->merges, &t->merging, &t->ids));
  count = t->ids.count - before;
  mrt_cache_put(t->ctx, &t->cache, p, n, hash, t->ids.at + before, count);
  if (after_unknown && count && t->ids.at[before] == b->unknown) {
    memmove(t->ids.at + before, t->ids.at + before + 1,
            (count - 1) * sizeof *t->ids.at);
    t->ids.count--;
  }
  return MRT_OK;
}

mrt_status mrt_bpe_word(mrt_tokenizer *t, const char *p, size_t n) {
  const mrt_bpe *b = &t->bpe;
  int32_t whole = b->whole_words ? mrt_vocab_find(&t->vocab, p, n) : -1;
  if (whole >= 0) return mrt_ids_put(t->ctx, &t->ids, whole);
  if (n <= LONG || !b->pairs) return encode_part(t, p, n, false);
  size_t first = t->ids.count;
  for (size_t i = 0, end; i < n; i = end) {
    end = next_cut(t, p, n, i);
    bool after_unknown = b->fuse_unknown && b->unknown >= 0 &&
                         t->ids.count > first &&
                         t->ids.at[t->ids.count - 1] == b->unknown;
    MRT_TRY(encode_part(t, p + i, end - i, after_unknown));
  }
  return MRT_OK;
}

/* Can words be cut?  Not where what is written before or behind a character says
 * where in a word it is, nor where tokens for bytes or for what is unknown are
 * merged. */
static bool may_cut(const mrt_tokenizer *t) {
  const mrt_bpe *b = &t->bpe;
  if (b->prefix.size || b->suffix.size || b->whole_words) return false;
  for (size_t i = 0; i <= b->merges.mask; i++) {
    const mrt_merge *m = &b->merges.slots[i];
    int32_t first = (int32_t)((m->key - 1) >> 32),
            second = (int32_t)(m->key - 1);
    if (!m->key) continue;
    if (b->unknown >= 0 &&
        (first == b->unknown || second == b->unknown || m->token == b->unknown))
      return false;
    for (int k = 0; b->byte_fallback && k < 256; k++)
      if (first == b->byte[k] || second == b->byte[k]) return false;
  }
  return true;
}

static mrt_status find_pairs(mrt_tokenizer *t) {
  mrt_bpe *b = &t->bpe;
  if (!b->merges.slots || !may_cut(t)) return MRT_OK;
  b->pairs = MRT_NEW(&t->arena, uint8_t, PAIRS / 8);
  if (!b->pairs) return mrt_nomem(&t->ctx->error);
  for (size_t i = 0; i <= b->merges.mask; i++)
    if (b->merges.slots[i].key)
      add_pairs(b, t->vocab.tokens[b->merges.slots[i].token]);
  for (int i = 0; b->kept && i < t->vocab.count; i++) {
    mrt_slice k = t->vocab.tokens[i];
    size_t n;
    if (k.size && mrt_trie_longest(b->kept, k.at, k.size, &n) == i)
      add_pairs(b, k);
  }
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
  return find_pairs(t);
}
