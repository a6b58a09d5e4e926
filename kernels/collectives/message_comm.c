/* message_comm.c -- communicators over messages: opened, split, closed
 *
 * Every communicator over an engine has an id, which those who are in it use
 * for no other: control messages say by it what they are about.
 *
 * SPDX-License-Identifier: MIT */
#include "message.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- the end ------------------------------------------------------------- */

static void free_comm(mrt_message_comm *m) {
  const mrt_allocator *a = m->endpoint->allocator;
  size_t size = (size_t)m->comm.size;
  mrt_release(a, m->members, size * sizeof *m->members);
  mrt_release(a, m->closed, size * sizeof *m->closed);
  for (int i = 0; i < 2; i++) {
    mrt_release(a, m->entered[i], size * sizeof *m->entered[i]);
    mrt_release(a, m->p2p[i], size * sizeof *m->p2p[i]);
  }
  mrt_release(a, m->p2p_calls, size * sizeof *m->p2p_calls);
  mrt_release(a, m->from, size * sizeof *m->from);
  mrt_release(a, m, sizeof *m);
}

/* Whether all have said that they are done.  An engine that ends with all at
 * once waits for them: for long, as one may still be busy alone. */
static bool is_over(mrt_endpoint *endpoint, double timeout,
                    const volatile int *stop) {
  double until = mrt_clock() + 10 * timeout;
  mrt_control msg = { .kind = MRT_CONTROL_DONE };
  if (endpoint->failed) return false;
  mrt_endpoint_send_all(endpoint, &msg);
  for (int turns = 1;; turns++) {
    bool all = true;
    mrt_endpoint_poll(endpoint);
    for (int i = 0; i < endpoint->engine->size; i++)
      all &= endpoint->peers[i].done || i == endpoint->engine->rank;
    bool late = mrt_clock() > until || (stop && *stop == MRT_RAISED);
    if (all || late || endpoint->failed || !endpoint->engine->ends_together) {
      mrt_endpoint_flush(endpoint, 1);
      return all && !endpoint->failed;
    }
    endpoint->engine->rest(endpoint->engine, turns);
  }
}

static void free_endpoint(mrt_endpoint *endpoint, bool well) {
  const mrt_allocator *a = endpoint->allocator;
  size_t size = (size_t)endpoint->engine->size;
  endpoint->engine->close(endpoint->engine, well);
  mrt_release(a, endpoint->peers, size * sizeof *endpoint->peers);
  mrt_release(a, endpoint->scratch, MRT_MESSAGE_SCRATCH);
  mrt_release(a, endpoint, sizeof *endpoint);
}

static void close_messages(mrt_communicator *comm) {
  mrt_message_comm *m = (mrt_message_comm *)comm, **at = &m->endpoint->comms;
  mrt_endpoint *endpoint = m->endpoint;
  mrt_control msg = { .kind = MRT_CONTROL_CLOSED, .id = m->id };
  double timeout = comm->timeout;
  const volatile int *interrupted = comm->interrupted;
  if (!endpoint->failed) mrt_endpoint_send_all(endpoint, &msg);
  while (*at != m) at = &(*at)->next;
  *at = m->next;
  free_comm(m);
  if (--endpoint->uses == 0)
    free_endpoint(endpoint, is_over(endpoint, timeout, interrupted));
}

static void give_up(mrt_communicator *comm, const char *why) {
  mrt_message_comm *m = (mrt_message_comm *)comm;
  mrt_error other;
  mrt_endpoint_fail(m->endpoint, &other, "%s ended: %s",
                    mrt_message_rank_name(m, comm->rank).s, why);
}

/* ---- parts --------------------------------------------------------------- */

static mrt_status split(mrt_communicator *comm, int color, int key,
                        mrt_communicator **out, mrt_error *e);

