/* scatter.c -- scatter, scatter_add, scatter_reduce and flat_index
 *
 * A lane is what has one position in every dimension but dim: places in
 * different lanes never collide.  Lanes are shared out among threads, each of
 * which goes through its lanes in the order of the index: no atomics, same bits
 * for any number of threads.  Lanes side by side are done together, and where
 * they have one id, by whole rows.
 *
 * SPDX-License-Identifier: MIT */
#include "base/narrow.h"
#include "floats.h"
#include "op/move.h"
#include "walk.h"

enum { Y, SRC, INDEX }; /* operands of the walk */

/* Lanes side by side: where they begin, and steps from one to the next and
 * along dim, in elements. */
typedef struct lanes {
  const mrt_call *call;
  int64_t n;        /* places along dim */
  int64_t count, m; /* lanes; elements of src along dim */
  int64_t place[3], side[3], along[3];
} lanes;

/* The index, in registers: what is written may lie anywhere for the compiler. */
typedef struct ids {
  const mrt_call *call;
  const void *data;
  mrt_dtype dtype;
  int64_t n;
} ids;

static inline ids ids_of(const lanes *l) {
  const mrt_operand *index = &l->call->in[1];
  return (ids){ l->call, index->data, index->type.dtype, l->n };
}

static inline int64_t id_at(ids of, int64_t i) {
  return mrt_checked_id(of.call, mrt_id(of.data, of.dtype, i), of.n);
}

typedef void scatter_fn(const lanes *l, void *y, const void *src);

/* *at = INTO(T, *at, value), for values of type S in places of type T.  One lane,
 * lanes with an id each, or lanes side by side that share one. */
#define SCATTER(name, T, S, VALUE, INTO)                                       \
  static void scatter_##name(const lanes *l, void *to, const void *from) {     \
    const S *src = (const S *)from + l->place[SRC];                            \
    T *y = (T *)to + l->place[Y];                                              \
    ids of = ids_of(l);                                                        \
    int64_t ys = l->side[Y], ss = l->side[SRC], is = l->side[INDEX];           \
    int64_t ya = l->along[Y], sa = l->along[SRC], ia = l->along[INDEX];        \
    int64_t i = l->place[INDEX], m = l->m, count = l->count;                   \
    if (count == 1)                                                            \
      for (int64_t k = 0; k < m; k++) {                                        \
        T *at = &y[id_at(of, i + k * ia) * ya];                                \
        *at = INTO(T, *at, VALUE(src[k * sa]));                                \
      }                                                                        \
    else                                                                       \
      for (int64_t k = 0; k < m; k++, src += sa, i += ia)                      \
        if (is || ys != 1 || ss != 1) {                                        \
          for (int64_t j = 0; j < count; j++) {                                \
            T *at = &y[j * ys + id_at(of, i + j * is) * ya];                   \
            *at = INTO(T, *at, VALUE(src[j * ss]));                            \
          }                                                                    \
        } else {                                                               \
          T *at = y + id_at(of, i) * ya;                                       \
          for (int64_t j = 0; j < count; j++)                                  \
            at[j] = INTO(T, at[j], VALUE(src[j]));                             \
        }                                                                      \
  }

#define SAME(x)               (x)
#define WRITE(T, a, b)        (b)
#define ADD(T, a, b)          ((a) + (b))
#define MULTIPLY(T, a, b)     ((a) * (b))
#define ADD_i64(T, a, b)      (int64_t)((uint64_t)(a) + (uint64_t)(b))
#define ADD_i32(T, a, b)      (int32_t)((uint32_t)(a) + (uint32_t)(b))
#define ADD_u8(T, a, b)       (uint8_t)((a) + (b))
#define MULTIPLY_i64(T, a, b) (int64_t)((uint64_t)(a) * (uint64_t)(b))
#define MULTIPLY_i32(T, a, b) (int32_t)((uint32_t)(a) * (uint32_t)(b))
#define MULTIPLY_u8(T, a, b)  (uint8_t)((a) * (b))
/* A NaN of either side stays: of `a` by the comparison, of `b` by the second
 * choice, which is seldom taken. */
