/* shm_health.c -- whether ranks live and keep pace, for a device that waits
 *
 * SPDX-License-Identifier: MIT */
#include "shm.h"

/* One that has closed may have finished all it had to do, or not. */
static mrt_status check_alive(mrt_shm_comm *m, uint64_t begun, mrt_error *e) {
  for (int r = 0; r < m->comm.size; r++) {
    const mrt_shm_mailbox *mailbox = &m->board->mailboxes[r];
    int state = atomic_load(&mailbox->state);
    if (state == MRT_MAILBOX_CLOSED && atomic_load(&mailbox->begun) < begun)
      return mrt_shm_fail(m, e,
                          "rank %d (pid %lld) has closed its communicator", r,
                          (long long)mailbox->pid);
    if (state != MRT_MAILBOX_OPEN || !mailbox->pid) continue;
    uint64_t now = mrt_shm_process_started(mailbox->pid);
    if (now == mailbox->started || now == UINT64_MAX) continue;
    return mrt_shm_fail(m, e, "rank %d (pid %lld) died", r,
                        (long long)mailbox->pid);
  }
  return MRT_OK;
}

/* What is read here of two words that another writes may not belong together:
 * a rank that seems apart is so only if it does again and again. */
mrt_status mrt_shm_health(mrt_communicator *comm, const mrt_progress *mine,
                          int *behind, int *apart, mrt_error *e) {
  mrt_shm_comm *m = (mrt_shm_comm *)comm;
  uint64_t least = mine->begun;
  *behind = *apart = -1;
  atomic_store(&m->mine->digest, mine->digest);
  atomic_store(&m->mine->begun, mine->begun);
  for (int r = 0; r < comm->size; r++) {
    const mrt_shm_mailbox *mailbox = &m->board->mailboxes[r];
    uint64_t begun = atomic_load(&mailbox->begun);
    if (begun < least) least = begun, *behind = r;
    if (begun == mine->begun && atomic_load(&mailbox->digest) != mine->digest)
      *apart = r;
  }
  MRT_TRY(mrt_shm_check(m, e));
  return check_alive(m, mine->begun, e);
}
