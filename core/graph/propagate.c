/* propagate.c -- how does a value depend on the batch, given how its inputs do?
 *
 *   method  A row of an operator says along which dimension of the outputs the
 *           positions of an input's dimension go (mrt_shard_rule), and whether
 *           it is linear; types over the whole and over the part must then
 *           differ as predicted.  What no row vouches for is UNKNOWN.
 *   never   guesses: a missing lane refuses, it does not split
 *
 * SPDX-License-Identifier: MIT */
#include "graph/propagate.h"
#include "op/make.h"
#include "op/random.h"

#include <math.h>
#include <string.h>

static const mrt_placement alike = { MRT_REPLICATE, 0, 0 },
                           mixed = { MRT_UNKNOWN, 0, 0 };

static mrt_placement rows_from(int64_t outer, int degree) {
  return (mrt_placement){ MRT_SHARD, degree, outer };
}

static bool is_leaf(const mrt_tensor *t) {
  return t->input || t->variable || t->storage || !t->expr;
}

bool mrt_batch_pair_ends(const mrt_batch_pair *p) {
  return p->marked || p->whole == p->micro || is_leaf(p->whole) ||
         is_leaf(p->micro);
}

/* ---- dimensions ---------------------------------------------------------- */

/* The dimension that holds the batch after `outer` elements, and how many
 * precede it within that dimension; -1: none does. */
static int find_dim(const mrt_type *t, int64_t outer, int64_t all,
                    int64_t *before) {
  int64_t prefix = 1;
  for (int d = 0; d < t->rank && prefix <= outer; prefix *= t->dims[d++]) {
    if (prefix == 0 || outer % prefix) return -1;
    *before = outer / prefix;
    if (t->dims[d] && t->dims[d] % (*before * all) == 0) return d;
  }
  return -1;
}

/* Is the part's type that of the whole but for fewer rows? */
static bool fits(const mrt_batch *b, const mrt_type *whole,
                 const mrt_type *micro, const mrt_placement *s) {
  if (whole->rank != micro->rank || whole->dtype != micro->dtype) return false;
  int64_t before;
  int at =
      s->kind == MRT_SHARD ? find_dim(whole, s->outer, b->all, &before) : -1;
  if (s->kind == MRT_SHARD && at < 0) return false;
  for (int d = 0; d < whole->rank; d++) {
    int64_t wanted = whole->dims[d];
    if (d == at) wanted = wanted / b->all * b->part;
    if (micro->dims[d] != wanted) return false;
  }
  return true;
}

/* What is alike for all rows but as long as the batch: the one dimension that
 * differs holds it. */
static mrt_placement repeated(const mrt_batch *b, const mrt_type *whole,
                              const mrt_type *micro, int degree) {
  int64_t outer = 1;
  for (int d = 0; d < whole->rank; outer *= whole->dims[d++])
    if (d < micro->rank && whole->dims[d] != micro->dims[d]) {
      mrt_placement s = rows_from(outer, degree);
      return fits(b, whole, micro, &s) ? s : mixed;
    }
  return mixed;
}

/* ---- leaves -------------------------------------------------------------- */

/* A number that grows with the batch, shrinks with it, or does neither. */
static mrt_placement scaling(const mrt_batch *b, double whole, double micro) {
  double n = (double)b->part, N = (double)b->all, slack = 1e-9 * fabs(whole);
  mrt_placement s = alike;
  if (whole == micro || (isnan(whole) && isnan(micro))) return s;
  if (fabs(micro / n * N - whole) <= slack)
    s.degree = 1;
  else if (fabs(micro / N * n - whole) <= slack)
    s.degree = -1;
  else
    return mixed;
  return s;
}

static mrt_placement of_constants(const mrt_batch *b, const mrt_tensor *whole,
                                  const mrt_tensor *micro) {
  if (!mrt_type_equal(&whole->type, &micro->type)) return mixed;
  size_t bytes = mrt_type_bytes(&whole->type);
  mrt_storage *w = whole->storage, *m = micro->storage;
  mrt_placement s = mixed;
  if (mrt_storage_read(w) || mrt_storage_read(m)) return mixed;
  if (memcmp(w->host, m->host, bytes) == 0)
    s = alike;
  else if (mrt_type_count(&whole->type) == 1)
    s = scaling(b, mrt_tensor_number(whole, 0), mrt_tensor_number(micro, 0));
  mrt_storage_drop_host(w), mrt_storage_drop_host(m);
  return s;
}

