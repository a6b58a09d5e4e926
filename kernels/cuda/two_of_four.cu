/* two_of_four.cu -- matrices of which two of each four numbers are not 0
 *
 * A thread makes a byte of codes, the four numbers of two values, or one
 * value.  The product is a thread's loop for each result: right, not quick, as
 * packed weights are kept to take less.
 *
 * SPDX-License-Identifier: MIT */
#include "gemm/gemm.cuh"
#include "op/two_of_four.h"

namespace {

/* Packed rows: `half` values and `bytes` codes each. */
template <typename R> struct packed {
  mrt_any<R> values;
  const uint8_t *codes;
  int64_t half, bytes;
};

template <typename R>
static packed<R> packed_at(const mrt_operand *values,
                           const mrt_operand *codes) {
  return { mrt_at_any<R>(values, 0, 1), (const uint8_t *)codes->data,
           mrt_cols(values), mrt_cols(codes) };
}

/* Where the two values of four g of a row are: two bits each. */
MRT_DEVICE int places(const uint8_t *codes, int64_t g) {
  return codes[g / 2] >> (g % 2 * 4);
}

/* ---- packing ------------------------------------------------------------- */

/* The index of the largest |x| of four, but for `except`. */
template <typename R> MRT_DEVICE int largest(const R *x, int except) {
  int best = except == 0;
  for (int i = best + 1; i < 4; i++)
    if (i != except && fabs(x[i]) > fabs(x[best])) best = i;
  return best;
}

template <typename R>
__global__ void pack(mrt_any<R> w, mrt_any<R> values, uint8_t *codes,
                     int64_t rows, int64_t n, int64_t bytes) {
  for (int64_t j = mrt_first(); j < rows * bytes; j += mrt_stride()) {
    int64_t row = j / bytes, at = j % bytes * 8;
    int code = 0;
    for (int64_t i = at; i < at + 8 && i < n; i += 4) {
      R x[4];
      for (int k = 0; k < 4; k++) x[k] = mrt_get<R>(w, row * n + i + k);
      int one = largest(x, -1), other = largest(x, one);
      int first = one < other ? one : other, last = one < other ? other : one;
      mrt_put(values, (row * n + i) / 2, x[first]);
      mrt_put(values, (row * n + i) / 2 + 1, x[last]);
      code |= (first | last << 2) << (i - at);
    }
    codes[j] = (uint8_t)code;
  }
}

template <typename R> static void pack_rows(const mrt_call *c) {
  int64_t rows = mrt_rows(&c->in[0]), bytes = mrt_cols(&c->out[1]);
  if (rows * bytes == 0) return;
  MRT_LAUNCH(mrt_blocks(rows * bytes, 256), 256, 0, c->run->queue, pack<R>)
  (mrt_at_any<R>(c->in, 0, 1), mrt_at_any<R>(c->out, 0, 1),
   (uint8_t *)c->out[1].data, rows, mrt_cols(&c->in[0]), bytes);
}

/* ---- and back ------------------------------------------------------------ */

template <typename R>
__global__ void spread(packed<R> m, mrt_any<R> w, int64_t fours) {
  int64_t each = m.half / 2;
  for (int64_t j = mrt_first(); j < fours; j += mrt_stride()) {
    int64_t row = j / each, g = j % each;
    int at = places(m.codes + row * m.bytes, g), i = at & 3, k = at >> 2 & 3;
    R one = mrt_get<R>(m.values, 2 * j),
      other = mrt_get<R>(m.values, 2 * j + 1);
    for (int p = 0; p < 4; p++)
      mrt_put(w, 4 * j + p, (p == i ? one : (R)0) + (p == k ? other : (R)0));
  }
}

template <typename R> static void dense_rows(const mrt_call *c) {
  packed<R> m = packed_at<R>(&c->in[0], &c->in[1]);
  int64_t fours = mrt_rows(&c->in[0]) * (m.half / 2);
  if (fours == 0) return;
  MRT_LAUNCH(mrt_blocks(fours, 256), 256, 0, c->run->queue, spread<R>)
  (m, mrt_at_any<R>(c->out, 0, 1), fours);
}

template <typename R>
__global__ void pick(mrt_any<R> w, packed<R> m, int64_t count) {
  for (int64_t j = mrt_first(); j < count; j += mrt_stride()) {
    int64_t row = j / m.half, i = j % m.half;
    int at = places(m.codes + row * m.bytes, i / 2) >> (i % 2 * 2) & 3;
    mrt_put(m.values, j, mrt_get<R>(w, j / 2 * 4 + at));
  }
}

template <typename R> static void pick_rows(const mrt_call *c) {
  packed<R> m = packed_at<R>(&c->out[0], &c->in[1]);
  int64_t count = mrt_rows(&c->out[0]) * m.half;
  if (count == 0) return;
  MRT_LAUNCH(mrt_blocks(count, 256), 256, 0, c->run->queue, pick<R>)
  (mrt_at_any<R>(c->in, 0, 1), m, count);
}

/* ---- the product --------------------------------------------------------- */

template <typename R> struct packed_product {
  packed<R> w;
  mrt_any<R> x, bias, y; /* bias.data NULL: none */
  int64_t inner, outer;
  int compute;
  bool transposed;
};

template <typename R>
MRT_DEVICE R weight(const packed<R> &m, int64_t row, int64_t column) {
  int64_t g = column / 4, at = row * m.half + 2 * g;
  int code = places(m.codes + row * m.bytes, g), p = (int)(column % 4);
  R sum = (code & 3) == p ? mrt_get<R>(m.values, at) : (R)0;
  return sum + ((code >> 2 & 3) == p ? mrt_get<R>(m.values, at + 1) : (R)0);
}

template <typename R>
__global__ void multiply(packed_product<R> p, int64_t count) {
  for (int64_t j = mrt_first(); j < count; j += mrt_stride()) {
    int64_t row = j / p.outer, o = j % p.outer;
    R sum = 0;
    for (int64_t k = 0; k < p.inner; k++) {
      R w = p.transposed ? weight(p.w, k, o) : weight(p.w, o, k);
      R x = mrt_get<R>(p.x, row * p.inner + k);
      sum += mrt_rounded(x, p.compute) * mrt_rounded(w, p.compute);
    }
    if (p.bias.data) sum += mrt_get<R>(p.bias, o);
    mrt_put(p.y, j, sum);
  }
}

template <typename R> static void multiply_rows(const mrt_call *c) {
  const mrt_two_of_four_options *o =
      (const mrt_two_of_four_options *)c->options;
  packed_product<R> p = { packed_at<R>(&c->in[1], &c->in[2]),
                          mrt_at_any<R>(c->in, 0, c->nin),
                          mrt_at_any<R>(c->in, 3, c->nin),
                          mrt_at_any<R>(c->out, 0, 1),
                          mrt_cols(&c->in[0]),
                          mrt_cols(&c->out[0]),
                          (int)o->compute,
                          o->transposed };
  int64_t count = mrt_rows(&c->out[0]) * p.outer;
  if (count == 0) return;
  MRT_LAUNCH(mrt_blocks(count, 256), 256, 0, c->run->queue, multiply<R>)
  (p, count);
}

static bool is_double(const mrt_operand *x) { return x->type.dtype == MRT_f64; }

} // namespace

extern "C" void mrt_cuda_two_of_four(const mrt_call *c) {
  is_double(&c->in[0]) ? pack_rows<double>(c) : pack_rows<float>(c);
}
extern "C" void mrt_cuda_two_of_four_dense(const mrt_call *c) {
  is_double(&c->in[0]) ? dense_rows<double>(c) : dense_rows<float>(c);
}
extern "C" void mrt_cuda_two_of_four_pick(const mrt_call *c) {
  is_double(&c->in[0]) ? pick_rows<double>(c) : pick_rows<float>(c);
}
extern "C" void mrt_cuda_two_of_four_linear(const mrt_call *c) {
  is_double(&c->in[1]) ? multiply_rows<double>(c) : multiply_rows<float>(c);
}
