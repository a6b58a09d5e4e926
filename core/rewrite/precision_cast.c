/* precision_cast.c -- casts, views and roundings that the precision pass makes
 *
 * Every value is rounded to a dtype once, whoever reads it: a reader of a view
 * reads the view of what is rounded.  New nodes are appended right before the
 * node that wants them, so the graph stays in a legal order throughout.
 *
 * SPDX-License-Identifier: MIT */
#include "rewrite/precision.h"

mrt_status mrt_narrow_put(mrt_narrowing *w, mrt_node *n) {
  return n ? mrt_graph_append(w->g, n) : mrt_nomem(w->e);
}

mrt_status mrt_narrow_cast(mrt_narrowing *w, mrt_value *v, mrt_dtype dtype,
                           mrt_origin origin, mrt_value **out) {
  return mrt_graph_cast(w->g, v, dtype, origin, out);
}

mrt_status mrt_narrow_view(mrt_narrowing *w, const mrt_node *n, mrt_value *in,
                           mrt_node **out) {
  mrt_type types[MRT_MAX_OUT];
  for (int k = 0; k < n->nout; k++) {
    types[k] = n->out[k]->type;
    types[k].dtype = in->type.dtype;
  }
  *out = mrt_graph_node(w->g, n->op, 1, &in, n->options, n->nout, types,
                        n->origin);
  return mrt_narrow_put(w, *out);
}

static mrt_value **rounding(mrt_narrowing *w, const mrt_value *v,
                            mrt_dtype dtype) {
  return &w->rounded[(size_t)v->id * MRT_DTYPE_COUNT + dtype];
}

mrt_status mrt_narrow_round(mrt_narrowing *w, mrt_value *v, mrt_dtype dtype,
                            mrt_value **out) {
  mrt_value *source = mrt_narrow_source(w, v), **memo = rounding(w, v, dtype);
  if (source && source->type.dtype == dtype) return *out = source, MRT_OK;
  if (!source && v->type.dtype == dtype) return *out = v, MRT_OK;
  if (!*memo && !source && v->node && mrt_node_is_view(v->node)) {
    mrt_value *in;
    mrt_node *view;
    MRT_TRY(mrt_narrow_round(w, v->node->in[0], dtype, &in));
    MRT_TRY(mrt_narrow_view(w, v->node, in, &view));
    for (int k = 0; k < view->nout; k++)
      *rounding(w, v->node->out[k], dtype) = view->out[k];
  } else if (!*memo) {
    MRT_TRY(mrt_narrow_cast(w, source ? source : v, dtype, v->origin, memo));
  }
  return *out = *memo, MRT_OK;
}

mrt_status mrt_narrow_wide_input(mrt_narrowing *w, const mrt_node *n, int k,
                                 mrt_value **out) {
  mrt_value *v = n->in[k], *source = mrt_narrow_source(w, v);
  *out = v;
  if (v->type.dtype != MRT_f32) return MRT_OK;
  if (!source && !mrt_reads_wide(n->op, k) && mrt_narrow_kept(w, n, v))
    MRT_TRY(mrt_narrow_round(w, v, w->keep, &source));
  if (!source) return MRT_OK;
  if (mrt_reads_narrow(n->op, k)) return *out = source, MRT_OK;
  return mrt_narrow_cast(w, source, MRT_f32, n->origin, out);
}
