/* emulate_async_test.cc -- products of warpgroups are emulated as the manual says
 *
 * Matrices laid out as the PTX ISA's own examples are read by their descriptors;
 * what a kernel must not do breaks the device.
 *
 * SPDX-License-Identifier: MIT */
#include "emulate.h"
#include "wgmma.cuh"
#include <cstdio>

namespace {

int failures;

#define CHECK(what)                                                            \
  do {                                                                         \
    if (what) break;                                                           \
    printf("line %d, failed: %s\n", __LINE__, #what);                          \
    failures++;                                                                \
  } while (0)

enum { BYTES = 8192, ALIGN = 1024 };

/* ---- layouts ------------------------------------------------------------- */

/* An example of "Canonical layouts", MN-major and of bf16, as it stands there:
 * ((8, s, 2), (8, 2)) : ((1, 8, outer), (row, eight)), Swizzle<bits, 4, 3>; mode
 * and offsets of the descriptor in bytes. */
struct example {
  int s, outer, row, eight, bits;
  uint64_t mode, leading, stride;
};
const example examples[] = {
  { 1, 64, 8, 128, 0, 0, 128 * 2, 64 * 2 },
  { 2, 128, 16, 256, 1, 3, 128 * 2, 256 * 2 },
  { 4, 256, 32, 512, 2, 2, 256 * 2, 512 * 2 },
};

int place_of(const example &e, int n, int k) {
  int at = n % 8 + n / 8 % e.s * 8 + n / 8 / e.s * e.outer + k % 8 * e.row +
           k / 8 * e.eight;
  int pack = at / 8; /* what is swizzled are packs of 16 bytes */
  return (pack ^ (pack >> 3 & ((1 << e.bits) - 1))) * 8 + at % 8;
}

/* b[k][n] = 16 n + k, in part of bf16's numbers; a has a 1 in row i, column
 * i % 16, so d[i][n] is b[i % 16][n]. */
__global__ void read_example(example e, int *wrong) {
  MRT_SHARED(char, shared);
  uint32_t at = mrt_first_tile(shared);
  mrt_bf16 *b = (mrt_bf16 *)(shared + (at - mrt_shared_address(shared)));
  int t = (int)threadIdx.x, lane = t % 32, columns = 16 * e.s;
  for (int i = t; i < 16 * columns; i += 128)
    mrt_round((float)(i / 16 % 8 * 16 + i % 16),
              &b[place_of(e, i / 16, i % 16)]);
  __syncthreads();
  uint32_t a[4];
  for (int j = 0; j < 4; j++) {
    int row = lane / 4 + j % 2 * 8, k = lane % 4 * 2 + j / 2 * 8;
    a[j] = (row == k ? 0x3f80 : 0) | (row == k + 1 ? 0x3f80u << 16 : 0);
  }
  float d[32];
  uint64_t matrix =
      at >> 4 | e.leading >> 4 << 16 | e.stride >> 4 << 32 | e.mode << 62;
  mrt_wgmma_fence();
  mrt_emulate_wgmma(
      { d, a, 0, matrix, columns, true, false, mrt_emulate_wide<mrt_bf16> });
  mrt_wgmma_commit();
  mrt_wgmma_wait<0>();
  for (int i = 0; i < columns / 2; i++) {
    int row = lane / 4 + i % 4 / 2 * 8, n = i / 4 * 8 + lane % 4 * 2 + i % 2;
    if (d[i] != (float)(n % 8 * 16 + row)) (*wrong)++;
  }
}

void test_examples() {
  for (const example &e : examples) {
    int *wrong = NULL, count = -1;
    CHECK(cudaMalloc(&wrong, sizeof *wrong) == cudaSuccess);
    cudaMemset(wrong, 0, sizeof *wrong);
    MRT_LAUNCH(1, 128, BYTES + ALIGN, NULL, read_example)(e, wrong);
    cudaMemcpy(&count, wrong, sizeof count, cudaMemcpyDeviceToHost);
    CHECK(cudaGetLastError() == cudaSuccess);
    CHECK(count == 0);
    cudaFree(wrong);
  }
}

/* ---- rules --------------------------------------------------------------- */

enum fault {
  NONE,
  NO_COPY_WAIT,
  NO_PROXY_FENCE,
  NO_FENCE,
  NO_WAIT,
  TOUCHED,
  A_WRITTEN,
  B_WRITTEN,
  DIFFERENT,
  BEYOND
};

/* A tile of 64 x 64 zeros, copied and multiplied. */
__global__ void multiply(fault f, const char *zeros, float *y) {
  MRT_SHARED(char, shared);
  uint32_t at = mrt_first_tile(shared);
  int t = (int)threadIdx.x;
  for (int i = t; i < BYTES / 16; i += 128)
    mrt_copy_begin(at + (uint32_t)i * 16, zeros, i % 2);
  mrt_copies_commit();
  if (f != NO_COPY_WAIT) mrt_copies_wait_but<0>();
  if (f != NO_PROXY_FENCE) mrt_shared_written();
  __syncthreads();
  float d[32];
  uint32_t a[4] = { 1, 2, 3, 4 }, b = mrt_turned_at<64>(at);
  if (f == DIFFERENT) b += mrt_rows_on(t / 64 * 8);
  if (f == BEYOND) b += mrt_bytes_on(BYTES);
  if (f != NO_FENCE) mrt_wgmma_fence();
  mrt_wgmma<mrt_bf16, 64, true, false>(d, (const uint32_t *)a, b);
  mrt_wgmma_commit();
  if (f == TOUCHED) d[5] = 0;
  if (f == A_WRITTEN) a[2]++;
  if (f == B_WRITTEN && t == 0) shared[at - mrt_shared_address(shared)] = 1;
  if (f != NO_WAIT) mrt_wgmma_wait<0>();
  y[t] = d[3];
}

void test_rules() {
  char *zeros = NULL;
  float *y = NULL, first;
  CHECK(cudaMalloc(&zeros, 16) == cudaSuccess);
  CHECK(cudaMalloc(&y, 128 * sizeof *y) == cudaSuccess);
  cudaMemset(zeros, 0, 16);
  for (int f = NONE; f <= BEYOND; f++) {
    MRT_LAUNCH(1, 128, BYTES + ALIGN, NULL, multiply)((fault)f, zeros, y);
    cudaError_t code = cudaDeviceSynchronize();
    if ((code == cudaSuccess) != (f == NONE)) printf("rule %d: ", f);
    CHECK((code == cudaSuccess) == (f == NONE));
    if (f == NONE)
      CHECK(!cudaMemcpy(&first, y, sizeof first, cudaMemcpyDeviceToHost) &&
            first == 0);
    mrt_emulate_reset();
  }
}

} // namespace

int main() {
  for (uint64_t seed : { 0, 1, 77 }) {
    mrt_emulate_seed(seed);
    test_examples();
    test_rules();
  }
  printf(failures ? "%d failures\n" : "all right\n", failures);
  return failures != 0;
}
