/* conv.c -- convolutions forwards, and dx
 *
 * A product of matrices whose left side is never made: a row of it is a place
 * of y, and holds for every spot of the kernel the channels of the place of x
 * that is read there.  A tile is ROWS places by a strip of y's channels; for
 * each spot it gets ROWS pointers into x (to zeros outside the image, and no
 * entry at all where every row is outside).  Weights are packed:
 *
 *     for channels of y by N_BLOCK
 *       for blocks of the sum               pack weights
 *         for tiles, a group at a time      point into x
 *           for strips of channels, for tiles of the group: one tile of y
 *
 * Few channels (the three of a picture) would make short work of an entry: the
 * spots of one row of the kernel, side by side in x, are then read as one, at
 * the edges of the image from a copy.
 *
 * In small images the places of a tile are one place of several images, so
 * that the entries left out are those of the padding.
 *
 *   from  Dukhan, The Indirect Convolution Algorithm, arXiv:1907.02129; Goto &
 *         van de Geijn, ACM TOMS 34(3), 2008
 *
 * SPDX-License-Identifier: MIT */

/* In this file a * b + c is rounded once where the processor can. */
#ifdef __clang__
#pragma clang fp contract(fast)
#else
#pragma GCC optimize("fp-contract=fast")
#endif

#include "conv.h"
#include "conv_tile.h"
#include "gemm_pack.h"

enum {
  K_BLOCK = 576, /* spots x channels: a strip is 144 KiB with AVX-512 */
  /* Packed weights, 576 KiB, stay in the second level. */
  N_BLOCK = 1024 / (int)sizeof(real),
  ENTRIES = 144, /* of a group of tiles, if one tile has not more */
  SMALL = 32,    /* images up to this wide are taken side by side */
  FEW = 16       /* with fewer channels, spots are joined */
};

/* As many as a tile reads of a place. */
static const real zeros[K_BLOCK > N_BLOCK ? (int)K_BLOCK : (int)N_BLOCK];

typedef struct conv {
  int64_t N, groups;
  axis h, w;                 /* of the present class */
  int64_t k, n;              /* channels of x, y in a group */
  int64_t x_c, y_c;          /* in all */
  int64_t y_h, y_w;          /* sides of y */
  int64_t w_k, w_n, w_group; /* strides of the weights; of a tap 1 */
  int64_t kernel_w;
  bool depth;    /* groups of one channel each, taken together */
  int64_t join;  /* spots of w read as one, `join` times as many channels */
  bool by_image; /* places in the order of rows, columns, images */
  const real *x, *weights, *bias;
  real *y;
} conv;

/* The part of the sum that packed weights hold: spots [t, t + ts), channels
 * [c, c + cs).  Reads begin with channel `from` of x. */
typedef struct part {
  int64_t t, ts, c, cs, from;
  bool first, last;
} part;

/* A tile: its entries, and where its rows go. */
typedef struct tile {
  reads *r;
  int count;
  target at;
} tile;

/* A thread's scratch. */
typedef struct work {
  spot *h, *w;
  int64_t *offsets; /* in x, of each spot */
  real *packed;
  real *edge; /* of joined spots: [spots][ROWS][channels] */
  reads *entries;
  tile *tiles;
} work;

/* ---- sizes --------------------------------------------------------------- */

/* What is one entry of a tile, and how many values of each row it is. */
static int64_t spots_of(const conv *c) {
  return c->h.spots * (c->join > 1 ? 1 : c->w.spots);
}
static int64_t depth_of(const conv *c) { return c->depth ? 1 : c->k * c->join; }

/* Spots and channels of a block of the sum, for k channels in all; the product
 * is at most K_BLOCK.  A function of the shape alone. */
static int64_t spots_in_block(int64_t spots, int64_t k, bool joined) {
  int64_t room = K_BLOCK / most(k, 1);
  return most(1, least(spots, joined ? room : most(16, room)));
}
static int64_t channels_in_block(int64_t ts, int64_t k) {
  int64_t blocks = ceil_div(k, K_BLOCK / ts);
  return ceil_div(k, most(1, blocks));
}

static int64_t tiles_in_group(int64_t ts, bool joined) {
  if (joined) return 1; /* there is one `edge` */
  return ts <= 9 ? 16 : most(1, ENTRIES / ts);
}

static char *take(uintptr_t *at, int64_t count, size_t size) {
  char *p = (char *)*at;
  *at += (uintptr_t)round_up(count * (int64_t)size, 64);
  return p;
}

