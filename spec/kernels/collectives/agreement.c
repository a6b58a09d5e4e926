/* agreement.c -- ranks that ask for different things; parts; many calls
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "base/memory.h"
#include "message.h"
#include "tcp.h"
#include "team.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CALLS = TEAM_SLOW ? 5000 : 30000 };

/* ---- mismatches ---------------------------------------------------------- */

static const mrt_collective usual = { .kind = MRT_COLLECT_allreduce,
                                      .dtype = MRT_f32,
                                      .count = 12,
                                      .file = "a.lua",
                                      .line = 3 };

/* What rank 1 of 3 asks for while the others ask for `usual`, or `first`. */
static const struct mismatch {
  mrt_collective_kind first;
  int64_t count; /* the others'; 0: 12 */
  mrt_collective other;
  const char *text;
} mismatches[] = {
  { 0,
    0,
    { .kind = MRT_COLLECT_broadcast, .count = 12, .peer = 2 },
    "rank 0 asks for allreduce sum f32[12] (a.lua:3), "
    "rank 1 for broadcast f32[12] from rank 2 (b.lua:9)" },
  { 0,
    0,
    { .kind = MRT_COLLECT_compare, .dtype = MRT_u8, .count = 96 },
    "rank 0 asks for allreduce sum f32[12] (a.lua:3), "
    "rank 1 for the first run of a plan (b.lua:9)" },
  { 0,
    0,
    { .kind = MRT_COLLECT_barrier },
    "rank 0 asks for allreduce sum f32[12] (a.lua:3), "
    "rank 1 for barrier (b.lua:9)" },
  { 0,
    0,
    { .reduction = MRT_REDUCE_MAX, .count = 12 },
    "rank 0 asks for allreduce sum f32[12] (a.lua:3), "
    "rank 1 for allreduce max f32[12] (b.lua:9)" },
  { 0,
    0,
    { .dtype = MRT_i32, .count = 12 },
    "rank 0 asks for allreduce sum f32[12] (a.lua:3), "
    "rank 1 for allreduce sum i32[12] (b.lua:9)" },
  { 0,
    0,
    { .count = 11 },
    "rank 0 asks for allreduce sum f32[12] (a.lua:3), "
    "rank 1 for allreduce sum f32[11] (b.lua:9)" },
  { 0,
    90000,
    { .count = 90001 },
    "rank 0 asks for allreduce sum f32[90000] (a.lua:3), "
    "rank 1 for allreduce sum f32[90001] (b.lua:9)" },
  { MRT_COLLECT_broadcast,
    0,
    { .kind = MRT_COLLECT_broadcast, .count = 12, .peer = 1 },
    "rank 0 asks for broadcast f32[12] from rank 0 (a.lua:3), "
    "rank 1 for broadcast f32[12] from rank 1 (b.lua:9)" },
  { MRT_COLLECT_shift,
    0,
    { .kind = MRT_COLLECT_shift, .count = 12, .peer = 1 },
    "rank 0 asks for shift f32[12] by 0 (a.lua:3), "
    "rank 1 for shift f32[12] by 1 (b.lua:9)" },
  { 0,
    0,
    { .kind = MRT_COLLECT_send, .count = 3, .peer = 0 },
    "rank 1 asks for send f32[3] to rank 0 (b.lua:9), "
    "rank 0 for allreduce sum f32[12] (a.lua:3)" },
  { MRT_COLLECT_send,
    0,
    { .kind = MRT_COLLECT_send, .count = 12, .peer = 0 },
    "for send f32[12] to rank 0 (b.lua:9)" },
  { MRT_COLLECT_recv,
    0,
    { .kind = MRT_COLLECT_recv, .count = 12, .peer = 0 },
    "for recv f32[12] from rank 0 (b.lua:9)" },
  { MRT_COLLECT_send,
    0,
    { .kind = MRT_COLLECT_recv, .count = 13, .peer = 0 },
    "rank 1 asks for recv f32[13] from rank 0 (b.lua:9), "
    "rank 0 for send f32[12] to rank 1 (a.lua:3)" },
  { MRT_COLLECT_send,
    0,
    { .kind = MRT_COLLECT_recv, .count = 12, .dtype = MRT_i32, .peer = 0 },
    "rank 1 asks for recv i32[12] from rank 0 (b.lua:9), "
    "rank 0 for send f32[12] to rank 1 (a.lua:3)" },
};

static bool is_pair(mrt_collective_kind kind) {
  return kind == MRT_COLLECT_send || kind == MRT_COLLECT_recv;
}

