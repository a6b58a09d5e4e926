/* workers.c -- the threads that kernels divide their work among
 *
 * A job has a number.  The caller writes the job down, opens each of its parts
 * by that number and then tells the number to all.  Who takes a part replaces
 * the number, so that one who comes late, with the number of a job that is over,
 * takes nothing; and since the next job is written down only when each part of
 * this one is done, whoever has taken a part reads the job it belongs to.
 * Worker i tries part i first: it has the cache lines of the last kernel's.
 *
 * SPDX-License-Identifier: MIT */
#include "runtime/workers.h"

#include "base/rounding.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

/* Longer than most of what one thread does alone between two jobs; a tenth of
 * the time that a system gives to one of two threads on a core. */
enum { SPIN_NS = 400000, LOOKS_PER_CLOCK = 16 };
enum { STACK = 1 << 20 }; /* bytes of a worker's */
enum { LINE = 64 };       /* bytes that two threads should not both write */

typedef struct worker {
  mrt_workers *all;
  int number; /* from 1: the caller is 0 */
  pthread_t thread;
} worker;

struct mrt_workers {
  const mrt_allocator *allocator;
  int room;            /* parts of a job at most */
  int places;          /* workers at most */
  int wanted, count;   /* of them; and how many have begun */
  unsigned forks;      /* of the process, when this was made */
  atomic_flag busy;    /* a job is under way */
  worker *each;        /* [wanted] */
  atomic_ullong *open; /* by part: the number of the job, or TAKEN */
  /* the job; written by the caller while no part is open */
  mrt_part *run;
  const mrt_call *call;
  const void *shared;
  atomic_int parts;
  char line1[LINE];
  atomic_ullong job; /* its number, told to all */
  char line2[LINE];
  atomic_int undone; /* its parts */
  char line3[LINE];
  /* who sleeps, and what wakes them */
  atomic_int asleep; /* workers */
  atomic_bool caller_asleep, closing;
  pthread_mutex_t lock;
  pthread_cond_t begun, done;
};

/* No job's number. */
enum { TAKEN = 0 };

/* A child of a fork has the memory of workers, but not their threads. */
static atomic_uint forks;
static pthread_once_t watches_forks = PTHREAD_ONCE_INIT;

static void count_fork(void) { atomic_fetch_add(&forks, 1); }
static void watch_forks(void) { pthread_atfork(NULL, NULL, count_fork); }

/* ---- waiting ------------------------------------------------------------- */

