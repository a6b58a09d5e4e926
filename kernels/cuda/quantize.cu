/* quantize.cu -- quantize, dequantize, and products of few rows with codes
 *
 * A team of threads makes the codes of a block, which it reads twice: for the
 * largest, then to divide by it.  Few rows times a quantised matrix is bound by
 * reading the codes, so there a warp looks up a row of it and multiplies at
 * once; many rows go through mrt_cuda_take and the library (quantized_linear.c).
 *
 * SPDX-License-Identifier: MIT */
#include "gemm/gemm.cuh"
#include "quantize.h"
#include "rows.cuh"

namespace {

/* What codes of 4 bits stand for: nf4, fp4. */
__constant__ const double tables[2][16] = {
  { -1, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453,
    -0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0,
    0.07958029955625534, 0.16093020141124725, 0.24611230194568634,
    0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
    0.7229568362236023, 1 },
  { 0, 0.0625 / 12, 8. / 12, 1, 4. / 12, 6. / 12, 2. / 12, 3. / 12, 0,
    -0.0625 / 12, -8. / 12, -1, -4. / 12, -6. / 12, -2. / 12, -3. / 12 }
};
/* Codes by rising value; -0 is not used. */
__constant__ const uint8_t orders[2][16] = {
  { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 },
  { 11, 10, 13, 12, 15, 14, 9, 0, 0, 1, 6, 7, 4, 5, 2, 3 }
};

MRT_DEVICE int table_of(int kind) { return kind == MRT_QUANTIZE_NF4 ? 0 : 1; }

MRT_DEVICE float nearest(float x) { return rintf(x); }
MRT_DEVICE double nearest(double x) { return rint(x); }
MRT_DEVICE float size_of(float x) { return fabsf(x); }
MRT_DEVICE double size_of(double x) { return fabs(x); }

template <typename R> static mrt_any<R> any_of(const mrt_operand *x) {
  if (!x) return { NULL, MRT_f32 };
  return { x->data, x->type.dtype };
}

/* ---- quantize ------------------------------------------------------------ */

/* Numbers half way between neighbours, rising, and their codes. */
template <typename R> struct limits {
  R middle[15];
  uint8_t order[16];
};
template <typename R> MRT_DEVICE void fill(limits<R> *l, int kind) {
  int t = (int)(threadIdx.y * blockDim.x + threadIdx.x), of = table_of(kind);
  if (t < 16) l->order[t] = orders[of][t];
  if (t < 15)
    l->middle[t] =
        (R)((tables[of][orders[of][t]] + tables[of][orders[of][t + 1]]) / 2);
  __syncthreads();
}
template <typename R> MRT_DEVICE int code_of(const limits<R> &l, R x) {
  int rank = 0;
  MRT_UNROLL
  for (int i = 0; i < 15; i++) rank += x > l.middle[i];
  return l.order[rank];
}
template <typename R> MRT_DEVICE int byte_of(R x) {
  R code = nearest(x * 127) + 128;
  return code >= 0 && code <= 255 ? (int)code : 128;
}

/* The largest |x| of a block; NaN if any is not finite. */
template <typename R> MRT_DEVICE R largest(const R *x, int64_t n) {
  R most = 0, strange = 0;
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
    R a = size_of(x[i]);
    most = a > most ? a : most;
    strange = a - a == 0 ? strange : (R)1;
  }
  most = mrt_team_max(most), strange = mrt_team_max(strange);
  return strange > 0 ? (R)NAN : most;
}

/* x over the scale and `more`, as ggml rounds: kernels/cpu/quantize.c. */
template <typename R> MRT_DEVICE float over(R x, R by, double more) {
  return (float)__dadd_rn(__dmul_rn((double)x, (double)by), more);
}
template <typename R> MRT_DEVICE int q4_0_of(R x, R by) {
  float y = over(x, by, 8.5);
  return y >= 0 ? (int)(y < 15 ? y : 15) : y == y ? 0 : 8;
}
template <typename R> MRT_DEVICE int q8_0_of(R x, R by) {
  float y = roundf((float)(x * by));
  y = y > 127 ? 127 : y < -127 ? -127 : y;
  return y == y ? (int)y & 255 : 0;
}

/* The codes of a block of n <= 32 whose largest |x| is `most`; its scale. */
template <typename R>
MRT_DEVICE R put_gguf(int kind, const R *x, int64_t n, R most, uint8_t *to) {
  enum { HALF = MRT_QUANTIZE_BLOCK / 2 };
  bool halves = kind == MRT_QUANTIZE_Q4_0;
  R first = -MRT_QUANTIZE_BLOCK; /* number, negative, of the first that large */
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x)
    if (size_of(x[i]) == most && (R)-i > first) first = (R)-i;
  first = -mrt_team_max(first);
  R furthest = first < (R)n ? x[(int)first] : (R)0;
  R scale = halves ? furthest / -8 : most / 127;
  R by = scale != 0 ? 1 / scale : (R)0;
  if (most != most) by = scale = most;
  for (int64_t i = threadIdx.x; i < (halves ? (int64_t)HALF : n);
       i += blockDim.x) {
    if (!halves) {
      to[i] = (uint8_t)q8_0_of(x[i], by);
      continue;
    }
    int low = i < n ? q4_0_of(x[i], by) : 0;
    int high = i + HALF < n ? q4_0_of(x[i + HALF], by) : 0;
    to[i] = (uint8_t)(low | high << 4);
  }
  return (R)mrt_rounded((float)scale, MRT_f16);
}

