/* cross_entropy.c -- cross_entropy and its gradient, a row of logits at a time
 *
 * A row may be far longer than a cache (50257 classes are 200 KB), so the sum
 * of exponentials is taken in one pass: by blocks, each against the largest
 * logit so far; when a larger one comes, the sum is scaled down to it.  Blocks
 * of narrow floats are widened on the stack.
 *
 * SPDX-License-Identifier: MIT */
#include "op/cross_entropy.h"
#include "floats.h"
#include "rows.h"
#include "total.h"

/* 8 KB of floats: two passes in the nearest cache.  A multiple of CHAINS
 * vectors. */
enum { BLOCK = 2048 };

static int64_t block_at(int64_t i, int64_t n) {
  return n - i < BLOCK ? n - i : BLOCK;
}

/* log sum exp of the row from `at` on is *max + the result.  While all is
 * -infinity the blocks are taken against 0, which keeps their NaNs. */
static real log_sum(const mrt_operand *x, int64_t at, int64_t n, real *max) {
  real room[BLOCK], sum = 0;
  *max = -MRT_INF;
  for (int64_t i = 0; i < n; i += BLOCK) {
    int64_t m = block_at(i, n);
    const real *block = mrt_reals_in(x, at + i, m, room);
    real top = row_max(block, m);
    if (top > *max) {
      if (sum > 0) sum *= m_exp(*max - top);
      *max = top;
    }
    sum += row_exp_sum(block, *max > -MRT_INF ? *max : 0, m);
  }
  return m_log(sum);
}

/* The bits of row_sum. */
static real plain_sum(const mrt_operand *x, int64_t at, int64_t n) {
  real room[BLOCK], sum = 0;
  vec s[CHAINS] = { { 0 } };
  for (int64_t i = 0; i < n; i += BLOCK) {
    int64_t m = block_at(i, n);
    const real *block = mrt_reals_in(x, at + i, m, room);
    int64_t done = add_chains(block, m, s);
    if (i + m < n) continue;
    sum = vec_sum(chains_sum(s));
    for (; done < m; done++) sum += block[done];
  }
  return sum;
}

static real element(const mrt_operand *x, int64_t at) {
  real room;
  return *mrt_reals_in(x, at, 1, &room);
}

/* ---- rows shorter than a vector ------------------------------------------ */

/* So many are turned, for lanes to be rows: the bits are those of one by one. */
enum { TURNED = 64 };

static bool is_short(const mrt_call *c, int64_t n) {
  const mrt_cross_entropy_options *o = c->options;
  return n > 0 && n < LANES && !(o->label_smoothing > 0);
}

/* log sum exp of each of m rows at x is max + rest. */
static void log_sums_short(const real *x, int64_t n, int64_t m, real *max,
                           real *rest) {
  real t[LANES][TURNED] = { { 0 } }, shift[TURNED], sum[TURNED] = { 0 };
  for (int64_t j = 0; j < n; j++)
    for (int64_t i = 0; i < m; i++) t[j][i] = x[i * n + j];
  for (int i = 0; i < TURNED; i++) max[i] = -MRT_INF;
  for (int64_t j = 0; j < n; j++)
    for (int i = 0; i < TURNED; i++)
      max[i] = t[j][i] > max[i] ? t[j][i] : max[i];
  for (int i = 0; i < TURNED; i++) shift[i] = max[i] > -MRT_INF ? max[i] : 0;
  for (int64_t j = 0; j < n; j++)
#pragma omp simd
    for (int i = 0; i < TURNED; i++) sum[i] += exp_down(t[j][i] - shift[i]);
#pragma omp simd
  for (int i = 0; i < TURNED; i++) rest[i] = m_log(sum[i]);
}

static void losses_short(const mrt_call *c, int64_t r, int64_t end) {
  const mrt_cross_entropy_options *o = c->options;
  const mrt_operand *targets = &c->in[1];
  real *loss = c->out[0].data, *lse = c->out[1].data;
  int64_t n = mrt_cols(&c->in[0]);
  real room[LANES * TURNED], max[TURNED], rest[TURNED];
  for (int64_t m; r < end; r += m) {
    m = end - r < TURNED ? end - r : TURNED;
    const real *x = mrt_reals_in(&c->in[0], r * n, m * n, room);
    log_sums_short(x, n, m, max, rest);
    for (int64_t i = 0; i < m; i++) {
      int64_t id = mrt_id(targets->data, targets->type.dtype, r + i);
      loss[r + i] = lse[r + i] = 0;
      if (id == o->ignore_index) continue;
      id = mrt_checked_id(c, id, n);
      loss[r + i] = rest[i] - (x[i * n + id] - max[i]);
      lse[r + i] = rest[i] + max[i];
    }
  }
}

