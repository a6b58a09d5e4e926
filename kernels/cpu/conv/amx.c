/* amx.c -- conv2d and its dx, of bf16, in tile registers
 *
 *     for channels of y, some at a time
 *       pack their weights                 shared out among threads
 *       for lines of y, some at a time     a grid of lines and strips is
 *         copy what they read of x         shared out
 *         for strips of GROUP channels, for GROUP places: sums in registers
 *
 * A sum is the same function of x and the weights for every place: blocks of
 * channels in order, spots within each, pairs of channels within these.
 *
 * SPDX-License-Identifier: MIT */
#include "conv/amx.h"

#if MRT_HAS_TILES
#include "conv/amx_weights.h"

enum { WEIGHTS_BYTES = 2 << 20 }; /* packed at a time, at most */

static int64_t columns_at_once(const tiled *t) {
  int64_t strip = spots_of(&t->in) * t->in.blocks * STEP_BYTES;
  int64_t strips = ceil_div(t->n, GROUP);
  int64_t some = most(1, WEIGHTS_BYTES / most(strip, 1));
  return ceil_div(strips, ceil_div(strips, some)) * GROUP;
}

/* One class of places (conv.h), its i-th and j-th, of all groups alike. */
static void set_class(const mrt_call *call, bool back, int64_t i, int64_t j,
                      tiled *t) {
  const mrt_conv_options *o = call->options;
  const mrt_type *in = &call->in[0].type, *out = &call->out[0].type;
  const mrt_type *x = back ? out : in, *y = back ? in : out;
  const mrt_type *w = &call->in[1].type;
  int64_t O = w->dims[0], C = w->dims[1], taps = w->dims[2] * w->dims[3];
  amx_image *m = &t->in;
  *t = (tiled){ .weights = operand_of(call, 1, true),
                .w_in = back ? C * taps : taps,
                .w_out = back ? taps : C * taps,
                .taps = taps,
                .kernel_w = w->dims[3],
                .n = back ? C : O / o->groups,
                .y_c = out->dims[3],
                .y_h = out->dims[1],
                .y_w = out->dims[2],
                .y = call->out[0].data,
                .y_bytes = (int64_t)mrt_dtypes[out->dtype].bytes,
                .result = out->dtype };
  m->x = operand_of(call, 0, true);
  m->N = in->dims[0], m->x_c = in->dims[3];
  m->k = back ? O / o->groups : C;
  side h = side_of(o, 0, x, w, y), v = side_of(o, 1, x, w, y);
  m->h.of = back ? axis_back(&h, i, m->h.room) : axis_forward(&h, m->h.room);
  m->w.of = back ? axis_back(&v, j, m->w.room) : axis_forward(&v, m->w.room);
  set_image(m, AMX_TILE, 0, call->threads);
  t->columns = columns_at_once(t);
}

/* How many classes there are, of rows and of columns. */
static void count_classes(const mrt_call *call, bool back, int64_t count[2]) {
  const mrt_type *in = &call->in[0].type, *out = &call->out[0].type;
  for (int i = 0; i < 2; i++) {
    side s = side_of(call->options, i, out, &call->in[1].type, in);
    count[i] = back ? classes_of(&s) : 1;
  }
}

static size_t packed_bytes(const tiled *t) {
  return (size_t)(t->columns / GROUP * t->in.blocks * spots_of(&t->in) *
                  STEP_BYTES);
}

/* Of lines of x, copied. */
static int64_t block_bytes(const amx_image *m) {
  return m->h.phases * m->w.phases * m->units * UNIT_BYTES;
}
static int64_t image_bytes(const amx_image *m) {
  return m->blocks * block_bytes(m);
}

static size_t part_bytes(const tiled *t) {
  int64_t stage = round_up(staged(t) * (int64_t)sizeof(uint16_t), 64);
  return (size_t)most(stage, image_bytes(&t->in) + units_bytes(&t->in));
}

size_t mrt_tiled_bytes(const mrt_call *call, bool back) {
  int64_t classes[2];
  size_t bytes = 0;
  count_classes(call, back, classes);
  for (int64_t i = 0; i < classes[0]; i++)
    for (int64_t j = 0; j < classes[1]; j++) {
      tiled t;
      set_class(call, back, i, j, &t);
      size_t own = packed_bytes(&t) + part_bytes(&t) * (size_t)call->threads;
      if (own > bytes) bytes = own;
    }
  return bytes;
}

