/* shm_send_recv.c -- send and recv: two ranks meet
 *
 * Each says in its mailbox whom it wants to meet.  The receiver compares what
 * the two ask for and copies from where the sender's data lie; where it cannot
 * see them, the sender passes them through the halves of its chunk.  The sender
 * goes on when it has been served.
 *
 * Two ranks that cannot meet are told so at once where that is certain: both
 * send, both receive, or one has come to a collective that wants both.
 *
 * SPDX-License-Identifier: MIT */
#include "shm.h"

#include <string.h>

enum { HALF = MRT_SHM_CHUNK / 2, PEER = 0xffff, RECV = 0x10000 };

static uint64_t word_of(uint64_t number, bool recv, int peer) {
  return number << 17 | (recv ? RECV : 0) | (uint64_t)(peer + 1);
}

static uint64_t load(const _Atomic uint64_t *x) {
  return atomic_load_explicit(x, memory_order_acquire);
}

static void store(_Atomic uint64_t *x, uint64_t value) {
  atomic_store_explicit(x, value, memory_order_release);
}

/* ---- what is waited for; another rank than the peer is not --------------- */

static bool is_served(const mrt_shm_comm *m, const mrt_shm_wait *w, int rank) {
  return rank != w->peer || load(&m->mine->served) >= w->want;
}

static bool has_taken(const mrt_shm_comm *m, const mrt_shm_wait *w, int rank) {
  return rank != w->peer || load(&m->mine->taken) >= w->want;
}

static bool has_filled(const mrt_shm_comm *m, const mrt_shm_wait *w, int rank) {
  return rank != w->peer || load(&m->board->mailboxes[rank].filled) >= w->want;
}

/* A send to this rank that has not been served yet. */
static bool has_offer(const mrt_shm_comm *m, const mrt_shm_wait *w, int rank) {
  const mrt_shm_mailbox *mailbox = &m->board->mailboxes[rank];
  uint64_t word = load(&mailbox->pair);
  return rank != w->peer ||
         ((word & (PEER | RECV)) == word_of(0, false, m->comm.rank) &&
          word >> 17 > load(&mailbox->served));
}

/* Both stand still when this is found, so what they ask for can be read. */
static mrt_status check_peer(mrt_shm_comm *m, const mrt_shm_wait *w,
                             mrt_error *e) {
  const mrt_shm_mailbox *mailbox = &m->board->mailboxes[w->peer];
  bool recv = w->c->kind == MRT_COLLECT_recv;
  uint64_t word = load(&mailbox->pair);
  bool alike = (word & (PEER | RECV)) == word_of(0, recv, m->comm.rank) &&
               (recv || word >> 17 > load(&mailbox->served));
  bool away = load(&mailbox->step) > m->step;
  if ((!alike && !away) || w->has(m, w, w->peer)) return MRT_OK;
  unsigned next = (m->calls + 1) & 1;
  mrt_descriptor_text mine =
      mrt_descriptor_print(&m->mine->p2p_descriptor, &m->mine->p2p_caller);
  mrt_descriptor_text other =
      alike
          ? mrt_descriptor_print(&mailbox->p2p_descriptor, &mailbox->p2p_caller)
          : mrt_descriptor_print(&mailbox->descriptor[next],
                                 &mailbox->caller[next]);
  return mrt_shm_mismatch(m, m->comm.rank, mine, w->peer, other, e);
}

static mrt_status wait_for(mrt_shm_comm *m, mrt_shm_wait w, mrt_error *e) {
  while (!w.has(m, &w, w.peer)) {
    MRT_TRY(check_peer(m, &w, e));
    MRT_TRY(mrt_shm_wait_turn(m, &w, e));
  }
  return MRT_OK;
}

/* ---- the two sides ------------------------------------------------------- */

static mrt_status give(mrt_shm_comm *m, const mrt_collective *c, size_t nbytes,
                       uint64_t number, mrt_error *e) {
  const char *in = c->in;
  char *chunk = mrt_shm_board_chunk(m->board, m->comm.rank, 0);
  mrt_shm_wait w = { .has = has_taken, .peer = c->peer, .c = c };
  for (size_t at = 0; !m->mine->p2p_in && at < nbytes; at += HALF) {
    size_t n = nbytes - at < HALF ? nbytes - at : HALF;
    w.want = m->filled > 0 ? m->filled - 1 : 0;
    MRT_TRY(wait_for(m, w, e));
    memcpy(chunk + (m->filled & 1) * HALF, in + at, n);
    store(&m->mine->filled, ++m->filled);
  }
  w = (mrt_shm_wait){
    .has = is_served, .want = number, .peer = c->peer, .c = c
  };
  MRT_TRY(wait_for(m, w, e));
  m->comm.sent += nbytes;
  return MRT_OK;
}

static mrt_status take(mrt_shm_comm *m, const mrt_collective *c, size_t nbytes,
                       mrt_error *e) {
  mrt_shm_mailbox *from = &m->board->mailboxes[c->peer];
  const char *chunk = mrt_shm_board_chunk(m->board, c->peer, 0);
  mrt_shm_wait w = { .has = has_offer, .peer = c->peer, .c = c };
  MRT_TRY(wait_for(m, w, e));
  const mrt_descriptor *theirs = &from->p2p_descriptor,
                       *mine = &m->mine->p2p_descriptor;
  if (theirs->what >> 8 != mine->what >> 8 || theirs->count != mine->count)
    return mrt_shm_mismatch(
        m, m->comm.rank, mrt_descriptor_print(mine, &m->mine->p2p_caller),
        c->peer, mrt_descriptor_print(theirs, &from->p2p_caller), e);
  if (from->p2p_in)
    memcpy(c->out, (char *)((uintptr_t)m->base + from->p2p_in), nbytes);
  uint64_t taken = load(&from->taken);
  w.has = has_filled;
  for (size_t at = 0; !from->p2p_in && at < nbytes; at += HALF) {
    size_t n = nbytes - at < HALF ? nbytes - at : HALF;
    w.want = taken + 1;
    MRT_TRY(wait_for(m, w, e));
    memcpy((char *)c->out + at, chunk + (taken & 1) * HALF, n);
    store(&from->taken, ++taken);
  }
  store(&m->mine->pair, 0); /* the sender, once served, must not see it */
  store(&from->served, load(&from->pair) >> 17);
  return MRT_OK;
}

mrt_status mrt_shm_send_recv(mrt_shm_comm *m, const mrt_collective *c,
                             mrt_error *e) {
  bool recv = c->kind == MRT_COLLECT_recv;
  mrt_shm_mailbox *mine = m->mine;
  size_t nbytes = (size_t)c->count * mrt_collective_dtype_bytes(c->dtype);
  uint64_t number = ++m->pairs;
  mine->p2p_descriptor = mrt_descriptor_of(c);
  mine->p2p_caller = mrt_caller_of(c);
  mine->p2p_in = recv ? 0 : mrt_shm_reference(m, c->in, nbytes);
  store(&mine->pair, word_of(number, recv, c->peer));
  MRT_TRY(recv ? take(m, c, nbytes, e) : give(m, c, nbytes, number, e));
  store(&mine->pair, 0);
  return MRT_OK;
}
