/* order.h -- rows as packs: what sort, topk, kthvalue, median and mode share
 *
 * An element becomes an unsigned key whose order is that of the elements, NaN
 * last, -0 as 0; a pack is the key and below it the position in the row.  Keys
 * of up to 32 bits make packs of 64, those of 64 bits packs of 128.  Values are
 * read again from the row, so the results have its bits.
 *
 *     order_type t = order_types[dtype];
 *     t.load(&lane, 0, n, a);                       packs of a row
 *     packs = t.sort(c, parts, a, b, n, t.bits, counts);
 *     t.give(&lane, packs, 0, n);                   values and positions
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_ORDER_H
#define MRT_ORDER_H

#include "base/narrow.h"
#include "cpu.h"
#include "walk.h"

enum {
  ORDER_LARGE = 192, /* above that packs are sorted by their bytes */
  ORDER_FEW = 24,    /* as many best are kept by insertion */
  ORDER_BLOCK = 256, /* packs made at a time */
  ORDER_ROOM = 32,   /* what may be read past the last pack */
};

/* One row of x, and where its results go; all `step` elements apart. */
typedef struct order_lane {
  const void *x;
  void *values;
  int64_t *positions;
  int64_t n, step;
  bool descending;
} order_lane;

/* Packs of the m elements from `from` on. */
typedef void order_load(const order_lane *l, int64_t from, int64_t m,
                        void *packs);

typedef struct order_type {
  int bits; /* of a key */
  size_t pack, size;
  uint64_t most; /* the largest key of a number, as it is in ascending order */
  order_load *load;
  void *(*sort)(const mrt_call *c, int parts, void *a, void *b, int64_t n,
                int bits, int64_t (*counts)[256]);
  void *(*smallest)(const mrt_call *c, const order_lane *l,
                    const struct order_type *t, int64_t k, bool sorted, void *a,
                    void *b, int64_t (*counts)[256]);
  int64_t (*position)(void *packs, int64_t n, int64_t k, int bits);
  int64_t (*longest_run)(const void *packs, int64_t n, uint64_t most);
  /* For sorting, packs of 64 in two rounds: keys, of 64 bits their upper half;
   * and NULL, or the packs of a row again with the lower half. */
  order_load *first;
  void (*second)(const order_lane *l, uint64_t *packs, int64_t m);
  /* Results [from, to) of packs; of those of 64. */
  void (*give)(const order_lane *l, const void *packs, int64_t from,
               int64_t to);
  void (*give_sorted)(const order_lane *l, const void *packs, int64_t from,
                      int64_t to);
} order_type;

typedef uint64_t order_vector __attribute__((vector_size(MRT_VECTOR_BYTES)));
__extension__ typedef unsigned __int128 order_wide;

#define PACK        uint64_t
#define PACK_VECTOR order_vector
#define PACK_CHUNK  32
#define PACK_(name) order_##name##_64
#include "order_pack.h"
#undef PACK
#undef PACK_VECTOR
#undef PACK_CHUNK
#undef PACK_
#define PACK        order_wide
#define PACK_CHUNK  8
#define PACK_(name) order_##name##_128
#include "order_pack.h"
#undef PACK
#undef PACK_CHUNK
#undef PACK_

/* ---- keys ---------------------------------------------------------------- */

static inline uint32_t order_key_f32(float x) {
  uint32_t b = float_bits(x);
  b = x == 0 ? 0 : b;
  b = (b >> 31 ? ~b : b | UINT32_C(1) << 31);
  return x != x ? UINT32_MAX : b;
}
static inline uint64_t order_key_f64(double x) {
  uint64_t b;
  memcpy(&b, &x, sizeof b);
  b = x == 0 ? 0 : b;
  b = (b >> 63 ? ~b : b | UINT64_C(1) << 63);
  return x != x ? UINT64_MAX : b;
}
static inline uint64_t order_key_i64(int64_t x) {
  return (uint64_t)x ^ UINT64_C(1) << 63;
}
static inline uint32_t order_key_i32(int32_t x) {
  return (uint32_t)x ^ UINT32_C(1) << 31;
}
static inline uint8_t order_key_u8(uint8_t x) { return x; }

