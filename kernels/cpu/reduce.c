/* reduce.c -- sum, nansum, count_nonzero, prod, amax, amin, any, all
 *
 * A reduction is a list of passes, each from [outer, n, inner] to
 * [outer, inner].  Dimensions reduced together are joined; the largest goes
 * first, so that what lies between two passes is small.  A pass with few
 * outputs is cut along n into parts whose results a further pass joins.  All
 * of this follows from the shape, so the bits do not depend on the number of
 * threads.
 *
 * A sum of n elements is some n / (8 * 64) additions long (inner = 1: in each
 * of CHAINS vectors' lanes, by blocks), so f32 loses little.
 *
 * SPDX-License-Identifier: MIT */
#include "op/reduce.h"
#include "op/fused.h"
#include "reduce_rows.h"
#include "total.h"

/* ---- the passes ---------------------------------------------------------- */

/* Part p of parts is positions [p * chunk, (p + 1) * chunk) of n. */
typedef struct reduce_pass {
  int64_t outer, n, inner, chunk, parts;
} reduce_pass;

typedef struct reduce_passes {
  int count;
  reduce_pass at[MRT_MAX_RANK + 1];
} reduce_passes;

enum {
  WIDTH = 1024,    /* columns at once: their results stay in the L1 cache */
  PIECE = 1 << 14, /* elements that are worth a part of their own */
  UNITS = 64       /* enough for the threads there may be */
};

static int64_t blocks_of(int64_t inner) { return (inner + WIDTH - 1) / WIDTH; }

static void add_pass(reduce_passes *s, int64_t outer, int64_t n,
                     int64_t inner) {
  int64_t units = outer * blocks_of(inner);
  int64_t most = units ? UNITS / units : 1;
  int64_t parts = n * (inner < WIDTH ? inner : WIDTH) / PIECE;
  if (parts > most) parts = most;
  if (parts < 1) parts = 1;
  int64_t chunk = (n + parts - 1) / parts;
  if (chunk) parts = (n + chunk - 1) / chunk;
  s->at[s->count++] = (reduce_pass){ outer, n, inner, chunk, parts };
  if (parts > 1)
    s->at[s->count++] = (reduce_pass){ outer, parts, inner, parts, 1 };
}

/* Neighbouring dimensions that are reduced, or kept, together. */
typedef struct groups {
  int count;
  int64_t size[MRT_MAX_RANK];
  bool reduced[MRT_MAX_RANK];
} groups;

static groups groups_of(const mrt_type *x, const mrt_ints *dims) {
  groups g = { 0 };
  int next = 0; /* dims are sorted */
  for (int i = 0; i < x->rank; i++) {
    bool reduced = next < dims->count && dims->at[next] == i;
    next += reduced;
    if (x->dims[i] == 1) continue;
    bool joins = g.count && g.reduced[g.count - 1] == reduced;
    g.count += !joins;
    g.size[g.count - 1] = joins ? g.size[g.count - 1] * x->dims[i] : x->dims[i];
    g.reduced[g.count - 1] = reduced;
  }
  return g;
}

static reduce_passes passes_of(const mrt_type *x, const mrt_ints *dims) {
  groups g = groups_of(x, dims);
  reduce_passes s;
  s.count = 0;
  for (;;) {
    int largest = -1;
    for (int i = 0; i < g.count; i++)
      if (g.reduced[i] && (largest < 0 || g.size[i] > g.size[largest]))
        largest = i;
    if (largest < 0) break;
    int64_t outer = 1, inner = 1;
    for (int i = 0; i < largest; i++) outer *= g.size[i];
    for (int i = largest + 1; i < g.count; i++) inner *= g.size[i];
    add_pass(&s, outer, g.size[largest], inner);
    g.size[largest] = 1, g.reduced[largest] = false;
  }
  /* nothing is joined: still the result may be of another type */
  if (s.count == 0) add_pass(&s, 1, 1, mrt_type_count(x));
  return s;
}