#define LARGER(T, a, b)  larger_##T(a, b)
#define SMALLER(T, a, b) smaller_##T(a, b)
#define EXTREMES(T)                                                            \
  static inline T larger_##T(T a, T b) {                                       \
    T most = b > a ? b : a;                                                    \
    return b != b ? b : most;                                                  \
  }                                                                            \
  static inline T smaller_##T(T a, T b) {                                      \
    T least = b < a ? b : a;                                                   \
    return b != b ? b : least;                                                 \
  }
EXTREMES(real)
MRT_NOT_F64(EXTREMES(int64_t) EXTREMES(int32_t) EXTREMES(uint8_t))

MRT_NOT_F64(SCATTER(unit1, unit1, unit1, SAME, WRITE))
MRT_NOT_F64(SCATTER(unit2, unit2, unit2, SAME, WRITE))
MRT_NOT_F64(SCATTER(unit4, unit4, unit4, SAME, WRITE))
SCATTER(unit8, unit8, unit8, SAME, WRITE)

static scatter_fn *const write_of[] = {
  MRT_NOT_F64([1] = scatter_unit1, [2] = scatter_unit2, [4] = scatter_unit4, )
      [8] = scatter_unit8
};

SCATTER(add_real, real, real, SAME, ADD)
MRT_NOT_F64(SCATTER(add_i64, int64_t, int64_t, SAME, ADD_i64))
MRT_NOT_F64(SCATTER(add_i32, int32_t, int32_t, SAME, ADD_i32))
MRT_NOT_F64(SCATTER(add_u8, uint8_t, uint8_t, SAME, ADD_u8))
MRT_NOT_F64(SCATTER(add_f16, real, uint16_t, f16_to_float, ADD))
MRT_NOT_F64(SCATTER(add_bf16, real, uint16_t, bf16_to_float, ADD))
MRT_NOT_F64(SCATTER(add_f8_e4m3, real, uint8_t, f8_e4m3_to_float, ADD))
MRT_NOT_F64(SCATTER(add_f8_e5m2, real, uint8_t, f8_e5m2_to_float, ADD))

/* By the dtype of src. */
static scatter_fn *const add_of[MRT_DTYPE_COUNT] = {
  [MRT_REAL] = scatter_add_real,
  MRT_NOT_F64([MRT_f16] = scatter_add_f16, [MRT_bf16] = scatter_add_bf16,
              [MRT_f8_e4m3] = scatter_add_f8_e4m3,
              [MRT_f8_e5m2] = scatter_add_f8_e5m2, [MRT_i64] = scatter_add_i64,
              [MRT_i32] = scatter_add_i32, [MRT_u8] = scatter_add_u8, )
};