/* All have met before one of them fails, else it is the meeting that fails.
 * Who is last to see that all have come may hear of the failure here. */
static void meet(mrt_communicator *comm) {
  mrt_error e;
  mrt_collective c = { .kind = MRT_COLLECT_barrier };
  mrt_collect(comm, &c, &e);
}

/* Every rank gets the one message, then and ever after. */
static int mismatch(mrt_communicator *comm, void *argument) {
  const struct mismatch *t = argument;
  mrt_collective c = usual;
  mrt_error e = { 0 };
  static float room[2][90001];
  c.kind = t->first;
  if (t->count) c.count = t->count;
  if (is_pair(c.kind)) c.peer = 1;
  if (comm->rank == 1) c = t->other, c.file = "b.lua", c.line = 9;
  if (comm->rank == 2 && is_pair(c.kind)) c.kind = MRT_COLLECT_barrier;
  c.in = room[0];
  float *out = calloc(90001, sizeof *out); /* threads share `room` */
  c.out = out;
  meet(comm);
  mrt_status status = mrt_collect(comm, &c, &e);
  int wrong = status != MRT_ERANK || !strstr(e.message, t->text);
  team_wrong(comm, wrong, e.message);
  c = (mrt_collective){ .kind = MRT_COLLECT_barrier };
  status = mrt_collect(comm, &c, &e);
  wrong += team_wrong(comm, status != MRT_ERANK || !strstr(e.message, t->text),
                      "a failed communicator went on");
  free(out);
  return wrong;
}

/* ---- who leaves, who gives up, who is interrupted ------------------------ */

static void close_early(mrt_communicator *comm) { (void)comm; }
static void give_up(mrt_communicator *comm) { comm->abort(comm, "no data"); }
static void interrupt(mrt_communicator *comm) {
  static const int raised = 1;
  mrt_error e = { 0 };
  mrt_collective c = usual;
  comm->interrupted = &raised;
  c.in = c.out = &(float[12]){ 0 };
  team_wrong(comm, mrt_collect(comm, &c, &e) != MRT_EINTERRUPT,
             "was not interrupted");
}

typedef struct leaving {
  int way;
  _Atomic bool left; /* rank 1 has */
} leaving;

static int leave(mrt_communicator *comm, void *argument) {
  static void (*const ways[])(mrt_communicator *) = { close_early, give_up,
                                                      interrupt };
  static const char *const texts[] = { "closed its communicator",
                                       "ended: no data", "was interrupted in" };
  leaving *l = argument;
  int way = l->way;
  mrt_error e = { 0 };
  mrt_collective c = usual;
  float x[12] = { 0 };
  c.in = c.out = x;
  meet(comm);
  if (comm->rank == 1) {
    ways[way](comm);
    l->left = true;
    return 0;
  }
  for (int i = 0; way == 2 && !l->left && i < 20000; i++)
    usleep(1000); /* so that rank 1 does wait */
  mrt_status status = mrt_collect(comm, &c, &e);
  return team_wrong(comm,
                    status != MRT_ERANK || !strstr(e.message, "rank 1") ||
                        !strstr(e.message, texts[way]),
                    e.message);
}

/* ---- parts, interleaved; many calls -------------------------------------- */

static int sum(mrt_communicator *comm, double mine, double *all) {
  mrt_collective c = { .kind = MRT_COLLECT_allreduce,
                       .dtype = MRT_f64,
                       .count = 1,
                       .in = &mine,
                       .out = all };
  return team_do(comm, c);
}

/* Odd ranks backwards, even ones by rank; the last in none. */
static int parts(mrt_communicator *comm, void *argument) {
  int rank = comm->rank, size = comm->size, wrong = 0;
  mrt_communicator *part, *pair;
  mrt_error e = { 0 };
  (void)argument;
  bool last = rank == size - 1, odd = rank % 2;
  if (comm->split(comm, last ? -1 : odd, odd ? -rank : 0, &part, &e) != MRT_OK)
    return team_wrong(comm, 1, e.message);
  int want = (size - 1 + !odd) / 2, at = odd ? want - 1 - rank / 2 : rank / 2;
  if (last) return team_wrong(comm, part != NULL, "is in a part");
  wrong += team_wrong(comm, part->size != want || part->rank != at, "place");
  double all, others = 0;
  for (int r = odd; r < size - 1; r += 2) others += r;
  for (int i = 0; i < 1000; i++) {
    wrong += sum(part, rank, &all);
    wrong += team_wrong(comm, all != others, "sum of a part");
  }
  if (part->split(part, part->rank / 2, 0, &pair, &e) != MRT_OK)
    return team_wrong(comm, 1, e.message);
  wrong += sum(pair, 1, &all);
  wrong += team_wrong(comm, all != pair->size, "sum of a part's part");
  part->close(part); /* before its own part */
  wrong += sum(pair, 2, &all);
  pair->close(pair);
  return wrong;
}

