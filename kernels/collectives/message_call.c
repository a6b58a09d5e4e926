/* message_call.c -- a call by messages: agreed on, then done
 *
 * SPDX-License-Identifier: MIT */
#include "message.h"

#include <string.h>

/* ---- agreeing ------------------------------------------------------------ */

static mrt_asked_text print(const mrt_note *note) {
  return mrt_asked_print(&note->asked, &note->asker);
}

static mrt_status differ(mrt_messages *m, int a, const mrt_note *of_a, int b,
                         const mrt_note *of_b, mrt_error *e) {
  return mrt_hub_fail(m->hub, e, MRT_ASKED_DIFFER, a, print(of_a).s, b,
                      print(of_b).s);
}

static mrt_note note_of(const mrt_messages *m, mrt_note_kind kind,
                        const mrt_collective *c, uint64_t number) {
  return (mrt_note){ .kind = kind,
                     .channel = m->channel,
                     .number = number,
                     .asked = mrt_asked_of(c),
                     .asker = mrt_asker_of(c) };
}

static int asks_not(mrt_messages *m, mrt_wait *w, int rank, bool *broken) {
  (void)w, (void)broken;
  return m->asks[m->calls & 1][rank].number == m->calls ? -1 : rank;
}

/* The send or recv with this rank that `rank` has come to. */
static const mrt_note *pair_of(const mrt_messages *m, int rank, uint64_t n) {
  const mrt_note *note = &m->pairs[n & 1][rank];
  return note->number == n ? note : NULL;
}

/* Who waits in a send or recv for this rank does not come. */
static mrt_status check_pairs(mrt_messages *m, mrt_wait *w, mrt_error *e) {
  for (int r = 0; r < m->comm.size; r++) {
    bool broken;
    if (asks_not(m, w, r, &broken) < 0) continue;
    const mrt_note *pair = pair_of(m, r, m->met[r] + 1);
    if (pair)
      return differ(m, r, pair, m->comm.rank,
                    &m->asks[m->calls & 1][m->comm.rank], e);
  }
  return MRT_OK;
}

static mrt_status agree(mrt_messages *m, const mrt_collective *c, size_t small,
                        mrt_error *e) {
  int rank = m->comm.rank, size = m->comm.size;
  mrt_note *asks = m->asks[++m->calls & 1];
  bool gives = c->kind != MRT_COLLECT_broadcast || c->peer == rank;
  asks[rank] = note_of(m, MRT_NOTE_ASKS, c, m->calls);
  if (small && gives) memcpy(asks[rank].small, c->in, small);
  for (int i = 1; i < size; i++)
    MRT_TRY(mrt_messages_tell(m, (rank + i) % size, &asks[rank], c, e));
  mrt_wait w = {
    .c = c, .missing = asks_not, .count = size, .check = check_pairs
  };
  MRT_TRY(mrt_messages_wait(m, &w, e));
  for (int r = 1; r < size; r++)
    if (!mrt_asked_same(&asks[0].asked, &asks[r].asked))
      return differ(m, 0, &asks[0], r, &asks[r], e);
  return MRT_OK;
}

/* ---- small operands, in the notes ---------------------------------------- */

static void run_small(mrt_messages *m, const mrt_collective *c, size_t nbytes) {
  const mrt_note *asks = m->asks[m->calls & 1];
  int rank = m->comm.rank, size = m->comm.size;
  bool scatter = c->kind == MRT_COLLECT_reduce_scatter;
  size_t piece = scatter ? nbytes / (size_t)size : 0;
  for (int r = 0; r < size; r++)
    m->from[r] = asks[r].small + (size_t)rank * piece;
  if (scatter || c->kind == MRT_COLLECT_allreduce)
    mrt_reduce(c->reduction, c->dtype, m->from, size, &(void *){ c->out }, 1,
               scatter ? c->count / size : c->count);
  else if (c->kind == MRT_COLLECT_broadcast && nbytes)
    memcpy(c->out, m->from[c->peer], nbytes);
  else if (mrt_collective_gathers(c))
    for (int r = 0; r < size && nbytes; r++)
      memcpy((char *)c->out + (size_t)r * nbytes, m->from[r], nbytes);
  if (c->kind != MRT_COLLECT_broadcast || c->peer == rank)
    m->comm.sent += (uint64_t)(size - 1) * nbytes;
}

