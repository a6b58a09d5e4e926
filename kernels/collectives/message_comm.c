/* message_comm.c -- communicators over messages: the meeting, parts, the end
 *
 * Every communicator over an engine is a channel of it, with a number that
 * those who are in it do not use for another.
 *
 * SPDX-License-Identifier: MIT */
#include "message.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- the end ------------------------------------------------------------- */

static void free_channel(mrt_messages *m) {
  const mrt_allocator *a = m->hub->allocator;
  size_t size = (size_t)m->comm.size;
  mrt_release(a, m->members, size * sizeof *m->members);
  mrt_release(a, m->closed, size * sizeof *m->closed);
  for (int i = 0; i < 2; i++) {
    mrt_release(a, m->asks[i], size * sizeof *m->asks[i]);
    mrt_release(a, m->pairs[i], size * sizeof *m->pairs[i]);
  }
  mrt_release(a, m->met, size * sizeof *m->met);
  mrt_release(a, m->from, size * sizeof *m->from);
  mrt_release(a, m, sizeof *m);
}

/* Whether all have said that they are done.  An engine that ends with all at
 * once waits for them: for long, as one may still be busy alone. */
static bool is_over(mrt_hub *hub, double timeout, const volatile int *stop) {
  double until = mrt_clock() + 10 * timeout;
  mrt_note note = { .kind = MRT_NOTE_DONE };
  if (hub->failed) return false;
  mrt_hub_say(hub, &note);
  for (int turns = 1;; turns++) {
    bool all = true;
    mrt_hub_hear(hub);
    for (int i = 0; i < hub->engine->size; i++)
      all &= hub->peers[i].over || i == hub->engine->rank;
    bool late = mrt_clock() > until || (stop && *stop == MRT_RAISED);
    if (all || late || hub->failed || !hub->engine->ends_together) {
      mrt_hub_flush(hub, 1);
      return all && !hub->failed;
    }
    hub->engine->rest(hub->engine, turns);
  }
}

static void drop_hub(mrt_hub *hub, bool well) {
  const mrt_allocator *a = hub->allocator;
  size_t size = (size_t)hub->engine->size;
  hub->engine->close(hub->engine, well);
  mrt_release(a, hub->peers, size * sizeof *hub->peers);
  mrt_release(a, hub->scratch, MRT_MESSAGES_SCRATCH);
  mrt_release(a, hub, sizeof *hub);
}

static void close_messages(mrt_communicator *comm) {
  mrt_messages *m = (mrt_messages *)comm, **at = &m->hub->channels;
  mrt_hub *hub = m->hub;
  mrt_note note = { .kind = MRT_NOTE_CLOSED, .channel = m->channel };
  double timeout = comm->timeout;
  const volatile int *interrupted = comm->interrupted;
  if (!hub->failed) mrt_hub_say(hub, &note);
  while (*at != m) at = &(*at)->next;
  *at = m->next;
  free_channel(m);
  if (--hub->uses == 0) drop_hub(hub, is_over(hub, timeout, interrupted));
}

static void give_up(mrt_communicator *comm, const char *why) {
  mrt_messages *m = (mrt_messages *)comm;
  mrt_error other;
  mrt_hub_fail(m->hub, &other, "%s ended: %s",
               mrt_messages_who(m, comm->rank).s, why);
}

/* ---- parts --------------------------------------------------------------- */

static mrt_status split(mrt_communicator *comm, int color, int key,
                        mrt_communicator **out, mrt_error *e);

/* Of `size` ranks; `members` is to be filled by the caller. */
static mrt_status new_channel(mrt_hub *hub, uint32_t channel, int rank,
                              int size, mrt_messages **out, mrt_error *e) {
  const mrt_allocator *a = hub->allocator;
  size_t n = (size_t)size;
  mrt_messages *m = mrt_calloc(a, 1, sizeof *m);
  if (!m) return mrt_nomem(e);
  m->hub = hub, m->channel = channel;
  m->comm = (mrt_communicator){ .rank = rank,
                                .size = size,
                                .transport = hub->engine->name,
                                .run = mrt_messages_run,
                                .split = split,
                                .abort = give_up,
                                .close = close_messages };
  m->members = mrt_calloc(a, n, sizeof *m->members);
  m->closed = mrt_calloc(a, n, sizeof *m->closed);
  bool whole = m->members && m->closed;
  for (int i = 0; i < 2; i++) {
    m->asks[i] = mrt_calloc(a, n, sizeof *m->asks[i]);
    m->pairs[i] = mrt_calloc(a, n, sizeof *m->pairs[i]);
    whole &= m->asks[i] && m->pairs[i];
  }
  m->met = mrt_calloc(a, n, sizeof *m->met);
  m->from = mrt_calloc(a, n, sizeof *m->from);
  if (!whole || !m->met || !m->from) return free_channel(m), mrt_nomem(e);
  m->next = hub->channels, hub->channels = m;
  hub->uses++;
  *out = m;
  return MRT_OK;
}

static mrt_status gather(mrt_messages *m, int64_t each, const void *in,
                         void *out, mrt_error *e) {
  mrt_collective c = { .kind = MRT_COLLECT_allgather,
                       .dtype = MRT_i32,
                       .count = each * m->comm.size,
                       .in = in,
                       .out = out,
                       .file = "split" };
  return mrt_messages_run(&m->comm, &c, e);
}

