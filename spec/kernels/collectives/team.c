/* team.c -- ranks as threads, ranks as processes
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "team.h"
#include "base/memory.h"
#include "message.h"
#include "tcp.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

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
  mrt_communicator *comms[TEAM_MOST];
  pthread_t threads[TEAM_MOST];
  member members[TEAM_MOST];
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
  if (mrt_shm_attach(&mrt_malloc_allocator, name, rank, size, "spec", 30, &comm,
                     &e) != MRT_OK)
    return fprintf(stderr, "%s\n", e.message), 1;
  int wrong = work(comm, argument);
  comm->close(comm);
  return wrong;
}

int team_processes(int size, team_work *work, void *argument) {
  char name[MRT_SHM_NAME];
  int fd, wrong = 0;
  mrt_error e;
  if (mrt_shm_create(size, "spec", 0, name, &fd, &e) != MRT_OK)
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

/* ---- connected ranks ----------------------------------------------------- */

int team_join(team_sockets fds, int size) {
  for (int a = 0; a < size; a++)
    for (int lane = 0; lane < MRT_ENGINE_CHANNELS; lane++) {
      fds[a][MRT_ENGINE_CHANNELS * a + lane] = -1;
      for (int b = 0, two[2]; b < a; b++) {
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, two)) return 1;
        fds[a][MRT_ENGINE_CHANNELS * b + lane] = two[0];
        fds[b][MRT_ENGINE_CHANNELS * a + lane] = two[1];
      }
    }
  return 0;
}

void team_leave(team_sockets fds, int size, int rank) {
  for (int a = 0; a < size; a++)
    for (int i = 0; i < MRT_ENGINE_CHANNELS * size; i++)
      if (a != rank && fds[a][i] >= 0) close(fds[a][i]);
}

mrt_status team_meet(const int *fds, int rank, int size, const char *algorithm,
                     double timeout, mrt_communicator **comm, mrt_error *e) {
  const mrt_message_options o = {
    .build = "1", .algorithm = algorithm, .host = "here", .timeout = timeout
  };
  mrt_engine *engine;
  MRT_TRY(mrt_tcp_new(&mrt_malloc_allocator, rank, size, fds, &engine, e));
  return mrt_message_comm_new(&mrt_malloc_allocator, engine, &o, comm, e);
}

typedef struct connected {
  int rank, size;
  const int *fds;
  const char *algorithm;
  team_work *work;
  void *argument;
  int wrong;
} connected;

static void *run_connected(void *argument) {
  connected *m = argument;
  mrt_communicator *comm;
  mrt_error e;
  if (team_meet(m->fds, m->rank, m->size, m->algorithm, 30, &comm, &e))
    return fprintf(stderr, "%s\n", e.message), m->wrong = 1, NULL;
  m->wrong = m->work(comm, m->argument);
  comm->close(comm);
  return NULL;
}

static int team_connected(const char *algorithm, int size, team_work *work,
                          void *argument) {
  team_sockets fds;
  connected ranks[TEAM_MOST];
  int wrong = 0;
  if (team_join(fds, size)) return perror("socketpair"), 1;
  for (int r = 0; r < size; r++)
    ranks[r] = (connected){ r, size, fds[r], algorithm, work, argument, 0 };
#ifdef SPEC_THREADS_ONLY
  pthread_t threads[TEAM_MOST];
  for (int r = 0; r < size; r++)
    pthread_create(&threads[r], NULL, run_connected, &ranks[r]);
  for (int r = 0; r < size; r++)
    pthread_join(threads[r], NULL), wrong += ranks[r].wrong;
#else
  fflush(NULL);
  for (int r = 0; r < size; r++)
    if (fork() == 0) {
      team_leave(fds, size, r);
      run_connected(&ranks[r]);
      fflush(NULL);
      _exit(ranks[r].wrong != 0);
    }
  team_leave(fds, size, -1);
  for (int r = 0, status; r < size; r++)
    wrong += wait(&status) < 0 || !WIFEXITED(status) || WEXITSTATUS(status);
#endif
  return wrong;
}

int team_pairwise(int size, team_work *work, void *argument) {
  return team_connected("pairwise", size, work, argument);
}

int team_ring(int size, team_work *work, void *argument) {
  return team_connected("ring", size, work, argument);
}

void *team_share(size_t nbytes) {
  void *at = mmap(NULL, nbytes, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return at == MAP_FAILED ? NULL : at;
}