/* Gradients of rows: what is one for a row is written down for each element. */
static void grads_short(const mrt_call *c, int64_t r, int64_t end) {
  const mrt_cross_entropy_options *o = c->options;
  const mrt_operand *targets = &c->in[1];
  const real *lse = c->in[2].data, *dloss = c->in[3].data;
  int64_t n = mrt_cols(&c->in[0]);
  real room[LANES * TURNED], shift[LANES * TURNED], by[LANES * TURNED];
  for (int64_t m; r < end; r += m) {
    m = end - r < TURNED ? end - r : TURNED;
    for (int64_t i = 0; i < m; i++)
      for (int64_t j = 0; j < n; j++)
        shift[i * n + j] = lse[r + i], by[i * n + j] = dloss[r + i];
    const real *x = mrt_reals_in(&c->in[0], r * n, m * n, room);
    real *dx = mrt_reals_place(&c->out[0], r * n, room);
#pragma omp simd
    for (int64_t i = 0; i < m * n; i++) dx[i] = m_exp(x[i] - shift[i]) * by[i];
    for (int64_t i = 0; i < m; i++) {
      int64_t id = mrt_id(targets->data, targets->type.dtype, r + i);
      if (id == o->ignore_index)
        memset(dx + i * n, 0, (size_t)n * sizeof *dx);
      else
        dx[i * n + mrt_checked_id(c, id, n)] -= dloss[r + i];
    }
    mrt_reals_out(&c->out[0], r * n, m * n, dx);
  }
}

/* ---- any rows ------------------------------------------------------------- */

static void losses(const mrt_call *c, int64_t r, int64_t end) {
  const mrt_cross_entropy_options *o = c->options;
  const mrt_operand *targets = &c->in[1];
  const mrt_operand *x = &c->in[0];
  real *loss = c->out[0].data, *lse = c->out[1].data;
  int64_t n = mrt_cols(&c->in[0]);
  if (is_short(c, n)) {
    losses_short(c, r, end);
    return;
  }
  for (; r < end; r++) {
    int64_t id = mrt_id(targets->data, targets->type.dtype, r);
    loss[r] = lse[r] = 0;
    if (id == o->ignore_index) continue;
    id = mrt_checked_id(c, id, n);
    if (n == 0) continue;
    real max, rest = log_sum(x, r * n, n, &max), own = element(x, r * n + id);
    loss[r] = rest - (own - max);
    if (o->label_smoothing > 0) { /* the mean of -log p takes that share */
      real mean = plain_sum(x, r * n, n) / (real)n;
      loss[r] += (real)o->label_smoothing * (own - mean);
      /* a class that is impossible has a share, perhaps the target's too */
      if (mean == -MRT_INF && max > -MRT_INF) loss[r] = MRT_INF;
    }
    lse[r] = rest + max;
  }
}

static void losses_part(const mrt_call *c, const void *unused, int part,
                        int parts) {
  int64_t r, end;
  mrt_share(mrt_rows(&c->in[0]), part, parts, &r, &end);
  losses(c, r, end);
}

static void cross_entropy(const mrt_call *c) {
  double count = (double)mrt_rows(&c->in[0]) * (double)mrt_cols(&c->in[0]);
  mrt_parallel(c, mrt_team(c, 0.4 * count), losses_part, NULL);
}

static void grad_block(const real *x, real lse, real dloss, real *dx,
                       int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; i++) dx[i] = m_exp(x[i] - lse) * dloss;
}

/* The same, less `share` of all classes. */
static void smooth_block(const real *x, real lse, real share, real dloss,
                         real *dx, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; i++) dx[i] = (m_exp(x[i] - lse) - share) * dloss;
}

/* The row from `at` on, of target id. */
static void grad_row(const mrt_call *c, int64_t at, int64_t n, int64_t id,
                     real lse, real dloss) {
  const mrt_cross_entropy_options *o = c->options;
  real room[BLOCK], smoothing = (real)o->label_smoothing;
  for (int64_t i = 0; i < n; i += BLOCK) {
    int64_t m = block_at(i, n);
    const real *x = mrt_reals_in(&c->in[0], at + i, m, room);
    real *dx = mrt_reals_place(&c->out[0], at + i, room);
    if (smoothing > 0)
      smooth_block(x, lse, smoothing / (real)n, dloss, dx, m);
    else
      grad_block(x, lse, dloss, dx, m);
    if (id >= i && id < i + m) dx[id - i] -= (1 - smoothing) * dloss;
    mrt_reals_out(&c->out[0], at + i, m, dx);
  }
}

static void grads(const mrt_call *c, int64_t r, int64_t end) {
  const mrt_cross_entropy_options *o = c->options;
  const mrt_operand *targets = &c->in[1], *dx = &c->out[0];
  const real *lse = c->in[2].data, *dloss = c->in[3].data;
  int64_t n = mrt_cols(&c->in[0]);
  size_t bytes = (size_t)n * mrt_dtypes[dx->type.dtype].bytes;
  if (n == 0) return;
  if (is_short(c, n)) {
    grads_short(c, r, end);
    return;
  }
  for (; r < end; r++) {
    int64_t id = mrt_id(targets->data, targets->type.dtype, r);
    if (id == o->ignore_index)
      memset(mrt_element(dx, r * n), 0, bytes);
    else
      grad_row(c, r * n, n, mrt_checked_id(c, id, n), lse[r], dloss[r]);
  }
}

