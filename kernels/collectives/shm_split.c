/* shm_split.c -- parts of a communicator; boards in memory of this process
 *
 * The first rank of each part allocates its board and tells the others where
 * it is, over the whole communicator.
 *
 * SPDX-License-Identifier: MIT */
#include "shm.h"

uint64_t mrt_shm_reference(const mrt_shm_comm *m, const void *data,
                           size_t nbytes) {
  uintptr_t at = (uintptr_t)data, base = (uintptr_t)m->base;
  if (!m->heap) return at;
  size_t object = m->heap->object;
  bool inside =
      at > base && at - base < object && nbytes <= object - (at - base);
  return inside ? at - base : 0;
}

/* Slots begin lines of the cache; the allocator promises 16 bytes. */
mrt_shm_board *mrt_shm_board_new(const mrt_allocator *a, int size) {
  char *block = mrt_resize(a, NULL, 0, mrt_shm_board_bytes(size) + 64);
  if (!block) return NULL;
  mrt_shm_board *board = (void *)(block + (-(uintptr_t)block & 63));
  mrt_shm_board_init(board, size);
  board->block = block;
  return board;
}

void mrt_shm_board_free(const mrt_allocator *a, mrt_shm_board *board) {
  mrt_release(a, board->block, (size_t)board->nbytes + 64);
}

/* ---- splitting ----------------------------------------------------------- */

static mrt_status gather(mrt_shm_comm *m, mrt_dtype dtype, int64_t each,
                         const void *in, void *out, mrt_error *e) {
  mrt_collective c = { .kind = MRT_COLLECT_allgather,
                       .dtype = dtype,
                       .count = each * m->comm.size,
                       .in = in,
                       .out = out,
                       .file = "split" };
  return mrt_shm_run(&m->comm, &c, e);
}

static bool before(const mrt_split_key *all, int a, int b) {
  return all[a].key < all[b].key || (all[a].key == all[b].key && a < b);
}

mrt_split_place mrt_split_place_of(const mrt_split_key *all, int rank,
                                   int size) {
  mrt_split_place p = { .first = rank };
  for (int r = 0; r < size; r++) {
    if (all[r].color != all[rank].color) continue;
    p.size++;
    p.rank += before(all, r, rank);
    if (before(all, r, p.first)) p.first = r;
  }
  return p;
}

static mrt_shm_board *board_of_part(mrt_shm_comm *m, int size) {
  if (!m->heap) return mrt_shm_board_new(m->allocator, size);
  mrt_shm_board *board =
      mrt_shm_heap_alloc(m->allocator, m->heap, mrt_shm_board_bytes(size));
  if (board) mrt_shm_board_init(board, size);
  return board;
}

static void free_board(mrt_shm_comm *m, mrt_shm_board *board) {
  if (!m->heap)
    mrt_shm_board_free(m->allocator, board);
  else
    mrt_shm_heap_free(m->heap, board);
}

/* Of processes only the first rank can free the board, and it stays when
 * others still use it then. */
static void release_part(mrt_shm_comm *m) {
  bool last = atomic_fetch_add(&m->board->closed, 1) + 1 == m->comm.size;
  if (last && (m->leads || !m->heap)) free_board(m, m->board);
}

static mrt_status new_part(mrt_shm_comm *m, const mrt_split_place *p,
                           uint64_t reference, mrt_communicator **out,
                           mrt_error *e) {
  mrt_shm_board *board = (void *)((uintptr_t)m->base + reference);
  mrt_shm_comm *part;
  MRT_TRY(mrt_shm_comm_new(m->allocator, m->comm.transport, board, p->rank,
                           &part, e));
  part->comm.timeout = m->comm.timeout;
  part->comm.interrupted = m->comm.interrupted;
  part->comm.heap = m->comm.heap, part->comm.heap_bytes = m->comm.heap_bytes;
  part->comm.alloc = m->comm.alloc, part->comm.free = m->comm.free;
  part->base = m->base, part->heap = m->heap;
  part->leads = p->rank == 0;
  part->release = release_part;
  part->parent = m, m->refs++;
  mrt_shm_comm_open(part, m->mine->pid, m->mine->started);
  *out = &part->comm;
  return MRT_OK;
}

/* All ranks take part in both gatherings and in the last meeting, whatever
 * fails in one of them. */
static mrt_status split(mrt_shm_comm *m, mrt_split_key *all, uint64_t *boards,
                        mrt_communicator **out, mrt_error *e) {
  int rank = m->comm.rank;
  mrt_split_key mine = all[rank];
  MRT_TRY(gather(m, MRT_i32, 2, &mine, all, e));
  mrt_split_place p = mrt_split_place_of(all, rank, m->comm.size);
  mrt_shm_board *board = NULL;
  if (mine.color >= 0 && p.rank == 0) board = board_of_part(m, p.size);
  uint64_t reference = (uintptr_t)board - (board ? (uintptr_t)m->base : 0);
  MRT_TRY(gather(m, MRT_i64, 1, &reference, boards, e));
  mrt_status status = MRT_OK;
  if (mine.color >= 0)
    status = boards[p.first] ? new_part(m, &p, boards[p.first], out, e)
                             : mrt_nomem(e);
  mrt_collective barrier = { .kind = MRT_COLLECT_barrier, .file = "split" };
  mrt_error other;
  mrt_status met = mrt_shm_run(&m->comm, &barrier, &other);
  if (status == MRT_OK && met != MRT_OK) {
    if (*out) (*out)->close(*out), *out = NULL;
    return mrt_fail(e, met, "%s", other.message);
  }
  return status;
}

mrt_status mrt_shm_split(mrt_communicator *comm, int color, int key,
                         mrt_communicator **out, mrt_error *e) {
  mrt_shm_comm *m = (mrt_shm_comm *)comm;
  size_t size = (size_t)comm->size;
  *out = NULL;
  mrt_split_key *all = mrt_calloc(m->allocator, size, sizeof *all);
  uint64_t *boards = mrt_calloc(m->allocator, size, sizeof *boards);
  mrt_status status = MRT_ENOMEM;
  if (all && boards) {
    all[comm->rank] = (mrt_split_key){ color, key };
    status = split(m, all, boards, out, e);
  } else {
    comm->abort(comm, "out of memory in split");
    mrt_nomem(e);
  }
  mrt_release(m->allocator, all, size * sizeof *all);
  mrt_release(m->allocator, boards, size * sizeof *boards);
  return status;
}
