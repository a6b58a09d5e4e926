/* move.c -- copy, cat, pad and flip: strided elements to strided places
 *
 * All are one function, `move`.  It copies rows where both sides are
 * contiguous, square tiles where the other side's contiguous dimension is
 * another one, and single elements otherwise.  Zeros are one element that is
 * read again and again, by strides of 0.
 *
 * SPDX-License-Identifier: MIT */
#include "op/move.h"
#include "op/views.h"
#include "walk.h"

/* ---- one row, one strip of tiles, for each element size ------------------ */

/* y = x, n elements; steps in elements. */
typedef void row_fn(const void *x, int64_t xs, void *y, int64_t ys, int64_t n);
/* y[j * ys + i] = x[i * xs + j] for j in [0, rows), i in [0, n). */
typedef void strip_fn(const void *x, int64_t xs, void *y, int64_t ys,
                      int64_t rows, int64_t n);

#define ROW(T)                                                                 \
  static void fill_##T(T *y, T x, int64_t n) {                                 \
    for (int64_t i = 0; i < n; i++) y[i] = x;                                  \
  }                                                                            \
  static void row_##T(const void *from, int64_t xs, void *to, int64_t ys,      \
                      int64_t n) {                                             \
    const T *x = from;                                                         \
    T *y = to;                                                                 \
    if (xs == 1 && ys == 1 && n * (int64_t)sizeof(T) >= 64)                    \
      memcpy(y, x, (size_t)n * sizeof(T));                                     \
    else if (xs == 0 && ys == 1)                                               \
      fill_##T(y, *x, n);                                                      \
    else if (xs == -1 && ys == 1)                                              \
      for (int64_t i = 0; i < n; i++) y[i] = x[-i];                            \
    else if (xs == 2 && ys == 1)                                               \
      for (int64_t i = 0; i < n; i++) y[i] = x[2 * i];                         \
    else                                                                       \
      for (int64_t i = 0; i < n; i++) y[i * ys] = x[i * xs];                   \
  }

/* Rows of few elements: y[j * ys + i] = x[j * xs + i * step], i in [0, n); step
 * 0 or 1.  A row of up to 4 costs what one element does. */
typedef void short_fn(const void *x, int64_t xs, int64_t step, void *y,
                      int64_t ys, int64_t rows, int64_t n);
enum { FEW = 16 };
#define FEW_OF(T)                                                              \
  static inline __attribute__((always_inline)) void few_##T(                   \
      const T *x, int64_t xs, int64_t step, T *y, int64_t ys, int64_t rows,    \
      int64_t n) {                                                             \
    for (int64_t j = 0; j < rows; j++, x += xs, y += ys)                       \
      for (int64_t i = 0; i < n; i++) y[i] = x[i * step];                      \
  }                                                                            \
  static void short_##T(const void *x, int64_t xs, int64_t step, void *y,      \
                        int64_t ys, int64_t rows, int64_t n) {                 \
    if (step == 0 && n == 2)                                                   \
      few_##T(x, xs, 0, y, ys, rows, 2);                                       \
    else if (step == 0 && n == 4)                                              \
      few_##T(x, xs, 0, y, ys, rows, 4);                                       \
    else if (step == 0)                                                        \
      few_##T(x, xs, 0, y, ys, rows, n);                                       \
    else if (n == 2)                                                           \
      few_##T(x, xs, 1, y, ys, rows, 2);                                       \
    else if (n == 4)                                                           \
      few_##T(x, xs, 1, y, ys, rows, 4);                                       \
    else                                                                       \
      few_##T(x, xs, 1, y, ys, rows, n);                                       \
  }

/* An 8 x 8 tile is transposed in registers: exchange the off-diagonal quarters,
 * then those of each quarter, then single elements.  EXCHANGE(d) does it for
 * rows d apart: of a pair (a, b), lanes 0-7 are a's and 8-15 b's. */
