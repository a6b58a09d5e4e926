/* matmul.c -- products of matrices and of batches of them
 *
 * Batch dimensions are merged where strides allow, and into the rows where b
 * is the same for all: a [12,256,384] @ b [384,1152] is one product of 3072
 * rows.  Where a's strides do not allow it (a part of each sequence, say) rows
 * of several products are copied side by side first, for to pack b again for
 * each costs more.  Threads share out matrices, or rectangles of one when there
 * are few.
 *
 * Why products are our own is said in gemm/gemm.h; what a thread computes is
 * always whole elements of c, so the number of threads changes no bit of them.
 *
 * SPDX-License-Identifier: MIT */
#include "op/matmul.h"
#include "floats.h"
#include "gelu.h"
#include "gemm/gemm.h"

/* `count` products: g moved along up to MRT_MAX_RANK batch dimensions. */
typedef struct batch {
  mrt_gemm g;
  int rank;
  int64_t count, dims[MRT_MAX_RANK];
  int64_t a[MRT_MAX_RANK], b[MRT_MAX_RANK]; /* strides */
  int64_t joined; /* products whose rows are copied to be those of one; or 1 */
  size_t bias;    /* bytes of the scratch that it takes */
  bool rounds;    /* the bias, to the dtype of y */
} batch;

/* Stride of x along dimension `i` of an output of `rank` dimensions; 0 where
 * x is broadcast. */
static int64_t stride_along(const mrt_operand *x, int i, int rank) {
  i -= rank - x->type.rank;
  return i < 0 || x->type.dims[i] == 1 ? 0 : x->strides[i];
}

/* Put one more batch dimension inside the others, merging where it can. */
static void add_dim(batch *t, int64_t n, int64_t a, int64_t b) {
  int last = t->rank - 1;
  t->count *= n;
  if (n == 1) return;
  if (last >= 0 && t->a[last] == n * a && t->b[last] == n * b) {
    t->dims[last] *= n, t->a[last] = a, t->b[last] = b;
    return;
  }
  t->dims[t->rank] = n, t->a[t->rank] = a, t->b[t->rank] = b;
  t->rank++;
}

/* The innermost batch dimension becomes rows when b does not move along it and
 * a goes on where its last row ended. */
static void fold_rows(batch *t) {
  int last = t->rank - 1;
  if (last < 0 || t->b[last] != 0) return;
  if (t->g.m != 1 && t->a[last] != t->g.m * t->g.a.row) return;
  if (t->g.m == 1) t->g.a.row = t->a[last];
  t->g.m *= t->dims[last];
  t->count /= t->dims[last];
  t->rank--;
}

/* Packing b takes 8 multiply-adds a value, copying a one.  At most so many rows
 * are copied at a time; as many in one product are enough. */
enum { JOINED_ROWS = 512, MANY_COLUMNS = 64 };

/* How many products are joined. */
static int64_t joined(const batch *t) {
  const mrt_gemm *g = &t->g;
  bool pays = t->count > 1 && g->n >= MANY_COLUMNS && g->a.col == 1 &&
              g->m > 0 && g->k > 0;
  for (int i = 0; i < t->rank; i++) pays &= t->b[i] == 0;
  if (!pays || g->m > JOINED_ROWS / 2) return 1;
  return t->count < JOINED_ROWS / g->m ? t->count : JOINED_ROWS / g->m;
}

static mrt_matrix matrix_of(const mrt_operand *x, int row, int col) {
  return (mrt_matrix){ x->data, x->strides[row], x->strides[col],
                       x->type.dtype };
}

static const mrt_matmul_options *options_of(const mrt_call *c) {
  return c->options;
}

/* One of the products of a batch, the first. */
static inline mrt_gemm matmul_of(const mrt_call *c) {
  const mrt_operand *a = &c->in[0], *b = &c->in[1], *y = &c->out[0];
  int ra = a->type.rank, rb = b->type.rank;
  int64_t n = b->type.dims[rb - 1];
  return (mrt_gemm){
    .m = a->type.dims[ra - 2],
    .n = n,
    .k = a->type.dims[ra - 1],
    .a = matrix_of(a, ra - 2, ra - 1),
    .b = matrix_of(b, rb - 2, rb - 1),
    .compute = options_of(c)->compute,
    .accumulate = options_of(c)->accumulate,
    .dots = c->dots,
    .tiles = c->tiles,
    .c = y->data,
    .dtype = y->type.dtype,
    .row = n,
    .col = 1,
  };
}

