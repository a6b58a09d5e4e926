/* attention.cuh -- what attention and its gradient share
 *
 * Three forms of each kernel: of any floats by plain sums of products
 * (attention_tile.cuh), of bf16 or f16 up to 128 wide by the matrix units
 * (attention_mma.cuh), and of these by Hopper's warpgroups (attention_wgmma.cuh),
 * where a trial was right.  Dtypes, widths, strides and options alone decide.
 * Kernels of the first two are compiled twice: ADJUSTS has masks and softcap; of
 * those for matrix units ANY has them, and rows that do not lie in packs of 16
 * bytes, with the same bits.  Those for warpgroups have neither.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CUDA_ATTENTION_CUH
#define MRT_CUDA_ATTENTION_CUH

#include "cuda.cuh"
#include "dnn/fallback.h"
#include "op/attention.h"
#include <type_traits>

/* B batches, T queries of H heads, S keys of Hk heads of D, values of Dv; what is
 * seen as in op/attention.h. */
struct mrt_attention {
  int64_t B, T, H, D, S, Hk, Dv;
  int64_t group; /* query heads that share a key head */
  int64_t left, right, offset;
  bool rounds; /* all factors are bf16 or f8: so are weights */
  double scale, softcap;
  const void *mask; /* NULL: none */
  int mask_dtype;
  int64_t mask_step[4];          /* elements; 0 along what it is 1 of */
  mrt_operand queries, keys, at; /* of each sample; data NULL: absent */
  mrt_run_words *words;
  int node;
};

static inline bool mrt_fits_bf16(const mrt_operand *x) {
  int t = x->type.dtype;
  return t == MRT_bf16 || t == MRT_f8_e4m3 || t == MRT_f8_e5m2;
}

/* The inputs that may be absent, behind `after` others. */
static inline void mrt_attention_optional(const mrt_call *c, int after,
                                          mrt_attention *n) {
  const mrt_attention_options *o = (const mrt_attention_options *)c->options;
  if (o->has & MRT_ATTENTION_MASK) {
    const mrt_operand *x = &c->in[after++];
    n->mask = x->data, n->mask_dtype = x->type.dtype;
    for (int d = 0; d < 4; d++)
      n->mask_step[d] = x->type.dims[d] == 1 ? 0 : x->strides[d];
  }
  if (o->has & MRT_ATTENTION_QUERIES) n->queries = c->in[after++];
  if (o->has & MRT_ATTENTION_KEYS) n->keys = c->in[after++];
  if (o->has & MRT_ATTENTION_AT) n->at = c->in[after++];
}

static inline mrt_attention mrt_attention_of(const mrt_call *c, int after) {
  const mrt_attention_options *o = (const mrt_attention_options *)c->options;
  const int64_t *q = c->in[0].type.dims, *k = c->in[1].type.dims;
  mrt_attention n = {};
  n.B = q[0], n.T = q[1], n.H = q[2], n.D = q[3];
  n.S = k[1], n.Hk = k[2], n.Dv = c->in[2].type.dims[3];
  if (after == MRT_ATTENTION_PAGED_AFTER) n.S *= c->in[3].type.dims[1];
  n.group = n.Hk ? n.H / n.Hk : 0;
  n.left = mrt_attention_left(o), n.right = mrt_attention_right(o);
  n.offset = o->offset, n.scale = o->scale, n.softcap = o->softcap;
  n.rounds = true;
  for (int i = 0; i < after; i++) /* o, lse and pages are no factors */
    n.rounds = n.rounds && (i == 3 || i == 4 || mrt_fits_bf16(&c->in[i]));
  n.words = c->run ? c->run->words : NULL, n.node = c->node;
  mrt_attention_optional(c, after, &n);
  return n;
}
static inline bool mrt_attention_adjusts(const mrt_attention &n) {
  return n.mask || n.softcap > 0;
}

static inline int64_t mrt_tiles(int64_t n, int64_t tile) {
  return (n + tile - 1) / tile;
}

/* ---- what is seen -------------------------------------------------------- */

