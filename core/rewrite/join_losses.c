/* join_losses.c -- does the gradient of a classifier's loss come with the loss?
 *
 *   needs   a captured graph, its dtypes final
 *   gives   cross_entropy_both in place of cross_entropy and cross_entropy_grad, of
 *           the same logits and targets
 *   why     logits are read from memory once, not twice: of 50,304 classes and in
 *           bf16 two thirds of the bytes, 2 % of a step of GPT-2 124M on a GPU
 *   where   the device has the kernel.  Nobody else reads the logits, nor the
 *           logarithms of sums.  What comes to the loss from behind does not hang on
 *           it, as that to a mean, or a scaled one, does not; and is made of
 *           operators that may be moved
 *   method  One walk to find; for each pair one to see what hangs on the loss, and
 *           one back from its gradient.  The new node stands where the loss stood,
 *           behind what it reads; it is of the backward pass, so that logits, not
 *           their gradient, are what is kept or computed again.
 *   never   changes a bit
 *
 * SPDX-License-Identifier: MIT */
#include "op/cross_entropy.h"
#include "rewrite/rewrite.h"

/* Of a node, by its position. */
typedef struct loss_place {
  mrt_node *grad; /* of a loss that is joined with it */
  int before;     /* the position of the loss that it goes before, and one more;
                     0: it stays */
  bool gone;
} loss_place;

typedef struct loss_walk {
  mrt_graph *g;
  loss_place *places;
  bool *hangs;  /* by position: it reads, in the end, the loss */
  bool *needed; /* by position: the gradient reads it, in the end */
} loss_walk;

static bool is_alike(const mrt_node *loss, const mrt_node *grad) {
  const mrt_cross_entropy_options *a = loss->options, *b = grad->options;
  return grad->op->number == MRT_OP_cross_entropy_grad &&
         grad->in[0] == loss->in[0] && grad->in[1] == loss->in[1] &&
         grad->in[2] == loss->out[1] && a->ignore_index == b->ignore_index &&
         a->label_smoothing == b->label_smoothing;
}

static mrt_node *grad_of(const mrt_graph *g, const mrt_node *loss) {
  if (loss->op->number != MRT_OP_cross_entropy || loss->in[0]->uses != 2 ||
      loss->out[1]->uses != 1)
    return NULL;
  for (int i = loss->mark + 1; i < g->node_count; i++)
    if (is_alike(loss, g->nodes[i])) return g->nodes[i];
  return NULL;
}

static bool may_move(const mrt_node *n) {
  const uint32_t stay = MRT_UPDATES | MRT_FIXED | MRT_COLLECTIVE | MRT_SWAPS |
                        MRT_WAITS | MRT_FAULTS;
  return !(n->op->traits & stay);
}

/* Fill `hangs` and `needed` between the two: may the gradient come with the loss? */
static bool may_join(loss_walk *w, const mrt_node *loss, const mrt_node *grad) {
  mrt_node **nodes = w->g->nodes;
  int from = loss->mark, to = grad->mark;
  const mrt_node *seed = grad->in[3]->node;
  for (int i = from; i <= to; i++)
    w->hangs[i] = i == from, w->needed[i] = false;
  for (int i = from + 1; i < to; i++)
    for (int k = 0; k < nodes[i]->nin; k++) {
      const mrt_node *n = nodes[i]->in[k]->node;
      w->hangs[i] |= n && n->mark >= from && w->hangs[n->mark];
    }
  if (seed && seed->mark >= from) w->needed[seed->mark] = true;
  for (int i = to - 1; i > from; i--) {
    if (!w->needed[i]) continue;
    if (w->hangs[i] || !may_move(nodes[i]) || w->places[i].before) return false;
    for (int k = 0; k < nodes[i]->nin; k++) {
      const mrt_node *n = nodes[i]->in[k]->node;
      if (n && n->mark >= from) w->needed[n->mark] = true;
    }
  }
  return !w->needed[from];
}

static bool has_kernel(const mrt_graph *g, const mrt_node *n) {
  const mrt_device *d = &g->ctx->device;
  return d->kernel(d, MRT_OP_cross_entropy_both, mrt_node_real(n));
}

static bool find(loss_walk *w, mrt_node *loss) {
  mrt_node *grad = grad_of(w->g, loss);
  if (!grad || !has_kernel(w->g, loss) || !may_join(w, loss, grad))
    return false;
  for (int i = loss->mark + 1; i < grad->mark; i++)
    if (w->needed[i]) w->places[i].before = loss->mark + 1;
  w->places[loss->mark].grad = grad;
  w->places[grad->mark].gone = true;
  return true;
}

static mrt_status join(mrt_graph *g, mrt_node *loss, mrt_node *grad) {
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

static mrt_status replace(loss_walk *w, int count) {
  mrt_graph *g = w->g;
  mrt_node **nodes = mrt_graph_take_order(g);
  if (!nodes) return mrt_nomem(&g->ctx->error);
  for (int i = 0; i < count; i++) {
    const loss_place *p = &w->places[i];
    if (p->before || p->gone) continue;
    if (!p->grad) {
      MRT_TRY(mrt_graph_append(g, nodes[i]));
      continue;
    }
    for (int k = i + 1; k < p->grad->mark; k++)
      if (w->places[k].before == i + 1) MRT_TRY(mrt_graph_append(g, nodes[k]));
    MRT_TRY(join(g, nodes[i], p->grad));
  }
  mrt_graph_substitute(g);
  return MRT_OK;
}

mrt_status mrt_pass_join_losses(mrt_rewrite *r) {
  mrt_graph *g = r->graph;
  int n = g->node_count;
  loss_walk w = { .g = g };
  bool any = false;
  w.places = MRT_NEW(&g->temporary, loss_place, n);
  w.hangs = MRT_NEW(&g->temporary, bool, n);
  w.needed = MRT_NEW(&g->temporary, bool, n);
  if (!w.places || !w.hangs || !w.needed) return mrt_nomem(&g->ctx->error);
  mrt_graph_count_uses(g);
  for (int i = 0; i < n; i++) g->nodes[i]->mark = i;
  for (int i = 0; i < n; i++) any |= find(&w, g->nodes[i]);
  return any ? replace(&w, n) : MRT_OK;
}