static mrt_placement of_leaf(const mrt_batch *b, const mrt_batch_pair *p) {
  const mrt_tensor *w = p->whole, *m = p->micro;
  if (w == m) return alike;
  if (w->input && w->input == m->input) {
    if (mrt_type_equal(&w->type, &m->type)) return alike;
    mrt_placement s = rows_from(1, 0);
    return fits(b, &w->type, &m->type, &s) ? s : mixed;
  }
  if (w->storage && m->storage && !w->variable && !m->variable)
    return of_constants(b, w, m);
  return mixed;
}

/* ---- operators ----------------------------------------------------------- */

/* Do the options agree, but for shapes (types tell) and the library's own? */
static bool same_options(const mrt_op *op, const void *x, const void *y) {
  static const size_t sizes[] = {
    [MRT_OPT_INT] = sizeof(int64_t),
    [MRT_OPT_NUM] = sizeof(double),
    [MRT_OPT_BOOL] = sizeof(bool),
    [MRT_OPT_DIM] = sizeof(int64_t),
    [MRT_OPT_INDEX] = sizeof(int64_t),
    [MRT_OPT_DTYPE] = sizeof(mrt_dtype),
    [MRT_OPT_ENUM] = sizeof(int),
    [MRT_OPT_DIMS] = sizeof(mrt_ints),
    [MRT_OPT_INTS] = 0,
    [MRT_OPT_HIDDEN] = 0,
  };
  for (int i = 0; i < op->option_count; i++) {
    size_t at = op->options[i].offset;
    if (memcmp((const char *)x + at, (const char *)y + at,
               sizes[op->options[i].kind]) != 0)
      return false;
  }
  return true;
}

typedef struct rule {
  const mrt_batch *b;
  const mrt_expr *x; /* over the whole batch */
  mrt_placement *in;
  mrt_signature sig;
  bool linear, product, quotient;
  int totals, rows;
  int output; /* which is asked about */
} rule;

static bool unread(const rule *r, int i) {
  return r->x->op->shard_rule && r->in[i].kind != MRT_UNKNOWN &&
         r->x->op->shard_rule(&r->sig, i, 0) == MRT_RULE_UNREAD;
}

/* Count the kinds of inputs; false when one is UNKNOWN. */
static bool count_kinds(rule *r) {
  const mrt_expr *x = r->x;
  bool whole_number = !mrt_is_float(x->out_types[0].dtype), real = false;
  for (int i = 0; i < x->nin; i++) {
    if (x->in[i]->type.rank > 0 && unread(r, i)) continue;
    if (r->in[i].kind == MRT_UNKNOWN) return false;
    r->totals += r->in[i].kind == MRT_PARTIAL;
    r->rows += r->in[i].kind == MRT_SHARD;
    real |= mrt_is_float(x->in[i]->type.dtype);
  }
  uint32_t traits = x->op->traits;
  bool rounds = real && whole_number; /* rounding is not linear */
  r->linear = (traits & MRT_LINEAR) && !rounds;
  r->product = (traits & MRT_PRODUCT) != 0;
  r->quotient = (traits & MRT_QUOTIENT) != 0;
  return true;
}

/* With what power of the number of rows the result grows; false: none. */
static bool find_degree(const rule *r, int *degree) {
  int n = r->x->nin, sum = 0;
  bool equal = true, zero = true;
  for (int i = 0; i < n; i++) {
    int d = r->in[i].degree;
    equal &= d == r->in[0].degree, zero &= d == 0, sum += d;
  }
  *degree = r->linear && n         ? r->in[0].degree
            : r->product           ? sum
            : r->quotient && n > 1 ? r->in[0].degree - r->in[1].degree
                                   : 0;
  if (r->linear) return equal;
  return r->product || r->quotient || zero;
}

/* Sums over parts of linear results are the result for the whole sum. */
static bool keeps_totals(const rule *r) {
  if (r->linear) return r->totals == r->x->nin;
  if (r->product) return r->totals == 1;
  return r->quotient && r->totals == 1 && r->in[0].kind == MRT_PARTIAL;
}

/* Where the rows of the inputs go; all must agree. */
static mrt_placement follow_rows(rule *r, int degree) {
  const mrt_expr *x = r->x;
  const mrt_type *out = &x->out_types[0];
  int to = 0, found = 0;
  int64_t before = 0, outer = 0;
  for (int i = 0; i < x->nin; i++) {
    if (r->in[i].kind != MRT_SHARD || unread(r, i)) continue;
    int64_t own;
    int d = find_dim(&x->in[i]->type, r->in[i].outer, r->b->all, &own);
    if (d < 0) return mixed;
    int lane = x->op->shard_rule ? x->op->shard_rule(&r->sig, i, d)
               : x->op->traits & MRT_POINTWISE ? d
                                               : MRT_RULE_UNKNOWN;
    if (lane == MRT_RULE_SAME) return rows_from(r->in[i].outer, degree);
    if (lane < 0 && lane != MRT_RULE_PARTIAL) return mixed;
    if (found++ && (lane != to || own != before)) return mixed;
    to = lane, before = own;
  }
  if (to == MRT_RULE_PARTIAL) return (mrt_placement){ MRT_PARTIAL, degree, 0 };
  outer = mrt_extent(out, 0, to) * before;
  return rows_from(outer, degree);
}

