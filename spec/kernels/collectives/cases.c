/* cases.c -- every collective against its definition
 *
 * Kind x dtype x reduction x count x where operands lie x in place or not, on
 * 1 to 5 ranks.  Each rank knows what all ranks give and computes in f64 what
 * it must get; the bits of all results are the same for threads, processes and
 * messages between pairs.
 *
 * SPDX-License-Identifier: MIT */
#include "base/narrow.h"
#include "reduce.h"
#include "team.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Numbers repeat after a prime, which no cut into pieces divides. */
enum { MOST = 5, PERIOD = 1021 };
enum { LARGE = (1 << (TEAM_SLOW ? 13 : 16)) + 3 };
#ifdef SPEC_THREADS_ONLY
enum { LARGEST = (1 << 17) + 3 };
#else
enum { LARGEST = (1 << 20) + 3 };
#endif
enum { PRIVATE, HEAP, MIXED, PLACES };

typedef struct state {
  mrt_communicator *comm;
  char *rooms[2]; /* private, heap */
  bool ring;      /* which rounds 16-bit floats at every rank */
  double given[MOST][PERIOD], reduced[PERIOD], bound[PERIOD];
  uint64_t digest;
  int wrong;
} state;

/* ---- numbers ------------------------------------------------------------- */

/* What rank `rank` gives: quarters in [-2, 2), or small integers. */
static double draw(mrt_dtype dtype, int rank, int i) {
  uint64_t h = ((uint64_t)i + 1) * UINT64_C(0x9e3779b97f4a7c15) ^
               (uint64_t)(rank + 1) * UINT64_C(0xc2b2ae3d27d4eb4f);
  h ^= h >> 29, h *= UINT64_C(0xbf58476d1ce4e5b9), h ^= h >> 32;
  if (dtype == MRT_bool) return (double)(h & 1);
  if (dtype == MRT_u8) return (double)(h & 255);
  if (dtype == MRT_i32 || dtype == MRT_i64) return (double)(h % 9) - 4;
  int bits = dtype == MRT_bf16 ? 6 : 9;
  return (double)(h >> (64 - bits)) / (1 << (bits - 2)) - 2;
}

static void put(mrt_dtype dtype, void *x, int64_t i, double y) {
  switch (dtype) {
  case MRT_f32:
    ((float *)x)[i] = (float)y;
    break;
  case MRT_f64:
    ((double *)x)[i] = y;
    break;
  case MRT_i64:
    ((int64_t *)x)[i] = (int64_t)y;
    break;
  case MRT_i32:
    ((int32_t *)x)[i] = (int32_t)y;
    break;
  case MRT_f16:
    ((uint16_t *)x)[i] = float_to_f16((float)y);
    break;
  case MRT_bf16:
    ((uint16_t *)x)[i] = float_to_bf16((float)y);
    break;
  default:
    ((uint8_t *)x)[i] = (uint8_t)(int)y;
  }
}

static double get(mrt_dtype dtype, const void *x, int64_t i) {
  switch (dtype) {
  case MRT_f32:
    return ((const float *)x)[i];
  case MRT_f64:
    return ((const double *)x)[i];
  case MRT_i64:
    return (double)((const int64_t *)x)[i];
  case MRT_i32:
    return ((const int32_t *)x)[i];
  case MRT_f16:
    return f16_to_float(((const uint16_t *)x)[i]);
  case MRT_bf16:
    return bf16_to_float(((const uint16_t *)x)[i]);
  default:
    return ((const uint8_t *)x)[i];
  }
}

static double reduced(mrt_reduction op, double y, double x) {
  switch (op) {
  case MRT_REDUCE_MAX:
    return fmax(y, x);
  case MRT_REDUCE_MIN:
    return fmin(y, x);
  case MRT_REDUCE_PROD:
    return y * x;
  default:
    return y + x;
  }
}

static void draw_all(state *s, mrt_dtype dtype) {
  for (int r = 0; r < s->comm->size; r++)
    for (int i = 0; i < PERIOD; i++) s->given[r][i] = draw(dtype, r, i);
}

static double number(const state *s, int rank, int64_t i) {
  return s->given[rank][(uint32_t)i % PERIOD];
}

