/* fuse_epilogue.c -- which products compute the GELU of their sum themselves,
 * and which the sums of what they read?
 *
 *   needs   a captured graph, its dtypes final
 *   gives   linear_gelu in place of a linear and the tanh GELU of its result;
 *           matmul_gelu_grad in place of a product and the gelu_grad by tanh
 *           that alone reads it (op/matmul_gelu.c); matmul_sums in place of
 *           dy^T x and the sum of dy over its rows, the gradients of a linear's
 *           w and bias (op/matmul_sums.c); an f32 bias of any other linear
 *           rounded to the dtype of its result, f16 or bf16, in which
 *           libraries want it
 *   where   the device's description says that it has them (`epilogues`), in
 *           plans of traced functions: it changes bits, and what is evaluated
 *           line by line shall not depend on when
 *   rule    The sum is rounded once instead of twice.  So nothing but GELU and
 *           its gradient may read the result of that linear, or that product:
 *           no other value changes by this.  What is rounded before and after
 *           GELU has one dtype, f32, f16 or bf16.  A linear's result that a
 *           gelu_grad reads is the second result.  Of dy f16 or bf16, whose
 *           sum and product are both f32, or are both handed on in its dtype: no
 *           number is another by that but for the order of a sum.  Where dy is f32, and a precision policy has it
 *           rounded to f16 or bf16 for the product, the sum is that of dy rounded,
 *           in f32: each term by up to half a unit of that dtype another, as where
 *           dy is handed on in it.  That is for what the backward pass makes of
 *           one line, no other sum of what a product rounds; nor for dy scaled for
 *           an f8 product
 *   method  One walk to find, through casts that widen; one to replace.  Each
 *           new node stands where its product stood.
 *   never   looks at a budget or a policy of memory: it comes before them, so
 *           that they change no bit
 *
 * SPDX-License-Identifier: MIT */
#include "op/activation.h"
#include "op/cast.h"
#include "op/matmul.h"
#include "op/reduce.h"
#include "op/sums.h"
#include "op/views.h"
#include "rewrite/rewrite.h"

#include <string.h>

/* Of a value. */
typedef struct fact {
  mrt_node *gelu;           /* a GELU of it */
  int gelus;                /* readers, through widenings: these, */
  int slopes;               /* gelu_grads at it, */
  int others;               /* and outputs of the plan */
  int casts;                /* direct readers that round it */
  mrt_dtype to;             /* what the last of these rounds it to */
  bool mixed;               /* they round to several dtypes */
  mrt_value *round;         /* it rounded, made by a new node */
  mrt_node *turned;         /* a product of it, turned around; */
  mrt_node *rounded_turned; /* of it, rounded, turned around */
} fact;

typedef struct finding {
  mrt_graph *g;
  bool rounds;     /* a policy has inputs of products rounded */
  fact *facts;     /* by value id, as the graph was */
  mrt_node **with; /* by position of a product: what it shall do, too */
} finding;

static bool is_widening(const mrt_node *n) {
  return n && n->op->number == MRT_OP_cast &&
         mrt_is_narrow(n->in[0]->type.dtype) &&
         n->out[0]->type.dtype == MRT_f32;
}
static mrt_value *source(mrt_value *v) {
  return is_widening(v->node) ? v->node->in[0] : v;
}

static bool by_tanh(const mrt_node *n, int op) {
  const mrt_gelu_options *o = n->options;
  return n->op->number == op && o->approximate == MRT_GELU_TANH;
}

/* Whose elements these are, one after the other. */
static mrt_value *elements(mrt_value *v) {
  while (v->node &&
         (is_widening(v->node) || v->node->op->number == MRT_OP_reshape))
    v = v->node->in[0];
  return v;
}

/* ---- finding ------------------------------------------------------------- */

/* x of a product of x^T. */
static mrt_value *left_turned(const mrt_node *n) {
  const mrt_node *left = n->nin ? n->in[0]->node : NULL;
  bool is = n->op->number == MRT_OP_matmul && left &&
            left->op->number == MRT_OP_transpose &&
            left->in[0]->type.rank == 2 && n->in[1]->type.rank == 2;
  return is ? left->in[0] : NULL;
}

