/* add_products.c -- what is added to a sum where it lies?
 *
 *   needs   a captured graph, its dtypes final
 *   gives   matmul_add(a, b, c) in place of add(c, matmul(a, b)), where c is a
 *           product or such a sum, and nobody else reads either: gradients of
 *           a weight that is used more than once.
 *           embedding_add(ids, dy, c) in place of add(c, embedding_grad(ids, dy)):
 *           those of a table that is a matrix, too
 *   where   The device has the kernel.  Products in f32, of no more than
 *           MRT_ADDED_AT_ONCE terms; tables that are no smaller than dy.
 *           Products of any number of terms, and those in f32 of f16 or bf16, where
 *           the device's have epilogues, in plans of traced functions: its kernels
 *           sum the whole product before they add it
 *   method  One walk.  Of two products the one that comes later is added.
 *   never   changes a bit; but for a device with epilogues.  Its library may sum a
 *           product that it adds in another order than one that it does not, and
 *           rows of c that nobody looked up keep a zero's sign.  A plan's bits are
 *           the same each time, and no budget, order or policy of memory changes
 *           them: all these come after
 *
 * SPDX-License-Identifier: MIT */
#include "op/matmul.h"
#include "rewrite/rewrite.h"

enum { SMALL = 64 }; /* rows and columns: fewer are not worth it */

static bool is_real(const mrt_value *v) { return v->type.dtype == MRT_f32; }

/* Made by one of these, and read once. */
static bool is_own(const mrt_value *v) {
  return v->node && v->uses == 1 && is_real(v) &&
         (v->node->op->number == MRT_OP_matmul ||
          v->node->op->number == MRT_OP_matmul_add);
}

static bool may_be_added(const mrt_rewrite *r, const mrt_value *v) {
  const mrt_node *n = v->node;
  if (!is_own(v) || n->op->number != MRT_OP_matmul) return false;
  const mrt_matmul_options *o = n->options;
  const mrt_type *a = &n->in[0]->type, *b = &n->in[1]->type;
  int64_t k = a->dims[a->rank - 1], columns = b->dims[b->rank - 1];
  bool narrow = r->device->epilogues && mrt_gelu_rounds_bias(a->dtype);
  bool plain = (o->compute == MRT_DTYPE_COUNT || o->compute == a->dtype) &&
               (o->accumulate == MRT_DTYPE_COUNT || o->accumulate == MRT_f32);
  return plain && b->rank == 2 && a->dtype == b->dtype &&
         (narrow || is_real(n->in[0])) && k > 0 &&
         (k <= MRT_ADDED_AT_ONCE || r->device->epilogues) && columns >= SMALL &&
         mrt_type_count(&v->type) / columns >= SMALL;
}

/* Which input of the addition is the product to be added; -1: neither. */
static int find(const mrt_rewrite *r, const mrt_node *n) {
  if (n->op->number != MRT_OP_add) return -1;
  mrt_value *const *in = n->in;
  if (!is_own(in[0]) || !is_own(in[1]) ||
      !mrt_type_equal(&in[0]->type, &in[1]->type))
    return -1;
  int later = in[1]->node->mark > in[0]->node->mark;
  return may_be_added(r, in[later])    ? later
         : may_be_added(r, in[!later]) ? !later
                                       : -1;
}

static bool has_kernel(const mrt_graph *g, const mrt_node *n) {
  const mrt_device *d = &g->ctx->device;
  return d->kernel(d, n->op->number, mrt_node_real(n));
}

/* Which input of the addition is a table's gradient by its rows; -1: neither. */
static int find_rows(const mrt_node *n) {
  if (n->op->number != MRT_OP_add) return -1;
  for (int i = 0; i < 2; i++) {
    const mrt_value *rows = n->in[i], *c = n->in[!i];
    if (rows->node && rows->uses == 1 && c->node && !c->node->op->view &&
        c->uses == 1 && rows->node->op->number == MRT_OP_embedding_grad &&
        mrt_type_equal(&rows->type, &c->type) &&
        mrt_type_count(&rows->type) >= mrt_type_count(&rows->node->in[1]->type))
      return i;
  }
  return -1;
}

/* The addition itself becomes another node, which reads what the one of input
 * `which` read, and keeps its place. */
static mrt_status replace(mrt_graph *g, mrt_node *n, int which, int op) {
  mrt_node old = *n, *added = n->in[which]->node;
  mrt_value **in = MRT_NEW(&g->arena, mrt_value *, 3);
  if (!in) return mrt_nomem(&g->ctx->error);
  in[0] = added->in[0], in[1] = added->in[1], in[2] = n->in[!which];
  n->op = mrt_ops[op], n->label = n->op->name;
  n->options = NULL, n->in = in, n->nin = 3;
  if (!has_kernel(g, n)) return *n = old, MRT_OK;
  added->dead = true;
  return MRT_OK;
}

mrt_status mrt_pass_add_products(mrt_rewrite *r) {
  mrt_graph *g = r->graph;
  if (r->device->epilogues && !r->traced) return MRT_OK;
  mrt_graph_count_uses(g);
  for (int i = 0; i < g->node_count; i++) g->nodes[i]->mark = i;
  for (int i = 0; i < g->node_count; i++) {
    mrt_node *n = g->nodes[i];
    int product = find(r, n), rows = product < 0 ? find_rows(n) : -1;
    if (product >= 0) MRT_TRY(replace(g, n, product, MRT_OP_matmul_add));
    if (rows >= 0) MRT_TRY(replace(g, n, rows, MRT_OP_embedding_add));
  }
  mrt_graph_sweep(g);
  return MRT_OK;
}
