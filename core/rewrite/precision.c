/* precision.c -- which values are stored in narrow floats?
 *
 *   needs   a captured graph
 *   gives   products that read and write what the policy says, casts beside
 *           them, and what the backward pass reads of the forward pass in the
 *           policy's `keep`; without a policy no bit changes, and kernels that
 *           read or write narrow floats do so instead of casts
 *   method  Every f32 value has at most one narrow source, of which it is the
 *           exact widening, and roundings of its own for those who want some.
 *           One walk in order: a node that the policy narrows reads roundings
 *           and makes a source; views and what only moves elements follow their
 *           inputs; all others compute in f32, from sources where their kernel
 *           reads these.  Casts are pointwise, so the fuse pass takes them into
 *           chains.  A result that only updates and f32 outputs come of is not
 *           narrowed.
 *   never   narrows what is f32 by nature: statistics, losses, sums, variables,
 *           inputs and outputs of the plan
 *
 * SPDX-License-Identifier: MIT */
#include "rewrite/precision.h"
#include "op/apply.h"
#include "op/sums.h"

#include <string.h>

/* ---- nodes --------------------------------------------------------------- */

static mrt_status keep_view(mrt_narrowing *w, mrt_node *n) {
  mrt_value *source = mrt_narrow_source(w, n->in[0]);
  mrt_node *view;
  if (!source || n->in[0]->type.dtype != MRT_f32) return mrt_narrow_put(w, n);
  MRT_TRY(mrt_narrow_view(w, n, source, &view));
  for (int k = 0; k < n->nout; k++) w->source[n->out[k]->id] = view->out[k];
  return MRT_OK;
}

/* A node on narrow inputs; its results of dtype `output`, or as inferred. */
typedef struct remake {
  mrt_node *old;
  mrt_value **in;
  void *options;
  mrt_dtype compute, output;
  mrt_type types[MRT_MAX_OUT];
} remake;

/* Does the row take these inputs as they are?  Or else, where `reads`, as the
 * f32 that its kernel makes of them. */
static bool takes(mrt_narrowing *w, remake *r, bool reads) {
  int n = r->old->nin, nout;
  const mrt_type **types = MRT_NEW(&w->g->temporary, const mrt_type *, n);
  mrt_type *wide = MRT_NEW(&w->g->temporary, mrt_type, n);
  if (!types || !wide) return false;
  for (int k = 0; k < n; k++) {
    types[k] = &r->in[k]->type;
    if (!reads || !mrt_is_narrow(types[k]->dtype)) continue;
    wide[k] = *types[k], wide[k].dtype = MRT_f32;
    types[k] = &wide[k];
  }
  mrt_error before = *w->e;
  mrt_status s =
      mrt_infer_types(r->old->op, n, types, r->options, r->types, &nout, w->e);
  if (s) *w->e = before;
  return !s;
}

mrt_status mrt_narrow_becomes(mrt_narrowing *w, mrt_value *v, mrt_value *made,
                              mrt_dtype output) {
  mrt_dtype to = mrt_narrow_output(w, v, output);
  made->node->out[made->index] = v;
  v->node = made->node, v->index = made->index;
  if (to == MRT_f32) return MRT_OK;
  return mrt_narrow_cast(w, v, to, v->origin, &w->source[v->id]);
}

/* Old results are what the new ones widen to. */
static mrt_status finish(mrt_narrowing *w, remake *r) {
  mrt_node *old = r->old;
  mrt_node *n = mrt_graph_node(w->g, old->op, old->nin, r->in, r->options,
                               old->nout, r->types, old->origin);
  MRT_TRY(mrt_narrow_put(w, n));
  n->label = old->label;
  for (int k = 0; k < n->nout; k++) {
    mrt_value *v = old->out[k], *made = n->out[k];
    made->name = v->name;
    if (mrt_type_equal(&made->type, &v->type)) {
      MRT_TRY(mrt_narrow_becomes(w, v, made, r->output));
    } else if (made->type.dtype == MRT_f64) {
      MRT_TRY(mrt_narrow_cast(w, made, v->type.dtype, v->origin, &made));
      made->node->out[0] = v, v->node = made->node, v->index = 0;
    } else {
      w->source[v->id] = made;
    }
  }
  return MRT_OK;
}