static void grad_part(const mrt_call *c, const void *unused, int part,
                      int parts) {
  int64_t r, end;
  mrt_share(mrt_rows(&c->in[0]), part, parts, &r, &end);
  grads(c, r, end);
}

static void cross_entropy_grad(const mrt_call *c) {
  double count = (double)mrt_rows(&c->in[0]) * (double)mrt_cols(&c->in[0]);
  mrt_parallel(c, mrt_team(c, 0.5 * count), grad_part, NULL);
}

/* ---- both ------------------------------------------------------------------ */

/* Rows whose gradients come right behind their losses: few, but for lanes to be
 * rows. */
static int64_t rows_at_once(int64_t n) { return n < LANES ? TURNED : 1; }

static void both_part(const mrt_call *c, const void *unused, int part,
                      int parts) {
  mrt_operand lse = c->out[1], sums[2], read[4];
  mrt_call loss = *c, grad = *c;
  int64_t r, end, most = rows_at_once(mrt_cols(&c->in[0]));
  lse.data = c->scratch;
  sums[0] = c->out[1], sums[1] = lse;
  read[0] = c->in[0], read[1] = c->in[1], read[2] = lse, read[3] = c->in[2];
  loss.nin = 2, loss.nout = 2, loss.out = sums;
  grad.nin = 4, grad.nout = 1, grad.in = read;
  mrt_share(mrt_rows(&c->in[0]), part, parts, &r, &end);
  for (int64_t m; r < end; r += m) {
    m = end - r < most ? end - r : most;
    losses(&loss, r, r + m);
    grads(&grad, r, r + m);
  }
}

static void cross_entropy_both(const mrt_call *c) {
  double count = (double)mrt_rows(&c->in[0]) * (double)mrt_cols(&c->in[0]);
  mrt_parallel(c, mrt_team(c, 0.9 * count), both_part, NULL);
}
static size_t both_scratch(const mrt_call *c) {
  return (size_t)mrt_rows(&c->in[0]) * sizeof(real);
}

/* ---- of logarithms --------------------------------------------------------- */

enum { ROWS = 4096 }; /* that are counted together */

/* Scratch: how many count by blocks, the rows' losses, that of their sum. */
typedef struct nll_room {
  int64_t rows, blocks;
  size_t losses, spare, bytes; /* offsets */
} nll_room;

static nll_room nll_room_of(const mrt_call *c) {
  nll_room r = { .rows = mrt_type_count(&c->in[1].type) };
  r.blocks = (r.rows + ROWS - 1) / ROWS;
  r.losses = (size_t)(r.blocks + 7) / 8 * 64;
  r.spare = r.losses + ((size_t)r.rows * sizeof(real) + 63) / 64 * 64;
  r.bytes = r.spare + MRT_CPU(total_scratch)(r.rows);
  return r;
}

static size_t nll_scratch(const mrt_call *c) { return nll_room_of(c).bytes; }

static int64_t nll_rows(const mrt_call *c, int64_t r, int64_t end, real *y) {
  const mrt_cross_entropy_options *o = c->options;
  const mrt_operand *targets = &c->in[1];
  const real *x = c->in[0].data;
  int64_t n = mrt_cols(&c->in[0]), count = 0;
  for (; r < end; r++, y++) {
    int64_t id = mrt_id(targets->data, targets->type.dtype, r);
    *y = 0;
    if (id == o->ignore_index) continue;
    count++;
    id = mrt_checked_id(c, id, n);
    if (n) *y = -x[r * n + id];
  }
  return count;
}

static void nll_part(const mrt_call *c, const void *shared, int part,
                     int parts) {
  const nll_room *room = shared;
  int64_t *counts = c->scratch, k, last;
  real *losses = (real *)((char *)c->scratch + room->losses);
  mrt_share(room->blocks, part, parts, &k, &last);
  for (; k < last; k++) {
    int64_t from = k * ROWS, end = from + ROWS;
    counts[k] =
        nll_rows(c, from, end < room->rows ? end : room->rows, losses + from);
  }
}

/* The bits are those of the operators that gather, add and divide. */
static void nll_loss(const mrt_call *c) {
  const mrt_cross_entropy_options *o = c->options;
  nll_room room = nll_room_of(c);
  char *scratch = c->scratch;
  const int64_t *counts = c->scratch;
  int64_t count = 0;
  mrt_parallel(c, mrt_team(c, (double)room.rows * 3), nll_part, &room);
  for (int64_t k = 0; k < room.blocks; k++) count += counts[k];
  real sum = MRT_CPU(total)(c, (const real *)(scratch + room.losses), room.rows,
                            scratch + room.spare);
  *(real *)c->out[0].data = o->mean ? sum / (real)count : sum;
}

MRT_KERNEL(nll_loss, .run = nll_loss, .scratch = nll_scratch);
MRT_KERNEL(cross_entropy, .run = cross_entropy);
MRT_KERNEL(cross_entropy_grad, .run = cross_entropy_grad);
MRT_KERNEL(cross_entropy_both, .run = cross_entropy_both,
           .scratch = both_scratch);
