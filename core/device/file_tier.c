/* file_tier.c -- a tier in a file
 *
 * Each lane has a thread that takes copies from a short ring and does them
 * with pread or pwrite.  Whole pages between aligned places go past the page
 * cache where the file system allows, the rest through it.
 *
 * The threads allocate nothing, block all signals and touch only their lane.
 * A forked child has no such threads: it is refused when it resizes, and may
 * close.
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* O_DIRECT, mkostemp */
#include "device/tier.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#ifndef O_DIRECT
#define O_DIRECT 0
#endif

enum { DEPTH = 64 };

typedef struct copy {
  char *data;
  size_t offset, nbytes;
} copy;

typedef struct file_lane {
  struct file_tier *tier;
  bool out;
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  /* under the lock */
  copy ring[DEPTH];        /* copy n in ring[n % DEPTH] */
  uint64_t started, ended; /* ended <= started <= ended + DEPTH */
  int error;               /* of the first that failed since drain */
  bool closing;
} file_lane;

typedef struct file_tier {
  mrt_tier tier; /* first */
  const mrt_allocator *allocator;
  file_lane lanes[2];
  int lane_count;   /* those with a thread */
  int file, direct; /* descriptors of one file; direct may be -1 */
  size_t nbytes;
  pid_t process;
  char folder[512]; /* for messages, perhaps cut off */
} file_tier;

/* ---- a lane's thread ----------------------------------------------------- */

/* All of it, or an errno value. */
static int transfer(int file, bool out, copy c) {
  while (c.nbytes) {
    ssize_t n = out ? pwrite(file, c.data, c.nbytes, (off_t)c.offset)
                    : pread(file, c.data, c.nbytes, (off_t)c.offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    if (n == 0) return EIO; /* the file is shorter than we made it */
    c.data += n, c.offset += (size_t)n, c.nbytes -= (size_t)n;
  }
  return 0;
}

static int perform(const file_tier *t, bool out, copy c) {
  bool aligned = ((uintptr_t)c.data | c.offset) % MRT_TIER_ALIGN == 0;
  size_t pages = c.nbytes / MRT_TIER_ALIGN * MRT_TIER_ALIGN;
  if (t->direct < 0 || !aligned || !pages) return transfer(t->file, out, c);
  int code = transfer(t->direct, out, (copy){ c.data, c.offset, pages });
  if (code == EINVAL) /* other rules here, or a short transfer before */
    return transfer(t->file, out, c);
  if (code) return code;
  return transfer(t->file, out,
                  (copy){ c.data + pages, c.offset + pages, c.nbytes - pages });
}

static void *serve(void *user) {
  file_lane *l = user;
  pthread_mutex_lock(&l->lock);
  while (true) {
    while (l->started == l->ended && !l->closing)
      pthread_cond_wait(&l->changed, &l->lock);
    if (l->started == l->ended) break;
    copy c = l->ring[l->ended % DEPTH];
    bool skip = l->error != 0 || l->closing;
    pthread_mutex_unlock(&l->lock);
    int code = skip ? 0 : perform(l->tier, l->out, c);
    pthread_mutex_lock(&l->lock);
    if (code && !l->error) l->error = code;
    l->ended++;
    pthread_cond_broadcast(&l->changed);
  }
  pthread_mutex_unlock(&l->lock);
  return NULL;
}

/* ---- the table ----------------------------------------------------------- */

static uint64_t start(mrt_tier *tier, mrt_tier_lane lane_number, void *data,
                      size_t offset, size_t nbytes) {
  file_lane *l = &((file_tier *)tier)->lanes[lane_number];
  pthread_mutex_lock(&l->lock);
  while (l->started - l->ended == DEPTH)
    pthread_cond_wait(&l->changed, &l->lock);
  uint64_t number = l->started++;
  l->ring[number % DEPTH] = (copy){ data, offset, nbytes };
  pthread_cond_broadcast(&l->changed);
  pthread_mutex_unlock(&l->lock);
  return number;
}

static int wait_for(mrt_tier *tier, mrt_tier_lane lane_number,
                    uint64_t number) {
  file_lane *l = &((file_tier *)tier)->lanes[lane_number];
  pthread_mutex_lock(&l->lock);
  while (l->ended <= number) pthread_cond_wait(&l->changed, &l->lock);
  int error = l->error;
  pthread_mutex_unlock(&l->lock);
  return error;
}

static void drain(mrt_tier *tier) {
  file_tier *t = (file_tier *)tier;
  for (int i = 0; i < t->lane_count; i++) {
    file_lane *l = &t->lanes[i];
    pthread_mutex_lock(&l->lock);
    while (l->ended < l->started) pthread_cond_wait(&l->changed, &l->lock);
    l->error = 0;
    pthread_mutex_unlock(&l->lock);
  }
}

static mrt_status full(const file_tier *t, size_t nbytes, int code,
                       mrt_error *e) {
  return mrt_fail(e, MRT_EDEVICE,
                  "swap file: %zu bytes wanted, %zu more than it has in %s: "
                  "%s%s; another folder would do (mrt.swap_folder, $TMPDIR)",
                  nbytes, nbytes - t->nbytes, t->folder, strerror(code),
                  code == EFBIG ? " (ulimit -f)" : "");
}

static mrt_status resize(mrt_tier *tier, size_t nbytes, mrt_error *e) {
  file_tier *t = (file_tier *)tier;
  struct rlimit limit;
  if (getpid() != t->process)
    return mrt_fail(e, MRT_EDEVICE,
                    "the swap file belongs to the process that made it, not "
                    "to one forked from it");
  if (nbytes == t->nbytes) return MRT_OK;
  if (nbytes < t->nbytes) {
    if (ftruncate(t->file, (off_t)nbytes) == 0) t->nbytes = nbytes;
    return MRT_OK; /* larger does no harm */
  }
  /* Past this limit the kernel would send a signal that kills. */
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
      nbytes > limit.rlim_cur)
    return full(t, nbytes, EFBIG, e);
  int code;
  do
    code =
        posix_fallocate(t->file, (off_t)t->nbytes, (off_t)(nbytes - t->nbytes));
  while (code == EINTR);
  if (code) {
    if (ftruncate(t->file, (off_t)t->nbytes)) code = ENOSPC;
    return full(t, nbytes, code, e);
  }
  t->nbytes = nbytes;
  return MRT_OK;
}

