/* tensor.c -- the life of tensors and expressions
 *
 * SPDX-License-Identifier: MIT */
#include "tensor/tensor.h"
#include "mrt/frontend.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

mrt_tensor *mrt_tensor_new(mrt_context *ctx, const mrt_type *type) {
  mrt_tensor *t = mrt_pool_calloc(&ctx->objects, ctx->allocator, sizeof *t);
  if (!t) return NULL;
  t->ctx = ctx, t->refs = 1, t->type = *type;
  t->id = ctx->next_id++;
  t->origin = ctx->origins.now;
  mrt_context_ref(ctx);
  return t;
}

void mrt_hold(mrt_tensor *t) { t->refs++; }

/* Put what computes `t` on the list if it does not wait for its inputs. */
static void want(mrt_tensor *t, mrt_expr **list) {
  mrt_expr *x = t->expr;
  if (!x || !x->computed || t->storage || t->variable) return;
  x->computed = false;
  x->next_wanted = *list;
  *list = x;
}

static void compute_again(mrt_tensor *t) {
  mrt_expr *list = NULL;
  want(t, &list);
  while (list) {
    mrt_expr *x = list;
    list = x->next_wanted;
    for (int i = 0; i < x->nin; i++) {
      x->in[i]->pending++;
      want(x->in[i], &list);
    }
  }
}

void mrt_tensor_await(mrt_tensor *t) {
  t->pending++;
  compute_again(t);
}

void mrt_tensor_release(mrt_tensor *t) {
  t->pending--;
  mrt_tensor_trim(t);
}

MRT_API void mrt_tensor_ref(mrt_tensor *t) {
  t->refs++, t->handles++;
  compute_again(t);
}

MRT_API void mrt_tensor_unref(mrt_tensor *t) {
  if (!t) return;
  if (--t->handles == 0) mrt_tensor_trim(t);
  mrt_drop(t);
}

static void forget_reader(mrt_variable *v, const mrt_expr *x) {
  for (int i = v->reader_count; i-- > 0;) /* the newest often goes first */
    if (v->readers[i] == x) {
      v->readers[i] = v->readers[--v->reader_count];
      return;
    }
}

void mrt_expr_computed(mrt_expr *x) {
  if (x->computed) return;
  x->computed = true;
  for (int i = 0; i < x->nin; i++) mrt_tensor_release(x->in[i]);
}

void mrt_expr_free(mrt_context *ctx, mrt_expr *x) {
  mrt_expr_computed(x);
  for (int i = 0; i < x->nin; i++) {
    if (x->in[i]->variable) forget_reader(x->in[i]->variable, x);
    mrt_drop(x->in[i]);
  }
  if (x->release) x->release(x->user);
  mrt_pool_release(&ctx->objects, ctx->allocator, x, x->bytes);
}

mrt_variable *mrt_variable_of(mrt_context *ctx, mrt_tensor *init) {
  mrt_variable *v = mrt_calloc(ctx->allocator, 1, sizeof *v);
  if (!v) return NULL;
  mrt_hold(init);
  mrt_tensor_await(init);
  v->init = init;
  return v;
}

void mrt_variable_started(mrt_variable *v) {
  mrt_tensor *init = v->init;
  if (!init) return;
  v->init = NULL;
  mrt_tensor_release(init);
  mrt_drop(init);
}

void mrt_variable_leave_bucket(mrt_tensor *t) {
  mrt_tensor *bucket = t->variable->bucket;
  mrt_variable *b = bucket->variable;
  for (int i = b->shard_count; i-- > 0;)
    if (b->shards[i] == t) b->shards[i] = b->shards[--b->shard_count];
  t->variable->bucket = NULL, t->variable->supposed = false;
  mrt_drop(bucket);
}

static void free_variable(mrt_tensor *t) {
  mrt_context *ctx = t->ctx;
  mrt_variable *v = t->variable;
  mrt_variable_started(v);
  mrt_drop(v->traced);
  if (v->bucket) mrt_variable_leave_bucket(t);
  mrt_release(ctx->allocator, v->shards,
              (size_t)v->shard_room * sizeof *v->shards);
  mrt_release(ctx->allocator, v->readers,
              (size_t)v->reader_room * sizeof *v->readers);
  mrt_release(ctx->allocator, v, sizeof *v);
}

