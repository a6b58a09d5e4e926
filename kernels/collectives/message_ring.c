/* message_ring.c -- collectives round the ring of ranks
 *
 *     reduce_scatter  step t: give slice r-1-t to the next rank, get slice
 *                     r-2-t from the one before, add the own data to it
 *     allgather       step t: give slice r-t, get slice r-1-t
 *
 * Each half has p - 1 steps and moves (p - 1) / p of the bytes per rank; an
 * allreduce is the one and then the other.  Slice r is added up from rank r+1
 * on to rank r, and 16-bit floats are rounded at every rank, so the bits are
 * not those of pairwise exchange.
 *
 * Slices go in segments, BAND of them at a time round the whole ring: while
 * one is added up others are on their way in and out.  What is received as
 * number j goes on, in the next step, as number j + BAND.
 *
 * From: Patarasuk, Yuan, "Bandwidth optimal all-reduce algorithms for clusters
 * of workstations", J. Parallel Distrib. Comput. 69(2), 2009.
 *
 * SPDX-License-Identifier: MIT */
#include "message.h"

#include <string.h>

enum {
  SEGMENT = 256 << 10,
  BAND = 4,
  ROOMS = 3 * BAND, /* for what is on its way through this rank */
  SENDS = 3 * BAND,
  RECEIVES = 2 * BAND
};
_Static_assert(ROOMS *SEGMENT <= MRT_MESSAGE_SCRATCH, "rooms of a ring");

typedef struct ring {
  mrt_message_comm *m;
  const mrt_collective *c;
  size_t bytes;
  int reduces, steps;         /* steps that reduce come first */
  int64_t total;              /* segments that this rank gives, and gets */
  int64_t sent, posted, left; /* left: sends that are done */
  mrt_request sends[SENDS], receives[RECEIVES];
} ring;

/* Number j: of which step, and where the segment of the slice is. */
typedef struct segment {
  int step;
  size_t at, nbytes; /* in the whole */
  size_t skip;       /* in the slice */
} segment;

static segment segment_of(const ring *g, int64_t j, int slice_of_step) {
  int size = g->m->comm.size;
  int64_t each = (int64_t)(SEGMENT / g->bytes);
  int64_t band = j / (BAND * g->steps), k = j % BAND;
  segment s = { .step = (int)(j / BAND % g->steps) };
  int back = s.step < g->reduces ? s.step + 1 : s.step - g->reduces;
  int slice = ((g->m->comm.rank - slice_of_step - back) % size + size) % size;
  int64_t skip = (band * BAND + k) * each;
  int64_t begin = mrt_message_slice(g->c->count, size, slice) + skip;
  int64_t n = mrt_message_slice(g->c->count, size, slice + 1) - begin;
  s.skip = (size_t)skip * g->bytes;
  s.at = (size_t)begin * g->bytes;
  s.nbytes = n <= 0 ? 0 : (size_t)(n < each ? n : each) * g->bytes;
  return s;
}

static segment given(const ring *g, int64_t j) { return segment_of(g, j, 0); }
static segment got(const ring *g, int64_t j) { return segment_of(g, j, 1); }

static char *room(const ring *g, int64_t j) {
  return g->m->endpoint->scratch + (size_t)(j % ROOMS) * SEGMENT;
}

/* Until the sends before number j are done. */
static mrt_status let_go(ring *g, int64_t j, mrt_error *e) {
  for (; g->left < j; g->left++)
    MRT_TRY(mrt_message_finish(g->m, g->c, &g->sends[g->left % SENDS], 1, e));
  return MRT_OK;
}

static mrt_status send(ring *g, mrt_error *e) {
  int64_t j = g->sent;
  segment s = given(g, j);
  char *from = (char *)g->c->out + s.at;
  int next = (g->m->comm.rank + 1) % g->m->comm.size;
  if (s.step < g->reduces)
    from = s.step ? room(g, j - BAND) : (char *)g->c->in + s.at;
  MRT_TRY(let_go(g, j - SENDS + 1, e));
  mrt_message_start(g->m, &g->sends[j % SENDS], next, true, from, s.nbytes);
  g->sent++;
  return MRT_OK;
}

/* The room was given away by number j - ROOMS, sent BAND later. */
static mrt_status post(ring *g, mrt_error *e) {
  int64_t j = g->posted;
  segment s = got(g, j);
  int size = g->m->comm.size, before = (g->m->comm.rank + size - 1) % size;
  char *to = s.step < g->reduces ? room(g, j) : (char *)g->c->out + s.at;
  MRT_TRY(let_go(g, j - ROOMS + BAND + 1, e));
  mrt_message_start(g->m, &g->receives[j % RECEIVES], before, false, to,
                    s.nbytes);
  g->posted++;
  return MRT_OK;
}

/* The result of a reduce_scatter may lie where data are that have been given
 * away as they were, in the first step. */
static mrt_status add(ring *g, int64_t j, mrt_error *e) {
  segment s = got(g, j);
  if (s.step >= g->reduces || !s.nbytes) return MRT_OK;
  bool last = s.step == g->reduces - 1,
       piece = g->c->kind == MRT_COLLECT_reduce_scatter;
  if (last && piece) MRT_TRY(let_go(g, j - s.step * BAND + 1, e));
  mrt_reduction op = g->c->reduction;
  if (op == MRT_REDUCE_MEAN && !last) op = MRT_REDUCE_SUM;
  const void *from[2] = { room(g, j), (const char *)g->c->in + s.at };
  void *to = last ? (char *)g->c->out + (piece ? s.skip : s.at) : room(g, j);
  mrt_reduce_part(op, g->c->dtype, from, 2, &to, 1,
                  (int64_t)(s.nbytes / g->bytes), g->m->comm.size);
  return MRT_OK;
}

/* Sends run at most BAND ahead of what has come. */
static mrt_status go(ring *g, mrt_error *e) {
  for (int64_t j = 0; j < g->total; j++) {
    while (g->posted < g->total && g->posted < j + BAND) MRT_TRY(post(g, e));
    while (g->sent < g->total && g->sent < j + BAND) MRT_TRY(send(g, e));
    MRT_TRY(mrt_message_finish(g->m, g->c, &g->receives[j % RECEIVES], 1, e));
    MRT_TRY(add(g, j, e));
  }
  return let_go(g, g->total, e);
}

mrt_status mrt_message_ring(mrt_message_comm *m, const mrt_collective *c,
                            mrt_error *e) {
  int size = m->comm.size;
  ring g = { .m = m, .c = c };
  g.bytes = mrt_collective_dtype_bytes(c->dtype);
  if (size == 1) return mrt_message_pairwise(m, c, e);
  if (!mrt_collective_gathers(c)) g.reduces = size - 1;
  g.steps = c->kind == MRT_COLLECT_allreduce ? 2 * g.reduces : size - 1;
  int64_t band = BAND * (int64_t)(SEGMENT / g.bytes) * size;
  g.total = (c->count + band - 1) / band * BAND * g.steps;
  if (mrt_collective_gathers(c)) {
    size_t nbytes = mrt_collective_in_bytes(c, size);
    char *own = (char *)c->out + (size_t)m->comm.rank * nbytes;
    if (own != (const char *)c->in) memmove(own, c->in, nbytes);
  }
  return go(&g, e);
}