#define UPPER_4 0, 1, 2, 3, 8, 9, 10, 11
#define LOWER_4 4, 5, 6, 7, 12, 13, 14, 15
#define UPPER_2 0, 1, 8, 9, 4, 5, 12, 13
#define LOWER_2 2, 3, 10, 11, 6, 7, 14, 15
#define UPPER_1 0, 8, 2, 10, 4, 12, 6, 14
#define LOWER_1 1, 9, 3, 11, 5, 13, 7, 15
#define EXCHANGE(d)                                                            \
  for (int i = 0; i < 8; i++)                                                  \
    if (!(i & d)) {                                                            \
      vector a = r[i], b = r[i + d];                                           \
      r[i] = __builtin_shufflevector(a, b, UPPER_##d);                         \
      r[i + d] = __builtin_shufflevector(a, b, LOWER_##d);                     \
    }

/* A block is as wide and high as a cache line has elements.  It goes through
 * the stack, so that y is written by whole lines, which then need not stay in
 * the cache, even where rows are a power of two apart. */
#define STRIP(T)                                                               \
  static inline void tile_##T(const T *x, int64_t xs, T *y, int64_t ys) {      \
    typedef T vector __attribute__((vector_size(8 * sizeof(T))));              \
    typedef vector loose __attribute__((aligned(sizeof(T)), may_alias));       \
    vector r[8];                                                               \
    for (int i = 0; i < 8; i++) r[i] = *(const loose *)(x + i * xs);           \
    EXCHANGE(4)                                                                \
    EXCHANGE(2)                                                                \
    EXCHANGE(1)                                                                \
    for (int j = 0; j < 8; j++) *(loose *)(y + j * ys) = r[j];                 \
  }                                                                            \
  static inline void block_##T(const T *x, int64_t xs, T *y, int64_t ys) {     \
    enum { SIDE = 64 / sizeof(T) };                                            \
    T all[SIDE * SIDE];                                                        \
    for (int i = 0; i < SIDE; i += 8)                                          \
      for (int j = 0; j < SIDE; j += 8)                                        \
        tile_##T(x + i * xs + j, xs, all + j * SIDE + i, SIDE);                \
    for (int j = 0; j < SIDE; j++) memcpy(y + j * ys, all + j * SIDE, 64);     \
  }                                                                            \
  static void strip_##T(const void *from, int64_t xs, void *to, int64_t ys,    \
                        int64_t rows, int64_t n) {                             \
    enum { SIDE = 64 / sizeof(T) };                                            \
    const T *x = from;                                                         \
    T *y = to;                                                                 \
    int64_t i = 0;                                                             \
    for (; rows == SIDE && i + SIDE <= n; i += SIDE)                           \
      block_##T(x + i * xs, xs, y + i, ys);                                    \
    for (; i + 8 <= n; i += 8) {                                               \
      int64_t j = 0;                                                           \
      for (; j + 8 <= rows; j += 8)                                            \
        tile_##T(x + i * xs + j, xs, y + j * ys + i, ys);                      \
      for (; j < rows; j++) row_##T(x + i * xs + j, xs, y + j * ys + i, 1, 8); \
    }                                                                          \
    for (; i < n; i++) row_##T(x + i * xs, 1, y + i, ys, rows);                \
  }

ROW(unit1)
ROW(unit2)
ROW(unit4)
ROW(unit8)
FEW_OF(unit4)
FEW_OF(unit8)
STRIP(unit1)
STRIP(unit2)
STRIP(unit4)
STRIP(unit8)

static row_fn *const row_of[] = {
  [1] = row_unit1, [2] = row_unit2, [4] = row_unit4, [8] = row_unit8
};
static short_fn *const short_of[] = { [4] = short_unit4, [8] = short_unit8 };
static strip_fn *const strip_of[] = {
  [1] = strip_unit1, [2] = strip_unit2, [4] = strip_unit4, [8] = strip_unit8
};

/* ---- move ---------------------------------------------------------------- */

enum { X, Y }; /* operands of the walk */

typedef struct move {
  walk w;
  size_t size; /* of an element */
  const char *x;
  char *y;
} move;

/* Short rows of y, contiguous or one element of x. */
static bool has_short_rows(const walk *w, size_t size) {
  int last = w->rank - 1;
  return short_of[size] && w->count && last > 0 && w->dims[last] < FEW &&
         w->step[Y][last] == 1 && (uint64_t)w->step[X][last] <= 1;
}

/* Rows [from, to) of these, as many at a time as lie evenly. */
static void move_short(move m, int64_t from, int64_t to) {
  walk *w = &m.w;
  int last = --w->rank;
  int64_t n = w->dims[last], step = w->step[X][last], rows;
  int64_t xs = w->step[X][last - 1], ys = w->step[Y][last - 1];
  walk_seek(w, from);
  for (; from < to; from += rows, walk_next(w)) {
    rows = walk_row(w, to - from);
    short_of[m.size](m.x + w->place[X] * (int64_t)m.size, xs, step,
                     m.y + w->place[Y] * (int64_t)m.size, ys, rows, n);
  }
}

static void move_rows(move m, int64_t from, int64_t to) {
  walk *w = &m.w;
  row_fn *row = row_of[m.size];
  int64_t xs = w->step[X][w->rank - 1], ys = w->step[Y][w->rank - 1];
  walk_seek(w, from);
  for (int64_t n; from < to; from += n, walk_next(w)) {
    n = walk_row(w, to - from);
    row(m.x + w->place[X] * (int64_t)m.size, xs,
        m.y + w->place[Y] * (int64_t)m.size, ys, n);
  }
}

/* The dimension to pair with the last one in tiles: contiguous in x, where
 * the last one is contiguous in y alone; -1 if there is none. */
