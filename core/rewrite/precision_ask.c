/* precision_ask.c -- what a precision policy is asked, and who reads what
 *
 *   needs   a captured graph, before any cast is made
 *   gives   the policy's answers, by node; by value, the dtypes its readers
 *           want and whether it is a statistic
 *   why     A policy sees nodes that compute floats and are no part of an
 *           update: counts of steps and weights keep their bits whatever it
 *           answers.  It is asked once; other plans of the trace read the memo.
 *   never   changes the graph: precision.c does, with these facts
 *
 * SPDX-License-Identifier: MIT */
#include "rewrite/precision.h"

#include <string.h>

/* ---- statistics ---------------------------------------------------------- */

/* This many times smaller than what it comes from, it is a statistic. */
enum { MUCH = 8 };

static bool is_small(const mrt_narrowing *w, const mrt_node *n, int k) {
  int64_t most = 0, own = mrt_type_count(&n->out[k]->type);
  bool all = n->nin > 0;
  if (k < 32 && n->op->wide_outputs >> k & 1) return true;
  for (int i = 0; i < n->nin; i++) {
    int64_t count = mrt_type_count(&n->in[i]->type);
    double constant;
    if (count > most) most = count;
    all &= w->small[n->in[i]->id] || mrt_value_uniform(n->in[i], &constant);
  }
  if (mrt_node_is_view(n)) return w->small[n->in[0]->id];
  if (n->op->traits & MRT_POINTWISE) return all;
  return n->op->width == MRT_WIDE && own * MUCH <= most;
}

mrt_status mrt_narrow_small(mrt_narrowing *w) {
  w->small = MRT_NEW(&w->g->temporary, bool, w->g->value_count);
  if (!w->small) return mrt_nomem(w->e);
  for (int v = 0; v < w->g->value_count; v++) /* scalars, variables too */
    w->small[v] = mrt_type_count(&w->g->values[v]->type) == 1;
  for (int i = 0; i < w->g->node_count; i++) {
    const mrt_node *n = w->g->nodes[i];
    for (int k = 0; k < n->nout; k++)
      w->small[n->out[k]->id] |= is_small(w, n, k);
  }
  return MRT_OK;
}

/* ---- asking -------------------------------------------------------------- */

static bool computes_f32(const mrt_node *n) {
  if (mrt_node_is_view(n) || mrt_node_is_update(n)) return false;
  if (n->op->number == MRT_OP_cast || (n->op->traits & MRT_UNIFORM))
    return false;
  bool any = false;
  for (int k = 0; k < n->nin; k++) any |= n->in[k]->type.dtype == MRT_f32;
  return any;
}

/* Is it part of an update: no product, no gradient, and nothing but updates
 * come of it?  Counts of steps and weights keep their bits. */
static bool in_update(const mrt_node *n, const bool *read) {
  bool any = n->origin.backward || n->op->width == MRT_NARROW;
  for (int k = 0; k < n->nout; k++) any |= read[n->out[k]->id];
  return !any;
}

/* Which nodes the policy is asked about. */
static mrt_status find_asked(mrt_narrowing *w, int *count) {
  mrt_graph *g = w->g;
  bool *read =
      MRT_NEW(&g->temporary, bool, g->value_count); /* not by updates */
  w->asked = MRT_NEW(&g->temporary, int, g->node_count);
  if (!read || !w->asked) return mrt_nomem(w->e);
  for (int k = 0; k < g->output_count; k++) read[g->outputs[k]->id] = true;
  for (int i = g->node_count; i-- > 0;) {
    const mrt_node *n = g->nodes[i];
    bool own = mrt_node_is_update(n) || in_update(n, read);
    w->asked[i] = !own && computes_f32(n) ? 0 : -1;
    for (int k = 0; k < n->nin && !own; k++) read[n->in[k]->id] = true;
  }
  *count = 0;
  for (int i = 0; i < g->node_count; i++)
    if (w->asked[i] >= 0) w->asked[i] = (*count)++;
  return MRT_OK;
}

static const char *width_name(const mrt_op *op) {
  static const char *const names[] = {
    [MRT_WIDE] = "wide", [MRT_NARROW] = "narrow", [MRT_FOLLOW] = "follow"
  };
  return names[op->width];
}

/* Does a node of the forward pass that is not in its layer read a result, which
 * variables lead to and which is no statistic?  By position. */
