/* update_rows.c -- descend_rows, sgd_rows, rmsprop_rows, adamw_rows: the rows of
 * a table that were looked up, updated where they lie
 *
 *   method  Rows are shared out among threads by a hash of their number.  Each
 *           thread lists its ids with their rows of dy, list by list, sorts
 *           them by id (a radix sort, digit by digit from the lowest, which
 *           keeps the order of equal ones: Knuth, TAOCP 3, 5.2.5), adds up the
 *           rows of dy for one id in a buffer of columns and updates these.
 *   bits    those of embedding_grad or embedding_bag_grad, and then of the
 *           update; so rows of zeros are updated, too, where that would change
 *           them: where rate or scale are negative or not finite
 *   cost    about 20 ns for each id, and its row moved
 *
 * SPDX-License-Identifier: MIT */
#include "bags.h"
#include "update_steps.h"

#include <stdlib.h>

/* A row of dy to be added to a row of p. */
typedef struct row_entry {
  int64_t id, from; /* from: row of dy and list, joined */
} entry;

enum { STRIP = 512, AHEAD = 6, FEW = 48, MOST_BITS = 11 };

typedef struct row_list {
  bags ids; /* where each id has a row of its own: bags of one */
  const mrt_operand *dy;
  bool mean;
} row_list;

typedef struct row_update {
  int written, count; /* variables; lists */
  row_list lists[MRT_ROW_LISTS];
  int64_t V, C, all; /* all: ids */
  mrt_dtype rounded;
  bool lazy, every; /* every: rows without an id, too */
  elements *run;
  const void *step;
} row_update;

/* ---- lists --------------------------------------------------------------- */

static row_list list_of(const mrt_call *c, int64_t kind, int at) {
  bool offsets = mrt_row_list_inputs(kind) > 2;
  row_list l = { bags_of(c, &c->in[at], offsets ? &c->in[at + 2] : NULL),
                 &c->in[at + 1],
                 kind == MRT_ROWS_MEAN || kind == MRT_ROWS_MEAN_AT };
  if (kind == MRT_ROWS_EACH) l.ids.each = 1, l.ids.count = l.ids.all;
  return l;
}

/* The input after the lists in *at. */
static row_update rows_of(const mrt_call *c, const mrt_row_lists *lists,
                          int written, int *at) {
  row_update u = { .written = written,
                   .count = lists->kinds.count,
                   .V = c->out[0].type.dims[0],
                   .C = c->out[0].type.dims[1],
                   .rounded = lists->rounded };
  *at = written;
  for (int i = 0; i < u.count; i++) {
    u.lists[i] = list_of(c, lists->kinds.at[i], *at);
    *at += mrt_row_list_inputs(lists->kinds.at[i]);
    u.all += u.lists[i].ids.all;
  }
  return u;
}

/* Which of the parts updates a row. */
static int owner(int64_t id, int parts) {
  uint32_t hash = (uint32_t)((uint64_t)id * UINT64_C(0x9e3779b97f4a7c15) >> 32);
  return (int)((uint64_t)hash * (uint64_t)parts >> 32);
}

/* Ids [*from, *to) of a bag.  Bags that overlap were reported as bad. */
static void next_bag(const bags *b, int64_t i, int64_t *from, int64_t *to) {
  int64_t last = i ? *to : 0;
  bag(b, i, false, from, to);
  if (*from < last) *from = last;
  if (*to < *from) *to = *from;
}

/* How many entries a part has; the parts before it, in *before. */
static int64_t count_entries(const row_update *u, int part, int parts,
                             int64_t *before) {
  int64_t n = 0, from, to;
  *before = 0;
  for (int l = 0; l < u->count; l++)
    for (int64_t b = 0; b < u->lists[l].ids.count; b++)
      for (next_bag(&u->lists[l].ids, b, &from, &to); from < to; from++) {
        int by = owner(id_of(&u->lists[l].ids, from, u->V, false), parts);
        *before += by < part, n += by == part;
      }
  return n;
}

static int64_t list_entries(const row_update *u, int part, int parts,
                            entry *out) {
  int64_t n = 0, from, to;
  for (int l = 0; l < u->count; l++)
    for (int64_t b = 0; b < u->lists[l].ids.count; b++)
      for (next_bag(&u->lists[l].ids, b, &from, &to); from < to; from++) {
        int64_t id = id_of(&u->lists[l].ids, from, u->V, false);
        if (parts > 1 && owner(id, parts) != part) continue;
        out[n++] = (entry){ id, b * MRT_ROW_LISTS + l };
      }
  return n;
}

