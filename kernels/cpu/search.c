/* search.c -- searchsorted, bincount, histc, run_starts, nonzero_static
 *
 * Searches go side by side without branches, so that their loads overlap.
 * Counts of several threads are added up, being integers; sums of weights are
 * made by one, in the order of the ids.
 *
 * SPDX-License-Identifier: MIT */
#include "op/search.h"
#include "cpu.h"
#include "walk.h"

/* ---- searchsorted -------------------------------------------------------- */

enum { SIDE_BY_SIDE = 16 };

/* at[i] = where values[i] would go among the n of row. */
typedef void search_fn(const void *row, int64_t n, const void *values,
                       int64_t count, int64_t *at);

/* BEFORE(x, v): x of the row stands before v, or nothing can be said. */
#define SEARCH(name, T, BEFORE)                                                \
  static void search_##name(const void *of, int64_t n, const void *from,       \
                            int64_t count, int64_t *at) {                      \
    const T *row = of, *values = from;                                         \
    for (int64_t i = 0; i < count; i += SIDE_BY_SIDE) {                        \
      int64_t m = count - i < SIDE_BY_SIDE ? count - i : SIDE_BY_SIDE;         \
      int64_t place[SIDE_BY_SIDE] = { 0 }, left = n;                           \
      for (; left > 1; left -= left / 2)                                       \
        for (int64_t k = 0; k < m; k++) {                                      \
          T x = row[place[k] + left / 2 - 1], v = values[i + k];               \
          place[k] += BEFORE ? left / 2 : 0;                                   \
        }                                                                      \
      for (int64_t k = 0; k < m; k++) {                                        \
        at[i + k] = 0;                                                         \
        if (n == 0) continue;                                                  \
        T x = row[place[k]], v = values[i + k];                                \
        at[i + k] = place[k] + (BEFORE ? 1 : 0);                               \
      }                                                                        \
    }                                                                          \
  }
