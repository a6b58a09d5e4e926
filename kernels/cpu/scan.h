/* scan.h -- running functions: which elements are gone through together
 *
 * Columns are gone through side by side, with what runs on the stack: they are
 * neighbours, or along the last dimension a few rows, so that the steps of
 * several overlap.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_SCAN_H
#define MRT_SCAN_H

#include "cpu.h"

enum {
  SCAN_WIDTH = 64,
  SCAN_ROWS = 4 /* what runs stays in registers */
};

/* `width` columns of n elements: element k of column j is number
 * first + k * step + j * across.  Steps are negative from the end. */
typedef struct scan_block {
  int64_t first, n, step, across;
  int width;
} scan_block;

typedef void scan_fn(const mrt_call *c, scan_block b);

#define SCAN_INLINE static inline __attribute__((always_inline))

/* Define the scan_fn `name`.  GO(c, first, n, step, across, width) goes through
 * a block, and is made once for neighbours, once for SCAN_ROWS rows and once for
 * a row alone, each with its constants. */
#define SCAN(name, GO)                                                         \
  static void name(const mrt_call *c, scan_block b) {                          \
    if (b.across == 1 && b.width > 1)                                          \
      GO(c, b.first, b.n, b.step, 1, b.width);                                 \
    else if (b.width == SCAN_ROWS)                                             \
      GO(c, b.first, b.n, b.step, b.across, SCAN_ROWS);                        \
    else                                                                       \
      for (int j = 0; j < b.width; j++)                                        \
        GO(c, b.first + j * b.across, b.n, b.step, 1, 1);                      \
  }

/* `outer` times: columns of n elements, every `inner`-th, side by side in
 * blocks of `width`. */
typedef struct scan_shape {
  scan_fn *run;
  int64_t outer, n, inner, columns, across;
  int width;
  bool reverse;
} scan_shape;

static inline void scan_part(const mrt_call *c, const void *shared, int part,
                             int parts) {
  const scan_shape *s = shared;
  int64_t blocks = (s->columns + s->width - 1) / s->width, i, end;
  int64_t start = s->reverse && s->n ? (s->n - 1) * s->inner : 0;
  mrt_share(s->outer * blocks, part, parts, &i, &end);
  for (; i < end; i++) {
    int64_t j = i % blocks * s->width, left = s->columns - j;
    int64_t at = i / blocks * s->n * s->inner + start + j * s->across;
    s->run(c,
           (scan_block){ at, s->n, s->reverse ? -s->inner : s->inner, s->across,
                         left < s->width ? (int)left : s->width });
  }
}

/* All columns of input 0 along dim, shared out among threads; `ns`: what an
 * element takes. */
static inline void scan_columns(const mrt_call *c, int64_t dim, bool reverse,
                                double ns, scan_fn *run) {
  const mrt_type *t = &c->in[0].type;
  int64_t n = t->rank ? t->dims[dim] : 1, inner = 1, outer = 1;
  for (int i = 0; i < t->rank; i++) {
    if (i < dim) outer *= t->dims[i];
    if (i > dim) inner *= t->dims[i];
  }
  scan_shape s =
      inner == 1
          ? (scan_shape){ run, 1, n, 1, outer, n, SCAN_ROWS, reverse }
          : (scan_shape){ run, outer, n, inner, inner, 1, SCAN_WIDTH, reverse };
  int team = mrt_team(c, (double)mrt_type_count(t) * ns);
  mrt_parallel(c, s.outer * s.columns == 1 ? 1 : team, scan_part, &s);
}

#endif