/* ---- weights ------------------------------------------------------------- */

static void pack_part(const mrt_call *call, const void *shared, int part,
                      int parts) {
  const tiled *t = shared;
  int64_t strips = ceil_div(t->count, GROUP), from, to;
  int64_t each = spots_of(&t->in) * STEP_BYTES;
  uint16_t *room = (uint16_t *)(t->parts + (size_t)part * t->bytes);
  (void)call;
  mrt_share(strips * t->in.blocks, part, parts, &from, &to);
  for (int64_t i = from; i < to; i++)
    pack_block(t, i % t->in.blocks, i / t->in.blocks * GROUP, room,
               (uint32_t *)(t->packed + i * each));
}

/* ---- registers ------------------------------------------------------------- */

/* What a spot adds: bytes from the place's unit, and from the block's weights. */
typedef struct amx_spot {
  int64_t x, w;
} amx_spot;

typedef struct amx_spots {
  int64_t count;
  amx_spot at[SPOTS_MOST];
} amx_spots;

/* One or two registers of places, one or two of channels. */
static inline __attribute__((always_inline)) WITH_AMX void
add_spots(bool places, bool columns, const tiled *t, const amx_spots *s,
          const char *x, const char *w, real *sums) {
  int64_t step = block_bytes(&t->in), w_step = spots_of(&t->in) * STEP_BYTES;
  amx_zero(0);
  amx_zero(1);
  amx_zero(2);
  amx_zero(3);
  for (int64_t b = 0; b < t->in.blocks; b++, x += step, w += w_step)
    for (int64_t i = 0; i < s->count; i++) {
      const char *from = x + s->at[i].x, *by = w + s->at[i].w;
      amx_load(4, from, UNIT_BYTES);
      amx_load(6, by, GROUP * UNIT);
      amx_multiply(0, 4, 6);
      if (columns) {
        amx_load(7, by + AMX_ROW, GROUP * UNIT);
        amx_multiply(1, 4, 7);
      }
      if (places) {
        amx_load(5, from + AMX_TILE * UNIT_BYTES, UNIT_BYTES);
        amx_multiply(2, 5, 6);
      }
      if (places && columns) amx_multiply(3, 5, 7);
    }
  amx_store(0, sums, GROUP * UNIT);
  amx_store(1, sums + AMX_TILE, GROUP * UNIT);
  amx_store(2, sums + AMX_TILE * GROUP, GROUP * UNIT);
  amx_store(3, sums + AMX_TILE * GROUP + AMX_TILE, GROUP * UNIT);
}

static WITH_AMX void run_registers(const tiled *t, const amx_spots *s,
                                   int64_t places, int64_t columns,
                                   const char *x, const char *w, real *sums) {
  if (places > AMX_TILE && columns > AMX_TILE)
    add_spots(true, true, t, s, x, w, sums);
  else if (places > AMX_TILE)
    add_spots(true, false, t, s, x, w, sums);
  else if (columns > AMX_TILE)
    add_spots(false, true, t, s, x, w, sums);
  else
    add_spots(false, false, t, s, x, w, sums);
}

/* ---- y --------------------------------------------------------------------- */

/* Sums of `rows` places, `apart` elements of y from one to the next, of columns
 * from j of this run on. */
static void put_sums(const tiled *t, real *sums, int64_t rows, char *y,
                     int64_t apart, int64_t j) {
  int64_t n = least(GROUP, t->count - j);
  if (t->bias) {
    const real *bias = t->bias + t->from + j;
    for (int64_t i = 0; i < rows; i++)
      for (int64_t c = 0; c < n; c++) sums[i * GROUP + c] += bias[c];
  }
  y += (t->from + j) * t->y_bytes;
  if (t->result == MRT_bf16 && n == GROUP) {
    for (int64_t i = 0; i < rows; i++, y += apart * (int64_t)sizeof(uint16_t))
      for (int c = 0; c < GROUP; c++)
        ((uint16_t *)y)[c] = float_to_bf16(sums[i * GROUP + c]);
    return;
  }
  if (t->result != MRT_f32) {
    mrt_round_rows(t->result, sums, GROUP, y, apart, rows, n);
    return;
  }
  for (int64_t i = 0; i < rows; i++)
    memcpy(y + i * apart * t->y_bytes, sums + i * GROUP,
           (size_t)n * sizeof *sums);
}