/* What is there of a sample: queries, keys; and where query 0 stands. */
struct mrt_sample {
  int64_t T, S, at;
};

MRT_DEVICE int64_t mrt_length(const mrt_attention &n, const mrt_operand &x,
                              int64_t b, int64_t most) {
  if (!x.data) return most;
  int64_t length = mrt_id(x.data, x.type.dtype, b * x.strides[0]);
  return mrt_checked_id(n.words, n.node, length, most + 1);
}
MRT_DEVICE mrt_sample mrt_sample_of(const mrt_attention &n, int64_t b) {
  mrt_sample m = { mrt_length(n, n.queries, b, n.T),
                   mrt_length(n, n.keys, b, n.S), n.offset };
  const int64_t far = MRT_ATTENTION_FAR;
  if (n.at.data) {
    int64_t at = mrt_id(n.at.data, n.at.type.dtype, b * n.at.strides[0]);
    m.at = at < -far ? -far : at > far ? far : at;
  } else if (n.offset == MRT_ATTENTION_AT_END) {
    m.at = m.S - m.T;
  }
  return m;
}

MRT_DEVICE int64_t mrt_within(int64_t x, int64_t end) {
  return x < 0 ? 0 : x > end ? end : x;
}
/* Query t sees keys mrt_keys_from .. mrt_keys_seen - 1. */
MRT_DEVICE int64_t mrt_keys_seen(const mrt_attention &n, const mrt_sample &m,
                                 int64_t t) {
  return t < m.T ? mrt_within(t + m.at + n.right + 1, m.S) : 0;
}
MRT_DEVICE int64_t mrt_keys_from(const mrt_attention &n, const mrt_sample &m,
                                 int64_t t) {
  return mrt_within(t + m.at - n.left, m.S);
}
/* Key s is seen by queries mrt_first_query .. mrt_queries_end - 1. */
MRT_DEVICE int64_t mrt_first_query(const mrt_attention &n, const mrt_sample &m,
                                   int64_t s) {
  return mrt_within(s - m.at - n.right, m.T);
}
MRT_DEVICE int64_t mrt_queries_end(const mrt_attention &n, const mrt_sample &m,
                                   int64_t s) {
  return s < m.S ? mrt_within(s - m.at + n.left + 1, m.T) : 0;
}
MRT_DEVICE bool mrt_is_seen(const mrt_attention &n, const mrt_sample &m,
                            int64_t t, int64_t s) {
  return s < mrt_keys_seen(n, m, t) && s >= mrt_keys_from(n, m, t);
}
/* What queries t .. end see of keys: from a multiple of `tile`, to an end. */
struct mrt_reach {
  int64_t from, end;
};
MRT_DEVICE mrt_reach mrt_keys_of(const mrt_attention &n, const mrt_sample &m,
                                 int64_t t, int64_t end, int64_t tile) {
  if (end > m.T) end = m.T;
  if (t >= end) return { 0, 0 };
  return { mrt_keys_from(n, m, t) / tile * tile, mrt_keys_seen(n, m, end - 1) };
}
/* The queries that see some of keys s .. end. */
MRT_DEVICE mrt_reach mrt_queries_of(const mrt_attention &n, const mrt_sample &m,
                                    int64_t s, int64_t end, int64_t tile) {
  if (end > m.S) end = m.S;
  if (s >= end) return { 0, 0 };
  return { mrt_first_query(n, m, s) / tile * tile,
           mrt_queries_end(n, m, end - 1) };
}

