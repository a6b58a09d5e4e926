/* global_norm.cu -- the length of many tensors together, or of each row
 *
 * Squares are summed in double, so a float gradient neither overflows nor
 * loses its small elements.  Each input is cut into pieces of PIECE elements;
 * a block sums a piece, and one block then the pieces of all inputs, in a fixed
 * order.  Inputs go to kernels by the batch, for many are small.
 *
 * SPDX-License-Identifier: MIT */
#include "reduce.cuh"

namespace {

enum { PIECE = 1 << 14, BATCH = 64, TEAM = 256, V = 4 };

struct squares {
  typedef double acc;
  static __device__ __forceinline__ double none(void) { return 0; }
  template <typename R>
  static __device__ __forceinline__ double of(R x, int64_t) {
    return (double)x * (double)x;
  }
  static __device__ __forceinline__ double join(double a, double b) {
    return a + b;
  }
  static __device__ __forceinline__ void put(void *y, int dtype, int64_t i,
                                             double a) {
    if (dtype == MRT_f64)
      ((double *)y)[i] = sqrt(a);
    else
      ((float *)y)[i] = (float)sqrt(a);
  }
};

template <typename R> struct norm_batch {
  int count;
  struct {
    mrt_any<R> x;
    int64_t n, before; /* pieces of earlier ones */
  } at[BATCH];
  int64_t pieces;
};

static int64_t pieces_of(const mrt_operand *x) {
  return (mrt_elements(x) + PIECE - 1) / PIECE;
}

template <typename R>
__global__ void __launch_bounds__(TEAM)
    sum_pieces(norm_batch<R> b, double *sums) {
  for (int64_t piece = blockIdx.x; piece < b.pieces; piece += gridDim.x) {
    int k = 0;
    while (k + 1 < b.count && b.at[k + 1].before <= piece) k++;
    int64_t from = (piece - b.at[k].before) * PIECE, n = b.at[k].n;
    int64_t end = from + PIECE < n ? from + PIECE : n;
    double sum[V] = {};
    for (int64_t i = from + threadIdx.x * V; i < end; i += TEAM * V) {
      R v[V];
      mrt_get_pack<V>(b.at[k].x, i, end, (R)0, v);
      MRT_UNROLL
      for (int j = 0; j < V; j++) sum[j] += (double)v[j] * (double)v[j];
    }
    double all = join_team<squares>(join_pack<squares, V>(sum));
    if (threadIdx.x == 0) sums[piece] = all;
  }
}

/* Queue the inputs from `i` on; returns the first that is left. */
template <typename R>
static int run_batch(const mrt_call *c, int i, int64_t *done) {
  double *sums = (double *)c->scratch;
  norm_batch<R> b = {};
  for (; i < c->nin && b.count < BATCH; i++) {
    b.at[b.count++] = { mrt_at_any<R>(c->in, i, c->nin),
                        mrt_elements(&c->in[i]), b.pieces };
    b.pieces += pieces_of(&c->in[i]);
  }
  if (b.pieces)
    MRT_LAUNCH(mrt_blocks(b.pieces, 1), TEAM, 0, c->run->queue, sum_pieces<R>)
  (b, sums + *done);
  *done += b.pieces;
  return i;
}

template <typename R> static void run(const mrt_call *c) {
  const mrt_operand *y = &c->out[0];
  int64_t pieces = 0;
  for (int i = 0; i < c->nin;) i = run_batch<R>(c, i, &pieces);
  run_pass(c->run->queue, results_of<squares>{ (double *)c->scratch },
           sink_of<squares>{ NULL, y->data, y->type.dtype },
           pass{ 1, pieces, 1, pieces, 1 });
}

} // namespace

extern "C" void mrt_cuda_global_norm(const mrt_call *c) {
  if (c->out[0].type.dtype == MRT_f64)
    run<double>(c);
  else
    run<float>(c);
}
extern "C" size_t mrt_cuda_global_norm_scratch(const mrt_call *c) {
  int64_t pieces = 0;
  for (int i = 0; i < c->nin; i++) pieces += pieces_of(&c->in[i]);
  return (size_t)pieces * sizeof(double);
}

extern "C" void mrt_cuda_row_norm(const mrt_call *c) {
  const mrt_operand *x = &c->in[0], *y = &c->out[0];
  int64_t rows = mrt_elements(y), n = rows ? mrt_elements(x) / rows : 0;
  MRT_DISPATCH_NUMBER(x->type.dtype, T,
                      run_pass(c->run->queue,
                               elements_of<squares, T>{ mrt_at<T>(x) },
                               sink_of<squares>{ NULL, y->data, y->type.dtype },
                               pass{ rows, n, 1, n, 1 }))
}
