/* message_pairwise.c -- collectives in which each two ranks exchange
 *
 * Rank r owns slice r.  First it gets the others' data for its slice and
 * adds them up in the order of the ranks (of a broadcast: it gets the slice
 * from the root); then it gives the slice to all.  Each half moves (p - 1) / p
 * of the bytes per rank.  Slices go in segments: while one is reduced, the
 * next is on its way in and the last on its way out.
 *
 * A segment of `in` has left before the same segment of any slice of `out` is
 * written, so `out` may be `in`.
 *
 * From: Thakur, Rabenseifner, Gropp, "Optimization of collective communication
 * operations in MPICH", IJHPCA 19(1), 2005 (pairwise exchange).
 *
 * SPDX-License-Identifier: MIT */
#include "message.h"

#include <string.h>

enum { SEGMENT = 512 << 10 }; /* bytes at most */

typedef struct pairwise_pass {
  mrt_message_comm *m;
  const mrt_collective *c;
  size_t bytes;    /* of an element */
  int64_t segment; /* elements */
  int64_t rounds;
  bool reduces, spreads; /* the two halves */
  int root;              /* of a broadcast; -1 */
  char *own;             /* where this rank's slice is made */
  mrt_request *in[2];    /* of the first half, by turns */
  mrt_request *out;      /* of the second */
  int nin[2], nout;
} pairwise_pass;

/* Bytes of round k of slice r, and where they begin in the whole. */
static size_t part(const pairwise_pass *p, int r, int64_t k, size_t *at) {
  int size = p->m->comm.size;
  int64_t begin = mrt_message_slice(p->c->count, size, r) + k * p->segment;
  int64_t n = mrt_message_slice(p->c->count, size, r + 1) - begin;
  *at = (size_t)begin * p->bytes;
  return n <= 0 ? 0 : (size_t)(n < p->segment ? n : p->segment) * p->bytes;
}

/* Room for a round's data of rank r. */
static char *room(const pairwise_pass *p, int r, int64_t k) {
  int size = p->m->comm.size;
  size_t i =
      (size_t)(k & 1) * (size_t)(size - 1) + (size_t)r - (r > p->m->comm.rank);
  return p->m->endpoint->scratch + i * (size_t)p->segment * p->bytes;
}

/* The rank after this one first: not all begin with the same. */
static int other(const pairwise_pass *p, int i) {
  return (p->m->comm.rank + i) % p->m->comm.size;
}

static void begin_in(pairwise_pass *p, int64_t k) {
  int rank = p->m->comm.rank, size = p->m->comm.size, n = 0;
  mrt_request *requests = p->in[k & 1];
  size_t at, skip, mine = part(p, rank, k, &at), first;
  part(p, rank, 0, &first);
  skip = at - first;
  for (int i = 1; i < size && k < p->rounds; i++) {
    int r = other(p, i);
    if (p->reduces || r == p->root)
      mrt_message_start(p->m, &requests[n++], r, false,
                        p->reduces ? room(p, r, k) : p->own + skip, mine);
    size_t theirs = part(p, r, k, &at);
    if (p->reduces || rank == p->root)
      mrt_message_start(p->m, &requests[n++], r, true, (char *)p->c->in + at,
                        theirs);
  }
  p->nin[k & 1] = n;
}

static void reduce(pairwise_pass *p, int64_t k) {
  int rank = p->m->comm.rank, size = p->m->comm.size;
  size_t at, first, nbytes = part(p, rank, k, &at);
  part(p, rank, 0, &first);
  for (int r = 0; r < size; r++)
    p->m->from[r] =
        r == rank ? (const char *)p->c->in + at : (const char *)room(p, r, k);
  mrt_reduce(p->c->reduction, p->c->dtype, p->m->from, size,
             &(void *){ p->own + at - first }, 1, (int64_t)(nbytes / p->bytes));
}

static void begin_out(pairwise_pass *p, int64_t k) {
  int rank = p->m->comm.rank, size = p->m->comm.size;
  char *out = p->c->out;
  p->nout = 0;
  for (int i = 1; i < size; i++) {
    size_t at, nbytes;
    int r = other(p, i);
    if (rank != p->root) {
      nbytes = part(p, r, k, &at);
      mrt_message_start(p->m, &p->out[p->nout++], r, false, out + at, nbytes);
    }
    nbytes = part(p, rank, k, &at);
    if (r != p->root)
      mrt_message_start(p->m, &p->out[p->nout++], r, true, out + at, nbytes);
  }
}

static mrt_status go(pairwise_pass *p, mrt_error *e) {
  begin_in(p, 0);
  for (int64_t k = 0; k < p->rounds; k++) {
    MRT_TRY(mrt_message_finish(p->m, p->c, p->in[k & 1], p->nin[k & 1], e));
    begin_in(p, k + 1);
    if (p->reduces) reduce(p, k);
    if (!p->spreads) continue;
    MRT_TRY(mrt_message_finish(p->m, p->c, p->out, p->nout, e));
    begin_out(p, k);
  }
  return mrt_message_finish(p->m, p->c, p->out, p->nout, e);
}

/* Own data that are given as they are: where they belong in `out`. */
static void place(const pairwise_pass *p) {
  const mrt_collective *c = p->c;
  size_t nbytes = mrt_collective_in_bytes(c, p->m->comm.size);
  size_t at = mrt_collective_gathers(c) ? (size_t)p->m->comm.rank * nbytes : 0;
  bool gives = mrt_collective_gathers(c) || p->root == p->m->comm.rank;
  if (gives && (const char *)c->in != (char *)c->out + at)
    memmove((char *)c->out + at, c->in, nbytes);
}

mrt_status mrt_message_pairwise(mrt_message_comm *m, const mrt_collective *c,
                                mrt_error *e) {
  int rank = m->comm.rank, size = m->comm.size;
  size_t at, others = size > 1 ? (size_t)size - 1 : 1;
  size_t most = MRT_MESSAGE_SCRATCH / 2 / others;
  pairwise_pass p = { .m = m, .c = c, .root = -1 };
  p.bytes = mrt_collective_dtype_bytes(c->dtype);
  p.segment = (int64_t)((most < SEGMENT ? most : SEGMENT) / p.bytes);
  p.rounds = (c->count + (int64_t)size * p.segment - 1) / (size * p.segment);
  p.reduces =
      c->kind == MRT_COLLECT_allreduce || c->kind == MRT_COLLECT_reduce_scatter;
  p.spreads = c->kind != MRT_COLLECT_reduce_scatter;
  if (c->kind == MRT_COLLECT_broadcast) p.root = c->peer;
  part(&p, rank, 0, &at);
  p.own = (char *)c->out + (p.spreads ? at : 0);
  place(&p);
  mrt_request *all =
      mrt_calloc(m->endpoint->allocator, 6 * others, sizeof *all);
  if (!all) return m->comm.abort(&m->comm, "out of memory"), mrt_nomem(e);
  p.in[0] = all, p.in[1] = all + 2 * others, p.out = all + 4 * others;
  mrt_status s = go(&p, e);
  mrt_release(m->endpoint->allocator, all, 6 * others * sizeof *all);
  return s;
}
