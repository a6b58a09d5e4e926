/* ahead.c -- rows that are read before they are asked for
 *
 * A source may have a thread that reads rows into storages; who asks for the
 * same rows then gets the storage, waiting for it if need be.  Who asks for
 * others, or whose were not read, reads himself: results and messages are as
 * if there were no thread.
 *
 * Requests stand in a ring, oldest first, and are read in that order.  The
 * thread allocates nothing, blocks all signals and touches only requests from
 * `read` on; their storages were allocated before.  A forked child has no such
 * thread, and lets everything be.
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "io/io.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

/* No more requests, and no more bytes in all of them, for one source. */
enum { DEPTH = 8, MOST_BYTES = 256 << 20 };

typedef struct ahead_request {
  mrt_wish wish;
  const mrt_bytes *bytes;
  mrt_storage *storage; /* NULL: it was taken */
  size_t nbytes;
  int64_t *rows; /* the wish's own */
  size_t room;   /* bytes of them */
  bool failed;
} ahead_request;

typedef struct mrt_ahead {
  pthread_t thread;
  pid_t process;
  size_t nbytes;             /* of all storages here */
  ahead_request ring[DEPTH]; /* request k in ring[k % DEPTH] */
  uint64_t oldest;
  atomic_bool closing;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  /* under the lock */
  uint64_t read, newest; /* oldest <= read <= newest <= oldest + DEPTH */
} ahead;

/* ---- the thread ---------------------------------------------------------- */

static bool read_request(const ahead *h, const ahead_request *r) {
  mrt_error e;
  const mrt_wish *w = &r->wish;
  mrt_array_reader reading = { w->array, r->bytes, NULL, &e };
  if (mrt_bytes_check(r->bytes, &e)) return false;
  for (int64_t k = 0, run; k < w->n; k += run) {
    run = mrt_wish_run(w, k);
    if (atomic_load(&h->closing) ||
        mrt_read_rows(&reading, w->rows[k], run * w->each,
                      (uint8_t *)r->storage->host + w->step * (size_t)k))
      return false;
  }
  return true;
}

static void *serve(void *user) {
  ahead *h = user;
  pthread_mutex_lock(&h->lock);
  while (!atomic_load(&h->closing)) {
    if (h->read == h->newest) {
      pthread_cond_wait(&h->changed, &h->lock);
      continue;
    }
    ahead_request *r = &h->ring[h->read % DEPTH];
    pthread_mutex_unlock(&h->lock);
    r->failed = !read_request(h, r);
    pthread_mutex_lock(&h->lock);
    h->read++;
    pthread_cond_broadcast(&h->changed);
  }
  pthread_mutex_unlock(&h->lock);
  return NULL;
}

/* ---- starting and stopping ----------------------------------------------- */

/* The source's, made when it is first needed; NULL where there can be none. */
static ahead *start(mrt_source *s) {
  const mrt_allocator *a = s->ctx->allocator;
  sigset_t all, before;
  if (s->ahead) return s->ahead->process == getpid() ? s->ahead : NULL;
  ahead *h = mrt_calloc(a, 1, sizeof *h);
  if (!h) return NULL;
  h->process = getpid();
  pthread_mutex_init(&h->lock, NULL);
  pthread_cond_init(&h->changed, NULL);
  sigfillset(&all); /* signals are for the threads of the program */
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int code = pthread_create(&h->thread, NULL, serve, h);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (code) return mrt_release(a, h, sizeof *h), NULL;
  return s->ahead = h;
}

void mrt_ahead_stop(ahead *h, const mrt_allocator *a) {
  if (!h) return;
  if (h->process == getpid()) {
    pthread_mutex_lock(&h->lock);
    atomic_store(&h->closing, true);
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->lock);
    pthread_join(h->thread, NULL);
    pthread_mutex_destroy(&h->lock);
    pthread_cond_destroy(&h->changed);
  }
  for (int i = 0; i < DEPTH; i++) {
    mrt_storage_unref(h->ring[i].storage);
    mrt_release(a, h->ring[i].rows, h->ring[i].room);
  }
  mrt_release(a, h, sizeof *h);
}

/* ---- asking and taking --------------------------------------------------- */

static mrt_storage *take(ahead *h, ahead_request *r) {
  mrt_storage *storage = r->storage;
  r->storage = NULL;
  h->nbytes -= r->nbytes, r->nbytes = 0;
  return storage;
}

/* Room for one more of so many bytes: what was read longest ago and is still
 * here, nobody wants. */
static bool make_room(ahead *h, size_t nbytes) {
  pthread_mutex_lock(&h->lock);
  uint64_t read = h->read, newest = h->newest;
  pthread_mutex_unlock(&h->lock);
  for (; h->oldest < read; h->oldest++) {
    ahead_request *r = &h->ring[h->oldest % DEPTH];
    if (r->storage && newest - h->oldest < DEPTH &&
        h->nbytes + nbytes <= MOST_BYTES)
      break;
    mrt_storage_unref(take(h, r));
  }
  return newest - h->oldest < DEPTH && h->nbytes + nbytes <= MOST_BYTES;
}

bool mrt_ahead_begin(mrt_source *s, const mrt_wish *w, const mrt_bytes *in) {
  const mrt_allocator *a = s->ctx->allocator;
  size_t nbytes = w->step * (size_t)w->n, room = (size_t)w->n * sizeof *w->rows;
  ahead *h = nbytes && nbytes <= MOST_BYTES ? start(s) : NULL;
  if (!h || !make_room(h, nbytes)) return false;
  ahead_request *r = &h->ring[h->newest % DEPTH];
  if (room > r->room) {
    int64_t *rows = mrt_resize(a, r->rows, r->room, room);
    if (!rows) return false;
    r->rows = rows, r->room = room;
  }
  if (mrt_storage_new_apart(s->ctx, nbytes, &r->storage)) return false;
  if (mrt_storage_fill_begin(r->storage)) {
    mrt_storage_unref(r->storage);
    r->storage = NULL;
    return false;
  }
  memcpy(r->rows, w->rows, room);
  r->wish = *w, r->wish.rows = r->rows;
  r->bytes = in, r->nbytes = nbytes;
  h->nbytes += nbytes;
  pthread_mutex_lock(&h->lock);
  h->newest++;
  pthread_cond_broadcast(&h->changed);
  pthread_mutex_unlock(&h->lock);
  return true;
}

static bool same(const mrt_wish *a, const mrt_wish *b) {
  return a->array == b->array && a->n == b->n && a->each == b->each &&
         memcmp(a->rows, b->rows, (size_t)a->n * sizeof *a->rows) == 0;
}

mrt_storage *mrt_ahead_take(mrt_source *s, const mrt_wish *w) {
  ahead *h = s->ahead;
  if (!h || h->process != getpid()) return NULL;
  for (uint64_t k = h->oldest; k < h->newest; k++) {
    ahead_request *r = &h->ring[k % DEPTH];
    if (!r->storage || !same(&r->wish, w)) continue;
    pthread_mutex_lock(&h->lock);
    while (h->read <= k) pthread_cond_wait(&h->changed, &h->lock);
    pthread_mutex_unlock(&h->lock);
    if (!r->failed) return take(h, r);
    mrt_storage_unref(take(h, r));
    return NULL;
  }
  return NULL;
}