static mrt_status wide_inputs(mrt_narrowing *w, const mrt_node *n,
                              mrt_value **in) {
  for (int k = 0; k < n->nin; k++) {
    int same = 0;
    while (n->in[same] != n->in[k]) same++;
    if (same < k)
      in[k] = in[same];
    else
      MRT_TRY(mrt_narrow_wide_input(w, n, k, &in[k]));
  }
  return MRT_OK;
}

/* A node that computes in f32; its kernel may store what all readers want. */
static mrt_status keep_wide(mrt_narrowing *w, mrt_node *n) {
  remake r = { .old = n,
               .in = MRT_NEW(&w->g->arena, mrt_value *, n->nin),
               .options = n->options,
               .output = MRT_f32 };
  bool any = false;
  if (!r.in) return mrt_nomem(w->e);
  MRT_TRY(wide_inputs(w, n, r.in));
  for (int k = 0; k < n->nout; k++) {
    mrt_dtype only = mrt_narrow_only(w, n->out[k]);
    r.types[k] = n->out[k]->type;
    if (!mrt_writes_narrow(n->op, k) || only == MRT_DTYPE_COUNT) continue;
    r.types[k].dtype = only, any = true;
  }
  if (any) return finish(w, &r);
  n->in = r.in;
  return mrt_narrow_put(w, n);
}

/* What only moves elements moves narrow ones where all its floats are, or where
 * all who read it want that. */
static mrt_status follow(mrt_narrowing *w, mrt_node *n, bool *done) {
  remake r = { .old = n,
               .in = MRT_NEW(&w->g->arena, mrt_value *, n->nin),
               .options =
                   mrt_arena_alloc(&w->g->temporary, 1, n->op->options_size),
               .output = MRT_DTYPE_COUNT };
  if (!r.in || !r.options) return mrt_nomem(w->e);
  *done = false;
  mrt_dtype dtype = MRT_DTYPE_COUNT, wanted = mrt_narrow_moved(w, n);
  for (int k = 0; k < n->nin; k++) {
    mrt_value *v = n->in[k], *source = mrt_narrow_source(w, v);
    if (wanted != MRT_DTYPE_COUNT && v->type.dtype == MRT_f32)
      MRT_TRY(mrt_narrow_round(w, v, wanted, &source));
    r.in[k] = v->type.dtype == MRT_f32 ? source : v;
    if (v->type.dtype != MRT_f32) continue;
    if (!source || (dtype != MRT_DTYPE_COUNT && dtype != source->type.dtype))
      return MRT_OK;
    dtype = source->type.dtype;
  }
  memcpy(r.options, n->options, n->op->options_size);
  if (dtype == MRT_DTYPE_COUNT || !takes(w, &r, false)) return MRT_OK;
  *done = true;
  return finish(w, &r);
}

/* Inputs as the row shall read them: leaves as they are where it rounds them
 * itself, statistics in f32. */
static mrt_status round_inputs(mrt_narrowing *w, remake *r, bool rounds) {
  const mrt_node *n = r->old;
  for (int k = 0; k < n->nin; k++) {
    mrt_value *v = n->in[k], *source = mrt_narrow_source(w, v);
    r->in[k] = v;
    if (v->type.dtype != MRT_f32 || mrt_narrow_never(w, v)) continue;
    if (mrt_reads_wide(n->op, k)) {
      MRT_TRY(mrt_narrow_wide_input(w, n, k, &r->in[k]));
      continue;
    }
    bool made = mrt_value_root(v)->node != NULL;
    if (rounds && source)
      r->in[k] = source;
    else if (!rounds || made)
      MRT_TRY(mrt_narrow_round(w, v, r->compute, &r->in[k]));
  }
  return MRT_OK;
}

/* A row that does not take narrow floats computes from them in f32. */
static mrt_status widen_inputs(mrt_narrowing *w, remake *r) {
  mrt_dtype to = r->compute == MRT_f64 ? MRT_f64 : MRT_f32;
  for (int k = 0; k < r->old->nin; k++)
    if (mrt_is_narrow(r->in[k]->type.dtype) &&
        (to == MRT_f64 || !mrt_reads_narrow(r->old->op, k)))
      MRT_TRY(mrt_narrow_cast(w, r->in[k], to, r->old->origin, &r->in[k]));
  if (takes(w, r, true)) return MRT_OK;
  return mrt_fail(w->e, MRT_EDTYPE, "%s (%s:%d) does not compute in %s",
                  r->old->op->name, r->old->origin.file, r->old->origin.line,
                  mrt_dtype_name(r->compute));
}