static bool is_rounding(const mrt_node *n) {
  return n && n->op->number == MRT_OP_cast && n->in[0]->type.dtype == MRT_f32 &&
         mrt_gelu_rounds_bias(n->out[0]->type.dtype);
}

static void note_turned(finding *f, mrt_node *n) {
  if (!left_turned(n)) return;
  mrt_value *v = elements(left_turned(n));
  f->facts[v->id].turned = n;
  if (is_rounding(v->node))
    f->facts[elements(v->node->in[0])->id].rounded_turned = n;
}

static void note_reader(finding *f, mrt_node *n, int k) {
  fact *at = &f->facts[source(n->in[k])->id];
  if (by_tanh(n, MRT_OP_gelu))
    at->gelu = n, at->gelus++;
  else if (by_tanh(n, MRT_OP_gelu_grad) && k == 0)
    at->slopes++;
  else
    at->others++;
}

static void look(finding *f) {
  mrt_graph *g = f->g;
  mrt_graph_count_uses(g);
  for (int i = 0; i < g->node_count; i++) {
    mrt_node *n = g->nodes[i];
    n->mark = i;
    if (is_widening(n)) continue;
    for (int k = 0; k < n->nin; k++) note_reader(f, n, k);
    note_turned(f, n);
    if (n->op->number != MRT_OP_cast) continue;
    fact *at = &f->facts[n->in[0]->id];
    at->mixed |= at->casts > 0 && at->to != n->out[0]->type.dtype;
    at->to = n->out[0]->type.dtype, at->casts++;
  }
  for (int i = 0; i < g->output_count; i++)
    f->facts[source(g->outputs[i])->id].others++;
}

/* The dtype that all readers of `v` want it in. */
static mrt_dtype wanted(const finding *f, const mrt_value *v) {
  const fact *at = &f->facts[v->id];
  bool rounded = at->casts > 0 && at->casts == v->uses && !at->mixed &&
                 mrt_is_narrow(at->to);
  return rounded ? at->to : v->type.dtype;
}

/* Have GELU's side, and what comes of it, one dtype that the device rounds
 * to? */
static bool one_dtype(const finding *f, const mrt_value *x,
                      const mrt_value *y) {
  mrt_dtype d = x->type.dtype;
  return (d == MRT_f32 || d == MRT_f16 || d == MRT_bf16) && wanted(f, y) == d;
}

/* Sums in f32, which GELU reads as they are. */
static bool sums_wide(const mrt_node *product) {
  return !mrt_sums_narrow(product->op, product->options);
}

static void find_gelu(finding *f, mrt_node *linear) {
  const mrt_value *y = linear->out[0];
  const fact *at = &f->facts[y->id];
  if (at->gelus == 1 && at->others == 0 && sums_wide(linear) &&
      one_dtype(f, y, at->gelu->out[0]))
    f->with[linear->mark] = at->gelu;
}

/* The product of matrices that `slope` alone reads, through reshapes. */
static void find_product(finding *f, mrt_node *slope) {
  const mrt_value *v = slope->in[1], *x = source(slope->in[0]);
  while (v->uses == 1 && v->node &&
         (is_widening(v->node) || v->node->op->number == MRT_OP_reshape))
    v = v->node->in[0];
  mrt_node *product = v->node;
  if (v->uses != 1 || !product || product->op->number != MRT_OP_matmul ||
      product->in[0]->type.rank != 2 || product->in[1]->type.rank != 2)
    return;
  bool there = !x->node || x->node->mark < product->mark;
  if (there && sums_wide(product) && one_dtype(f, x, slope->out[0]))
    f->with[product->mark] = slope;
}

/* Were both made by the backward pass, of one line? */
static bool is_one_gradient(const mrt_node *a, const mrt_node *b) {
  const mrt_origin *x = &a->origin, *y = &b->origin;
  return x->backward && y->backward && x->file == y->file && x->line == y->line;
}

