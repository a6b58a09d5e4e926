/* amx_dw.c -- dw of bf16 in tile registers
 *
 * The sum is over places, so a row of a register is a channel of x at 32 places:
 * lines of x, copied as conv/amx_image.h does, are turned.  A tap is a distance
 * then, of any number of places, for rows begin anywhere.  dy lies in pairs of
 * places, with zeros where places are padding.  Of tiles, GROUP channels of x by
 * GROUP of dy for one tap, threads share a grid:
 *
 *     for so many tiles as the cache holds
 *       for lines of y, some at a time      turn what they read of x
 *         for strips of dy                  pair the strip
 *           for blocks of x, for taps       add to the tile
 *       round them into dw
 *
 * The order of a sum depends on the shape alone.
 *
 * SPDX-License-Identifier: MIT */
#include "conv/amx.h"

#if MRT_HAS_TILES
#include "conv/amx_turn.h"

static int64_t turned_bytes(const tiled_dw *d) {
  return blocks_of(d) * phases_of(d) * GROUP * d->row;
}

static void set_box(tiled_dw *d, int threads);

static void set_dw(const mrt_call *call, tiled_dw *d) {
  const mrt_conv_options *o = call->options;
  const mrt_type *x = &call->in[0].type, *dy = &call->in[1].type;
  const mrt_type *w = &call->out[0].type;
  *d = (tiled_dw){ .dy = operand_of(call, 1, true),
                   .n = w->dims[0] / o->groups,
                   .y_c = w->dims[0],
                   .C = w->dims[1],
                   .taps = w->dims[2] * w->dims[3],
                   .joined = 1,
                   .dw = call->out[0].data,
                   .result = w->dtype };
  amx_image *m = &d->x;
  m->x = operand_of(call, 0, true);
  m->N = x->dims[0], m->x_c = x->dims[3];
  m->k = w->dims[1];
  side h = side_of(o, 0, x, w, dy), v = side_of(o, 1, x, w, dy);
  m->h.of = axis_forward(&h, m->h.room);
  m->w.of = axis_forward(&v, m->w.room);
  set_image(m, GROUP, PLACES, 1);
  d->blocks = m->joined ? 1 : m->blocks;
  if (m->joined) d->joined = w->dims[3];
  d->strips = ceil_div(d->n, GROUP), d->spots = spots_of(m);
  d->row =
      (ceil_div(m->units * 2, 64) | 1) * 64; /* not of the same cache set */
  d->dy_line = m->beside ? m->w.of.count * GROUP : m->w.pitch;
  d->dy_places = round_up(m->chunk * d->dy_line, GROUP);
  set_box(d, call->threads);
}

static tiled_dw_work carve(const tiled_dw *d, uintptr_t *at) {
  return (tiled_dw_work){
    .sums =
        (real *)take(at, d->tiles * blocks_of(d) * TILE_REALS, sizeof(real)),
    .units = (const char **)take(at, units_bytes(&d->x), 1),
    .copy = take(at, d->box_blocks * blocks_of(d) * GROUP, UNIT_BYTES),
    .turned = take(at, d->box_blocks * turned_bytes(d), 1),
    .at = (const char **)take(at, d->dy_places, sizeof(char *)),
    .pairs = (uint32_t *)take(at, d->dy_places / 2 * GROUP, UNIT),
  };
}

static size_t part_bytes(const tiled_dw *d) {
  uintptr_t end = 0;
  carve(d, &end);
  return end;
}

size_t mrt_tiled_dw_bytes(const mrt_call *call) {
  tiled_dw d;
  set_dw(call, &d);
  return part_bytes(&d) * (size_t)call->threads;
}

/* ---- registers -------------------------------------------------------------- */

