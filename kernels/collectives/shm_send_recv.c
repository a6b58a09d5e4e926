/* shm_send_recv.c -- send and recv: two ranks meet
 *
 * Each says in its slot whom it wants to meet.  The receiver compares what the
 * two ask for and copies from where the sender's numbers lie; where it cannot
 * see them, the sender passes them through the halves of its chunk.  The
 * sender goes on when it has been served.
 *
 * Two ranks that cannot meet are told so at once where that is certain: both
 * send, both receive, or one has come to a collective that wants both.
 *
 * SPDX-License-Identifier: MIT */
#include "shm.h"

#include <string.h>

enum { HALF = MRT_BOARD_CHUNK / 2, PEER = 0xffff, RECV = 0x10000 };

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

static bool is_served(const mrt_ranks *m, const mrt_waiting *w, int rank) {
  return rank != w->peer || load(&m->mine->served) >= w->want;
}

static bool has_taken(const mrt_ranks *m, const mrt_waiting *w, int rank) {
  return rank != w->peer || load(&m->mine->taken) >= w->want;
}

static bool has_filled(const mrt_ranks *m, const mrt_waiting *w, int rank) {
  return rank != w->peer || load(&m->board->slots[rank].filled) >= w->want;
}

/* A send to this rank that has not been served yet. */
static bool has_offer(const mrt_ranks *m, const mrt_waiting *w, int rank) {
  const mrt_slot *slot = &m->board->slots[rank];
  uint64_t word = load(&slot->pair);
  return rank != w->peer ||
         ((word & (PEER | RECV)) == word_of(0, false, m->comm.rank) &&
          word >> 17 > load(&slot->served));
}

/* Both stand still when this is found, so what they ask for can be read. */
static mrt_status check_peer(mrt_ranks *m, const mrt_waiting *w, mrt_error *e) {
  const mrt_slot *slot = &m->board->slots[w->peer];
  bool recv = w->c->kind == MRT_COLLECT_recv;
  uint64_t word = load(&slot->pair);
  bool alike = (word & (PEER | RECV)) == word_of(0, recv, m->comm.rank) &&
               (recv || word >> 17 > load(&slot->served));
  bool away = load(&slot->step) > m->step;
  if ((!alike && !away) || w->has(m, w, w->peer)) return MRT_OK;
  unsigned next = (m->calls + 1) & 1;
  mrt_asked_text mine =
      mrt_asked_print(&m->mine->pair_asked, &m->mine->pair_asker);
  mrt_asked_text other =
      alike ? mrt_asked_print(&slot->pair_asked, &slot->pair_asker)
            : mrt_asked_print(&slot->asked[next], &slot->asker[next]);
  return mrt_asked_differ(m, m->comm.rank, mine, w->peer, other, e);
}

static mrt_status wait_for(mrt_ranks *m, mrt_waiting w, mrt_error *e) {
  while (!w.has(m, &w, w.peer)) {
    MRT_TRY(check_peer(m, &w, e));
    MRT_TRY(mrt_board_turn(m, &w, e));
  }
  return MRT_OK;
}

/* ---- the two sides ------------------------------------------------------- */

static mrt_status give(mrt_ranks *m, const mrt_collective *c, size_t nbytes,
                       uint64_t number, mrt_error *e) {
  const char *in = c->in;
  char *chunk = mrt_board_chunk(m->board, m->comm.rank, 0);
  mrt_waiting w = { .has = has_taken, .peer = c->peer, .c = c };
  for (size_t at = 0; !m->mine->pair_in && at < nbytes; at += HALF) {
    size_t n = nbytes - at < HALF ? nbytes - at : HALF;
    w.want = m->filled > 0 ? m->filled - 1 : 0;
    MRT_TRY(wait_for(m, w, e));
    memcpy(chunk + (m->filled & 1) * HALF, in + at, n);
    store(&m->mine->filled, ++m->filled);
  }
  w = (mrt_waiting){
    .has = is_served, .want = number, .peer = c->peer, .c = c
  };
  MRT_TRY(wait_for(m, w, e));
  m->comm.sent += nbytes;
  return MRT_OK;
}

static mrt_status take(mrt_ranks *m, const mrt_collective *c, size_t nbytes,
                       mrt_error *e) {
  mrt_slot *from = &m->board->slots[c->peer];
  const char *chunk = mrt_board_chunk(m->board, c->peer, 0);
  mrt_waiting w = { .has = has_offer, .peer = c->peer, .c = c };
  MRT_TRY(wait_for(m, w, e));
  const mrt_asked *theirs = &from->pair_asked, *mine = &m->mine->pair_asked;
  if (theirs->what >> 8 != mine->what >> 8 || theirs->count != mine->count)
    return mrt_asked_differ(
        m, m->comm.rank, mrt_asked_print(mine, &m->mine->pair_asker), c->peer,
        mrt_asked_print(theirs, &from->pair_asker), e);
  if (from->pair_in)
    memcpy(c->out, (char *)((uintptr_t)m->base + from->pair_in), nbytes);
  uint64_t taken = load(&from->taken);
  w.has = has_filled;
  for (size_t at = 0; !from->pair_in && at < nbytes; at += HALF) {
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

mrt_status mrt_board_pair(mrt_ranks *m, const mrt_collective *c, mrt_error *e) {
  bool recv = c->kind == MRT_COLLECT_recv;
  mrt_slot *mine = m->mine;
  size_t nbytes = (size_t)c->count * mrt_collective_dtype_bytes(c->dtype);
  uint64_t number = ++m->pairs;
  mine->pair_asked = mrt_asked_of(c);
  mine->pair_asker = mrt_asker_of(c);
  mine->pair_in = recv ? 0 : mrt_reference(m, c->in, nbytes);
  store(&mine->pair, word_of(number, recv, c->peer));
  MRT_TRY(recv ? take(m, c, nbytes, e) : give(m, c, nbytes, number, e));
  store(&mine->pair, 0);
  return MRT_OK;
}
