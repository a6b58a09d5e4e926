/* beside.c -- collectives done by a thread beside the one that asks for them
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* nanosleep */
#include "base/memory.h"
#include "team.h"

#include <string.h>
#include <time.h>

enum { SIZE = 3, COUNT = SIZE * 1024, AT_ONCE = 4, ROUNDS = 200 };

typedef struct call {
  mrt_collective c;
  float in[COUNT], out[COUNT];
} call;

typedef struct rank {
  mrt_communicator *comm,
      *part; /* the second has all ranks too, turned round */
  mrt_comm_thread *beside;
  call calls[AT_ONCE];
  float sum; /* computed meanwhile */
} rank;

/* What rank r gives in call i at element k. */
static float given(int r, int i, int k) { return (float)(r * 7 + i + k % 64); }

static float wanted(const mrt_communicator *comm, const mrt_collective *c,
                    int i, int k) {
  bool turned = c->line % 2; /* of `part`: its rank r is rank SIZE - 1 - r */
  if (c->kind == MRT_COLLECT_allgather) {
    int r = k / (COUNT / SIZE);
    return given(turned ? SIZE - 1 - r : r, i, k % (COUNT / SIZE));
  }
  int at = c->kind == MRT_COLLECT_allreduce ? k : k + comm->rank * COUNT / SIZE;
  float sum = 0;
  for (int r = 0; r < SIZE; r++) sum += given(r, i, at);
  return sum;
}

static void begin(rank *own, int i, int n) {
  static const mrt_collective_kind kinds[] = { MRT_COLLECT_allgather,
                                               MRT_COLLECT_reduce_scatter,
                                               MRT_COLLECT_allreduce };
  call *a = &own->calls[n];
  mrt_communicator *comm = i % 2 ? own->part : own->comm;
  for (int k = 0; k < COUNT; k++) a->in[k] = given(own->comm->rank, i, k);
  a->c = (mrt_collective){ .kind = kinds[i % 3],
                           .dtype = MRT_f32,
                           .count = COUNT,
                           .in = a->in,
                           .out = a->out,
                           .file = "b.lua",
                           .line = i };
  mrt_comm_thread_begin(own->beside, comm, &a->c, i);
}

static int end(rank *own, int i, int n) {
  const call *a = &own->calls[n];
  const mrt_communicator *comm = i % 2 ? own->part : own->comm;
  mrt_error e;
  int node, wrong = 0;
  if (mrt_comm_thread_end(own->beside, a->out, &node, &e))
    return team_wrong(own->comm, 1, e.message);
  size_t bytes = mrt_collective_out_bytes(&a->c, SIZE);
  for (int k = 0; k < (int)(bytes / sizeof(float)); k++)
    wrong |= a->out[k] != wanted(comm, &a->c, i, k);
  return team_wrong(own->comm, wrong, "a result beside");
}

/* Several at once, waited for in any order, and calls in between. */
static int many(rank *own) {
  int wrong = 0;
  for (int round = 0; round < ROUNDS; round++) {
    int first = round * AT_ONCE, turn = round % AT_ONCE;
    for (int n = 0; n < AT_ONCE; n++) begin(own, first + n, n);
    for (int k = 0; k < COUNT; k++) own->sum += (float)k;
    for (int n = 0; n < AT_ONCE; n++) {
      int which = round % 2 ? AT_ONCE - 1 - n : (n + turn) % AT_ONCE;
      wrong += end(own, first + which, which);
    }
    if (round % 5) continue;
    mrt_error e;
    int node;
    wrong += team_wrong(
        own->comm, mrt_comm_thread_end(own->beside, NULL, &node, &e), "empty");
    wrong +=
        team_do(own->comm, (mrt_collective){ .kind = MRT_COLLECT_barrier });
  }
  return wrong;
}

/* One gives up: the others are told so, with the first call that it kept from
 * its end, and what came after has not begun. */
static int given_up(rank *own) {
  mrt_error e = { 0 };
  int node = -1, wrong = 0;
  if (own->comm->rank == 1) { /* when the others are done with the rest */
    nanosleep(&(struct timespec){ .tv_nsec = 200000000 }, NULL);
    own->comm->abort(own->comm, "enough");
    return 0;
  }
  for (int n = 0; n < AT_ONCE; n += 2) begin(own, n, n);
  mrt_status s = mrt_comm_thread_end(own->beside, own->calls[2].out, &node, &e);
  wrong += team_wrong(own->comm, s != MRT_ERANK || node != 0, "who gave up");
  wrong += team_wrong(own->comm, !strstr(e.message, "enough"), e.message);
  mrt_comm_thread_drain(own->beside);
  wrong += team_wrong(
      own->comm, mrt_comm_thread_end(own->beside, NULL, &node, &e), "drained");
  return wrong;
}

static int work(mrt_communicator *comm, void *argument) {
  (void)argument;
  mrt_error e;
  rank *own = mrt_calloc(&mrt_malloc_allocator, 1, sizeof *own);
  if (!own) return 1;
  own->comm = comm;
  int wrong =
      comm->split(comm, 0, -comm->rank, &own->part, &e) != MRT_OK ||
      mrt_comm_thread_new(&mrt_malloc_allocator, &own->beside, &e) != MRT_OK;
  if (!wrong) wrong = many(own) + given_up(own);
  mrt_comm_thread_close(own->beside);
  if (own->part) own->part->close(own->part);
  mrt_release(&mrt_malloc_allocator, own, sizeof *own);
  return wrong;
}

int beside(team_run *team) { return team(SIZE, work, NULL); }
