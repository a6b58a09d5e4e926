/* shm_process.c -- ranks as processes of one host
 *
 *     object:  board | heap of rank 0 | heap of rank 1 | ...
 *
 * One sparse object of shared memory that every rank maps whole, so any rank's
 * heap is read where it lies.
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "shm_process.h"
#include "shm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PAGE = 4096 };

/* Another build's board would be laid out otherwise. */
static uint64_t magic(void) {
  return UINT64_C(0x6d7274) << 40 ^ (uint64_t)sizeof(mrt_shm_board) << 28 ^
         (uint64_t)sizeof(mrt_shm_mailbox) << 8 ^ MRT_SHM_CHUNK >> 12;
}

static size_t pages(size_t nbytes) { return (nbytes + PAGE - 1) / PAGE * PAGE; }

/* ---- the object ---------------------------------------------------------- */

static size_t memory_of_machine(void) {
  long count = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  return count > 0 && page > 0 ? (size_t)count * (size_t)page : (size_t)1 << 32;
}

static mrt_status fill(int fd, int size, const char *token, size_t heap_bytes,
                       mrt_error *e) {
  size_t at = pages(mrt_shm_board_bytes(size));
  if (ftruncate(fd, (off_t)(at + (size_t)size * heap_bytes)) != 0)
    return mrt_fail(e, MRT_EFILE, "shared memory of %d x %zu bytes: %s", size,
                    heap_bytes, strerror(errno));
  mrt_shm_board *board =
      mmap(NULL, at, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (board == MAP_FAILED)
    return mrt_fail(e, MRT_EFILE, "shared memory of %zu bytes: %s", at,
                    strerror(errno));
  mrt_shm_board_init(board, size);
  board->magic = magic();
  board->heap_at = at, board->heap_bytes = heap_bytes;
  snprintf(board->token, sizeof board->token, "%s", token);
  munmap(board, at);
  return MRT_OK;
}

mrt_status mrt_shm_create(int size, const char *token, size_t heap_bytes,
                          char name[MRT_SHM_NAME], int *fd, mrt_error *e) {
  if (size < 1 || size > MRT_SHM_RANKS)
    return mrt_fail(e, MRT_EVALUE, "%d ranks, 1 to %d wanted", size,
                    MRT_SHM_RANKS);
  if (strlen(token) >= MRT_SHM_TOKEN)
    return mrt_fail(e, MRT_EVALUE,
                    "a token of %zu characters, at most %d wanted",
                    strlen(token), MRT_SHM_TOKEN - 1);
  size_t most = ((size_t)1 << 46) / (size_t)size, all = memory_of_machine();
  if (!heap_bytes) heap_bytes = all < most ? all : most;
  if (heap_bytes > most)
    return mrt_fail(e, MRT_EVALUE,
                    "heaps of %zu bytes for %d ranks, 2^46 bytes is the most",
                    heap_bytes, size);
  int object = memfd_create("mrt", MFD_CLOEXEC);
  if (object < 0)
    return mrt_fail(e, MRT_EFILE, "shared memory: %s", strerror(errno));
  mrt_status status = fill(object, size, token, pages(heap_bytes), e);
  if (status != MRT_OK) return close(object), status;
  snprintf(name, MRT_SHM_NAME, "/proc/%lld/fd/%d", (long long)getpid(), object);
  *fd = object;
  return MRT_OK;
}

/* ---- a rank -------------------------------------------------------------- */

/* What is allocated keeps the mapping, also when the rank has closed. */
static void *alloc(mrt_communicator *comm, size_t nbytes) {
  mrt_shm_comm *m = (mrt_shm_comm *)comm;
  void *data = mrt_shm_heap_alloc(m->allocator, m->heap, nbytes);
  if (data) m->refs++;
  return data;
}

static void free_data(mrt_communicator *comm, void *data, size_t nbytes) {
  mrt_shm_comm *m = (mrt_shm_comm *)comm;
  (void)nbytes;
  if (!data) return;
  mrt_shm_heap_free(m->heap, data);
  mrt_shm_comm_unref(m);
}

/* Nobody reads this rank's heap any more once all have closed; its pages go
 * with the last mapping. */
static void release(mrt_shm_comm *m) {
  mrt_shm_heap *heap = m->heap;
  munmap(m->base, heap->object);
  mrt_release(m->allocator, heap->blocks,
              (size_t)heap->capacity * sizeof *heap->blocks);
  mrt_release(m->allocator, heap, sizeof *heap);
}

static mrt_status check(const mrt_shm_board *b, const char *name, size_t nbytes,
                        int rank, int size, const char *token, mrt_error *e) {
  if (nbytes < sizeof *b || b->magic != magic())
    return mrt_fail(e, MRT_EFILE, "%s: not shared memory of this build's ranks",
                    name);
  if (b->size != size)
    return mrt_fail(e, MRT_ERANK, "%s: shared memory for %d ranks, %d wanted",
                    name, b->size, size);
  if (strncmp(b->token, token, sizeof b->token) != 0)
    return mrt_fail(e, MRT_ERANK,
                    "%s: shared memory of another run (token %.63s, %s wanted)",
                    name, b->token, token);
  if (rank < 0 || rank >= size)
    return mrt_fail(e, MRT_EVALUE, "rank %d, 0 to %d wanted", rank, size - 1);
  if (nbytes != b->heap_at + (size_t)size * b->heap_bytes)
    return mrt_fail(e, MRT_EFILE, "%s: %zu bytes of shared memory, %zu wanted",
                    name, nbytes,
                    (size_t)b->heap_at + (size_t)size * (size_t)b->heap_bytes);
  return MRT_OK;
}

/* Maps the object whole; fills `*nbytes`. */
static mrt_status map(const char *name, char **base, size_t *nbytes,
                      mrt_error *e) {
  struct stat info;
  int fd = open(name, O_RDWR | O_CLOEXEC);
  bool ok = fd >= 0 && fstat(fd, &info) == 0;
  *nbytes = ok ? (size_t)info.st_size : 0;
  if (ok && *nbytes < sizeof(mrt_shm_board)) {
    close(fd);
    return mrt_fail(e, MRT_EFILE, "%s: not shared memory of ranks", name);
  }
  void *at = MAP_FAILED;
  if (ok)
    at = mmap(NULL, *nbytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
              fd, 0);
  int code = errno;
  if (fd >= 0) close(fd);
  if (at == MAP_FAILED)
    return mrt_fail(e, MRT_EFILE, "%s: shared memory of %zu bytes: %s", name,
                    *nbytes, strerror(code));
  *base = at;
  madvise(at, *nbytes, MADV_DONTDUMP);
  return MRT_OK;
}

static bool has_come(const mrt_shm_comm *m, const mrt_shm_wait *w, int rank) {
  (void)w;
  return atomic_load_explicit(&m->board->mailboxes[rank].state,
                              memory_order_acquire) >= MRT_MAILBOX_OPEN;
}

static mrt_status wait_for_all(mrt_shm_comm *m, mrt_error *e) {
  mrt_shm_wait w = { .has = has_come };
  MRT_TRY(mrt_shm_check(m, e));
  for (int r = 0; r < m->comm.size; r++)
    while (!has_come(m, &w, r)) MRT_TRY(mrt_shm_wait_turn(m, &w, e));
  return MRT_OK;
}

static mrt_status take_mailbox(mrt_shm_board *b, int rank, mrt_error *e) {
  int empty = MRT_MAILBOX_EMPTY;
  mrt_shm_mailbox *mailbox = &b->mailboxes[rank];
  if (atomic_compare_exchange_strong(&mailbox->state, &empty,
                                     MRT_MAILBOX_TAKEN))
    return MRT_OK;
  return mrt_fail(e, MRT_ERANK, "rank %d is taken, by process %lld", rank,
                  (long long)mailbox->pid);
}

/* Takes the mapping, which `release` ends. */
static mrt_status new_rank(const mrt_allocator *a, char *base, size_t nbytes,
                           int rank, mrt_shm_comm **out, mrt_error *e) {
  mrt_shm_board *board = (void *)base;
  mrt_shm_heap *heap = mrt_calloc(a, 1, sizeof *heap);
  if (!heap) return mrt_nomem(e);
  mrt_status status = mrt_shm_comm_new(a, "shared", board, rank, out, e);
  if (status != MRT_OK) return mrt_release(a, heap, sizeof *heap), status;
  *heap = (mrt_shm_heap){ .at = base + board->heap_at +
                                (size_t)rank * board->heap_bytes,
                          .nbytes = board->heap_bytes,
                          .object = nbytes };
  mrt_shm_comm *m = *out;
  m->base = base, m->heap = heap, m->release = release;
  m->comm.heap = heap->at, m->comm.heap_bytes = heap->nbytes;
  m->comm.alloc = alloc, m->comm.free = free_data;
  return MRT_OK;
}

mrt_status mrt_shm_open(const mrt_allocator *a, const char *name, int rank,
                        int size, const char *token, double timeout,
                        mrt_communicator **out, mrt_error *e) {
  char *base = NULL;
  size_t nbytes = 0;
  mrt_shm_comm *m;
  MRT_TRY(map(name, &base, &nbytes, e));
  mrt_shm_board *board = (void *)base;
  mrt_status status = check(board, name, nbytes, rank, size, token, e);
  if (status == MRT_OK) status = take_mailbox(board, rank, e);
  if (status == MRT_OK) status = new_rank(a, base, nbytes, rank, &m, e);
  if (status != MRT_OK) return munmap(base, nbytes), status;
  m->comm.timeout = timeout;
  mrt_shm_comm_open(m, getpid(), mrt_shm_process_started(getpid()));
  *out = &m->comm;
  return MRT_OK;
}

mrt_status mrt_shm_attach(const mrt_allocator *a, const char *name, int rank,
                          int size, const char *token, double timeout,
                          mrt_communicator **out, mrt_error *e) {
  MRT_TRY(mrt_shm_open(a, name, rank, size, token, timeout, out, e));
  mrt_status status = wait_for_all((mrt_shm_comm *)*out, e);
  if (status != MRT_OK) (*out)->close(*out);
  return status;
}