/* What is added to the score of a pair. */
template <typename R>
MRT_DEVICE R mrt_mask_at(const mrt_attention &n, int64_t b, int64_t h,
                         int64_t t, int64_t s) {
  int64_t i = b * n.mask_step[0] + h * n.mask_step[1] + t * n.mask_step[2] +
              s * n.mask_step[3];
  if (n.mask_dtype == MRT_bool)
    return ((const uint8_t *)n.mask)[i] ? 0 : -(R)INFINITY;
  mrt_any<R> x = { (void *)n.mask, n.mask_dtype };
  return mrt_get<R>(x, i);
}
/* A score after softcap; *slope: what that multiplies its gradient by. */
template <typename R>
MRT_DEVICE R mrt_capped(const mrt_attention &n, R score, R *slope) {
  R y = tanh(score / (R)n.softcap);
  *slope = 1 - y * y;
  return y * (R)n.softcap;
}
/* One that is seen, after softcap and mask. */
template <typename R>
MRT_DEVICE R mrt_adjust(const mrt_attention &n, int64_t b, int64_t h, int64_t t,
                        int64_t s, R score, R *slope) {
  *slope = 1;
  if (n.softcap > 0) score = mrt_capped(n, score, slope);
  return n.mask ? score + mrt_mask_at<R>(n, b, h, t, s) : score;
}

/* ---- operands ------------------------------------------------------------ */

/* An operand [batch, rows, heads, width] of any strides. */
template <typename T> struct mrt_heads {
  typedef T element;
  /* that a thread reads; a mixed one has its dtype looked at each time */
  enum { ROWS_AT_ONCE = std::is_empty<T>::value ? 1 : 4 };
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
/* The same, of which only so many rows are there. */
template <typename T>
MRT_DEVICE mrt_heads<T> mrt_rows(mrt_heads<T> x, int64_t rows) {
  x.rows = rows;
  return x;
}
/* The first element of head h of batch b. */
template <typename T>
MRT_DEVICE int64_t mrt_head(const mrt_heads<T> &x, int64_t b, int64_t h) {
  return b * x.strides[0] + h * x.strides[2];
}
/* Row i of the head that begins there. */
template <typename T>
MRT_DEVICE int64_t mrt_row_at(const mrt_heads<T> &x, int64_t head, int64_t i) {
  return head + i * x.strides[1];
}
/* An output: the first element of row t of head h of batch b. */
template <typename T>
MRT_DEVICE int64_t mrt_row_of(const mrt_heads<T> &x, int64_t b, int64_t t,
                              int64_t h) {
  return mrt_head(x, b, h) + t * x.strides[1];
}

/* The same in pages of a cache: [pages, page, heads, width]. */
template <typename T> struct mrt_paged : mrt_heads<T> {
  enum { ROWS_AT_ONCE = 1 }; /* each has a page to be looked up */
  mrt_operand table;         /* [B, pages of each sample] */
  int64_t page, count, first;
  mrt_run_words *words;
  int node;
};
template <typename T>
static inline mrt_paged<T> mrt_paged_of(const mrt_call *c, int i) {
  mrt_paged<T> x = {};
  (mrt_heads<T> &)x = mrt_heads_of<T>(&c->in[i]);
  x.table = c->in[3], x.page = x.rows, x.count = c->in[i].type.dims[0];
  x.rows *= x.table.type.dims[1];
  x.words = c->run->words, x.node = c->node;
  return x;
}
/* Those of sample b, of which only so many rows are there. */
template <typename T>
MRT_DEVICE mrt_heads<T> mrt_rows_of(const mrt_heads<T> &x, int64_t,
                                    int64_t rows) {
  return mrt_rows(x, rows);
}
template <typename T>
MRT_DEVICE mrt_paged<T> mrt_rows_of(mrt_paged<T> x, int64_t b, int64_t rows) {
  x.rows = rows, x.first = b * x.table.strides[0];
  return x;
}
template <typename T>
MRT_DEVICE int64_t mrt_head(const mrt_paged<T> &x, int64_t, int64_t h) {
  return h * x.strides[2];
}
template <typename T>
MRT_DEVICE int64_t mrt_row_at(const mrt_paged<T> &x, int64_t head, int64_t i) {
  int64_t at = x.first + i / x.page * x.table.strides[1];
  int64_t id = mrt_id(x.table.data, x.table.type.dtype, at);
  id = mrt_checked_id(x.words, x.node, id, x.count);
  return head + id * x.strides[0] + i % x.page * x.strides[1];
}

/* attention_mask_grad.cu: launched where the mask's gradient is wanted, behind
 * delta. */
void mrt_attention_mask_grad(const mrt_call *c);

#endif
