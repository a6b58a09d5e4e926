/* dw_lines.h -- dw of bf16 that reads each line of x as pairs once
 *
 * Two places of y side by side read two of x side by side, and taps one column
 * apart differ in which these are: (0, 1), (2, 3) .. or (-1, 0), (1, 2) ..  So a
 * line of x is paired in both ways, once for all taps of a block of places in a
 * chunk, where conv/dw_mixed.h pairs what each tap reads.  It pays where a chunk
 * has many taps, so where channels are few, and pairs stay in the second cache.
 * The bits are the same.
 *
 * Only conv/dw.c includes this.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CONV_DW_LINES_H
#define MRT_CONV_DW_LINES_H

#ifndef MRT_F64

/* Units of a line, paired in one way. */
static int64_t units_of_line(const dw_conv *c) { return c->w.x / 2 + 1; }

/* Lines of x that a block of places reads, at most. */
static int64_t lines_of_block(const dw_conv *c) {
  int64_t lines = places_of(c) / c->w.y + 2, images = lines / c->h.y + 1;
  return lines + c->h.kernel + images * most(0, c->h.x - c->h.y);
}

static int64_t reals_of_lines(const dw_conv *c) {
  return lines_of_block(c) * 2 * units_of_line(c) * c->k;
}

static bool pairs_lines(const dw_conv *c) {
  enum { MOST = 256 * 1024 / sizeof(real) };
  const side *h = &c->h, *w = &c->w;
  bool beside = w->stride == 1 && w->dilation == 1 && w->y % 2 == 0 &&
                h->stride == 1 && h->dilation == 1;
  return c->mixed && c->with.each == 2 && c->with.a.plain && beside &&
         w->kernel > 1 && c->tall * h->kernel * w->kernel <= 4 * TILES &&
         c->N > 0 && h->y > 0 && w->y > 0 && reals_of_lines(c) <= MOST;
}

/* The line of x, counted over all images, that row `tap` reads for line `line`
 * of y; outside of the image its first or last. */
static int64_t line_of(const dw_conv *c, int64_t line, int64_t tap) {
  int64_t i = line % c->h.y + tap - c->h.padding;
  return line / c->h.y * c->h.x + most(0, least(i, c->h.x - 1));
}

/* Where a line lies, paired the one way or the other. */
static real *line_at(const dw_conv *c, const dw_work *w, int64_t line,
                     int odd) {
  int64_t row = 2 * (line - w->first_line) + odd;
  return w->reads + row * units_of_line(c) * c->k;
}

static const char *place_at(const dw_conv *c, const char *line, int64_t j) {
  bool inside = j >= 0 && j < c->w.x;
  return inside ? line + j * c->x_c * c->x_bytes : NULL;
}

/* Pair the lines that places [p, end) of y read. */
static void pair_lines(const dw_conv *c, const chunk *of, int64_t p,
                       int64_t end, dw_work *w) {
  int64_t last = line_of(c, (end - 1) / c->w.y, c->h.kernel - 1);
  w->first_line = line_of(c, p / c->w.y, 0);
  for (int64_t i = w->first_line; i <= last; i++) {
    const char *x =
        c->x + (i * c->w.x * c->x_c + of->group * c->k) * c->x_bytes;
    for (int odd = 0; odd < 2; odd++) {
      real *to = line_at(c, w, i, odd);
      for (int64_t j = -odd; j < c->w.x; j += 2, to += c->k)
        pair_places(place_at(c, x, j), place_at(c, x, j + 1), to, c->k);
    }
  }
}

/* What a tap reads of them for places [p, end): stretches of units. */
static int list_lines(const dw_conv *c, int64_t tap, int64_t p, int64_t end,
                      const dw_work *w) {
  int64_t a = tap / c->w.kernel, right = tap % c->w.kernel - c->w.padding;
  int odd = (int)(right & 1), count = 0;
  int64_t units = (c->w.x + odd + 1) / 2; /* that hold anything */
  for (int64_t line = p / c->w.y; line * c->w.y < end; line++) {
    int64_t i = line % c->h.y + a - c->h.padding, start = line * c->w.y;
    int64_t from = most(p, start), to = least(end, start + c->w.y);
    if (i < 0 || i >= c->h.x) continue;
    int64_t u = (from - start + right + odd) / 2, before = most(0, -u);
    int64_t n = least((to - from) / 2, units - u) - before;
    if (n <= 0) continue;
    const real *x = line_at(c, w, line_of(c, line, a), odd);
    w->copied[count++] = (stretch){ (const char *)(x + (u + before) * c->k),
                                    (from - p) / 2 + before, n };
  }
  return count;
}

#else
static bool pairs_lines(const dw_conv *c) { return false; }
static int64_t reals_of_lines(const dw_conv *c) { return 0; }
static void pair_lines(const dw_conv *c, const chunk *of, int64_t p,
                       int64_t end, dw_work *w) {}
static int list_lines(const dw_conv *c, int64_t tap, int64_t p, int64_t end,
                      const dw_work *w) {
  return 0;
}
#endif

#endif