static mrt_status new_part(mrt_messages *m, const mrt_member *all,
                           uint32_t channel, mrt_messages **out, mrt_error *e) {
  mrt_place p = mrt_place_of(all, m->comm.rank, m->comm.size);
  MRT_TRY(new_channel(m->hub, channel, p.rank, p.size, out, e));
  mrt_messages *part = *out;
  part->ring = m->ring;
  part->comm.timeout = m->comm.timeout;
  part->comm.interrupted = m->comm.interrupted;
  for (int r = 0; r < m->comm.size; r++)
    if (all[r].color == all[m->comm.rank].color)
      part->members[mrt_place_of(all, r, m->comm.size).rank] = m->members[r];
  return MRT_OK;
}

/* A number that no member uses; then all have the part before one goes on. */
static mrt_status split_into(mrt_messages *m, mrt_member *all, int32_t *used,
                             mrt_messages **out, mrt_error *e) {
  mrt_member mine = all[m->comm.rank];
  mrt_hub *hub = m->hub;
  int32_t last = (int32_t)hub->last;
  MRT_TRY(gather(m, 2, &mine, all, e));
  MRT_TRY(gather(m, 1, &last, used, e));
  for (int r = 0; r < m->comm.size; r++)
    if ((uint32_t)used[r] > hub->last) hub->last = (uint32_t)used[r];
  hub->last++;
  if (mine.color >= 0) {
    mrt_status s = new_part(m, all, hub->last, out, e);
    if (s) return m->comm.abort(&m->comm, "out of memory in split"), s;
  }
  mrt_collective c = { .kind = MRT_COLLECT_barrier, .file = "split" };
  return mrt_messages_run(&m->comm, &c, e);
}

static mrt_status split(mrt_communicator *comm, int color, int key,
                        mrt_communicator **out, mrt_error *e) {
  mrt_messages *m = (mrt_messages *)comm, *part = NULL;
  const mrt_allocator *a = m->hub->allocator;
  size_t size = (size_t)comm->size;
  *out = NULL;
  mrt_member *all = mrt_calloc(a, size, sizeof *all);
  int32_t *used = mrt_calloc(a, size, sizeof *used);
  mrt_status s = MRT_ENOMEM;
  if (all && used) {
    all[comm->rank] = (mrt_member){ color, key };
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

static int greets_not(mrt_messages *m, mrt_wait *w, int rank, bool *broken) {
  (void)w, (void)broken;
  return m->hub->peers[rank].greeted ? -1 : rank;
}

/* All compare with rank 0, so all say the same. */
static mrt_status compare(mrt_messages *m, mrt_error *e) {
  const mrt_hello *first = &m->hub->peers[0].hello;
  for (int r = 1; r < m->comm.size; r++) {
    const mrt_hello *h = &m->hub->peers[r].hello;
    if (strcmp(h->build, first->build) != 0)
      return mrt_hub_fail(m->hub, e, "rank 0 is of build '%s', rank %d of '%s'",
                          first->build, r, h->build);
    if (strcmp(h->algorithm, first->algorithm) != 0)
      return mrt_hub_fail(m->hub, e,
                          "rank 0 has the algorithm '%s', rank %d '%s'",
                          first->algorithm, r, h->algorithm);
  }
  return MRT_OK;
}

static mrt_status greet(mrt_messages *m, const mrt_messages_options *o,
                        mrt_error *e) {
  mrt_hub *hub = m->hub;
  mrt_note note = { .kind = MRT_NOTE_HELLO, .hello.pid = (int64_t)getpid() };
  snprintf(note.hello.host, sizeof note.hello.host, "%.63s", o->host);
  snprintf(note.hello.build, sizeof note.hello.build, "%.63s", o->build);
  snprintf(note.hello.algorithm, sizeof note.hello.algorithm, "%.15s",
           o->algorithm);
  mrt_peer *own = &hub->peers[m->comm.rank];
  own->hello = note.hello, own->greeted = true;
  for (int r = 0; r < m->comm.size; r++)
    if (r != m->comm.rank) mrt_hub_listen(hub, r);
  mrt_hub_say(hub, &note);
  mrt_wait w = { .missing = greets_not, .count = m->comm.size };
  MRT_TRY(mrt_messages_wait(m, &w, e));
  return compare(m, e);
}

static mrt_hub *new_hub(const mrt_allocator *a, mrt_engine *engine) {
  mrt_hub *hub = mrt_calloc(a, 1, sizeof *hub);
  if (!hub) return engine->close(engine, false), NULL;
  hub->engine = engine, hub->allocator = a;
  hub->peers = mrt_calloc(a, (size_t)engine->size, sizeof *hub->peers);
  hub->scratch = mrt_resize(a, NULL, 0, MRT_MESSAGES_SCRATCH);
  if (hub->peers && hub->scratch) return hub;
  drop_hub(hub, false);
  return NULL;
}

mrt_status mrt_messages_new(const mrt_allocator *a, mrt_engine *engine,
                            const mrt_messages_options *o,
                            mrt_communicator **out, mrt_error *e) {
  mrt_messages *m;
  mrt_hub *hub = new_hub(a, engine);
  if (!hub) return mrt_nomem(e);
  mrt_status s = new_channel(hub, 0, engine->rank, engine->size, &m, e);
  if (s) return drop_hub(hub, false), s;
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