#define ORDER_LOAD(name, T, U, PACK)                                           \
  static void order_load_##name(const order_lane *l, int64_t from, int64_t m,  \
                                void *packs) {                                 \
    const T *x = (const T *)l->x + from * l->step;                             \
    PACK *to = packs;                                                          \
    U flip = l->descending ? (U)-1 : 0;                                        \
    if (l->step == 1)                                                          \
      for (int64_t i = 0; i < m; i++)                                          \
        to[i] = (PACK)(U)(order_key_##name(x[i]) ^ flip) << 32 |               \
                (uint64_t)(from + i);                                          \
    else                                                                       \
      for (int64_t i = 0; i < m; i++)                                          \
        to[i] = (PACK)(U)(order_key_##name(x[i * l->step]) ^ flip) << 32 |     \
                (uint64_t)(from + i);                                          \
  }
MRT_NOT_F64(ORDER_LOAD(i64, int64_t, uint64_t, order_wide))
MRT_NOT_F64(ORDER_LOAD(i32, int32_t, uint32_t, uint64_t))
MRT_NOT_F64(ORDER_LOAD(u8, uint8_t, uint8_t, uint64_t))
#ifdef MRT_F64
ORDER_LOAD(f64, double, uint64_t, order_wide)
#else
ORDER_LOAD(f32, float, uint32_t, uint64_t)
#endif

/* Halves of keys of 64 bits. */
#define ORDER_HALVES(name, T)                                                  \
  static void order_first_##name(const order_lane *l, int64_t from, int64_t m, \
                                 void *packs) {                                \
    const T *x = (const T *)l->x + from * l->step;                             \
    uint64_t *to = packs, flip = l->descending ? UINT64_MAX : 0;               \
    for (int64_t i = 0; i < m; i++) {                                          \
      uint64_t key = order_key_##name(x[i * l->step]) ^ flip;                  \
      to[i] = (key >> 32 << 32) | (uint64_t)(from + i);                        \
    }                                                                          \
  }                                                                            \
  static void order_second_##name(const order_lane *l, uint64_t *packs,        \
                                  int64_t m) {                                 \
    const T *x = l->x;                                                         \
    uint64_t flip = l->descending ? UINT64_MAX : 0;                            \
    for (int64_t i = 0; i < m; i++) {                                          \
      uint32_t at = (uint32_t)packs[i];                                        \
      uint64_t key = order_key_##name(x[at * l->step]) ^ flip;                 \
      packs[i] = key << 32 | at;                                               \
    }                                                                          \
  }
MRT_NOT_F64(ORDER_HALVES(i64, int64_t))
#ifdef MRT_F64
ORDER_HALVES(f64, double)
#endif

#define ORDER_GIVE(name, T, PACK)                                              \
  static void order_give_##name(const order_lane *l, const void *packs,        \
                                int64_t from, int64_t to) {                    \
    const PACK *p = packs;                                                     \
    const T *x = l->x;                                                         \
    T *values = l->values;                                                     \
    int64_t step = l->step, *positions = l->positions;                         \
    for (int64_t i = from; i < to; i++) {                                      \
      int64_t at = (uint32_t)p[i];                                             \
      values[i * step] = x[at * step];                                         \
      positions[i * step] = at;                                                \
    }                                                                          \
  }
MRT_NOT_F64(ORDER_GIVE(unit1, unit1, uint64_t))
MRT_NOT_F64(ORDER_GIVE(unit4, unit4, uint64_t))
ORDER_GIVE(unit8, unit8, order_wide)
ORDER_GIVE(unit8_sorted, unit8, uint64_t)

#define ORDER_TYPE(bits, width, number, key, unit, first, second, sorted)      \
  {                                                                            \
    bits, width / 8, sizeof(unit), number, order_load_##key,                   \
        order_sort_##width, order_smallest_##width, order_position_##width,    \
        order_longest_run_##width, first, second, order_give_##unit, sorted    \
  }
