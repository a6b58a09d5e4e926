/* ctc.c -- ctc_loss and its gradient, a sequence at a time
 *
 * State s of a sequence of L labels, of 2 L + 1, is the blank (even) or label
 * s / 2 (odd).  With q[s] the logarithm of what a step gives to the class of s,
 *
 *     a[t][s] = q[s] + log(e^a[t-1][s] + e^a[t-1][s-1] + e^(a[t-1][s-2] + k[s]))
 *
 * where k[s] is 0 if the state two before may be left out (another label), and
 * -inf if not.  Rows of a have two numbers of -inf in front, so that all states
 * are alike; backwards the same is done of everything in reverse.
 *
 * SPDX-License-Identifier: MIT */
#include "op/ctc.h"
#include "cpu.h"
#include "vmath.h"

enum { PAD = 2 };

/* One sequence, and its part's scratch. */
typedef struct sequence {
  int64_t steps, states, stride; /* log_probs of one step are `stride` apart */
  const real *log_probs;
  int64_t *label;    /* [states] */
  real *skip, *back; /* k forward, and in reverse */
  real *q;
  real *row[2]; /* PAD + states */
  real *all;    /* steps of PAD + states, of the gradient's */
} sequence;

static int64_t most_states(const mrt_call *c) {
  return 2 * c->in[1].type.dims[1] + 1;
}
static size_t rounded(size_t bytes) { return (bytes + 63) / 64 * 64; }
static size_t row_bytes(const mrt_call *c) {
  return rounded((size_t)(PAD + most_states(c)) * sizeof(real));
}
static size_t part_bytes(const mrt_call *c, int64_t rows) {
  return rounded((size_t)most_states(c) * sizeof(int64_t)) +
         (size_t)(5 + rows) * row_bytes(c);
}
static size_t scratch(const mrt_call *c) {
  return (size_t)c->threads * part_bytes(c, 0);
}
static size_t grad_scratch(const mrt_call *c) {
  return (size_t)c->threads * part_bytes(c, c->in[0].type.dims[0]);
}

static sequence place(const mrt_call *c, int part, int64_t rows) {
  char *at = (char *)c->scratch + (size_t)part * part_bytes(c, rows);
  size_t row = row_bytes(c);
  sequence q = { .label = (int64_t *)at };
  at += rounded((size_t)most_states(c) * sizeof(int64_t));
  real *rows_at[5];
  for (int i = 0; i < 5; i++, at += row) rows_at[i] = (real *)at;
  q.skip = rows_at[0], q.back = rows_at[1], q.q = rows_at[2];
  q.row[0] = rows_at[3], q.row[1] = rows_at[4];
  q.all = (real *)at;
  return q;
}

static int64_t length(const mrt_call *c, int input, int64_t n, int64_t most) {
  const mrt_operand *x = &c->in[input];
  return mrt_checked_id(c, mrt_id(x->data, x->type.dtype, n), most + 1);
}

/* Fill in what sequence n is. */
static void read(const mrt_call *c, sequence *q, int64_t n) {
  const mrt_ctc_options *o = c->options;
  const mrt_operand *x = &c->in[0], *y = &c->in[1];
  int64_t classes = x->type.dims[2], room = y->type.dims[1];
  q->steps = length(c, 2, n, x->type.dims[0]);
  q->states = 2 * length(c, 3, n, room) + 1;
  q->stride = x->type.dims[1] * classes;
  q->log_probs = (const real *)x->data + n * classes;
  for (int64_t s = 0; s < q->states; s++) {
    int64_t id = o->blank;
    if (s % 2)
      id = mrt_checked_id(c, mrt_id(y->data, y->type.dtype, n * room + s / 2),
                          classes);
    q->label[s] = id;
    bool other = s > 1 && s % 2 && q->label[s] != q->label[s - 2];
    q->skip[s] = other ? 0 : -MRT_INF;
  }
  for (int64_t s = 0; s < q->states; s++)
    q->back[s] = s > 1 ? q->skip[q->states + 1 - s] : -MRT_INF;
}

/* What step t gives to the classes of all states, in reverse if so asked. */
static void gather(sequence *q, int64_t t, bool reverse) {
  const real *x = q->log_probs + t * q->stride;
  for (int64_t s = 0; s < q->states; s++)
    q->q[s] = x[q->label[reverse ? q->states - 1 - s : s]];
}

static inline real larger(real a, real b) { return a > b ? a : b; }

static void advance(const sequence *q, const real *skip, const real *from,
                    real *to) {
#pragma omp simd
  for (int64_t s = 0; s < q->states; s++) {
    real a = from[PAD + s], b = from[PAD + s - 1];
    real c = from[PAD + s - 2] + skip[s];
    real top = larger(a, larger(b, c)), base = top > -MRT_INF ? top : 0;
    real sum = m_exp(a - base) + m_exp(b - base) + m_exp(c - base);
    to[PAD + s] = q->q[s] + base + m_log(sum);
  }
}