/* What the reduction is, in f64, and how far a result may be from it. */
static void reduce_all(state *s, mrt_dtype dtype, mrt_reduction op) {
  static const double eps[MRT_DTYPE_COUNT] = {
    [MRT_f32] = 0x1p-24, [MRT_f16] = 0x1p-11, [MRT_bf16] = 0x1p-8
  };
  int size = s->comm->size;
  for (int i = 0; i < PERIOD; i++) {
    double y = s->given[0][i], sum = fabs(y);
    for (int r = 1; r < size; r++) {
      y = reduced(op, y, s->given[r][i]);
      sum += fabs(s->given[r][i]);
    }
    if (op == MRT_REDUCE_MEAN) y /= size;
    if (dtype == MRT_u8) y = (double)((uint64_t)y & 255);
    s->reduced[i] = y;
    s->bound[i] = eps[dtype] * fabs(y) * (s->ring ? size : 1) +
                  (eps[dtype] > 0) * 0x1p-24 * size * sum;
  }
}

/* ---- a case -------------------------------------------------------------- */

enum { ROOM = 8 * LARGEST + (1 << 16) };
_Static_assert(8 * (MOST + 1) * LARGE + 64 <= ROOM, "what every_kind needs");

static char *room_of(const state *s, int place) {
  bool heap = place == HEAP || (place == MIXED && s->comm->rank % 2 == 0);
  return s->rooms[heap && s->rooms[1]];
}

static void digest(state *s, const void *data, size_t nbytes) {
  const unsigned char *x = data;
  for (size_t i = 0; i < nbytes; i++)
    s->digest = (s->digest ^ x[i]) * UINT64_C(0x100000001b3);
}

/* Element i of what this rank must get. */
static double wanted(const state *s, const mrt_collective *c, int64_t i,
                     double *bound) {
  int64_t piece = c->count / s->comm->size;
  *bound = 0;
  if (c->kind == MRT_COLLECT_allgather || c->kind == MRT_COLLECT_compare)
    return number(s, (int)(i / piece), i % piece);
  if (c->kind == MRT_COLLECT_all_to_all)
    return number(s, (int)(i / piece), s->comm->rank * piece + i % piece);
  if (c->kind == MRT_COLLECT_broadcast) return number(s, c->peer, i);
  if (c->kind == MRT_COLLECT_shift)
    return number(s, (s->comm->rank - c->peer + s->comm->size) % s->comm->size,
                  i);
  if (c->kind == MRT_COLLECT_reduce_scatter) i += s->comm->rank * piece;
  *bound = s->bound[i % PERIOD];
  return s->reduced[i % PERIOD];
}

static void check(state *s, const mrt_collective *c, const char *what) {
  char text[160];
  int64_t n = (int64_t)(mrt_collective_out_bytes(c, s->comm->size) /
                        mrt_collective_dtype_bytes(c->dtype));
  for (int64_t i = 0; i < n; i++) {
    double bound, want = wanted(s, c, i, &bound),
                  have = get(c->dtype, c->out, i);
    if (fabs(have - want) <= bound) continue;
    snprintf(text, sizeof text, "%s %s %s[%lld], %s: [%lld] is %g, %g wanted",
             mrt_collective_name(c->kind), mrt_reduction_name(c->reduction),
             mrt_dtype_name(c->dtype), (long long)c->count, what, (long long)i,
             have, want);
    s->wrong += team_wrong(s->comm, 1, text);
    return;
  }
}

static void one(state *s, mrt_collective c, int place, bool in_place) {
  static const char *const names[] = { "private", "heap", "mixed" };
  size_t bytes = mrt_collective_dtype_bytes(c.dtype);
  size_t nin = mrt_collective_in_bytes(&c, s->comm->size);
  size_t nout = mrt_collective_out_bytes(&c, s->comm->size);
  char *at = room_of(s, place), *in = at, *out = at;
  bool gathers =
      c.kind == MRT_COLLECT_allgather || c.kind == MRT_COLLECT_compare;
  if (in_place && gathers && c.count % 2)
    in = at + (size_t)s->comm->rank * nin; /* its own piece; else the front */
  if (!in_place) out = at + (nin + 63) / 64 * 64;
  for (size_t i = 0; i < nin / bytes; i++)
    put(c.dtype, in, (int64_t)i, number(s, s->comm->rank, (int64_t)i));
  c.in = in, c.out = out;
  if (c.kind == MRT_COLLECT_broadcast && !in_place && s->comm->rank != c.peer)
    c.in = NULL;
  s->wrong += team_do(s->comm, c);
  check(s, &c, names[place]);
  if (place == PRIVATE) digest(s, out, nout);
}

static void places(state *s, mrt_collective c) {
  for (int place = 0; place < PLACES; place++)
    if (s->rooms[1] || place == PRIVATE)
      for (int in_place = 0; in_place < 2; in_place++)
        if (!in_place || !mrt_collective_apart(c.kind))
          one(s, c, place, in_place);
}