static int tiled_dim(const walk *w) {
  int last = w->rank - 1;
  if (w->step[Y][last] != 1 || w->step[X][last] == 1 || w->dims[last] < 8)
    return -1;
  for (int d = 0; d < last; d++)
    if (w->step[X][d] == 1 && w->dims[d] >= 8) return d;
  return -1;
}

/* Take dimension d out; what remains is walked in the order it had. */
static void take_out(walk *w, int d) {
  w->rank--;
  for (; d < w->rank; d++) {
    w->dims[d] = w->dims[d + 1];
    for (int k = 0; k < WALK_OPERANDS; k++) w->step[k][d] = w->step[k][d + 1];
  }
}

/* One strip is some rows of y, as many as elements in a cache line of x, at one
 * place of the other dimensions. */
typedef struct strips_shape {
  move m;
  walk w; /* of the other dimensions */
  int64_t rows, n, xs, ys, high, strips;
} strips_shape;

static void move_strips(const mrt_call *c, const void *shared, int part,
                        int parts) {
  const strips_shape *k = shared;
  walk w = k->w;
  int64_t size = (int64_t)k->m.size, s, end;
  mrt_share(w.count * k->strips, part, parts, &s, &end);
  for (; s < end; s++) {
    walk_seek(&w, s / k->strips);
    int64_t j = s % k->strips * k->high, left = k->rows - j;
    strip_of[size](k->m.x + (w.place[X] + j) * size, k->xs,
                   k->m.y + (w.place[Y] + j * k->ys) * size, k->ys,
                   left < k->high ? left : k->high, k->n);
  }
}

static strips_shape strips_of(const move *m, int d) {
  walk w = m->w;
  int64_t rows = w.dims[d], high = 64 / (int64_t)m->size;
  strips_shape k = { .m = *m,
                     .rows = rows,
                     .n = w.dims[w.rank - 1],
                     .xs = w.step[X][w.rank - 1],
                     .ys = w.step[Y][d],
                     .high = high,
                     .strips = (rows + high - 1) / high };
  take_out(&w, w.rank - 1);
  take_out(&w, d);
  walk_join(&w);
  k.w = w;
  return k;
}

static void move_share(const mrt_call *c, const void *shared, int part,
                       int parts) {
  const move *m = shared;
  bool few = has_short_rows(&m->w, m->size);
  int64_t n = few ? m->w.dims[m->w.rank - 1] : 1, from, to;
  mrt_share(m->w.count / n, part, parts, &from, &to);
  if (few)
    move_short(*m, from, to);
  else
    move_rows(*m, from, to);
}

/* 0.1: a byte read and written in nanoseconds, by one thread. */
static __attribute__((noinline)) void run_move(const mrt_call *c, move m) {
  walk_join(&m.w);
  int team = mrt_team(c, (double)m.w.count * (double)m.size * 0.1);
  int d = tiled_dim(&m.w);
  if (d >= 0) {
    strips_shape k = strips_of(&m, d);
    mrt_parallel(c, team, move_strips, &k);
    return;
  }
  mrt_parallel(c, team, move_share, &m);
}

/* ---- the operators ------------------------------------------------------- */

/* From x (NULL: zeros of its shape but for `n` along dim) to y from position
 * `at` of dim on. */
static void place(const mrt_call *c, const mrt_operand *x, bool zeros,
                  int64_t dim, int64_t at, int64_t n) {
  static const uint64_t zero = 0;
  const mrt_operand *y = &c->out[0];
  move m = { .w.rank = x->type.rank, .size = mrt_size(y), .x = x->data };
  if (zeros) m.x = (const char *)&zero;
  for (int i = 0; i < x->type.rank; i++) {
    m.w.dims[i] = i == dim ? n : x->type.dims[i];
    m.w.step[X][i] = zeros ? 0 : x->strides[i];
    m.w.step[Y][i] = y->strides[i];
  }
  int64_t first = at ? at * y->strides[dim] : 0;
  m.y = (char *)y->data + first * (int64_t)m.size;
  run_move(c, m);
}

/* Few bytes that are contiguous on both sides go in runs as they lie: to say what
 * a walk over them is takes longer. */
static bool place_few(const mrt_call *c, const mrt_operand *x, int64_t dim,
                      int64_t at) {
  enum { FEW_BYTES = 1024 };
  const mrt_operand *y = &c->out[0];
  int64_t nx = 1, ny = 1, run = 0, row = 0, size = (int64_t)mrt_size(y);
  for (int i = x->type.rank - 1; i >= 0; i--) {
    int64_t dx = x->type.dims[i], dy = y->type.dims[i];
    if (x->strides[i] != nx || y->strides[i] != ny) return false;
    if (i == dim) run = nx * dx * size, row = ny * dy * size, at *= ny * size;
    nx *= dx, ny *= dy;
  }
  int64_t bytes = nx * size;
  if (bytes > FEW_BYTES) return false;
  const char *from = x->data;
  char *to = (char *)y->data + at;
  for (const char *end = from + bytes; from < end; from += run, to += row)
    memcpy(to, from, (size_t)run);
  return true;
}

