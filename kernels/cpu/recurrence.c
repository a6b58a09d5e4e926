/* recurrence.c -- linear recurrences along a dimension, and their gradients
 *
 * Columns are gone through side by side: they are neighbours, or along the last
 * dimension some rows, so that the steps of one overlap those of another.
 * A few long rows are cut into blocks, which then are the columns: a block maps
 * what comes into it, c, to A c + B, so one sweep finds A and B of each block,
 * a short one what comes into each, and a last one the elements.  On a single
 * thread the sweeps follow each other within the cache.  Blocks depend on the
 * shape alone, and so do the bits.
 *
 * Gradients go the other way: c is what the position after it has for this one,
 * g = dh + c, and a g goes on.
 *
 * SPDX-License-Identifier: MIT */
#include "op/recurrence.h"
#include "cpu.h"

enum {
  WIDTH = 64,  /* columns of neighbours side by side */
  ROWS = 8,    /* rows, or blocks, side by side */
  BLOCK = 528, /* elements of a block of a long row; no power of two, so that
                  blocks do not meet in the sets of a cache */
  LONG = 8192  /* fewer than 2 ROWS rows of so many are cut */
};

/* Places of a group of columns in the order they are visited: n steps of
 * `step`, from `at` on; columns are `across` apart. */
typedef struct recurrence_lines {
  int64_t at, n, step, width, across;
} lines;

/* `outer` times n elements, every `inner`-th. */
typedef struct recurrence {
  const real *a, *x; /* x: b, or dh */
  real *y;           /* h, or db */
  const real *h;     /* of gradients, as da; else NULL */
  real *da;
  const real *initial; /* NULL: zeros */
  real *dinitial;
  int64_t outer, n, inner;
  bool backward;         /* from the last position to the first */
  int64_t width, groups; /* columns of a group; groups in each of outer */
  int64_t blocks;        /* whole ones of a row that is cut; else 0 */
  double *maps;          /* A, B of each block, then what comes into it */
} recurrence;

/* ---- a group of columns -------------------------------------------------- */

/* Lines of rows far apart are many streams, more than the processor foresees:
 * it is told of what comes some steps on. */
static inline void expect(const real *x, const lines *l) {
  enum { AHEAD = 256 / (int)sizeof(real) };
  for (int64_t j = 0; j < l->width; j++)
    __builtin_prefetch(x + j * l->across + AHEAD * l->step);
}
enum { LINE = 64 / (int)sizeof(real) };

static void forward(const recurrence *r, lines l, real *c) {
  const real *a = r->a + l.at, *b = r->x + l.at;
  real *h = r->y + l.at;
  int64_t s = l.across;
  for (int64_t k = 0; k < l.n; k++, a += l.step, b += l.step, h += l.step)
    if (s == 1) {
#pragma omp simd
      for (int64_t j = 0; j < l.width; j++)
        h[j] = c[j] = fma_(a[j], c[j], b[j]);
    } else {
      if (k % LINE == 0) expect(a, &l), expect(b, &l), expect(h, &l);
      for (int64_t j = 0; j < l.width; j++)
        h[j * s] = c[j] = fma_(a[j * s], c[j], b[j * s]);
    }
}

/* One step back; `h` is what went into the step, hs apart. */
static inline void step_back(const recurrence *r, int64_t at, lines l,
                             const real *h, int64_t hs, real *c) {
  const real *a = r->a + at, *dh = r->x + at;
  real *db = r->y + at, *da = r->da + at;
  int64_t s = l.across;
  if (s == 1 && hs == 1) {
#pragma omp simd
    for (int64_t j = 0; j < l.width; j++) {
      real g = dh[j] + c[j];
      c[j] = a[j] * g, db[j] = g, da[j] = g * h[j];
    }
    return;
  }
  for (int64_t j = 0; j < l.width; j++) {
    real g = dh[j * s] + c[j];
    c[j] = a[j * s] * g, db[j * s] = g, da[j * s] = g * h[j * hs];
  }
}

/* `last`: what went into the last step of each column. */
static void backward(const recurrence *r, lines l, const real *last, real *c) {
  int64_t at = l.at;
  for (int64_t k = 1; k < l.n; k++, at += l.step)
    step_back(r, at, l, r->h + at + l.step, l.across, c);
  if (l.n) step_back(r, at, l, last, 1, c);
}