/* The product of x^T that may sum x, whose elements are `v`, for `sum`. */
static mrt_node *turned_of(const finding *f, const mrt_node *sum,
                           const mrt_value *v) {
  const fact *at = &f->facts[v->id];
  mrt_node *rounded = f->rounds ? at->rounded_turned : NULL;
  if (at->turned) return at->turned;
  return rounded && is_one_gradient(rounded, sum) ? rounded : NULL;
}

/* `dy` is as large as what the product turns: so its rows are the same. */
static void find_sums(finding *f, mrt_node *sum) {
  const mrt_reduce_options *o = sum->options;
  mrt_value *dy = sum->in[0];
  mrt_node *product = turned_of(f, sum, elements(dy));
  bool rows = dy->type.rank == 2 && o->dim.count == 1 && o->dim.at[0] == 0;
  if (!rows || o->keepdim || !product || product->mark > sum->mark ||
      f->with[product->mark])
    return;
  const mrt_matmul_options *p = product->options;
  const mrt_value *x = left_turned(product);
  bool same = mrt_type_same_shape(&x->type, &dy->type) &&
              (p->compute == MRT_DTYPE_COUNT || p->compute == x->type.dtype);
  mrt_dtype y = product->out[0]->type.dtype;
  bool alike = sum->out[0]->type.dtype == MRT_f32 &&
               (y == MRT_f32 || y == x->type.dtype) &&
               wanted(f, sum->out[0]) == y;
  if (same && alike && sums_wide(product) &&
      mrt_gelu_rounds_bias(x->type.dtype))
    f->with[product->mark] = sum;
}

/* ---- replacing ----------------------------------------------------------- */

static mrt_status append(finding *f, const mrt_op *op, int nin,
                         mrt_value *const *in, const void *options, int nout,
                         const mrt_type *types, mrt_origin origin,
                         mrt_value **out) {
  mrt_node *n = mrt_graph_node(f->g, op, nin, in, options, nout, types, origin);
  if (!n) return mrt_nomem(&f->g->ctx->error);
  for (int k = 0; k < nout; k++) out[k] = n->out[k];
  return mrt_graph_append(f->g, n);
}

static mrt_status seen_as(finding *f, mrt_value *v, const mrt_type *shape,
                          mrt_value **out) {
  mrt_type t = *shape;
  mrt_shape_options o = { .shape.count = t.rank };
  *out = v, t.dtype = v->type.dtype;
  if (mrt_type_equal(&t, &v->type)) return MRT_OK;
  memcpy(o.shape.at, t.dims, (size_t)t.rank * sizeof *t.dims);
  return append(f, mrt_ops[MRT_OP_reshape], 1, &v, &o, 1, &t, v->origin, out);
}

/* `made` is what `old` was, or what its readers round that to. */
static void take_place(finding *f, mrt_value *old, mrt_value *made) {
  made->name = old->name;
  if (made->type.dtype == old->type.dtype)
    old->other = made;
  else
    f->facts[old->id].round = made;
}

static mrt_status make_linear_gelu(finding *f, mrt_node *linear,
                                   mrt_node *gelu) {
  const mrt_matmul_options *was = linear->options;
  mrt_value *y = linear->out[0], *out[2] = { NULL, NULL };
  mrt_matmul_options o = { .compute = was->compute,
                           .accumulate = MRT_DTYPE_COUNT,
                           .keep = f->facts[y->id].slopes > 0 };
  mrt_type types[] = { y->type, y->type };
  MRT_TRY(append(f, mrt_ops[MRT_OP_linear_gelu], linear->nin, linear->in, &o,
                 o.keep ? 2 : 1, types, linear->origin, out));
  take_place(f, gelu->out[0], out[0]);
  if (o.keep) take_place(f, y, out[1]);
  return MRT_OK;
}

static mrt_status make_gelu_grad(finding *f, mrt_node *product,
                                 mrt_node *slope) {
  mrt_value *x = mrt_value_instead(source(slope->in[0])), *made;
  mrt_value *in[] = { product->in[0], product->in[1], NULL };
  mrt_type t = product->out[0]->type;
  t.dtype = x->type.dtype;
  MRT_TRY(seen_as(f, x, &t, &in[2]));
  MRT_TRY(append(f, mrt_ops[MRT_OP_matmul_gelu_grad], 3, in, product->options,
                 1, &t, slope->origin, &made));
  MRT_TRY(seen_as(f, made, &slope->out[0]->type, &made));
  take_place(f, slope->out[0], made);
  return MRT_OK;
}

