/* add_norm_grads.c -- is the gradient of a norm added where it is computed?
 *
 *   needs   a captured graph, its dtypes final
 *   gives   layer_norm_grad_add, or rms_norm_grad_add, in place of the gradient
 *           of a norm and the add that alone reads its dx: where a residual
 *           branch begins with a norm, the sum of that gradient and the one that
 *           goes past the branch.  What readers round the sum to comes with it,
 *           where that is one narrow dtype, or in its place, where all do; and what
 *           is rounded before it is added may be so
 *   why     dx is neither written nor read again, and the sum is not read to be
 *           rounded: 8 of 22 bytes per element of a step in bf16, 4 of 12 where
 *           gradients are bf16, too
 *   where   the device has the kernel.  The other summand is there before the
 *           gradient is; of two gradients of norms the later one adds
 *   method  One walk to find, one to replace: a new node stands where the
 *           gradient of the norm stood.
 *   never   changes a bit
 *
 * SPDX-License-Identifier: MIT */
#include "op/norm.h"
#include "rewrite/rewrite.h"

#include <string.h>

enum { MOST_INPUTS = 6, MOST_OUTPUTS = 4 };

static const struct norm_form {
  int gradient, added;
} forms[] = {
  { MRT_OP_layer_norm_grad, MRT_OP_layer_norm_grad_add },
  { MRT_OP_rms_norm_grad, MRT_OP_rms_norm_grad_add },
};

/* Of a sum, by its position. */
typedef struct norm_sum {
  mrt_node *gradient; /* that is added; NULL: none */
  mrt_node *widening; /* of it, or NULL */
  mrt_value *to;      /* what it is added to, as it is stored */
  mrt_value *narrow;  /* the sum rounded, once it is made so */
  mrt_dtype round;    /* what casts of the sum round it to; MRT_DTYPE_COUNT:
                         nothing narrow */
  int casts;          /* so many */
  bool mixed;         /* they round it to several such dtypes */
} norm_sum;

static const struct norm_form *form_of(const mrt_node *n) {
  for (int i = 0; n && i < MRT_COUNT(forms); i++)
    if (n->op->number == forms[i].gradient) return &forms[i];
  return NULL;
}

static bool is_widening(const mrt_node *n) {
  return n && n->op->number == MRT_OP_cast &&
         mrt_is_narrow(n->in[0]->type.dtype) &&
         n->out[0]->type.dtype == MRT_f32;
}
/* What is widened to `v`; else itself. */
static mrt_value *stored(mrt_value *v) {
  return is_widening(v->node) ? v->node->in[0] : v;
}

/* dx of a norm, which `v`'s one reader may have as a sum with `other`. */
static bool may_add(mrt_value *v, mrt_value *other) {
  mrt_value *dx = stored(v), *to = stored(other);
  const mrt_node *n = dx->node;
  return v != other && dx != to && form_of(n) && dx == n->out[0] &&
         v->uses == 1 && dx->uses == 1 && mrt_is_real(v->type.dtype) &&
         mrt_type_equal(&v->type, &other->type) &&
         (!to->node || to->node->mark < n->mark);
}

static void find(const mrt_node *n, norm_sum *found) {
  if (n->op->number != MRT_OP_add) return;
  for (int i = 0; i < 2 && !found->gradient; i++) {
    mrt_value *v = n->in[i];
    if (!may_add(v, n->in[!i])) continue;
    *found = (norm_sum){ .gradient = stored(v)->node,
                         .widening = is_widening(v->node) ? v->node : NULL,
                         .to = stored(n->in[!i]),
                         .round = MRT_DTYPE_COUNT };
  }
}

/* The sum that `n` rounds, if it does, of f32. */
static norm_sum *rounded(norm_sum *sums, const mrt_node *n) {
  const mrt_node *from = n->op->number == MRT_OP_cast ? n->in[0]->node : NULL;
  bool narrow = from && n->in[0]->type.dtype == MRT_f32 &&
                mrt_is_narrow(n->out[0]->type.dtype);
  return narrow && sums[from->mark].gradient ? &sums[from->mark] : NULL;
}

static void note_cast(norm_sum *sums, const mrt_node *n) {
  norm_sum *s = rounded(sums, n);
  mrt_dtype to = n->out[0]->type.dtype;
  if (!s) return;
  s->mixed |= s->casts++ > 0 && s->round != to;
  s->round = to;
}