static size_t pass_bytes(const reduce_pass *p, size_t size) {
  size_t bytes = (size_t)(p->outer * p->parts * p->inner) * size;
  return (bytes + 63) / 64 * 64;
}

static size_t bytes_of(const reduce_passes *s, mrt_dtype out) {
  size_t bytes = 0;
  for (int i = 0; i + 1 < s->count; i++)
    bytes += pass_bytes(&s->at[i], mrt_dtypes[out].bytes);
  return bytes;
}

static size_t scratch(const mrt_call *c) {
  const mrt_reduce_options *o = c->options;
  reduce_passes s = passes_of(&c->in[0].type, &o->dim);
  return bytes_of(&s, c->out[0].type.dtype);
}

/* ---- running them -------------------------------------------------------- */

typedef struct reducer {
  fold first, next; /* from elements of x, from results */
} reducer;

/* One unit of a pass: a part of n, a block of columns. */
static void run_unit(const reduce_pass *p, const fold *f, const elements *x,
                     int64_t unit, char *y, int64_t size) {
  int64_t blocks = blocks_of(p->inner), block = unit % blocks;
  int64_t row = unit / blocks; /* of [outer, parts] */
  int64_t part = row % p->parts, from = part * p->chunk;
  int64_t n = p->n - from < p->chunk ? p->n - from : p->chunk;
  int64_t j = block * WIDTH, left = p->inner - j;
  int64_t first = (row / p->parts * p->n + from) * p->inner + j;
  f->columns(x, first, n, p->inner, left < WIDTH ? left : WIDTH,
             y + (row * p->inner + j) * size);
}

/* Short rows are computed some at a time. */
static void fill_rows(const reduce_pass *p, const fold *f, const elements *x,
                      int64_t from, int64_t to, char *y, int64_t size) {
  real room[BLOCK];
  elements filled = { (const char *)room, MRT_REAL, NULL };
  int64_t most = BLOCK / p->n;
  for (int64_t rows; from < to; from += rows) {
    rows = to - from < most ? to - from : most;
    MRT_CPU(fused_fill)(x->program, from * p->n, rows * p->n, room);
    for (int64_t k = 0; k < rows; k++)
      f->row(&filled, k * p->n, p->n, y + (from + k) * size);
  }
}

/* inner = 1: rows are contiguous, often short, and there may be many. */
static void run_rows(const reduce_pass *p, const fold *f, const elements *x,
                     int64_t from, int64_t to, char *y, int64_t size) {
  if (x->program && p->parts == 1 && p->n > 0 && p->n <= BLOCK / 2) {
    fill_rows(p, f, x, from, to, y, size);
    return;
  }
  for (int64_t row = from; row < to; row++) {
    int64_t part = p->parts == 1 ? 0 : row % p->parts;
    int64_t outer = p->parts == 1 ? row : row / p->parts;
    int64_t first = part * p->chunk, rest = p->n - first;
    f->row(x, outer * p->n + first, rest < p->chunk ? rest : p->chunk,
           y + row * size);
  }
}

typedef struct pass_run {
  const reduce_pass *pass;
  const fold *fold;
  elements x;
  char *y;
  int64_t size; /* of an element of y */
} pass_run;

static void run_share(const mrt_call *c, const void *shared, int part,
                      int parts) {
  const pass_run *s = shared;
  const reduce_pass *p = s->pass;
  int64_t from, to;
  mrt_share(p->outer * p->parts * blocks_of(p->inner), part, parts, &from, &to);
  if (p->inner == 1)
    run_rows(p, s->fold, &s->x, from, to, s->y, s->size);
  else
    for (; from < to; from++) run_unit(p, s->fold, &s->x, from, s->y, s->size);
}

/* 0.05: a byte read in nanoseconds, by one thread. */
static double ns_of(const elements *x) {
  return 0.05 * (double)mrt_dtypes[x->dtype].bytes +
         (x->program ? MRT_CPU(fused_ns)(x->program) : 0);
}