/* ---- two that meet ------------------------------------------------------- */

static int pairs_not(mrt_messages *m, mrt_wait *w, int i, bool *broken) {
  (void)i, (void)broken;
  return pair_of(m, w->peer, m->met[w->peer]) ? -1 : w->peer;
}

/* Who has come to a collective that wants both does not come here. */
static mrt_status check_away(mrt_messages *m, mrt_wait *w, mrt_error *e) {
  uint64_t next = m->calls + 1;
  const mrt_note *asks = &m->asks[next & 1][w->peer];
  mrt_note mine = note_of(m, MRT_NOTE_PAIRS, w->c, 0);
  if (asks->number != next || pair_of(m, w->peer, m->met[w->peer]))
    return MRT_OK;
  return differ(m, m->comm.rank, &mine, w->peer, asks, e);
}

static mrt_status pair(mrt_messages *m, const mrt_collective *c, mrt_error *e) {
  int rank = m->comm.rank, peer = c->peer;
  bool gives = c->kind == MRT_COLLECT_send;
  size_t nbytes = (size_t)c->count * mrt_collective_dtype_bytes(c->dtype);
  size_t small = nbytes <= MRT_NOTE_SMALL ? nbytes : 0;
  mrt_note mine = note_of(m, MRT_NOTE_PAIRS, c, ++m->met[peer]);
  if (small && gives) memcpy(mine.small, c->in, small);
  MRT_TRY(mrt_messages_tell(m, peer, &mine, c, e));
  mrt_wait w = {
    .c = c, .missing = pairs_not, .count = 1, .peer = peer, .check = check_away
  };
  MRT_TRY(mrt_messages_wait(m, &w, e));
  const mrt_note *other = pair_of(m, peer, m->met[peer]);
  if ((other->asked.what & 0xff) == (uint32_t)c->kind ||
      other->asked.what >> 8 != mine.asked.what >> 8 ||
      other->asked.count != c->count)
    return gives ? differ(m, peer, other, rank, &mine, e)
                 : differ(m, rank, &mine, peer, other, e);
  if (gives && small) m->comm.sent += small;
  if (!gives && small) memcpy(c->out, other->small, small);
  if (small) return MRT_OK;
  mrt_request r;
  mrt_messages_start(m, &r, peer, gives, gives ? (void *)c->in : c->out,
                     nbytes);
  return mrt_messages_finish(m, c, &r, 1, e);
}

mrt_status mrt_messages_run(mrt_communicator *comm, const mrt_collective *c,
                            mrt_error *e) {
  mrt_messages *m = (mrt_messages *)comm;
  size_t nbytes = mrt_collective_in_bytes(c, comm->size);
  if (m->hub->failed) return mrt_fail(e, MRT_ERANK, "%s", m->hub->message);
  if (c->kind == MRT_COLLECT_send || c->kind == MRT_COLLECT_recv)
    return pair(m, c, e);
  bool small = nbytes <= MRT_NOTE_SMALL;
  uint64_t before = comm->sent;
  MRT_TRY(agree(m, c, small ? nbytes : 0, e));
  mrt_status s = MRT_OK;
  if (small)
    run_small(m, c, nbytes);
  else if (m->ring && c->kind != MRT_COLLECT_broadcast)
    s = mrt_ring(m, c, e);
  else
    s = mrt_pairwise(m, c, e);
  /* those are no numbers of the user's */
  if (c->kind == MRT_COLLECT_compare) comm->sent = before;
  return s;
}
