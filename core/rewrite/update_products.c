/* update_products.c -- is a gradient stored that only its update reads?
 *
 *   needs   a graph, its dtypes final, sums of gradients joined (add_products)
 *   gives   an update that computes the product itself (op/update_product.c) in
 *           place of the gradient of a weight and its update
 *   where   the gradient is a product of matrices, f32 or f64, perhaps with the
 *           rows of a table added (embedding_add), and nobody else reads it: not
 *           a norm to clip by, no accumulator, no other rank.  It does not fit
 *           the cache: else nothing is won.  The device has the kernel.
 *   method  One walk over updates; what the device's kernel or the row's checks
 *           refuse stays.
 *   never   changes a bit
 *
 * SPDX-License-Identifier: MIT */
#include "op/matmul.h"
#include "op/update.h"
#include "rewrite/rewrite.h"

#include <string.h>

enum { MOST_INPUTS = 3 + 4 + 4 };

static bool descend_lazy(const void *o) {
  return ((const mrt_descend_options *)o)->lazy;
}
static bool sgd_lazy(const void *o) {
  return ((const mrt_sgd_options *)o)->lazy;
}
static bool rmsprop_lazy(const void *o) {
  return ((const mrt_rmsprop_options *)o)->lazy;
}
static bool adamw_lazy(const void *o) {
  return ((const mrt_adamw_options *)o)->lazy;
}

static const struct product_form {
  int update, product;
  bool (*lazy)(const void *options);
} forms[] = {
  { MRT_OP_descend, MRT_OP_descend_product, descend_lazy },
  { MRT_OP_sgd, MRT_OP_sgd_product, sgd_lazy },
  { MRT_OP_rmsprop, MRT_OP_rmsprop_product, rmsprop_lazy },
  { MRT_OP_adamw, MRT_OP_adamw_product, adamw_lazy },
};

/* What an update becomes. */
typedef struct product_finding {
  const mrt_op *op;
  mrt_node *product, *rows; /* rows: the embedding_add, or NULL */
} product_finding;

static bool alone(const mrt_value *v, int op) {
  return v->node && v->uses == 1 && v->node->op->number == op;
}

static bool multiplies(const mrt_value *v) {
  if (!alone(v, MRT_OP_matmul) || !mrt_is_real(v->type.dtype)) return false;
  const mrt_node *n = v->node;
  const mrt_matmul_options *o = n->options;
  return n->in[0]->type.rank == 2 && n->in[1]->type.rank == 2 &&
         o->accumulate == MRT_DTYPE_COUNT;
}

static bool find(product_finding *f, const mrt_rewrite *r, const mrt_node *n) {
  *f = (product_finding){ 0 };
  for (int i = 0; i < MRT_COUNT(forms); i++)
    if (n->op->number == forms[i].update && !forms[i].lazy(n->options))
      f->op = mrt_ops[forms[i].product];
  if (!f->op) return false;
  mrt_value *g = n->in[n->op->updates];
  if ((double)mrt_type_bytes(&g->type) <= r->device->cache) return false;
  if (alone(g, MRT_OP_embedding_add)) f->rows = g->node, g = g->node->in[2];
  f->product = g->node;
  return multiplies(g);
}

/* The update's, and what the gradient is after them. */
static void *options_of(mrt_graph *g, const product_finding *f,
                        const mrt_node *n) {
  const mrt_matmul_options *o = f->product->options;
  mrt_product_gradient gradient = { .compute = o->compute,
                                    .rows = f->rows != NULL };
  char *all = mrt_arena_alloc(&g->arena, 1, f->op->options_size);
  if (!all) return NULL;
  memset(all, 0, f->op->options_size);
  memcpy(all, n->options, n->op->options_size);
  memcpy(all + f->op->options_size - sizeof gradient, &gradient,
         sizeof gradient);
  return all;
}

static bool has_kernel(const mrt_graph *g, const mrt_node *n) {
  const mrt_device *d = &g->ctx->device;
  return d->kernel(d, n->op->number, mrt_node_real(n));
}

/* The update itself becomes another: it keeps its place, its results and the
 * number that random bits are drawn by. */
static mrt_status replace(mrt_graph *g, const product_finding *f, mrt_node *n) {
  mrt_node old = *n;
  int written = n->op->updates, at = 0;
  mrt_value **in = MRT_NEW(&g->arena, mrt_value *, MOST_INPUTS);
  void *options = options_of(g, f, n);
  if (!in || !options) return mrt_nomem(&g->ctx->error);
  for (int k = 0; k < written; k++) in[at++] = n->in[k];
  in[at++] = f->product->in[0], in[at++] = f->product->in[1];
  if (f->rows) in[at++] = f->rows->in[0], in[at++] = f->rows->in[1];
  for (int k = written + 1; k < n->nin; k++) in[at++] = n->in[k];
  n->op = f->op, n->label = f->op->name, n->options = options;
  n->in = in, n->nin = at;
  if (!has_kernel(g, n)) return *n = old, MRT_OK;
  f->product->dead = true;
  if (f->rows) f->rows->dead = true;
  return MRT_OK;
}

mrt_status mrt_pass_update_products(mrt_rewrite *r) {
  mrt_graph *g = r->graph;
  if (!mrt_rewrite_for_cpu(r) ||
      r->options->trap) /* which looks at gradients */
    return MRT_OK;
  mrt_graph_count_uses(g);
  for (int i = 0; i < g->node_count; i++) {
    product_finding f;
    if (find(&f, r, g->nodes[i])) MRT_TRY(replace(g, &f, g->nodes[i]));
  }
  mrt_graph_sweep(g);
  return MRT_OK;
}
