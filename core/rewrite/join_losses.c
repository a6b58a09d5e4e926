/* join_losses.c -- does the gradient of a classifier's loss come with the loss?
 *
 *   needs   a captured graph, its dtypes final
 *   gives   cross_entropy_both in place of cross_entropy and cross_entropy_grad, of
 *           the same logits and targets
 *   why     logits are read from memory once, not twice: of 50,304 classes and in
 *           bf16 two thirds of the bytes, 2 % of a step of GPT-2 124M on a GPU
 *   where   the device has the kernel, and there is one such loss: where logits are
 *           made in parts, the order that needs least memory goes from part to part,
 *           and finds less with fewer nodes.  Nobody else reads the logits, nor the
 *           logarithms of sums.  What comes to the loss from behind does not hang on
 *           it, as that to a mean, or a scaled one, does not; and is made of
 *           operators that may be moved
 *   method  One walk to find, one to see what hangs on the loss, and one back from
 *           its gradient.  The new node stands where the loss stood, behind what it
 *           reads; it is of the backward pass, so that logits, not their gradient,
 *           are what is kept or computed again.
 *   never   changes a bit
 *
 * SPDX-License-Identifier: MIT */
#include "op/cross_entropy.h"
#include "rewrite/rewrite.h"

typedef struct loss_pair {
  mrt_graph *g;
  mrt_node *loss, *grad;
  /* By position: it reads, in the end, the loss; the gradient reads it, in the end,
   * and it is behind the loss. */
  bool *hangs, *needed;
} loss_pair;

static bool is_alike(const mrt_node *loss, const mrt_node *grad) {
  const mrt_cross_entropy_options *a = loss->options, *b = grad->options;
  return grad->op->number == MRT_OP_cross_entropy_grad &&
         grad->in[0] == loss->in[0] && grad->in[1] == loss->in[1] &&
         grad->in[2] == loss->out[1] && a->ignore_index == b->ignore_index &&
         a->label_smoothing == b->label_smoothing;
}

/* The one loss, and its gradient if that may come with it. */
static bool find(loss_pair *p) {
  const mrt_graph *g = p->g;
  for (int i = 0; i < g->node_count; i++) {
    mrt_node *n = g->nodes[i];
    if (n->op->number != MRT_OP_cross_entropy) continue;
    if (p->loss) return false;
    p->loss = n;
  }
  if (!p->loss || p->loss->in[0]->uses != 2 || p->loss->out[1]->uses != 1)
    return false;
  for (int i = p->loss->mark + 1; i < g->node_count && !p->grad; i++)
    if (is_alike(p->loss, g->nodes[i])) p->grad = g->nodes[i];
  return p->grad != NULL;
}

static bool may_move(const mrt_node *n) {
  const uint32_t stay = MRT_UPDATES | MRT_FIXED | MRT_COLLECTIVE | MRT_SWAPS |
                        MRT_WAITS | MRT_FAULTS;
  return !(n->op->traits & stay);
}

/* Does `n` read what stands for one of these between the two? */
static bool reads(const loss_pair *p, const mrt_node *n, const bool *these) {
  for (int k = 0; k < n->nin; k++) {
    const mrt_node *from = n->in[k]->node;
    if (from && from->mark >= p->loss->mark && these[from->mark]) return true;
  }
  return false;
}

/* Fill `hangs` and `needed`: may the gradient come with the loss? */
static bool may_join(loss_pair *p) {
  mrt_node **nodes = p->g->nodes;
  int from = p->loss->mark, to = p->grad->mark;
  const mrt_node *seed = p->grad->in[3]->node;
  p->hangs[from] = true;
  for (int i = from + 1; i < to; i++)
    p->hangs[i] = reads(p, nodes[i], p->hangs);
  if (seed && seed->mark >= from) p->needed[seed->mark] = true;
  for (int i = to - 1; i > from; i--) {
    if (!p->needed[i]) continue;
    if (p->hangs[i] || !may_move(nodes[i])) return false;
    for (int k = 0; k < nodes[i]->nin; k++) {
      const mrt_node *n = nodes[i]->in[k]->node;
      if (n && n->mark >= from) p->needed[n->mark] = true;
    }
  }
  return !p->needed[from];
}

static bool has_kernel(const mrt_graph *g, const mrt_node *n) {
  const mrt_device *d = &g->ctx->device;
  return d->kernel(d, MRT_OP_cross_entropy_both, mrt_node_real(n));
}

static mrt_status join(mrt_graph *g, const mrt_node *loss,
                       const mrt_node *grad) {
  mrt_value *in[] = { loss->in[0], loss->in[1], grad->in[3] };
  mrt_type types[] = { grad->out[0]->type, loss->out[0]->type };
  for (int k = 0; k < MRT_COUNT(in); k++) in[k] = mrt_value_instead(in[k]);
  mrt_node *made = mrt_graph_node(g, mrt_ops[MRT_OP_cross_entropy_both], 3, in,
                                  loss->options, 2, types, grad->origin);
  if (!made) return mrt_nomem(&g->ctx->error);
  mrt_value *old[] = { grad->out[0], loss->out[0] };
  for (int k = 0; k < 2; k++)
    made->out[k]->name = old[k]->name, old[k]->other = made->out[k];
  return mrt_graph_append(g, made);
}

static mrt_status replace(loss_pair *p) {
  mrt_graph *g = p->g;
  int count = g->node_count;
  mrt_node **nodes = mrt_graph_take_order(g);
  if (!nodes) return mrt_nomem(&g->ctx->error);
  for (int i = 0; i < count; i++) {
    if (nodes[i] == p->grad || p->needed[i]) continue;
    if (nodes[i] != p->loss) {
      MRT_TRY(mrt_graph_append(g, nodes[i]));
      continue;
    }
    for (int k = i + 1; k < p->grad->mark; k++)
      if (p->needed[k]) MRT_TRY(mrt_graph_append(g, nodes[k]));
    MRT_TRY(join(g, p->loss, p->grad));
  }
  mrt_graph_substitute(g);
  return MRT_OK;
}

mrt_status mrt_pass_join_losses(mrt_rewrite *r) {
  mrt_graph *g = r->graph;
  int n = g->node_count;
  loss_pair p = { .g = g };
  p.hangs = MRT_NEW(&g->temporary, bool, n);
  p.needed = MRT_NEW(&g->temporary, bool, n);
  if (!p.hangs || !p.needed) return mrt_nomem(&g->ctx->error);
  mrt_graph_count_uses(g);
  for (int i = 0; i < n; i++) g->nodes[i]->mark = i;
  return find(&p) && has_kernel(g, p.loss) && may_join(&p) ? replace(&p)
                                                           : MRT_OK;
}
