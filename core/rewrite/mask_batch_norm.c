/* mask_batch_norm.c -- the gradient of a batch norm takes that of what follows it
 *
 *   needs   a captured graph, its dtypes final
 *   gives   batch_norm_grad_within(x, mean, rstd, dr, w, b) in place of
 *           batch_norm_grad(x, mean, rstd, dy, w), where dy is dr where the norm's
 *           result lies between two bounds, and 0 elsewhere: the gradient of a
 *           relu or hardtanh of it
 *   where   nobody else reads dy, the norm has w and b, and the device has the
 *           kernel
 *   why     dy is neither written nor read twice; what the activation gave is
 *           not needed for it
 *   method  One walk over gradients of batch norms; from dy back to the norm,
 *           through casts between its result's dtype and f32.  What nobody reads
 *           any more goes.
 *   never   changes a bit: the kernel computes the norm's result anew, rounded
 *           as it was
 *
 * SPDX-License-Identifier: MIT */
#include "op/batch_norm.h"
#include "op/make.h"
#include "op/piecewise.h"
#include "rewrite/rewrite.h"

#include <math.h>

typedef struct mask_finding {
  mrt_node *grad;         /* the batch_norm_grad */
  const mrt_node *norm;   /* and its batch_norm */
  mrt_value *dr;          /* the gradient of the activation's result */
  mrt_within_options way; /* its bounds */
} mask_finding;

static bool is(const mrt_value *v, int op) {
  return v->node && v->node->op->number == op;
}

/* What a cast from a narrow float to f32 reads. */
static mrt_value *source(mrt_value *v) {
  bool widens = is(v, MRT_OP_cast) && v->type.dtype == MRT_f32 &&
                mrt_is_narrow(v->node->in[0]->type.dtype);
  return widens ? v->node->in[0] : v;
}

/* What is rounded to `dtype` only, if at all, on its way to v. */
static mrt_value *rounded(mrt_value *v, mrt_dtype dtype) {
  while (is(v, MRT_OP_cast) &&
         (v->type.dtype == dtype || v->type.dtype == MRT_f32))
    v = v->node->in[0];
  return v;
}

/* Does v repeat a number? */
static bool repeats(const mrt_value *v, double *number) {
  while (v->node && v->node->op->view) v = v->node->in[0];
  if (!is(v, MRT_OP_full)) return false;
  *number = ((const mrt_full_options *)v->node->options)->value;
  return true;
}

/* The side of op(y, number); y comes of the activation's result. */
static mrt_value *compared(const mrt_value *v, int op, double *number) {
  bool yes = is(v, op) && repeats(v->node->in[1], number);
  return yes ? v->node->in[0] : NULL;
}

/* Small whole numbers are the same in all dtypes. */
static bool exact(double number, mrt_dtype dtype) {
  bool small = floor(number) == number && fabs(number) <= 8;
  return small || !mrt_is_narrow(dtype);
}

/* ---- finding ------------------------------------------------------------- */

/* The batch norm whose result `activation` reads, through casts.  To round what it
 * gives or what it reads is one, with bounds that are exact. */
static bool find_norm(mask_finding *f, const mrt_node *activation) {
  mrt_dtype dtype = f->way.dtype;
  const mrt_value *y = rounded(activation->in[0], dtype);
  const mrt_node *n = is(y, MRT_OP_batch_norm) ? y->node : NULL;
  mrt_value *const *in = f->grad->in;
  if (!n || y != n->out[0] || n->nin != 3 ||
      (y->type.dtype != dtype && y->type.dtype != MRT_f32))
    return false;
  f->norm = n;
  return in[1] == n->out[1] && in[2] == n->out[2] &&
         source(in[4]) == source(n->in[1]) && source(in[0]) == source(n->in[0]);
}