static bool is_reduced(mrt_reduction op, mrt_dtype dtype) {
  bool whole = dtype == MRT_i64 || dtype == MRT_i32 || dtype == MRT_u8;
  if (dtype == MRT_bool) return op == MRT_REDUCE_MAX || op == MRT_REDUCE_MIN;
  return !(whole && op == MRT_REDUCE_MEAN);
}

static void every_kind(state *s, mrt_dtype dtype, int64_t count) {
  int size = s->comm->size;
  mrt_collective c = { .dtype = dtype, .file = "cases.c", .line = 1 };
  bool small = count <= LARGE;
  for (int op = 0; op <= MRT_REDUCE_PROD; op++) {
    if (!is_reduced(op, dtype)) continue;
    c.reduction = op;
    reduce_all(s, dtype, op);
    c.kind = MRT_COLLECT_allreduce, c.count = count;
    places(s, c);
    c.kind = MRT_COLLECT_reduce_scatter, c.count = count * size;
    if (small) places(s, c);
  }
  c.reduction = MRT_REDUCE_SUM;
  c.kind = MRT_COLLECT_allgather, c.count = count * size;
  if (small) places(s, c);
  c.kind = MRT_COLLECT_compare;
  if (small) places(s, c);
  c.kind = MRT_COLLECT_broadcast, c.count = count;
  c.peer = size - 1;
  places(s, c);
  c.kind = MRT_COLLECT_shift;
  for (c.peer = 0; c.peer < size; c.peer++)
    if (small) places(s, c);
  c.kind = MRT_COLLECT_all_to_all, c.count = count / size * size, c.peer = 0;
  places(s, c);
}

/* ---- laws ---------------------------------------------------------------- */

/* allgather(reduce_scatter(x)) has the bits of allreduce(x); a NaN of any rank
 * is in every result. */
static void laws(state *s, mrt_dtype dtype, int op, int64_t count) {
  size_t bytes = mrt_collective_dtype_bytes(dtype), n = (size_t)count * bytes;
  char *x = s->rooms[0], *y = x + n, *piece = y + n, *z = piece + n;
  double f = dtype == MRT_f32 || dtype == MRT_f64 ? 1.0 / 3 : 1;
  for (int64_t i = 0; i < count; i++)
    put(dtype, x, i, f * number(s, s->comm->rank, i));
  bool floats = dtype != MRT_i64 && dtype != MRT_i32 && dtype != MRT_u8;
  if (floats && s->comm->rank == s->comm->size / 2) put(dtype, x, 3, NAN);
  mrt_collective c = { .kind = MRT_COLLECT_allreduce,
                       .dtype = dtype,
                       .reduction = op,
                       .count = count };
  c.in = x, c.out = y, s->wrong += team_do(s->comm, c);
  c.kind = MRT_COLLECT_reduce_scatter;
  c.in = x, c.out = piece, s->wrong += team_do(s->comm, c);
  c.kind = MRT_COLLECT_allgather;
  c.in = piece, c.out = z, s->wrong += team_do(s->comm, c);
  s->wrong += team_wrong(s->comm, memcmp(y, z, n), "halves are not the whole");
  s->wrong +=
      team_wrong(s->comm, floats && !isnan(get(dtype, y, 3)), "NaN is lost");
  digest(s, y, n);
}

/* Round the ring: send to the next, receive from the one before. */
static void ring(state *s, int place, int64_t count) {
  int rank = s->comm->rank, size = s->comm->size;
  float *in = (float *)(void *)room_of(s, place), *out = in + count;
  for (int64_t i = 0; i < count; i++) put(MRT_f32, in, i, number(s, rank, i));
  mrt_collective send = { .kind = MRT_COLLECT_send,
                          .dtype = MRT_f32,
                          .count = count,
                          .peer = (rank + 1) % size,
                          .in = in };
  mrt_collective recv = { .kind = MRT_COLLECT_recv,
                          .dtype = MRT_f32,
                          .count = count,
                          .peer = (rank + size - 1) % size,
                          .out = out };
  uint64_t before = s->comm->sent;
  s->wrong += team_do(s->comm, rank % 2 ? recv : send);
  s->wrong += team_do(s->comm, rank % 2 ? send : recv);
  s->wrong += team_wrong(s->comm, s->comm->sent - before != 4 * (size_t)count,
                         "bytes sent");
  for (int64_t i = 0; i < count; i++)
    if (out[i] != number(s, recv.peer, i)) {
      s->wrong += team_wrong(s->comm, 1, "received something else");
      break;
    }
}

