/* message_call.c -- a collective, or a send and its recv: agreed on, then done
 *
 * SPDX-License-Identifier: MIT */
#include "message.h"

#include <string.h>

/* ---- agreeing ------------------------------------------------------------ */

static mrt_descriptor_text print(const mrt_control *msg) {
  return mrt_descriptor_print(&msg->descriptor, &msg->caller);
}

static mrt_status differ(mrt_message_comm *m, int a, const mrt_control *of_a,
                         int b, const mrt_control *of_b, mrt_error *e) {
  return mrt_endpoint_fail(m->endpoint, e, MRT_DESCRIPTORS_DIFFER, a,
                           print(of_a).s, b, print(of_b).s);
}

static mrt_control control_of(const mrt_message_comm *m, mrt_control_kind kind,
                              const mrt_collective *c, uint64_t number) {
  return (mrt_control){ .kind = kind,
                        .id = m->id,
                        .number = number,
                        .descriptor = mrt_descriptor_of(c),
                        .caller = mrt_caller_of(c) };
}

static int not_entered(mrt_message_comm *m, mrt_message_wait *w, int rank,
                       bool *broken) {
  (void)w, (void)broken;
  return m->entered[m->calls & 1][rank].number == m->calls ? -1 : rank;
}

/* The send or recv with this rank that `rank` has come to. */
static const mrt_control *p2p_of(const mrt_message_comm *m, int rank,
                                 uint64_t n) {
  const mrt_control *msg = &m->p2p[n & 1][rank];
  return msg->number == n ? msg : NULL;
}

/* Who waits in a send or recv for this rank does not come. */
static mrt_status check_p2p(mrt_message_comm *m, mrt_message_wait *w,
                            mrt_error *e) {
  for (int r = 0; r < m->comm.size; r++) {
    bool broken;
    if (not_entered(m, w, r, &broken) < 0) continue;
    const mrt_control *send_recv = p2p_of(m, r, m->p2p_calls[r] + 1);
    if (send_recv)
      return differ(m, r, send_recv, m->comm.rank,
                    &m->entered[m->calls & 1][m->comm.rank], e);
  }
  return MRT_OK;
}

static mrt_status agree(mrt_message_comm *m, const mrt_collective *c,
                        size_t small, mrt_error *e) {
  int rank = m->comm.rank, size = m->comm.size;
  mrt_control *entered = m->entered[++m->calls & 1];
  bool gives = c->kind != MRT_COLLECT_broadcast || c->peer == rank;
  entered[rank] = control_of(m, MRT_CONTROL_COLLECTIVE, c, m->calls);
  if (small && gives) memcpy(entered[rank].small, c->in, small);
  for (int i = 1; i < size; i++)
    MRT_TRY(
        mrt_message_send_control(m, (rank + i) % size, &entered[rank], c, e));
  mrt_message_wait w = {
    .c = c, .missing = not_entered, .count = size, .check = check_p2p
  };
  MRT_TRY(mrt_message_await(m, &w, e));
  for (int r = 1; r < size; r++)
    if (!mrt_descriptor_same(&entered[0].descriptor, &entered[r].descriptor))
      return differ(m, 0, &entered[0], r, &entered[r], e);
  return MRT_OK;
}

/* ---- small operands, in the control messages ----------------------------- */

static void run_small(mrt_message_comm *m, const mrt_collective *c,
                      size_t nbytes) {
  const mrt_control *entered = m->entered[m->calls & 1];
  int rank = m->comm.rank, size = m->comm.size;
  bool scatter = c->kind == MRT_COLLECT_reduce_scatter;
  size_t piece = mrt_collective_piece_bytes(c, size);
  for (int r = 0; r < size; r++)
    m->from[r] = entered[r].small + (size_t)rank * piece;
  if (scatter || c->kind == MRT_COLLECT_allreduce)
    mrt_reduce(c->reduction, c->dtype, m->from, size, &(void *){ c->out }, 1,
               scatter ? c->count / size : c->count);
  else if (c->kind == MRT_COLLECT_broadcast && nbytes)
    memcpy(c->out, m->from[c->peer], nbytes);
  else if (c->kind == MRT_COLLECT_shift && nbytes)
    memcpy(c->out, m->from[mrt_shift_from(&m->comm, c)], nbytes);
  else if (mrt_collective_gathers(c))
    for (int r = 0; r < size && nbytes; r++)
      memcpy((char *)c->out + (size_t)r * nbytes, m->from[r], nbytes);
  else if (c->kind == MRT_COLLECT_all_to_all)
    for (int r = 0; r < size && piece; r++)
      memcpy((char *)c->out + (size_t)r * piece, m->from[r], piece);
  if (c->kind == MRT_COLLECT_shift)
    m->comm.sent += c->peer ? nbytes : 0; /* for one of those who got it */
  else if (c->kind != MRT_COLLECT_broadcast || c->peer == rank)
    m->comm.sent += (uint64_t)(size - 1) * nbytes;
}