static mrt_status find_boundaries(mrt_narrowing *w, bool *boundary) {
  mrt_graph *g = w->g;
  bool *learned = MRT_NEW(&g->temporary, bool, g->value_count);
  if (!learned) return mrt_nomem(w->e);
  for (int i = 0; i < g->value_count; i++)
    learned[i] = g->values[i]->leaf == MRT_LEAF_VARIABLE;
  for (int i = 0; i < g->node_count; i++) {
    mrt_node *n = g->nodes[i];
    bool any = false;
    n->mark = i;
    for (int k = 0; k < n->nin; k++) any |= learned[n->in[k]->id];
    for (int k = 0; k < n->nout; k++) learned[n->out[k]->id] = any;
    for (int k = 0; k < n->nin && !n->origin.backward; k++) {
      const mrt_node *from = mrt_value_root(n->in[k])->node;
      if (!from || mrt_node_is_view(n) || mrt_node_is_update(n)) continue;
      bool handed = from->origin.layer != n->origin.layer &&
                    learned[n->in[k]->id] && !w->small[n->in[k]->id];
      boundary[from->mark] |= handed && !from->origin.backward;
    }
  }
  return MRT_OK;
}

static void describe(mrt_computation *c, const mrt_node *n, bool boundary) {
  *c = (mrt_computation){ .op = n->op->name,
                          .name = n->out[0]->name,
                          .cost = mrt_cost_name((int)n->op->cost),
                          .width = width_name(n->op),
                          .file = n->origin.file,
                          .module = n->origin.module,
                          .line = n->origin.line,
                          .layer = n->origin.layer,
                          .backward = n->origin.backward,
                          .boundary = boundary,
                          .type = n->out[0]->type,
                          .flops = mrt_node_flops(n),
                          .compute = MRT_DTYPE_COUNT,
                          .gradient = MRT_DTYPE_COUNT,
                          .output = MRT_DTYPE_COUNT,
                          .accumulate = MRT_DTYPE_COUNT };
}

mrt_status mrt_narrow_ask(mrt_narrowing *w) {
  mrt_graph *g = w->g;
  const mrt_plan_options *o = w->rewrite->options;
  mrt_precision_memo *memo = w->rewrite->memo;
  int count = 0;
  MRT_TRY(mrt_narrow_small(w));
  MRT_TRY(find_asked(w, &count));
  if (!o->precision && !memo->computations) {
    for (int i = 0; i < g->node_count; i++) w->asked[i] = -1;
    return w->keep = MRT_DTYPE_COUNT, MRT_OK;
  }
  if (!memo->computations) {
    mrt_precision p = { .nodes = MRT_NEW(w->rewrite->memo_arena,
                                         mrt_computation, count),
                        .count = count,
                        .keep = MRT_DTYPE_COUNT };
    bool *boundary = MRT_NEW(&g->temporary, bool, g->node_count);
    if (!p.nodes || !boundary) return mrt_nomem(w->e);
    MRT_TRY(find_boundaries(w, boundary));
    for (int i = 0; i < g->node_count; i++)
      if (w->asked[i] >= 0)
        describe(&p.nodes[w->asked[i]], g->nodes[i], boundary[i]);
    MRT_TRY(o->precision(o->precision_user, &p));
    memo->computations = p.nodes, memo->keep = p.keep;
    const mrt_delayed *d = o->delayed;
    if (d) memo->scale = d->scale, memo->amax = d->amax;
    memo->delayed = d != NULL, w->tell = d;
  }
  w->answers = memo->computations, w->keep = memo->keep;
  return MRT_OK;
}

/* ---- looking ------------------------------------------------------------- */

const mrt_option *mrt_narrow_option(const mrt_op *op) {
  for (int i = 0; i < op->option_count; i++)
    if (op->options[i].kind == MRT_OPT_DTYPE &&
        strcmp(op->options[i].name, "compute") == 0)
      return &op->options[i];
  return NULL;
}

bool mrt_narrow_moves(const mrt_node *n) {
  return n->op->width == MRT_FOLLOW && !n->op->flops &&
         !(n->op->traits & (MRT_POINTWISE | MRT_UPDATES | MRT_FIXED));
}

static mrt_dtype compute_of(const mrt_narrowing *w, int position) {
  int asked = w->asked[position];
  return asked < 0 ? MRT_DTYPE_COUNT : w->answers[asked].compute;
}
static bool is_scaled(const mrt_narrowing *w, int position) {
  int asked = w->asked[position];
  return asked >= 0 && w->answers[asked].scaled;
}

/* Does it compute wide, and round its results because that is asked for? */
static bool only_rounds(const mrt_narrowing *w, int position) {
  if (w->asked[position] < 0) return false;
  const mrt_computation *a = &w->answers[w->asked[position]];
  return a->output != MRT_DTYPE_COUNT && mrt_is_narrow(a->output) &&
         a->compute != MRT_DTYPE_COUNT && !mrt_is_narrow(a->compute);
}

bool mrt_narrow_never(const mrt_narrowing *w, const mrt_value *v) {
  const mrt_value *root = mrt_value_root((mrt_value *)v);
  if (!root->node) return root->wide;
  return root->index < 32 && root->node->op->wide_outputs >> root->index & 1;
}