/* ---- sorting ------------------------------------------------------------- */

static void sort_few(entry *x, int64_t n) {
  for (int64_t i = 1; i < n; i++) {
    entry e = x[i];
    int64_t j = i;
    for (; j > 0 && x[j - 1].id > e.id; j--) x[j] = x[j - 1];
    x[j] = e;
  }
}

static void sort_digit(const entry *x, entry *y, int64_t n, int shift,
                       int bits) {
  int64_t at[1 << MOST_BITS] = { 0 }, mask = (1 << bits) - 1, sum = 0;
  for (int64_t i = 0; i < n; i++) at[x[i].id >> shift & mask]++;
  for (int64_t d = 0; d <= mask; d++) {
    int64_t here = at[d];
    at[d] = sum, sum += here;
  }
  for (int64_t i = 0; i < n; i++) y[at[x[i].id >> shift & mask]++] = x[i];
}

/* By id, equal ones in the order they have; n entries in x, room for as many in
 * y.  Returns where they are. */
static entry *sorted(entry *x, entry *y, int64_t n, int64_t V) {
  int bits = 1, passes;
  if (n < FEW) return sort_few(x, n), x;
  while (bits < 63 && (V - 1) >> bits) bits++;
  passes = (bits + MOST_BITS - 1) / MOST_BITS;
  bits = (bits + passes - 1) / passes;
  for (int p = 0; p < passes; p++) {
    sort_digit(x, y, n, p * bits, bits);
    entry *other = x;
    x = y, y = other;
  }
  return x;
}

/* ---- rows ---------------------------------------------------------------- */

static real scale_of(const row_list *l, int64_t row) {
  int64_t from, to;
  if (!l->mean) return 1;
  bag(&l->ids, row, false, &from, &to);
  return to > from ? 1 / (real)(to - from) : 1;
}

/* 0 + x is not x where that is -0. */
static void begin(real *y, const real *x, real scale, int64_t n) {
#pragma omp simd
  for (int64_t j = 0; j < n; j++) y[j] = 0 + scale * x[j];
}
static void add(real *y, const real *x, real scale, int64_t n) {
#pragma omp simd
  for (int64_t j = 0; j < n; j++) y[j] += scale * x[j];
}

/* Columns [j, j + n) of the sum of entries [e, end), which are of one list. */
static void sum_list(const row_update *u, const entry *e, const entry *end,
                     int64_t j, int64_t n, real *sum) {
  const row_list *l = &u->lists[e->from % MRT_ROW_LISTS];
  real room[STRIP];
  for (const entry *first = e; e < end; e++) {
    int64_t row = e->from / MRT_ROW_LISTS;
    const real *dy = mrt_reals_in(l->dy, row * u->C + j, n, room);
    (e == first ? begin : add)(sum, dy, scale_of(l, row), n);
  }
}

static void round_sum(const row_update *u, real *sum, int64_t n) {
  if (u->rounded != MRT_DTYPE_COUNT) mrt_round_reals(u->rounded, sum, n);
}

/* Of all their lists.  A list without an entry adds 0, which changes -0 alone:
 * no sum is that unless it was rounded to it. */
static void sum_strip(const row_update *u, const entry *e, const entry *end,
                      int64_t j, int64_t n, real *sum) {
  const real zeros[STRIP] = { 0 };
  real other[STRIP];
  int lists = 0;
  for (bool first = true; e < end; first = false, lists++) {
    const entry *next = e + 1;
    while (next < end && next->from % MRT_ROW_LISTS == e->from % MRT_ROW_LISTS)
      next++;
    real *of_list = first ? sum : other;
    sum_list(u, e, next, j, n, of_list);
    round_sum(u, of_list, n);
    if (!first) add(sum, other, 1, n), round_sum(u, sum, n);
    e = next;
  }
  if (lists < u->count && u->rounded != MRT_DTYPE_COUNT) add(sum, zeros, 1, n);
}

