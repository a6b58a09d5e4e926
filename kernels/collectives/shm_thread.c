/* shm_thread.c -- ranks as threads of one process
 *
 * The board lies in the process's memory and every operand is read where it
 * lies.
 *
 * SPDX-License-Identifier: MIT */
#include "shm.h"

static void release(mrt_shm_comm *m) {
  if (atomic_fetch_add(&m->board->closed, 1) + 1 == m->comm.size)
    mrt_shm_board_free(m->allocator, m->board);
}

mrt_status mrt_threads_new(const mrt_allocator *a, int size,
                           mrt_communicator **out, mrt_error *e) {
  if (size < 1 || size > MRT_SHM_RANKS)
    return mrt_fail(e, MRT_EVALUE, "%d ranks, 1 to %d wanted", size,
                    MRT_SHM_RANKS);
  mrt_shm_board *board = mrt_shm_board_new(a, size);
  if (!board) return mrt_nomem(e);
  for (int r = 0; r < size; r++) {
    mrt_shm_comm *m;
    mrt_status status = mrt_shm_comm_new(a, "threads", board, r, &m, e);
    if (status != MRT_OK) {
      atomic_fetch_add(&board->closed, size - r);
      if (r == 0) mrt_shm_board_free(a, board);
      while (r-- > 0) out[r]->close(out[r]);
      return status;
    }
    m->release = release;
    mrt_shm_comm_open(m, 0, 0);
    out[r] = &m->comm;
  }
  return MRT_OK;
}
