/* watch.c -- looking at the data of a run: where does a NaN begin?
 *
 * A node makes a NaN if what it writes has one and what it reads has none; the
 * same with infinities.  A NaN among variables, inputs and constants is told
 * where it is read first; infinities there are taken as meant (masks).
 *
 * SPDX-License-Identifier: MIT */
#include "run/watch.h"
#include "base/dtype.h"

#include <math.h>

/* Bytes from the first element of an operand to the end of its last. */
static size_t extent(const mrt_operand *x) {
  int64_t last = 0;
  for (int d = 0; d < x->type.rank; d++)
    last += (x->type.dims[d] - 1) * x->strides[d];
  return (size_t)(last + 1) * mrt_dtypes[x->type.dtype].bytes;
}

static void each_here(const mrt_operand *x, const void *data,
                      void (*see)(void *user, double x), void *user) {
  int64_t at[MRT_MAX_RANK] = { 0 }, place = 0;
  int64_t count = mrt_type_count(&x->type);
  for (int64_t i = 0; i < count; i++) {
    see(user, mrt_number_at(x->type.dtype, data, place));
    for (int d = x->type.rank; d-- > 0;) {
      place += x->strides[d];
      if (++at[d] < x->type.dims[d]) break;
      place -= x->strides[d] * x->type.dims[d];
      at[d] = 0;
    }
  }
}

/* Call see(user, x) for every element of a float operand; for none where the
 * device cannot be read, which others tell, or no memory is left. */
static void each(const mrt_plan *plan, const mrt_operand *x,
                 void (*see)(void *user, double x), void *user) {
  const mrt_device *d = &plan->ctx->device;
  const mrt_allocator *a = plan->ctx->allocator;
  mrt_error ignored;
  if (!mrt_type_count(&x->type)) return;
  if (!d->remote) {
    each_here(x, x->data, see, user);
    return;
  }
  void *here = mrt_calloc(a, 1, extent(x));
  if (!here) return;
  if (!mrt_device_read(d, here, x->data, extent(x), 0, &ignored))
    each_here(x, here, see, user);
  mrt_release(a, here, extent(x));
}

static void note_kind(void *user, double x) {
  mrt_unusual *u = user;
  u->nan |= x != x;
  u->infinity |= fabs(x) == INFINITY;
}

static bool can_be(const mrt_operand *x) {
  return mrt_is_float(x->type.dtype) && x->data;
}

/* In the swap tier `data` is no address. */
static bool copies(const mrt_step *s) {
  return s->node->op->traits & (MRT_SWAPS | MRT_WAITS);
}

mrt_unusual mrt_watch_inputs(const mrt_plan *plan, const mrt_step *s) {
  const mrt_call *call = mrt_runner_call(plan, s);
  mrt_unusual u = { false, false };
  for (int k = 0; k < call->nin && !copies(s); k++)
    if (can_be(&call->in[k])) each(plan, &call->in[k], note_kind, &u);
  return u;
}

static bool is_leaf(const mrt_value *v) {
  return v->leaf != MRT_LEAF_NONE || v->base->leaf != MRT_LEAF_NONE;
}

mrt_status mrt_watch_leaves(const mrt_plan *plan, const mrt_step *s) {
  const mrt_call *call = mrt_runner_call(plan, s);
  const mrt_node *n = s->node;
  for (int k = 0; k < call->nin && !copies(s); k++) {
    mrt_unusual u = { false, false };
    if (!is_leaf(n->in[k]) || !can_be(&call->in[k])) continue;
    each(plan, &call->in[k], note_kind, &u);
    if (!u.nan) continue;
    const char *name = n->in[k]->name;
    return mrt_fail(
        &plan->ctx->error, MRT_EDATA, "nan: %s (%s:%d) reads a NaN: %s %s%s%s",
        n->label, n->origin.file, n->origin.line,
        n->in[k]->base->leaf == MRT_LEAF_VARIABLE ? "variable"
        : n->in[k]->leaf == MRT_LEAF_INPUT        ? "an argument,"
                                                  : "a constant,",
        name ? name : "", name ? " " : "", mrt_show(&n->in[k]->type).s);
  }
  return MRT_OK;
}

mrt_status mrt_watch_outputs(const mrt_plan *plan, const mrt_step *s,
                             mrt_unusual before) {
  const mrt_call *call = mrt_runner_call(plan, s);
  const mrt_node *n = s->node;
  if (n->nin == 0 || copies(s))
    return MRT_OK; /* a constant is as it is meant */
  for (int k = 0; k < call->nout; k++) {
    mrt_unusual u = { false, false };
    bool statistic = k < 32 && n->op->wide_outputs >> k & 1 && k > 0;
    if (!can_be(&call->out[k])) continue;
    each(plan, &call->out[k], note_kind, &u);
    bool infinity = u.infinity && !statistic && !before.infinity && !before.nan;
    if (!(u.nan && !before.nan) && !infinity) continue;
    return mrt_fail(&plan->ctx->error, MRT_EDATA,
                    "nan: %s%s (%s:%d) made %s in %s of numbers without",
                    n->origin.backward ? "the gradient, by " : "", n->label,
                    n->origin.file, n->origin.line,
                    u.nan ? "a NaN" : "an infinity",
                    mrt_show(&n->out[k]->type).s);
  }
  return MRT_OK;
}

/* ---- ranges -------------------------------------------------------------- */

static void note_range(void *user, double x) {
  mrt_range *r = user;
  double size = fabs(x);
  int exponent;
  r->count++;
  if (x != x) {
    r->nans++;
  } else if (size == INFINITY) {
    r->infinities++;
  } else if (size == 0) {
    r->zeros++;
  } else {
    if (size > r->largest) r->largest = size;
    frexp(size, &exponent); /* size is 2^(exponent - 1) or more */
    exponent = exponent - 1 - MRT_LEAST_EXPONENT;
    exponent = exponent < 0 ? 0 : exponent;
    exponent = exponent < MRT_EXPONENTS ? exponent : MRT_EXPONENTS - 1;
    r->exponents[exponent]++;
  }
}

void mrt_watch_range(const mrt_plan *plan, const mrt_step *s, mrt_range *r) {
  const mrt_call *call = mrt_runner_call(plan, s);
  for (int k = 0; k < call->nout && !copies(s); k++)
    if (can_be(&call->out[k])) each(plan, &call->out[k], note_range, r);
}
