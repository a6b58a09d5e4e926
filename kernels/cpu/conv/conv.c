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
 * Narrow floats, and what is rounded, are units by then: conv/mixed.h.  What is
 * made otherwise: channels by themselves (conv/depth.h), kernels of 1 x 1
 * (conv/products.h), bf16 where there are tile registers (conv/amx.h), most of
 * 3 x 3 (conv/winograd.h).
 *
 * In small images the places of a tile are one place of several images, so
 * that the entries left out are those of the padding.
 *
 * Our own and not a library's for the reasons of gemm/gemm.h; and images stay
 * channels last, without reorders into a library's blocked formats, so their
 * bytes are what the plan says.  `mrt bench conv` compares each layer with the
 * matrix product of equal m, n and k, which is what it could cost at best.
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

#include "conv/amx.h"
#include "conv/depth.h"
#include "conv/mixed.h"
#include "conv/products.h"
#include "conv/reads.h"
#include "conv/winograd.h"

/* ---- the product --------------------------------------------------------- */

/* A thread's rectangle: tiles [m, m_end), columns [n, n_end). */
typedef struct rect {
  int64_t m, m_end, n, n_end;
} rect;

/* Columns [j, j + count) of a tile, of the block from column n on. */
static void run_tile(const conv *c, const part *p, const tile *t,
                     const real *packed, int64_t n, int64_t j, int count) {
  target at = t->at;
  real room[ROWS * COLS];
  int vecs = (count + LANES - 1) / LANES;
  if (rounds_results(c))
    place_sums(c, t, j - n, room, &at);
  else
    for (int i = 0; i < at.rows; i++) at.y[i] = (real *)t->y[i] + j;
  at.n = count;
  at.add = !p->first;
  at.bias = p->last && c->bias ? c->bias + j : NULL;
  if (c->each > 1)
    run_dots(vecs, t->r, t->count, p->cs, packed, &at);
  else
    BY_VECS(vecs, tile_channels, t->r, t->count, p->cs, packed, &at);
  if (p->last && rounds_results(c)) round_tile(c, t, j, &at);
}

/* All tiles of the rectangle, for columns [n, end) and one part of the sum. */
static void run_part(const conv *c, const part *p, const rect *of, int64_t n,
                     int64_t end, const work *w) {
  int64_t places = c->N * c->h.count * c->w.count, steps = p->ts * p->cs;
  for (int64_t j = n; steps && j < end; j += COLS) {
    int count = (int)least(COLS, end - j);
    pack_weights(c, p, j, count, w, w->packed + (j - n) * steps);
  }
  int64_t group = tiles_in_group(c, p->ts);
  conv_place at = place_of(c, of->m * ROWS);
  for (int64_t m = of->m; m < of->m_end; m += group) {
    int64_t tiles = least(group, of->m_end - m);
    for (int64_t i = 0; i < tiles; i++) {
      w->tiles[i].r = w->entries + i * p->ts;
      make_tile(c, p, least(ROWS, places - (m + i) * ROWS), &at, w,
                &w->tiles[i]);
      w->tiles[i].sums = w->sums + (m + i - of->m) * ROWS * columns_of(c);
      if (c->copies)
        copy_reads(c, p, w->units + i * steps * ROWS, &w->tiles[i]);
    }
    for (int64_t j = n; j < end; j += COLS)
      for (int64_t i = 0; i < tiles; i++)
        run_tile(c, p, &w->tiles[i], w->packed + (j - n) * steps, n, j,
                 (int)least(COLS, end - j));
  }
}

/* Columns [n, end) of the rectangle, part by part of the sum. */
static void run_parts(const conv *c, const rect *of, int64_t n, int64_t end,
                      const work *w) {
  int64_t spots = spots_of(c), k = units_of(c);
  int64_t ts = spots_in_block(spots, k, c->join > 1);
  int64_t cs = most(1, channels_in_block(ts, k));
  part p = { 0 };
  bool empty = spots * k == 0; /* one part of nothing writes the zeros */
  for (p.t = 0; p.t < spots || (empty && p.t == 0); p.t += ts)
    for (p.c = 0; p.c < k || (empty && p.c == 0); p.c += cs) {
      p.ts = empty ? 0 : least(ts, spots - p.t);
      p.cs = empty ? 0 : least(cs, k - p.c);
      p.first = p.t == 0 && p.c == 0;
      p.last = empty || (p.t + p.ts == spots && p.c + p.cs == k);
      run_part(c, &p, of, n, end, w);
    }
}

/* One group of channels of one class, so many tiles at a time as sums are
 * kept. */