static work carve(const conv *c, uintptr_t *at, int64_t kh, int64_t kw) {
  bool joined = c->join > 1;
  int64_t k = depth_of(c), spots = joined ? kh : kh * kw;
  int64_t ts = spots_in_block(spots, k, joined);
  int64_t columns = least(round_up(c->n, LANES), N_BLOCK);
  int64_t edge = joined ? ts * ROWS * k : 0;
  return (work){
    .h = (spot *)take(at, kh, sizeof(spot)),
    .w = (spot *)take(at, kw, sizeof(spot)),
    .offsets = (int64_t *)take(at, spots, sizeof(int64_t)),
    .packed =
        (real *)take(at, least(spots * k, K_BLOCK) * columns, sizeof(real)),
    .edge = (real *)take(at, edge, sizeof(real)),
    .entries = (reads *)take(at, most(ENTRIES, ts), sizeof(reads)),
    .tiles = (tile *)take(at, 16, sizeof(tile)),
  };
}

/* ---- weights ------------------------------------------------------------- */

static const real *weight_at(const conv *c, int64_t k, int64_t n) {
  return c->weights + k * c->w_k + n * c->w_n;
}

/* The tap of entry t; of joined ones, the first. */
static int64_t tap_at(const conv *c, int64_t t) {
  int64_t w = c->join > 1 ? 1 : c->w.spots;
  return c->h.spot[t / w].tap * c->kernel_w + c->w.spot[t % w].tap;
}

/* Where the taps of a row of w are all read, in order, and channels follow one
 * another: LANES rows at a time are transposed. */
static void pack_rows(const conv *c, const part *p, int64_t n, int width,
                      real *to) {
  int64_t along = p->cs * p->ts, whole = along / LANES * LANES;
  const real *from = weight_at(c, p->c, n);
  int64_t t = 0, k = 0; /* of the present step */
  for (int64_t q = 0; q < along; q += LANES) {
    vec v[LANES];
    for (int j = 0; j < LANES; j++)
      v[j] = q < whole ? vec_load(from + j * c->w_n + q)
                       : load_some(from + j * c->w_n + q, (int)(along - q));
    transpose(v);
    for (int j = 0; j < LANES && q + j < along; j++) {
      vec_store(to + (t * p->cs + k) * width, v[j]);
      if (++t == p->ts) t = 0, k++;
    }
  }
}

static void pack_values(const conv *c, const part *p, int64_t n, int count,
                        int width, real *to) {
  for (int64_t t = 0; t < p->ts; t++) {
    int64_t tap = tap_at(c, p->t + t);
    for (int64_t k = 0; k < p->cs; k++) {
      int64_t channel = p->c + k, right = 0;
      if (c->join > 1) right = channel / c->k, channel %= c->k;
      const real *from = weight_at(c, channel, n) + tap + right;
      real *step = to + (t * p->cs + k) * width;
      for (int j = 0; j < count; j++) step[j] = from[j * c->w_n];
      for (int j = count; j < LANES; j++) step[j] = 0;
    }
  }
}

/* Columns [n, n + count) of a strip `width` wide: w(t, k, n) at
 * to[(t cs + k) width + n]. */
static void pack_weights(const conv *c, const part *p, int64_t n, int count,
                         int width, real *to) {
  int64_t taps = c->h.spots * c->w.spots;
  bool rows = !c->depth && c->join == 1 && c->w_k == taps && p->ts == taps &&
              tap_at(c, taps - 1) == taps - 1 && tap_at(c, 0) == 0;
  for (int j = 0; j < count; j += LANES)
    if (rows && j + LANES <= count)
      pack_rows(c, p, n + j, width, to + j);
    else
      pack_values(c, p, n + j, (int)least(LANES, count - j), width, to + j);
}

/* ---- places -------------------------------------------------------------- */

/* A place of the class: image n, row i, column j of it. */
typedef struct place {
  int64_t n, i, j;
} place;

static place place_of(const conv *c, int64_t m) {
  int64_t W = c->w.count, H = c->h.count;
  if (c->by_image) return (place){ m % c->N, m / c->N / W, m / c->N % W };
  return (place){ m / W / H, m / W % H, m % W };
}
static void advance(const conv *c, place *p) {
  if (c->by_image && ++p->n < c->N) return;
  if (c->by_image) p->n = 0;
  if (++p->j < c->w.count) return;
  p->j = 0;
  if (++p->i < c->h.count) return;
  p->i = 0, p->n++;
}

