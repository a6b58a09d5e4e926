/* mma.cuh -- products of small matrices of 16-bit floats, by a warp
 *
 *     uint32_t a[4], b[2];  float c[4];
 *     mrt_mma<mrt_bf16>(c, a, b);
 *
 * is c += a b for a [16, 16], b [16, 8], c [16, 8], sums in float.  With
 * g = lane / 4 and t = lane % 4 a lane holds
 *
 *     a[0], a[1]  row g, g + 8      columns 2t, 2t + 1
 *     a[2], a[3]  row g, g + 8      columns 2t + 8, 2t + 9
 *     b[0], b[1]  column g          rows 2t, 2t + 1; and those + 8
 *     c[0 .. 3]   row g and g + 8   columns 2t, 2t + 1
 *
 * two values to a register, the first in the lower half.  All lanes of the
 * warp must call.
 *
 * mrt_load_matrices reads four matrices of 8 rows of 16 bytes from shared
 * memory: lane l gives the address of row l % 8 of matrix l / 8, aligned to 16
 * bytes; r[j] is what stands in row g, columns 2t, 2t + 1 of matrix j.  With
 * `turned` it is what stands in rows 2t, 2t + 1 of column g.
 *
 * Off a GPU the same is done by shuffles, in the same layouts (PTX ISA:
 * mma.m16n8k16, ldmatrix).
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CUDA_MMA_CUH
#define MRT_CUDA_MMA_CUH

#include "cuda.cuh"

template <typename T>
MRT_DEVICE void mrt_mma(float *c, const uint32_t *a, const uint32_t *b);

#ifdef __CUDA_ARCH__
#define MRT_MMA(T, type)                                                       \
  template <>                                                                  \
  __device__ __forceinline__ void mrt_mma<T>(float *c, const uint32_t *a,      \
                                             const uint32_t *b) {              \
    asm("mma.sync.aligned.m16n8k16.row.col.f32." type "." type ".f32 "         \
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"                \
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                       \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));   \
  }
MRT_MMA(mrt_bf16, "bf16")
MRT_MMA(mrt_f16, "f16")
#undef MRT_MMA

template <bool turned>
MRT_DEVICE void mrt_load_matrices(uint32_t *r, const void *row) {
  uint32_t at = (uint32_t)__cvta_generic_to_shared(row);
  if (turned)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 "
                 "{%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at)
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 "
                 "{%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at)
                 : "memory");
}
#else
MRT_DEVICE int mrt_warp_lane(void) {
  return (int)(threadIdx.x + blockDim.x * threadIdx.y) % 32;
}

/* Value i, of two. */
template <typename T> MRT_DEVICE float mrt_half_of(uint64_t pair, int i) {
  T x = { (uint16_t)(pair >> 16 * i) };
  return mrt_widen(x);
}

template <typename T>
MRT_DEVICE void mrt_mma(float *c, const uint32_t *a, const uint32_t *b) {
  int g = mrt_warp_lane() / 4, t = mrt_warp_lane() % 4;
  uint64_t low = a[0] | (uint64_t)a[2] << 32,
           high = a[1] | (uint64_t)a[3] << 32;
  uint64_t both = b[0] | (uint64_t)b[1] << 32, row[2], column[2];
  float sum[4] = { 0, 0, 0, 0 };
  for (int k = 0; k < 4; k++) { /* columns 2k, 2k + 1, and those + 8 */
    row[0] = __shfl_sync(0xffffffff, low, 4 * g + k);
    row[1] = __shfl_sync(0xffffffff, high, 4 * g + k);
    column[0] = __shfl_sync(0xffffffff, both, 8 * t + k);
    column[1] = __shfl_sync(0xffffffff, both, 8 * t + 4 + k);
    for (int e = 0; e < 4; e++)
      for (int i = 0; i < 4; i++)
        sum[e] +=
            mrt_half_of<T>(row[e / 2], i) * mrt_half_of<T>(column[e % 2], i);
  }
  for (int e = 0; e < 4; e++) c[e] += sum[e];
}

template <bool turned>
MRT_DEVICE void mrt_load_matrices(uint32_t *r, const void *row) {
  int g = mrt_warp_lane() / 4, t = mrt_warp_lane() % 4;
  for (int j = 0; j < 4; j++) {
    uint64_t at[2];
    for (int i = 0; i < 2; i++)
      at[i] = __shfl_sync(0xffffffff, (uint64_t)(uintptr_t)row,
                          8 * j + (turned ? 2 * t + i : g));
    const uint16_t *x = (const uint16_t *)(uintptr_t)at[0];
    const uint16_t *y = (const uint16_t *)(uintptr_t)at[1];
    r[j] = turned ? x[g] | (uint32_t)y[g] << 16
                  : x[2 * t] | (uint32_t)x[2 * t + 1] << 16;
  }
}
#endif

#endif
