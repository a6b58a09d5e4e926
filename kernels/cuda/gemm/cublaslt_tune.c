/* cublaslt_tune.c -- which of the algorithms that the library names is fastest?
 *
 * Each is timed on random numbers, and a later one is taken only if it is
 * clearly faster; unless a process has found that out before
 * (gemm/cublaslt_cache.c).
 *
 * SPDX-License-Identifier: MIT */
#include "gemm/cublaslt_inside.h"

#include <string.h>

/* Rounds in which all take turns, so that a clock that rises or falls meanwhile
 * favours none; in each a product runs as often as takes some time, at most so
 * often. */
enum { ROUNDS = 3, MOST_RUNS = 8, MOST_TRIED = 32 };
static const float round_ms = 1;
static const float clearly = 0.985f; /* of the time of the one before */

/* Operands of random numbers, in memory that is given back. */
typedef struct tune_trial {
  void *data;
  mrt_lt_call call;
  cudaEvent_t from, to;
} tune_trial;

static size_t up(size_t bytes) { return (bytes + 255) / 256 * 256; }
static int64_t elements(const mrt_lt_shape *s, const mrt_lt_matrix *x,
                        int64_t rows, int64_t cols) {
  int64_t lines = x->turned ? cols : rows, length = x->turned ? rows : cols;
  return (s->count - 1) * x->step + (lines - 1) * x->ld + length;
}
static size_t bytes(int64_t n, int dtype) {
  return up((size_t)n * mrt_dtypes[dtype].bytes);
}

/* `n` numbers of the next memory. */
static void *some(mrt_cuda *c, char **next, int64_t n, int dtype) {
  void *data = *next;
  *next += bytes(n, dtype);
  mrt_cuda_noise(data, dtype, n, c->queue);
  return data;
}

static bool begin_trial(mrt_cuda *c, const mrt_lt *p, tune_trial *t) {
  const mrt_lt_shape *s = &p->shape;
  int64_t a = elements(s, &s->a, s->m, s->k);
  int64_t b = elements(s, &s->b, s->k, s->n);
  int64_t y = elements(s, &s->y, s->m, s->n);
  int64_t bias = s->bias < 0 ? 0 : s->n, aux = s->aux ? s->m * s->n : 0;
  int64_t sums = s->sums ? s->m : 0;
  int bias_dtype = s->bias < 0 ? MRT_f32 : s->bias;
  size_t all = bytes(a, s->a.dtype) + bytes(b, s->b.dtype) +
               bytes(y + aux, s->y.dtype) + 256 + bytes(bias, bias_dtype) +
               bytes(sums, s->y.dtype);
  *t = (tune_trial){ 0 };
  if (cudaMalloc(&t->data, all + p->workspace) != cudaSuccess)
    return cudaGetLastError(), false;
  char *next = t->data;
  t->call.a = some(c, &next, a, s->a.dtype);
  t->call.b = some(c, &next, b, s->b.dtype);
  t->call.y = some(c, &next, y, s->y.dtype);
  t->call.c = t->call.y; /* sums of some dozen products: none is infinite */
  t->call.aux = some(c, &next, aux, s->y.dtype);
  t->call.bias = some(c, &next, bias, bias_dtype);
  t->call.sums = some(c, &next, sums, s->y.dtype);
  t->call.workspace = next;
  return cudaEventCreate(&t->from) == cudaSuccess &&
         cudaEventCreate(&t->to) == cudaSuccess;
}
static void end_trial(tune_trial *t) {
  if (t->from) cudaEventDestroy(t->from);
  if (t->to) cudaEventDestroy(t->to);
  cudaFree(t->data);
}

enum { FAILS = -1, UNTIMED = -2 };