/* 2 (p - 1) / p of the bytes for the whole, half of it for the halves; of a shift
 * what a rank has, unless it is its own. */
static void traffic(state *s) {
  int64_t count = 64 * s->comm->size * 64;
  uint64_t part = 4 * (uint64_t)count / (uint64_t)s->comm->size *
                  ((uint64_t)s->comm->size - 1);
  mrt_collective c = { .dtype = MRT_f32,
                       .count = count,
                       .in = s->rooms[0],
                       .out = s->rooms[0] + 4 * count };
  memset(s->rooms[0], 0, 4 * (size_t)count);
  static const mrt_collective_kind kinds[] = { MRT_COLLECT_reduce_scatter,
                                               MRT_COLLECT_allgather,
                                               MRT_COLLECT_all_to_all,
                                               MRT_COLLECT_allreduce };
  for (int i = 0; i < 4; i++) {
    uint64_t before = s->comm->sent;
    c.kind = kinds[i];
    s->wrong += team_do(s->comm, c);
    s->wrong += team_wrong(
        s->comm, s->comm->sent - before != part * (1 + i / 3), "traffic");
  }
  c.kind = MRT_COLLECT_shift;
  for (c.peer = 0; c.peer < s->comm->size; c.peer++) {
    uint64_t before = s->comm->sent, all = c.peer ? 4 * (uint64_t)count : 0;
    s->wrong += team_do(s->comm, c);
    s->wrong +=
        team_wrong(s->comm, s->comm->sent - before != all, "traffic of shifts");
  }
}

static int cases_of(mrt_communicator *comm, bool ring_sums, void *argument) {
  static const mrt_dtype dtypes[] = { MRT_f32, MRT_f64, MRT_i64,  MRT_i32,
                                      MRT_u8,  MRT_f16, MRT_bf16, MRT_bool };
  uint64_t *digests = argument;
  state s = { .comm = comm,
              .ring = ring_sums,
              .digest = UINT64_C(0xcbf29ce484222325) };
  int p = comm->size;
  int64_t counts[] = { 0, 1, p - 1, p, p + 1, 1001, LARGE };
  s.rooms[0] = malloc(ROOM);
  if (comm->alloc) s.rooms[1] = comm->alloc(comm, ROOM);
  for (int d = 0; d < MRT_COUNT(dtypes); d += TEAM_SLOW ? 2 : 1) {
    draw_all(&s, dtypes[d]);
    for (int i = 0; i < MRT_COUNT(counts); i++)
      every_kind(&s, dtypes[d], counts[i]);
    for (int op = 0; op <= MRT_REDUCE_PROD; op++)
      if (is_reduced(op, dtypes[d]) && dtypes[d] != MRT_bool)
        laws(&s, dtypes[d], op, 4 * p), laws(&s, dtypes[d], op, 4099 * p);
  }
  draw_all(&s, MRT_f32), reduce_all(&s, MRT_f32, MRT_REDUCE_SUM);
  places(&s, (mrt_collective){ .dtype = MRT_f32, .count = LARGEST });
  for (int place = 0; p > 1 && p % 2 == 0 && place < PLACES; place++)
    ring(&s, place, 7), ring(&s, place, LARGE);
  traffic(&s);
  digests[comm->rank] = s.digest;
  if (s.rooms[1]) comm->free(comm, s.rooms[1], ROOM);
  free(s.rooms[0]);
  return s.wrong;
}

static int all_cases(mrt_communicator *comm, void *argument) {
  return cases_of(comm, false, argument);
}

static int all_cases_ring(mrt_communicator *comm, void *argument) {
  return cases_of(comm, true, argument);
}

/* The bits of others are those of threads. */
static int same(const uint64_t *threads, const uint64_t *others, int size,
                const char *who) {
  bool other = memcmp(threads, others, (size_t)size * sizeof *others) != 0;
  if (other) fprintf(stderr, "threads and %s give other bits\n", who);
  return other;
}

int cases(void) {
  uint64_t *digests = team_share(MOST * sizeof *digests);
  uint64_t threads[MOST];
  int wrong = 0;
  for (int size = 1; size <= MOST; size++) {
    wrong += team_threads(size, all_cases, threads);
#ifndef SPEC_THREADS_ONLY
    wrong += team_processes(size, all_cases, digests);
    wrong += same(threads, digests, size, "processes");
#endif
    wrong += team_pairwise(size, all_cases, digests);
    wrong += same(threads, digests, size, "messages");
    wrong += team_ring(size, all_cases_ring, digests);
  }
  return wrong;
}
