/* team.c -- ranks as threads, ranks as processes
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "team.h"
#include "base/memory.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 8 };

int team_wrong(const mrt_communicator *comm, int wrong, const char *what) {
  if (wrong)
    fprintf(stderr, "%s, rank %d of %d: %s\n", comm->transport, comm->rank,
            comm->size, what);
  return wrong != 0;
}

int team_do(mrt_communicator *comm, mrt_collective c) {
  mrt_error e = { 0 };
  return team_wrong(comm, mrt_collect(comm, &c, &e), e.message);
}

typedef struct member {
  mrt_communicator *comm;
  team_work *work;
  void *argument;
  int wrong;
} member;

static void *run(void *argument) {
  member *m = argument;
  m->wrong = m->work(m->comm, m->argument);
  m->comm->close(m->comm);
  return NULL;
}

int team_threads(int size, team_work *work, void *argument) {
  mrt_communicator *comms[MOST];
  pthread_t threads[MOST];
  member members[MOST];
  mrt_error e;
  int wrong = 0;
  if (mrt_threads_new(&mrt_malloc_allocator, size, comms, &e) != MRT_OK)
    return fprintf(stderr, "%s\n", e.message), 1;
  for (int r = 0; r < size; r++) {
    members[r] = (member){ comms[r], work, argument, 0 };
    pthread_create(&threads[r], NULL, run, &members[r]);
  }
  for (int r = 0; r < size; r++)
    pthread_join(threads[r], NULL), wrong += members[r].wrong;
  return wrong;
}

static int attach_and_work(const char *name, int rank, int size,
                           team_work *work, void *argument) {
  mrt_communicator *comm;
  mrt_error e;
  if (mrt_shared_attach(&mrt_malloc_allocator, name, rank, size, "spec", 30,
                        &comm, &e) != MRT_OK)
    return fprintf(stderr, "%s\n", e.message), 1;
  int wrong = work(comm, argument);
  comm->close(comm);
  return wrong;
}

int team_processes(int size, team_work *work, void *argument) {
  char name[MRT_SHARED_NAME];
  int fd, wrong = 0;
  mrt_error e;
  if (mrt_shared_create(size, "spec", 0, name, &fd, &e) != MRT_OK)
    return fprintf(stderr, "%s\n", e.message), 1;
  fflush(NULL);
  for (int r = 0; r < size; r++)
    if (fork() == 0) {
      wrong = attach_and_work(name, r, size, work, argument);
      fflush(NULL);
      _exit(wrong != 0);
    }
  for (int r = 0, status; r < size; r++)
    wrong += wait(&status) < 0 || !WIFEXITED(status) || WEXITSTATUS(status);
  close(fd);
  return wrong;
}

void *team_share(size_t nbytes) {
  void *at = mmap(NULL, nbytes, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return at == MAP_FAILED ? NULL : at;
}
