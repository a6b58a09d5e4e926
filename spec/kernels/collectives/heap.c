/* shm_heap.c -- memory that other ranks see: nothing overlaps, all is given back
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "base/memory.h"
#include "team.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEAP = 8 << 20, BLOCKS = 64, TURNS = 20000 };

typedef struct block {
  unsigned char *at;
  size_t nbytes;
} block;

static size_t pages_of(int fd) {
  struct stat info;
  fstat(fd, &info);
  return (size_t)info.st_blocks / 8;
}

/* A block's first and last byte say whose it is. */
static int turn(mrt_communicator *comm, block *b, int mark, unsigned *seed) {
  int wrong = 0;
  if (b->at) {
    wrong = b->at[0] != mark || b->at[b->nbytes - 1] != mark;
    comm->free(comm, b->at, b->nbytes);
    b->at = NULL;
    return wrong;
  }
  b->nbytes = 1 + (size_t)rand_r(seed) % (HEAP / BLOCKS * 2);
  b->at = comm->alloc(comm, b->nbytes);
  if (!b->at) return 0; /* full */
  memset(b->at, mark, b->nbytes);
  return (uintptr_t)b->at % 64 != 0;
}

int heap(void) {
  char name[MRT_SHM_NAME];
  int fd, wrong = 0;
  unsigned seed = 1;
  block blocks[BLOCKS] = { { 0 } };
  mrt_communicator *comm;
  mrt_error e;
  if (mrt_shm_create(1, "", HEAP, name, &fd, &e) != MRT_OK ||
      mrt_shm_attach(&mrt_malloc_allocator, name, 0, 1, "", 1, &comm, &e) !=
          MRT_OK)
    return fprintf(stderr, "%s\n", e.message), 1;
  size_t before = pages_of(fd);
  for (int i = 0; i < TURNS; i++) {
    int which = rand_r(&seed) % BLOCKS;
    wrong += turn(comm, &blocks[which], which, &seed);
  }
  comm->close(comm); /* what is in use still is */
  for (int i = 0; i < BLOCKS - 1; i++)
    if (blocks[i].at) wrong += turn(comm, &blocks[i], i, &seed);
  if (!blocks[BLOCKS - 1].at)
    turn(comm, &blocks[BLOCKS - 1], BLOCKS - 1, &seed);
  size_t nbytes = blocks[BLOCKS - 1].nbytes;
  bool kept = pages_of(fd) > before + nbytes / 4096 + 2;
  wrong += team_wrong(comm, kept, "freed memory is kept");
  wrong += team_wrong(comm, comm->alloc(comm, HEAP) != NULL, "more than all");
  wrong += team_wrong(comm, comm->alloc(comm, SIZE_MAX) != NULL, "too much");
  wrong += turn(comm, &blocks[BLOCKS - 1], BLOCKS - 1, &seed);
  wrong += pages_of(fd) > before;
  close(fd);
  return wrong;
}