static int interleaved(mrt_communicator *comm, void *argument) {
  mrt_communicator *twin;
  mrt_error e = { 0 };
  double a, b;
  int wrong = 0, calls = *(int *)argument;
  if (comm->split(comm, 0, 0, &twin, &e) != MRT_OK)
    return team_wrong(comm, 1, e.message);
  double ranks = comm->size, of = ranks * (ranks - 1) / 2;
  for (int i = 0; i < calls && !wrong; i++) {
    wrong += sum(i % 3 ? comm : twin, comm->rank + i, &a);
    wrong += sum(i % 3 ? twin : comm, comm->rank - i, &b);
    wrong += team_wrong(comm, a != of + ranks * i || b != of - ranks * i,
                        "a sum of another call");
  }
  twin->close(twin);
  return wrong;
}

/* ---- memory -------------------------------------------------------------- */

/* The n-th allocation fails, for every n. */
typedef struct failing {
  int left;
  int64_t live;
} failing;

static void *resize(void *user, void *block, size_t old, size_t new) {
  failing *f = user;
  if (new && f->left-- == 0) return NULL;
  f->live += (int64_t) new - (int64_t)(block ? old : 0);
  return mrt_malloc_allocator.resize(NULL, block, old, new);
}

static int memory(void) {
  mrt_communicator *comms[3];
  mrt_status status = MRT_ENOMEM;
  for (int n = 0; status != MRT_OK; n++) {
    failing f = { .left = n };
    mrt_allocator a = { resize, &f };
    mrt_error e;
    status = mrt_threads_new(&a, 3, comms, &e);
    for (int r = 0; status == MRT_OK && r < 3; r++) comms[r]->close(comms[r]);
    if (f.live || n > 50) return fprintf(stderr, "memory is lost\n"), 1;
  }
  mrt_error e;
  return mrt_threads_new(&mrt_malloc_allocator, 0, comms, &e) != MRT_EVALUE;
}

/* The same of messages, a part and a large call: alone, all else being equal. */
static mrt_status alone(const mrt_allocator *a, mrt_error *e) {
  static const int fds[MRT_ENGINE_CHANNELS] = { -1, -1 };
  static float x[1 << 18];
  const mrt_message_options o = {
    .build = "1", .algorithm = "pairwise", .host = "here", .timeout = 5
  };
  mrt_collective c = usual;
  mrt_engine *engine;
  mrt_communicator *comm, *part = NULL;
  c.count = 1 << 18, c.in = c.out = x;
  MRT_TRY(mrt_tcp_new(a, 0, 1, fds, &engine, e));
  MRT_TRY(mrt_message_comm_new(a, engine, &o, &comm, e));
  mrt_status s = comm->split(comm, 0, 0, &part, e);
  if (!s) s = mrt_collect(part, &c, e);
  if (part) part->close(part);
  comm->close(comm);
  return s;
}

static int memory_of_messages(void) {
  mrt_status status = MRT_ENOMEM;
  for (int n = 0; status == MRT_ENOMEM; n++) {
    failing f = { .left = n };
    mrt_allocator a = { resize, &f };
    mrt_error e;
    status = alone(&a, &e);
    if (f.live || n > 99) return fprintf(stderr, "memory is lost\n"), 1;
  }
  return status != MRT_OK;
}

int agreement(team_run *team) {
  int wrong = memory() + memory_of_messages(), calls = CALLS / 10;
  for (int i = 0; i < MRT_COUNT(mismatches); i++)
    wrong += team(3, mismatch, (void *)&mismatches[i]);
  leaving *l = team_share(sizeof *l);
  if (!l) return perror("mmap"), 1;
  for (l->way = 0; l->way < 3; l->way++) {
    l->left = false;
    wrong += team(3, leave, l);
  }
  for (int size = 3; size <= 6; size++) wrong += team(size, parts, NULL);
  wrong += team(4, interleaved, &calls);
  calls = CALLS / 2;
  return wrong + team(2, interleaved, &calls);
}