/* Of `size` ranks; `members` is to be filled by the caller. */
static mrt_status new_comm(mrt_endpoint *endpoint, uint32_t id, int rank,
                           int size, mrt_message_comm **out, mrt_error *e) {
  const mrt_allocator *a = endpoint->allocator;
  size_t n = (size_t)size;
  mrt_message_comm *m = mrt_calloc(a, 1, sizeof *m);
  if (!m) return mrt_nomem(e);
  m->endpoint = endpoint, m->id = id;
  m->comm = (mrt_communicator){ .rank = rank,
                                .size = size,
                                .transport = endpoint->engine->name,
                                .run = mrt_message_run,
                                .split = split,
                                .abort = give_up,
                                .close = close_messages };
  m->members = mrt_calloc(a, n, sizeof *m->members);
  m->closed = mrt_calloc(a, n, sizeof *m->closed);
  bool whole = m->members && m->closed;
  for (int i = 0; i < 2; i++) {
    m->entered[i] = mrt_calloc(a, n, sizeof *m->entered[i]);
    m->p2p[i] = mrt_calloc(a, n, sizeof *m->p2p[i]);
    whole &= m->entered[i] && m->p2p[i];
  }
  m->p2p_calls = mrt_calloc(a, n, sizeof *m->p2p_calls);
  m->from = mrt_calloc(a, n, sizeof *m->from);
  if (!whole || !m->p2p_calls || !m->from) return free_comm(m), mrt_nomem(e);
  m->next = endpoint->comms, endpoint->comms = m;
  endpoint->uses++;
  *out = m;
  return MRT_OK;
}

static mrt_status gather(mrt_message_comm *m, int64_t each, const void *in,
                         void *out, mrt_error *e) {
  mrt_collective c = { .kind = MRT_COLLECT_allgather,
                       .dtype = MRT_i32,
                       .count = each * m->comm.size,
                       .in = in,
                       .out = out,
                       .file = "split" };
  return mrt_message_run(&m->comm, &c, e);
}

static mrt_status new_part(mrt_message_comm *m, const mrt_split_key *all,
                           uint32_t id, mrt_message_comm **out, mrt_error *e) {
  mrt_split_place p = mrt_split_place_of(all, m->comm.rank, m->comm.size);
  MRT_TRY(new_comm(m->endpoint, id, p.rank, p.size, out, e));
  mrt_message_comm *part = *out;
  part->ring = m->ring;
  part->comm.timeout = m->comm.timeout;
  part->comm.interrupted = m->comm.interrupted;
  for (int r = 0; r < m->comm.size; r++)
    if (all[r].color == all[m->comm.rank].color)
      part->members[mrt_split_place_of(all, r, m->comm.size).rank] =
          m->members[r];
  return MRT_OK;
}

/* A number that no member uses; then all have the part before one goes on. */
static mrt_status split_into(mrt_message_comm *m, mrt_split_key *all,
                             int32_t *used, mrt_message_comm **out,
                             mrt_error *e) {
  mrt_split_key mine = all[m->comm.rank];
  mrt_endpoint *endpoint = m->endpoint;
  int32_t last = (int32_t)endpoint->last_id;
  MRT_TRY(gather(m, 2, &mine, all, e));
  MRT_TRY(gather(m, 1, &last, used, e));
  for (int r = 0; r < m->comm.size; r++)
    if ((uint32_t)used[r] > endpoint->last_id)
      endpoint->last_id = (uint32_t)used[r];
  endpoint->last_id++;
  if (mine.color >= 0) {
    mrt_status s = new_part(m, all, endpoint->last_id, out, e);
    if (s) return m->comm.abort(&m->comm, "out of memory in split"), s;
  }
  mrt_collective c = { .kind = MRT_COLLECT_barrier, .file = "split" };
  return mrt_message_run(&m->comm, &c, e);
}

static mrt_status split(mrt_communicator *comm, int color, int key,
                        mrt_communicator **out, mrt_error *e) {
  mrt_message_comm *m = (mrt_message_comm *)comm, *part = NULL;
  const mrt_allocator *a = m->endpoint->allocator;
  size_t size = (size_t)comm->size;
  *out = NULL;
  mrt_split_key *all = mrt_calloc(a, size, sizeof *all);
  int32_t *used = mrt_calloc(a, size, sizeof *used);
  mrt_status s = MRT_ENOMEM;
  if (all && used) {
    all[comm->rank] = (mrt_split_key){ color, key };
    s = split_into(m, all, used, &part, e);
  } else {
    comm->abort(comm, "out of memory in split");
    mrt_nomem(e);
  }
  mrt_release(a, all, size * sizeof *all);
  mrt_release(a, used, size * sizeof *used);
  if (s && part) close_messages(&part->comm);
  if (!s && part) *out = &part->comm;
  return s;
}

