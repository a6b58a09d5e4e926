/* shm_comm.c -- a rank's side of a board: made, opened, shared, closed
 *
 * A rank lives as long as it is used: by its user, by its parts, and by every
 * block that it allocated where others can read it.
 *
 * SPDX-License-Identifier: MIT */
#include "shm.h"

mrt_status mrt_shm_comm_new(const mrt_allocator *a, const char *transport,
                            mrt_shm_board *board, int rank, mrt_shm_comm **out,
                            mrt_error *e) {
  mrt_shm_comm *m = mrt_calloc(a, 1, sizeof *m);
  const void **from = mrt_calloc(a, (size_t)board->size, sizeof *from);
  void **to = mrt_calloc(a, (size_t)board->size + 1, sizeof *to);
  if (!m || !from || !to) {
    mrt_release(a, m, sizeof *m);
    mrt_release(a, from, (size_t)board->size * sizeof *from);
    mrt_release(a, to, ((size_t)board->size + 1) * sizeof *to);
    return mrt_nomem(e);
  }
  *m = (mrt_shm_comm){ .comm = { .rank = rank,
                                 .size = board->size,
                                 .transport = transport,
                                 .here = board->size,
                                 .timeout = 30,
                                 .run = mrt_shm_run,
                                 .split = mrt_shm_split,
                                 .health = mrt_shm_health,
                                 .abort = mrt_shm_abort,
                                 .close = mrt_shm_close },
                       .allocator = a,
                       .refs = 1,
                       .board = board,
                       .mine = &board->mailboxes[rank],
                       .from = from,
                       .to = to };
  *out = m;
  return MRT_OK;
}

void mrt_shm_comm_open(mrt_shm_comm *m, int64_t pid, uint64_t started) {
  m->mine->pid = pid, m->mine->started = started;
  atomic_store_explicit(&m->mine->state, MRT_MAILBOX_OPEN,
                        memory_order_release);
}

void mrt_shm_comm_unref(mrt_shm_comm *m) {
  size_t size = (size_t)m->comm.size;
  if (--m->refs > 0) return;
  mrt_shm_comm *parent = m->parent;
  m->release(m);
  mrt_release(m->allocator, m->from, size * sizeof *m->from);
  mrt_release(m->allocator, m->to, (size + 1) * sizeof *m->to);
  mrt_release(m->allocator, m, sizeof *m);
  if (parent) mrt_shm_comm_unref(parent);
}

void mrt_shm_close(mrt_communicator *comm) {
  mrt_shm_comm *m = (mrt_shm_comm *)comm;
  atomic_store_explicit(&m->mine->state, MRT_MAILBOX_CLOSED,
                        memory_order_release);
  mrt_shm_comm_unref(m);
}
