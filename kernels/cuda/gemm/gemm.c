/* gemm.c -- how a product is made on a CUDA device
 *
 * The library multiplies two matrices of one dtype whose rows or columns are
 * contiguous.  An operand of another kind is first made anew in scratch: as
 * the narrowest dtype that holds all its numbers and that both can have.  8-bit
 * floats go to the library as they are where it takes them: both with the
 * summed dimension contiguous, all sizes multiples of 16.
 *
 * Of a batch the library does the longest dimension, a loop here the others; not
 * where y is added to: a loop that the library breaks off could not begin again.
 *
 * SPDX-License-Identifier: MIT */
#include "gemm/gemm.h"
#include "gemm/cublaslt.h"

#include <string.h>

enum { ALIGN = 256, MOST_CALLS = 256 };
/* Multiplications: below, one launch of ours beats casts and the library. */
static const double worth_packing = 1 << 20;

static size_t up(size_t n) { return (n + ALIGN - 1) / ALIGN * ALIGN; }
static size_t bytes_of(int dtype) { return mrt_dtypes[dtype].bytes; }
static bool is_f8(int d) { return d == MRT_f8_e4m3 || d == MRT_f8_e5m2; }

/* ---- batches ------------------------------------------------------------- */

void mrt_cuda_gemm_add_dim(mrt_cuda_gemm *g, int64_t n, int64_t a, int64_t b) {
  mrt_cuda_batch *x = &g->a_batch, *w = &g->b_batch;
  int last = x->rank - 1;
  g->count *= n;
  if (n == 1) return;
  if (last >= 0 && x->step[last] == n * a && w->step[last] == n * b) {
    x->dims[last] *= n, w->dims[last] *= n;
    x->step[last] = a, w->step[last] = b;
    return;
  }
  x->dims[last + 1] = w->dims[last + 1] = n;
  x->step[last + 1] = a, w->step[last + 1] = b;
  x->rank++, w->rank++;
}

void mrt_cuda_gemm_merge_rows(mrt_cuda_gemm *g) {
  int last = g->a_batch.rank - 1;
  if (last < 0 || g->count == 0 || g->b_batch.step[last] != 0) return;
  if (g->m != 1 && g->a_batch.step[last] != g->m * g->a.row) return;
  if (g->m == 1) g->a.row = g->a_batch.step[last];
  g->m *= g->a_batch.dims[last];
  g->count /= g->a_batch.dims[last];
  g->a_batch.rank--, g->b_batch.rank--;
}

/* The dimensions along which it moves: those that a copy has. */
static mrt_cuda_batch moving(const mrt_cuda_batch *from) {
  mrt_cuda_batch to = { 0 };
  for (int i = 0; i < from->rank; i++)
    if (from->step[i] != 0) {
      to.dims[to.rank] = from->dims[i];
      to.step[to.rank++] = from->step[i];
    }
  return to;
}

static int64_t matrices(const mrt_cuda_batch *batch) {
  mrt_cuda_batch own = moving(batch);
  int64_t n = 1;
  for (int i = 0; i < own.rank; i++) n *= own.dims[i];
  return n;
}

/* The operand as its copy is. */
static void replace(mrt_cuda_matrix *x, mrt_cuda_batch *batch, int64_t rows,
                    int64_t cols, const mrt_cuda_pack *pack, char *scratch) {
  int64_t step = rows * cols;
  x->data = scratch ? scratch + pack->offset : NULL;
  x->dtype = pack->dtype;
  x->row = pack->turned ? 1 : cols, x->col = pack->turned ? rows : 1;
  for (int i = batch->rank - 1; i >= 0; i--)
    if (batch->step[i] != 0) batch->step[i] = step, step *= batch->dims[i];
}

/* g with its copies; their dimensions may now go together. */
static mrt_cuda_gemm packed(const mrt_cuda_gemm *g, const mrt_cuda_gemm_plan *w,
                            char *scratch) {
  mrt_cuda_gemm p = *g, q;
  if (w->a.is) replace(&p.a, &p.a_batch, g->m, g->k, &w->a, scratch);
  if (w->b.is) replace(&p.b, &p.b_batch, g->k, g->n, &w->b, scratch);
  q = p, q.count = 1, q.a_batch.rank = q.b_batch.rank = 0;
  for (int i = 0; i < p.a_batch.rank; i++)
    mrt_cuda_gemm_add_dim(&q, p.a_batch.dims[i], p.a_batch.step[i],
                          p.b_batch.step[i]);
  mrt_cuda_gemm_merge_rows(&q);
  return q;
}

/* ---- dtypes -------------------------------------------------------------- */

