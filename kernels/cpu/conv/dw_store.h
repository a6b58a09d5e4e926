/* dw_store.h -- tiles of dw go where their weights are
 *
 * Only conv/dw.c includes this.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CONV_DW_STORE_H
#define MRT_CONV_DW_STORE_H

/* Tiles of one strip and tap, `rows` channels of x from t's on, into dw [O, C/G,
 * kh, kw], elements of type T.  A few columns at a time: what is written is far
 * apart from one to the next, and side by side along the rows. */
#define STORE_ROWS(name, T)                                                    \
  static void store_##name(const dw_conv *c, const chunk *of,                  \
                           const dw_tile *t, int64_t rows,                     \
                           const real *tiles) {                                \
    int64_t taps = c->h.kernel * c->w.kernel, k = c->k;                        \
    int64_t tile = TILE * (int64_t)(sizeof(real) / sizeof(T));                 \
    T *to =                                                                    \
        (T *)c->dw + ((of->group * c->n + t->n) * k + t->k) * taps + t->tap;   \
    const T *from = (const T *)tiles;                                          \
    for (int64_t some = 0; some < t->count; some += LANES)                     \
      for (int64_t j = some; j < least(some + LANES, t->count); j++)           \
        for (int64_t r = 0; r < rows; r += ROWS)                               \
          for (int64_t i = r; i < least(r + ROWS, rows); i++)                  \
            to[(j * k + i) * taps] =                                           \
                from[r / ROWS * tile + (i - r) * t->width + j];                \
  }
typedef uint16_t __attribute__((may_alias)) bits16;
typedef uint8_t __attribute__((may_alias)) bits8;
STORE_ROWS(reals, real)
STORE_ROWS(halves, bits16)
STORE_ROWS(bytes, bits8)
#undef STORE_ROWS

static void store_rows(const dw_conv *c, const chunk *of, const dw_tile *t,
                       int64_t rows, const real *tiles) {
  int bytes = result_bytes(c);
  if (bytes == 1)
    store_bytes(c, of, t, rows, tiles);
  else if (bytes == 2)
    store_halves(c, of, t, rows, tiles);
  else
    store_reals(c, of, t, rows, tiles);
}

#endif