/* One row of p; if lazy, not before a strip of its gradient is not 0. */
static void update_row(const mrt_call *c, const row_update *u, const entry *e,
                       const entry *end) {
  real sum[STRIP];
  bool live = !u->lazy;
  for (int64_t j = 0, n; j < u->C; j += n) {
    n = u->C - j < STRIP ? u->C - j : STRIP;
    sum_strip(u, e, end, j, n, sum);
    if (!live && is_zero(sum, n)) continue;
    if (!live && j > 0) j = 0, n = STRIP, sum_strip(u, e, end, 0, n, sum);
    live = true;
    int64_t at = e->id * u->C + j;
    run_pieces_of(c, u->written, sum, 0, u->run, u->step, at, at + n);
  }
}

/* Rows [from, to), whose gradient is 0. */
static void update_zeros(const mrt_call *c, const row_update *u, int64_t from,
                         int64_t to) {
  const real zeros[STRIP] = { 0 };
  for (int64_t at = from * u->C, n; at < to * u->C; at += n) {
    n = to * u->C - at < STRIP ? to * u->C - at : STRIP;
    run_pieces_of(c, u->written, zeros, 0, u->run, u->step, at, at + n);
  }
}

static void fetch(const mrt_operand *x, int64_t row, int64_t C) {
  enum { LINE = 64, MOST = 512 };
  int64_t bytes = C * (int64_t)mrt_dtypes[x->type.dtype].bytes;
  const char *at = (const char *)x->data + row * bytes;
  for (int64_t i = 0; i < bytes && i < MOST; i += LINE)
    __builtin_prefetch(at + i, 1);
}

static void update_share(const mrt_call *c, const void *shared, int part,
                         int parts) {
  const row_update *u = shared;
  int64_t before = 0, n = u->all, done = 0;
  if (parts > 1) n = count_entries(u, part, parts, &before);
  entry *x = (entry *)c->scratch + before;
  n = list_entries(u, part, parts, x);
  x = sorted(x, (entry *)c->scratch + u->all + before, n, u->V);
  for (const entry *e = x, *end = x + n, *next; e < end; e = next) {
    for (next = e + 1; next < end && next->id == e->id;) next++;
    for (int k = 0; k < u->written && end - next > AHEAD; k++)
      fetch(&c->out[k], next[AHEAD].id, u->C);
    if (u->every) update_zeros(c, u, done, e->id);
    update_row(c, u, e, next);
    done = e->id + 1;
  }
  if (u->every) update_zeros(c, u, done, u->V);
}

/* Does a step by 0 change nothing? */
static bool is_still(double lr, double scale) {
  return isfinite(lr) && isfinite(scale) && !signbit(lr) && !signbit(scale);
}

/* `lr`: the input; then scale and when. */
static void update(const mrt_call *c, row_update *u, int lr, elements *run,
                   const void *step, bool lazy) {
  if (!is_due(c, lr + 2)) return;
  u->run = run, u->step = step, u->lazy = lazy;
  u->every = !lazy && !is_still(scalar(c, lr), scalar(c, lr + 1));
  double work = (double)u->all * (20 + (double)(u->C * (1 + u->written)));
  mrt_parallel(c, u->every ? 1 : mrt_team(c, work), update_share, u);
}

static size_t scratch_of(const mrt_call *c, const mrt_row_lists *lists,
                         int written) {
  int at;
  row_update u = rows_of(c, lists, written, &at);
  return 2 * (size_t)u.all * sizeof(entry);
}

/* ---- the operators ------------------------------------------------------- */

#define ROWS(name, written, lr_at)                                             \
  static void name##_rows(const mrt_call *c) {                                 \
    const mrt_##name##_rows_options *o = c->options;                           \
    int at;                                                                    \
    row_update u = rows_of(c, &o->lists, written, &at);                        \
    name##_step s = name##_of(c, &o->step, at);                                \
    update(c, &u, at + (lr_at), name##_piece, &s, o->step.lazy);               \
  }                                                                            \
  static size_t name##_scratch(const mrt_call *c) {                            \
    const mrt_##name##_rows_options *o = c->options;                           \
    return scratch_of(c, &o->lists, written);                                  \
  }                                                                            \
  MRT_KERNEL(name##_rows, .run = name##_rows, .scratch = name##_scratch);

ROWS(descend, 1, 0)
ROWS(sgd, 2, 0)
ROWS(rmsprop, 2, 0)
ROWS(adamw, 3, 1)