static batch matmul_batch(const mrt_call *c) {
  const mrt_operand *a = &c->in[0], *b = &c->in[1], *y = &c->out[0];
  int r = y->type.rank;
  batch t = { .count = 1, .g = matmul_of(c) };
  for (int i = 0; i < r - 2; i++)
    add_dim(&t, y->type.dims[i], stride_along(a, i, r), stride_along(b, i, r));
  if (t.count) fold_rows(&t);
  t.joined = joined(&t);
  return t;
}

/* Is the bias made reals, or rounded, in front of the scratch? */
static size_t bias_bytes(const mrt_call *c, bool rounds) {
  if (c->nin < 3 || (c->in[2].type.dtype == MRT_REAL && !rounds)) return 0;
  return ((size_t)c->in[2].type.dims[0] * sizeof(real) + 63) / 64 * 64;
}
static void make_bias(const mrt_call *c, const batch *t) {
  int64_t n = t->g.n;
  if (!t->bias) return;
  mrt_widen(c->in[2].type.dtype, c->in[2].data, c->scratch, n);
  if (t->rounds) mrt_round_reals(c->out[0].type.dtype, c->scratch, n);
}

/* The first row; its bias, if it is made in the scratch, takes `bias` bytes. */
static inline mrt_gemm linear_of(const mrt_call *c, size_t bias) {
  const mrt_operand *x = &c->in[0], *w = &c->in[1], *y = &c->out[0];
  int last = x->type.rank - 1;
  int64_t n = w->type.dims[0];
  return (mrt_gemm){
    .m = 1,
    .n = n,
    .k = x->type.dims[last],
    .a = { x->data, 0, x->strides[last], x->type.dtype },
    .b = matrix_of(w, 1, 0),
    .compute = options_of(c)->compute,
    .accumulate = options_of(c)->accumulate,
    .dots = c->dots,
    .tiles = c->tiles,
    .c = y->data,
    .dtype = y->type.dtype,
    .row = n,
    .col = 1,
    .bias = c->nin < 3 ? NULL
            : bias     ? c->scratch
                       : c->in[2].data,
    .bias_col = 1,
  };
}

/* x's leading dimensions are batches of one row, all with the same w. */
static batch linear_batch(const mrt_call *c, bool rounds) {
  const mrt_operand *x = &c->in[0];
  int last = x->type.rank - 1;
  size_t bias = bias_bytes(c, rounds);
  batch t = {
    .count = 1, .bias = bias, .rounds = rounds, .g = linear_of(c, bias)
  };
  for (int i = 0; i < last; i++) add_dim(&t, x->type.dims[i], x->strides[i], 0);
  if (t.count) fold_rows(&t);
  t.joined = joined(&t);
  return t;
}

static mrt_gemm product_at(const batch *t, int64_t index) {
  mrt_gemm g = t->g;
  int64_t a = 0, b = 0; /* elements */
  g.c = (char *)g.c + index * g.m * g.n * (int64_t)mrt_dtypes[g.dtype].bytes;
  for (int i = t->rank - 1; i >= 0; i--) {
    int64_t at = index % t->dims[i];
    index /= t->dims[i];
    a += at * t->a[i], b += at * t->b[i];
  }
  g.a.data = (const char *)g.a.data + a * (int64_t)mrt_dtypes[g.a.dtype].bytes;
  g.b.data = (const char *)g.b.data + b * (int64_t)mrt_dtypes[g.b.dtype].bytes;
  return g;
}

/* `n` joined products as one, but for its rows: those of a are put at `rows`. */
static batch joined_batch(const batch *t, int64_t index, int64_t n,
                          const void *rows) {
  batch one = { .count = 1, .joined = 1, .bias = t->bias };
  one.g = product_at(t, index);
  one.g.m *= n;
  one.g.a = (mrt_matrix){ rows, one.g.k, 1, one.g.a.dtype };
  return one;
}

/* Scratch of one thread that computes whole products. */
static size_t run_bytes(const batch *t) {
  mrt_gemm g = t->joined > 1 ? joined_batch(t, 0, t->joined, NULL).g : t->g;
  if (t->joined == 1) g.m *= t->count; /* were all of them folded */
  return mrt_gemm_bytes(&g);
}

static size_t row_bytes(const batch *t) {
  return (size_t)t->g.k * mrt_dtypes[t->g.a.dtype].bytes;
}

/* Who computes products that are not joined: `team` threads, each product cut
 * into so many parts; and the scratch of a thread. */
typedef struct batch_team {
  int team, cuts;
  size_t bytes;
} batch_team;

