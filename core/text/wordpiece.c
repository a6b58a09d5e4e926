/* wordpiece.c -- a word into the longest tokens, from its left; whole words
 *
 * Tokens that do not begin a word are written with a prefix.  A word of which
 * some part is no token, or that is too long, is unknown as a whole.
 *
 *   from  Devlin et al. 2018 (arXiv:1810.04805), google-research/bert,
 *         tokenization.py
 *
 * SPDX-License-Identifier: MIT */
#include "text/text.h"

#include <string.h>

static mrt_status put_unknown(mrt_tokenizer *t, const char *p, size_t n) {
  if (t->wordpiece.unknown >= 0)
    return mrt_ids_put(t->ctx, &t->ids, t->wordpiece.unknown);
  return mrt_fail(&t->ctx->error, MRT_EVALUE,
                  "encode: '%.*s' is not in the vocabulary, which has nothing "
                  "for what is unknown",
                  (int)(n < 40 ? n : 40), p);
}

/* No more than so many characters? */
static bool is_short(const char *p, size_t n, int most) {
  int count = 0;
  for (size_t i = 0; i < n && count <= most; i += mrt_utf8_length(p[i]))
    count++;
  return count <= most;
}

static mrt_status put_pieces(mrt_tokenizer *t, const char *p, size_t n) {
  const mrt_wordpiece *w = &t->wordpiece;
  size_t before = t->ids.count;
  for (size_t at = 0, size; at < n; at += size) {
    int32_t token =
        mrt_trie_longest(at ? &w->other : &w->first, p + at, n - at, &size);
    if (token < 0) {
      t->ids.count = before;
      return put_unknown(t, p, n);
    }
    MRT_TRY(mrt_ids_put(t->ctx, &t->ids, token));
  }
  return MRT_OK;
}

mrt_status mrt_wordpiece_word(mrt_tokenizer *t, const char *p, size_t n) {
  if (!is_short(p, n, t->wordpiece.longest)) return put_unknown(t, p, n);
  return put_pieces(t, p, n);
}

mrt_status mrt_wordlevel_word(mrt_tokenizer *t, const char *p, size_t n) {
  int32_t token = mrt_vocab_find(&t->vocab, p, n);
  return token >= 0 ? mrt_ids_put(t->ctx, &t->ids, token)
                    : put_unknown(t, p, n);
}

/* ---- preparing ----------------------------------------------------------- */

/* Tokens as they begin a word, or those with the prefix, without it. */
static mrt_status make_trie(mrt_tokenizer *t, bool first, mrt_trie *trie) {
  mrt_slice prefix = t->wordpiece.prefix;
  size_t n = 0, room = (size_t)t->vocab.count + 1;
  mrt_trie_entry *e = mrt_calloc(t->ctx->allocator, room, sizeof *e);
  if (!e) return mrt_nomem(&t->ctx->error);
  for (int i = 0; i < t->vocab.count; i++) {
    mrt_slice k = t->vocab.tokens[i];
    if (!first) {
      bool has = k.size >= prefix.size &&
                 (!prefix.size || memcmp(k.at, prefix.at, prefix.size) == 0);
      if (!k.at || !has) continue;
      k.at += prefix.size, k.size -= prefix.size;
    }
    if (k.at && k.size) e[n++] = (mrt_trie_entry){ k, i };
  }
  mrt_status status = mrt_trie_make(trie, &t->arena, &t->ctx->error, e, n);
  mrt_release(t->ctx->allocator, e, room * sizeof *e);
  return status;
}

mrt_status mrt_wordpiece_prepare(mrt_tokenizer *t) {
  MRT_TRY(make_trie(t, true, &t->wordpiece.first));
  MRT_TRY(make_trie(t, false, &t->wordpiece.other));
  t->word = mrt_wordpiece_word;
  return MRT_OK;
}