/* Add `steps` times GROUP places to the sums. */
static inline __attribute__((always_inline)) WITH_AMX void
add_places(bool rows, bool columns, int64_t steps, const char *x, int64_t row,
           const uint32_t *dy, real *sums) {
  amx_load(0, sums, GROUP * UNIT);
  if (columns) amx_load(1, sums + AMX_TILE, GROUP * UNIT);
  if (rows) amx_load(2, sums + AMX_TILE * GROUP, GROUP * UNIT);
  if (rows && columns)
    amx_load(3, sums + AMX_TILE * GROUP + AMX_TILE, GROUP * UNIT);
  for (int64_t s = 0; s < steps; s++, x += AMX_ROW, dy += AMX_TILE * GROUP) {
    amx_load(4, x, row);
    amx_load(6, dy, GROUP * UNIT);
    amx_multiply(0, 4, 6);
    if (columns) {
      amx_load(7, dy + AMX_TILE, GROUP * UNIT);
      amx_multiply(1, 4, 7);
    }
    if (rows) {
      amx_load(5, x + AMX_TILE * row, row);
      amx_multiply(2, 5, 6);
    }
    if (rows && columns) amx_multiply(3, 5, 7);
  }
  amx_store(0, sums, GROUP * UNIT);
  if (columns) amx_store(1, sums + AMX_TILE, GROUP * UNIT);
  if (rows) amx_store(2, sums + AMX_TILE * GROUP, GROUP * UNIT);
  if (rows && columns)
    amx_store(3, sums + AMX_TILE * GROUP + AMX_TILE, GROUP * UNIT);
}

/* For a tile of `rows` channels of x, `columns` of dy. */
static WITH_AMX void run_registers(int64_t rows, int64_t columns, int64_t steps,
                                   const char *x, int64_t row,
                                   const uint32_t *dy, real *sums) {
  if (rows > AMX_TILE && columns > AMX_TILE)
    add_places(true, true, steps, x, row, dy, sums);
  else if (rows > AMX_TILE)
    add_places(true, false, steps, x, row, dy, sums);
  else if (columns > AMX_TILE)
    add_places(false, true, steps, x, row, dy, sums);
  else
    add_places(false, false, steps, x, row, dy, sums);
}

/* A tile for spot `s`, of lines [line, line + n); x: the block, turned. */
static WITH_AMX void add_lines(const tiled_dw *d, int64_t s, int64_t line,
                               int64_t n, int64_t places, int64_t rows,
                               int64_t columns, const char *x,
                               const uint32_t *dy, real *sums) {
  const amx_image *m = &d->x;
  const axis *h = &m->h.of, *w = &m->w.of;
  int64_t across = m->joined ? 1 : w->spots, a = s / across, b = s % across;
  int64_t units = spot_offset(m, a, b) / UNIT_BYTES - m->w.low * m->wide;
  x += units / m->units * GROUP * d->row + units % m->units * 2;
  if (!m->beside) {
    run_registers(rows, columns, places / GROUP, x, d->row, dy, sums);
    return;
  }
  int64_t from = 0, end = w->count, right = m->joined ? 0 : w->spot[b].at;
  while (!m->joined && from < end && from * w->step + right < 0) from++;
  while (!m->joined && from < end && (end - 1) * w->step + right >= w->size)
    end--;
  for (int64_t r = 0; r < n && from < end; r++) {
    int64_t row = (line % h->count + r) * h->step + h->spot[a].at;
    if (row < 0 || row >= h->size) continue;
    run_registers(rows, columns, end - from,
                  x + (r * m->w.pitch + from) * GROUP * 2, d->row,
                  dy + (r * w->count + from) * GROUP / 2 * GROUP, sums);
  }
}

/* ---- boxes ------------------------------------------------------------------ */

static real *tile_at(const tiled_dw *d, const box *of, const tiled_dw_work *w,
                     int64_t strip, int64_t block, int64_t spot) {
  int64_t spots = of->spot_end - of->spot;
  int64_t blocks = (of->block_end - of->block) * blocks_of(d);
  int64_t i = (strip - of->strip) * blocks + block;
  return w->sums + (i * spots + spot - of->spot) * TILE_REALS;
}

/* Rows of block `b` of a box that are there. */
static int64_t rows_of(const tiled_dw *d, const box *of, int64_t b) {
  int64_t depth = d->x.joined ? d->x.depth : d->C;
  return least(GROUP, depth - (of->block + b) * GROUP);
}

static WITH_AMX void add_some(const tiled_dw *d, const box *of, int64_t line,
                              int64_t n, const tiled_dw_work *w) {
  int64_t blocks = (of->block_end - of->block) * blocks_of(d);
  int64_t block_bytes = phases_of(d) * GROUP * d->row;
  int64_t places = find_places(d, line, n, w->at);
  find_units(&d->x, line, n, w->units);
  turn_box(d, of, w);
  for (int64_t s = of->strip; s < of->strip_end; s++) {
    int64_t columns = least(GROUP, d->n - s * GROUP);
    pair_strip(d, w->at, places, s * GROUP * d->dy.bytes, columns, w->pairs);
    for (int64_t b = 0; b < blocks; b++)
      for (int64_t p = of->spot; p < of->spot_end; p++)
        add_lines(d, p, line, n, places, rows_of(d, of, b), columns,
                  w->turned + b * block_bytes, w->pairs,
                  tile_at(d, of, w, s, b, p));
  }
}