#define SEARCHES(T)                                                            \
  SEARCH(T##_left, T, !(x >= v))                                               \
  SEARCH(T##_right, T, !(x > v))
SEARCHES(real)
MRT_NOT_F64(SEARCHES(int64_t) SEARCHES(int32_t) SEARCHES(uint8_t))

static search_fn *search_of(mrt_dtype dtype, bool right) {
  static search_fn *const of[MRT_DTYPE_COUNT][2] = {
    [MRT_REAL] = { search_real_left, search_real_right },
    MRT_NOT_F64([MRT_i64] = { search_int64_t_left, search_int64_t_right },
                [MRT_i32] = { search_int32_t_left, search_int32_t_right },
                [MRT_u8] = { search_uint8_t_left, search_uint8_t_right }, )
  };
  return of[dtype][right];
}

static void search_share(const mrt_call *c, const void *unused, int part,
                         int parts) {
  const mrt_searchsorted_options *o = c->options;
  const mrt_operand *row = &c->in[0], *values = &c->in[1];
  search_fn *search = search_of(row->type.dtype, o->right);
  int64_t n = mrt_cols(row), size = (int64_t)mrt_size(row), from, to;
  int64_t each = row->type.rank > 1 ? mrt_cols(values) : INT64_MAX;
  mrt_share(mrt_type_count(&values->type), part, parts, &from, &to);
  for (int64_t m; from < to; from += m) {
    int64_t rest = each - from % each;
    m = to - from < rest ? to - from : rest;
    search((const char *)row->data + from / each * n * size, n,
           (const char *)values->data + from * size, m,
           (int64_t *)c->out[0].data + from);
  }
}

static void searchsorted(const mrt_call *c) {
  double ns = (double)mrt_type_count(&c->in[1].type) * 10;
  mrt_parallel(c, mrt_team(c, ns), search_share, NULL);
}

/* ---- bincount ------------------------------------------------------------ */

enum { SMALL = 1 << 14 }; /* counts that a thread may have of its own */

static int count_teams(const mrt_call *c) {
  const mrt_bincount_options *o = c->options;
  return c->nin == 1 && o->size <= SMALL ? c->threads : 1;
}

static size_t bincount_scratch(const mrt_call *c) {
  const mrt_bincount_options *o = c->options;
  return (size_t)(count_teams(c) - 1) * (size_t)o->size * sizeof(int64_t);
}

static void count_share(const mrt_call *c, const void *unused, int part,
                        int parts) {
  const mrt_operand *ids = &c->in[0];
  int64_t size = c->out[0].type.dims[0], i, end;
  int64_t *count =
      part ? (int64_t *)c->scratch + (part - 1) * size : c->out[0].data;
  memset(count, 0, (size_t)size * sizeof *count);
  mrt_share(ids->type.dims[0], part, parts, &i, &end);
  for (; i < end; i++)
    count[mrt_checked_id(c, mrt_id(ids->data, ids->type.dtype, i), size)]++;
}

static void sum_weights(const mrt_call *c) {
  const mrt_operand *ids = &c->in[0];
  const real *weights = c->in[1].data;
  int64_t size = c->out[0].type.dims[0];
  real *sum = c->out[0].data;
  memset(sum, 0, (size_t)size * sizeof *sum);
  for (int64_t i = 0; i < ids->type.dims[0]; i++)
    sum[mrt_checked_id(c, mrt_id(ids->data, ids->type.dtype, i), size)] +=
        weights[i];
}

static void bincount(const mrt_call *c) {
  int64_t size = c->out[0].type.dims[0], *y = c->out[0].data;
  if (size == 0) return;
  if (c->nin == 2) {
    sum_weights(c);
    return;
  }
  double ns = (double)c->in[0].type.dims[0] * 2;
  int team = count_teams(c) == 1 ? 1 : mrt_team(c, ns);
  mrt_parallel(c, team, count_share, NULL);
  const int64_t *more = c->scratch;
  for (int t = 1; t < team; t++, more += size)
    for (int64_t i = 0; i < size; i++) y[i] += more[i];
}

/* ---- histc --------------------------------------------------------------- */

/* Scratch: of each thread its counts. */
typedef struct histogram {
  real low, high;
  int64_t bins;
  int64_t *counts; /* bins of them for each part */
} histogram;

static size_t histc_scratch(const mrt_call *c) {
  const mrt_histc_options *o = c->options;
  return (size_t)c->threads * (size_t)o->bins * sizeof(int64_t);
}

/* The bounds of the data where none are given; a NaN makes both NaN. */
static void find_bounds(const mrt_call *c, const mrt_histc_options *o,
                        histogram *h) {
  const real *x = c->in[0].data;
  int64_t n = mrt_type_count(&c->in[0].type);
  h->low = (real)o->min, h->high = (real)o->max;
  if (o->min != o->max) return;
  if (n > 0 && o->min == 0) {
    h->low = h->high = x[0];
    for (int64_t i = 0; i < n; i++) {
      h->low = x[i] < h->low || x[i] != x[i] ? x[i] : h->low;
      h->high = x[i] > h->high || x[i] != x[i] ? x[i] : h->high;
    }
  }
  if (h->low == h->high) h->low -= 1, h->high += 1;
}

static void histc_part(const mrt_call *c, const void *shared, int part,
                       int parts) {
  enum { BLOCK = 256 };
  const histogram *h = shared;
  const real *x = c->in[0].data;
  int64_t *count = h->counts + part * h->bins, i, end;
  real low = h->low, high = h->high, bins = (real)h->bins;
  int32_t bin[BLOCK];
  memset(count, 0, (size_t)h->bins * sizeof *count);
  mrt_share(mrt_type_count(&c->in[0].type), part, parts, &i, &end);
  for (; i < end; i += BLOCK) {
    int m = end - i < BLOCK ? (int)(end - i) : BLOCK;
    for (int k = 0; k < m; k++) {
      real v = x[i + k], at = (v - low) * bins / (high - low);
      at = at < bins ? at : bins - 1; /* rounded up, or overflown */
      bin[k] = (v >= low) & (v <= high) ? (int32_t)at : -1;
    }
    for (int k = 0; k < m; k++)
      if (bin[k] >= 0) count[bin[k]]++;
  }
}

static void histc(const mrt_call *c) {
  const mrt_histc_options *o = c->options;
  real *y = c->out[0].data;
  histogram h = { .bins = o->bins, .counts = c->scratch };
  find_bounds(c, o, &h);
  int team = mrt_team(c, (double)mrt_type_count(&c->in[0].type) * 2);
  mrt_parallel(c, team, histc_part, &h);
  for (int64_t k = 0; k < h.bins; k++) {
    int64_t sum = 0;
    for (int t = 0; t < team; t++) sum += h.counts[t * h.bins + k];
    y[k] = h.high - h.low < MRT_INF ? (real)sum : (real)NAN;
  }
}

/* ---- run_starts ---------------------------------------------------------- */

/* y[i] = row i is not the row before it, of m elements; i > 0. */
typedef void starts_fn(const void *x, int64_t m, int64_t from, int64_t to,
                       uint8_t *y);

#define STARTS(T)                                                              \
  static void starts_##T(const void *of, int64_t m, int64_t from, int64_t to,  \
                         uint8_t *y) {                                         \
    const T *x = of;                                                           \
    if (m == 1) {                                                              \
      for (int64_t i = from; i < to; i++) y[i] = x[i] != x[i - 1];             \
      return;                                                                  \
    }                                                                          \
    for (int64_t i = from; i < to; i++) {                                      \
      bool differs = false;                                                    \
      for (int64_t k = i * m; k < (i + 1) * m; k++)                            \
        differs |= x[k] != x[k - m];                                           \
      y[i] = differs;                                                          \
    }                                                                          \
  }
STARTS(real)
MRT_NOT_F64(STARTS(int64_t) STARTS(int32_t) STARTS(uint8_t))

static void starts_part(const mrt_call *c, const void *unused, int part,
                        int parts) {
  static starts_fn *const of[MRT_DTYPE_COUNT] = {
    [MRT_REAL] = starts_real,
    MRT_NOT_F64([MRT_i64] = starts_int64_t, [MRT_i32] = starts_int32_t,
                [MRT_u8] = starts_uint8_t, [MRT_bool] = starts_uint8_t, )
  };
  const mrt_type *t = &c->in[0].type;
  int64_t from, to;
  uint8_t *y = c->out[0].data;
  mrt_share(t->dims[0], part, parts, &from, &to);
  if (from == 0 && to > 0) y[from++] = 1;
  of[t->dtype](c->in[0].data, t->rank == 2 ? t->dims[1] : 1, from, to, y);
}

static void run_starts(const mrt_call *c) {
  double ns = (double)mrt_type_count(&c->in[0].type) * 0.3;
  mrt_parallel(c, mrt_team(c, ns), starts_part, NULL);
}

/* ---- nonzero_static ------------------------------------------------------ */

/* How many of n elements are not 0. */
typedef int64_t count_fn(const void *x, int64_t from, int64_t to);
/* Their numbers in row-major order from `y` on, `most` at most; returns how
 * many. */
typedef int64_t find_fn(const void *x, int64_t from, int64_t to, int64_t *y,
                        int64_t most);

#define NONZERO(T)                                                             \
  static int64_t count_##T(const void *of, int64_t from, int64_t to) {         \
    const T *x = of;                                                           \
    int64_t n = 0;                                                             \
    for (int64_t i = from; i < to; i++) n += x[i] != 0;                        \
    return n;                                                                  \
  }                                                                            \
  static int64_t find_##T(const void *of, int64_t from, int64_t to,            \
                          int64_t *y, int64_t most) {                          \
    const T *x = of;                                                           \
    int64_t n = 0;                                                             \
    for (int64_t i = from; i < to && n < most; i++) {                          \
      y[n] = i;                                                                \
      n += x[i] != 0;                                                          \
    }                                                                          \
    return n;                                                                  \
  }