/* What the kernel can store of its results, in what they shall be. */
static void narrow_results(mrt_narrowing *w, remake *r) {
  const mrt_node *n = r->old;
  for (int k = 0; k < n->nout; k++) {
    if (n->out[k]->type.dtype == MRT_f32 && r->types[k].dtype != MRT_f64 &&
        mrt_writes_narrow(n->op, k))
      r->types[k].dtype = mrt_narrow_output(w, n->out[k], r->output);
  }
}

/* What is asked for takes the place of what the program says. */
static mrt_status narrow_sums(mrt_narrowing *w, const mrt_node *n,
                              mrt_dtype accumulate, void *options) {
  if (accumulate == MRT_DTYPE_COUNT) return MRT_OK;
  mrt_dtype *sums = mrt_sums_of(n->op, options);
  if (sums) return *sums = accumulate, MRT_OK;
  return mrt_fail(w->e, MRT_EVALUE, "%s (%s:%d) adds up in f32, not in %s",
                  n->op->name, n->origin.file, n->origin.line,
                  mrt_dtype_name(accumulate));
}

static mrt_status narrow(mrt_narrowing *w, mrt_node *n,
                         const mrt_computation *asked) {
  remake r = { .old = n,
               .in = MRT_NEW(&w->g->arena, mrt_value *, n->nin),
               .options =
                   mrt_arena_alloc(&w->g->temporary, 1, n->op->options_size),
               .compute = asked->compute,
               .output = asked->output };
  if (!r.in || !r.options) return mrt_nomem(w->e);
  if (r.output == MRT_DTYPE_COUNT) r.output = r.compute;
  w->rewrite->memo->narrows |= mrt_is_narrow(r.compute);
  memcpy(r.options, n->options, n->op->options_size);
  const mrt_option *o =
      mrt_is_narrow(r.compute) ? mrt_narrow_option(n->op) : NULL;
  if (o) memcpy((char *)r.options + o->offset, &r.compute, sizeof r.compute);
  MRT_TRY(narrow_sums(w, n, asked->accumulate, r.options));
  MRT_TRY(round_inputs(w, &r, o != NULL));
  if (!takes(w, &r, false)) MRT_TRY(widen_inputs(w, &r));
  narrow_results(w, &r);
  return finish(w, &r);
}

mrt_status mrt_narrow_product(mrt_narrowing *w, const mrt_node *n,
                              mrt_value *const *in, mrt_value **out) {
  mrt_node two = *n;
  mrt_value *own[2] = { in[0], in[1] };
  remake r = {
    .old = &two, .in = own, .options = n->options, .compute = in[0]->type.dtype
  };
  two.nin = 2;
  if (!takes(w, &r, false)) MRT_TRY(widen_inputs(w, &r));
  r.types[0].dtype = MRT_f32;
  mrt_node *made =
      mrt_graph_node(w->g, n->op, 2, own, r.options, 1, r.types, n->origin);
  MRT_TRY(mrt_narrow_put(w, made));
  return *out = made->out[0], MRT_OK;
}

/* ---- the walk ------------------------------------------------------------ */

/* A widening is known by its source; a rounding of that is the source. */
static mrt_status keep_cast(mrt_narrowing *w, mrt_node *n) {
  mrt_value *in = n->in[0], *out = n->out[0];
  mrt_dtype from = in->type.dtype, to = out->type.dtype;
  if (mrt_is_narrow(from) && to == MRT_f32)
    return w->source[out->id] = in, MRT_OK;
  if (from != MRT_f32 || !mrt_is_narrow(to)) return keep_wide(w, n);
  mrt_value *same;
  MRT_TRY(mrt_narrow_round(w, in, to, &same));
  return out->other = same, MRT_OK;
}