static void run_pass(const mrt_call *c, const pass_run *s) {
  const reduce_pass *p = s->pass;
  double read = (double)p->outer * (double)p->n * (double)p->inner;
  mrt_parallel(c, mrt_team(c, read * ns_of(&s->x)), run_share, s);
}

/* `x` of `passes` to the output, of one dtype. */
static void join(const mrt_call *c, const reduce_passes *passes, elements x,
                 const reducer *of) {
  mrt_dtype out = c->out[0].type.dtype;
  pass_run s = { .x = x, .size = (int64_t)mrt_dtypes[out].bytes };
  char *spare = c->scratch;
  for (int i = 0; i < passes->count; i++) {
    bool last = i + 1 == passes->count;
    s.pass = &passes->at[i];
    s.fold = i ? &of->next : &of->first;
    s.y = last ? c->out[0].data : spare;
    run_pass(c, &s);
    spare += last ? 0 : pass_bytes(s.pass, (size_t)s.size);
    s.x = (elements){ s.y, out, NULL };
  }
}

static void reduce(const mrt_call *c, const reducer *of) {
  const mrt_reduce_options *o = c->options;
  mrt_dtype in = c->in[0].type.dtype;
  reduce_passes s = passes_of(&c->in[0].type, &o->dim);
  join(c, &s, (elements){ c->in[0].data, in, NULL }, &of[in]);
}

/* ---- the operators ------------------------------------------------------- */

#define SAME(...)                                                              \
  { __VA_ARGS__, __VA_ARGS__ }
#define FLOATS(...)                                                            \
  [MRT_REAL] = __VA_ARGS__, [MRT_f16] = __VA_ARGS__, [MRT_bf16] = __VA_ARGS__, \
  [MRT_f8_e4m3] = __VA_ARGS__, [MRT_f8_e5m2] = __VA_ARGS__

static void sum(const mrt_call *c) {
  static const reducer of[MRT_DTYPE_COUNT] = {
    FLOATS(SAME(FOLD(sum_real))),
    MRT_NOT_F64([MRT_i64] = SAME(FOLD(sum_i64)),
                [MRT_i32] = { FOLD(sum_i32), FOLD(sum_i64) },
                [MRT_u8] = { FOLD(sum_u8), FOLD(sum_i64) },
                [MRT_bool] = { FOLD(sum_u8), FOLD(sum_i64) }, )
  };
  reduce(c, of);
}

static void nansum(const mrt_call *c) {
  static const reducer of[MRT_DTYPE_COUNT] = {
    [MRT_REAL] = { FOLD(nansum_real), FOLD(sum_real) },
  };
  reduce(c, of);
}

static void count_nonzero(const mrt_call *c) {
  static const reducer of[MRT_DTYPE_COUNT] = {
    [MRT_REAL] = { FOLD(count_real), FOLD(sum_i64) },
    MRT_NOT_F64([MRT_i64] = { FOLD(count_i64), FOLD(sum_i64) },
                [MRT_i32] = { FOLD(count_i32), FOLD(sum_i64) },
                [MRT_u8] = { FOLD(count_u8), FOLD(sum_i64) },
                [MRT_bool] = { FOLD(count_u8), FOLD(sum_i64) }, )
  };
  reduce(c, of);
}

static void prod(const mrt_call *c) {
  static const reducer of[MRT_DTYPE_COUNT] = {
    FLOATS(SAME(FOLD(prod_real))),
    MRT_NOT_F64([MRT_i64] = SAME(FOLD(prod_i64)),
                [MRT_i32] = { FOLD(prod_i32), FOLD(prod_i64) },
                [MRT_u8] = { FOLD(prod_u8), FOLD(prod_i64) }, )
  };
  reduce(c, of);
}

static void amax(const mrt_call *c) {
  static const reducer of[MRT_DTYPE_COUNT] = {
    FLOATS(SAME(FOLD(max_real))), MRT_NOT_F64([MRT_i64] = SAME(FOLD(max_i64)),
                                              [MRT_i32] = SAME(FOLD(max_i32)),
                                              [MRT_u8] = SAME(FOLD(max_u8)), )
  };
  reduce(c, of);
}

