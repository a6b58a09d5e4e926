/* keep_matrices.c -- which matrices are rounded and turned once for many
 * products of few rows?
 *
 *   needs   a captured graph, its dtypes final
 *   gives   for a matrix that many products read, each with few rows: one
 *           rounding to what they compute in, and where its terms of a sum lie
 *           apart one copy in which they lie side by side.  The weights of a
 *           recurrent network are read so at every step; a product of few rows
 *           takes about as long to round or turn them as to multiply
 *   where   products on a CPU that compute in bf16 or f16, with which no less
 *           is multiplied than the matrix holds.  Of f32 nothing is
 *           won: their tiles read either order as it lies
 *   method  One walk to count, through views; one to replace.  What is made
 *           stands before its first reader.  What is read in both orders is
 *           rounded once
 *   never   changes a bit: products round to the same; has a copy that the plan
 *           does not count.  Where a budget leaves no room for them a plan
 *           is made without this pass (plan/pipeline.c)
 *
 * SPDX-License-Identifier: MIT */
#include "op/matmul.h"
#include "op/sums.h"
#include "op/views.h"
#include "rewrite/rewrite.h"

enum {
  ENOUGH = 4, /* products */
  FEW = 16,   /* rows, or fewer, are multiplied without packing */
  MOST = 128, /* rows of a product: of more, packing takes little time */
  SMALL = 64  /* rows and columns of a matrix: fewer are not worth it */
};

/* Of a value that is a matrix: how many such products, of how many rows in all,
 * read it with the terms of a sum side by side, and apart; what they round it
 * to; and what they read instead, once it is made, [N, K]. */
typedef struct kept_matrix {
  int reads[2];
  int64_t rows[2];
  mrt_dtype compute;
  mrt_value *made[2];
} kept_matrix;

/* How a product reads its second input. */
typedef struct matrix_reading {
  mrt_value *root;
  bool apart;
  int64_t rows;
  mrt_dtype compute;
} matrix_reading;

static bool is_turn(const mrt_node *n) {
  return n->op->number == MRT_OP_transpose && n->in[0]->type.rank == 2;
}

/* What `v` is a use of; *turned: with rows for columns. */
static mrt_value *root_of(mrt_value *v, bool *turned) {
  *turned = false;
  while (v->node &&
         (v->node->op->number == MRT_OP_each_use || is_turn(v->node))) {
    if (is_turn(v->node)) *turned = !*turned;
    v = v->node->in[0];
  }
  return v;
}

static bool is_half(mrt_dtype d) { return d == MRT_bf16 || d == MRT_f16; }

/* What a product rounds its matrix to; MRT_DTYPE_COUNT: it reads it as it is,
 * or not so. */
static mrt_dtype rounds_to(const mrt_node *n, const mrt_value *root) {
  const mrt_matmul_options *o = n->options;
  mrt_dtype own = root->type.dtype;
  if (own == MRT_f32 && is_half(o->compute)) return o->compute;
  bool as_it_is = o->compute == MRT_DTYPE_COUNT || o->compute == own;
  return is_half(own) && as_it_is && n->in[0]->type.dtype == own
             ? own
             : MRT_DTYPE_COUNT;
}

static bool reads_matrix(const mrt_node *n, matrix_reading *r) {
  bool linear = n->op->number == MRT_OP_linear, turned;
  if (!linear && n->op->number != MRT_OP_matmul) return false;
  const mrt_type *w = &n->in[1]->type;
  if (w->rank != 2 || w->dims[0] < SMALL || w->dims[1] < SMALL ||
      mrt_sums_narrow(n->op, n->options))
    return false;
  r->root = root_of(n->in[1], &turned);
  r->apart = linear == turned;
  r->compute = rounds_to(n, r->root);
  r->rows = mrt_type_count(&n->out[0]->type) / w->dims[linear ? 0 : 1];
  return r->compute != MRT_DTYPE_COUNT && r->rows > FEW && r->rows <= MOST;
}

