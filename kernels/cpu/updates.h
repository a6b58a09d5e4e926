/* updates.h -- one pass over variables in any float dtype
 *
 * Each element is read once and written once; the arithmetic hides behind the
 * memory.  Operands never overlap: the variables of an update are distinct.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CPU_UPDATES_H
#define MRT_CPU_UPDATES_H

#include "base/narrow.h"
#include "floats.h"
#include "op/update.h"
#include "philox.h"
#include "vmath.h"

/* Input i is absent, or true. */
static inline bool is_due(const mrt_call *c, int i) {
  return c->nin <= i || *(const uint8_t *)c->in[i].data;
}

/* The scalar input i, 1 when absent. */
static inline double scalar(const mrt_call *c, int i) {
  if (c->nin <= i) return 1;
  const mrt_operand *x = &c->in[i];
  if (x->type.dtype == MRT_f64) return *(const double *)x->data;
  if (x->type.dtype == MRT_f32) return (double)*(const float *)x->data;
  real room;
  return (double)*mrt_reals_in(x, 0, 1, &room);
}

static inline int64_t count(const mrt_call *c) {
  return mrt_type_count(&c->out[0].type);
}

/* The share of n items that thread `part` does: whole blocks, so that no two
 * threads write one cache line. */
static inline void share(int64_t n, int part, int parts, int64_t *from,
                         int64_t *to) {
  enum { BLOCK = 1024 };
  mrt_share((n + BLOCK - 1) / BLOCK, part, parts, from, to);
  *from *= BLOCK, *to *= BLOCK;
  if (*to > n) *to = n;
}

/* Elements widened together, and rounded with one batch of random bits: 8 of
 * them share a counter, which is a function of the element's place alone. */
enum { PIECE = 8 * PHILOX_DRAWS, VARIABLES = 3 };

/* Elements [from, from + n) of an update: of its first variables, to be
 * overwritten, and of the input that is read. */
typedef struct piece {
  real *var[VARIABLES];
  const real *x;
  int64_t from, n;
} piece;
typedef void elements(const void *step, const piece *e);

static inline mrt_rounding rounding_of(const mrt_call *c) {
  mrt_rounding r;
  memcpy(&r, c->options, sizeof r);
  return r;
}

/* Round n elements of the variable k up or down at random; `place` is that of
 * the call's first. */
static inline void round_randomly(const mrt_call *c, int k, const piece *e,
                                  int64_t place) {
  uint32_t word[4][PHILOX_DRAWS];
  uint16_t *y = mrt_element(&c->out[k], e->from);
  int64_t past = (place + e->from) % PIECE;
  uint64_t first = (uint64_t)k << 56 | (uint64_t)(place + e->from - past) / 8;
  philox_of(c->options, c->run, first, word);
  for (int64_t at = 0, n; at < e->n; at += n) {
    int64_t lane = (past + at) % PHILOX_DRAWS;
    n = PHILOX_DRAWS - lane < e->n - at ? PHILOX_DRAWS - lane : e->n - at;
    const uint32_t *bits = word[(past + at) / (2 * PHILOX_DRAWS)] + lane;
    int shift = (int)((past + at) / PHILOX_DRAWS % 2) * 16;
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
      y[at + i] =
          float_to_bf16_at((float)e->var[k][at + i], bits[i] >> shift & 0xffff);
  }
}

static inline bool is_rounded_randomly(const mrt_call *c, int k) {
  return c->out[k].type.dtype == MRT_bf16 &&
         (k > 0 || rounding_of(c).stochastic);
}

/* Run pieces of the elements [from, to); `written` variables are floats.  What
 * is read is `x`, from element `from` on, or if that is NULL input `input`. */
static inline void run_pieces_of(const mrt_call *c, int written, const real *x,
                                 int input, elements *run, const void *step,
                                 int64_t from, int64_t to) {
  real room[VARIABLES + 1][PIECE];
  int64_t place = 0;
  bool narrow = mrt_any_narrow(c);
  for (int k = 0; k < written; k++)
    if (is_rounded_randomly(c, k)) place = rounding_of(c).place;
  for (piece e = { .from = from }; e.from < to; e.from += e.n) {
    int64_t most = narrow ? PIECE - (place + e.from) % PIECE : to - from;
    e.n = to - e.from < most ? to - e.from : most;
    for (int k = 0; k < written; k++)
      e.var[k] = (real *)mrt_reals_in(&c->out[k], e.from, e.n, room[k]);
    e.x = x ? x + (e.from - from)
            : mrt_reals_in(&c->in[input], e.from, e.n, room[VARIABLES]);
    run(step, &e);
    for (int k = 0; k < written; k++) {
      if (is_rounded_randomly(c, k))
        round_randomly(c, k, &e, place);
      else
        mrt_reals_out(&c->out[k], e.from, e.n, e.var[k]);
    }
  }
}
static inline void run_pieces(const mrt_call *c, int written, int input,
                              elements *run, const void *step, int64_t from,
                              int64_t to) {
  run_pieces_of(c, written, NULL, input, run, step, from, to);
}

/* NaN is not. */
static inline bool is_zero(const real *x, int64_t n) {
  int any = 0;
#pragma omp simd reduction(| : any)
  for (int64_t i = 0; i < n; i++) any |= x[i] != 0;
  return !any;
}

typedef struct pieces {
  int written, input;
  elements *run;
  const void *step;
} pieces;

static inline void run_share(const mrt_call *c, const void *shared, int part,
                             int parts) {
  const pieces *p = shared;
  int64_t from, to;
  share(count(c), part, parts, &from, &to);
  if (from < to) run_pieces(c, p->written, p->input, p->run, p->step, from, to);
}

/* All elements, in shares; `cost` in ns, of one. */
static inline void each_piece(const mrt_call *c, int written, int input,
                              double cost, elements *run, const void *step) {
  int team = mrt_team(c, (double)count(c) * cost);
  pieces p = { written, input, run, step };
  mrt_parallel(c, team, run_share, &p);
}

#endif