static void amin(const mrt_call *c) {
  static const reducer of[MRT_DTYPE_COUNT] = {
    FLOATS(SAME(FOLD(min_real))), MRT_NOT_F64([MRT_i64] = SAME(FOLD(min_i64)),
                                              [MRT_i32] = SAME(FOLD(min_i32)),
                                              [MRT_u8] = SAME(FOLD(min_u8)), )
  };
  reduce(c, of);
}

static void aminmax(const mrt_call *c) {
  mrt_call most = *c;
  most.out++;
  amin(c);
  amax(&most);
}

/* Of zeros and ones, the largest and the smallest. */
static void any(const mrt_call *c) {
  static const reducer of[MRT_DTYPE_COUNT] = {
    MRT_NOT_F64([MRT_bool] = SAME(FOLD(max_u8)), )
  };
  reduce(c, of);
}

static void all(const mrt_call *c) {
  static const reducer of[MRT_DTYPE_COUNT] = {
    MRT_NOT_F64([MRT_bool] = SAME(FOLD(all_u8)), )
  };
  reduce(c, of);
}

/* ---- of what a program computes -------------------------------------------- */

static reduce_passes fused_passes(const mrt_fused_reduce_options *o) {
  return passes_of(&o->program.out_types[0], &o->over.dim);
}

static size_t fused_scratch(const mrt_call *c) {
  reduce_passes s = fused_passes(c->options);
  return bytes_of(&s, c->out[0].type.dtype);
}

static void fused_reduce(const mrt_call *c) {
  const mrt_fused_reduce_options *o = c->options;
  reduce_passes s = fused_passes(o);
  static const reducer of[MRT_FUSED_COUNT] = {
    [MRT_FUSED_SUM] = SAME(FOLD(sum_real)),
    [MRT_FUSED_PROD] = SAME(FOLD(prod_real)),
    [MRT_FUSED_MAX] = SAME(FOLD(max_real)),
    [MRT_FUSED_MIN] = SAME(FOLD(min_real)),
  };
  fused_program p;
  MRT_CPU(fused_prepare)(&p, c, &o->program, 0);
  join(c, &s, (elements){ NULL, MRT_REAL, &p }, &of[o->kind]);
}

/* ---- for other kernels ----------------------------------------------------- */

static reduce_passes total_passes(int64_t n) {
  reduce_passes s = { 0 };
  add_pass(&s, 1, n, 1);
  return s;
}

size_t MRT_CPU(total_scratch)(int64_t n) {
  reduce_passes s = total_passes(n);
  return bytes_of(&s, MRT_REAL);
}

real MRT_CPU(total)(const mrt_call *c, const real *x, int64_t n,
                    void *scratch) {
  static const reducer of = SAME(FOLD(sum_real));
  real y;
  mrt_operand out = { .data = &y, .type = { .dtype = MRT_REAL } };
  mrt_call call = *c;
  reduce_passes s = total_passes(n);
  call.out = &out, call.scratch = scratch;
  join(&call, &s, (elements){ (const char *)x, MRT_REAL, NULL }, &of);
  return y;
}

MRT_KERNEL(sum, .run = sum, .scratch = scratch);
MRT_KERNEL(nansum, .run = nansum, .scratch = scratch);
MRT_KERNEL(count_nonzero, .run = count_nonzero, .scratch = scratch);
MRT_KERNEL(prod, .run = prod, .scratch = scratch);
MRT_KERNEL(amax, .run = amax, .scratch = scratch);
MRT_KERNEL(amin, .run = amin, .scratch = scratch);
MRT_KERNEL(aminmax, .run = aminmax, .scratch = scratch);
MRT_KERNEL(any, .run = any, .scratch = scratch);
MRT_KERNEL(all, .run = all, .scratch = scratch);
MRT_KERNEL(fused_reduce, .run = fused_reduce, .scratch = fused_scratch);