static void count(const mrt_graph *g, kept_matrix *all) {
  for (int i = 0; i < g->node_count; i++) {
    matrix_reading r;
    if (!reads_matrix(g->nodes[i], &r)) continue;
    kept_matrix *m = &all[r.root->id];
    if (m->reads[0] + m->reads[1] == 0) m->compute = r.compute;
    if (m->compute != r.compute) continue;
    m->reads[r.apart]++;
    m->rows[r.apart] += r.rows;
  }
}

/* Is it worth its memory: no larger than all that is multiplied with it, and
 * what comes of that? */
static bool is_worth(const kept_matrix *m, const matrix_reading *r) {
  const int64_t *dims = r->root->type.dims;
  double beside = (double)m->rows[r->apart] * (double)(dims[0] + dims[1]);
  if (!r->apart && m->compute == r->root->type.dtype) return false;
  return m->compute == r->compute && m->reads[r->apart] >= ENOUGH &&
         (double)dims[0] * (double)dims[1] <= beside;
}

static mrt_status put(mrt_graph *g, mrt_node *n, mrt_value **out) {
  if (!n) return mrt_nomem(&g->ctx->error);
  *out = n->out[0];
  return mrt_graph_append(g, n);
}

static mrt_status turn(mrt_graph *g, mrt_value *v, mrt_value **out) {
  mrt_transpose_options o = { .dim0 = 0, .dim1 = 1 };
  mrt_type t = v->type;
  t.dims[0] = v->type.dims[1], t.dims[1] = v->type.dims[0];
  return put(
      g,
      mrt_graph_node(g, mrt_ops[MRT_OP_transpose], 1, &v, &o, 1, &t, v->origin),
      out);
}

static mrt_status round_to(mrt_graph *g, mrt_value *v, mrt_dtype dtype,
                           mrt_value **out) {
  if (v->type.dtype == dtype) return *out = v, MRT_OK;
  return mrt_graph_cast(g, v, dtype, v->origin, out);
}

/* The matrix as products of this order read it, with the terms of a sum side by
 * side. */
static mrt_status make(mrt_graph *g, mrt_value *root, kept_matrix *m,
                       bool apart) {
  mrt_value **lies = &m->made[0], *turned;
  mrt_node *copy;
  if (!*lies) MRT_TRY(round_to(g, root, m->compute, lies));
  if (!apart || m->made[1]) return MRT_OK;
  MRT_TRY(turn(g, *lies, &turned));
  MRT_TRY(mrt_graph_unary(g, MRT_OP_copy, turned, &copy));
  return put(g, copy, &m->made[1]);
}

/* The product `n` reads what is made of its matrix. */
static mrt_status replace(mrt_graph *g, mrt_node *n, const matrix_reading *r,
                          kept_matrix *m) {
  if (!is_worth(m, r)) return MRT_OK;
  MRT_TRY(make(g, r->root, m, r->apart));
  mrt_value *w = m->made[r->apart], **in = MRT_NEW(&g->arena, mrt_value *, 3);
  if (!in) return mrt_nomem(&g->ctx->error);
  if (n->op->number == MRT_OP_matmul) MRT_TRY(turn(g, w, &w));
  for (int k = 0; k < n->nin; k++) in[k] = k == 1 ? w : n->in[k];
  n->in = in;
  return MRT_OK;
}

mrt_status mrt_pass_keep_matrices(mrt_rewrite *r) {
  mrt_graph *g = r->graph;
  if (!mrt_rewrite_for_cpu(r)) return MRT_OK;
  kept_matrix *all = MRT_NEW(&g->temporary, kept_matrix, g->value_count);
  int n = g->node_count;
  if (!all) return mrt_nomem(&g->ctx->error);
  count(g, all);
  mrt_node **nodes = mrt_graph_take_order(g);
  if (!nodes) return mrt_nomem(&g->ctx->error);
  for (int i = 0; i < n; i++) {
    matrix_reading of;
    if (reads_matrix(nodes[i], &of))
      MRT_TRY(replace(g, nodes[i], &of, &all[of.root->id]));
    MRT_TRY(mrt_graph_append(g, nodes[i]));
  }
  return MRT_OK;
}