static void rest(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static int64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static bool has_job(mrt_workers *w, unsigned long long seen) {
  return atomic_load(&w->job) != seen || atomic_load(&w->closing);
}

static bool is_done(mrt_workers *w, unsigned long long unused) {
  (void)unused;
  return atomic_load(&w->undone) == 0;
}

/* Looks for a while whether `what` holds. */
static bool look(mrt_workers *w,
                 bool (*what)(mrt_workers *, unsigned long long),
                 unsigned long long argument) {
  int64_t end = 0;
  for (;;) {
    for (int i = 0; i < LOOKS_PER_CLOCK; i++) {
      if (what(w, argument)) return true;
      rest();
    }
    int64_t t = now();
    if (!end) end = t + SPIN_NS;
    if (t >= end) return false;
  }
}

static void wait_for_job(mrt_workers *w, unsigned long long seen) {
  if (look(w, has_job, seen)) return;
  pthread_mutex_lock(&w->lock);
  atomic_fetch_add(&w->asleep, 1); /* before the last look: see `tell` */
  while (!has_job(w, seen)) pthread_cond_wait(&w->begun, &w->lock);
  atomic_fetch_sub(&w->asleep, 1);
  pthread_mutex_unlock(&w->lock);
}

static void wait_until_done(mrt_workers *w) {
  if (look(w, is_done, 0)) return;
  pthread_mutex_lock(&w->lock);
  atomic_store(&w->caller_asleep, true); /* before the last look: see `take` */
  while (!is_done(w, 0)) pthread_cond_wait(&w->done, &w->lock);
  atomic_store(&w->caller_asleep, false);
  pthread_mutex_unlock(&w->lock);
}

/* ---- a job --------------------------------------------------------------- */

static void take(mrt_workers *w, unsigned long long job, int first) {
  int parts = atomic_load(&w->parts);
  for (int i = 0; i < parts; i++) {
    int part = (first + i) % parts;
    unsigned long long expected = job;
    if (atomic_load_explicit(&w->open[part], memory_order_relaxed) != job ||
        !atomic_compare_exchange_strong(&w->open[part], &expected, TAKEN))
      continue;
    w->run(w->call, w->shared, part, parts);
    if (atomic_fetch_sub(&w->undone, 1) > 1) continue;
    if (!atomic_load(&w->caller_asleep)) continue;
    pthread_mutex_lock(&w->lock);
    pthread_cond_signal(&w->done);
    pthread_mutex_unlock(&w->lock);
  }
}

/* Writes the job down and tells it to those who look and who sleep. */
static unsigned long long tell(mrt_workers *w, int parts, mrt_part *run,
                               const mrt_call *call, const void *shared) {
  unsigned long long job = atomic_load(&w->job) + 1;
  w->run = run, w->call = call, w->shared = shared;
  atomic_store(&w->parts, parts);
  atomic_store(&w->undone, parts);
  for (int i = 0; i < parts; i++)
    atomic_store_explicit(&w->open[i], job, memory_order_release);
  atomic_store(&w->job, job);
  if (atomic_load(&w->asleep)) {
    pthread_mutex_lock(&w->lock);
    if (parts > w->count)
      pthread_cond_broadcast(&w->begun);
    else
      for (int i = 1; i < parts; i++) pthread_cond_signal(&w->begun);
    pthread_mutex_unlock(&w->lock);
  }
  return job;
}

/* ---- workers ------------------------------------------------------------- */

static void *work(void *at) {
  const worker *me = at;
  mrt_workers *w = me->all;
  unsigned long long seen = 0;
  mrt_rounding_default();
  for (;;) {
    wait_for_job(w, seen);
    if (atomic_load(&w->closing)) return NULL;
    seen = atomic_load(&w->job);
    take(w, seen, me->number);
  }
}

/* As many as the process gets; signals are for the host's threads. */
static void begin(mrt_workers *w) {
  sigset_t all, before;
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes)) return;
  pthread_attr_setstacksize(&attributes, STACK);
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  while (w->count < w->wanted) {
    worker *each = &w->each[w->count];
    *each = (worker){ .all = w, .number = w->count + 1 };
    if (pthread_create(&each->thread, &attributes, work, each)) break;
    w->count++;
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attributes);
  w->wanted = w->count; /* one try is enough */
}

mrt_workers *mrt_cpu_workers_new(const mrt_allocator *a, int parts,
                                 int workers) {
  mrt_workers *w = mrt_calloc(a, 1, sizeof *w);
  if (!w) return NULL;
  pthread_once(&watches_forks, watch_forks);
  w->allocator = a, w->room = parts, w->wanted = workers;
  w->places = workers, w->forks = atomic_load(&forks);
  w->each = mrt_calloc(a, (size_t)workers + 1, sizeof *w->each);
  w->open = mrt_calloc(a, (size_t)parts, sizeof *w->open);
  atomic_flag_clear(&w->busy);
  pthread_mutex_init(&w->lock, NULL);
  pthread_cond_init(&w->begun, NULL);
  pthread_cond_init(&w->done, NULL);
  if (w->each && w->open) return w;
  return mrt_cpu_workers_free(w), NULL;
}

void mrt_cpu_workers_free(mrt_workers *w) {
  if (!w) return;
  if (w->forks == atomic_load(&forks)) {
    pthread_mutex_lock(&w->lock);
    atomic_store(&w->closing, true);
    pthread_cond_broadcast(&w->begun);
    pthread_mutex_unlock(&w->lock);
    for (int i = 0; i < w->count; i++) pthread_join(w->each[i].thread, NULL);
    pthread_cond_destroy(&w->begun);
    pthread_cond_destroy(&w->done);
    pthread_mutex_destroy(&w->lock);
  }
  if (w->each)
    mrt_release(w->allocator, w->each,
                ((size_t)w->places + 1) * sizeof *w->each);
  if (w->open)
    mrt_release(w->allocator, w->open, (size_t)w->room * sizeof *w->open);
  mrt_release(w->allocator, w, sizeof *w);
}

static bool begins_job(mrt_workers *w, int parts) {
  return parts > 1 && parts <= w->room && w->forks == atomic_load(&forks) &&
         !atomic_flag_test_and_set(&w->busy);
}

void mrt_cpu_workers_run(mrt_workers *w, int parts, mrt_part *run,
                         const mrt_call *call, const void *shared) {
  if (!w || !begins_job(w, parts)) {
    for (int part = 0; part < parts; part++) run(call, shared, part, parts);
    return;
  }
  if (w->count < w->wanted) begin(w);
  take(w, tell(w, parts, run, call, shared), 0);
  wait_until_done(w);
  atomic_flag_clear(&w->busy);
}