static mrt_status visit(mrt_narrowing *w, mrt_node *n, int position) {
  int asked = w->asked[position];
  bool done = false;
  for (int k = 0; k < n->nin; k++) n->in[k] = mrt_value_instead(n->in[k]);
  MRT_TRY(mrt_narrow_found(w, n));
  if (n->op->number == MRT_OP_cast) return keep_cast(w, n);
  if (mrt_node_is_view(n)) return keep_view(w, n);
  if (asked >= 0 && w->answers[asked].compute != MRT_DTYPE_COUNT)
    return w->answers[asked].scaled
               ? mrt_narrow_scaled(w, n, &w->answers[asked])
               : narrow(w, n, &w->answers[asked]);
  if (mrt_narrow_moves(n)) MRT_TRY(follow(w, n, &done));
  return done ? MRT_OK : keep_wide(w, n);
}

/* Does a policy have it take the dtype of its inputs, which are narrow? */
static bool follows_narrow(const mrt_narrowing *w, const mrt_node *n) {
  bool yes = w->rewrite->options->precision && n->op->width == MRT_FOLLOW &&
             (n->op->traits & MRT_POINTWISE);
  for (int k = 0; k < n->nin; k++) {
    mrt_value *v = n->in[k];
    double constant;
    yes &= v->type.dtype != MRT_f32 || mrt_narrow_source(w, v) ||
           w->small[v->id] || mrt_narrow_kept(w, n, v) ||
           mrt_value_uniform(v, &constant);
  }
  return yes;
}

/* Right after it is made, so that the wide value need not wait.  What follows
 * its inputs is from now on what one reader wants it rounded to. */
static mrt_status make_roundings(mrt_narrowing *w, const mrt_node *n,
                                 mrt_value *const *out, bool follows) {
  for (int k = 0; k < n->nout; k++) {
    if (mrt_node_is_view(n) || out[k]->type.dtype != MRT_f32) continue;
    for (int d = 0; d < MRT_DTYPE_COUNT; d++) {
      mrt_value *made;
      bool wanted =
          mrt_is_narrow((mrt_dtype)d) && w->wants[out[k]->id] >> d & 1;
      if (!wanted) continue;
      MRT_TRY(mrt_narrow_round(w, out[k], (mrt_dtype)d, &made));
      if (follows && !w->source[out[k]->id]) w->source[out[k]->id] = made;
    }
  }
  return MRT_OK;
}

static mrt_status walk(mrt_narrowing *w) {
  mrt_graph *g = w->g;
  int count = g->node_count;
  mrt_node **nodes = mrt_graph_take_order(g);
  if (!nodes) return mrt_nomem(w->e);
  for (int i = 0; i < count; i++) {
    mrt_value **out = MRT_NEW(&g->temporary, mrt_value *, nodes[i]->nout);
    if (!out) return mrt_nomem(w->e);
    memcpy(out, nodes[i]->out, (size_t)nodes[i]->nout * sizeof *out);
    bool follows = follows_narrow(w, nodes[i]);
    MRT_TRY(visit(w, nodes[i], i));
    MRT_TRY(make_roundings(w, nodes[i], out, follows));
  }
  for (int k = 0; k < g->output_count; k++) {
    mrt_value *v = mrt_value_instead(g->outputs[k]);
    mrt_value *source = mrt_narrow_source(w, v);
    g->outputs[k] = v;
    if (v->type.dtype == MRT_f32 && source)
      MRT_TRY(mrt_narrow_cast(w, source, MRT_f32, v->origin, &g->outputs[k]));
  }
  mrt_graph_substitute(g);
  return MRT_OK;
}

static bool any_narrow(const mrt_graph *g) {
  for (int i = 0; i < g->value_count; i++)
    if (mrt_is_narrow(g->values[i]->type.dtype)) return true;
  return false;
}

mrt_status mrt_pass_precision(mrt_rewrite *r) {
  mrt_narrowing w = { .rewrite = r, .g = r->graph, .e = &r->graph->ctx->error };
  if (!r->options->precision && !any_narrow(w.g)) return MRT_OK;
  MRT_TRY(mrt_narrow_ask(&w));
  MRT_TRY(mrt_narrow_look(&w));
  MRT_TRY(walk(&w));
  MRT_TRY(mrt_narrow_tell(&w));
  return mrt_pass_dce(r);
}