static bool has_kernel(const mrt_graph *g, const mrt_node *n) {
  const mrt_device *d = &g->ctx->device;
  return d->kernel(d, n->op->number, mrt_node_real(n));
}

/* What stands in place of s->gradient: NULL where the device has none such.
 * `only`: the sum is read rounded alone. */
static mrt_status make(mrt_graph *g, const norm_sum *s, const mrt_value *sum,
                       bool only, mrt_node **made) {
  const mrt_node *was = s->gradient;
  bool rounds = !s->mixed && s->round != MRT_DTYPE_COUNT;
  mrt_norm_add_options o = {
    .round = rounds && !only ? s->round : MRT_DTYPE_COUNT,
    .first = s->widening ? was->out[0]->type.dtype : MRT_DTYPE_COUNT
  };
  mrt_value *in[MOST_INPUTS] = { mrt_value_instead(s->to) };
  mrt_type types[MOST_OUTPUTS];
  int nout = was->nout;
  memcpy(in + 1, was->in, (size_t)was->nin * sizeof *in);
  for (int k = 0; k < nout; k++) types[k] = was->out[k]->type;
  types[0].dtype = only ? s->round : sum->type.dtype;
  if (o.round != MRT_DTYPE_COUNT)
    types[nout] = types[0], types[nout++].dtype = o.round;
  *made = mrt_graph_node(g, mrt_ops[form_of(was)->added], was->nin + 1, in, &o,
                         nout, types, was->origin);
  if (!*made) return mrt_nomem(&g->ctx->error);
  if (!has_kernel(g, *made)) *made = NULL;
  return MRT_OK;
}

static void take_place(mrt_value *old, mrt_value *now) {
  if (old->name) now->name = old->name;
  old->other = now;
}

/* `sum` is an output of another node now, and so is what it is rounded to. */
static mrt_status add_to(mrt_graph *g, norm_sum *s, mrt_value *sum) {
  mrt_node *made, *was = s->gradient;
  bool only = s->casts == sum->uses && s->casts > 0 && !s->mixed;
  MRT_TRY(make(g, s, sum, only, &made));
  if (!made) return s->gradient = NULL, mrt_graph_append(g, was);
  for (int k = 1; k < was->nout; k++) take_place(was->out[k], made->out[k]);
  if (s->widening) s->widening->dead = true;
  if (only)
    s->narrow = made->out[0];
  else
    take_place(sum, made->out[0]);
  if (made->nout > was->nout) s->narrow = made->out[was->nout];
  return mrt_graph_append(g, made);
}

/* `by`: which sum takes in the gradient at a position; 0: none, its place and
 * one more else. */
static mrt_status replace(mrt_graph *g, norm_sum *sums, const int *by) {
  int count = g->node_count;
  mrt_node **nodes = mrt_graph_take_order(g);
  if (!nodes) return mrt_nomem(&g->ctx->error);
  for (int i = 0; i < count; i++) {
    mrt_node *n = nodes[i];
    norm_sum *of = rounded(sums, n);
    for (int k = 0; k < n->nin; k++) n->in[k] = mrt_value_instead(n->in[k]);
    if (by[i])
      MRT_TRY(add_to(g, &sums[by[i] - 1], nodes[by[i] - 1]->out[0]));
    else if (of && of->narrow)
      take_place(n->out[0], of->narrow);
    else if (!sums[i].gradient && !n->dead)
      MRT_TRY(mrt_graph_append(g, n));
  }
  mrt_graph_substitute(g);
  return MRT_OK;
}

mrt_status mrt_pass_add_norm_grads(mrt_rewrite *r) {
  mrt_graph *g = r->graph;
  norm_sum *sums = MRT_NEW(&g->temporary, norm_sum, g->node_count);
  int *by = MRT_NEW(&g->temporary, int, g->node_count);
  bool any = false;
  if (!sums || !by) return mrt_nomem(&g->ctx->error);
  mrt_graph_count_uses(g);
  for (int i = 0; i < g->node_count; i++) {
    mrt_node *n = g->nodes[i];
    n->mark = i;
    find(n, &sums[i]);
    note_cast(sums, n);
    if (!sums[i].gradient) continue;
    by[sums[i].gradient->mark] = i + 1, any = true;
  }
  if (!any) return MRT_OK;
  MRT_TRY(replace(g, sums, by));
  return mrt_pass_dce(r);
}