/* A tile becomes columns, of the results' dtype. */
static void turn_tile(const tiled_dw *d, real *tile) {
  _Alignas(64) real room[TILE_REALS];
  for (int i = 0; i < GROUP; i += AMX_TILE)
    for (int j = 0; j < GROUP; j += AMX_TILE) {
      vec v[AMX_TILE];
#pragma GCC unroll 16
      for (int r = 0; r < AMX_TILE; r++)
        v[r] = vec_load(tile + (i + r) * GROUP + j);
      transpose(v);
#pragma GCC unroll 16
      for (int r = 0; r < AMX_TILE; r++)
        vec_store(room + (j + r) * GROUP + i, v[r]);
    }
  if (d->result == MRT_f32)
    memcpy(tile, room, sizeof room);
  else
    mrt_round(d->result, room, tile, TILE_REALS);
}

/* The weights of one channel of dy, of channels of x from some on: `from` are
 * those of the first, of tiles that are turned.  T: the dtype's size. */
#define STORE_CHANNEL(name, T)                                                 \
  static void store_##name(const T *from, int64_t spots, int64_t joined,       \
                           int64_t channels, int64_t count, int64_t taps,      \
                           T *to) {                                            \
    for (int64_t j = 0; j < joined; j++)                                       \
      for (int64_t i = 0; i < count; i++) {                                    \
        int64_t row = j * channels + i;                                        \
        const T *x = from + row / GROUP * spots * TILE_STEP(T) + row % GROUP;  \
        T *y = to + i * taps + j;                                              \
        for (int64_t p = 0; p < spots; p++)                                    \
          y[p * joined] = x[p * TILE_STEP(T)];                                 \
      }                                                                        \
  }
#define TILE_STEP(T) (TILE_REALS * (int64_t)(sizeof(real) / sizeof(T)))
typedef uint16_t __attribute__((may_alias)) bits16;
typedef uint8_t __attribute__((may_alias)) bits8;
STORE_CHANNEL(reals, real)
STORE_CHANNEL(halves, bits16)
STORE_CHANNEL(bytes, bits8)

/* Of channel `o` of dy and channels of x [c, c + count). */
static void store_channel(const tiled_dw *d, const box *of, const real *tiles,
                          int64_t o, int64_t c, int64_t count) {
  int64_t spots = of->spot_end - of->spot, first = o % GROUP * GROUP;
  int64_t at = (o * d->C + c) * d->taps + of->spot * d->joined;
  size_t bytes = mrt_dtypes[d->result].bytes;
  if (d->taps == 1)
    memcpy(d->dw + (size_t)at * bytes,
           (const char *)tiles + (size_t)first * bytes, (size_t)count * bytes);
  else if (bytes == 1)
    store_bytes((const bits8 *)tiles + first, spots, d->joined, d->C, count,
                d->taps, (bits8 *)d->dw + at);
  else if (bytes == 2)
    store_halves((const bits16 *)tiles + first, spots, d->joined, d->C, count,
                 d->taps, (bits16 *)d->dw + at);
  else
    store_reals(tiles + first, spots, d->joined, d->C, count, d->taps,
                (real *)d->dw + at);
}

static void store_box(const tiled_dw *d, const box *of,
                      const tiled_dw_work *w) {
  int64_t spots = of->spot_end - of->spot;
  for (int64_t s = of->strip; s < of->strip_end; s++)
    for (int64_t b = of->block; b < of->block_end; b++) {
      real *tiles = tile_at(d, of, w, s, b - of->block, of->spot);
      int64_t c = b * GROUP, count = least(GROUP, d->C - c);
      int64_t end = least((s + 1) * GROUP, d->n);
      for (int64_t i = 0; i < blocks_of(d) * spots; i++)
        turn_tile(d, tiles + i * TILE_REALS);
      for (int64_t o = s * GROUP; o < end; o++)
        store_channel(d, of, tiles, o, c, count);
    }
}

static WITH_AMX void run_box(const tiled_dw *d, const box *of,
                             const tiled_dw_work *w) {
  const amx_image *m = &d->x;
  int64_t tiles = (of->block_end - of->block) * blocks_of(d) *
                  (of->strip_end - of->strip) * (of->spot_end - of->spot);
  memset(w->sums, 0, (size_t)(tiles * TILE_REALS) * sizeof(real));
  amx_begin();
  for (int64_t line = 0, n; line < m->lines; line += n) {
    n = some_lines(m, line, m->lines);
    add_some(d, of, line, n, w);
  }
  amx_end();
  store_box(d, of, w);
}