/* What rows read of totals may be of their part alone. */
static bool take_statistics(rule *r) {
  if (!r->b->statistics) return false;
  for (int i = 0; i < r->x->nin; i++)
    if (r->in[i].kind == MRT_PARTIAL) r->in[i] = alike;
  r->totals = 0;
  return true;
}

static mrt_placement apply_rule(rule *r) {
  const mrt_op *op = r->x->op;
  int degree;
  if (op->traits & MRT_VOUCHES) return r->in[1];
  if ((op->traits & MRT_UPDATES) || !count_kinds(r)) return mixed;
  if (op->traits & MRT_BATCH_STATISTICS)
    return !r->b->statistics || !r->x->nin ? mixed
           : r->output == 0                ? r->in[0]
                            : (mrt_placement){ MRT_PARTIAL, -1, 0 };
  if (r->rows && r->totals && !take_statistics(r)) return mixed;
  if (!find_degree(r, &degree)) return mixed;
  if (r->rows) return follow_rows(r, degree);
  if (r->totals && !keeps_totals(r)) return mixed;
  return (mrt_placement){ r->totals ? MRT_PARTIAL : MRT_REPLICATE, degree, 0 };
}

static mrt_status note_draw(mrt_batch *b, const mrt_expr *x,
                            const mrt_placement *s) {
  mrt_row_draw draw = { 0 };
  mrt_draw d;
  memcpy(&d, x->options, sizeof d);
  draw.key = d.key;
  if (s->kind == MRT_UNKNOWN || s->kind == MRT_PARTIAL) return MRT_OK;
  int64_t count = mrt_type_count(&x->out_types[0]);
  if (s->kind == MRT_SHARD && count) draw.inner = count / (s->outer * b->all);
  for (int i = 0; i < b->draw_count; i++)
    if (b->draws[i].key == draw.key) return MRT_OK;
  if (!MRT_PUSH_ROOM(&b->arena, b->draws, b->draw_count, b->draw_room))
    return mrt_nomem(&b->ctx->error);
  b->draws[b->draw_count++] = draw;
  return MRT_OK;
}

/* The rule's answer, checked against both types. */
static mrt_placement settle(const mrt_batch *b, const mrt_batch_pair *p,
                            mrt_placement s) {
  const mrt_type *w = &p->whole->type, *m = &p->micro->type;
  bool same = mrt_type_equal(w, m);
  if (s.kind == MRT_REPLICATE && !same) return repeated(b, w, m, s.degree);
  if (s.kind == MRT_PARTIAL && !same)
    return b->statistics ? repeated(b, w, m, 0) : mixed;
  return s.kind == MRT_UNKNOWN || fits(b, w, m, &s) ? s : mixed;
}

static mrt_status of_expr(mrt_propagation *l, mrt_batch_pair *p) {
  const mrt_expr *x = p->whole->expr, *y = p->micro->expr;
  mrt_placement *in = MRT_NEW(&l->arena, mrt_placement, x->nin);
  const mrt_type **types = MRT_NEW(&l->arena, const mrt_type *, x->nin);
  const mrt_type *out = &p->whole->type;
  if (!in || !types) return mrt_nomem(l->e);
  for (int i = 0; i < x->nin; i++) {
    in[i] = l->pairs[mrt_mark_of(&l->marks, y->in[i]) - 1].placement;
    types[i] = &x->in[i]->type;
  }
  rule r = { .b = l->b, .x = x, .in = in, .output = p->whole->index };
  r.sig = (mrt_signature){ x->op, x->options, x->nin, 1, types, &out };
  mrt_placement s = apply_rule(&r);
  if (x->op->traits & MRT_UNIFORM)
    s = scaling(l->b, ((const mrt_full_options *)x->options)->value,
                ((const mrt_full_options *)y->options)->value);
  else if (!same_options(x->op, x->options, y->options))
    s = mixed;
  p->placement = settle(l->b, p, s);
  if (!(x->op->traits & MRT_RANDOM)) return MRT_OK;
  return note_draw(l->b, x, &p->placement);
}

mrt_status mrt_batch_pair_propagate(mrt_propagation *l, mrt_batch_pair *p) {
  if (!mrt_batch_pair_ends(p)) return of_expr(l, p);
  if (!p->marked) p->placement = of_leaf(l->b, p);
  return MRT_OK;
}
