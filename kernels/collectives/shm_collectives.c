/* shm_collectives.c -- collectives over operands that all ranks see
 *
 * Small operands lie in the mailboxes: everyone computes all it wants from
 * them, in one step.  Large ones are read where they lie: rank r reduces slice
 * r of all operands into slice r of all results, reading and writing each byte
 * once.  An element of an operand is read only by the rank that writes it, and
 * before that, so results may take the operands' place.
 *
 * Operands that others cannot see are copied into this rank's chunk, results
 * out of the chunks of those who made them, a chunk at a time.
 *
 * From: Li, Hoefler, Snir, "NUMA-aware shared-memory collective communication
 * for MPI", HPDC 2013 (the direct reduction).
 *
 * SPDX-License-Identifier: MIT */
#include "shm.h"

#include <string.h>

/* A part of a large collective: elements [at, at + n) of what is cut. */
typedef struct shm_part {
  const mrt_collective *c;
  size_t bytes;  /* of an element */
  int64_t piece; /* elements of a rank's piece */
  int64_t at, n;
  int result; /* which chunk for results: 1 or 2 */
} shm_part;

static const mrt_shm_operands *operands_of(const mrt_shm_comm *m, int rank) {
  return &m->board->mailboxes[rank].operands[m->calls & 1];
}

static char *seen(const mrt_shm_comm *m, uint64_t reference) {
  return (char *)((uintptr_t)m->base + reference);
}

static void copy(void *to, const void *from, size_t nbytes) {
  if (nbytes && to != from) memmove(to, from, nbytes);
}

/* The part of n elements that is `rank`'s to reduce: whole lines of the cache,
 * from what is returned to `*end`. */
static int64_t slice_of(const mrt_shm_comm *m, int64_t n, int rank,
                        int64_t *end) {
  int64_t size = m->comm.size;
  int64_t each = ((n + size - 1) / size + 63) & ~INT64_C(63);
  int64_t begin = rank * each < n ? rank * each : n;
  *end = n - begin < each ? n : begin + each;
  return begin;
}

/* ---- each kind: its part put into the chunk, done, and fetched ----------- */

typedef struct moves {
  /* Bytes of a chunk that one element of the part takes are bytes * pieces. */
  bool pieces;
  void (*stage)(mrt_shm_comm *m, const shm_part *p);
  void (*work)(mrt_shm_comm *m, const shm_part *p);
  void (*fetch)(mrt_shm_comm *m, const shm_part *p);
} moves;

static void stage_whole(mrt_shm_comm *m, const shm_part *p) {
  copy(mrt_shm_board_chunk(m->board, m->comm.rank, 0),
       (const char *)p->c->in + (size_t)p->at * p->bytes,
       (size_t)p->n * p->bytes);
}

static void stage_pieces(mrt_shm_comm *m, const shm_part *p) {
  char *chunk = mrt_shm_board_chunk(m->board, m->comm.rank, 0);
  size_t nbytes = (size_t)p->n * p->bytes;
  for (int r = 0; r < m->comm.size; r++)
    copy(chunk + (size_t)r * nbytes,
         (const char *)p->c->in + (size_t)(r * p->piece + p->at) * p->bytes,
         nbytes);
}

/* Where rank `rank` has the part, `skip` elements into it where it is seen and
 * `staged` where it is in the chunk. */
static char *given(const mrt_shm_comm *m, const shm_part *p, int rank,
                   int64_t skip, int64_t staged) {
  uint64_t in = operands_of(m, rank)->in;
  if (in) return seen(m, in) + (size_t)(p->at + skip) * p->bytes;
  return mrt_shm_board_chunk(m->board, rank, 0) + (size_t)staged * p->bytes;
}

static void work_allreduce(mrt_shm_comm *m, const shm_part *p) {
  int size = m->comm.size, nto = 0;
  bool hidden = false;
  int64_t end, begin = slice_of(m, p->n, m->comm.rank, &end);
  for (int r = 0; r < size; r++) {
    uint64_t out = operands_of(m, r)->out;
    m->from[r] = given(m, p, r, begin, begin);
    if (out) m->to[nto++] = seen(m, out) + (size_t)(p->at + begin) * p->bytes;
    hidden |= !out;
  }
  if (hidden)
    m->to[nto++] = mrt_shm_board_chunk(m->board, m->comm.rank, p->result);
  mrt_reduce(p->c->reduction, p->c->dtype, m->from, size, m->to, nto,
             end - begin);
}

