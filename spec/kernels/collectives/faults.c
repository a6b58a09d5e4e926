/* faults.c -- a rank is killed, stopped, late, gives up or asks for something
 * else, at a random point; nobody hangs and all others say who it was.  Who is
 * held up for less than the timeout harms nothing.
 *
 * MRT_SPEC_FAULTS=100 is that many points of each way, and another seed;
 * MRT_SPEC_SEED chooses it.
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "base/memory.h"
#include "message.h"
#include "team.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SIZE = 3, COUNT = 20000, ENDLESS = 1 << 30 };

typedef enum way {
  KILL,
  STOP,
  LATE,
  HELD,
  GIVE_UP,
  COUNTS,
  ORDER,
  CUT,
  WAYS
} way;
static const struct fault {
  int times;
  double timeout;   /* of the communicator */
  const char *text; /* in what the others say, beside the rank */
  bool all;         /* the culprit says it too */
} faults_of[WAYS] = {
  [KILL] = { 40, 30, "died", false },
  [STOP] = { 15, 0.5, "within 0.5 s", false },
  [LATE] = { 5, 0.5, "did not come to", true },
  [HELD] = { 10, 30, NULL, true }, /* stopped, and goes on */
  [GIVE_UP] = { 10, 30, "ended: enough", true },
  [COUNTS] = { 15, 30, "asks for", true },
  [ORDER] = { 15, 30, "asks for", true },
  [CUT] = { 15, 30, "is gone", false }, /* of messages only */
};

typedef struct record {
  _Atomic int calls, done;
  mrt_status status;
  char message[512];
} record;

typedef struct scene {
  const char *algorithm; /* NULL: ranks share memory */
  team_sockets fds;
  way way;
  int culprit, at; /* at call `at` it does what the way says */
  record ranks[SIZE];
} scene;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void pause_for(double seconds) {
  nanosleep(
      &(struct timespec){ .tv_sec = (time_t)seconds,
                          .tv_nsec = (long)(1e9 * (seconds - (int)seconds)) },
      NULL);
}

/* ---- a rank -------------------------------------------------------------- */

/* Call i of a program that uses all there is. */
static mrt_status call(mrt_communicator *comm, int i, float *heap, float *own,
                       mrt_error *e) {
  static const mrt_collective_kind kinds[] = {
    MRT_COLLECT_allreduce, MRT_COLLECT_barrier, MRT_COLLECT_allgather,
    MRT_COLLECT_broadcast, MRT_COLLECT_reduce_scatter
  };
  int kind = i % 7, next = (comm->rank + 1) % SIZE,
      before = (comm->rank + SIZE - 1) % SIZE;
  float *x = i % 2 ? heap : own;
  mrt_collective c = { .dtype = MRT_f32, .in = x, .out = x, .file = "f.lua" };
  c.line = i;
  c.count = i % 3 ? SIZE * COUNT / 3 * 3 : SIZE * 8;
  if (kind < 5) {
    c.kind = kinds[kind];
    return mrt_collect(comm, &c, e);
  }
  for (int half = 0; half < 2; half++) {
    bool send = half == (comm->rank != 0);
    c.kind = send ? MRT_COLLECT_send : MRT_COLLECT_recv;
    c.peer = send ? next : before;
    MRT_TRY(mrt_collect(comm, &c, e));
  }
  return MRT_OK;
}

/* Until the others have given up, however busy the machine is. */
static void come_late(const scene *s, int rank) {
  for (int r = 0; r < SIZE; r++)
    for (int i = 0; r != rank && i < 8000 && !s->ranks[r].done; i++)
      pause_for(0.001);
}

/* The culprit does something else. */
static mrt_status misdeed(mrt_communicator *comm, const scene *s, float *x,
                          mrt_error *e) {
  way way = s->way;
  mrt_collective c = { .kind = MRT_COLLECT_allreduce,
                       .dtype = MRT_f32,
                       .count = 77,
                       .in = x,
                       .out = x,
                       .file = "wrong.lua" };
  if (way == GIVE_UP) comm->abort(comm, "enough");
  if (way == LATE) come_late(s, comm->rank);
  if (way == ORDER) c.kind = MRT_COLLECT_barrier;
  for (int i = 0; way == CUT && i < SIZE * MRT_ENGINE_CHANNELS; i++)
    shutdown(s->fds[comm->rank][i], SHUT_RDWR);
  return mrt_collect(comm, &c, e);
}

