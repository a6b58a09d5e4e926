/* fold.c -- what depends on constants only?
 *
 *   needs   a captured graph
 *   method  A pointwise node whose inputs are uniform constants is computed on
 *           one element, with the kernel that would run it, and becomes a
 *           uniform constant itself.
 *   never   folds random numbers, or integers that a double cannot hold
 *
 * SPDX-License-Identifier: MIT */
#include "op/make.h"
#include "rewrite/rewrite.h"

#include <math.h>

typedef union element {
  float f32;
  double f64;
  int64_t i64;
  int32_t i32;
  uint8_t u8;
} element;

/* A 53-bit integer is exact in a double; 16-bit floats are left alone. */
static bool to_element(double k, mrt_dtype dtype, element *x) {
  switch (dtype) {
  case MRT_f32:
    return x->f32 = (float)k, true;
  case MRT_f64:
    return x->f64 = k, true;
  case MRT_i64:
    return fabs(k) < 0x1p53 ? x->i64 = (int64_t)k, true : false;
  case MRT_i32:
    return fabs(k) < 0x1p31 ? x->i32 = (int32_t)k, true : false;
  case MRT_u8:
    return k >= 0 && k < 256 ? x->u8 = (uint8_t)k, true : false;
  case MRT_bool:
    return x->u8 = k != 0, true;
  default:
    return false;
  }
}

static bool from_element(const element *x, mrt_dtype dtype, double *k) {
  switch (dtype) {
  case MRT_f32:
    return *k = x->f32, true;
  case MRT_f64:
    return *k = x->f64, true;
  case MRT_i64:
    return *k = (double)x->i64, fabs(*k) < 0x1p53;
  case MRT_i32:
    return *k = x->i32, true;
  case MRT_u8:
  case MRT_bool:
    return *k = x->u8, true;
  default:
    return false;
  }
}

static bool compute(const mrt_device *cpu, const mrt_node *n, double *k) {
  const mrt_run nothing = { 0 }; /* what is drawn is not folded */
  element in[4], out;
  mrt_block b = { .n = 1,
                  .out = &out,
                  .options = n->options,
                  .out_dtype = n->out[0]->type.dtype,
                  .run = &nothing };
  if (!(n->op->traits & MRT_POINTWISE) || (n->op->traits & MRT_RANDOM) ||
      mrt_node_is_update(n) || n->nin < 1 || n->nin > MRT_COUNT(b.in))
    return false;
  for (int i = 0; i < n->nin; i++) {
    double value;
    mrt_dtype dtype = n->in[i]->type.dtype;
    if (!mrt_value_uniform(n->in[i], &value) ||
        !to_element(value, dtype, &in[i]))
      return false;
    b.in[i] = &in[i], b.in_dtype = dtype;
  }
  cpu->kernel(cpu, n->op->number, mrt_node_real(n))->block(&b);
  return from_element(&out, b.out_dtype, k);
}

mrt_status mrt_pass_fold(mrt_rewrite *r) {
  mrt_graph *g = r->graph;
  for (int i = 0; i < g->node_count; i++) {
    mrt_node *n = g->nodes[i];
    double k;
    if (!compute(&g->ctx->cpu, n, &k)) continue;
    const mrt_type *t = &n->out[0]->type;
    mrt_full_options o = { .value = k, .dtype = t->dtype };
    o.shape.count = t->rank;
    for (int d = 0; d < t->rank; d++) o.shape.at[d] = t->dims[d];
    mrt_node *full =
        mrt_graph_node(g, mrt_ops[MRT_OP_full], 0, NULL, &o, 1, t, n->origin);
    if (!full) return mrt_nomem(&g->ctx->error);
    /* The value stays; only what computes it changes. */
    mrt_value *v = n->out[0];
    full->out[0] = v, v->node = full;
    g->nodes[i] = full;
  }
  return MRT_OK;
}
