/* attention.cuh -- what attention and its gradient share
 *
 * Two forms of each kernel: of any floats by plain sums of products
 * (attention_tile.cuh), and of bf16 or f16 up to 128 wide by the matrix units
 * (attention_mma.cuh).  Dtypes and widths alone decide.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CUDA_ATTENTION_CUH
#define MRT_CUDA_ATTENTION_CUH

#include "cuda.cuh"
#include "op/attention.h"

/* B batches, T queries of H heads, S keys of Hk heads of D, values of Dv. */
struct mrt_attention {
  int64_t B, T, H, D, S, Hk, Dv;
  int64_t group; /* query heads that share a key head */
  bool causal;
  bool rounds; /* all factors are bf16 or f8: so are weights */
  double scale;
};

static inline bool mrt_fits_bf16(const mrt_operand *x) {
  int t = x->type.dtype;
  return t == MRT_bf16 || t == MRT_f8_e4m3 || t == MRT_f8_e5m2;
}

static inline mrt_attention mrt_attention_of(const mrt_call *c) {
  const mrt_attention_options *o = (const mrt_attention_options *)c->options;
  const int64_t *q = c->in[0].type.dims, *k = c->in[1].type.dims;
  mrt_attention n = {};
  n.B = q[0], n.T = q[1], n.H = q[2], n.D = q[3];
  n.S = k[1], n.Hk = k[2], n.Dv = c->in[2].type.dims[3];
  n.group = n.Hk ? n.H / n.Hk : 0;
  n.causal = o->causal, n.scale = o->scale, n.rounds = true;
  for (int i = 0; i < c->nin; i++) /* o and lse are no factors */
    n.rounds = n.rounds && (i == 3 || i == 4 || mrt_fits_bf16(&c->in[i]));
  return n;
}

static inline int64_t mrt_tiles(int64_t n, int64_t tile) {
  return (n + tile - 1) / tile;
}

/* One past the last key that query t sees. */
MRT_DEVICE int64_t mrt_keys_seen(const mrt_attention &n, int64_t t) {
  int64_t end = n.causal ? t + n.S - n.T + 1 : n.S;
  return end < 0 ? 0 : end > n.S ? n.S : end;
}
/* The first query that sees key s. */
MRT_DEVICE int64_t mrt_first_query(const mrt_attention &n, int64_t s) {
  int64_t t = n.causal ? s - (n.S - n.T) : 0;
  return t < 0 ? 0 : t;
}
MRT_DEVICE bool mrt_is_seen(const mrt_attention &n, int64_t t, int64_t s) {
  return t < n.T && s < mrt_keys_seen(n, t);
}

/* An operand [batch, rows, heads, width] of any strides. */
template <typename T> struct mrt_heads {
  mrt_place<T> x;
  int64_t rows, width, strides[4];
};
template <typename T>
static inline mrt_heads<T> mrt_heads_of(const mrt_operand *x) {
  mrt_heads<T> h = {};
  h.x = mrt_at<T>(x);
  h.rows = x->type.dims[1], h.width = x->type.dims[3];
  for (int i = 0; i < 4; i++) h.strides[i] = x->strides[i];
  return h;
}
/* The first element of head h of batch b. */
template <typename T>
MRT_DEVICE int64_t mrt_head(const mrt_heads<T> &x, int64_t b, int64_t h) {
  return b * x.strides[0] + h * x.strides[2];
}
/* An output: the first element of row t of head h of batch b. */
template <typename T>
MRT_DEVICE int64_t mrt_row_of(const mrt_heads<T> &x, int64_t b, int64_t t,
                              int64_t h) {
  return mrt_head(x, b, h) + t * x.strides[1];
}

/* attention_mma.cu, attention_grad_mma.cu: whether the form for matrix units
 * fits, and has been launched.  `delta`: as attention_grad.cu says. */
bool mrt_attention_mma(const mrt_call *c);
bool mrt_attention_grad_mma(const mrt_call *c, const float *delta);

#endif