/* Whose numbers an operand has once it is rounded to `compute`. */
static int values_of(int dtype, int compute) {
  if (compute == MRT_DTYPE_COUNT || !mrt_is_narrow((mrt_dtype)compute))
    return dtype;
  return is_f8(dtype) && !is_f8(compute) ? dtype : compute;
}

/* The dtype in which both are multiplied, without loss. */
static int common(int a, int b) {
  if (is_f8(a) && is_f8(b)) return MRT_bf16;
  if (a == b || is_f8(b)) return a;
  return is_f8(a) ? b : MRT_f32;
}

static bool can_f8(const mrt_cuda *c, const mrt_cuda_gemm *g, int a, int b) {
  return c->arch >= 89 && is_f8(a) && is_f8(b) &&
         (a == MRT_f8_e4m3 || b == MRT_f8_e4m3) && g->m % 16 == 0 &&
         g->n % 16 == 0 && g->k % 16 == 0;
}

/* Whether the library can write `y` of factors of this dtype. */
static bool can_write(int factor, int y) {
  return y == factor ? !is_f8(y) : y == MRT_f32 || (is_f8(factor) && !is_f8(y));
}
/* The dtype that it wants a bias in. */
static int bias_beside(int factor, int y) {
  return is_f8(factor) && y == MRT_f32 ? MRT_bf16 : y;
}
/* Whether it can add the bias and take the GELU before it rounds.  What GELU is
 * taken of it stores beside factors of 8 bits for results of 8 bits alone, and it
 * takes no slope there. */
static bool can_end(int factor, const mrt_cuda_gemm *g) {
  bool bias =
      g->bias_dtype < 0 || g->bias_dtype == bias_beside(factor, g->y_dtype);
  bool aux = g->aux_dtype < 0 ||
             (!is_f8(factor) && g->n % 8 == 0 && g->aux_dtype == g->y_dtype);
  return factor != MRT_f64 && bias && (!g->gelu || (g->count == 1 && aux));
}

/* ---- layouts ------------------------------------------------------------- */

/* x [rows, cols] as the library knows it; false when it does not. */
static bool is_known(const mrt_cuda_matrix *x, int64_t rows, int64_t cols,
                     mrt_lt_matrix *to) {
  *to = (mrt_lt_matrix){ .dtype = x->dtype };
  if ((x->col == 1 || cols == 1) && (rows == 1 || x->row >= cols)) {
    to->ld = rows == 1 ? cols : x->row;
    return true;
  }
  if ((x->row == 1 || rows == 1) && (cols == 1 || x->col >= rows)) {
    to->turned = 1, to->ld = cols == 1 ? rows : x->col;
    return true;
  }
  return false;
}

static bool moves_back(const mrt_cuda_batch *batch) {
  for (int i = 0; i < batch->rank; i++)
    if (batch->step[i] < 0) return true;
  return false;
}

/* What has to be done to an operand before; `summed`: its dimension that is,
 * 0 rows, 1 columns. */
static void plan_pack(const mrt_cuda_matrix *x, const mrt_cuda_batch *batch,
                      int64_t rows, int64_t cols, int factor, int values,
                      int summed, mrt_cuda_pack *p) {
  mrt_lt_matrix known;
  bool fits = is_known(x, rows, cols, &known) && !moves_back(batch);
  *p = (mrt_cuda_pack){ .dtype = factor, .via = values };
  p->turned = is_f8(factor) ? summed == 0 : x->row == 1;
  p->is = x->dtype != factor || x->dtype != values || !fits ||
          (is_f8(factor) && p->turned != (known.turned != 0));
}

/* ---- decisions ----------------------------------------------------------- */

static int longest(const mrt_cuda_batch *batch) {
  int best = batch->rank - 1;
  for (int i = best - 1; i >= 0; i--)
    if (batch->dims[i] > batch->dims[best]) best = i;
  return best;
}

/* Matrices of y from one index of dimension i to the next. */
static int64_t inside(const mrt_cuda_batch *batch, int i) {
  int64_t n = 1;
  while (++i < batch->rank) n *= batch->dims[i];
  return n;
}

static bool keeps(int64_t step, int dtype, int align) {
  return step * (int64_t)bytes_of(dtype) % align == 0;
}

/* The largest power of two, up to 16, of which all matrices that a call starts
 * with are multiples away from the first. */
static int alignment(const mrt_cuda_gemm *g, const mrt_cuda_gemm_plan *w) {
  int align = 16;
  for (int i = 0; i < g->a_batch.rank; i++) {
    int64_t y = g->m * g->n * inside(&g->a_batch, i);
    if (i == w->along) continue;
    while (!keeps(g->a_batch.step[i], g->a.dtype, align) ||
           !keeps(g->b_batch.step[i], g->b.dtype, align) ||
           !keeps(y, w->sum, align))
      align /= 2;
  }
  return align;
}