/* Milliseconds of a product, the mean of `runs`; FAILS, UNTIMED. */
static float time_of(mrt_cuda *c, const mrt_lt *p, const tune_trial *t,
                     const cublasLtMatmulAlgo_t *algo, int runs) {
  float ms = 0;
  if (cudaEventRecord(t->from, c->queue) != cudaSuccess)
    return cudaGetLastError(), UNTIMED;
  bool works = true;
  for (int i = 0; i < runs && works; i++)
    works = !mrt_lt_multiply(c, p, algo, &t->call);
  works = works && cudaEventRecord(t->to, c->queue) == cudaSuccess &&
          cudaEventSynchronize(t->to) == cudaSuccess;
  if (!works) return cudaGetLastError(), FAILS; /* told to nobody */
  if (cudaEventElapsedTime(&ms, t->from, t->to) != cudaSuccess)
    return cudaGetLastError(), UNTIMED;
  return ms / (float)runs;
}

/* The least time of each; those that fail keep FAILS, or UNTIMED.  The first
 * run of each, which loads it, counts for nothing but how many follow. */
static void time_all(mrt_cuda *c, const mrt_lt *p, const tune_trial *t,
                     const cublasLtMatmulHeuristicResult_t *found, int count,
                     float *least) {
  float first[MOST_TRIED];
  for (int i = 0; i < count; i++)
    least[i] = first[i] = time_of(c, p, t, &found[i].algo, 1);
  for (int round = 0; round < ROUNDS; round++)
    for (int i = 0; i < count; i++) {
      if (least[i] < 0) continue;
      float many = first[i] > 0 ? round_ms / first[i] : MOST_RUNS;
      int runs = many < 1 ? 1 : many < MOST_RUNS ? (int)many : MOST_RUNS;
      float ms = time_of(c, p, t, &found[i].algo, runs);
      if (ms < 0 || round == 0 || ms < least[i]) least[i] = ms;
    }
}

/* FAILS: all do; UNTIMED: it could not be found out. */
static int fastest(mrt_cuda *c, const mrt_lt *p,
                   const cublasLtMatmulHeuristicResult_t *found, int count) {
  tune_trial t;
  float ms[MOST_TRIED], least = -1;
  bool ready = begin_trial(c, p, &t);
  int best = ready ? FAILS : UNTIMED;
  if (count > MOST_TRIED) count = MOST_TRIED;
  if (ready) time_all(c, p, &t, found, count, ms);
  for (int i = 0; ready && i < count; i++) {
    if (ms[i] == UNTIMED && best < 0) best = UNTIMED;
    if (ms[i] < 0 || (least >= 0 && ms[i] > clearly * least)) continue;
    least = ms[i], best = i;
  }
  if (t.data) end_trial(&t);
  return best;
}

static bool is_recording(const mrt_cuda *c) {
  enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  return cudaStreamIsCapturing(c->queue, &status) != cudaSuccess ||
         status != cudaStreamCaptureStatusNone;
}

/* Which of those found is kept on disk; -1: none. */
static int known(const mrt_cuda *c, const mrt_lt *p,
                 const cublasLtMatmulHeuristicResult_t *found, int count) {
  cublasLtMatmulAlgo_t algo;
  size_t most = c->lt_library->workspace;
  if (!mrt_lt_recall(c, &p->shape, most, &algo, sizeof algo)) return -1;
  for (int i = 0; i < count; i++)
    if (memcmp(&found[i].algo, &algo, sizeof algo) == 0) return i;
  mrt_lt_forget(c, &p->shape, most); /* the library names others now */
  return -1;
}

int mrt_lt_best(mrt_cuda *c, const mrt_lt *p,
                const cublasLtMatmulHeuristicResult_t *found, int count) {
  int best = known(c, p, found, count);
  if (best >= 0) return best;
  best = is_recording(c) ? UNTIMED : fastest(c, p, found, count);
  if (best < 0) return best == FAILS ? -1 : 0;
  mrt_lt_remember(c, &p->shape, c->lt_library->workspace, &found[best].algo,
                  sizeof found->algo);
  int first = known(c, p, found, count); /* of another process, maybe */
  return first < 0 ? best : first;
}
