/* update_rows.c -- is a gradient needed of rows that nobody looked up?
 *
 *   needs   a graph, its dtypes final
 *   gives   an update of the rows that were looked up (op/update_rows.c) in
 *           place of the gradient of a table and its update: the gradient, as
 *           large as the table, is never stored
 *   where   the gradient is that of lookups (embedding_grad, embedding_bag_grad),
 *           or a sum of such, perhaps times a scalar or rounded to a narrow
 *           float, and nobody else reads it: not a norm to clip by, no
 *           accumulator, no other rank.  The update says that rows without a
 *           gradient stay (lazy), or an update by 0 changes nothing: plain SGD
 *           and Adagrad, without weight decay.
 *   rule    There are no more ids than rows, and their lists take less room
 *           than the gradient; the device has a kernel that takes them.
 *   method  One walk over updates, from the gradient back to the lookups.
 *   never   changes a bit: rows of dy are added in the order of the ids, lists
 *           in the order of the sum
 *
 * SPDX-License-Identifier: MIT */
#include "op/embedding_bag.h"
#include "op/update.h"
#include "rewrite/rewrite.h"

#include <string.h>

enum { MOST_INPUTS = 3 + 3 * MRT_ROW_LISTS + 4, ENTRY = 32 /* bytes */ };

/* What an update becomes. */
typedef struct row_finding {
  mrt_node *update;
  const mrt_op *op;
  mrt_row_lists lists;
  mrt_value *in[MOST_INPUTS]; /* of the lists, in order */
  mrt_value *scale;           /* or NULL */
  int count;
  double ids;
  mrt_node *gone[4 * MRT_ROW_LISTS + 2]; /* made the gradient */
  int gone_count;
} row_finding;

/* ---- which updates ------------------------------------------------------- */

static bool descends(const void *options) {
  const mrt_descend_options *o = options;
  return o->lazy || o->weight_decay == 0;
}
static bool has_momentum(const void *options) {
  return ((const mrt_sgd_options *)options)->lazy;
}
static bool is_adagrad(const void *options) {
  const mrt_rmsprop_options *o = options;
  bool still = o->keep == 1 && o->weight_decay == 0 && (float)o->eps > 0;
  return o->lazy || still;
}
static bool is_lazy(const void *options) {
  return ((const mrt_adamw_options *)options)->lazy;
}

static const struct row_form {
  int update, rows;
  bool (*leaves)(const void *options); /* rows without a gradient alone */
} forms[] = {
  { MRT_OP_descend, MRT_OP_descend_rows, descends },
  { MRT_OP_sgd, MRT_OP_sgd_rows, has_momentum },
  { MRT_OP_rmsprop, MRT_OP_rmsprop_rows, is_adagrad },
  { MRT_OP_adamw, MRT_OP_adamw_rows, is_lazy },
};

static const mrt_op *by_rows(const mrt_node *n) {
  for (int i = 0; i < MRT_COUNT(forms); i++)
    if (n->op->number == forms[i].update && n->in[0]->type.rank == 2 &&
        forms[i].leaves(n->options))
      return mrt_ops[forms[i].rows];
  return NULL;
}

/* ---- which gradients ----------------------------------------------------- */

static bool read_once(const mrt_value *v) { return v->node && v->uses == 1; }

static bool gone(row_finding *f, mrt_node *n) {
  if (f->gone_count == MRT_COUNT(f->gone)) return false;
  f->gone[f->gone_count++] = n;
  return true;
}

static bool add_list(row_finding *f, int kind, mrt_value *ids, mrt_value *dy,
                     mrt_value *offsets) {
  mrt_ints *kinds = &f->lists.kinds;
  if (kinds->count == MRT_ROW_LISTS) return false;
  kinds->at[kinds->count++] = kind;
  f->in[f->count++] = ids, f->in[f->count++] = dy;
  if (offsets) f->in[f->count++] = offsets;
  f->ids += (double)mrt_type_count(&ids->type);
  return true;
}

static bool is_lookup(const mrt_value *v) {
  return read_once(v) && (v->node->op->number == MRT_OP_embedding_grad ||
                          v->node->op->number == MRT_OP_embedding_bag_grad);
}

static bool find_lookup(row_finding *f, const mrt_value *v) {
  mrt_node *n = v->node;
  if (n->op->number == MRT_OP_embedding_grad)
    return gone(f, n) && add_list(f, MRT_ROWS_EACH, n->in[0], n->in[1], NULL);
  const mrt_bag_grad_options *o = n->options;
  mrt_value *offsets = n->nin > 2 ? n->in[2] : NULL;
  bool mean = o->mode == MRT_BAG_MEAN;
  int kind = mean      ? offsets ? MRT_ROWS_MEAN_AT : MRT_ROWS_MEAN
             : offsets ? MRT_ROWS_SUM_AT
                       : MRT_ROWS_SUM;
  return gone(f, n) && add_list(f, kind, n->in[1], n->in[0], offsets);
}

/* `v` as it was before it was rounded, if sums are. */
static mrt_value *unrounded(row_finding *f, mrt_value *v) {
  if (f->lists.rounded == MRT_DTYPE_COUNT) return v;
  bool rounds = read_once(v) && v->node->op->number == MRT_OP_cast &&
                v->type.dtype == f->lists.rounded &&
                v->node->in[0]->type.dtype == MRT_f32;
  return rounds && gone(f, v->node) ? v->node->in[0] : NULL;
}