static void fetch_allreduce(mrt_shm_comm *m, const shm_part *p) {
  char *out = (char *)p->c->out + (size_t)p->at * p->bytes;
  for (int r = 0; r < m->comm.size; r++) {
    int64_t end, begin = slice_of(m, p->n, r, &end);
    copy(out + (size_t)begin * p->bytes,
         mrt_shm_board_chunk(m->board, r, p->result),
         (size_t)(end - begin) * p->bytes);
  }
}

/* Only this rank writes its `out`; it waits in a chunk while others may read
 * an `in` that it overlaps. */
static void work_reduce_scatter(mrt_shm_comm *m, const shm_part *p) {
  int rank = m->comm.rank;
  void *to = operands_of(m, rank)->out
                 ? (char *)p->c->out + (size_t)p->at * p->bytes
                 : mrt_shm_board_chunk(m->board, rank, p->result);
  for (int r = 0; r < m->comm.size; r++)
    m->from[r] = given(m, p, r, rank * p->piece, rank * p->n);
  mrt_reduce(p->c->reduction, p->c->dtype, m->from, m->comm.size, &to, 1, p->n);
}

static void fetch_reduce_scatter(mrt_shm_comm *m, const shm_part *p) {
  copy((char *)p->c->out + (size_t)p->at * p->bytes,
       mrt_shm_board_chunk(m->board, m->comm.rank, p->result),
       (size_t)p->n * p->bytes);
}

static void work_allgather(mrt_shm_comm *m, const shm_part *p) {
  char *out = (char *)p->c->out + (size_t)p->at * p->bytes;
  for (int i = 0; i < m->comm.size; i++) {
    int r = (m->comm.rank + i) % m->comm.size; /* not all read one rank */
    copy(out + (size_t)(r * p->piece) * p->bytes, given(m, p, r, 0, 0),
         (size_t)p->n * p->bytes);
  }
}

static void work_all_to_all(mrt_shm_comm *m, const shm_part *p) {
  int rank = m->comm.rank, size = m->comm.size;
  char *out = (char *)p->c->out + (size_t)p->at * p->bytes;
  for (int i = 0; i < size; i++) {
    int r = (rank + i) % size; /* not all read one rank */
    copy(out + (size_t)(r * p->piece) * p->bytes,
         given(m, p, r, rank * p->piece, rank * p->n), (size_t)p->n * p->bytes);
  }
}

static void work_broadcast(mrt_shm_comm *m, const shm_part *p) {
  copy((char *)p->c->out + (size_t)p->at * p->bytes,
       given(m, p, p->c->peer, 0, 0), (size_t)p->n * p->bytes);
}

static void work_shift(mrt_shm_comm *m, const shm_part *p) {
  copy((char *)p->c->out + (size_t)p->at * p->bytes,
       given(m, p, mrt_shift_from(&m->comm, p->c), 0, 0),
       (size_t)p->n * p->bytes);
}

static const moves table[MRT_COLLECTIVES] = {
  [MRT_COLLECT_allreduce] = { false, stage_whole, work_allreduce,
                              fetch_allreduce },
  [MRT_COLLECT_reduce_scatter] = { true, stage_pieces, work_reduce_scatter,
                                   fetch_reduce_scatter },
  [MRT_COLLECT_allgather] = { false, stage_whole, work_allgather, NULL },
  [MRT_COLLECT_all_to_all] = { true, stage_pieces, work_all_to_all, NULL },
  [MRT_COLLECT_compare] = { false, stage_whole, work_allgather, NULL },
  [MRT_COLLECT_broadcast] = { false, stage_whole, work_broadcast, NULL },
  [MRT_COLLECT_shift] = { false, stage_whole, work_shift, NULL },
};

/* ---- agreeing ------------------------------------------------------------ */