bool mrt_narrow_kept(const mrt_narrowing *w, const mrt_node *n,
                     const mrt_value *v) {
  const mrt_node *maker = mrt_value_root((mrt_value *)v)->node;
  return w->keep != MRT_DTYPE_COUNT && n->origin.backward && maker &&
         !maker->origin.backward && !(maker->op->traits & MRT_UNIFORM) &&
         !mrt_node_is_update(maker) && !mrt_node_is_update(n) &&
         !w->small[v->id];
}

static void want(mrt_narrowing *w, const mrt_node *n, int position, int k) {
  const mrt_value *v = n->in[k];
  mrt_dtype compute = compute_of(w, position), wanted = MRT_f32;
  uint32_t *wants = &w->wants[v->id];
  if (mrt_node_is_view(n)) {
    for (int i = 0; i < n->nout; i++) *wants |= w->wants[n->out[i]->id];
    return;
  }
  if (n->op->number == MRT_OP_cast)
    wanted = n->out[0]->type.dtype;
  else if (is_scaled(w, position) || mrt_reads_wide(n->op, k))
    wanted = MRT_f32;
  else if (compute != MRT_DTYPE_COUNT && !mrt_narrow_never(w, v))
    wanted = compute;
  else if (mrt_narrow_kept(w, n, v))
    wanted = w->keep;
  else if (mrt_narrow_moves(n))
    *wants |= w->wants[n->out[0]->id];
  if (mrt_narrow_moved(w, n) == MRT_DTYPE_COUNT || wanted != MRT_f32)
    *wants |= UINT32_C(1) << wanted;
}

mrt_status mrt_narrow_look(mrt_narrowing *w) {
  mrt_graph *g = w->g;
  mrt_arena *a = &g->temporary;
  int n = w->values = g->value_count;
  bool handed_on = w->rewrite->options->handed_on;
  w->leads = MRT_NEW(a, bool, n);
  w->wants = MRT_NEW(a, uint32_t, n), w->source = MRT_NEW(a, mrt_value *, n);
  w->rounded = MRT_NEW(a, mrt_value *, (size_t)n * MRT_DTYPE_COUNT);
  w->scaled = MRT_NEW(a, mrt_scaled, (size_t)n * MRT_DTYPE_COUNT);
  if (!w->leads || !w->wants || !w->source || !w->rounded || !w->scaled)
    return mrt_nomem(w->e);
  for (int k = 0; k < g->output_count; k++) {
    w->wants[g->outputs[k]->id] |= UINT32_C(1) << MRT_f32;
    w->leads[g->outputs[k]->id] |=
        handed_on || mrt_is_narrow(g->outputs[k]->type.dtype);
  }
  for (int i = g->node_count; i-- > 0;) {
    const mrt_node *node = g->nodes[i];
    mrt_dtype compute = compute_of(w, i);
    if (only_rounds(w, i))
      for (int k = 0; k < node->nout; k++) w->leads[node->out[k]->id] = true;
    bool lead = compute != MRT_DTYPE_COUNT && mrt_is_narrow(compute);
    if (handed_on && !node->origin.backward)
      for (int k = 0; k < node->nout; k++) w->leads[node->out[k]->id] = true;
    for (int k = 0; k < node->nout && !mrt_node_is_update(node); k++)
      lead |= w->leads[node->out[k]->id];
    for (int k = 0; k < node->nin; k++) {
      w->leads[node->in[k]->id] |= lead;
      want(w, node, i, k);
    }
  }
  return MRT_OK;
}

mrt_dtype mrt_narrow_only(const mrt_narrowing *w, const mrt_value *v) {
  uint32_t wants = w->wants[v->id];
  if (v->type.dtype != MRT_f32 || (wants & (wants - 1))) return MRT_DTYPE_COUNT;
  for (int d = 0; d < MRT_DTYPE_COUNT; d++)
    if (wants == UINT32_C(1) << d && mrt_is_narrow((mrt_dtype)d))
      return (mrt_dtype)d;
  return MRT_DTYPE_COUNT;
}

mrt_dtype mrt_narrow_moved(const mrt_narrowing *w, const mrt_node *n) {
  double elements = 0;
  if (!mrt_narrow_moves(n) || mrt_node_is_view(n) || n->nout != 1)
    return MRT_DTYPE_COUNT;
  for (int k = 0; k < n->nin; k++) {
    if (mrt_narrow_never(w, n->in[k])) return MRT_DTYPE_COUNT;
    elements += (double)mrt_type_count(&n->in[k]->type);
  }
  bool fewer = elements <= (double)mrt_type_count(&n->out[0]->type);
  return fewer ? mrt_narrow_only(w, n->out[0]) : MRT_DTYPE_COUNT;
}

mrt_dtype mrt_narrow_output(const mrt_narrowing *w, const mrt_value *v,
                            mrt_dtype output) {
  bool may = v->type.dtype == MRT_f32 && output != MRT_DTYPE_COUNT &&
             mrt_is_narrow(output) && !mrt_narrow_never(w, v) &&
             w->leads[v->id];
  return may ? output : MRT_f32;
}
