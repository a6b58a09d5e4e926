/* shm_health.c -- how the ranks are, for who waits elsewhere: on a device
 *
 * SPDX-License-Identifier: MIT */
#include "shm.h"

/* One that has closed may have finished all it had to do, or not. */
static mrt_status check_alive(mrt_ranks *m, uint64_t begun, mrt_error *e) {
  for (int r = 0; r < m->comm.size; r++) {
    const mrt_slot *slot = &m->board->slots[r];
    int state = atomic_load(&slot->state);
    if (state == MRT_SLOT_CLOSED && atomic_load(&slot->begun) < begun)
      return mrt_board_fail(m, e,
                            "rank %d (pid %lld) has closed its communicator", r,
                            (long long)slot->pid);
    if (state != MRT_SLOT_OPEN || !slot->pid) continue;
    uint64_t now = mrt_process_started(slot->pid);
    if (now == slot->started || now == UINT64_MAX) continue;
    return mrt_board_fail(m, e, "rank %d (pid %lld) died", r,
                          (long long)slot->pid);
  }
  return MRT_OK;
}

/* What is read here of two words that another writes may not belong together:
 * a rank that seems apart is so only if it does again and again. */
mrt_status mrt_board_look(mrt_communicator *comm, const mrt_pace *mine,
                          int *behind, int *apart, mrt_error *e) {
  mrt_ranks *m = (mrt_ranks *)comm;
  uint64_t least = mine->begun;
  *behind = *apart = -1;
  atomic_store(&m->mine->digest, mine->digest);
  atomic_store(&m->mine->begun, mine->begun);
  for (int r = 0; r < comm->size; r++) {
    const mrt_slot *slot = &m->board->slots[r];
    uint64_t begun = atomic_load(&slot->begun);
    if (begun < least) least = begun, *behind = r;
    if (begun == mine->begun && atomic_load(&slot->digest) != mine->digest)
      *apart = r;
  }
  MRT_TRY(mrt_board_check(m, e));
  return check_alive(m, mine->begun, e);
}