static batch_team team_of(const mrt_call *c, const batch *t) {
  const mrt_gemm *g = &t->g;
  /* 100 flop per nanosecond: one core, roughly; of a vector 16.  To begin and
   * to pack a small product takes longer than that. */
  double each = g->m == 1 || g->n == 1 ? 8 : 50;
  double one = (double)g->m * (double)g->n * (double)g->k / each;
  batch_team who = { .team = mrt_team(c, (double)t->count * (one + 100)) };
  who.cuts = t->count < 4 * who.team ? who.team : 1;
  who.bytes =
      who.cuts > 1 ? mrt_gemm_part_bytes(g, who.cuts) : mrt_gemm_bytes(g);
  return who;
}

/* The bias, what threads need, the rows that are copied. */
static size_t rows_at(const mrt_call *c, const batch *t) {
  if (t->joined > 1) return t->bias + (size_t)c->threads * run_bytes(t);
  batch_team who = team_of(c, t);
  return t->bias + (size_t)who.team * who.bytes;
}
static size_t batch_scratch(const mrt_call *c, batch t) {
  size_t rows = t.joined > 1 ? (size_t)(t.joined * t.g.m) : 0;
  return rows_at(c, &t) + rows * row_bytes(&t);
}

typedef struct batch_run {
  const batch *batch;
  int cuts; /* of one product */
  char *scratch;
  size_t bytes; /* of it, for a part */
} batch_run;

static void run_part(const mrt_call *c, const void *shared, int part,
                     int parts) {
  const batch_run *r = shared;
  char *scratch = r->scratch + (size_t)part * r->bytes;
  int64_t i, end;
  mrt_share(r->batch->count * r->cuts, part, parts, &i, &end);
  for (; i < end; i++) {
    mrt_gemm whole = product_at(r->batch, i / r->cuts);
    mrt_gemm piece = mrt_gemm_part(&whole, (int)(i % r->cuts), r->cuts);
    mrt_gemm_run(&piece, scratch);
  }
}

/* A product of matrices, done if it is tiny: to say what a batch is takes
 * longer. */
static bool run_tiny(const mrt_gemm *g) {
  if (!mrt_gemm_is_tiny(g)) return false;
  mrt_gemm_tiny(g);
  return true;
}

static bool matmul_tiny(const mrt_call *c) {
  if (c->in[0].type.rank != 2 || c->in[1].type.rank != 2) return false;
  mrt_gemm g = matmul_of(c);
  return run_tiny(&g);
}

static bool linear_tiny(const mrt_call *c) {
  const mrt_operand *x = &c->in[0];
  if (x->type.rank != 2 || bias_bytes(c, false)) return false;
  mrt_gemm g = linear_of(c, 0);
  g.m = x->type.dims[0], g.a.row = x->strides[0];
  return run_tiny(&g);
}

static void run_batch(const mrt_call *c, const batch *t) {
  if (t->count == 1 && run_tiny(&t->g)) return;
  batch_team who = team_of(c, t);
  batch_run r = { t, who.cuts, (char *)c->scratch + t->bias, who.bytes };
  mrt_parallel(c, who.team, run_part, &r);
}

/* Rows of products [first, first + n) of a batch. */
typedef struct rows_job {
  const batch *batch;
  int64_t first, n;
  char *to;
} rows_job;

static void copy_part(const mrt_call *c, const void *shared, int part,
                      int parts) {
  const rows_job *job = shared;
  const batch *t = job->batch;
  size_t bytes = row_bytes(t);
  int64_t i, end;
  mrt_share(job->n * t->g.m, part, parts, &i, &end);
  for (; i < end; i++) {
    mrt_gemm g = product_at(t, job->first + i / t->g.m);
    memcpy(job->to + (size_t)i * bytes, mrt_matrix_at(&g.a, i % t->g.m, 0),
           bytes);
  }
}

static void run(const mrt_call *c, const batch *t) {
  if (t->joined == 1) {
    run_batch(c, t);
    return;
  }
  char *rows = (char *)c->scratch + rows_at(c, t);
  for (int64_t i = 0; i < t->count; i += t->joined) {
    int64_t n = t->count - i < t->joined ? t->count - i : t->joined;
    rows_job job = { t, i, n, rows };
    mrt_parallel(c, mrt_team(c, (double)(n * t->g.m * t->g.k) / 4), copy_part,
                 &job);
    batch one = joined_batch(t, i, n, rows);
    run_batch(c, &one);
  }
}

static void matmul(const mrt_call *c) {
  if (matmul_tiny(c)) return;
  batch t = matmul_batch(c);
  run(c, &t);
}
static void linear(const mrt_call *c) {
  if (linear_tiny(c)) return;
  batch t = linear_batch(c, false);
  make_bias(c, &t);
  run(c, &t);
}