static mrt_status make_sums(finding *f, mrt_node *product, mrt_node *sum) {
  const mrt_matmul_options *was = product->options;
  mrt_matmul_options o = { .compute = was->compute,
                           .accumulate = MRT_DTYPE_COUNT };
  mrt_type types[] = { product->out[0]->type, sum->out[0]->type };
  mrt_value *out[2] = { NULL, NULL };
  types[1].dtype = types[0].dtype;
  MRT_TRY(append(f, mrt_ops[MRT_OP_matmul_sums], 2, product->in, &o, 2, types,
                 product->origin, out));
  take_place(f, product->out[0], out[0]);
  take_place(f, sum->out[0], out[1]);
  return MRT_OK;
}

/* linear_gelu rounds its own. */
static bool wants_narrow_bias(const mrt_node *n) {
  return n->op->number == MRT_OP_linear && n->nin == 3 && sums_wide(n) &&
         mrt_gelu_rounds_bias(n->out[0]->type.dtype) &&
         n->in[2]->type.dtype == MRT_f32;
}
static mrt_status round_bias(finding *f, mrt_node *linear) {
  mrt_cast_options o = { .dtype = linear->out[0]->type.dtype };
  mrt_type t = linear->in[2]->type;
  t.dtype = o.dtype;
  return append(f, mrt_ops[MRT_OP_cast], 1, &linear->in[2], &o, 1, &t,
                linear->origin, &linear->in[2]);
}

static mrt_status replace(finding *f) {
  mrt_graph *g = f->g;
  int count = g->node_count;
  mrt_node **nodes = mrt_graph_take_order(g);
  if (!nodes) return mrt_nomem(&g->ctx->error);
  for (int i = 0; i < count; i++) {
    mrt_node *n = nodes[i], *with = f->with[i];
    const fact *read = n->nin ? &f->facts[n->in[0]->id] : NULL;
    for (int k = 0; k < n->nin; k++) n->in[k] = mrt_value_instead(n->in[k]);
    if (read && read->round)
      n->out[0]->other = read->round;
    else if (with && with->op->number == MRT_OP_gelu)
      MRT_TRY(make_linear_gelu(f, n, with));
    else if (with && with->op->number == MRT_OP_sum)
      MRT_TRY(make_sums(f, n, with));
    else if (with)
      MRT_TRY(make_gelu_grad(f, n, with));
    else {
      if (wants_narrow_bias(n)) MRT_TRY(round_bias(f, n));
      MRT_TRY(mrt_graph_append(g, n));
    }
  }
  mrt_graph_substitute(g);
  return MRT_OK;
}

/* What has become something else is read by nobody now. */
mrt_status mrt_pass_fuse_epilogue(mrt_rewrite *r) {
  mrt_graph *g = r->graph;
  finding f = { .g = g, .rounds = r->memo->narrows };
  bool any = false;
  if (!r->device->epilogues || !r->traced) return MRT_OK;
  f.facts = MRT_NEW(&g->temporary, fact, g->value_count);
  f.with = MRT_NEW(&g->temporary, mrt_node *, g->node_count);
  if (!f.facts || !f.with) return mrt_nomem(&g->ctx->error);
  look(&f);
  for (int i = 0; i < g->node_count; i++) {
    mrt_node *n = g->nodes[i];
    if (n->op->number == MRT_OP_linear) find_gelu(&f, n);
    any |= wants_narrow_bias(n);
    if (by_tanh(n, MRT_OP_gelu_grad)) find_product(&f, n);
    if (n->op->number == MRT_OP_sum) find_sums(&f, n);
  }
  for (int i = 0; i < g->node_count; i++) any |= f.with[i] != NULL;
  if (!any) return MRT_OK;
  MRT_TRY(replace(&f));
  return mrt_pass_dce(r);
}
