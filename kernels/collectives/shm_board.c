/* shm_board.c -- the board: waiting on it, failing
 *
 * A rank that waits reads the mailboxes for a thousand turns, then lets others
 * run, then sleeps a sixteenth of what it has waited (a millisecond at most)
 * and now and then looks whether the others live.  Four ranks on two cores so
 * leave both to those who compute.
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "shm.h"

#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SPIN = 1000, YIELD = 200 };

static size_t head_bytes(int size) {
  return sizeof(mrt_shm_board) + (size_t)size * sizeof(mrt_shm_mailbox);
}

size_t mrt_shm_board_bytes(int size) {
  return head_bytes(size) + (size_t)size * 3 * MRT_SHM_CHUNK;
}

char *mrt_shm_board_chunk(const mrt_shm_board *board, int rank, int which) {
  return (char *)board + head_bytes(board->size) +
         (size_t)(3 * rank + which) * MRT_SHM_CHUNK;
}

void mrt_shm_board_init(mrt_shm_board *board, int size) {
  memset(board, 0, head_bytes(size));
  board->nbytes = mrt_shm_board_bytes(size);
  board->size = size;
}

/* ---- failing ------------------------------------------------------------- */

typedef struct board_text {
  char s[200];
} board_text;

/* "rank 2 (pid 123 on node7)"; all that share memory are on one host. */
static board_text who(const mrt_shm_comm *m, int rank) {
  board_text t;
  char host[65] = "";
  long long pid = m->board->mailboxes[rank].pid;
  if (gethostname(host, sizeof host - 1)) host[0] = 0;
  snprintf(t.s, sizeof t.s, pid ? "rank %d (pid %lld on %s)" : "rank %d", rank,
           pid, host);
  return t;
}

/* The writer of the message may have been killed at it. */
static mrt_status say(const mrt_shm_board *b, mrt_error *e) {
  for (int i = 0; i < 1000; i++) {
    if (atomic_load_explicit(&b->failed, memory_order_acquire) == 2)
      return mrt_fail(e, MRT_ERANK, "%s", b->message);
    nanosleep(&(struct timespec){ .tv_nsec = 100000 }, NULL);
  }
  return mrt_fail(e, MRT_ERANK, "a rank failed and died before it said why");
}

mrt_status mrt_shm_check(mrt_shm_comm *m, mrt_error *e) {
  for (; m; m = m->parent)
    if (atomic_load(&m->board->failed)) return say(m->board, e);
  return MRT_OK;
}

mrt_status mrt_shm_fail(mrt_shm_comm *m, mrt_error *e, const char *fmt, ...) {
  mrt_shm_board *b = m->board;
  int none = 0;
  if (atomic_compare_exchange_strong(&b->failed, &none, 1)) {
    va_list args;
    va_start(args, fmt);
    vsnprintf(b->message, sizeof b->message, fmt, args);
    va_end(args);
    atomic_store_explicit(&b->failed, 2, memory_order_release);
  }
  return say(b, e);
}

void mrt_shm_abort(mrt_communicator *comm, const char *why) {
  mrt_error other;
  mrt_shm_fail((mrt_shm_comm *)comm, &other, "%s ended: %s",
               who((mrt_shm_comm *)comm, comm->rank).s, why);
}

/* ---- waiting ------------------------------------------------------------- */

