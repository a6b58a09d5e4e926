/* layout.c -- where does each value lie within its storage?
 *
 *   needs   versions settled
 *   gives   base, offset and strides of every value; no view nodes are left
 *   method  One walk.  A view's layout follows from its input's; where it
 *           cannot, and where a kernel wants contiguous bytes, a copy goes in
 *           (one per value, and one for each collective).  An update's outputs
 *           lie where its inputs lie.  Plan outputs get contiguous storage of their own.  A cat of all
 *           results of one node, which nothing else reads and whose kernel
 *           writes with any strides, is no node: it becomes the last result,
 *           and the others parts of it.
 *
 * SPDX-License-Identifier: MIT */
#include "device/device.h"
#include "op/move.h"
#include "rewrite/rewrite.h"

#include <string.h>

typedef struct laying {
  mrt_graph *g;
  mrt_node **order;
  int count, room;
} laying;

static mrt_status put(laying *l, mrt_node *n) {
  if (!MRT_PUSH_ROOM(&l->g->arena, l->order, l->count, l->room))
    return mrt_nomem(&l->g->ctx->error);
  l->order[l->count++] = n;
  return MRT_OK;
}

static mrt_status copy_of(laying *l, mrt_value *v, mrt_value **copy) {
  mrt_node *n;
  MRT_TRY(mrt_graph_unary(l->g, MRT_OP_copy, v, &n));
  *copy = n->out[0];
  return put(l, n);
}

/* The contiguous copy of `v`; v->other remembers it. */
static mrt_status contiguous(laying *l, mrt_value *v, mrt_value **copy) {
  *copy = v->other;
  if (!*copy) MRT_TRY(copy_of(l, v, copy));
  v->other = *copy;
  return MRT_OK;
}

static bool resolve(const mrt_node *n, int index) {
  mrt_value *in = n->in[0], *out = n->out[index];
  mrt_view v = { .op = n->op,
                 .options = n->options,
                 .index = index,
                 .in = &in->type,
                 .out = &out->type,
                 .in_strides = in->strides,
                 .strides = out->strides };
  if (!n->op->view(&v)) return false;
  out->base = in->base;
  out->offset = in->offset + v.offset;
  return true;
}

static mrt_status lay_view(laying *l, mrt_node *n) {
  for (int i = 0; i < n->nout; i++) {
    if (resolve(n, i)) continue;
    MRT_TRY(contiguous(l, n->in[0], &n->in[0]));
    if (!resolve(n, i))
      return mrt_fail(&l->g->ctx->error, MRT_EPLAN, "%s: no layout",
                      n->op->name);
  }
  return MRT_OK;
}

/* What ranks give to each other forward and backward is copied for each time,
 * rather than kept. */
static mrt_status lay_node(laying *l, mrt_node *n) {
  bool meets = n->op->traits & MRT_COLLECTIVE;
  for (int i = 0; i < n->nin; i++) {
    bool any = i < 32 ? n->op->strided >> i & 1 : n->op->strided >> 31;
    if (!any && !mrt_value_contiguous(n->in[i]))
      MRT_TRY((meets ? copy_of : contiguous)(l, n->in[i], &n->in[i]));
  }
  if (mrt_node_is_update(n))
    for (int i = 0; i < n->op->updates; i++) {
      mrt_value *in = n->in[i], *out = n->out[i];
      if (in->base->leaf != MRT_LEAF_VARIABLE)
        return mrt_fail(&l->g->ctx->error, MRT_EPLAN,
                        "%s writes something that is no variable", n->op->name);
      out->base = in->base, out->offset = in->offset;
      memcpy(out->strides, in->strides, sizeof out->strides);
    }
  return put(l, n);
}

/* ---- results side by side ------------------------------------------------ */

static bool spreads(const mrt_graph *g, const mrt_node *n) {
  const mrt_device *d = &g->ctx->device;
  const mrt_kernel *k = d->kernel(d, n->op->number, mrt_node_real(n));
  mrt_node_types t;
  mrt_node_types_init(&t, n);
  return k && k->spreads && (!k->takes || k->takes(&t.s));
}

/* Its dim is not the last one, along which parts have gaps. */
static bool is_join(const mrt_graph *g, const mrt_node *n) {
  if (n->op->number != MRT_OP_cat) return false;
  const mrt_node *maker = n->in[0]->node;
  const mrt_dim_options *o = n->options;
  if (!maker || maker->nout != n->nin || mrt_node_is_view(maker) ||
      mrt_node_is_update(maker) || o->dim == n->out[0]->type.rank - 1)
    return false;
  for (int i = 0; i < n->nin; i++)
    if (n->in[i]->node != maker || n->in[i]->uses != 1) return false;
  return spreads(g, maker);
}

static mrt_status join(laying *l, const mrt_node *cat) {
  mrt_node *maker = cat->in[0]->node;
  const mrt_dim_options *o = cat->options;
  mrt_value *all = cat->out[0];
  int n = maker->nout;
  int64_t at = 0;
  mrt_value **out = MRT_NEW(&l->g->arena, mrt_value *, n + 1);
  if (!out) return mrt_nomem(&l->g->ctx->error);
  memcpy(out, maker->out, (size_t)n * sizeof *out);
  out[n] = all, all->node = maker, all->index = n;
  maker->out = out, maker->nout = n + 1, maker->joined = true;
  for (int i = 0; i < n; i++) {
    mrt_value *part = cat->in[i];
    part->base = all, part->offset = at * all->strides[o->dim];
    memcpy(part->strides, all->strides, sizeof part->strides);
    at += part->type.dims[o->dim];
  }
  return MRT_OK;
}

/* An output must not be a view, nor live in somebody else's storage. */
static mrt_status lay_outputs(laying *l) {
  mrt_graph *g = l->g;
  for (int i = 0; i < g->output_count; i++) {
    mrt_value *v = g->outputs[i];
    bool own = v->base == v && v->node && v->leaf == MRT_LEAF_NONE;
    if (!own) MRT_TRY(contiguous(l, v, &g->outputs[i]));
  }
  return MRT_OK;
}

mrt_status mrt_pass_layout(mrt_rewrite *r) {
  mrt_graph *g = r->graph;
  laying l = { .g = g };
  mrt_graph_count_uses(g);
  for (int i = 0; i < g->node_count; i++) {
    mrt_node *n = g->nodes[i];
    if (mrt_node_is_view(n))
      MRT_TRY(lay_view(&l, n));
    else if (is_join(g, n))
      MRT_TRY(join(&l, n));
    else
      MRT_TRY(lay_node(&l, n));
  }
  MRT_TRY(lay_outputs(&l));
  for (int i = 0; i < g->value_count; i++) g->values[i]->other = NULL;
  mrt_graph_set_order(g, l.order, l.count);
  return MRT_OK;
}