/* The place of y that is place (i, j) of the class. */
static char *place_at(const tiled *t, int64_t n, int64_t i, int64_t j) {
  const axis *h = &t->in.h.of, *w = &t->in.w.of;
  int64_t row = h->first + i * h->every, column = w->first + j * w->every;
  return t->y + ((n * t->y_h + row) * t->y_w + column) * t->y_c * t->y_bytes;
}

/* The first place from p on, `line` a line of all, that is not padding; `end`
 * if none. */
static int64_t next_place(const amx_image *m, int64_t line, int64_t p,
                          int64_t end) {
  int64_t i = p / m->w.pitch, j = p % m->w.pitch;
  if (j >= m->w.of.count) i++, j = 0;
  if ((line + i) % m->h.pitch >= m->h.of.count) {
    i += m->h.pitch - (line + i) % m->h.pitch, j = 0;
  }
  return least(i * m->w.pitch + j, end);
}

/* Places [p, p + GROUP) of lines from `line` on, those that are no padding. */
static void put_lines(const tiled *t, real *sums, int64_t line, int64_t p,
                      int64_t end, int64_t column) {
  const amx_image *m = &t->in;
  int64_t count = m->w.of.count, until = least(p + GROUP, end), at = p;
  while ((at = next_place(m, line, at, until)) < until) {
    int64_t i = line + at / m->w.pitch, j = at % m->w.pitch;
    int64_t n = least(count - j, until - at);
    put_sums(t, sums + (at - p) * GROUP, n,
             place_at(t, i / m->h.pitch, i % m->h.pitch, j),
             m->w.of.every * t->y_c, column);
    at += n;
  }
}

/* ---- lines ----------------------------------------------------------------- */

static const char *weights_at(const tiled *t, int64_t j) {
  return t->packed + j / GROUP * t->in.blocks * spots_of(&t->in) * STEP_BYTES;
}

/* A strip of columns from j on, of lines [line, line + n), whose reads are
 * copied to x. */
static WITH_AMX void run_rows(const tiled *t, const amx_spots *s, int64_t line,
                              int64_t n, const char *x, int64_t j) {
  const amx_image *m = &t->in;
  int64_t end = n * m->w.pitch;
  _Alignas(64) real sums[GROUP * GROUP];
  for (int64_t p = 0; (p = next_place(m, line, p, end)) < end; p += GROUP) {
    run_registers(t, s, GROUP, t->count - j, x + p * UNIT_BYTES,
                  weights_at(t, j), sums);
    put_lines(t, sums, line, p, end, j);
  }
}

/* The spots that place (i, j) of a class reads inside x. */
static void find_spots(const amx_image *m, const amx_spots *all, int64_t i,
                       int64_t j, amx_spots *to) {
  const axis *h = &m->h.of, *w = &m->w.of;
  int64_t across = m->joined ? 1 : w->spots;
  to->count = 0;
  for (int64_t a = 0; a < h->spots; a++) {
    int64_t row = i * h->step + h->spot[a].at;
    if (row < 0 || row >= h->size) continue;
    for (int64_t b = 0; b < across; b++) {
      int64_t column = m->joined ? 0 : j * w->step + w->spot[b].at;
      if (column < 0 || column >= w->size) continue;
      to->at[to->count++] = all->at[a * across + b];
    }
  }
}

static WITH_AMX void run_beside(const tiled *t, const amx_spots *all,
                                int64_t line, int64_t n, const char *x,
                                int64_t column) {
  const amx_image *m = &t->in;
  int64_t first = line / m->h.of.count * GROUP, i = line % m->h.of.count;
  int64_t images = least(GROUP, m->N - first);
  _Alignas(64) real sums[GROUP * GROUP];
  amx_spots own;
  for (int64_t r = 0; r < n; r++)
    for (int64_t j = 0; j < m->w.of.count; j++) {
      find_spots(m, all, i + r, j, &own);
      run_registers(t, &own, images, t->count - column,
                    x + (r * m->w.pitch + j) * GROUP * UNIT_BYTES,
                    weights_at(t, column), sums);
      put_sums(t, sums, images, place_at(t, first, i + r, j),
               t->y_h * t->y_w * t->y_c, column);
    }
}