static void live(mrt_communicator *comm, scene *s) {
  record *r = &s->ranks[comm->rank];
  mrt_error e = { 0 };
  size_t nbytes = SIZE * COUNT * sizeof(float);
  float *own = calloc(1, nbytes),
        *heap = comm->alloc ? comm->alloc(comm, nbytes) : calloc(1, nbytes);
  for (int i = 0; r->status == MRT_OK; i++) {
    bool wrong = comm->rank == s->culprit && i == s->at;
    r->status =
        wrong ? misdeed(comm, s, own, &e) : call(comm, i, heap, own, &e);
    r->calls++;
  }
  memcpy(r->message, e.message, sizeof r->message);
  r->done = 1;
  _exit(0);
}

static void begin(scene *s, const char *name, int rank) {
  mrt_communicator *comm;
  mrt_error e = { 0 };
  mrt_status status;
  if (s->algorithm) {
    team_leave(s->fds, SIZE, rank);
    status = team_meet(s->fds[rank], rank, SIZE, s->algorithm, 20, &comm, &e);
  } else {
    status = mrt_shm_attach(&mrt_malloc_allocator, name, rank, SIZE, "faults",
                            20, &comm, &e);
  }
  if (status != MRT_OK) { /* the culprit was quicker than the meeting */
    record *r = &s->ranks[rank];
    memcpy(r->message, e.message, sizeof r->message);
    r->status = status, r->done = 1;
    _exit(0);
  }
  comm->timeout = faults_of[s->way].timeout;
  live(comm, s);
}

/* ---- one fault ----------------------------------------------------------- */

static bool ended(const scene *s, bool all) {
  for (int r = 0; r < SIZE; r++)
    if ((all || r != s->culprit) && !s->ranks[r].done) return false;
  return true;
}

static int judge(const scene *s, double seconds) {
  const struct fault *f = &faults_of[s->way];
  char who[16];
  const char *text = s->way == KILL && s->algorithm ? "is gone" : f->text;
  int wrong = 0;
  snprintf(who, sizeof who, "rank %d", s->culprit);
  for (int r = 0; r < SIZE; r++) {
    const record *rank = &s->ranks[r];
    if (r == s->culprit && !f->all) continue;
    if (rank->done && rank->status == MRT_ERANK && strstr(rank->message, who) &&
        strstr(rank->message, text))
      continue;
    wrong++;
    fprintf(stderr, "fault %d of rank %d, after %.2f s rank %d: %s\n", s->way,
            s->culprit, seconds, r, rank->done ? rank->message : "hangs");
  }
  return wrong;
}

/* All go on. */
static int hold(const scene *s, pid_t culprit, unsigned *seed) {
  int calls[SIZE], wrong = 0;
  double start = now();
  kill(culprit, SIGSTOP);
  pause_for(1e-6 * (rand_r(seed) % 100000));
  kill(culprit, SIGCONT);
  for (int r = 0; r < SIZE; r++) calls[r] = s->ranks[r].calls;
  for (int r = 0; r < SIZE; r++)
    while (s->ranks[r].calls < calls[r] + 20 && !s->ranks[r].done &&
           now() - start < 10)
      pause_for(0.001);
  for (int r = 0; r < SIZE; r++) {
    bool ended = s->ranks[r].done, hangs = s->ranks[r].calls < calls[r] + 20;
    if (!ended && !hangs) continue;
    wrong++;
    fprintf(stderr, "rank %d was held up, rank %d: %s\n", s->culprit, r,
            ended ? s->ranks[r].message : "hangs");
  }
  return wrong;
}

/* Until those have ended who must. */
static int watch(const scene *s, double *longest) {
  double start = now();
  while (!ended(s, faults_of[s->way].all) && now() - start < 10)
    pause_for(0.001);
  double seconds = now() - start;
  if (seconds > longest[s->way]) longest[s->way] = seconds;
  return judge(s, seconds);
}

