/* spm_model.c -- sentencepiece's pieces as a model
 *
 * In its unigram model a symbol of the user has so good a score that it is always
 * chosen; sums are floats.  In its byte-pair encoding two neighbours become the
 * piece that they are together, the piece with the best score first: as merges,
 * every way to cut a piece in two others.
 *
 *   from  sentencepiece, src/unigram_model.cc, src/bpe_model.cc
 *
 * SPDX-License-Identifier: MIT */
#include "text/json.h"
#include "text/sentencepiece.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- unigram ------------------------------------------------------------- */

/* What users define wins against nearly all else: as sentencepiece 0.2.3 has it
 * (before, so many times the largest score as it has bytes, less 0.1). */
#define USER_SCORE 0.1

mrt_status mrt_spm_unigram(mrt_tokenizer *t, const mrt_spm *m,
                           int32_t unknown) {
  mrt_unigram *u = &t->unigram;
  float least = INFINITY;
  u->scores = MRT_NEW(&t->arena, double, m->count + 1);
  if (!u->scores) return mrt_nomem(&t->ctx->error);
  for (int i = 0; i < m->count; i++) {
    if (m->pieces[i].type != MRT_SPM_NORMAL) continue;
    least = fminf(least, m->pieces[i].score);
  }
  if (least == INFINITY) least = 0;
  for (int i = 0; i < m->count; i++) {
    const mrt_spm_piece *p = &m->pieces[i];
    u->scores[i] = p->type == MRT_SPM_NORMAL ? (double)p->score
                   : p->type == MRT_SPM_USER ? USER_SCORE
                                             : NAN;
  }
  u->least = least, u->unknown = unknown;
  u->byte_fallback = m->byte_fallback, u->single = true;
  MRT_TRY(mrt_scores_trie(t));
  return mrt_unigram_prepare(t);
}

/* ---- byte-pair encoding -------------------------------------------------- */

static int by_score(const void *p, const void *q) {
  float a = *(const float *)p, b = *(const float *)q;
  return (a < b) - (a > b);
}

/* Where a score stands among all, the best first; equal ones stand together. */
static int32_t rank_of(const float *scores, int count, float score) {
  int low = 0, high = count;
  while (low < high) {
    int middle = (low + high) / 2;
    if (scores[middle] > score)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static bool is_part(const mrt_spm *m, int32_t id) {
  return id >= 0 && m->pieces[id].type == MRT_SPM_NORMAL;
}

/* Count, or with `scores` add, the ways to cut all pieces. */
static mrt_status cut_pieces(mrt_tokenizer *t, mrt_source *s, const mrt_spm *m,
                             const float *scores, size_t *count) {
  *count = 0;
  for (int i = 0; i < m->count; i++) {
    mrt_slice k = m->pieces[i].text;
    if (m->pieces[i].type != MRT_SPM_NORMAL) continue;
    int32_t rank = scores ? rank_of(scores, m->count, m->pieces[i].score) : 0;
    size_t most = k.size < 1024 ? k.size : 0;
    for (size_t at = 0; at < most; at += mrt_utf8_length(k.at[at])) {
      if (at == 0) continue;
      int32_t a = mrt_vocab_find(&t->vocab, k.at, at);
      int32_t b = mrt_vocab_find(&t->vocab, k.at + at, k.size - at);
      if (!is_part(m, a) || !is_part(m, b)) continue;
      ++*count;
      if (!scores) continue;
      const char *wrong = mrt_merges_put(&t->bpe.merges, a, b, rank, i);
      if (wrong) return mrt_source_fail(s, MRT_EDATA, "%s", wrong);
    }
  }
  return MRT_OK;
}

/* Symbols of the user are found in a word before anything else. */
static mrt_status add_kept(mrt_tokenizer *t, const mrt_spm *m) {
  size_t n = 0, room = (size_t)m->count;
  mrt_trie_entry *e = mrt_calloc(t->ctx->allocator, room, sizeof *e);
  if (!e) return mrt_nomem(&t->ctx->error);
  for (int i = 0; i < m->count; i++)
    if (m->pieces[i].type == MRT_SPM_USER)
      e[n++] = (mrt_trie_entry){ m->pieces[i].text, i };
  mrt_status status = MRT_OK;
  mrt_trie *trie = n ? MRT_NEW(&t->arena, mrt_trie, 1) : NULL;
  if (n && !trie) status = mrt_nomem(&t->ctx->error);
  if (trie) status = mrt_trie_make(trie, &t->arena, &t->ctx->error, e, n);
  t->bpe.kept = trie;
  mrt_release(t->ctx->allocator, e, room * sizeof *e);
  return status;
}

mrt_status mrt_spm_bpe(mrt_tokenizer *t, mrt_source *s, const mrt_spm *m,
                       int32_t unknown) {
  size_t count;
  for (int i = 0; i < m->count; i++)
    if (m->pieces[i].type == MRT_SPM_UNUSED)
      return mrt_source_fail(s, MRT_EDATA,
                             "piece %d: unused pieces of a model "
                             "of byte-pair encoding are not understood",
                             i);
  float *scores = MRT_NEW(&t->arena, float, m->count);
  if (!scores) return mrt_nomem(&t->ctx->error);
  for (int i = 0; i < m->count; i++) scores[i] = m->pieces[i].score;
  qsort(scores, (size_t)m->count, sizeof *scores, by_score);
  MRT_TRY(cut_pieces(t, s, m, NULL, &count));
  if (mrt_merges_make(&t->bpe.merges, &t->arena, count))
    return mrt_nomem(&t->ctx->error);
  MRT_TRY(cut_pieces(t, s, m, scores, &count));
  MRT_TRY(add_kept(t, m));
  t->bpe.unknown = unknown, t->bpe.fuse_unknown = true;
  t->bpe.byte_fallback = m->byte_fallback;
  return mrt_bpe_prepare(t);
}
