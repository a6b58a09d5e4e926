/* unigram.c -- the most likely tokens of a word
 *
 * Every token has a score, the logarithm of how often it is; the tokens with the
 * largest sum are found from left to right (Viterbi 1967): for each place, the
 * best way to it.  A character that no token is, is unknown, at the least score
 * less ten.  Time is the text's length times that of the longest tokens.
 *
 *   from  Kudo 2018 (arXiv:1804.10959); sentencepiece, src/unigram_model.cc
 *
 * SPDX-License-Identifier: MIT */
#include "text/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define UNKNOWN_PENALTY 10.0

static mrt_status make_room(mrt_tokenizer *t, size_t n) {
  mrt_unigram *u = &t->unigram;
  if (n < u->room) return MRT_OK;
  if (n > INT32_MAX / 2)
    return mrt_fail(&t->ctx->error, MRT_EVALUE,
                    "encode: a word of %zu bytes is too long", n);
  size_t room = n + n / 2 + 64;
  void *made = mrt_resize(t->ctx->allocator, u->best, u->room * sizeof *u->best,
                          room * sizeof *u->best);
  if (!made) return mrt_nomem(&t->ctx->error);
  u->best = made, u->room = room;
  return MRT_OK;
}

void mrt_unigram_free(mrt_context *ctx, mrt_unigram *u) {
  mrt_release(ctx->allocator, u->best, u->room * sizeof *u->best);
}

/* ---- the best way -------------------------------------------------------- */

/* sentencepiece's scores and sums are floats. */
static void offer(mrt_unigram *u, size_t from, size_t to, double score,
                  int32_t token) {
  double sum = score + u->best[from].score;
  if (u->single) sum = (double)((float)score + (float)u->best[from].score);
  mrt_best *b = &u->best[to];
  if (b->from >= 0 && !(sum > b->score)) return;
  *b = (mrt_best){ sum, (int32_t)from, token };
  if (to > u->reach) u->reach = to;
}

/* A float keeps few digits of what a long text adds up to: sentencepiece begins
 * anew from 0 where the sum has fallen below this. */
#define LOWEST_SUM (-100000.0)
static void begin_anew(mrt_unigram *u, size_t from) {
  double sum = u->best[from].score;
  if (!u->single || sum >= LOWEST_SUM) return;
  for (size_t i = from; i <= u->reach; i++)
    if (u->best[i].from >= 0)
      u->best[i].score = (double)(float)(u->best[i].score - sum);
}

static void step(mrt_unigram *u, const char *p, size_t n, size_t from) {
  size_t length = mrt_utf8_length(p[from]);
  int32_t node = 0;
  bool alone = false;
  begin_anew(u, from);
  for (size_t i = from; i < n; i++) {
    node = mrt_trie_next(&u->trie, node, (uint8_t)p[i]);
    if (node < 0) break;
    int32_t token = u->trie.value[node];
    if (token < 0) continue;
    offer(u, from, i + 1, u->scores[token], token);
    alone |= i + 1 - from == length;
  }
  if (!alone) offer(u, from, from + length, u->unknown_score, u->unknown);
}

/* ---- the way as ids ------------------------------------------------------ */

static bool all_bytes(const mrt_unigram *u, const char *p, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (u->byte[(uint8_t)p[i]] < 0) return false;
  return true;
}

/* Neighbours that are unknown are one. */
static mrt_status put_unknown(mrt_tokenizer *t, const char *p, size_t n) {
  const mrt_unigram *u = &t->unigram;
  int32_t whole = u->single ? -1 : mrt_vocab_find(&t->vocab, p, n);
  if (whole >= 0) return mrt_ids_put(t->ctx, &t->ids, whole);
  if (u->byte_fallback && all_bytes(u, p, n)) {
    for (size_t i = 0; i < n; i++)
      MRT_TRY(mrt_ids_put(t->ctx, &t->ids, u->byte[(uint8_t)p[i]]));
    return MRT_OK;
  }
  if (u->unknown >= 0) return mrt_ids_put(t->ctx, &t->ids, u->unknown);
  return mrt_fail(&t->ctx->error, MRT_EVALUE,
                  "encode: '%.*s' is not in the vocabulary, which has nothing "
                  "for what is unknown",
                  (int)(n < 40 ? n : 40), p);
}

/* The way is known from its end; turned round, `from` says where next is. */
static mrt_status put_way(mrt_tokenizer *t, const char *p, size_t n) {
  mrt_best *b = t->unigram.best;
  int32_t next = -1, unknown = t->unigram.unknown;
  for (int32_t at = (int32_t)n; at > 0;) {
    int32_t from = b[at].from;
    b[at].from = next, next = at, at = from;
  }
  for (int32_t at = 0, end = next; end > 0;) {
    int32_t token = b[end].token, after = b[end].from;
    if (token >= 0 && token != unknown) {
      MRT_TRY(mrt_ids_put(t->ctx, &t->ids, token));
    } else {
      while (after > 0 && (b[after].token < 0 || b[after].token == unknown))
        end = after, after = b[end].from;
      MRT_TRY(put_unknown(t, p + at, (size_t)(end - at)));
    }
    at = end, end = after;
  }
  return MRT_OK;
}

mrt_status mrt_unigram_word(mrt_tokenizer *t, const char *p, size_t n) {
  mrt_unigram *u = &t->unigram;
  uint64_t hash;
  const int32_t *known;
  size_t count, before = t->ids.count;
  if (mrt_cache_get(&t->cache, p, n, &hash, &known, &count)) {
    MRT_TRY(mrt_ids_room(t->ctx, &t->ids, count));
    for (size_t i = 0; i < count; i++) t->ids.at[before + i] = known[i];
    t->ids.count += count;
    return MRT_OK;
  }
  MRT_TRY(make_room(t, n));
  for (size_t i = 0; i <= n; i++) u->best[i] = (mrt_best){ 0, -1, -1 };
  u->reach = 0;
  for (size_t i = 0; i < n; i += mrt_utf8_length(p[i])) step(u, p, n, i);
  MRT_TRY(put_way(t, p, n));
  mrt_cache_put(t->ctx, &t->cache, p, n, hash, t->ids.at + before,
                t->ids.count - before);
  return MRT_OK;
}

mrt_status mrt_unigram_prepare(mrt_tokenizer *t) {
  mrt_unigram *u = &t->unigram;
  char text[8];
  u->unknown_score = u->least - UNKNOWN_PENALTY;
  for (int i = 0; i < 256; i++) {
    snprintf(text, sizeof text, "<0x%02X>", (unsigned)i);
    u->byte[i] = mrt_vocab_find(&t->vocab, text, 6);
  }
  t->word = mrt_unigram_word;
  return MRT_OK;
}