static void free_tensor(mrt_tensor *t) {
  mrt_context *ctx = t->ctx;
  mrt_expr *x = t->expr;
  if (x) {
    x->out[t->index] = NULL;
    if (--x->live == 0) mrt_expr_free(ctx, x);
  }
  if (t->variable) free_variable(t);
  mrt_storage_unref(t->storage);
  if (t->name) mrt_release(ctx->allocator, t->name, strlen(t->name) + 1);
  mrt_pool_release(&ctx->objects, ctx->allocator, t, sizeof *t);
  mrt_context_unref(ctx);
}

/* Freeing one tensor may free what it was computed from, and so on: a queue
 * instead of recursion, for chains of any length. */
void mrt_drop(mrt_tensor *t) {
  if (!t || --t->refs > 0) return;
  mrt_context *ctx = t->ctx;
  t->next_dead = ctx->dead;
  ctx->dead = t;
  if (ctx->burying) return;
  mrt_context_ref(ctx);
  ctx->burying = true;
  while (ctx->dead) {
    mrt_tensor *next = ctx->dead;
    ctx->dead = next->next_dead;
    free_tensor(next);
  }
  ctx->burying = false;
  mrt_context_unref(ctx);
}

static bool add_reader(mrt_context *ctx, mrt_variable *v, mrt_expr *x) {
  if (v->reader_count == v->reader_room) {
    int room = v->reader_room ? v->reader_room * 2 : 8;
    mrt_expr **grown = mrt_resize(ctx->allocator, v->readers,
                                  (size_t)v->reader_room * sizeof *grown,
                                  (size_t)room * sizeof *grown);
    if (!grown) return false;
    v->readers = grown, v->reader_room = room;
  }
  v->readers[v->reader_count++] = x;
  return true;
}

/* An expression and its arrays in one block. */
static mrt_expr *alloc_expr(mrt_context *ctx, int nin, int nout,
                            size_t options_size) {
  enum { ALIGN = _Alignof(max_align_t) };
  size_t in = sizeof(mrt_expr), out = in + (size_t)nin * sizeof(mrt_tensor *);
  size_t types = out + (size_t)nout * sizeof(mrt_tensor *);
  size_t options = types + (size_t)nout * sizeof(mrt_type);
  options = (options + ALIGN - 1) / ALIGN * ALIGN;
  mrt_expr *x =
      mrt_pool_calloc(&ctx->objects, ctx->allocator, options + options_size);
  if (!x) return NULL;
  char *at = (char *)x;
  x->bytes = options + options_size;
  x->in = (mrt_tensor **)(at + in), x->out = (mrt_tensor **)(at + out);
  x->out_types = (mrt_type *)(at + types), x->options = at + options;
  return x;
}

mrt_expr *mrt_expr_new(mrt_context *ctx, const mrt_op *op, int nin,
                       mrt_tensor *const *in, const void *options,
                       size_t options_size, int nout, const mrt_type *types) {
  mrt_expr *x = alloc_expr(ctx, nin, nout, options_size);
  if (!x) return NULL;
  x->op = op, x->nout = nout, x->options_size = options_size;
  x->origin = ctx->origins.now, x->id = ctx->next_id++;
  x->traced = ctx->trace != NULL;
  memcpy(x->out_types, types, (size_t)nout * sizeof *types);
  if (options_size) memcpy(x->options, options, options_size);
  bool ok = true;
  for (int i = 0; ok && i < nin; i++) {
    x->in[x->nin++] = in[i];
    mrt_hold(in[i]);
    mrt_tensor_await(in[i]);
    if (in[i]->variable) ok = add_reader(ctx, in[i]->variable, x);
  }
  if (ok) return x;
  mrt_expr_free(ctx, x);
  return NULL;
}