static void find_offsets(const conv *c, int64_t *offsets) {
  for (int64_t a = 0, t = 0; a < c->h.spots; a++)
    for (int64_t b = 0; b < c->w.spots; b += c->join)
      offsets[t++] = (c->h.spot[a].at * c->w.size + c->w.spot[b].at) * c->x_c;
}

/* Is place i inside x at every spot?  Spots are in order, up or down. */
static bool all_inside(const axis *a, int64_t i) {
  int64_t first = i * a->step + a->spot[0].at;
  int64_t last = i * a->step + a->spot[a->spots - 1].at;
  return first >= 0 && first < a->size && last >= 0 && last < a->size;
}

/* Copy the channels of joined spots, zeros where they are outside. */
static const real *copy_edge(const conv *c, const real *line, int64_t j,
                             real *to) {
  int64_t from = most(0, -j), end = least(c->join, c->w.size - j);
  if (from >= end) return NULL;
  memset(to, 0, (size_t)(c->join * c->k) * sizeof *to);
  for (int64_t b = from; b < end; b++)
    memcpy(to + b * c->k, line + (j + b) * c->x_c, (size_t)c->k * sizeof *to);
  return to;
}

/* Reads of a row of a tile that is not inside x at every spot; NULL where it
 * is outside. */
static void point_edge(const conv *c, const part *p, place at, int row,
                       reads *r, real *edge) {
  int64_t w = c->join > 1 ? 1 : c->w.spots, a = p->t / w, b = p->t % w;
  const real *image = c->x + at.n * c->h.size * c->w.size * c->x_c + p->from;
  for (int64_t t = 0; t < p->ts; t++) {
    int64_t i = at.i * c->h.step + c->h.spot[a].at;
    int64_t j = at.j * c->w.step + c->w.spot[b].at;
    const real *line = image + i * c->w.size * c->x_c, *x = NULL;
    if (i < 0 || i >= c->h.size)
      x = NULL;
    else if (c->join > 1)
      x = copy_edge(c, line, j, edge + (t * ROWS + row) * p->cs);
    else if (j >= 0 && j < c->w.size)
      x = line + j * c->x_c;
    r[t].row[row] = x;
    if (++b == w) b = 0, a++;
  }
}

/* Reads of one row of a tile; true if it is inside x at every spot. */
static bool point(const conv *c, const part *p, place at, int row, reads *r,
                  const work *w) {
  if (p->ts == 0) return true;
  if (!all_inside(&c->h, at.i) || !all_inside(&c->w, at.j)) {
    point_edge(c, p, at, row, r, w->edge);
    return false;
  }
  int64_t i = at.n * c->h.size + at.i * c->h.step;
  const real *x = c->x + (i * c->w.size + at.j * c->w.step) * c->x_c + p->from;
  for (int64_t t = 0; t < p->ts; t++) r[t].row[row] = x + w->offsets[p->t + t];
  return true;
}

/* Leave out the spots where no row is inside; the others read zeros there. */
static int close_up(const part *p, reads *r) {
  int count = 0;
  for (int64_t t = 0; t < p->ts; t++) {
    const real *any = NULL;
    for (int i = 0; i < ROWS; i++) any = any ? any : r[t].row[i];
    if (!any) continue;
    reads *to = &r[count++];
    for (int i = 0; i < ROWS; i++)
      to->row[i] = r[t].row[i] ? r[t].row[i] : zeros;
    to->tap = t;
  }
  return count;
}

/* The next tile, of `rows` rows; *at is its first place, and moves on. */
static void make_tile(const conv *c, const part *p, int64_t rows, place *at,
                      const work *w, tile *t) {
  bool inside = rows == ROWS;
  t->at.rows = (int)rows;
  for (int row = 0; row < rows; row++) {
    int64_t i = c->h.first + at->i * c->h.every;
    int64_t j = c->w.first + at->j * c->w.every;
    t->at.y[row] = c->y + ((at->n * c->y_h + i) * c->y_w + j) * c->y_c;
    inside &= point(c, p, *at, row, t->r, w);
    advance(c, at);
  }
  for (int64_t s = 0; s < p->ts; s++) {
    t->r[s].tap = s;
    for (int64_t row = rows; row < ROWS; row++) t->r[s].row[row] = NULL;
  }
  t->count = inside ? (int)p->ts : close_up(p, t->r);
}

/* ---- the product --------------------------------------------------------- */

/* A thread's rectangle: tiles [m, m_end), columns [n, n_end). */
typedef struct rect {
  int64_t m, m_end, n, n_end;
} rect;