static size_t matmul_scratch(const mrt_call *c) {
  return batch_scratch(c, matmul_batch(c));
}
static size_t linear_scratch(const mrt_call *c) {
  return batch_scratch(c, linear_batch(c, false));
}

/* y = c + a @ b, where y is c, or is made so. */
static const mrt_matmul_options plain = { .compute = MRT_DTYPE_COUNT,
                                          .accumulate = MRT_DTYPE_COUNT };
static batch matmul_add_batch(const mrt_call *c) {
  mrt_call product = *c;
  product.options = &plain;
  batch t = matmul_batch(&product);
  return t.g.add = true, t;
}

/* Of narrow factors the product is made first, in front of the scratch: kernels add
 * to what c holds for reals alone. */
static size_t apart_bytes(const mrt_call *c) {
  bool apart =
      mrt_is_narrow(c->in[0].type.dtype) || mrt_is_narrow(c->in[1].type.dtype);
  size_t bytes = (size_t)mrt_type_count(&c->out[0].type) * sizeof(real);
  return apart ? (bytes + 63) / 64 * 64 : 0;
}
static mrt_call apart_product(const mrt_call *c, mrt_operand *sum) {
  mrt_call product = *c;
  *sum = c->out[0], sum->data = c->scratch;
  product.options = &plain, product.nin = 2, product.out = sum;
  if (c->scratch) product.scratch = (char *)c->scratch + apart_bytes(c);
  return product;
}
static void add_part(const mrt_call *c, const void *unused, int part,
                     int parts) {
  const real *x = c->in[2].data, *sum = c->scratch;
  real *y = c->out[0].data;
  int64_t i, end;
  mrt_share(mrt_type_count(&c->out[0].type), part, parts, &i, &end);
  for (; i < end; i++) y[i] = x[i] + sum[i];
}

static void matmul_add(const mrt_call *c) {
  if (apart_bytes(c)) {
    mrt_operand sum;
    mrt_call product = apart_product(c, &sum);
    matmul(&product);
    double n = (double)mrt_type_count(&c->out[0].type);
    mrt_parallel(c, mrt_team(c, n), add_part, NULL);
    return;
  }
  batch t = matmul_add_batch(c);
  size_t bytes = (size_t)mrt_type_count(&c->out[0].type) * sizeof(real);
  if (c->out[0].data != c->in[2].data && bytes)
    memcpy(c->out[0].data, c->in[2].data, bytes);
  run(c, &t);
}
static size_t matmul_add_scratch(const mrt_call *c) {
  mrt_operand sum;
  mrt_call product = apart_product(c, &sum);
  if (apart_bytes(c)) return apart_bytes(c) + matmul_scratch(&product);
  return batch_scratch(c, matmul_add_batch(c));
}

/* ---- with GELU ----------------------------------------------------------- */

/* Rows of the product go to the end of the scratch, as reals; from there, in
 * pieces, to the results. */
enum { PIECE = 512, SUMS = 1 << 22 };

static batch linear_gelu_batch(const mrt_call *c) {
  batch t = linear_batch(c, mrt_gelu_rounds_bias(c->out[0].type.dtype));
  return t.g.dtype = MRT_REAL, t.joined = 1, t;
}
static batch matmul_gelu_grad_batch(const mrt_call *c) {
  batch t = matmul_batch(c);
  return t.g.dtype = MRT_REAL, t.joined = 1, t;
}

static size_t sums_at(const mrt_call *c, const batch *t) {
  return t->bias + (size_t)c->threads * run_bytes(t);
}
static int64_t rows_at_once(const batch *t) {
  int64_t rows = SUMS / (t->g.n + 1) + 1;
  return rows < t->g.m ? rows : t->g.m;
}
static size_t gelu_scratch(const mrt_call *c, batch t) {
  return sums_at(c, &t) + (size_t)(rows_at_once(&t) * t.g.n) * sizeof(real);
}

static void put(const mrt_operand *y, int64_t at, int64_t n, const real *from) {
  if (y->type.dtype == MRT_REAL)
    memcpy(mrt_element(y, at), from, (size_t)n * sizeof *from);
  else
    mrt_round(y->type.dtype, from, mrt_element(y, at), n);
}

/* Results [at, at + n) of their sums. */
typedef void put_piece(const mrt_call *c, const real *sum, int64_t at,
                       int64_t n);