double mrt_clock(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* State and start time are words 3 and 22; the second, the program's name, is
 * in parentheses and may hold any character. */
uint64_t mrt_shm_process_started(int64_t pid) {
  char path[40], text[1024];
  snprintf(path, sizeof path, "/proc/%lld/stat", (long long)pid);
  FILE *f = fopen(path, "r");
  if (!f) return errno == ENOENT || errno == ESRCH ? 0 : UINT64_MAX;
  size_t n = fread(text, 1, sizeof text - 1, f);
  fclose(f);
  text[n] = 0;
  char state;
  unsigned long long started = 0;
  const char *rest = strrchr(text, ')');
  if (!rest ||
      sscanf(rest + 1,
             " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
             "%*s %*s %*s %llu",
             &state, &started) != 2)
    return 0;
  return state == 'Z' || state == 'X' ? 0 : started;
}

/* What cannot be told counts as alive: there are deadlines. */
static bool is_dead(const mrt_shm_mailbox *mailbox) {
  uint64_t now =
      mailbox->pid ? mrt_shm_process_started(mailbox->pid) : mailbox->started;
  return now != mailbox->started && now != UINT64_MAX;
}

static bool is_pair(const mrt_collective *c) {
  return c->kind == MRT_COLLECT_send || c->kind == MRT_COLLECT_recv;
}

/* What the waiting rank is at, for a message. */
static board_text at_what(const mrt_shm_comm *m, const mrt_shm_wait *w) {
  board_text t = { "the start" };
  if (!w->c) return t;
  mrt_descriptor_text what = mrt_collective_print(w->c);
  if (is_pair(w->c))
    snprintf(t.s, sizeof t.s, "%s of rank %d", what.s, m->comm.rank);
  else
    snprintf(t.s, sizeof t.s, "collective #%llu, %s",
             (unsigned long long)m->calls, what.s);
  return t;
}

/* A missing rank that will never come.  It may have come and died since it was
 * looked at. */
static mrt_status check_alive(mrt_shm_comm *m, const mrt_shm_wait *w,
                              mrt_error *e) {
  for (int r = 0; r < m->comm.size; r++) {
    mrt_shm_mailbox *mailbox = &m->board->mailboxes[r];
    int state = atomic_load_explicit(&mailbox->state, memory_order_acquire);
    if (state < MRT_MAILBOX_OPEN || w->has(m, w, r)) continue;
    bool closed = state == MRT_MAILBOX_CLOSED;
    bool dead = !closed && is_dead(mailbox);
    if ((closed || dead) && !w->has(m, w, r))
      return mrt_shm_fail(m, e,
                          closed ? "%s has ended or closed its communicator; %s"
                                 : "%s died; %s",
                          who(m, r).s, at_what(m, w).s);
  }
  return MRT_OK;
}

static int first_missing(const mrt_shm_comm *m, const mrt_shm_wait *w) {
  int r = 0;
  while (r < m->comm.size && w->has(m, w, r)) r++;
  return r;
}

static uint64_t milliseconds(double t) { return (uint64_t)(1e3 * t); }

/* Who holds up `rank`, which may wait for another in turn; this rank waits for
 * all of them, so when it is reached nobody alone is to blame. */
static int culprit(const mrt_shm_comm *m, const mrt_shm_wait *w, int rank) {
  const uint64_t fresh = 200; /* milliseconds: a stopped rank says nothing */
  int r = rank;
  for (int i = 0; i < m->comm.size && r != m->comm.rank; i++) {
    uint64_t word = atomic_load_explicit(&m->board->mailboxes[r].waits,
                                         memory_order_relaxed);
    if (milliseconds(w->last) > (word >> 16) + fresh) return r;
    r = (int)(word & 0xffff) - 1;
  }
  return rank;
}

static mrt_status check_deadline(mrt_shm_comm *m, const mrt_shm_wait *w,
                                 int rank, mrt_error *e) {
  if (w->waited < m->comm.timeout) return MRT_OK;
  int by = culprit(m, w, rank);
  bool came = w->c && !is_pair(w->c) && m->step > m->came &&
              atomic_load(&m->board->mailboxes[rank].step) >= m->came;
  const char *what = came ? "did not finish" : "did not come to";
  if (by == rank)
    return mrt_shm_fail(m, e, "%s %s %s within %g s", who(m, rank).s, what,
                        at_what(m, w).s, m->comm.timeout);
  return mrt_shm_fail(m, e, "%s holds up %s, which %s %s within %g s",
                      who(m, by).s, who(m, rank).s, what, at_what(m, w).s,
                      m->comm.timeout);
}

static mrt_status check_interrupt(mrt_shm_comm *m, const mrt_shm_wait *w,
                                  mrt_error *e) {
  mrt_error other;
  if (!mrt_is_interrupted(&m->comm)) return MRT_OK;
  mrt_shm_fail(m, &other, "%s was interrupted in %s", who(m, m->comm.rank).s,
               at_what(m, w).s);
  return mrt_fail(e, MRT_EINTERRUPT, "interrupted");
}

/* Time in which this process was stopped itself is not held against others. */
static void count_time(mrt_shm_wait *w) {
  const double stopped = 0.1;
  double now = mrt_clock(), passed = w->last ? now - w->last : 0;
  w->waited += passed < stopped ? passed : stopped;
  w->last = now;
}

static void sleep_for(double seconds) {
  long ns = (long)(seconds * 1e9);
  ns = ns < 20000 ? 20000 : ns > 1000000 ? 1000000 : ns;
  nanosleep(&(struct timespec){ .tv_nsec = ns }, NULL);
}

void mrt_shm_leave(mrt_shm_comm *m, bool failed) {
  atomic_store(&m->mine->inside, 0);
  double until = failed ? mrt_clock() + (m->heap ? 1 : m->comm.timeout) : 0;
  for (int r = 0; failed && r < m->comm.size; r++) {
    mrt_shm_mailbox *mailbox = &m->board->mailboxes[r];
    while (atomic_load(&mailbox->inside) && mrt_clock() < until &&
           !is_dead(mailbox))
      sleep_for(1e-4);
  }
}

mrt_status mrt_shm_wait_turn(mrt_shm_comm *m, mrt_shm_wait *w, mrt_error *e) {
  const double look = 0.02; /* seconds between looks whether others live */
  if (++w->turns < SPIN) return MRT_OK;
  if (w->turns < SPIN + YIELD) return sched_yield(), MRT_OK;
  count_time(w);
  MRT_TRY(mrt_shm_check(m, e));
  MRT_TRY(check_interrupt(m, w, e));
  if (w->last - w->looked > look) {
    w->looked = w->last;
    MRT_TRY(check_alive(m, w, e));
  }
  int missing = first_missing(m, w);
  if (missing == m->comm.size) return MRT_OK;
  atomic_store_explicit(&m->mine->waits,
                        milliseconds(w->last) << 16 | (uint64_t)(missing + 1),
                        memory_order_relaxed);
  MRT_TRY(check_deadline(m, w, missing, e));
  sleep_for(w->waited / 16);
  return MRT_OK;
}

static bool has_step(const mrt_shm_comm *m, const mrt_shm_wait *w, int rank) {
  return atomic_load_explicit(&m->board->mailboxes[rank].step,
                              memory_order_acquire) >= w->want;
}

mrt_status mrt_shm_step(mrt_shm_comm *m, const mrt_collective *c,
                        mrt_error *e) {
  mrt_shm_wait w = { .has = has_step, .want = ++m->step, .c = c };
  atomic_store_explicit(&m->mine->step, w.want, memory_order_release);
  for (int r = 0; r < m->comm.size; r++)
    while (!has_step(m, &w, r)) MRT_TRY(mrt_shm_wait_turn(m, &w, e));
  return MRT_OK;
}
