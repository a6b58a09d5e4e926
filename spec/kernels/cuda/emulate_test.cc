/* emulate_test.cc -- the emulator finds what it is there to find
 *
 * Correct kernels give the same results in every order; each kind of mistake
 * shows.  Then softmax against a plain loop.
 *
 * SPDX-License-Identifier: MIT */
#include "cuda.cuh"
#include "emulate.h"
#include "op/softmax.h"
#include <cstdio>
#include <cstdlib>
#include <vector>

extern "C" void mrt_cuda_softmax(const mrt_call *c);

namespace {

int failures;

#define CHECK(what)                                                            \
  do {                                                                         \
    if (what) break;                                                           \
    printf("line %d, failed: %s\n", __LINE__, #what);                          \
    failures++;                                                                \
  } while (0)

const uint64_t seeds[] = { 0, 1, 2, 3, 77 };

template <typename T> T *device(size_t n) {
  T *p = NULL;
  CHECK(cudaMalloc(&p, n * sizeof(T)) == cudaSuccess);
  return p;
}
template <typename T> T read(const T *p) {
  T x = T();
  cudaMemcpy(&x, p, sizeof x, cudaMemcpyDeviceToHost);
  return x;
}
bool ends_in(cudaError_t e) {
  bool same = cudaDeviceSynchronize() == e && cudaGetLastError() == e;
  mrt_emulate_reset();
  return same;
}

/* ---- threads ------------------------------------------------------------- */

/* Every thread adds up what all threads gave; `barrier`: or forgets to wait. */
__global__ void sums(int *y, int barrier) {
  __shared__ int all[256];
  unsigned t = threadIdx.x;
  int sum = 0;
  all[t] = (int)(t + blockIdx.x);
  if (barrier) __syncthreads();
  for (int i = 0; i < 256; i++) sum += all[i];
  y[blockIdx.x * 256 + t] = sum + mrt_team_sum((int)t);
}

std::vector<int> run_sums(uint64_t seed, int barrier) {
  std::vector<int> y(512);
  int *p = device<int>(512);
  mrt_emulate_seed(seed);
  MRT_LAUNCH(2, 256, 0, NULL, sums)(p, barrier);
  cudaMemcpy(y.data(), p, 512 * sizeof(int), cudaMemcpyDeviceToHost);
  cudaFree(p);
  return y;
}

void test_barriers() {
  std::vector<int> want(512, 2 * 256 * 255 / 2);
  for (int i = 256; i < 512; i++) want[(size_t)i] += 256;
  for (uint64_t s : seeds) CHECK(run_sums(s, 1) == want);
  CHECK(run_sums(0, 0) != want);
  CHECK(run_sums(0, 0) != run_sums(1, 0));
}

__global__ void shuffles(int *y) {
  int lane = (int)threadIdx.x % 32;
  int a = __shfl_xor_sync(~0u, lane, 5), b = __shfl_down_sync(~0u, lane, 3);
  int c = __shfl_up_sync(~0u, lane, 3, 8), d = __shfl_sync(~0u, lane, 9);
  bool right = a == (lane ^ 5) && b == (lane < 29 ? lane + 3 : lane) &&
               c == (lane % 8 < 3 ? lane : lane - 3) && d == 9 &&
               __ballot_sync(~0u, lane & 1) == 0xaaaaaaaau &&
               __any_sync(~0u, lane == 7) && !__all_sync(~0u, lane == 7);
  if (lane < 16) right = right && __shfl_sync(0xffffu, lane, 3) == 3;
  atomicAdd(y, right ? 1 : 0);
}

void test_shuffles() {
  for (uint64_t s : seeds) {
    int *y = device<int>(1);
    mrt_emulate_seed(s);
    cudaMemset(y, 0, sizeof *y);
    MRT_LAUNCH(3, 96, 0, NULL, shuffles)(y);
    CHECK(read(y) == 288);
    cudaFree(y);
  }
}

__global__ void some_return(void) {
  if (threadIdx.x >= 40) return;
  __syncthreads();
}
__global__ void two_places(void) {
  if (threadIdx.x < 32)
    __syncthreads();
  else
    __syncthreads();
}
__global__ void half_a_warp(void) {
  if (threadIdx.x < 16) __shfl_sync(~0u, 1, 0);
}

void test_divergence() {
  for (uint64_t s : seeds) {
    mrt_emulate_seed(s);
    MRT_LAUNCH(1, 64, 0, NULL, some_return)();
    cudaDeviceSynchronize();
    CHECK(strstr(mrt_emulate_message(), "some_return"));
    CHECK(ends_in(cudaErrorLaunchFailure));
    MRT_LAUNCH(1, 64, 0, NULL, two_places)();
    CHECK(ends_in(cudaErrorLaunchFailure));
    MRT_LAUNCH(1, 64, 0, NULL, half_a_warp)();
    CHECK(ends_in(cudaErrorLaunchFailure));
    CHECK(run_sums(s, 1)[0] == 256 * 255);
  }
}

/* Nobody wrote what is read: NaN. */
__global__ void unwritten(float *y) {
  MRT_SHARED(float, room);
  __shared__ float other[4];
  if (gridDim.x > 1) other[threadIdx.x] = 1;
  y[1] = room[threadIdx.x];
  y[2] = other[threadIdx.x];
}
void test_unwritten() {
  float *y = device<float>(3);
  MRT_LAUNCH(1, 1, 64, NULL, unwritten)(y);
  CHECK(isnan(read(y)) && isnan(read(y + 1)));
#ifndef __SANITIZE_ADDRESS__
  CHECK(isnan(read(y + 2)));
#endif
  cudaFree(y);
}

void test_bad_launches() {
  MRT_LAUNCH(0, 32, 0, NULL, some_return)();
  CHECK(cudaGetLastError() == cudaErrorInvalidConfiguration);
  MRT_LAUNCH(1, 1025, 0, NULL, some_return)();
  CHECK(cudaGetLastError() == cudaErrorInvalidConfiguration);
  MRT_LAUNCH(1, 32, 64 << 10, NULL, some_return)();
  CHECK(cudaGetLastError() == cudaErrorInvalidValue);
  mrt_allow_shared(some_return, 64 << 10);
  MRT_LAUNCH(1, 32, 64 << 10, NULL, some_return)();
  CHECK(cudaGetLastError() == cudaSuccess && ends_in(cudaSuccess));
}

/* ---- streams ------------------------------------------------------------- */

__global__ void add_one(int *y) { *y += 1; }
__global__ void twice(int *y) { *y *= 2; }

struct two_streams {
  cudaStream_t a, b;
  cudaEvent_t e, f;
  int *x, *host;
  two_streams() : x(device<int>(1)) {
    cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
    cudaEventCreateWithFlags(&e, cudaEventDisableTiming);
    cudaEventCreateWithFlags(&f, cudaEventDisableTiming);
    cudaMallocHost(&host, sizeof *host);
    *host = -1;
    cudaMemset(x, 0, sizeof *x);
  }
  ~two_streams() {
    cudaStreamDestroy(a), cudaStreamDestroy(b);
    cudaEventDestroy(e), cudaEventDestroy(f);
    cudaFreeHost(host);
    cudaFree(x);
  }
  /* x + 1 on one stream, copied out by the other, then doubled. */
  void work(bool wait, bool wait_back) {
    MRT_LAUNCH(1, 1, 0, a, add_one)(x);
    cudaEventRecord(e, a);
    if (wait) cudaStreamWaitEvent(b, e, 0);
    cudaMemcpyAsync(host, x, sizeof *x, cudaMemcpyDeviceToHost, b);
    cudaEventRecord(f, b);
    if (wait_back) cudaStreamWaitEvent(a, f, 0);
    MRT_LAUNCH(1, 1, 0, a, twice)(x);
  }
};

int copied(uint64_t seed, bool wait, bool wait_back) {
  two_streams s;
  mrt_emulate_seed(seed);
  s.work(wait, wait_back);
  CHECK(*s.host == -1); /* nobody waited */
  CHECK(cudaStreamSynchronize(s.a) == cudaSuccess);
  CHECK(cudaStreamSynchronize(s.b) == cudaSuccess);
  CHECK(read(s.x) == 2);
  return *s.host;
}

void test_streams() {
  for (uint64_t s : seeds) CHECK(copied(s, true, true) == 1);
  CHECK(copied(0, true, false) != 1);
  CHECK(copied(1, false, true) != 1);
  two_streams s;
  mrt_emulate_seed(0);
  s.work(true, true);
  CHECK(cudaEventQuery(s.f) == cudaErrorNotReady);
  CHECK(cudaGetLastError() == cudaSuccess);
  while (cudaEventQuery(s.f) == cudaErrorNotReady) {
  }
  CHECK(*s.host == 1);
  while (cudaStreamQuery(s.a) == cudaErrorNotReady) {
  }
  CHECK(read(s.x) == 2);
}

/* ---- graphs -------------------------------------------------------------- */

void test_graphs() {
  for (uint64_t seed : seeds) {
    two_streams s;
    cudaGraph_t g;
    cudaGraphExec_t exec;
    mrt_emulate_seed(seed);
    CHECK(!cudaStreamBeginCapture(s.a, cudaStreamCaptureModeThreadLocal));
    s.work(true, true);
    CHECK(!cudaStreamEndCapture(s.a, &g));
    CHECK(!cudaGraphInstantiate(&exec, g, 0));
    CHECK(!cudaGraphDestroy(g));
    cudaStreamSynchronize(s.a);
    CHECK(*s.host == -1 && read(s.x) == 0);
    for (int i = 0, x = 0; i < 3; i++, x = 2 * (x + 1)) {
      CHECK(!cudaGraphLaunch(exec, s.a) && !cudaStreamSynchronize(s.a));
      CHECK(*s.host == x + 1 && read(s.x) == 2 * (x + 1));
    }
    cudaGraphExecDestroy(exec);
    CHECK(!cudaStreamBeginCapture(s.a, cudaStreamCaptureModeThreadLocal));
    s.work(true, false);
    CHECK(cudaStreamEndCapture(s.a, &g) == cudaErrorStreamCaptureUnjoined);
    CHECK(!cudaStreamBeginCapture(s.a, cudaStreamCaptureModeThreadLocal));
    CHECK(cudaStreamSynchronize(s.a) == cudaErrorStreamCaptureUnsupported);
    CHECK(cudaStreamEndCapture(s.a, &g) == cudaErrorStreamCaptureInvalidated);
    cudaGetLastError();
  }
}

/* ---- failures and memory ------------------------------------------------- */

void test_failures() {
  for (long n = 1; n < 20; n++) {
    int failed = 0;
    {
      two_streams s;
      mrt_emulate_fail(n);
      s.work(true, true);
      failed += cudaStreamSynchronize(s.a) != cudaSuccess;
      failed += cudaStreamSynchronize(s.b) != cudaSuccess;
    }
    CHECK(failed == (n < 9 ? 2 : n == 9 ? 1 : 0));
    mrt_emulate_reset();
  }
}

void test_memory() {
  size_t before, after, total;
  void *p = NULL, *q = NULL;
  cudaMemGetInfo(&before, &total);
  CHECK(cudaMalloc(&p, 1000) == cudaSuccess && (uintptr_t)p % 256 == 0);
  CHECK(cudaMalloc(&q, total) == cudaErrorMemoryAllocation && !q);
  CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
  cudaMemGetInfo(&after, &total);
  CHECK(before - after == 1024);
  CHECK(cudaMemcpy(p, &total, 8, cudaMemcpyDeviceToHost) ==
        cudaErrorInvalidValue);
  CHECK(cudaMemset(p, 0, 1001) == cudaErrorInvalidValue);
  CHECK(cudaFree(&p) == cudaErrorInvalidValue && cudaFree(p) == cudaSuccess);
  cudaGetLastError();
}

/* ---- softmax ------------------------------------------------------------- */

float error_of_row(const float *x, const float *y, int64_t n) {
  double max = -INFINITY, sum = 0, worst = 0;
  for (int64_t i = 0; i < n; i++) max = fmax(max, x[i]);
  for (int64_t i = 0; i < n; i++) sum += exp(x[i] - max);
  for (int64_t i = 0; i < n; i++)
    worst = fmax(worst, fabs(y[i] - exp(x[i] - max) / sum) * sum);
  return (float)worst;
}

/* Rows of n from an odd place on, so that nothing is aligned, or not. */
void test_softmax(int64_t n, int odd, std::vector<float> *bits) {
  const int64_t rows = 5;
  mrt_operand in = {}, out = {};
  mrt_softmax_options o = { 1 };
  mrt_run run = {};
  mrt_call c = {};
  size_t count = (size_t)(rows * n);
  std::vector<float> x(count), y(count);
  for (size_t i = 0; i < count; i++) x[i] = (float)(rand() % 2000) / 100;
  float *p = device<float>(count + 1);
  in.type = { MRT_f32, 2, { rows, n } };
  in.data = p + odd;
  out = in;
  c.options = &o, c.nin = c.nout = 1, c.in = &in, c.out = &out, c.run = &run;
  cudaMemcpy(in.data, x.data(), count * sizeof(float), cudaMemcpyHostToDevice);
  mrt_cuda_softmax(&c);
  cudaMemcpy(y.data(), in.data, count * sizeof(float), cudaMemcpyDeviceToHost);
  CHECK(cudaGetLastError() == cudaSuccess);
  for (int64_t r = 0; r < rows; r++)
    CHECK(error_of_row(&x[(size_t)(r * n)], &y[(size_t)(r * n)], n) < 1e-5f);
  CHECK(bits->empty() ||
        !memcmp(bits->data(), y.data(), count * sizeof(float)));
  *bits = y;
  cudaFree(p);
}

} // namespace

int main() {
  test_barriers();
  test_shuffles();
  test_divergence();
  test_unwritten();
  test_bad_launches();
  test_streams();
  test_graphs();
  test_failures();
  test_memory();
  for (int64_t n : { 1, 31, 33, 512, 4097, 9000 }) {
    std::vector<float> bits;
    for (uint64_t s : seeds) {
      mrt_emulate_seed(s);
      srand(1);
      test_softmax(n, (int)(s % 2), &bits);
    }
  }
  printf(failures ? "%d failures\n" : "all right\n", failures);
  return failures != 0;
}
