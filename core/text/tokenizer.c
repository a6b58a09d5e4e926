/* tokenizer.c -- a tokenizer's life, and what there is in it
 *
 * SPDX-License-Identifier: MIT */
#include "text/normal.h"

#include <string.h>

mrt_status mrt_tokenizer_new(mrt_context *ctx, mrt_tokenizer **out) {
  mrt_tokenizer *t = mrt_calloc(ctx->allocator, 1, sizeof *t);
  if (!t) return mrt_nomem(&ctx->error);
  t->ctx = ctx;
  t->bpe.unknown = t->unigram.unknown = t->wordpiece.unknown = -1;
  mrt_context_ref(ctx);
  mrt_arena_init(&t->arena, ctx->allocator);
  *out = t;
  return MRT_OK;
}

MRT_API void mrt_tokenizer_free(mrt_tokenizer *t) {
  if (!t) return;
  mrt_context *ctx = t->ctx;
  for (mrt_splitter *s = t->splitters; s; s = s->next) {
    mrt_pattern_free(s->pattern);
    mrt_chars_free(ctx, &s->room);
  }
  for (mrt_decoder *d = t->decoders; d; d = d->next)
    mrt_pattern_free(d->pattern);
  for (mrt_normalizer *n = t->normalizers; n; n = n->next)
    mrt_pattern_free(n->pattern);
  mrt_chars_free(ctx, &t->normal[0]);
  mrt_chars_free(ctx, &t->normal[1]);
  mrt_chars_free(ctx, &t->bert);
  mrt_chars_free(ctx, &t->accents);
  mrt_ids_free(ctx, &t->characters);
  mrt_ids_free(ctx, &t->head_characters);
  mrt_unigram_free(ctx, &t->unigram);
  mrt_cache_free(ctx, &t->cache);
  mrt_merging_free(ctx, &t->merging);
  mrt_ids_free(ctx, &t->ids);
  mrt_chars_free(ctx, &t->repaired);
  mrt_pieces_free(ctx, &t->pieces[0]);
  mrt_pieces_free(ctx, &t->pieces[1]);
  mrt_arena_free(&t->arena);
  mrt_release(ctx->allocator, t, sizeof *t);
  mrt_context_unref(ctx);
}

mrt_status mrt_tokenizer_prepare(mrt_tokenizer *t) {
  const mrt_added *a = &t->added;
  t->count = t->vocab.count;
  for (int i = 0; i < a->count; i++)
    if (a->list[i].id >= t->count) t->count = a->list[i].id + 1;
  for (size_t i = 0; i < t->before.count; i++)
    if (t->before.at[i] >= t->count) t->count = t->before.at[i] + 1;
  for (size_t i = 0; i < t->after.count; i++)
    if (t->after.at[i] >= t->count) t->count = t->after.at[i] + 1;
  for (size_t i = 0; i < t->pair_count; i++)
    if (t->pair[i].id >= t->count) t->count = t->pair[i].id + 1;
  t->names = MRT_NEW(&t->arena, mrt_slice, t->count + 1);
  t->special = MRT_NEW(&t->arena, bool, t->count + 1);
  t->said = MRT_NEW(&t->arena, mrt_slice, t->count + 1);
  if (!t->names || !t->special || !t->said) return mrt_nomem(&t->ctx->error);
  for (int i = 0; i < a->count; i++) {
    t->names[a->list[i].id] = a->list[i].content;
    t->special[a->list[i].id] = a->list[i].special;
  }
  return mrt_added_prepare(t);
}

/* ---- what there is ------------------------------------------------------- */

MRT_API int mrt_tokenizer_count(const mrt_tokenizer *t) { return t->count; }

MRT_API const char *mrt_tokenizer_token(const mrt_tokenizer *t, int id,
                                        size_t *size) {
  if (id < 0 || id >= t->count) return NULL;
  const mrt_slice *s = &t->names[id];
  if (!s->at && id < t->vocab.count) s = &t->vocab.tokens[id];
  *size = s->size;
  return s->at;
}

MRT_API int mrt_tokenizer_id(const mrt_tokenizer *t, const char *token,
                             size_t size) {
  const mrt_added *a = &t->added;
  for (int i = a->count; i-- > 0;)
    if (a->list[i].content.size == size &&
        memcmp(a->list[i].content.at, token, size) == 0)
      return a->list[i].id;
  return mrt_vocab_find(&t->vocab, token, size);
}

MRT_API size_t mrt_tokenizer_pair(const mrt_tokenizer *t,
                                  const mrt_pair_part **parts) {
  *parts = t->pair;
  return t->pair_count;
}

MRT_API mrt_truncation mrt_tokenizer_truncation(const mrt_tokenizer *t) {
  return (mrt_truncation){ t->most_ids, t->keep_last,
                           t->strategy ? t->strategy : "LongestFirst" };
}

MRT_API mrt_padding mrt_tokenizer_padding(const mrt_tokenizer *t) {
  return t->padding;
}

MRT_API bool mrt_tokenizer_is_bytes(const mrt_tokenizer *t) {
  return t->byte_level;
}

MRT_API bool mrt_tokenizer_is_special(const mrt_tokenizer *t, int id) {
  return id >= 0 && id < t->count && t->special[id];
}