template <typename R>
__global__ void __launch_bounds__(MRT_TEAM_MOST, mrt_teams_at_once<R>)
    quantize(const R *w, mrt_cuda_quantized q, uint8_t *codes,
             mrt_any<R> scales, int64_t rows, int64_t n) {
  __shared__ limits<R> l;
  fill(&l, q.kind);
  for (int64_t i = mrt_first_row(); i < rows * q.blocks;
       i += mrt_row_stride()) {
    int64_t row = mrt_quotient(i, q.blocks),
            at = (i - row * q.blocks) * q.block;
    int64_t count = n - at < q.block ? n - at : q.block;
    const R *x = w + row * n + at;
    R most = largest(x, count), by = most > 0 ? most : (R)1;
    uint8_t *to = codes + row * q.bytes + at / q.pack;
    R scale = q.gguf ? put_gguf(q.kind, x, count, most, to) : most;
    if (threadIdx.x == 0) mrt_put(scales, i, scale);
    if (q.gguf) continue;
    if (q.pack == 1)
      for (int64_t j = threadIdx.x; j < count; j += blockDim.x)
        to[j] = (uint8_t)byte_of(x[j] / by);
    else
      for (int64_t j = threadIdx.x; 2 * j < count; j += blockDim.x) {
        int second = 2 * j + 1 < count ? code_of(l, x[2 * j + 1] / by) : 0;
        to[j] = (uint8_t)(code_of(l, x[2 * j] / by) | second << 4);
      }
  }
}

template <typename R> static void quantize_rows(const mrt_call *c) {
  const mrt_quantize_options *o = (const mrt_quantize_options *)c->options;
  int64_t rows = mrt_rows(&c->in[0]), n = mrt_cols(&c->in[0]);
  mrt_cuda_quantized q = { NULL,
                           NULL,
                           MRT_f32,
                           o->kind,
                           mrt_quantize_pack(o->kind),
                           mrt_quantize_is_gguf(o->kind),
                           o->block,
                           mrt_cols(&c->out[0]),
                           mrt_cols(&c->out[1]) };
  if (rows * q.blocks == 0) return;
  dim3 team = mrt_team(o->block < n ? o->block : n, 2, 4);
  MRT_LAUNCH(mrt_blocks(rows * q.blocks, team.y), team, 0, c->run->queue,
             quantize<R>)
  ((const R *)c->in[0].data, q, (uint8_t *)c->out[0].data,
   any_of<R>(&c->out[1]), rows, n);
}

/* ---- back ---------------------------------------------------------------- */

/* V numbers at a time; of 4 bits `col` is even. */
enum { V = 4 };

MRT_DEVICE int code_at(const mrt_cuda_quantized &q, const uint8_t *codes,
                       int64_t i) {
  enum { BLOCK = MRT_QUANTIZE_BLOCK, HALF = BLOCK / 2 };
  if (q.pack == 1) return codes[i];
  if (q.kind != MRT_QUANTIZE_Q4_0)
    return (i & 1) ? codes[i / 2] >> 4 : codes[i / 2] & 15;
  int byte = codes[i / BLOCK * HALF + i % HALF];
  return i % BLOCK < HALF ? byte & 15 : byte >> 4;
}

/* The numbers at columns [col, col + V) of row `row`, 0 for codes that are not
 * there. */
template <typename R>
MRT_DEVICE void look_up(const mrt_cuda_quantized &q, const R *value,
                        int64_t row, int64_t col, int64_t end, int via, R *v) {
  int64_t block = mrt_quotient(col, q.block), next = (block + 1) * q.block;
  const uint8_t *codes = q.codes + row * q.bytes;
  mrt_any<R> scales = { (void *)q.scales, q.dtype };
  MRT_UNROLL
  for (int i = 0; i < V; i++) {
    bool inside = col + i < end;
    if (col + i == next) block++, next += q.block;
    R scale = inside ? mrt_get<R>(scales, row * q.blocks + block) : (R)0;
    int code = inside ? code_at(q, codes, col + i) : 0;
    if (q.pack == 2)
      v[i] = inside ? value[code] * scale : (R)0;
    else if (q.kind == MRT_QUANTIZE_INT8)
      v[i] = inside ? (R)(code - 128) * (scale / 127) : (R)0;
    else
      v[i] = (R)(code < 128 ? code : code - 256) * scale;
    v[i] = mrt_rounded(v[i], via);
  }
}
template <typename R> MRT_DEVICE void fill(R *value, int kind) {
  int t = (int)threadIdx.x;
  if (t < 16)
    value[t] =
        kind == MRT_QUANTIZE_Q4_0 ? (R)(t - 8) : (R)tables[table_of(kind)][t];
  __syncthreads();
}