static mrt_lt_shape shape_of(const mrt_cuda_gemm *g,
                             const mrt_cuda_gemm_plan *w) {
  mrt_lt_shape s;
  int i = w->along;
  memset(&s, 0, sizeof s);
  s.m = g->m, s.n = g->n, s.k = g->k, s.count = 1;
  is_known(&g->a, g->m, g->k, &s.a);
  is_known(&g->b, g->k, g->n, &s.b);
  bool own = w->finish && w->sum != g->y_dtype;
  s.y.ld = own ? g->n : g->y_row, s.y.dtype = w->sum;
  s.bias = w->finish ? -1 : g->bias_dtype;
  s.gelu = w->finish ? MRT_NO_GELU : g->gelu;
  s.aux = s.gelu && g->aux_dtype >= 0;
  s.sums = g->with_sums, s.adds = g->adds;
  if (i < 0) return s;
  s.count = g->a_batch.dims[i];
  s.a.step = g->a_batch.step[i], s.b.step = g->b_batch.step[i];
  s.y.step = g->m * g->n * inside(&g->a_batch, i);
  return s;
}

static bool ask_library(mrt_cuda *c, const mrt_cuda_gemm *g,
                        mrt_cuda_gemm_plan *w) {
  w->along = longest(&g->a_batch);
  int64_t count = w->along < 0 ? 1 : g->a_batch.dims[w->along];
  int64_t most = g->adds ? 1 : MOST_CALLS;
  if (g->count / count > most || count > INT32_MAX) return false;
  mrt_lt_shape s = shape_of(g, w);
  s.align = alignment(g, w);
  s.timed = 1, w->tight = mrt_lt_find(c, &s);
  s.align = (int)bytes_of(s.a.dtype);
  s.timed = 0, w->loose = w->tight ? mrt_lt_find(c, &s) : NULL;
  return w->tight != NULL;
}

static size_t take(mrt_cuda_gemm_plan *w, size_t bytes) {
  size_t at = w->scratch;
  w->scratch += up(bytes);
  return at;
}

/* Where copies, the sum and the workspace lie. */
static void place(const mrt_cuda_gemm *g, mrt_cuda_gemm_plan *w) {
  size_t a = (size_t)(matrices(&g->a_batch) * g->m * g->k);
  size_t b = (size_t)(matrices(&g->b_batch) * g->k * g->n);
  size_t y = (size_t)(g->count * g->m * g->n), workspace;
  w->scratch = 0;
  if (w->a.is) w->a.offset = take(w, a * bytes_of(w->a.dtype));
  if (w->b.is) w->b.offset = take(w, b * bytes_of(w->b.dtype));
  if (w->sum != g->y_dtype) w->sum_at = take(w, y * bytes_of(w->sum));
  workspace = mrt_lt_workspace(w->tight);
  if (w->loose && mrt_lt_workspace(w->loose) > workspace)
    workspace = mrt_lt_workspace(w->loose);
  w->workspace_at = take(w, workspace);
}

/* Try factors of these dtypes; `ends`: the library does all. */
static bool try_way(mrt_cuda *c, const mrt_cuda_gemm *g, int a, int b,
                    bool ends, mrt_cuda_gemm_plan *w) {
  bool more = g->bias_dtype >= 0 || g->gelu;
  *w = (mrt_cuda_gemm_plan){ .along = -1 };
  plan_pack(&g->a, &g->a_batch, g->m, g->k, a,
            values_of(g->a.dtype, g->compute), 1, &w->a);
  plan_pack(&g->b, &g->b_batch, g->k, g->n, b,
            values_of(g->b.dtype, g->compute), 0, &w->b);
  bool writes = can_write(a, g->y_dtype);
  w->finish = !writes || (more && !(ends && can_end(a, g)));
  w->sum =
      !w->finish || mrt_is_real((mrt_dtype)g->y_dtype) ? g->y_dtype : MRT_f32;
  w->sums = g->with_sums;
  if (w->sums && (w->finish || w->a.is)) return false;
  if (g->adds && w->finish)
    return false; /* y, which may be c, is written once */
  double work = (double)g->m * (double)g->n * (double)g->k * (double)g->count;
  if ((w->a.is || w->b.is) && work <= worth_packing) return false;
  mrt_cuda_gemm p = packed(g, w, NULL);
  if (!ask_library(c, &p, w)) return false;
  place(g, w);
  return true;
}

/* Whether the library may sum what it reads: it does in the dtype of y. */
static bool can_sum(int factor, const mrt_cuda_gemm *g) {
  return mrt_is_narrow((mrt_dtype)factor) && !is_f8(factor) &&
         g->sums_dtype == g->y_dtype && g->count == 1;
}

