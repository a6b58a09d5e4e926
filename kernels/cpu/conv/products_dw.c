/* products_dw.c -- the gradient with respect to weights, as products
 *
 *     for channels of y by COLUMNS
 *       for places of y, some at a time
 *         copy what each tap reads of x     places shared out among threads
 *         add dy' x to the sums of each tap  rectangles of these shared out
 *       turn the sums into dw
 *
 * A kernel of 1 x 1 without a stride reads x where it lies, all at once, and
 * its sums are dw.  Each sum is made in the order of the places, whose blocks
 * depend on the shape alone.
 *
 * SPDX-License-Identifier: MIT */
#include "conv/products.h"
#include "gemm/gemm.h"

enum {
  COLUMNS = 256,     /* channels of y at a time: what bounds the scratch */
  COPIED = 1 << 20,  /* reals copied at a time, about */
  FEWEST = 128,      /* places at a time, */
  MOST = 384,        /* one block of a product's k */
  PARTS_OF_A_TAP = 4 /* at most */
};

typedef struct products_dw {
  side h, w;
  int64_t C, O, taps, places; /* of y */
  int64_t some;               /* places at a time */
  bool in_place;              /* x is read where it lies, dw is the sums */
  mrt_matrix x, dy;           /* [places, C], [O, places] */
  mrt_dtype compute, dtype;
  bool dots, tiles; /* as of mrt_gemm */
  void *dw;
  /* of this run */
  real *copies, *sums; /* [taps][some][C], [taps][count][C] */
  char *products;
  size_t bytes;          /* of each part's scratch */
  int64_t from, count;   /* channels of y */
  int64_t first, length; /* places of y */
} products_dw;

static products_dw products_of(const mrt_call *call) {
  const mrt_conv_options *o = call->options;
  const mrt_type *x = &call->in[0].type, *dy = &call->in[1].type;
  const mrt_type *w = &call->out[0].type;
  int64_t taps = w->dims[2] * w->dims[3], C = w->dims[1];
  products_dw p = { .h = side_of(o, 0, x, w, dy),
                    .w = side_of(o, 1, x, w, dy),
                    .C = C,
                    .O = w->dims[0],
                    .taps = taps,
                    .places = mrt_rows(&call->in[1]),
                    .x = { call->in[0].data, C, 1, x->dtype },
                    .dy = { call->in[1].data, 1, w->dims[0], dy->dtype },
                    .compute = o->compute,
                    .dots = call->dots,
                    .tiles = call->tiles,
                    .dtype = w->dtype,
                    .dw = call->out[0].data };
  p.in_place = is_one_product(call);
  int64_t some = least(most(FEWEST, COPIED / (taps * C) / 8 * 8), MOST);
  p.some = p.in_place ? p.places : least(some, p.places);
  return p;
}

static int64_t columns_of(const products_dw *p) {
  return p->in_place ? p->O : least(p->O, COLUMNS);
}

/* Sums of a tap over k places. */
static mrt_gemm product_of(const products_dw *p, int64_t k) {
  return (mrt_gemm){ .m = p->count,
                     .n = p->C,
                     .k = k,
                     .a = p->dy,
                     .b = p->x,
                     .compute = p->compute,
                     .dots = p->dots,
                     .tiles = p->tiles,
                     .accumulate = MRT_DTYPE_COUNT,
                     .row = p->C,
                     .col = 1,
                     .dtype = p->dtype,
                     .add = !p->in_place };
}

static void carve(products_dw *p, uintptr_t *at) {
  int64_t copied = p->in_place ? 0 : p->taps * p->C;
  p->count = columns_of(p);
  mrt_gemm g = product_of(p, p->some);
  p->bytes = (size_t)round_up((int64_t)mrt_gemm_bytes_below(&g), 64);
  p->copies = (real *)take(at, copied * p->some, sizeof(real));
  p->sums = (real *)take(at, copied * p->count, sizeof(real));
  p->products = (char *)*at;
}

size_t mrt_products_dw_bytes(const mrt_call *call) {
  uintptr_t end = 0;
  products_dw p = products_of(call);
  carve(&p, &end);
  return end + p.bytes * (size_t)call->threads;
}

