/* jit.c -- generated kernels: made once, found again, launched
 *
 * SPDX-License-Identifier: MIT */
#include "jit/compile.h"
#include "jit/source.h"
#include "runtime/cache.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct mrt_jit {
  void *function;
  int64_t most_blocks;
  int width, nin, nout, args;
  int align[MRT_SOURCE_OPERANDS];
  int64_t arg[]; /* all but the pointers and the vectors */
};

/* What is known to the process; new ones come first.  A text is compiled under
 * the lock, so that nobody compiles it twice. */
typedef struct known {
  struct known *next;
  uint64_t hash;
  void *function;
  char *text; /* target and text */
} known;
enum { BUCKETS = 1024 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static known *table[BUCKETS];
static char failure[MRT_JIT_WHY];

static void fail(const char *why) {
  if (!failure[0]) snprintf(failure, sizeof failure, "%s", why);
}

bool mrt_jit_failed(char why[MRT_JIT_WHY]) {
  pthread_mutex_lock(&lock);
  bool failed = failure[0] != '\0';
  if (failed) memcpy(why, failure, MRT_JIT_WHY);
  failure[0] = '\0';
  pthread_mutex_unlock(&lock);
  return failed;
}

bool mrt_jit_has(int op) { return mrt_jit_text_has(op); }

/* ---- finding and making -------------------------------------------------- */

/* The file of its code. */
static bool path_of(const char *target, const char *text,
                    char path[MRT_CUDA_CACHE_PATH]) {
  mrt_cuda_cache_key name = mrt_cuda_cache_begin();
  mrt_cuda_cache_add(&name, target, strlen(target) + 1);
  mrt_cuda_cache_add(&name, mrt_pointwise_text, strlen(mrt_pointwise_text));
  mrt_cuda_cache_add(&name, text, strlen(text));
  return mrt_cuda_cache_path(&name, "code", path);
}

static void *make(const char *target, const char *text, char *why) {
  char path[MRT_CUDA_CACHE_PATH];
  size_t size = 0;
  bool keeps = path_of(target, text, path);
  void *code = keeps ? mrt_cuda_cache_read(path, &size) : NULL;
  void *function = code ? mrt_jit_load(code, size, path, why) : NULL;
  if (!function) {
    if (code) remove(path);
    free(code);
    code = mrt_jit_compile(text, target, &size, why);
    if (!code) return NULL;
    keeps = keeps && mrt_cuda_cache_write(path, code, size);
    function = mrt_jit_load(code, size, keeps ? path : NULL, why);
  }
  free(code);
  return function;
}

/* The function of target and text; NULL with why. */
static void *find(const char *target, const char *text, char *why) {
  size_t n = strlen(target) + 1, m = strlen(text) + 1;
  uint64_t hash =
      mrt_cuda_cache_hash(mrt_cuda_cache_hash(0, target, n), text, m);
  known **bucket = &table[hash % BUCKETS];
  for (known *k = *bucket; k; k = k->next)
    if (k->hash == hash && strcmp(k->text, target) == 0 &&
        strcmp(k->text + n, text) == 0)
      return k->function;
  known *k = malloc(sizeof *k);
  char *copy = malloc(n + m);
  if (k && copy) {
    memcpy(copy, target, n);
    memcpy(copy + n, text, m);
    *k = (known){ *bucket, hash, make(target, text, why), copy };
    if (k->function) {
      *bucket = k;
      return k->function;
    }
  } else {
    snprintf(why, MRT_JIT_WHY, "not enough memory for a generated kernel");
  }
  free(k);
  free(copy);
  return NULL;
}

static mrt_jit *chain_of(const mrt_jit_text *s, void *function) {
  size_t bytes = (size_t)s->args * sizeof(int64_t);
  mrt_jit *c = malloc(sizeof *c + bytes);
  if (!c) return NULL;
  c->function = function;
  c->most_blocks = mrt_jit_blocks();
  c->width = s->width, c->nin = s->nin, c->nout = s->nout, c->args = s->args;
  memcpy(c->align, s->align, sizeof c->align);
  memcpy(c->arg, s->arg, bytes);
  return c;
}

mrt_jit *mrt_jit_prepare(const mrt_call *call, int op) {
  char why[MRT_JIT_WHY] = "a pointwise chain is too large for one kernel";
  char target[MRT_JIT_TARGET];
  mrt_jit_text s;
  mrt_jit *c = NULL;
  bool written = mrt_jit_text_write(call, op, MRT_JIT_NAME, &s);
  pthread_mutex_lock(&lock);
  if (written && mrt_jit_target(target, why)) {
    void *function = find(target, s.text, why);
    if (function && !(c = chain_of(&s, function)))
      snprintf(why, sizeof why, "not enough memory for a generated kernel");
  }
  if (!c) fail(why);
  pthread_mutex_unlock(&lock);
  if (written) mrt_jit_text_free(&s);
  return c;
}

void mrt_jit_release(mrt_jit *c) { free(c); }

/* ---- launching ----------------------------------------------------------- */

static void *data_of(const mrt_call *call, int i) {
  return i < call->nin ? call->in[i].data : call->out[i - call->nin].data;
}

void mrt_jit_run(const mrt_jit *c, const mrt_call *call) {
  if (!c || c->arg[MRT_ARG_COUNT] == 0) return;
  char why[MRT_JIT_WHY];
  int64_t arg[MRT_ARG_MOST], count = c->arg[MRT_ARG_COUNT];
  bool aligned = c->width > 1;
  memcpy(arg, c->arg, (size_t)c->args * sizeof *arg);
  for (int i = 0; i < c->nin + c->nout; i++) {
    uintptr_t at = (uintptr_t)data_of(call, i);
    aligned &= at % (uintptr_t)c->align[i] == 0;
    arg[MRT_ARG_IN + i] = (int64_t)at;
  }
  arg[MRT_ARG_VECTORS] = aligned ? count / c->width : 0;
  arg[MRT_ARG_WORDS] = (int64_t)(uintptr_t)call->run->words;
  int64_t turns = aligned && count >= c->width ? count / c->width : count;
  int64_t blocks = (turns + MRT_JIT_THREADS - 1) / MRT_JIT_THREADS;
  blocks = blocks < c->most_blocks ? blocks : c->most_blocks;
  if (mrt_jit_launch(c->function, blocks, arg, c->args, call->run->queue, why))
    return;
  pthread_mutex_lock(&lock);
  fail(why);
  pthread_mutex_unlock(&lock);
}