static void run_tile(const conv *c, const part *p, const tile *t,
                     const real *packed, int64_t n, int count) {
  target at = t->at;
  int vecs = (count + LANES - 1) / LANES;
  for (int i = 0; i < at.rows; i++) at.y[i] += n;
  at.n = count;
  at.add = !p->first;
  at.bias = p->last && c->bias ? c->bias + n : NULL;
  if (c->depth)
    BY_VECS(vecs, tile_depth, t->r, t->count, n - p->from, packed, &at);
  else
    BY_VECS(vecs, tile_channels, t->r, t->count, p->cs, packed, &at);
}

/* All tiles of the rectangle, for columns [n, end) and one part of the sum. */
static void run_part(const conv *c, const part *p, const rect *of, int64_t n,
                     int64_t end, const work *w) {
  int64_t places = c->N * c->h.count * c->w.count, steps = p->ts * p->cs;
  for (int64_t j = n; steps && j < end; j += COLS) {
    int count = (int)least(COLS, end - j);
    pack_weights(c, p, j, count, (int)round_up(count, LANES),
                 w->packed + (j - n) * steps);
  }
  int64_t group = tiles_in_group(p->ts, c->join > 1);
  place at = place_of(c, of->m * ROWS);
  for (int64_t m = of->m; m < of->m_end; m += group) {
    int64_t tiles = least(group, of->m_end - m);
    for (int64_t i = 0; i < tiles; i++) {
      w->tiles[i].r = w->entries + i * p->ts;
      make_tile(c, p, least(ROWS, places - (m + i) * ROWS), &at, w,
                &w->tiles[i]);
    }
    for (int64_t j = n; j < end; j += COLS)
      for (int64_t i = 0; i < tiles; i++)
        run_tile(c, p, &w->tiles[i], w->packed + (j - n) * steps, j,
                 (int)least(COLS, end - j));
  }
}

/* One group of channels of one class. */
static void run_rect(const conv *c, const rect *of, const work *w) {
  int64_t spots = spots_of(c), k = depth_of(c);
  int64_t ts = spots_in_block(spots, k, c->join > 1);
  int64_t cs = most(1, channels_in_block(ts, k));
  part p = { 0 };
  bool empty = spots * k == 0; /* one part of nothing writes the zeros */
  for (int64_t n = of->n; n < of->n_end; n += N_BLOCK)
    for (p.t = 0; p.t < spots || (empty && p.t == 0); p.t += ts)
      for (p.c = 0; p.c < k || (empty && p.c == 0); p.c += cs) {
        p.ts = empty ? 0 : least(ts, spots - p.t);
        p.cs = empty ? 0 : least(cs, k - p.c);
        p.from = c->depth ? n : p.c;
        p.first = p.t == 0 && p.c == 0;
        p.last = empty || (p.t + p.ts == spots && p.c + p.cs == k);
        run_part(c, &p, of, n, least(n + N_BLOCK, of->n_end), w);
      }
}

/* The rectangle of `part` of `parts`: the grid whose slowest part, tiles and
 * packing, takes least. */
static rect rect_of(const conv *c, int part, int parts) {
  int64_t tiles = ceil_div(c->N * c->h.count * c->w.count, ROWS);
  int64_t strips = ceil_div(c->n, COLS), best = INT64_MAX;
  int rows = 1;
  for (int r = 1; r <= parts; r++) {
    if (parts % r) continue;
    int64_t time =
        (ceil_div(tiles, r) * ROWS + 24) * ceil_div(strips, parts / r);
    if (time < best) best = time, rows = r;
  }
  rect of;
  int columns = parts / rows;
  mrt_share(tiles, part / columns, rows, &of.m, &of.m_end);
  mrt_share(strips, part % columns, columns, &of.n, &of.n_end);
  of.n *= COLS, of.n_end = least(of.n_end * COLS, c->n);
  return of;
}

/* Are there spots outside x, which tiles of one place can leave out? */
static bool has_padding(const conv *c) {
  if (spots_of(c) == 0 || c->join > 1) return false;
  return !all_inside(&c->h, 0) || !all_inside(&c->h, c->h.count - 1) ||
         !all_inside(&c->w, 0) || !all_inside(&c->w, c->w.count - 1);
}

static void run_class(conv *whole, int part, int parts, const work *w) {
  rect of = rect_of(whole, part, parts);
  if (of.m == of.m_end) return;
  find_offsets(whole, w->offsets);
  whole->by_image =
      whole->w.count <= SMALL && whole->N >= ROWS && has_padding(whole);
  for (int64_t g = 0; g < (whole->depth ? 1 : whole->groups); g++) {
    conv c = *whole;
    c.x += g * c.k, c.y += g * c.n;
    c.weights += g * c.w_group;
    if (c.bias) c.bias += g * c.n;
    run_rect(&c, &of, w);
  }
}