/* The row before the first step: all at a state that only state 0, and the one
 * after it, follow. */
static void begin(const sequence *q, real *row) {
  for (int64_t s = 0; s < PAD + q->states; s++) row[s] = -MRT_INF;
}
static void first(const sequence *q, real *row) {
  begin(q, row);
  row[PAD] = q->q[0];
  if (q->states > 1) row[PAD + 1] = q->q[1];
}

static real both(real a, real b) {
  real top = larger(a, b);
  if (!(top > -MRT_INF)) return a + b; /* -inf, or NaN */
  return top + m_log(m_exp(a - top) + m_exp(b - top));
}

/* -loss, of the last step's row. */
static real ends(const sequence *q, const real *row) {
  const real *last = row + PAD + q->states - 1;
  return q->states > 1 ? both(last[0], last[-1]) : last[0];
}

static real loss_of(sequence *q) {
  if (q->steps == 0) return q->states == 1 ? 0 : MRT_INF;
  gather(q, 0, false);
  first(q, q->row[0]);
  begin(q, q->row[1]);
  for (int64_t t = 1; t < q->steps; t++) {
    gather(q, t, false);
    advance(q, q->skip, q->row[(t - 1) % 2], q->row[t % 2]);
  }
  return -ends(q, q->row[(q->steps - 1) % 2]);
}

static void losses_part(const mrt_call *c, const void *unused, int part,
                        int parts) {
  sequence q = place(c, part, 0);
  real *loss = c->out[0].data;
  int64_t n, end;
  mrt_share(c->in[0].type.dims[1], part, parts, &n, &end);
  for (; n < end; n++) {
    read(c, &q, n);
    loss[n] = loss_of(&q);
  }
}

static double work(const mrt_call *c) {
  const int64_t *dims = c->in[0].type.dims;
  return 5.0 * (double)dims[0] * (double)dims[1] * (double)most_states(c);
}

static void ctc_loss(const mrt_call *c) {
  mrt_parallel(c, mrt_team(c, work(c)), losses_part, NULL);
}

/* ---- the gradient -------------------------------------------------------- */

/* Keep the rows of all steps; -loss. */
static real forward(sequence *q, int64_t row) {
  for (int64_t t = 0; t < q->steps; t++) {
    real *to = q->all + t * row;
    gather(q, t, false);
    begin(q, to);
    if (t == 0)
      first(q, to);
    else
      advance(q, q->skip, to - row, to);
  }
  return ends(q, q->all + (q->steps - 1) * row);
}

/* dx of one step from its forward and backward rows, which both count the
 * step's own q. */
static void share_out(const sequence *q, const real *a, const real *b,
                      real total, real dloss, real *dx) {
  int64_t last = q->states - 1;
  for (int64_t s = 0; s <= last; s++) {
    real p = m_exp(a[PAD + s] + b[PAD + last - s] - q->q[last - s] - total);
    /* a class of probability 0 is in no path */
    if (q->q[last - s] != -MRT_INF) dx[q->label[s]] -= dloss * p;
  }
}

static void sequence_grad(sequence *q, int64_t row, real dloss, real *dx) {
  if (q->steps == 0) return;
  real total = forward(q, row);
  for (int64_t t = q->steps - 1, i = 0; t >= 0; t--, i++) {
    real *to = q->row[i % 2];
    gather(q, t, true);
    if (i == 0) {
      first(q, to);
      begin(q, q->row[1]);
    } else {
      advance(q, q->back, q->row[(i - 1) % 2], to);
    }
    share_out(q, q->all + t * row, to, total, dloss, dx + t * q->stride);
  }
  if (total > -MRT_INF) return;
  for (int64_t s = 0; s < q->states; s++) /* no path: no gradient either */
    for (int64_t t = 0; t < q->steps; t++)
      dx[t * q->stride + q->label[s]] = total - total;
}

static void grad_part(const mrt_call *c, const void *unused, int part,
                      int parts) {
  const int64_t *dims = c->in[0].type.dims, C = dims[2];
  const real *dloss = c->in[4].data;
  real *dx = c->out[0].data;
  sequence q = place(c, part, dims[0]);
  int64_t n, end, row = (int64_t)(row_bytes(c) / sizeof(real));
  mrt_share(dims[1], part, parts, &n, &end);
  for (; n < end; n++) {
    for (int64_t t = 0; t < dims[0]; t++)
      memset(dx + (t * dims[1] + n) * C, 0, (size_t)C * sizeof(real));
    read(c, &q, n);
    if (dloss[n] != 0) sequence_grad(&q, row, dloss[n], dx + n * C);
  }
}

static void ctc_loss_grad(const mrt_call *c) {
  mrt_parallel(c, mrt_team(c, 3 * work(c)), grad_part, NULL);
}

MRT_KERNEL(ctc_loss, .run = ctc_loss, .scratch = scratch);
MRT_KERNEL(ctc_loss_grad, .run = ctc_loss_grad, .scratch = grad_scratch);