NONZERO(real)
MRT_NOT_F64(NONZERO(int64_t) NONZERO(int32_t) NONZERO(uint8_t))

typedef struct finder {
  count_fn *count;
  find_fn *find;
} finder;

static const finder finders[MRT_DTYPE_COUNT] = {
  [MRT_REAL] = { count_real, find_real },
  MRT_NOT_F64([MRT_i64] = { count_int64_t, find_int64_t },
              [MRT_i32] = { count_int32_t, find_int32_t },
              [MRT_u8] = { count_uint8_t, find_uint8_t },
              [MRT_bool] = { count_uint8_t, find_uint8_t }, )
};

/* Scratch: of each part how many it has. */
static size_t nonzero_scratch(const mrt_call *c) {
  return (size_t)c->threads * sizeof(int64_t);
}

static void count_part(const mrt_call *c, const void *unused, int part,
                       int parts) {
  const mrt_operand *x = &c->in[0];
  int64_t *found = c->scratch, from, to;
  mrt_share(mrt_type_count(&x->type), part, parts, &from, &to);
  found[part] = finders[x->type.dtype].count(x->data, from, to);
}

/* Numbers that stand one behind the other at the start of their n rows become
 * rows of positions, from the last on. */
static void spread(const mrt_type *x, int64_t *y, int64_t n) {
  for (int64_t i = n - 1; i >= 0; i--) {
    int64_t number = y[i];
    for (int d = x->rank - 1; d >= 0; d--) {
      y[i * x->rank + d] = number % x->dims[d];
      number /= x->dims[d];
    }
  }
}

static void find_part(const mrt_call *c, const void *unused, int part,
                      int parts) {
  const mrt_operand *x = &c->in[0];
  const int64_t *found = c->scratch;
  int64_t size = c->out[0].type.dims[0], at = 0, from, to;
  int rank = x->type.rank;
  for (int p = 0; p < part; p++) at += found[p];
  if (at >= size) return;
  mrt_share(mrt_type_count(&x->type), part, parts, &from, &to);
  int64_t most = found[part] < size - at ? found[part] : size - at;
  int64_t *y = (int64_t *)c->out[0].data + at * rank;
  finders[x->type.dtype].find(x->data, from, to, y, most);
  if (rank > 1) spread(&x->type, y, most);
}

static void nonzero_static(const mrt_call *c) {
  const mrt_nonzero_options *o = c->options;
  const mrt_type *t = &c->in[0].type;
  int64_t size = c->out[0].type.dims[0], have = 0;
  if (t->rank == 0 || size == 0) return;
  int team = mrt_team(c, (double)mrt_type_count(t));
  mrt_parallel(c, team, count_part, NULL);
  mrt_parallel(c, team, find_part, NULL);
  const int64_t *found = c->scratch;
  for (int p = 0; p < team; p++) have += found[p];
  int64_t *y = c->out[0].data;
  for (int64_t i = have * t->rank; i < size * t->rank; i++)
    y[i] = o->fill_value;
}

MRT_KERNEL(searchsorted, .run = searchsorted);
MRT_KERNEL(bincount, .run = bincount, .scratch = bincount_scratch);
MRT_KERNEL(histc, .run = histc, .scratch = histc_scratch);
MRT_KERNEL(run_starts, .run = run_starts);
MRT_KERNEL(nonzero_static, .run = nonzero_static, .scratch = nonzero_scratch);