#define ORDER_NARROW(bits, number, key, unit)                                  \
  ORDER_TYPE(bits, 64, number, key, unit, order_load_##key, NULL,              \
             order_give_##unit)
#define ORDER_WIDE(number, key)                                                \
  ORDER_TYPE(64, 128, number, key, unit8, order_first_##key,                   \
             order_second_##key, order_give_unit8_sorted)
/* By dtype; narrow floats are widened before. */
static const order_type order_types[MRT_DTYPE_COUNT] = {
#ifdef MRT_F64
  [MRT_f64] = ORDER_WIDE(UINT64_MAX - 1, f64),
#else
  [MRT_f32] = ORDER_NARROW(32, UINT32_MAX - 1, f32, unit4),
#endif
  MRT_NOT_F64([MRT_i64] = ORDER_WIDE(UINT64_MAX, i64),
              [MRT_i32] = ORDER_NARROW(32, UINT64_MAX, i32, unit4),
              [MRT_u8] = ORDER_NARROW(8, UINT64_MAX, u8, unit1),
              [MRT_bool] = ORDER_NARROW(8, UINT64_MAX, u8, unit1), )
};

/* ---- the rows of a call -------------------------------------------------- */

/* x is [outer, n, inner]: rows along n; their results are `results` long. */
typedef struct order_lanes {
  const order_type *type;
  int64_t outer, n, inner, results;
  bool descending;
  size_t pack; /* bytes of one */
} order_lanes;

static inline order_lanes order_lanes_of(const mrt_call *c, int64_t dim,
                                         int64_t results, bool descending) {
  const mrt_type *t = &c->in[0].type;
  const order_type *type = &order_types[t->dtype];
  order_lanes s = { type, 1, 1, 1, results, descending, type->pack };
  for (int i = 0; i < t->rank; i++) {
    if (i < dim) s.outer *= t->dims[i];
    if (i == dim) s.n = t->dims[i];
    if (i > dim) s.inner *= t->dims[i];
  }
  if (results < 0) s.results = s.n;
  return s;
}

static inline order_lane order_lane_of(const mrt_call *c, const order_lanes *s,
                                       int64_t i) {
  int64_t size = (int64_t)s->type->size, row = i / s->inner;
  int64_t from = row * s->n * s->inner + i % s->inner;
  int64_t to = row * s->results * s->inner + i % s->inner;
  return (order_lane){ (const char *)c->in[0].data + from * size,
                       (char *)c->out[0].data + to * size,
                       (int64_t *)c->out[1].data + to,
                       s->n,
                       s->inner,
                       s->descending };
}

/* The one result of a row: its element `at`. */
static inline void order_give_at(const order_lane *l, const order_type *t,
                                 int64_t at) {
  memcpy(l->values, (const char *)l->x + (size_t)(at * l->step) * t->size,
         t->size);
  l->positions[0] = at;
}

/* ---- scratch ------------------------------------------------------------- */

/* Rows at a time; a row that is alone is shared by all threads. */
static inline int order_slots(const mrt_call *c, const order_lanes *s) {
  int64_t lanes = s->outer * s->inner;
  return lanes >= c->threads ? c->threads : 1;
}

/* Packs a and b, of n and m; counts of bytes. */
static inline size_t order_room(const order_lanes *s, int64_t n) {
  size_t bytes = (size_t)(n + ORDER_ROOM) * s->pack;
  return (bytes + 63) / 64 * 64;
}

typedef struct order_slot {
  void *a, *b;
  int64_t (*counts)[256];
} order_slot;

static inline size_t order_slot_bytes(const mrt_call *c, const order_lanes *s,
                                      int64_t n, int64_t m) {
  int teams = order_slots(c, s) == 1 ? c->threads : 1;
  return order_room(s, n) + order_room(s, m) +
         (size_t)teams * 256 * sizeof(int64_t);
}

static inline order_slot order_slot_of(const mrt_call *c, const order_lanes *s,
                                       int64_t n, int64_t m, int part) {
  char *at = c->scratch;
  at += (size_t)part * order_slot_bytes(c, s, n, m);
  char *b = at + order_room(s, n);
  return (order_slot){ at, b, (int64_t(*)[256])(b + order_room(s, m)) };
}

#endif