/* Lines, and strips of columns, of a part. */
typedef struct tiled_rect {
  int64_t line, end, strip, strips;
} tiled_rect;

/* Of the grid whose slowest part takes least: copying a line costs about as much
 * as a product of it. */
static tiled_rect rect_of(const tiled *t, int part, int parts) {
  int64_t lines = t->in.lines, strips = ceil_div(t->count, GROUP);
  int64_t spots = most(1, spots_of(&t->in)), best = INT64_MAX;
  int rows = 1;
  for (int r = 1; r <= parts; r++) {
    if (parts % r) continue;
    int64_t time =
        ceil_div(lines, r) * (ceil_div(strips, parts / r) * spots + 1);
    if (time <= best) best = time, rows = r;
  }
  tiled_rect of;
  int columns = parts / rows;
  mrt_share(lines, part / columns, rows, &of.line, &of.end);
  mrt_share(strips, part % columns, columns, &of.strip, &of.strips);
  return of;
}

static WITH_AMX void run_part(const mrt_call *call, const void *shared,
                              int part, int parts) {
  const tiled *t = shared;
  const amx_image *m = &t->in;
  int64_t across = m->joined ? 1 : m->w.of.spots, n;
  tiled_rect of = rect_of(t, part, parts);
  char *copy = t->parts + (size_t)part * t->bytes;
  const char **at = (const char **)(copy + image_bytes(m));
  const char *x = copy - m->w.low * m->wide * UNIT_BYTES;
  amx_spots all = { .count = spots_of(m) };
  (void)call;
  if (of.strip == of.strips) return;
  for (int64_t i = 0; i < all.count; i++)
    all.at[i] =
        (amx_spot){ spot_offset(m, i / across, i % across), i * STEP_BYTES };
  amx_begin();
  for (int64_t line = of.line; line < of.end; line += n) {
    n = some_lines(m, line, of.end);
    find_units(m, line, n, at);
    for (int64_t p = 0; p < m->h.phases * m->w.phases; p++)
      copy_units(m, at + p * m->units, 0, m->units, m->units,
                 copy + p * m->units * UNIT_BYTES, block_bytes(m));
    for (int64_t s = of.strip; s < of.strips; s++)
      (m->beside ? run_beside : run_rows)(t, &all, line, n, x, s * GROUP);
  }
  amx_end();
}

/* ---- all of it ------------------------------------------------------------- */

/* A group of channels of one class. */
static void run_group(const mrt_call *call, tiled *t) {
  double products = (double)t->in.lines * (double)(t->in.w.pitch * t->in.wide) *
                    (double)(spots_of(&t->in) * t->in.blocks * GROUP);
  int team = mrt_team(call, products * (double)t->n / 400);
  for (t->from = 0; t->from < t->n; t->from += t->columns) {
    t->count = least(t->columns, t->n - t->from);
    mrt_parallel(call, team, pack_part, t);
    mrt_parallel(call, team, run_part, t);
  }
}

void mrt_tiled_run(const mrt_call *call, bool back, const real *bias,
                   void *scratch) {
  const mrt_conv_options *o = call->options;
  int64_t classes[2];
  count_classes(call, back, classes);
  for (int64_t i = 0; i < classes[0]; i++)
    for (int64_t j = 0; j < classes[1]; j++) {
      tiled t;
      set_class(call, back, i, j, &t);
      t.packed = scratch, t.bytes = part_bytes(&t);
      t.parts = t.packed + packed_bytes(&t);
      int64_t group = call->in[1].type.dims[0] / o->groups *
                      call->in[1].type.dims[1] * t.taps;
      t.bias = bias;
      for (int64_t g = 0; g < o->groups; g++) {
        run_group(call, &t);
        t.in.x.data += t.in.k * t.in.x.bytes, t.y += t.n * t.y_bytes;
        t.weights.data += group * t.weights.bytes;
        if (t.bias) t.bias += t.n;
      }
    }
}
#endif