/* What is added: rounded before, if sums are. */
static mrt_value *addend(row_finding *f, mrt_value *v) {
  if (f->lists.rounded == MRT_DTYPE_COUNT) return v;
  bool widens = read_once(v) && v->node->op->number == MRT_OP_cast;
  return widens && gone(f, v->node) ? unrounded(f, v->node->in[0]) : NULL;
}

/* ((a + b) + c): lists are added from the innermost sum on. */
static bool find_sum(row_finding *f, mrt_value *v) {
  mrt_value *last[MRT_ROW_LISTS];
  int count = 0;
  for (v = unrounded(f, v); v && !is_lookup(v);) {
    if (!read_once(v) || v->node->op->number != MRT_OP_add ||
        count == MRT_ROW_LISTS - 1 || !gone(f, v->node))
      return false;
    mrt_value *x = addend(f, v->node->in[0]), *y = addend(f, v->node->in[1]);
    if (!x || !y) return false;
    bool y_last = is_lookup(y);
    last[count] = y_last ? y : x, v = y_last ? x : y;
    if (!is_lookup(last[count++])) return false;
  }
  if (!v || !find_lookup(f, v)) return false;
  while (count > 0)
    if (!find_lookup(f, last[--count])) return false;
  return true;
}

/* The scalar that `v` repeats. */
static mrt_value *scalar(mrt_value *v) {
  while (v->type.rank > 0 && v->node &&
         (v->node->op->number == MRT_OP_expand ||
          v->node->op->number == MRT_OP_reshape))
    v = v->node->in[0];
  return v->type.rank == 0 ? v : NULL;
}

/* x times a scalar is x, if the update has no other scale. */
static mrt_value *unscaled(row_finding *f, mrt_value *g, bool free) {
  if (!read_once(g) || g->node->op->number != MRT_OP_mul || !free) return g;
  for (int k = 0; k < 2; k++) {
    mrt_value *by = scalar(g->node->in[k]);
    if (!by || by->type.dtype != g->type.dtype || !gone(f, g->node)) continue;
    f->scale = by;
    return g->node->in[1 - k];
  }
  return g;
}

static bool find(row_finding *f, mrt_node *n) {
  *f = (row_finding){ .update = n, .op = by_rows(n) };
  if (!f->op) return false;
  int g_at = n->op->updates, rest = n->op->number == MRT_OP_adamw ? 2 : 1;
  mrt_value *g = n->in[g_at];
  bool real = mrt_is_real(g->type.dtype) && n->nin == g_at + 1 + rest;
  g = unscaled(f, g, real);
  f->lists.rounded =
      mrt_is_narrow(g->type.dtype) ? g->type.dtype : MRT_DTYPE_COUNT;
  if (!find_sum(f, g)) return false;
  const mrt_type *p = &n->in[0]->type;
  double table =
      (double)mrt_type_count(p) * (double)mrt_dtypes[g->type.dtype].bytes;
  return f->ids <= (double)p->dims[0] && ENTRY * f->ids <= table;
}

/* ---- replacing ----------------------------------------------------------- */

static void *options_of(mrt_graph *g, const row_finding *f) {
  char *o = mrt_arena_alloc(&g->arena, 1, f->op->options_size);
  if (!o) return NULL;
  memcpy(o, f->update->options, f->update->op->options_size);
  memcpy(o + f->op->options_size - sizeof f->lists, &f->lists, sizeof f->lists);
  return o;
}

/* Does the device's kernel take it? */
static bool has_kernel(const mrt_graph *g, const mrt_node *n) {
  const mrt_device *d = &g->ctx->device;
  const mrt_kernel *k = d->kernel(d, n->op->number, mrt_node_real(n));
  mrt_node_types t;
  mrt_node_types_init(&t, n);
  return k && (!k->takes || k->takes(&t.s));
}

/* The update itself becomes another: it keeps its place, its results and the
 * number that random bits are drawn by. */
static mrt_status replace(mrt_graph *g, row_finding *f) {
  mrt_node *n = f->update, old = *n;
  int written = n->op->updates, rest = n->nin - written - 1, at = 0;
  mrt_value **in = MRT_NEW(&g->arena, mrt_value *, MOST_INPUTS);
  void *options = options_of(g, f);
  if (!in || !options) return mrt_nomem(&g->ctx->error);
  for (int k = 0; k < written; k++) in[at++] = n->in[k];
  for (int k = 0; k < f->count; k++) in[at++] = f->in[k];
  for (int k = 0; k < rest; k++) in[at++] = n->in[written + 1 + k];
  if (f->scale) in[at++] = f->scale;
  n->op = f->op, n->label = f->op->name, n->options = options;
  n->in = in, n->nin = at;
  if (!has_kernel(g, n)) return *n = old, MRT_OK;
  for (int i = 0; i < f->gone_count; i++) f->gone[i]->dead = true;
  return MRT_OK;
}

mrt_status mrt_pass_update_rows(mrt_rewrite *r) {
  mrt_graph *g = r->graph;
  mrt_graph_count_uses(g);
  for (int i = 0; i < g->node_count; i++) {
    row_finding f;
    if (find(&f, g->nodes[i])) MRT_TRY(replace(g, &f));
  }
  mrt_graph_sweep(g);
  return MRT_OK;
}