static void run_rect(const conv *c, const rect *of, const work *w) {
  int64_t tall = c->sums ? SUMS : most(1, of->m_end - of->m);
  for (int64_t n = of->n; n < of->n_end; n += N_BLOCK)
    for (rect some = *of; some.m < of->m_end; some.m += tall) {
      some.m_end = least(some.m + tall, of->m_end);
      run_parts(c, &some, n, least(n + N_BLOCK, of->n_end), w);
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
  for (int64_t g = 0; g < whole->groups; g++) {
    conv c = *whole;
    c.x += g * c.k * c.x_bytes, c.y += g * c.n * c.y_bytes;
    c.weights += g * c.w_group * c.w_bytes;
    if (c.bias) c.bias += g * c.n;
    run_rect(&c, &of, w);
  }
}

/* ---- kernels ------------------------------------------------------------- */

static int64_t bytes_of(const mrt_operand *x) {
  return (int64_t)mrt_dtypes[x->type.dtype].bytes;
}

/* Of conv2d where `back` is false, else of its dx: x is dy then.  *room is
 * what the result points to. */
static conv conv_of(const mrt_call *call, bool back, how *room) {
  const mrt_conv_options *o = call->options;
  const mrt_operand *x = &call->in[0], *w = &call->in[1], *y = &call->out[0];
  int64_t taps = w->type.dims[2] * w->type.dims[3];
  int64_t O = w->type.dims[0], C = w->type.dims[1], g = o->groups;
  conv c = { .each = 1,
             .N = x->type.dims[0],
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
             .taps = taps,
             .join = 1,
             .x = x->data,
             .weights = w->data,
             .y = y->data,
             .x_bytes = bytes_of(x),
             .w_bytes = bytes_of(w),
             .y_bytes = bytes_of(y),
             .bias = bias_of(call) };
  int64_t joined = c.k * c.kernel_w;
  bool joins = !back && g == 1 && o->dilation.at[1] == 1;
  if (joins && c.k < FEW && joined <= K_BLOCK) c.join = most(1, c.kernel_w);
  set_how(call, w->type.dims[2], &c, room);
  return c;
}

static size_t bytes_of_thread(const mrt_call *call, const conv *c) {
  const int64_t *kernel = call->in[1].type.dims + 2;
  uintptr_t end = 0;
  carve(c, &end, kernel[0], kernel[1]);
  return end;
}

static bool in_depth(const mrt_call *call) {
  const mrt_conv_options *o = call->options;
  return is_depth(o->groups, &call->in[1].type);
}

static bool by_winograd(const mrt_call *call, bool back) {
  return is_winograd(call, back ? MRT_WINOGRAD_DX : MRT_WINOGRAD_Y);
}

static size_t scratch_of(const mrt_call *call, bool back) {
  if (in_depth(call)) return mrt_depth_bytes(call);
  if (is_point(call)) return bias_bytes(call) + mrt_point_bytes(call, back);
  if (is_tiled(call, &call->in[1].type))
    return bias_bytes(call) + mrt_tiled_bytes(call, back);
  if (by_winograd(call, back))
    return bias_bytes(call) + mrt_winograd_bytes(call, back);
  how room;
  conv c = conv_of(call, back, &room);
  return bias_bytes(call) + bytes_of_thread(call, &c) * (size_t)call->threads;
}

static int team_of(const mrt_call *call, const conv *c) {
  double places = (double)mrt_rows(&call->out[0]), k = (double)c->k;
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

typedef struct conv_run {
  const conv *conv;
  size_t bytes; /* of scratch, of a part */
  bool back;
} conv_run;

static void run_share(const mrt_call *call, const void *shared, int part,
                      int parts) {
  const conv_run *r = shared;
  const int64_t *kernel = call->in[1].type.dims + 2;
  uintptr_t at =
      (uintptr_t)call->scratch + bias_bytes(call) + (uintptr_t)part * r->bytes;
  work w = carve(r->conv, &at, kernel[0], kernel[1]);
  (r->back ? backwards : forwards)(call, *r->conv, part, parts, &w);
}

static void run(const mrt_call *call, bool back) {
  if (mrt_type_count(&call->out[0].type) == 0) return;
  if (sums_narrow(call)) {
    read_bias(call);
    mrt_conv_narrow(call, back);
    return;
  }
  if (in_depth(call)) {
    mrt_depth_run(call, back);
    return;
  }
  read_bias(call);
  char *scratch = (char *)call->scratch + bias_bytes(call);
  if (is_point(call)) {
    mrt_point_run(call, back, bias_of(call), scratch);
    return;
  }
  if (is_tiled(call, &call->in[1].type)) {
    mrt_tiled_run(call, back, bias_of(call), scratch);
    return;
  }
  if (by_winograd(call, back)) {
    mrt_winograd_run(call, back, bias_of(call), scratch);
    return;
  }
  how room;
  conv c = conv_of(call, back, &room);
  mrt_parallel(call, team_of(call, &c), run_share,
               &(conv_run){ &c, bytes_of_thread(call, &c), back });
}

static void conv2d(const mrt_call *c) { run(c, false); }
static void conv2d_dx(const mrt_call *c) { run(c, true); }
static size_t conv2d_scratch(const mrt_call *c) { return scratch_of(c, false); }
static size_t dx_scratch(const mrt_call *c) { return scratch_of(c, true); }

MRT_KERNEL(conv2d, .run = conv2d, .scratch = conv2d_scratch);
MRT_KERNEL(conv2d_dx, .run = conv2d_dx, .scratch = dx_scratch);