/* ---- opening and closing ------------------------------------------------- */

static void join(file_tier *t) {
  for (int i = 0; i < t->lane_count; i++) {
    file_lane *l = &t->lanes[i];
    pthread_mutex_lock(&l->lock);
    l->closing = true;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
    pthread_join(l->thread, NULL);
    pthread_mutex_destroy(&l->lock);
    pthread_cond_destroy(&l->changed);
  }
}

static void close_tier(mrt_tier *tier) {
  file_tier *t = (file_tier *)tier;
  if (getpid() == t->process) join(t);
  if (t->direct >= 0) close(t->direct);
  if (t->file >= 0) close(t->file);
  mrt_release(t->allocator, t, sizeof *t);
}

/* Signals are for the threads of the program. */
static int start_threads(file_tier *t) {
  sigset_t all, before;
  int code = 0;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  for (int i = 0; i < 2 && !code; i++) {
    file_lane *l = &t->lanes[i];
    l->tier = t, l->out = i == MRT_TIER_OUT;
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->changed, NULL);
    code = pthread_create(&l->thread, NULL, serve, l);
    if (!code) t->lane_count++;
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return code;
}

static int open_files(file_tier *t, const char *folder) {
  char path[4096];
  int n = snprintf(path, sizeof path, "%s/mrt-swap-XXXXXX", folder);
  if (n < 0 || n >= (int)sizeof path) return ENAMETOOLONG;
  t->file = mkostemp(path, O_CLOEXEC);
  if (t->file < 0) return errno;
  if (O_DIRECT) t->direct = open(path, O_RDWR | O_CLOEXEC | O_DIRECT);
  unlink(path);
  return 0;
}

mrt_status mrt_file_tier_open(const char *folder, const mrt_allocator *a,
                              mrt_tier **tier, mrt_error *e) {
  file_tier *t = mrt_calloc(a, 1, sizeof *t);
  if (!t) return mrt_nomem(e);
  t->tier =
      (mrt_tier){ resize, start, wait_for, drain, NULL, close_tier, NULL };
  t->allocator = a, t->file = t->direct = -1;
  t->process = getpid();
  snprintf(t->folder, sizeof t->folder, "%s", folder);
  int code = open_files(t, folder);
  if (!code) code = start_threads(t);
  if (code) {
    close_tier(&t->tier);
    return mrt_fail(e, MRT_EDEVICE,
                    "no swap file in %s: %s; another folder would do "
                    "(mrt.swap_folder, $TMPDIR)",
                    folder, strerror(code));
  }
  *tier = &t->tier;
  return MRT_OK;
}
