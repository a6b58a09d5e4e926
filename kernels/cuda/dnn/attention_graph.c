/* attention_graph.c -- attention and its gradient as operations of cuDNN's
 *
 * The library has kernels for these chains of products, sums and pointwise
 * operations as a whole, in which nothing of [T, S] is stored but the gradient
 * of the scores.  It knows them by their form: what looks superfluous, the
 * turned views and a product by one, belongs to it.
 *
 * Of the forms of the gradient this is the one whose sums have an order: the
 * other, which needs no workspace, adds up dq by several blocks at once.
 *
 * SPDX-License-Identifier: MIT */
#ifdef MRT_CUDNN_LIBRARY
#include "dnn/graph.h"

enum { Q, K, V, O, LSE, DO, DQ, DK, DV, DELTA }; /* operands */
static const cudnnDataType_t F32 = CUDNN_DATA_FLOAT;

typedef mrt_dnn_descriptor descriptor;
typedef mrt_dnn_making making;

/* ---- tensors ------------------------------------------------------------- */

/* Each the size of the one after it. */
static descriptor packed(making *m, cudnnDataType_t type, int64_t b, int64_t h,
                         int64_t t, int64_t s) {
  int64_t dims[] = { b, h, t, s }, strides[] = { h * t * s, t * s, s, 1 };
  return mrt_dnn_between(m, type, dims, strides);
}
static descriptor scores(making *m, cudnnDataType_t type) {
  const int64_t *q = m->p->shape.of[Q].dims, *k = m->p->shape.of[K].dims;
  return packed(m, type, q[0], q[1], q[2], k[2]);
}
static descriptor row(making *m) { /* a number for each query */
  const int64_t *q = m->p->shape.of[Q].dims;
  return packed(m, F32, q[0], q[1], q[2], 1);
}
static cudnnDataType_t narrow(const making *m) {
  return mrt_dnn_type(m->p->shape.of[Q].dtype);
}

static void swap(int64_t *a, int64_t *b) {
  int64_t c = *a;
  *a = *b, *b = c;
}
static descriptor turned(making *m, int i) {
  mrt_dnn_tensor t = m->p->shape.of[i];
  swap(&t.dims[2], &t.dims[3]), swap(&t.strides[2], &t.strides[3]);
  return mrt_dnn_seen(m, i, &t);
}

/* ---- operations ---------------------------------------------------------- */