/* The maps of the group's columns: c becomes A c + B. */
static void map_lines(const recurrence *r, lines l, double *map) {
  double A[ROWS], B[ROWS];
  for (int j = 0; j < ROWS; j++) A[j] = 1, B[j] = 0;
  for (int64_t k = 0, at = l.at; k < l.n; k++, at += l.step)
    for (int64_t j = 0; j < l.width; j++) {
      double a = (double)r->a[at + j * l.across];
      double x = (double)r->x[at + j * l.across];
      A[j] *= a;
      B[j] = r->h ? a * (x + B[j]) : a * B[j] + x;
    }
  for (int64_t j = 0; j < l.width; j++)
    map[2 * j] = A[j], map[2 * j + 1] = B[j];
}
/* Nothing stays nothing, though A may be infinite. */
static inline double apply(const double *map, double c) {
  return c == 0 ? map[1] : map[0] * c + map[1];
}

/* What a recurrence, or its gradient, begins with in column `j`. */
static real begin(const recurrence *r, int64_t j) {
  return r->initial && !r->h ? r->initial[j] : 0;
}
/* ... and what gradients have before the first: `initial`. */
static real end_of(const recurrence *r, int64_t j) {
  return r->initial ? r->initial[j] : 0;
}

/* ---- columns, and rows side by side -------------------------------------- */

static void do_group(const recurrence *r, int64_t group) {
  int64_t j = group % r->groups * r->width, o = group / r->groups;
  int64_t all = r->inner == 1 ? r->outer : r->inner;
  real c[WIDTH], last[WIDTH] = { 0 };
  lines l = { .n = r->n,
              .step = r->backward ? -r->inner : r->inner,
              .width = all - j < r->width ? all - j : r->width,
              .across = r->inner == 1 ? r->n : 1 };
  l.at = o * r->n * r->inner + j * l.across;
  if (r->backward && r->n) l.at += (r->n - 1) * r->inner;
  int64_t first = o * r->inner + j;
  for (int64_t i = 0; i < l.width; i++)
    c[i] = begin(r, first + i), last[i] = end_of(r, first + i);
  if (!r->h) {
    forward(r, l, c);
    return;
  }
  backward(r, l, last, c);
  for (int64_t i = 0; r->dinitial && i < l.width; i++)
    r->dinitial[first + i] = c[i];
}

static void columns_part(const mrt_call *c, const void *shared, int part,
                         int parts) {
  const recurrence *r = shared;
  int64_t group, end, outer = r->inner == 1 ? 1 : r->outer;
  mrt_share(outer * r->groups, part, parts, &group, &end);
  for (; group < end; group++) do_group(r, group);
}

static void columns(const mrt_call *c, recurrence *r, int team) {
  int64_t all = r->inner == 1 ? r->outer : r->inner;
  r->width = r->inner == 1 ? ROWS : WIDTH;
  if (r->inner > 1 && r->outer * ((all + WIDTH - 1) / WIDTH) < team)
    r->width = WIDTH / 4; /* as good for the bits, and more to share */
  r->groups = (all + r->width - 1) / r->width;
  mrt_parallel(c, team, columns_part, r);
}

/* ---- long rows ----------------------------------------------------------- */

/* Blocks [k, k + ROWS) of a row, or what is left of it after the last. */
static lines blocks_of(const recurrence *r, int64_t row, int64_t k) {
  int64_t step = r->backward ? -1 : 1;
  int64_t at = row * r->n + (r->backward ? r->n - 1 : 0) + k * BLOCK * step;
  if (k == r->blocks)
    return (lines){ at, r->n - k * BLOCK, step, 1, BLOCK * step };
  int64_t width = r->blocks - k < ROWS ? r->blocks - k : ROWS;
  return (lines){ at, BLOCK, step, width, BLOCK * step };
}
static double *map_at(const recurrence *r, int64_t row, int64_t k) {
  return r->maps + 2 * (row * (r->blocks + 1) + k);
}

/* In place of the maps what comes into each block; returns what goes out. */
static double chain(double *map, int64_t width, double c) {
  for (int64_t j = 0; j < width; j++) {
    double next = apply(map + 2 * j, c);
    map[2 * j] = c;
    c = next;
  }
  return c;
}

static void do_blocks(const recurrence *r, int64_t row, int64_t k) {
  lines l = blocks_of(r, row, k);
  real c[ROWS], last[ROWS] = { 0 };
  for (int64_t j = 0; j < l.width; j++) c[j] = (real)map_at(r, row, k + j)[0];
  if (!r->h) {
    forward(r, l, c);
    return;
  }
  bool ends =
      k + l.width >= r->blocks && (k == r->blocks || r->n == r->blocks * BLOCK);
  for (int64_t j = 0; j < l.width; j++)
    last[j] = ends && j == l.width - 1
                  ? end_of(r, row)
                  : r->h[l.at + j * l.across + l.n * l.step];
  backward(r, l, last, c);
  if (ends && r->dinitial) r->dinitial[row] = c[l.width - 1];
}