/* ---- kernels ------------------------------------------------------------- */

/* Of conv2d where `back` is false, else of its dx: x is dy then. */
static conv conv_of(const mrt_call *call, bool back) {
  const mrt_conv_options *o = call->options;
  const mrt_operand *x = &call->in[0], *w = &call->in[1], *y = &call->out[0];
  int64_t taps = w->type.dims[2] * w->type.dims[3];
  int64_t O = w->type.dims[0], C = w->type.dims[1], g = o->groups;
  conv c = { .N = x->type.dims[0],
             .groups = g,
             .k = back ? O / g : C,
             .n = back ? C : O / g,
             .x_c = x->type.dims[3],
             .y_c = y->type.dims[3],
             .y_h = y->type.dims[1],
             .y_w = y->type.dims[2],
             .w_k = back ? C * taps : taps,
             .w_n = back ? taps : C * taps,
             .w_group = O / g * C * taps,
             .kernel_w = w->type.dims[3],
             .join = 1,
             .x = x->data,
             .weights = w->data,
             .bias = call->nin == 3 ? call->in[2].data : NULL,
             .y = y->data };
  if (g > 1 && C == 1 && O == g) c.depth = true, c.n = g, c.w_n = taps;
  int64_t joined = c.k * c.kernel_w;
  bool joins = !back && !c.depth && g == 1 && o->dilation.at[1] == 1;
  if (joins && c.k < FEW && joined <= K_BLOCK) c.join = most(1, c.kernel_w);
  return c;
}

static size_t bytes_of(const mrt_call *call, const conv *c) {
  const int64_t *kernel = call->in[1].type.dims + 2;
  uintptr_t end = 0;
  carve(c, &end, kernel[0], kernel[1]);
  return end;
}

static size_t scratch_of(const mrt_call *call, bool back) {
  conv c = conv_of(call, back);
  return bytes_of(call, &c) * (size_t)call->threads;
}

static int team_of(const mrt_call *call, const conv *c) {
  double places = (double)mrt_rows(&call->out[0]), k = c->depth ? 1 : c->k;
  const int64_t *kernel = call->in[1].type.dims + 2;
  return mrt_team(call, places * (double)c->y_c * k *
                            (double)(kernel[0] * kernel[1]) / 50);
}

static void forwards(const mrt_call *call, conv c, int part, int parts,
                     const work *w) {
  side s[2];
  for (int i = 0; i < 2; i++)
    s[i] = side_of(call->options, i, &call->in[0].type, &call->in[1].type,
                   &call->out[0].type);
  c.h = axis_forward(&s[0], w->h), c.w = axis_forward(&s[1], w->w);
  run_class(&c, part, parts, w);
}

static void backwards(const mrt_call *call, conv c, int part, int parts,
                      const work *w) {
  side s[2];
  for (int i = 0; i < 2; i++)
    s[i] = side_of(call->options, i, &call->out[0].type, &call->in[1].type,
                   &call->in[0].type);
  for (int64_t i = 0; i < classes_of(&s[0]); i++)
    for (int64_t j = 0; j < classes_of(&s[1]); j++) {
      c.h = axis_back(&s[0], i, w->h), c.w = axis_back(&s[1], j, w->w);
      run_class(&c, part, parts, w);
    }
}

static void run(const mrt_call *call, bool back) {
  conv c = conv_of(call, back);
  const int64_t *kernel = call->in[1].type.dims + 2;
  size_t bytes = bytes_of(call, &c);
  int team = team_of(call, &c);
#pragma omp parallel num_threads(team)
  {
    int me = omp_get_thread_num(), parts = omp_get_num_threads();
    uintptr_t at = (uintptr_t)call->scratch + (uintptr_t)me * bytes;
    work w = carve(&c, &at, kernel[0], kernel[1]);
    (back ? backwards : forwards)(call, c, me, parts, &w);
  }
}

static void conv2d(const mrt_call *c) { run(c, false); }
static void conv2d_dx(const mrt_call *c) { run(c, true); }
static size_t conv2d_scratch(const mrt_call *c) { return scratch_of(c, false); }
static size_t dx_scratch(const mrt_call *c) { return scratch_of(c, true); }

MRT_KERNEL(conv2d, .run = conv2d, .scratch = conv2d_scratch);
MRT_KERNEL(conv2d_dx, .run = conv2d_dx, .scratch = dx_scratch);