static int one(const char *algorithm, way way, unsigned *seed,
               double *longest) {
  scene *s = team_share(sizeof *s);
  char name[MRT_SHM_NAME];
  int fd;
  mrt_error e;
  pid_t ranks[SIZE];
  bool outside = way == KILL || way == STOP || way == HELD;
  *s = (scene){ .algorithm = algorithm,
                .way = way,
                .culprit = rand_r(seed) % SIZE };
  s->at = outside ? ENDLESS : rand_r(seed) % 100;
  if (!outside && s->at % 7 > 4) s->at -= 2; /* not where pairs meet, */
  if (s->at % 7 == 1) s->at++;               /* nor at a barrier */
  if (mrt_shm_create(SIZE, "faults", 1 << 24, name, &fd, &e) != MRT_OK ||
      team_join(s->fds, SIZE))
    return fprintf(stderr, "%s\n", e.message), 1;
  for (int r = 0; r < SIZE; r++)
    if ((ranks[r] = fork()) == 0) begin(s, name, r);
  team_leave(s->fds, SIZE, -1);
  const record *culprit = &s->ranks[s->culprit];
  while (!culprit->calls && !culprit->done) pause_for(0.001);
  if (outside) pause_for(1e-6 * (rand_r(seed) % 10000));
  if (way == KILL || way == STOP)
    kill(ranks[s->culprit], way == KILL ? SIGKILL : SIGSTOP);
  int wrong =
      way == HELD ? hold(s, ranks[s->culprit], seed) : watch(s, longest);
  for (int r = 0; r < SIZE; r++) kill(ranks[r], SIGKILL);
  for (int r = 0; r < SIZE; r++) waitpid(ranks[r], NULL, 0);
  close(fd);
  return wrong;
}

/* ---- who may attach ------------------------------------------------------ */

static int refused(const char *name, int rank, int size, const char *token,
                   mrt_status status, const char *text) {
  mrt_communicator *comm;
  mrt_error e = { 0 };
  mrt_status got = mrt_shm_attach(&mrt_malloc_allocator, name, rank, size,
                                  token, 0.3, &comm, &e);
  bool wrong = got != status || !strstr(e.message, text);
  if (wrong) fprintf(stderr, "attach: '%s', not '%s'\n", e.message, text);
  return wrong;
}

static int attaching(void) {
  char name[MRT_SHM_NAME];
  int fd, wrong = 0;
  mrt_error e;
  if (mrt_shm_create(2, "run 1", 1 << 20, name, &fd, &e) != MRT_OK) return 1;
  wrong += refused(name, 0, 3, "run 1", MRT_ERANK, "for 2 ranks, 3 wanted");
  wrong += refused(name, 0, 2, "run 2", MRT_ERANK, "token run 1, run 2 wanted");
  wrong += refused(name, 2, 2, "run 1", MRT_EVALUE, "rank 2, 0 to 1 wanted");
  wrong += refused(name, 0, 2, "run 1", MRT_ERANK, "rank 1 did not come");
  wrong += refused(name, 0, 2, "run 1", MRT_ERANK, "rank 0 is taken");
  wrong += refused(name, 1, 2, "run 1", MRT_ERANK, "rank 1 did not come");
  wrong += refused("/proc/self/exe", 0, 2, "run 1", MRT_EFILE, "");
  wrong += refused("/nowhere", 0, 2, "run 1", MRT_EFILE, "No such file");
  close(fd);
  wrong += refused(name, 1, 2, "run 1", MRT_EFILE, "");
  wrong += mrt_shm_create(0, "", 0, name, &fd, &e) != MRT_EVALUE;
  wrong += mrt_shm_create(2, "", SIZE_MAX, name, &fd, &e) != MRT_EVALUE;
  return wrong;
}

static void report(const double *longest) {
  printf("longest: killed %.2f s, stopped %.2f, late %.2f, gave up %.2f, "
         "other count %.2f, other order %.2f, cut %.2f\n",
         longest[KILL], longest[STOP], longest[LATE], longest[GIVE_UP],
         longest[COUNTS], longest[ORDER], longest[CUT]);
}

/* A rank shares memory, or takes one of the algorithms by messages in turn. */
static int campaign(const char *const algorithms[2], int ways, unsigned seed) {
  const char *points = getenv("MRT_SPEC_FAULTS");
  const char *first = getenv("MRT_SPEC_SEED");
  double longest[WAYS] = { 0 };
  int wrong = 0;
  if (points) seed += (unsigned)atoi(points);
  if (first) seed = (unsigned)atoi(first);
  for (int way = 0; way < ways; way++) {
    int times = points ? atoi(points) : faults_of[way].times;
    for (int i = 0; i < times; i++)
      wrong += one(algorithms[i % 2], way, &seed, longest);
  }
  report(longest);
  return wrong;
}

int faults(void) {
  return attaching() + campaign((const char *[]){ NULL, NULL }, CUT, 8);
}

int faults_of_messages(void) {
  return campaign((const char *[]){ "pairwise", "ring" }, WAYS, 9);
}