#define REDUCE(name, T, PRODUCT)                                               \
  SCATTER(prod_##name, T, T, SAME, PRODUCT)                                    \
  SCATTER(amax_##name, T, T, SAME, LARGER)                                     \
  SCATTER(amin_##name, T, T, SAME, SMALLER)

REDUCE(real, real, MULTIPLY)
MRT_NOT_F64(REDUCE(i64, int64_t, MULTIPLY_i64))
MRT_NOT_F64(REDUCE(i32, int32_t, MULTIPLY_i32))
MRT_NOT_F64(REDUCE(u8, uint8_t, MULTIPLY_u8))

#define REDUCED(name)                                                          \
  {                                                                            \
    [MRT_SCATTER_PROD] = scatter_prod_##name,                                  \
    [MRT_SCATTER_AMAX] = scatter_amax_##name,                                  \
    [MRT_SCATTER_AMIN] = scatter_amin_##name                                   \
  }
static scatter_fn *const reduce_of[MRT_DTYPE_COUNT][3] = {
  [MRT_REAL] = REDUCED(real),
  MRT_NOT_F64([MRT_i64] = REDUCED(i64), [MRT_i32] = REDUCED(i32),
              [MRT_u8] = REDUCED(u8), )
};

/* ---- lanes --------------------------------------------------------------- */

typedef struct scattering {
  scatter_fn *into;
  walk w; /* lanes */
} scattering;

/* Where dim is the last, lanes are far apart: they are done one by one. */
static void scatter_part(const mrt_call *c, const void *shared, int part,
                         int parts) {
  const scattering *s = shared;
  int64_t dim = ((const mrt_dim_options *)c->options)->dim, from, to;
  const mrt_operand *operand[3] = { &c->out[0], &c->in[2], &c->in[1] };
  lanes l = { .call = c,
              .n = c->out[0].type.dims[dim],
              .m = c->in[2].type.dims[dim] };
  walk w = s->w;
  mrt_share(w.count, part, parts, &from, &to);
  walk_seek(&w, from);
  for (int k = 0; k < 3; k++) {
    l.along[k] = operand[k]->strides[dim];
    l.side[k] = w.step[k][w.rank - 1];
  }
  bool apart = dim == c->in[2].type.rank - 1;
  for (int64_t n; from < to; from += n, walk_next(&w)) {
    n = walk_row(&w, to - from);
    l.count = apart ? 1 : n;
    memcpy(l.place, w.place, sizeof l.place);
    for (int64_t j = 0; j < n; j += l.count) {
      s->into(&l, c->out[0].data, c->in[2].data);
      for (int k = 0; k < 3; k++) l.place[k] += l.side[k];
    }
  }
}

static void copy_part(const mrt_call *c, const void *bytes, int part,
                      int parts) {
  int64_t from, to;
  mrt_share(*(const int64_t *)bytes, part, parts, &from, &to);
  if (to > from)
    memcpy((char *)c->out[0].data + from, (const char *)c->in[0].data + from,
           (size_t)(to - from));
}

static void run(const mrt_call *c, scatter_fn *into) {
  int64_t dim = ((const mrt_dim_options *)c->options)->dim;
  const mrt_operand *y = &c->out[0], *src = &c->in[2], *index = &c->in[1];
  int64_t bytes = (int64_t)mrt_type_bytes(&y->type);
  if (y->data != c->in[0].data)
    mrt_parallel(c, mrt_team(c, (double)bytes * 0.1), copy_part, &bytes);
  scattering s = { .into = into };
  for (int i = 0; i < src->type.rank; i++) {
    if (i == dim) continue;
    int d = s.w.rank++;
    s.w.dims[d] = src->type.dims[i];
    s.w.step[Y][d] = y->strides[i];
    s.w.step[SRC][d] = src->strides[i];
    s.w.step[INDEX][d] = index->strides[i];
  }
  walk_join(&s.w);
  double moved = (double)s.w.count * (double)src->type.dims[dim];
  mrt_parallel(c, mrt_team(c, moved * 2), scatter_part, &s);
}

static void scatter(const mrt_call *c) { run(c, write_of[mrt_size(c->out)]); }

static void scatter_add(const mrt_call *c) {
  run(c, add_of[c->in[2].type.dtype]);
}

static void scatter_reduce(const mrt_call *c) {
  const mrt_scatter_reduce_options *o = c->options;
  run(c, reduce_of[c->out[0].type.dtype][o->reduce]);
}

/* ---- flat_index ---------------------------------------------------------- */

static void flat_part(const mrt_call *c, const void *unused, int part,
                      int parts) {
  const mrt_ints *dims = &((const mrt_flat_index_options *)c->options)->dims;
  int64_t *y = c->out[0].data, from, to;
  (void)unused;
  mrt_share(mrt_type_count(&c->out[0].type), part, parts, &from, &to);
  for (int64_t j = from; j < to; j++) {
    int64_t at = 0;
    for (int i = 0; i < c->nin; i++) {
      int64_t id = mrt_id(c->in[i].data, c->in[i].type.dtype, j);
      at = at * dims->at[i] + mrt_checked_id(c, id, dims->at[i]);
    }
    y[j] = at;
  }
}

static void flat_index(const mrt_call *c) {
  double n = (double)mrt_type_count(&c->out[0].type);
  mrt_parallel(c, mrt_team(c, n * 2 * c->nin), flat_part, NULL);
}

MRT_KERNEL(scatter, .run = scatter);
MRT_KERNEL(scatter_add, .run = scatter_add);
MRT_KERNEL(scatter_reduce, .run = scatter_reduce);
MRT_KERNEL(flat_index, .run = flat_index);
