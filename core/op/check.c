/* check.c -- what a row says of itself, and the checks rows share
 *
 * SPDX-License-Identifier: MIT */
#include "op/op.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

MRT_API const char *mrt_cost_name(int kind) {
  static const char *const names[] = {
#define COST(name, doc) #name,
#include "mrt/costs.def"
#undef COST
  };
  return kind >= 0 && kind < MRT_COST_COUNT ? names[kind] : NULL;
}

MRT_API mrt_op_info mrt_op_get_info(const mrt_op *op) {
  return (mrt_op_info){
    .name = op->name,
    .doc = op->doc,
    .min_inputs = op->min_inputs,
    .max_inputs = op->max_inputs,
    .options = op->options,
    .option_count = op->option_count,
    .options_size = op->options_size,
    .updates = op->traits & MRT_UPDATES,
    .pointwise = op->traits & MRT_POINTWISE,
    .of_reals = op->traits & MRT_OF_REALS,
    .differentiable = op->grad,
    .random = op->traits & MRT_RANDOM,
    .collective = op->traits & MRT_COLLECTIVE,
    .internal = op->traits & (MRT_LIBRARY | MRT_INTERNAL | MRT_UPDATES),
    .cost = mrt_cost_name((int)op->cost),
  };
}

static void preset(const mrt_option *o, char *at) {
  int64_t integer = (int64_t)o->preset;
  mrt_dtype dtype = (mrt_dtype)(int)o->preset;
  int word = (int)o->preset;
  bool truth = o->preset != 0;
  mrt_ints none = { 0 };
  const struct {
    const void *data;
    size_t size;
  } of_kind[] = {
    [MRT_OPT_INT] = { &integer, sizeof integer },
    [MRT_OPT_NUM] = { &o->preset, sizeof o->preset },
    [MRT_OPT_BOOL] = { &truth, sizeof truth },
    [MRT_OPT_DIM] = { &integer, sizeof integer },
    [MRT_OPT_INDEX] = { &integer, sizeof integer },
    [MRT_OPT_DTYPE] = { &dtype, sizeof dtype },
    [MRT_OPT_ENUM] = { &word, sizeof word },
    [MRT_OPT_INTS] = { &none, sizeof none },
    [MRT_OPT_DIMS] = { &none, sizeof none },
    [MRT_OPT_HIDDEN] = { NULL, 0 },
  };
  if (of_kind[o->kind].size)
    memcpy(at + o->offset, of_kind[o->kind].data, of_kind[o->kind].size);
}

MRT_API void mrt_options_init(const mrt_op *op, void *options) {
  if (op->options_size) memset(options, 0, op->options_size);
  for (int i = 0; i < op->option_count; i++) preset(&op->options[i], options);
}

mrt_status mrt_refuse_(mrt_infer *c, mrt_status status, const char *fmt, ...) {
  char text[400];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  return mrt_fail(c->e, status, "%s: %s", c->op->name, text);
}

mrt_text mrt_show(const mrt_type *type) {
  mrt_text text;
  mrt_type_print(type, text.s, sizeof text.s);
  return text;
}

mrt_status mrt_want_real(mrt_infer *c, int i) {
  if (mrt_is_real(c->in[i]->dtype)) return MRT_OK;
  return mrt_refuse(c, MRT_EDTYPE, "input %d is %s, f32 or f64 wanted", i + 1,
                    mrt_show(c->in[i]).s);
}

mrt_status mrt_want_float(mrt_infer *c, int i) {
  if (mrt_is_float(c->in[i]->dtype)) return MRT_OK;
  return mrt_refuse(c, MRT_EDTYPE, "input %d is %s, floats wanted", i + 1,
                    mrt_show(c->in[i]).s);
}

mrt_status mrt_want_integer(mrt_infer *c, int i) {
  if (mrt_is_int(c->in[i]->dtype)) return MRT_OK;
  return mrt_refuse(c, MRT_EDTYPE, "input %d is %s, i64, i32 or u8 wanted",
                    i + 1, mrt_show(c->in[i]).s);
}

mrt_status mrt_want_dtype(mrt_infer *c, int i, mrt_dtype dtype) {
  if (c->in[i]->dtype == dtype) return MRT_OK;
  return mrt_refuse(c, MRT_EDTYPE, "input %d is %s, %s wanted", i + 1,
                    mrt_show(c->in[i]).s, mrt_dtype_name(dtype));
}

mrt_status mrt_want_same_dtype(mrt_infer *c, int a, int b) {
  if (c->in[a]->dtype == c->in[b]->dtype) return MRT_OK;
  return mrt_refuse(c, MRT_EDTYPE, "%s against %s, equal dtypes wanted",
                    mrt_show(c->in[a]).s, mrt_show(c->in[b]).s);
}

mrt_status mrt_want_same(mrt_infer *c, int a, int b) {
  MRT_TRY(mrt_want_same_dtype(c, a, b));
  if (mrt_type_same_shape(c->in[a], c->in[b])) return MRT_OK;
  return mrt_refuse(c, MRT_ESHAPE, "%s against %s, equal shapes wanted",
                    mrt_show(c->in[a]).s, mrt_show(c->in[b]).s);
}

mrt_status mrt_want_shape(mrt_infer *c, int i, int rank, const int64_t *dims,
                          const char *why) {
  mrt_type wanted = { .dtype = c->in[i]->dtype, .rank = rank };
  memcpy(wanted.dims, dims, (size_t)rank * sizeof *dims);
  if (mrt_type_same_shape(c->in[i], &wanted)) return MRT_OK;
  return mrt_refuse(c, MRT_ESHAPE, "input %d is %s, %s wanted (%s)", i + 1,
                    mrt_show(c->in[i]).s, mrt_show(&wanted).s, why);
}

/* Dims in messages are the caller's: 1-based, or negative as given. */
static long long shown(int64_t dim) { return dim < 0 ? dim : dim + 1; }

mrt_status mrt_want_dim(mrt_infer *c, int64_t *dim, int rank) {
  if (*dim < -rank || *dim >= rank)
    return mrt_refuse(c, MRT_EVALUE,
                      rank ? "dim %lld of %s, 1 to %d (or -%d to -1) wanted"
                           : "dim %lld of %s, which has no dimensions",
                      shown(*dim), mrt_show(c->in[0]).s, rank, rank);
  if (*dim < 0) *dim += rank;
  return MRT_OK;
}

mrt_status mrt_want_dims(mrt_infer *c, mrt_ints *dims, int rank) {
  bool chosen[MRT_MAX_RANK] = { false };
  for (int i = 0; i < dims->count; i++) {
    MRT_TRY(mrt_want_dim(c, &dims->at[i], rank));
    if (chosen[dims->at[i]])
      return mrt_refuse(c, MRT_EVALUE, "dim %lld is given twice",
                        shown(dims->at[i]));
    chosen[dims->at[i]] = true;
  }
  bool all = dims->count == 0;
  dims->count = 0;
  for (int i = 0; i < rank; i++)
    if (all || chosen[i]) dims->at[dims->count++] = i;
  return MRT_OK;
}

int64_t mrt_extent(const mrt_type *t, int from, int to) {
  int64_t n = 1;
  for (int i = from; i < to; i++) n *= t->dims[i];
  return n;
}

int mrt_shard_rules_same(const mrt_signature *s, int input, int dim) {
  return dim;
}
int mrt_shard_rules_first(const mrt_signature *s, int input, int dim) {
  return dim == 0 ? 0 : MRT_RULE_UNKNOWN;
}