mrt_tensor *mrt_expr_output(mrt_context *ctx, mrt_expr *x, int i) {
  if (x->out[i]) return mrt_hold(x->out[i]), x->out[i];
  mrt_tensor *t = mrt_tensor_new(ctx, &x->out_types[i]);
  if (!t) return NULL;
  t->expr = x, t->index = i, t->origin = x->origin;
  x->out[i] = t, x->live++;
  return t;
}

void mrt_tensor_trim(mrt_tensor *t) {
  if (t->handles || t->pending || !t->storage || !t->expr || t->variable)
    return;
  if (t->expr->stale || t->expr->once) return;
  mrt_storage_unref(t->storage);
  t->storage = NULL;
}

void mrt_tensor_resolve(mrt_tensor *t, mrt_storage *s) {
  mrt_storage_ref(s);
  mrt_storage_unref(t->storage);
  t->storage = s;
}

MRT_API uint64_t mrt_tensor_id(const mrt_tensor *t) { return t->id; }

MRT_API mrt_tensor *mrt_tensor_current(mrt_tensor *t) {
  return t->variable && t->variable->traced ? t->variable->traced : t;
}

static int by_id(const void *a, const void *b) {
  uint64_t p = (*(mrt_expr *const *)a)->id, q = (*(mrt_expr *const *)b)->id;
  return (p > q) - (p < q);
}

void mrt_exprs_sort(mrt_expr **list, int n) {
  if (n) qsort(list, (size_t)n, sizeof *list, by_id);
}

/* ---- leaves -------------------------------------------------------------- */

MRT_API mrt_status mrt_tensor_from(mrt_context *ctx, const mrt_type *type,
                                   const void *data, mrt_tensor **out) {
  MRT_TRY(mrt_type_check(type, "tensor", &ctx->error));
  mrt_storage *s;
  MRT_TRY(mrt_storage_new_apart(ctx, mrt_type_bytes(type), &s));
  mrt_tensor *t = mrt_tensor_new(ctx, type);
  if (!t) return mrt_storage_unref(s), mrt_nomem(&ctx->error);
  mrt_status status = mrt_storage_write(s, data, mrt_type_bytes(type));
  t->storage = s, t->handles = 1;
  if (status) return mrt_tensor_unref(t), status;
  *out = t;
  return MRT_OK;
}

MRT_API bool mrt_tensor_is_variable(const mrt_tensor *t) {
  return t->variable != NULL;
}

MRT_API const char *mrt_tensor_name(const mrt_tensor *t) { return t->name; }

MRT_API mrt_status mrt_tensor_set_name(mrt_tensor *t, const char *name) {
  size_t n = strlen(name) + 1;
  char *copy = mrt_calloc(t->ctx->allocator, n, 1);
  if (!copy) return mrt_nomem(&t->ctx->error);
  memcpy(copy, name, n);
  if (t->name) mrt_release(t->ctx->allocator, t->name, strlen(t->name) + 1);
  t->name = copy;
  return MRT_OK;
}

MRT_API const mrt_type *mrt_tensor_type(const mrt_tensor *t) {
  return &t->type;
}

MRT_API mrt_context *mrt_tensor_context(const mrt_tensor *t) { return t->ctx; }

MRT_API const char *mrt_tensor_origin(const mrt_tensor *t, int *line) {
  if (line) *line = t->origin.line;
  return t->origin.file;
}

MRT_API const void *mrt_tensor_data(const mrt_tensor *t) {
  if (!t->storage) return NULL;
  return t->ctx->device.remote ? t->storage->host : t->storage->data;
}

MRT_API mrt_status mrt_tensor_write(mrt_tensor *t, const void *data) {
  return mrt_storage_write(t->storage, data, mrt_type_bytes(&t->type));
}

MRT_API void mrt_tensor_leave(mrt_tensor *t) {
  if (t->storage) mrt_storage_drop_copy(t->storage);
}

MRT_API double mrt_tensor_number(const mrt_tensor *t, int64_t i) {
  return mrt_number_at(t->type.dtype, mrt_tensor_data(t), i);
}

MRT_API int64_t mrt_tensor_integer(const mrt_tensor *t, int64_t i) {
  return mrt_integer_at(t->type.dtype, mrt_tensor_data(t), i);
}