static void decide_plain(mrt_cuda *c, const mrt_cuda_gemm *g,
                         mrt_cuda_gemm_plan *w) {
  int a = values_of(g->a.dtype, g->compute);
  int b = values_of(g->b.dtype, g->compute), both = common(a, b);
  *w = (mrt_cuda_gemm_plan){ .along = -1 };
  if (g->count == 0 || g->m == 0 || g->n == 0 || g->k == 0) return;
  bool more = g->bias_dtype >= 0 || g->gelu, eight = can_f8(c, g, a, b);
  if (eight && try_way(c, g, a, b, true, w)) return;
  if (eight && more && try_way(c, g, a, b, false, w)) return;
  if (try_way(c, g, both, both, true, w)) return;
  if (more && try_way(c, g, both, both, false, w)) return;
  *w = (mrt_cuda_gemm_plan){ .along = -1 };
}

void mrt_cuda_gemm_decide(mrt_cuda *c, const mrt_cuda_gemm *g,
                          mrt_cuda_gemm_plan *w) {
  mrt_cuda_gemm plain = *g;
  int a = values_of(g->a.dtype, g->compute);
  int b = values_of(g->b.dtype, g->compute), both = common(a, b);
  bool some = g->m > 0 && g->n > 0 && g->k > 0;
  if (g->with_sums && some && can_sum(both, g) &&
      try_way(c, g, both, both, true, w))
    return;
  plain.with_sums = false;
  decide_plain(c, &plain, w);
}

/* ---- runs ---------------------------------------------------------------- */

static void repack(const mrt_cuda *c, const mrt_cuda_matrix *x,
                   const mrt_cuda_batch *batch, int64_t rows, int64_t cols,
                   const mrt_cuda_pack *pack, char *scratch) {
  mrt_cuda_batch own = moving(batch);
  if (pack->is)
    mrt_cuda_repack(x, &own, rows, cols, pack, scratch + pack->offset,
                    c->queue);
}

static char *at(const void *data, int64_t elements, int dtype) {
  return (char *)data + elements * (int64_t)bytes_of(dtype);
}

/* Where call `index` begins; y in matrices. */
static void begin_of(const mrt_cuda_gemm *p, int along, int64_t index,
                     int64_t *a, int64_t *b, int64_t *y) {
  int64_t matrix = 1;
  *a = *b = *y = 0;
  for (int i = p->a_batch.rank - 1; i >= 0; i--) {
    int64_t n = p->a_batch.dims[i], k = i == along ? 0 : index % n;
    if (i != along) index /= n;
    *a += k * p->a_batch.step[i], *b += k * p->b_batch.step[i];
    *y += k * matrix, matrix *= n;
  }
}

/* Whether the addresses of every call suit. */
static mrt_lt *fitting(const mrt_cuda_gemm_plan *w, const mrt_lt_call *call) {
  if (mrt_lt_takes(w->tight, call)) return w->tight;
  return w->loose && mrt_lt_takes(w->loose, call) ? w->loose : NULL;
}

bool mrt_cuda_gemm_run(mrt_cuda *c, const mrt_cuda_gemm *g,
                       const mrt_cuda_gemm_plan *w, void *scratch) {
  if (g->count == 0 || g->m == 0 || g->n == 0) return false;
  mrt_cuda_gemm p = packed(g, w, scratch);
  bool own = w->sum != g->y_dtype;
  void *sum = own ? (char *)scratch + w->sum_at : g->y;
  mrt_lt_call call = { .a = p.a.data,
                       .b = p.b.data,
                       .c = p.c,
                       .y = sum,
                       .bias = p.bias,
                       .aux = p.aux,
                       .sums = p.sums,
                       .workspace = (char *)scratch + w->workspace_at };
  mrt_lt *lt = w->tight ? fitting(w, &call) : NULL;
  if (!lt) {
    mrt_cuda_gemm_kernel(g, c->queue);
    return false;
  }
  repack(c, &g->a, &g->a_batch, g->m, g->k, &w->a, scratch);
  repack(c, &g->b, &g->b_batch, g->k, g->n, &w->b, scratch);
  int64_t calls = p.count / (w->along < 0 ? 1 : p.a_batch.dims[w->along]);
  for (int64_t i = 0, a, b, y; i < calls; i++) {
    begin_of(&p, w->along, i, &a, &b, &y);
    call.a = at(p.a.data, a, p.a.dtype), call.b = at(p.b.data, b, p.b.dtype);
    call.y = at(sum, y * p.m * p.n, w->sum);
    if (mrt_lt_run(c, lt, &call)) continue;
    mrt_cuda_gemm_kernel(g, c->queue);
    return false;
  }
  if (w->finish)
    mrt_cuda_gemm_finish(g, sum, w->sum, own ? g->n : g->y_row, c->queue);
  return w->sums;
}
