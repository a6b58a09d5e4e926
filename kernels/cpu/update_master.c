/* update_master.c -- adamw_master: the weight is the upper half of one in f32
 *
 * SPDX-License-Identifier: MIT */
#include "update_steps.h"

typedef struct master_step {
  adamw_step adamw;
  const mrt_call *c;
} master_step;

static uint32_t bits_of(real x) {
  float f = (float)x;
  uint32_t u;
  memcpy(&u, &f, sizeof u);
  return u;
}
static real real_of(uint32_t u) {
  float f;
  memcpy(&f, &u, sizeof f);
  return (real)f;
}

/* p and its rest. */
static void join(real *p, const uint8_t *high, const uint8_t *low, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    uint32_t u = bits_of(p[i]), size = u & 0x7fffffff;
    int32_t rest = (int16_t)(uint16_t)(high[i] << 8 | low[i]);
    bool other = (size == 0 && rest < 0) || (size == 0x7f800000 && rest > 0);
    p[i] = real_of(other ? u : u + (uint32_t)rest);
  }
}

/* To nearest, ties away from zero; of what is not finite there is no rest. */
static void split(real *p, uint8_t *high, uint8_t *low, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    uint32_t u = bits_of(p[i]), size = u & 0x7fffffff;
    uint32_t upper = (u + 0x8000) & 0xffff0000;
    if (size >= 0x7f800000)
      upper = (u & 0xffff0000) | (size > 0x7f800000 ? 0x400000 : 0);
    uint32_t rest = size >= 0x7f800000 ? 0 : u - upper;
    high[i] = (uint8_t)(rest >> 8), low[i] = (uint8_t)rest;
    p[i] = real_of(upper);
  }
}

static void master_piece(const void *step, const piece *e) {
  const master_step *s = step;
  uint8_t *high = mrt_element(&s->c->out[3], e->from);
  uint8_t *low = mrt_element(&s->c->out[4], e->from);
  join(e->var[0], high, low, e->n);
  adamw_piece(&s->adamw, e);
  split(e->var[0], high, low, e->n);
}

static void adamw_master(const mrt_call *c) {
  master_step s = { adamw_of(c, c->options, 6), c };
  if (is_due(c, 9)) each_piece(c, 3, 5, 1.5, master_piece, &s);
}

MRT_KERNEL(adamw_master, .run = adamw_master);