/* ---- everyone to one, and from one --------------------------------------- */

static mrt_status shift(mrt_message_comm *m, const mrt_collective *c,
                        size_t nbytes, mrt_error *e) {
  int from = mrt_shift_from(&m->comm, c);
  if (!c->peer) return memcpy(c->out, c->in, nbytes), MRT_OK;
  mrt_request r[2];
  mrt_message_start(m, &r[0], from, false, c->out, nbytes);
  mrt_message_start(m, &r[1], (m->comm.rank + c->peer) % m->comm.size, true,
                    (void *)c->in, nbytes);
  return mrt_message_finish(m, c, r, 2, e);
}

/* ---- two that meet ------------------------------------------------------- */

static int not_paired(mrt_message_comm *m, mrt_message_wait *w, int i,
                      bool *broken) {
  (void)i, (void)broken;
  return p2p_of(m, w->peer, m->p2p_calls[w->peer]) ? -1 : w->peer;
}

/* Who has come to a collective that wants both does not come here. */
static mrt_status check_away(mrt_message_comm *m, mrt_message_wait *w,
                             mrt_error *e) {
  uint64_t next = m->calls + 1;
  const mrt_control *entered = &m->entered[next & 1][w->peer];
  mrt_control mine = control_of(m, MRT_CONTROL_P2P, w->c, 0);
  if (entered->number != next || p2p_of(m, w->peer, m->p2p_calls[w->peer]))
    return MRT_OK;
  return differ(m, m->comm.rank, &mine, w->peer, entered, e);
}

static mrt_status send_recv(mrt_message_comm *m, const mrt_collective *c,
                            mrt_error *e) {
  int rank = m->comm.rank, peer = c->peer;
  bool gives = c->kind == MRT_COLLECT_send;
  size_t nbytes = (size_t)c->count * mrt_collective_dtype_bytes(c->dtype);
  size_t small = nbytes <= MRT_CONTROL_SMALL ? nbytes : 0;
  mrt_control mine = control_of(m, MRT_CONTROL_P2P, c, ++m->p2p_calls[peer]);
  if (small && gives) memcpy(mine.small, c->in, small);
  MRT_TRY(mrt_message_send_control(m, peer, &mine, c, e));
  mrt_message_wait w = {
    .c = c, .missing = not_paired, .count = 1, .peer = peer, .check = check_away
  };
  MRT_TRY(mrt_message_await(m, &w, e));
  const mrt_control *other = p2p_of(m, peer, m->p2p_calls[peer]);
  if ((other->descriptor.what & 0xff) == (uint32_t)c->kind ||
      other->descriptor.what >> 8 != mine.descriptor.what >> 8 ||
      other->descriptor.count != c->count)
    return gives ? differ(m, peer, other, rank, &mine, e)
                 : differ(m, rank, &mine, peer, other, e);
  if (gives && small) m->comm.sent += small;
  if (!gives && small) memcpy(c->out, other->small, small);
  if (small) return MRT_OK;
  mrt_request r;
  mrt_message_start(m, &r, peer, gives, gives ? (void *)c->in : c->out, nbytes);
  return mrt_message_finish(m, c, &r, 1, e);
}

mrt_status mrt_message_run(mrt_communicator *comm, const mrt_collective *c,
                           mrt_error *e) {
  mrt_message_comm *m = (mrt_message_comm *)comm;
  size_t nbytes = mrt_collective_in_bytes(c, comm->size);
  if (m->endpoint->failed)
    return mrt_fail(e, MRT_ERANK, "%s", m->endpoint->message);
  if (c->kind == MRT_COLLECT_send || c->kind == MRT_COLLECT_recv)
    return send_recv(m, c, e);
  bool small = nbytes <= MRT_CONTROL_SMALL;
  uint64_t before = comm->sent;
  MRT_TRY(agree(m, c, small ? nbytes : 0, e));
  mrt_status s = MRT_OK;
  if (small)
    run_small(m, c, nbytes);
  else if (c->kind == MRT_COLLECT_all_to_all)
    s = mrt_message_exchange(m, c, e);
  else if (c->kind == MRT_COLLECT_shift)
    s = shift(m, c, nbytes, e);
  else if (m->ring && c->kind != MRT_COLLECT_broadcast)
    s = mrt_message_ring(m, c, e);
  else
    s = mrt_message_pairwise(m, c, e);
  /* those are no data of the user's */
  if (c->kind == MRT_COLLECT_compare) comm->sent = before;
  return s;
}