mrt_status mrt_shm_mismatch(mrt_shm_comm *m, int a, mrt_descriptor_text of_a,
                            int b, mrt_descriptor_text of_b, mrt_error *e) {
  return mrt_shm_fail(m, e, MRT_DESCRIPTORS_DIFFER, a, of_a.s, b, of_b.s);
}

mrt_status mrt_shm_agree(mrt_shm_comm *m, const mrt_collective *c,
                         mrt_shm_operands operands, mrt_error *e) {
  unsigned which = m->calls & 1;
  const mrt_shm_mailbox *mailboxes = m->board->mailboxes,
                        *first = &mailboxes[0];
  m->mine->descriptor[which] = mrt_descriptor_of(c);
  m->mine->caller[which] = mrt_caller_of(c);
  m->mine->operands[which] = operands;
  m->came = m->step + 1;
  MRT_TRY(mrt_shm_step(m, c, e));
  for (int r = 1; r < m->comm.size; r++) {
    const mrt_shm_mailbox *mailbox = &mailboxes[r];
    if (mrt_descriptor_same(&mailbox->descriptor[which],
                            &first->descriptor[which]))
      continue;
    return mrt_shm_mismatch(
        m, 0,
        mrt_descriptor_print(&first->descriptor[which], &first->caller[which]),
        r,
        mrt_descriptor_print(&mailbox->descriptor[which],
                             &mailbox->caller[which]),
        e);
  }
  return MRT_OK;
}

/* ---- large --------------------------------------------------------------- */

/* What others may use where it lies; a rank's own use of `out` counts too. */
static mrt_shm_operands shown(const mrt_shm_comm *m, const mrt_collective *c) {
  size_t nin = mrt_collective_in_bytes(c, m->comm.size),
         nout = mrt_collective_out_bytes(c, m->comm.size);
  size_t own = (size_t)m->comm.rank * (nin < nout ? nin : nout);
  uintptr_t in = (uintptr_t)c->in, out = (uintptr_t)c->out;
  bool apart = in + nin <= out || out + nout <= in;
  mrt_shm_operands shown = { .in = mrt_shm_reference(m, c->in, nin), .out = 1 };
  if (c->kind == MRT_COLLECT_allreduce)
    shown.out = mrt_shm_reference(m, c->out, nout);
  else if (c->kind == MRT_COLLECT_reduce_scatter)
    shown.out = apart || out == in + own;
  else if (mrt_collective_gathers(c) && !apart && in != out + own)
    shown.in = 0;
  return shown;
}

static mrt_status run_part(mrt_shm_comm *m, const moves *moves,
                           const shm_part *p, bool staged, mrt_error *e) {
  const mrt_shm_operands *mine = operands_of(m, m->comm.rank);
  bool gives =
      p->c->kind != MRT_COLLECT_broadcast || p->c->peer == m->comm.rank;
  if (gives && !mine->in) moves->stage(m, p);
  if (staged) MRT_TRY(mrt_shm_step(m, p->c, e));
  moves->work(m, p);
  MRT_TRY(mrt_shm_step(m, p->c, e));
  if (!mine->out && moves->fetch) moves->fetch(m, p);
  return MRT_OK;
}

static mrt_status run_large(mrt_shm_comm *m, const mrt_collective *c,
                            mrt_error *e) {
  const moves *moves = &table[c->kind];
  int size = m->comm.size;
  bool root = c->kind == MRT_COLLECT_broadcast, staged = false, hidden = false;
  MRT_TRY(mrt_shm_agree(m, c, shown(m, c), e));
  for (int r = 0; r < size; r++) {
    const mrt_shm_operands *o = operands_of(m, r);
    staged |= !o->in && (!root || r == c->peer);
    hidden |= !o->out;
  }
  shm_part p = { .c = c,
                 .bytes = mrt_collective_dtype_bytes(c->dtype),
                 .piece = c->count / size };
  bool cut =
      c->kind == MRT_COLLECT_allreduce || root || c->kind == MRT_COLLECT_shift;
  int64_t n = cut ? c->count : p.piece, most = n;
  if (staged || hidden)
    most = MRT_SHM_CHUNK / (int64_t)p.bytes / (moves->pieces ? size : 1);
  for (; p.at < n; p.at += p.n) {
    p.n = n - p.at < most ? n - p.at : most;
    p.result = 1 + (int)(m->results++ & 1);
    MRT_TRY(run_part(m, moves, &p, staged, e));
  }
  return MRT_OK;
}