/* What tap `tap` reads for place `i` of y; NULL: padding. */
static const real *read_by(const products_dw *p, int64_t i, int64_t tap) {
  int64_t n = i / (p->h.y * p->w.y);
  int64_t row = i / p->w.y % p->h.y * p->h.stride - p->h.padding;
  int64_t column = i % p->w.y * p->w.stride - p->w.padding;
  row += tap / p->w.kernel * p->h.dilation;
  column += tap % p->w.kernel * p->w.dilation;
  if (row < 0 || row >= p->h.x || column < 0 || column >= p->w.x) return NULL;
  return mrt_matrix_at(&p->x, (n * p->h.x + row) * p->w.x + column, 0);
}

static void copy_places(const mrt_call *call, const void *shared, int part,
                        int parts) {
  const products_dw *p = shared;
  size_t bytes = (size_t)p->C * sizeof(real);
  int64_t from, to;
  (void)call;
  mrt_share(p->length, part, parts, &from, &to);
  for (int64_t tap = 0; tap < p->taps; tap++)
    for (int64_t i = from; i < to; i++) {
      const real *x = read_by(p, p->first + i, tap);
      real *copy = p->copies + (tap * p->some + i) * p->C;
      if (x)
        memcpy(copy, x, bytes);
      else
        memset(copy, 0, bytes);
    }
}

static void add_products(const mrt_call *call, const void *shared, int part,
                         int parts) {
  const products_dw *p = shared;
  int64_t from, to;
  (void)call;
  /* Few taps are cut, so that all threads have some; a cut changes no bit. */
  int cuts = p->taps >= parts ? 1 : PARTS_OF_A_TAP * parts;
  mrt_share(p->taps * cuts, part, parts, &from, &to);
  for (int64_t i = from; i < to; i++) {
    int64_t tap = i / cuts;
    mrt_gemm g = product_of(p, p->length);
    g.a.data = mrt_matrix_at(&p->dy, p->from, p->first);
    g.c = p->dw;
    if (!p->in_place) {
      g.b.data = p->copies + tap * p->some * p->C;
      g.c = p->sums + tap * p->count * p->C;
    }
    mrt_gemm piece = mrt_gemm_part(&g, (int)(i % cuts), cuts);
    mrt_gemm_run(&piece, p->products + (size_t)part * p->bytes);
  }
}

static void store_sums(const mrt_call *call, const void *shared, int part,
                       int parts) {
  const products_dw *p = shared;
  int64_t from, to, C = p->C, taps = p->taps;
  (void)call;
  mrt_share(p->count, part, parts, &from, &to);
  for (int64_t o = from; o < to; o++) {
    real *dw = (real *)p->dw + (p->from + o) * C * taps;
    for (int64_t tap = 0; tap < taps; tap++) {
      const real *sums = p->sums + (tap * p->count + o) * C;
      for (int64_t c = 0; c < C; c++) dw[c * taps + tap] = sums[c];
    }
  }
}

void mrt_products_dw_run(const mrt_call *call) {
  products_dw p = products_of(call);
  uintptr_t at = (uintptr_t)call->scratch;
  carve(&p, &at);
  if (p.places == 0) {
    int64_t values = mrt_type_count(&call->out[0].type);
    memset(p.dw, 0, (size_t)values * mrt_dtypes[p.dtype].bytes);
    return;
  }
  double products = (double)p.places * (double)p.taps * (double)p.C;
  int team = mrt_team(call, products * (double)p.O / 50);
  int64_t columns = p.count;
  for (p.from = 0; p.from < p.O; p.from += columns) {
    p.count = least(columns, p.O - p.from);
    if (!p.in_place)
      memset(p.sums, 0, (size_t)(p.taps * p.count * p.C) * sizeof(real));
    for (p.first = 0; p.first < p.places; p.first += p.some) {
      p.length = least(p.some, p.places - p.first);
      if (!p.in_place) mrt_parallel(call, team, copy_places, &p);
      mrt_parallel(call, team, add_products, &p);
    }
    if (!p.in_place) mrt_parallel(call, team, store_sums, &p);
  }
}
