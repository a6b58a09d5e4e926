/* lines.h -- lines of an image as reals, those in use
 *
 * A depthwise convolution meets each line of x as often as its kernel is high:
 * where elements are not reals they are made so once, and kept in slots.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CONV_LINES_H
#define MRT_CONV_LINES_H

#include "conv/operands.h"

typedef struct conv_lines {
  int64_t slots, size; /* of a line, in elements */
  int64_t *held;       /* [slots] the line there, or -1 */
  int64_t *taken;      /* [slots] for the present ones */
  real *at;            /* [slots][size] */
} conv_lines;

#ifndef MRT_F64
/* n elements of `x` from `first` on. */
static inline void read_line(const reader *x, int64_t first, int64_t n,
                             real *to) {
  reader one = *x;
  one.data += first * x->bytes;
  read_values(&one, to, 0, 0, 1, n);
}

/* Lines rows[0..count), -1 for none, become slots. */
static inline void find_lines(conv_lines *l, const reader *x, int64_t *rows,
                              int64_t count) {
  memset(l->taken, 0, (size_t)l->slots * sizeof *l->taken);
  for (int64_t s = 0; s < l->slots; s++)
    for (int64_t a = 0; a < count; a++)
      l->taken[s] |= l->held[s] >= 0 && l->held[s] == rows[a];
  for (int64_t a = 0; a < count; a++) {
    int64_t s = 0;
    if (rows[a] < 0) continue;
    while (s < l->slots && l->held[s] != rows[a]) s++;
    if (s == l->slots) {
      for (s = 0; l->taken[s];) s++;
      read_line(x, rows[a] * l->size, l->size, l->at + s * l->size);
      l->held[s] = rows[a], l->taken[s] = 1;
    }
    rows[a] = s;
  }
}

/* n results are complete. */
static inline void round_line(const operands *with, const mrt_operand *y,
                              int64_t first, int64_t n, const real *from) {
  char *to = (char *)y->data + first * (int64_t)mrt_dtypes[with->result].bytes;
  if (with->result != MRT_f32) mrt_round(with->result, from, to, n);
}

static inline bool reads_lines(const mrt_call *c) { return is_mixed(c); }
static inline bool rounds_lines(const mrt_call *c) {
  return c->out[0].type.dtype != MRT_f32;
}
/* As reals throughout. */
static inline operands wide_operands(const mrt_call *c) {
  return (operands){ operand_of(c, 0, false), operand_of(c, 1, false), 1,
                     c->out[0].type.dtype };
}
#else
static inline void read_line(const reader *x, int64_t first, int64_t n,
                             real *to) {}
static inline void find_lines(conv_lines *l, const reader *x, int64_t *rows,
                              int64_t count) {}
static inline void round_line(const operands *with, const mrt_operand *y,
                              int64_t first, int64_t n, const real *from) {}
static inline bool reads_lines(const mrt_call *c) { return false; }
static inline bool rounds_lines(const mrt_call *c) { return false; }
static inline operands wide_operands(const mrt_call *c) {
  return (operands){ .each = 1 };
}
#endif

static inline void forget_lines(conv_lines *l) {
  for (int64_t s = 0; s < l->slots; s++) l->held[s] = -1;
}

#endif
