/* open.c -- tokenizers from files, and what other files add to them
 *
 * SPDX-License-Identifier: MIT */
#include "text/json.h"
#include "text/normal.h"

#include <string.h>

static bool is_json(const mrt_source *s) {
  size_t i = 0;
  while (i < s->bytes.size && strchr(" \n\r\t", s->bytes.data[i]) &&
         s->bytes.data[i])
    i++;
  return i < s->bytes.size && s->bytes.data[i] == '{';
}

static mrt_status read_source(mrt_context *ctx, mrt_source *s,
                              const char *pattern, mrt_tokenizer **out) {
  mrt_tokenizer *t;
  MRT_TRY(mrt_source_hold(s));
  MRT_TRY(mrt_tokenizer_new(ctx, &t));
  mrt_status status = is_json(s)           ? mrt_read_tokenizer_json(t, s)
                      : mrt_is_tiktoken(s) ? mrt_read_tiktoken(t, s, pattern)
                                           : mrt_read_sentencepiece(t, s);
  if (!status) status = mrt_tokenizer_prepare(t);
  if (status) return mrt_tokenizer_free(t), status;
  *out = t;
  return MRT_OK;
}

MRT_API mrt_status mrt_tokenizer_open(mrt_context *ctx, const char *path,
                                      const char *pattern,
                                      mrt_tokenizer **out) {
  mrt_source *s;
  MRT_TRY(mrt_source_of(ctx, path, &s));
  mrt_status status = read_source(ctx, s, pattern, out);
  mrt_source_free(s);
  return status;
}

MRT_API mrt_status mrt_tokenizer_from(mrt_context *ctx, const char *path,
                                      const void *data, size_t size,
                                      const char *pattern,
                                      mrt_tokenizer **out) {
  mrt_source s = { .ctx = ctx,
                   .path = path,
                   .bytes = { data ? data : "", size, -1, 0 } };
  return read_source(ctx, &s, pattern, out);
}

/* ---- what other files add ------------------------------------------------ */

static mrt_status check_extra(const mrt_tokenizer *t,
                              const mrt_extra_token *k) {
  size_t size;
  const char *name = mrt_tokenizer_token(t, k->id, &size);
  if (k->id < 0 || k->id >= MRT_MOST_TOKENS || !k->size ||
      k->size > MRT_LONGEST_TOKEN ||
      mrt_utf8_valid(k->content, k->size) < k->size)
    return mrt_fail(&t->ctx->error, MRT_EVALUE,
                    "a token with an id below %d wanted", MRT_MOST_TOKENS);
  if (name && (size != k->size || memcmp(name, k->content, size) != 0))
    return mrt_fail(&t->ctx->error, MRT_EVALUE,
                    "'%.*s' cannot have id %d, which is that of '%.*s'",
                    (int)(k->size < 80 ? k->size : 80), k->content, k->id,
                    (int)(size < 80 ? size : 80), name);
  return MRT_OK;
}

/* Tokens as they were in `was`; what was made since stays in the arena. */
static void restore(mrt_tokenizer *t, const mrt_tokenizer *was) {
  mrt_added *a = &t->added;
  *a = was->added, t->count = was->count;
  t->names = was->names, t->special = was->special, t->said = was->said;
  for (int i = 0; i < a->count; i++)
    if (a->list[i].replaced > a->count) a->list[i].replaced = 0;
}

/* Put it in the list, in place of one that is there; `at`: by id. */
static mrt_status put_extra(mrt_tokenizer *t, const mrt_extra_token *k,
                            const int *at) {
  mrt_added_token a = { .content = { k->content, k->size },
                        .id = k->id,
                        .special = k->special,
                        .lstrip = k->lstrip,
                        .rstrip = k->rstrip,
                        .single_word = k->single_word,
                        .normalized = k->normalized };
  MRT_TRY(mrt_added_put(t, &a));
  if (k->id < t->count && at[k->id])
    t->added.list[at[k->id] - 1].replaced = t->added.count;
  return MRT_OK;
}

MRT_API mrt_status mrt_tokenizer_add(mrt_tokenizer *t,
                                     const mrt_extra_token *tokens, int count) {
  mrt_context *ctx = t->ctx;
  mrt_tokenizer was = *t;
  int before = t->added.count;
  size_t bytes = ((size_t)t->count + 1) * sizeof(int);
  for (int i = 0; i < count; i++) MRT_TRY(check_extra(t, &tokens[i]));
  int *at = mrt_calloc(ctx->allocator, 1, bytes);
  if (!at) return mrt_nomem(&ctx->error);
  for (int i = 0; i < before; i++) at[t->added.list[i].id] = i + 1;
  mrt_status status = MRT_OK;
  for (int i = 0; i < count && !status; i++)
    status = put_extra(t, &tokens[i], at);
  mrt_release(ctx->allocator, at, bytes);
  if (!status) status = mrt_tokenizer_prepare(t);
  if (status) restore(t, &was);
  return status;
}

MRT_API mrt_status mrt_tokenizer_compose(mrt_tokenizer *t) {
  mrt_normalizer *n = mrt_tokenizer_normalizer(t);
  if (!n) return mrt_nomem(&t->ctx->error);
  n->apply = mrt_normalise_form, n->head = mrt_head_form, n->compose = true;
  return MRT_OK;
}

static mrt_status one_id(mrt_tokenizer *t, int id, mrt_id_list *l) {
  mrt_id_list made = { 0 };
  if (id >= 0) {
    made.at = MRT_NEW(&t->arena, int32_t, 1);
    if (!made.at) return mrt_nomem(&t->ctx->error);
    made.at[0] = id, made.count = 1;
  }
  *l = made;
  return MRT_OK;
}

MRT_API mrt_status mrt_tokenizer_enclose(mrt_tokenizer *t, int first,
                                         int last) {
  if (first >= t->count || last >= t->count)
    return mrt_fail(&t->ctx->error, MRT_EVALUE, "an id below %d wanted",
                    t->count);
  t->pair_count = 0;
  MRT_TRY(one_id(t, first, &t->before));
  return one_id(t, last, &t->after);
}