/* The activation whose result is compared; its bounds are those compared to. */
static bool find_bounds(mask_finding *f, const mrt_value *side) {
  mrt_within_options *o = &f->way;
  mrt_dtype narrow = side->type.dtype;
  for (const mrt_value *v = side; is(v, MRT_OP_cast); v = v->node->in[0])
    if (mrt_is_narrow(v->node->in[0]->type.dtype))
      narrow = v->node->in[0]->type.dtype;
  o->dtype = narrow;
  const mrt_value *r = rounded((mrt_value *)side, narrow);
  if (is(r, MRT_OP_relu))
    return o->high == INFINITY && o->low == 0 && find_norm(f, r->node);
  if (!is(r, MRT_OP_hardtanh)) return false;
  const mrt_hardtanh_options *h = r->node->options;
  return h->min_val == o->low && h->max_val == o->high && o->high < INFINITY &&
         exact(o->low, narrow) && exact(o->high, narrow) &&
         find_norm(f, r->node);
}

static bool find_condition(mask_finding *f, const mrt_value *c) {
  mrt_value *above, *below;
  f->way.high = INFINITY;
  if ((above = compared(c, MRT_OP_gt, &f->way.low)))
    return find_bounds(f, above);
  if (!is(c, MRT_OP_logical_and)) return false;
  mrt_value *const *in = c->node->in;
  for (int i = 0; i < 2; i++) {
    above = compared(in[i], MRT_OP_gt, &f->way.low);
    below = compared(in[!i], MRT_OP_lt, &f->way.high);
    if (above && below)
      return source(above) == source(below) && find_bounds(f, above);
  }
  return false;
}

static bool find(mask_finding *f, mrt_node *n) {
  double zero;
  *f = (mask_finding){ .grad = n };
  if (n->op->number != MRT_OP_batch_norm_grad || n->nin != 5) return false;
  const mrt_value *dy = n->in[3];
  if (!is(dy, MRT_OP_where) || dy->uses > 1) return false;
  mrt_value *const *in = dy->node->in;
  f->dr = source(in[1]);
  return repeats(in[2], &zero) && zero == 0 && find_condition(f, in[0]);
}

/* ---- replacing ----------------------------------------------------------- */

/* One reader fewer; what has none goes. */
static void leave(mrt_value *v) {
  mrt_node *n = v->node;
  if (--v->uses > 0 || !n || n->nout > 1) return;
  n->dead = true;
  for (int i = 0; i < n->nin; i++) leave(n->in[i]);
}

static bool has_kernel(const mrt_graph *g, const mrt_node *n) {
  const mrt_device *d = &g->ctx->device;
  return d->kernel(d, n->op->number, mrt_node_real(n));
}

static mrt_status replace(mrt_graph *g, const mask_finding *f) {
  mrt_node *n = f->grad, old = *n;
  mrt_value **in = MRT_NEW(&g->arena, mrt_value *, 6);
  mrt_within_options *o = MRT_NEW(&g->arena, mrt_within_options, 1);
  if (!in || !o) return mrt_nomem(&g->ctx->error);
  for (int i = 0; i < 5; i++) in[i] = n->in[i];
  in[0] = source(in[0]), in[3] = f->dr, in[5] = f->norm->in[2], *o = f->way;
  n->op = mrt_ops[MRT_OP_batch_norm_grad_within], n->label = n->op->name;
  n->options = o, n->in = in, n->nin = 6;
  if (!has_kernel(g, n)) return *n = old, MRT_OK;
  in[0]->uses++, in[3]->uses++, in[5]->uses++;
  leave(old.in[0]), leave(old.in[3]);
  return MRT_OK;
}

mrt_status mrt_pass_mask_batch_norm(mrt_rewrite *r) {
  mrt_graph *g = r->graph;
  if (!mrt_rewrite_for_cpu(r)) return MRT_OK;
  mrt_graph_count_uses(g);
  for (int i = 0; i < g->node_count; i++) {
    mask_finding f;
    if (find(&f, g->nodes[i])) MRT_TRY(replace(g, &f));
  }
  mrt_graph_sweep(g);
  return MRT_OK;
}