/* ---- parts ------------------------------------------------------------------ */

/* Of the grid whose slowest part takes least, per GROUP places: to turn a block of
 * x costs as much as three tiles, to pair a strip as two. */
static void find_grid(const tiled_dw *d, int parts, int grid[3]) {
  int64_t least_time = INT64_MAX;
  for (int b = 1; b <= parts; b++)
    for (int s = 1; parts % b == 0 && s <= parts / b; s++) {
      if (parts / b % s) continue;
      int t = parts / b / s;
      int64_t blocks = ceil_div(d->blocks, b), strips = ceil_div(d->strips, s);
      int64_t tiles = blocks * strips * ceil_div(d->spots, t);
      int64_t time = tiles + 3 * blocks + 2 * strips;
      if (time >= least_time) continue;
      least_time = time, grid[0] = b, grid[1] = s, grid[2] = t;
    }
}

static box box_of(const tiled_dw *d, int part, int parts) {
  int grid[3];
  box of;
  find_grid(d, parts, grid);
  mrt_share(d->blocks, part % grid[0], grid[0], &of.block, &of.block_end);
  part /= grid[0];
  mrt_share(d->strips, part % grid[1], grid[1], &of.strip, &of.strip_end);
  part /= grid[1];
  mrt_share(d->spots, part, grid[2], &of.spot, &of.spot_end);
  return of;
}

/* Blocks and tiles of a box at most: all of a part's, if there are not more. */
static void set_box(tiled_dw *d, int threads) {
  int grid[3];
  find_grid(d, threads, grid);
  int64_t blocks = ceil_div(d->blocks, grid[0]);
  int64_t tiles =
      blocks * ceil_div(d->strips, grid[1]) * ceil_div(d->spots, grid[2]);
  d->box_blocks = least(blocks, BLOCKS);
  d->tiles = most(least(tiles, TILES / blocks_of(d)), 1);
}

static void run_group(const tiled_dw *d, const box *all,
                      const tiled_dw_work *w) {
  int64_t blocks = least(all->block_end - all->block, d->box_blocks);
  blocks = least(blocks, d->tiles);
  if (blocks == 0) return;
  int64_t spots = least(all->spot_end - all->spot, d->tiles / blocks);
  if (spots == 0) return;
  int64_t strips = d->tiles / (blocks * spots);
  box of;
  for (of.block = all->block; of.block < all->block_end; of.block += blocks)
    for (of.spot = all->spot; of.spot < all->spot_end; of.spot += spots)
      for (of.strip = all->strip; of.strip < all->strip_end;
           of.strip += strips) {
        of.block_end = least(of.block + blocks, all->block_end);
        of.spot_end = least(of.spot + spots, all->spot_end);
        of.strip_end = least(of.strip + strips, all->strip_end);
        run_box(d, &of, w);
      }
}

typedef struct tiled_dw_run {
  const tiled_dw *d;
  int64_t groups;
} tiled_dw_run;

static void run_part(const mrt_call *call, const void *shared, int part,
                     int parts) {
  const tiled_dw_run *r = shared;
  tiled_dw d = *r->d;
  uintptr_t at = (uintptr_t)call->scratch + (uintptr_t)part * part_bytes(&d);
  tiled_dw_work w = carve(&d, &at);
  box all = box_of(&d, part, parts);
  int64_t weights = d.n * d.C * d.taps;
  for (int64_t g = 0; g < r->groups; g++) {
    run_group(&d, &all, &w);
    d.x.x.data += d.C * d.x.x.bytes, d.dy.data += d.n * d.dy.bytes;
    d.dw += weights * (int64_t)mrt_dtypes[d.result].bytes;
  }
}

void mrt_tiled_dw_run(const mrt_call *call) {
  const mrt_conv_options *o = call->options;
  tiled_dw d;
  set_dw(call, &d);
  double products = (double)d.x.lines * (double)d.dy_line * (double)d.spots *
                    (double)(d.blocks * blocks_of(&d) * d.strips) * TILE_REALS;
  mrt_parallel(call, mrt_team(call, products * (double)o->groups / 400),
               run_part, &(tiled_dw_run){ &d, o->groups });
}
#endif