static void put_gelu(const mrt_call *c, const real *sum, int64_t at,
                     int64_t n) {
  real h[PIECE];
  for (int64_t i = 0; i < n; i++) h[i] = gelu_tanh(sum[i]);
  put(&c->out[0], at, n, h);
  if (c->nout == 2) put(&c->out[1], at, n, sum);
}
static void put_gelu_grad(const mrt_call *c, const real *sum, int64_t at,
                          int64_t n) {
  real y[PIECE], room[PIECE];
  const real *x = mrt_reals_in(&c->in[2], at, n, room);
  for (int64_t i = 0; i < n; i++) y[i] = sum[i] * gelu_tanh_slope(x[i]);
  put(&c->out[0], at, n, y);
}

/* `n` sums, the results from element `first` on. */
typedef struct gelu_sums {
  const real *sum;
  int64_t first, n;
  put_piece *piece;
} gelu_sums;

static void put_part(const mrt_call *c, const void *shared, int part,
                     int parts) {
  const gelu_sums *s = shared;
  int64_t i, end;
  mrt_share((s->n + PIECE - 1) / PIECE, part, parts, &i, &end);
  for (i *= PIECE, end *= PIECE; i < end; i += PIECE)
    s->piece(c, s->sum + i, s->first + i, s->n - i < PIECE ? s->n - i : PIECE);
}

/* Rows [row, row + g.m) of product `index`. */
static void run_rows(const mrt_call *c, const batch *t, int64_t index,
                     int64_t row, put_piece *piece) {
  real *sum = (real *)((char *)c->scratch + sums_at(c, t));
  int64_t rows = rows_at_once(t), left = t->g.m - row, n = t->g.n;
  batch part = {
    .count = 1, .joined = 1, .bias = t->bias, .g = product_at(t, index)
  };
  part.g.m = rows < left ? rows : left;
  part.g.a.data = mrt_matrix_at(&part.g.a, row, 0);
  part.g.c = sum;
  run(c, &part);
  gelu_sums s = { sum, (index * t->g.m + row) * n, part.g.m * n, piece };
  mrt_parallel(c, mrt_team(c, 4. * (double)s.n), put_part, &s);
}

static void run_gelu(const mrt_call *c, batch t, put_piece *piece) {
  make_bias(c, &t);
  for (int64_t index = 0; index < t.count; index++)
    for (int64_t row = 0; row < t.g.m; row += rows_at_once(&t))
      run_rows(c, &t, index, row, piece);
}

#define GELU_KERNEL(name, piece)                                               \
  static void name(const mrt_call *c) { run_gelu(c, name##_batch(c), piece); } \
  static size_t name##_scratch(const mrt_call *c) {                            \
    return gelu_scratch(c, name##_batch(c));                                   \
  }
GELU_KERNEL(linear_gelu, put_gelu)
GELU_KERNEL(matmul_gelu_grad, put_gelu_grad)

/* ---- with sums of rows --------------------------------------------------- */

static real sum_of_row(const mrt_operand *a, int64_t row) {
  int64_t k = a->type.dims[1], step = a->strides[1];
  const int bytes = mrt_dtypes[a->type.dtype].bytes;
  const char *from = mrt_element(a, row * a->strides[0]);
  real sum = 0, some[PIECE];
  for (int64_t at = 0; at < k; at += PIECE) {
    int64_t n = k - at < PIECE ? k - at : PIECE;
    real part = 0;
    mrt_widen_apart(a->type.dtype, from + at * step * bytes, step, some, n);
    for (int64_t i = 0; i < n; i++) part += some[i];
    sum += part;
  }
  return sum;
}
static void sum_rows(const mrt_call *c, const void *shared, int part,
                     int parts) {
  (void)shared;
  int64_t i, end;
  mrt_share(c->out[1].type.dims[0], part, parts, &i, &end);
  for (; i < end; i++) {
    real sum = sum_of_row(&c->in[0], i);
    put(&c->out[1], i, 1, &sum);
  }
}
static void matmul_sums(const mrt_call *c) {
  const mrt_type *a = &c->in[0].type;
  matmul(c);
  mrt_parallel(c, mrt_team(c, (double)mrt_type_count(a)), sum_rows, NULL);
}

MRT_KERNEL(matmul, .run = matmul, .scratch = matmul_scratch);
MRT_KERNEL(matmul_sums, .run = matmul_sums, .scratch = matmul_scratch);
MRT_KERNEL(linear, .run = linear, .scratch = linear_scratch);
MRT_KERNEL(matmul_add, .run = matmul_add, .scratch = matmul_add_scratch);
MRT_KERNEL(linear_gelu, .run = linear_gelu, .scratch = linear_gelu_scratch);
MRT_KERNEL(matmul_gelu_grad, .run = matmul_gelu_grad,
           .scratch = matmul_gelu_grad_scratch);