/* ---- small --------------------------------------------------------------- */

static mrt_status run_small(mrt_shm_comm *m, const mrt_collective *c,
                            size_t nbytes, mrt_error *e) {
  unsigned which = m->calls & 1;
  int size = m->comm.size;
  bool root = c->kind == MRT_COLLECT_broadcast;
  if (!root || c->peer == m->comm.rank)
    copy(m->mine->small[which], c->in, nbytes);
  MRT_TRY(mrt_shm_agree(m, c, (mrt_shm_operands){ 0 }, e));
  bool scatter = c->kind == MRT_COLLECT_reduce_scatter;
  size_t piece = mrt_collective_piece_bytes(c, size);
  for (int r = 0; r < size; r++)
    m->from[r] =
        m->board->mailboxes[r].small[which] + (size_t)m->comm.rank * piece;
  if (c->kind == MRT_COLLECT_allreduce || scatter)
    mrt_reduce(c->reduction, c->dtype, m->from, size, &(void *){ c->out }, 1,
               scatter ? c->count / size : c->count);
  else if (root)
    copy(c->out, m->from[c->peer], nbytes);
  else if (c->kind == MRT_COLLECT_shift)
    copy(c->out, m->from[mrt_shift_from(&m->comm, c)], nbytes);
  else if (mrt_collective_gathers(c))
    for (int r = 0; r < size; r++)
      copy((char *)c->out + (size_t)r * nbytes, m->from[r], nbytes);
  else if (c->kind == MRT_COLLECT_all_to_all)
    for (int r = 0; r < size; r++)
      copy((char *)c->out + (size_t)r * piece, m->from[r], piece);
  return MRT_OK;
}

/* Bytes of this rank that others read, and of others that it wrote. */
static uint64_t crossed(const mrt_shm_comm *m, const mrt_collective *c,
                        size_t nbytes) {
  uint64_t others = (uint64_t)m->comm.size - 1;
  int64_t end, begin = slice_of(m, c->count, m->comm.rank, &end);
  uint64_t mine =
      (uint64_t)(end - begin) * mrt_collective_dtype_bytes(c->dtype);
  switch (c->kind) {
  case MRT_COLLECT_allreduce:
    if (nbytes <= MRT_SHM_SMALL) return others * nbytes;
    return nbytes - mine + others * mine;
  case MRT_COLLECT_reduce_scatter:
  case MRT_COLLECT_all_to_all:
    return nbytes - nbytes / (others + 1);
  case MRT_COLLECT_broadcast:
    return c->peer == m->comm.rank ? others * nbytes : 0;
  case MRT_COLLECT_shift:
    return c->peer ? nbytes : 0;
  case MRT_COLLECT_compare: /* no data of the user's */
    return 0;
  default:
    return others * nbytes;
  }
}

static mrt_status run(mrt_shm_comm *m, const mrt_collective *c, mrt_error *e) {
  size_t nbytes = mrt_collective_in_bytes(c, m->comm.size);
  MRT_TRY(mrt_shm_check(m, e));
  if (c->kind == MRT_COLLECT_send || c->kind == MRT_COLLECT_recv)
    return mrt_shm_send_recv(m, c, e);
  m->calls++;
  if (nbytes <= MRT_SHM_SMALL)
    MRT_TRY(run_small(m, c, nbytes, e));
  else
    MRT_TRY(run_large(m, c, e));
  m->comm.sent += crossed(m, c, nbytes);
  return MRT_OK;
}

/* Inside before the check: who fails sees this rank, or is seen by it. */
mrt_status mrt_shm_run(mrt_communicator *comm, const mrt_collective *c,
                       mrt_error *e) {
  mrt_shm_comm *m = (mrt_shm_comm *)comm;
  atomic_store(&m->mine->inside, 1);
  mrt_status s = run(m, c, e);
  mrt_shm_leave(m, s != MRT_OK);
  return s;
}