static void copy(const mrt_call *c) { place(c, &c->in[0], false, -1, 0, 0); }

static void cat(const mrt_call *c) {
  const mrt_dim_options *o = c->options;
  int64_t at = 0;
  for (int i = 0; i < c->nin; i++) {
    int64_t n = c->in[i].type.dims[o->dim];
    if (!place_few(c, &c->in[i], o->dim, at))
      place(c, &c->in[i], false, o->dim, at, n);
    at += n;
  }
}

static void pad(const mrt_call *c) {
  const mrt_pad_options *o = c->options;
  const mrt_operand *x = &c->in[0];
  int64_t n = x->type.dims[o->dim];
  place(c, x, true, o->dim, 0, o->before);
  place(c, x, false, o->dim, o->before, n);
  place(c, x, true, o->dim, o->before + n, o->after);
}

/* A dimension is read from its end; where it is contiguous in x but not in y it
 * is written from its end, so that tiles can be turned. */
static void flip(const mrt_call *c) {
  const mrt_flip_options *o = c->options;
  const mrt_operand *x = &c->in[0], *y = &c->out[0];
  move m = { .w.rank = x->type.rank, .size = mrt_size(y) };
  int64_t first[] = { 0, 0 };
  if (mrt_type_count(&y->type) == 0) return;
  for (int i = 0; i < x->type.rank; i++) {
    m.w.dims[i] = x->type.dims[i];
    m.w.step[X][i] = x->strides[i];
    m.w.step[Y][i] = y->strides[i];
  }
  for (int i = 0; i < o->dims.count; i++) {
    int64_t d = o->dims.at[i];
    int side = x->strides[d] == 1 && y->strides[d] != 1 ? Y : X;
    first[side] += (m.w.dims[d] - 1) * m.w.step[side][d];
    m.w.step[side][d] *= -1;
  }
  m.x = (const char *)x->data + first[X] * (int64_t)m.size;
  m.y = (char *)y->data + first[Y] * (int64_t)m.size;
  run_move(c, m);
}

static void fill_zeros(const mrt_call *c) {
  static const uint64_t zero = 0;
  const mrt_operand *y = &c->out[0];
  move m = { .w = { .rank = 1, .step = { { 0 }, { 1 } } },
             .size = mrt_size(y),
             .x = (const char *)&zero,
             .y = y->data };
  m.w.dims[0] = mrt_type_count(&y->type);
  run_move(c, m);
}

static void diag_embed(const mrt_call *c) {
  const mrt_diagonal_options *o = c->options;
  const mrt_operand *x = &c->in[0], *y = &c->out[0];
  const int64_t *to = y->strides;
  move m = { .w.rank = x->type.rank, .size = mrt_size(y), .x = x->data };
  int64_t first =
      o->offset > 0 ? o->offset * to[o->dim2] : -o->offset * to[o->dim1];
  fill_zeros(c);
  if (mrt_type_count(&x->type) == 0) return;
  for (int i = 0, k = 0; k < x->type.rank; k++, i++) {
    while (i == o->dim1 || i == o->dim2) i++;
    m.w.dims[k] = x->type.dims[k];
    m.w.step[X][k] = x->strides[k];
    m.w.step[Y][k] = k == x->type.rank - 1 ? to[o->dim1] + to[o->dim2] : to[i];
  }
  m.y = (char *)y->data + first * (int64_t)m.size;
  run_move(c, m);
}

static void write_part(const mrt_call *c) {
  const mrt_write_options *o = c->options;
  const mrt_operand *y = &c->out[0], *part = &c->in[1];
  if (y->data != c->in[0].data) place(c, &c->in[0], false, -1, 0, 0);
  move m = { .w.rank = y->type.rank, .size = mrt_size(y), .x = part->data };
  int64_t first = 0;
  for (int i = 0; i < y->type.rank; i++) {
    m.w.dims[i] = part->type.dims[i];
    m.w.step[X][i] = part->strides[i];
    m.w.step[Y][i] = o->step.at[i] * y->strides[i];
    first += o->first.at[i] * y->strides[i];
  }
  if (mrt_type_count(&part->type) == 0) return;
  m.y = (char *)y->data + first * (int64_t)m.size;
  run_move(c, m);
}

MRT_KERNEL(copy, .run = copy);
MRT_KERNEL(cat, .run = cat);
MRT_KERNEL(pad, .run = pad);
MRT_KERNEL(flip, .run = flip);
MRT_KERNEL(diag_embed, .run = diag_embed);
MRT_KERNEL(write_part, .run = write_part);