template <typename R>
__global__ void __launch_bounds__(256)
    take(mrt_cuda_quantized q, int64_t row, int64_t rows, int64_t col,
         int64_t cols, int via, mrt_any<R> to) {
  __shared__ R value[16];
  fill(value, q.kind);
  int64_t packs = (cols + V - 1) / V;
  for (int64_t i = mrt_first(); i < rows * packs; i += mrt_stride()) {
    int64_t r = mrt_quotient(i, packs), first = (i - r * packs) * V;
    R v[V];
    look_up<R>(q, value, row + r, col + first, col + cols, via, v);
    mrt_put_pack<V>(to, r * cols + first, (r + 1) * cols, v);
  }
}

/* ---- few rows ------------------------------------------------------------ */

template <typename R>
__global__ void __launch_bounds__(256, sizeof(R) == 8 ? 2 : 4)
    few_rows(mrt_cuda_quantized q, mrt_any<R> x, mrt_any<R> bias, mrt_any<R> y,
             int64_t m, int64_t n, int64_t k, int via) {
  __shared__ R value[16];
  fill(value, q.kind);
  int lane = (int)threadIdx.x % 32, warps = (int)blockDim.x / 32;
  int64_t j = (int64_t)blockIdx.x * warps + threadIdx.x / 32;
  for (; j < n; j += (int64_t)gridDim.x * warps) {
    R sum[MRT_CUDA_FEW] = {};
    for (int64_t p = lane * V; p < k; p += 32 * V) {
      R w[V], a[V];
      look_up<R>(q, value, j, p, k, via, w);
      MRT_UNROLL
      for (int r = 0; r < MRT_CUDA_FEW; r++) {
        if (r >= m) break;
        mrt_get_pack<V>(x, r * k + p, (r + 1) * k, (R)0, a);
        MRT_UNROLL
        for (int i = 0; i < V; i++)
          sum[r] += p + i < k ? mrt_rounded(a[i], via) * w[i] : (R)0;
      }
    }
    MRT_UNROLL
    for (int r = 0; r < MRT_CUDA_FEW; r++) {
      if (r >= m) break;
      R s = mrt_warp_reduce<mrt_add>(sum[r]);
      if (bias.data) s += mrt_get<R>(bias, j);
      if (lane == 0) mrt_put(y, r * n + j, s);
    }
  }
}

} // namespace

extern "C" void mrt_cuda_quantize(const mrt_call *c) {
  if (c->in[0].type.dtype == MRT_f64)
    quantize_rows<double>(c);
  else
    quantize_rows<float>(c);
}

extern "C" mrt_cuda_quantized mrt_cuda_quantized_of(const mrt_call *c,
                                                    int input) {
  const mrt_quantize_options *o = (const mrt_quantize_options *)c->options;
  const mrt_operand *codes = &c->in[input], *scales = &c->in[input + 1];
  return { (const uint8_t *)codes->data,
           scales->data,
           scales->type.dtype,
           o->kind,
           mrt_quantize_pack(o->kind),
           mrt_quantize_is_gguf(o->kind),
           o->block,
           mrt_cols(codes),
           mrt_cols(scales) };
}

extern "C" void mrt_cuda_take(const mrt_cuda_quantized *q, int64_t row,
                              int64_t rows, int64_t col, int64_t cols, int via,
                              void *to, int dtype, cudaStream_t queue) {
  int64_t work = rows * ((cols + V - 1) / V);
  if (work == 0) return;
  unsigned grid = mrt_blocks(work, 256);
  if (q->dtype == MRT_f64) {
    mrt_any<double> y = { to, dtype };
    MRT_LAUNCH(grid, 256, 0, queue, take<double>)
    (*q, row, rows, col, cols, via, y);
  } else {
    mrt_any<float> y = { to, dtype };
    MRT_LAUNCH(grid, 256, 0, queue, take<float>)
    (*q, row, rows, col, cols, via, y);
  }
}

extern "C" void mrt_cuda_few_rows(const mrt_cuda_quantized *q,
                                  const mrt_operand *x, const mrt_operand *bias,
                                  mrt_operand *y, int64_t m, int64_t n,
                                  int64_t k, int via, cudaStream_t queue) {
  unsigned grid = mrt_blocks(n, 8);
  if (q->dtype == MRT_f64) MRT_LAUNCH(grid, 256, 0, queue, few_rows<double>)
  (*q, any_of<double>(x), any_of<double>(bias), any_of<double>(y), m, n, k,
   via);
  else MRT_LAUNCH(grid, 256, 0, queue,
                  few_rows<float>)(*q, any_of<float>(x), any_of<float>(bias),
                                   any_of<float>(y), m, n, k, via);
}

extern "C" void mrt_cuda_dequantize(const mrt_call *c) {
  mrt_cuda_quantized q = mrt_cuda_quantized_of(c, 0);
  mrt_cuda_take(&q, 0, mrt_rows(&c->out[0]), 0, mrt_cols(&c->out[0]),
                MRT_DTYPE_COUNT, c->out[0].data, c->out[0].type.dtype,
                (cudaStream_t)c->run->queue);
}