static descriptor point(making *m, cudnnPointwiseMode_t mode, descriptor x,
                        descriptor b, descriptor y) {
  mrt_dnn_pointwise p = { .mode = mode, .x = x, .b = b, .y = y };
  mrt_dnn_point(m, &p);
  return y;
}
static descriptor reduce(making *m, cudnnReduceTensorOp_t by, descriptor x,
                         descriptor y) {
  descriptor how = mrt_dnn_make(m, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  mrt_dnn_set(m, how, CUDNN_ATTR_REDUCTION_OPERATOR,
              CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &by);
  mrt_dnn_set_type(m, how, CUDNN_ATTR_REDUCTION_COMP_TYPE, F32);
  mrt_dnn_finish(m, how);
  descriptor d = mrt_dnn_make(m, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  mrt_dnn_refer(m, d, CUDNN_ATTR_OPERATION_REDUCTION_DESC, how);
  mrt_dnn_refer(m, d, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
  mrt_dnn_refer(m, d, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
  mrt_dnn_operation(m, d);
  return y;
}
static descriptor multiply(making *m, descriptor a, descriptor b,
                           descriptor c) {
  descriptor how = mrt_dnn_make(m, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  mrt_dnn_set_type(m, how, CUDNN_ATTR_MATMUL_COMP_TYPE, F32);
  mrt_dnn_finish(m, how);
  descriptor d = mrt_dnn_make(m, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  mrt_dnn_refer(m, d, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
  mrt_dnn_refer(m, d, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
  mrt_dnn_refer(m, d, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c);
  mrt_dnn_refer(m, d, CUDNN_ATTR_OPERATION_MATMUL_DESC, how);
  mrt_dnn_operation(m, d);
  return c;
}
/* The same numbers in the same places under other dims. */
static descriptor reshape(making *m, descriptor x, descriptor y) {
  descriptor d = mrt_dnn_make(m, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  mrt_dnn_refer(m, d, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x);
  mrt_dnn_refer(m, d, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
  mrt_dnn_operation(m, d);
  return y;
}

/* ---- masks --------------------------------------------------------------- */

static descriptor index_of(making *m, descriptor s, int64_t axis) {
  mrt_dnn_pointwise p = { .mode = CUDNN_POINTWISE_GEN_INDEX,
                          .x = s,
                          .axis = axis,
                          .y = scores(m, CUDNN_DATA_INT32) };
  mrt_dnn_point(m, &p);
  return p.y;
}
/* Where it is causal, query t sees keys s <= t. */
static descriptor masked(making *m, descriptor s) {
  if (!m->p->shape.causal) return s;
  descriptor query = index_of(m, s, 2), key = index_of(m, s, 3);
  mrt_dnn_pointwise compare = { .mode = CUDNN_POINTWISE_CMP_GE,
                                .x = query,
                                .b = key,
                                .in = CUDNN_DATA_BOOLEAN,
                                .y = scores(m, CUDNN_DATA_BOOLEAN) };
  mrt_dnn_point(m, &compare);
  mrt_dnn_pointwise select = { .mode = CUDNN_POINTWISE_BINARY_SELECT,
                               .x = s,
                               .b = mrt_dnn_scalar(m, MRT_DNN_LOWEST),
                               .t = compare.y,
                               .y = scores(m, F32) };
  mrt_dnn_point(m, &select);
  return select.y;
}

/* ---- attention ----------------------------------------------------------- */

/*   S = scale Q K', masked      lse = max S + log sum exp(S - max S)
 *   P = exp(S - max S) / sum exp(S - max S)                O = P V */
void mrt_dnn_attend(making *m) {
  descriptor scale = mrt_dnn_scalar(m, MRT_DNN_SCALE), s = scores(m, F32);
  multiply(m, mrt_dnn_operand(m, Q), turned(m, K), s);
  s = point(m, CUDNN_POINTWISE_MUL, s, scale, scores(m, F32));
  s = masked(m, s);
  descriptor top = reduce(m, CUDNN_REDUCE_TENSOR_MAX, s, row(m));
  s = point(m, CUDNN_POINTWISE_SUB, s, top, scores(m, F32));
  s = point(m, CUDNN_POINTWISE_EXP, s, NULL, scores(m, F32));
  descriptor sum = reduce(m, CUDNN_REDUCE_TENSOR_ADD, s, row(m));
  descriptor log = point(m, CUDNN_POINTWISE_LOG, sum, NULL, row(m));
  point(m, CUDNN_POINTWISE_ADD, top, log, mrt_dnn_operand(m, LSE));
  s = point(m, CUDNN_POINTWISE_DIV, s, sum, scores(m, narrow(m)));
  multiply(m, s, mrt_dnn_operand(m, V), mrt_dnn_operand(m, O));
}

/* ---- its gradient -------------------------------------------------------- */

/* delta = sum over the width of o * do */
static descriptor make_delta(making *m, descriptor dout) {
  const int64_t *o = m->p->shape.of[O].dims;
  descriptor each = packed(m, F32, o[0], o[1], o[2], o[3]);
  point(m, CUDNN_POINTWISE_MUL, dout, mrt_dnn_operand(m, O), each);
  descriptor sum = reduce(m, CUDNN_REDUCE_TENSOR_ADD, each, row(m));
  return point(m, CUDNN_POINTWISE_MUL, sum, mrt_dnn_scalar(m, MRT_DNN_ONE),
               mrt_dnn_operand(m, DELTA));
}

/* operand i = w' x, summed over the queries' heads that share one of keys */
static void give_keys(making *m, descriptor w, descriptor x, int i) {
  const mrt_dnn_tensor *q = &m->p->shape.of[Q], *y = &m->p->shape.of[i];
  int64_t T = q->dims[2], S = y->dims[2], H = q->dims[1];
  int64_t dims[] = { q->dims[0], H, S, T };
  int64_t strides[] = { H * S * T, S * T, 1, S };
  descriptor of = mrt_dnn_between(m, narrow(m), dims, strides);
  reshape(m, w, of);
  if (H == y->dims[1]) {
    multiply(m, of, x, mrt_dnn_operand(m, i));
    return;
  }
  descriptor all = packed(m, narrow(m), q->dims[0], H, S, y->dims[3]);
  multiply(m, of, x, all);
  reduce(m, CUDNN_REDUCE_TENSOR_ADD, all, mrt_dnn_operand(m, i));
}

/*   P  = exp(scale Q K' - lse), masked           dV = P' dO
 *   dS = scale P * (dO V' - delta)               dK = dS' Q,  dQ = dS K */
void mrt_dnn_attend_grad(making *m) {
  const mrt_dnn_tensor *k = &m->p->shape.of[K];
  descriptor q = mrt_dnn_operand(m, Q), dout = mrt_dnn_operand(m, DO);
  descriptor delta = make_delta(m, dout), keys = turned(m, K);
  descriptor scale = mrt_dnn_scalar(m, MRT_DNN_SCALE);
  descriptor p = multiply(m, q, keys, scores(m, F32));
  p = point(m, CUDNN_POINTWISE_MUL, p, scale, scores(m, F32));
  p = point(m, CUDNN_POINTWISE_SUB, p, mrt_dnn_operand(m, LSE), scores(m, F32));
  p = point(m, CUDNN_POINTWISE_EXP, masked(m, p), NULL, scores(m, F32));
  give_keys(m, p, dout, DV);
  descriptor ds = multiply(m, dout, turned(m, V), scores(m, F32));
  ds = point(m, CUDNN_POINTWISE_SUB, ds, delta, scores(m, F32));
  ds = point(m, CUDNN_POINTWISE_MUL, ds, p, scores(m, F32));
  ds = point(m, CUDNN_POINTWISE_MUL, ds, scale, scores(m, F32));
  give_keys(m, ds, q, DK);
  descriptor straight = mrt_dnn_between(m, narrow(m), k->dims, k->strides);
  multiply(m, ds, reshape(m, keys, straight), mrt_dnn_operand(m, DQ));
}
#else
typedef int mrt_dnn_nothing; /* a file is not empty */
#endif