static int64_t groups_of(const recurrence *r) {
  return (r->blocks + ROWS - 1) / ROWS;
}

static void maps_part(const mrt_call *c, const void *shared, int part,
                      int parts) {
  const recurrence *r = shared;
  int64_t groups = groups_of(r), i, end;
  mrt_share(r->outer * groups, part, parts, &i, &end);
  for (; i < end; i++) {
    int64_t row = i / groups, k = i % groups * ROWS;
    map_lines(r, blocks_of(r, row, k), map_at(r, row, k));
  }
}

static void blocks_part(const mrt_call *c, const void *shared, int part,
                        int parts) {
  const recurrence *r = shared;
  int64_t groups = groups_of(r) + (r->n > r->blocks * BLOCK), i, end;
  mrt_share(r->outer * groups, part, parts, &i, &end);
  for (; i < end; i++) {
    int64_t k = i % groups * ROWS;
    do_blocks(r, i / groups, k < r->blocks ? k : r->blocks);
  }
}

static void one_row(const recurrence *r, int64_t row) {
  double c = (double)begin(r, row);
  for (int64_t k = 0; k < r->blocks; k += ROWS) {
    lines l = blocks_of(r, row, k);
    map_lines(r, l, map_at(r, row, k));
    c = chain(map_at(r, row, k), l.width, c);
    do_blocks(r, row, k);
  }
  map_at(r, row, r->blocks)[0] = c;
  if (r->n > r->blocks * BLOCK) do_blocks(r, row, r->blocks);
}

static void rows(const mrt_call *c, const recurrence *r, int team) {
  if (team == 1) {
    for (int64_t row = 0; row < r->outer; row++) one_row(r, row);
    return;
  }
  mrt_parallel(c, team, maps_part, r);
  for (int64_t row = 0; row < r->outer; row++)
    map_at(r, row, r->blocks)[0] =
        chain(map_at(r, row, 0), r->blocks, (double)begin(r, row));
  mrt_parallel(c, team, blocks_part, r);
}

/* ---- kernels ------------------------------------------------------------- */

static recurrence shape_of(const mrt_call *c) {
  const mrt_recurrence_options *o = c->options;
  const mrt_type *t = &c->in[0].type;
  recurrence r = { .outer = 1, .n = t->dims[o->dim], .inner = 1 };
  for (int i = 0; i < t->rank; i++) {
    if (i < o->dim) r.outer *= t->dims[i];
    if (i > o->dim) r.inner *= t->dims[i];
  }
  if (r.inner == 1 && r.outer < 2 * ROWS && r.n >= LONG) r.blocks = r.n / BLOCK;
  return r;
}

static void run(const mrt_call *c, recurrence *r) {
  int team = mrt_team(c, (double)mrt_type_count(&c->in[0].type));
  r->maps = c->scratch;
  if (r->outer * r->inner == 0) return;
  if (r->blocks)
    rows(c, r, team);
  else
    columns(c, r, team);
}

static void linear_recurrence(const mrt_call *c) {
  const mrt_recurrence_options *o = c->options;
  recurrence r = shape_of(c);
  r.a = c->in[0].data, r.x = c->in[1].data, r.y = c->out[0].data;
  r.initial = c->nin == 3 ? c->in[2].data : NULL;
  r.backward = o->reverse;
  run(c, &r);
}

static void linear_recurrence_grad(const mrt_call *c) {
  const mrt_recurrence_options *o = c->options;
  recurrence r = shape_of(c);
  r.a = c->in[0].data, r.h = c->in[1].data, r.x = c->in[2].data;
  r.da = c->out[0].data, r.y = c->out[1].data;
  r.initial = c->nin == 4 ? c->in[3].data : NULL;
  r.dinitial = c->nin == 4 ? c->out[2].data : NULL;
  r.backward = !o->reverse;
  run(c, &r);
}

static size_t scratch(const mrt_call *c) {
  recurrence r = shape_of(c);
  if (r.blocks == 0) return 0;
  return (size_t)(r.outer * (r.blocks + 1)) * 2 * sizeof(double);
}

MRT_KERNEL(linear_recurrence, .run = linear_recurrence, .scratch = scratch);
MRT_KERNEL(linear_recurrence_grad, .run = linear_recurrence_grad,
           .scratch = scratch);