/* ---- the beginning ------------------------------------------------------- */

static int not_greeted(mrt_message_comm *m, mrt_message_wait *w, int rank,
                       bool *broken) {
  (void)w, (void)broken;
  return m->endpoint->peers[rank].greeted ? -1 : rank;
}

/* All compare with rank 0, so all say the same. */
static mrt_status compare(mrt_message_comm *m, mrt_error *e) {
  const mrt_control_hello *first = &m->endpoint->peers[0].hello;
  for (int r = 1; r < m->comm.size; r++) {
    const mrt_control_hello *h = &m->endpoint->peers[r].hello;
    if (strcmp(h->build, first->build) != 0)
      return mrt_endpoint_fail(m->endpoint, e,
                               "rank 0 is of build '%s', rank %d of '%s'",
                               first->build, r, h->build);
    if (strcmp(h->algorithm, first->algorithm) != 0)
      return mrt_endpoint_fail(m->endpoint, e,
                               "rank 0 has the algorithm '%s', rank %d '%s'",
                               first->algorithm, r, h->algorithm);
  }
  return MRT_OK;
}

static mrt_status greet(mrt_message_comm *m, const mrt_message_options *o,
                        mrt_error *e) {
  mrt_endpoint *endpoint = m->endpoint;
  mrt_control msg = { .kind = MRT_CONTROL_HELLO,
                      .hello.pid = (int64_t)getpid() };
  snprintf(msg.hello.host, sizeof msg.hello.host, "%.63s", o->host);
  snprintf(msg.hello.build, sizeof msg.hello.build, "%.63s", o->build);
  snprintf(msg.hello.algorithm, sizeof msg.hello.algorithm, "%.15s",
           o->algorithm);
  mrt_peer *own = &endpoint->peers[m->comm.rank];
  own->hello = msg.hello, own->greeted = true;
  for (int r = 0; r < m->comm.size; r++)
    if (r != m->comm.rank) mrt_endpoint_post_recv(endpoint, r);
  mrt_endpoint_send_all(endpoint, &msg);
  mrt_message_wait w = { .missing = not_greeted, .count = m->comm.size };
  MRT_TRY(mrt_message_await(m, &w, e));
  return compare(m, e);
}

static mrt_endpoint *new_endpoint(const mrt_allocator *a, mrt_engine *engine) {
  mrt_endpoint *endpoint = mrt_calloc(a, 1, sizeof *endpoint);
  if (!endpoint) return engine->close(engine, false), NULL;
  endpoint->engine = engine, endpoint->allocator = a;
  endpoint->peers =
      mrt_calloc(a, (size_t)engine->size, sizeof *endpoint->peers);
  endpoint->scratch = mrt_resize(a, NULL, 0, MRT_MESSAGE_SCRATCH);
  if (endpoint->peers && endpoint->scratch) return endpoint;
  free_endpoint(endpoint, false);
  return NULL;
}

mrt_status mrt_message_comm_new(const mrt_allocator *a, mrt_engine *engine,
                                const mrt_message_options *o,
                                mrt_communicator **out, mrt_error *e) {
  mrt_message_comm *m;
  mrt_endpoint *endpoint = new_endpoint(a, engine);
  if (!endpoint) return mrt_nomem(e);
  mrt_status s = new_comm(endpoint, 0, engine->rank, engine->size, &m, e);
  if (s) return free_endpoint(endpoint, false), s;
  for (int r = 0; r < engine->size; r++) m->members[r] = r;
  m->ring = strcmp(o->algorithm, "ring") == 0;
  m->comm.timeout = o->timeout, m->comm.interrupted = o->interrupted;
  s = greet(m, o, e);
  if (s)
    close_messages(&m->comm);
  else
    *out = &m->comm;
  return s;
}
