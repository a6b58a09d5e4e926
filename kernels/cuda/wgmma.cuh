/* wgmma.cuh -- products of matrices by a warpgroup, of Hopper's (sm_90a)
 *
 *     mrt_wgmma_fence();
 *     mrt_wgmma<T, N, TURNED, ADDS>(d, a, b);    once or more
 *     mrt_wgmma_commit();
 *     mrt_wgmma_wait<0>();
 *
 * begins d (+)= a b for a [64, 16], b [16, N], d [64, N] in float, of 16-bit
 * floats; all 128 threads call.  Until a wait leaves its group out neither d
 * nor a's registers may be touched, nor shared memory that is read be written;
 * before the fence they have been.  a and b lie in shared memory, or a in
 * registers. With g = lane / 4, t = lane % 4 and i = 16 (warp % 4) + g a thread
 * holds
 *
 *     a[0], a[1]  row i, i + 8      columns 2t, 2t + 1
 *     a[2], a[3]  row i, i + 8      columns 2t + 8, 2t + 9
 *     d[4j ..]    row i and i + 8   columns 8j + 2t, 8j + 2t + 1
 *
 * which are mma.cuh's fragments.
 *
 * In shared memory matrices are parts of tiles of R rows (a multiple of 8) and
 * W columns (of 64): panels of 64 columns, one behind the other, of rows of 128
 * bytes, whose packs of 16 bytes are swizzled: pack c of row r lies at place
 * c ^ r % 8.  A tile begins at a multiple of 1024 bytes.  Rows of such a tile
 * are a's rows or b's columns ("K-major"), or, TURNED, b's rows ("MN-major").
 *
 * From the PTX ISA: wgmma.mma_async.m64nNk16, matrix descriptor, canonical
 * layouts.  Where the target has no wgmma MRT_HAS_WGMMA is not defined, and
 * nothing here does anything.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CUDA_WGMMA_CUH
#define MRT_CUDA_WGMMA_CUH

#include "cuda.cuh"

#ifdef MRT_EMULATED
#include "emulate_async.h"
#define MRT_HAS_WGMMA 1
#elif defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define MRT_HAS_WGMMA 1
#endif

enum { MRT_GROUP_THREADS = 128, MRT_GROUP_ROWS = 64 };
/* Of tiles: bytes of a panel's row, columns of a panel, and where one begins.
 */
enum { MRT_PANEL_BYTES = 128, MRT_PANEL = 64, MRT_TILE_ALIGN = 1024 };

#ifdef __CUDA_ARCH__
#define MRT_NO_UNROLL _Pragma("unroll 1")
#else
#define MRT_NO_UNROLL
#endif

/* ---- places in tiles ----------------------------------------------------- */

/* The shared memory's own address of what is there. */
MRT_DEVICE uint32_t mrt_shared_address(const void *at) {
#if defined(MRT_EMULATED)
  return mrt_emulate_shared_address(at);
#elif defined(__CUDA_ARCH__)
  return (uint32_t)__cvta_generic_to_shared(at);
#else
  return 0;
#endif
}
/* The address where the first tile in there can begin; MRT_TILE_ALIGN bytes
 * more must be there than tiles take. */
MRT_DEVICE uint32_t mrt_first_tile(const void *shared) {
  const uint32_t most = MRT_TILE_ALIGN - 1;
  return (mrt_shared_address(shared) + most) & ~most;
}
/* Of the pack of 8 elements that begins at this row and column, in bytes from
 * the tile's address. */
template <int R> MRT_DEVICE uint32_t mrt_pack_at(int row, int column) {
  int pack = column % MRT_PANEL / 8 ^ row % 8;
  return (uint32_t)((column / MRT_PANEL * R + row) * MRT_PANEL_BYTES +
                    pack * 16);
}

/* The lower half of the descriptor of a matrix at this address: start and a way
 * that is not used; turned, in a tile of R rows, that from panel to panel.  The
 * upper half, from 8 rows to the next and how they are swizzled, is the same for
 * all. */
MRT_DEVICE uint32_t mrt_matrix_at(uint32_t address) {
  return (address & 0x3ffff) >> 4 | 1 << 16;
}
template <int R> MRT_DEVICE uint32_t mrt_turned_at(uint32_t address) {
  return (address & 0x3ffff) >> 4 | (uint32_t)(R * MRT_PANEL_BYTES) >> 4 << 16;
}
enum { MRT_MATRIX_UPPER = 8 * MRT_PANEL_BYTES >> 4 | 1 << 30 };
/* What is added for a matrix so many bytes, */
MRT_DEVICE uint32_t mrt_bytes_on(int bytes) { return (uint32_t)bytes >> 4; }
/* 16 k columns (of one not turned) */
template <int R> MRT_DEVICE uint32_t mrt_columns_on(int k) {
  return mrt_bytes_on(k / 4 * R * MRT_PANEL_BYTES + k % 4 * 32);
}
/* or i rows, a multiple of 8, further on. */
MRT_DEVICE uint32_t mrt_rows_on(int i) {
  return mrt_bytes_on(i * MRT_PANEL_BYTES);
}

/* ---- copies to shared memory --------------------------------------------- */

/* Begin to copy 16 bytes to an address, zeros unless `there`.  Copies begun
 * before a commit are a group; when a wait has left it out, and all threads
 * have called mrt_shared_written and met at a barrier, products can read them.
 */
MRT_DEVICE void mrt_copy_begin(uint32_t to, const void *from, bool there) {
#if defined(MRT_EMULATED)
  mrt_emulate_copy_async(to, there ? from : NULL);
#elif defined(__CUDA_ARCH__)
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to),
               "l"(from), "r"(there ? 16 : 0)
               : "memory");
#endif
}
MRT_DEVICE void mrt_copies_commit(void) {
#if defined(MRT_EMULATED)
  mrt_emulate_copies_commit();
#elif defined(__CUDA_ARCH__)
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
/* For all but the newest groups. */
template <int NEWEST> MRT_DEVICE void mrt_copies_wait_but(void) {
#if defined(MRT_EMULATED)
  mrt_emulate_copies_wait(NEWEST);
#elif defined(__CUDA_ARCH__)
  asm volatile("cp.async.wait_group %0;" ::"n"(NEWEST) : "memory");
#endif
}
/* What this thread wrote to shared memory is for products, too. */
MRT_DEVICE void mrt_shared_written(void) {
#if defined(MRT_EMULATED)
  mrt_emulate_proxy_fence();
#elif defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

/* ---- order --------------------------------------------------------------- */

MRT_DEVICE void mrt_wgmma_fence(void) {
#if defined(MRT_EMULATED)
  mrt_emulate_wgmma_fence();
#elif defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}
MRT_DEVICE void mrt_wgmma_commit(void) {
#if defined(MRT_EMULATED)
  mrt_emulate_wgmma_commit();
#elif defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}
template <int NEWEST> MRT_DEVICE void mrt_wgmma_wait(void) {
#if defined(MRT_EMULATED)
  mrt_emulate_wgmma_wait(NEWEST);
#elif defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(NEWEST) : "memory");
#endif
}
/* The compiler moves no use of these registers past here: called for what a
 * product writes (or reads) before the fence and after the wait. */
template <int COUNT> MRT_DEVICE void mrt_pin(float *x) {
#ifdef __CUDA_ARCH__
  MRT_UNROLL
  for (int i = 0; i < COUNT; i++) asm volatile("" : "+f"(x[i])::"memory");
#endif
}
template <int COUNT> MRT_DEVICE void mrt_pin(uint32_t *x) {
#ifdef __CUDA_ARCH__
  MRT_UNROLL
  for (int i = 0; i < COUNT; i++) asm volatile("" : "+r"(x[i])::"memory");
#endif
}

/* ---- products ------------------------------------------------------------ */

template <typename T, int N> struct mrt_wgmma_of;

#if defined(MRT_EMULATED)
template <typename T> static float mrt_emulate_wide(uint16_t bits) {
  T x = { bits };
  return mrt_widen(x);
}
static inline uint64_t mrt_emulate_matrix(uint32_t lower) {
  return lower | (uint64_t)MRT_MATRIX_UPPER << 32;
}
template <typename T, int N> struct mrt_wgmma_of {
  template <bool TURNED, bool ADDS>
  static void run(float *d, uint32_t a, uint32_t b) {
    mrt_emulate_wgmma({ d, NULL, mrt_emulate_matrix(a), mrt_emulate_matrix(b),
                        N, TURNED, ADDS, mrt_emulate_wide<T> });
  }
  template <bool TURNED, bool ADDS>
  static void run(float *d, const uint32_t *a, uint32_t b) {
    mrt_emulate_wgmma({ d, a, 0, mrt_emulate_matrix(b), N, TURNED, ADDS,
                        mrt_emulate_wide<T> });
  }
};
#elif defined(__CUDA_ARCH_FEAT_SM90_ALL)
/* Places of the operands d; then come a, b and what is a constant. */
#define MRT_D_32                                                               \
  "%0, %1, %2, %3, %4, %5, %6, %7, "                                           \
  "%8, %9, %10, %11, %12, %13, %14, %15, "                                     \
  "%16, %17, %18, %19, %20, %21, %22, %23, "                                   \
  "%24, %25, %26, %27, %28, %29, %30, %31"
#define MRT_D_64                                                               \
  "%0, %1, %2, %3, %4, %5, %6, %7, "                                           \
  "%8, %9, %10, %11, %12, %13, %14, %15, "                                     \
  "%16, %17, %18, %19, %20, %21, %22, %23, "                                   \
  "%24, %25, %26, %27, %28, %29, %30, %31, "                                   \
  "%32, %33, %34, %35, %36, %37, %38, %39, "                                   \
  "%40, %41, %42, %43, %44, %45, %46, %47, "                                   \
  "%48, %49, %50, %51, %52, %53, %54, %55, "                                   \
  "%56, %57, %58, %59, %60, %61, %62, %63"
#define MRT_D_8(as, d, i)                                                      \
  as(d[i]), as(d[i + 1]), as(d[i + 2]), as(d[i + 3]), as(d[i + 4]),            \
      as(d[i + 5]), as(d[i + 6]), as(d[i + 7])
#define MRT_OF_32(as, d)                                                       \
  MRT_D_8(as, d, 0), MRT_D_8(as, d, 8), MRT_D_8(as, d, 16), MRT_D_8(as, d, 24)
#define MRT_OF_64(as, d)                                                       \
  MRT_OF_32(as, d), MRT_D_8(as, d, 32), MRT_D_8(as, d, 40),                    \
      MRT_D_8(as, d, 48), MRT_D_8(as, d, 56)

#define MRT_WGMMA_TEXT(type, N, D, adds, matrices, rest)                       \
  "{.reg .pred p; setp.ne.b32 p, " adds ", 0; .reg .b64 a, b; " matrices       \
  "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." type "." type " {" D       \
  "}, " rest ";}"
/* Operands behind d, of a in shared memory and in registers. */
#define MRT_WGMMA(T, type, N, D, OF, OF_SHARED, SHARED, OF_REGISTERS,          \
                  REGISTERS)                                                   \
  template <> struct mrt_wgmma_of<T, N> {                                      \
    template <bool TURNED, bool ADDS>                                          \
    static __device__ __forceinline__ void run(float *d, uint32_t a,           \
                                               uint32_t b) {                   \
      if constexpr (ADDS)                                                      \
        asm volatile(MRT_WGMMA_TEXT(type, N, D, "1", OF_SHARED, SHARED)        \
                     : OF("+f", d)                                             \
                     : "r"(a), "r"(b), "n"((int)TURNED),                       \
                       "n"((int)MRT_MATRIX_UPPER)                              \
                     : "memory");                                              \
      else                                                                     \
        asm volatile(MRT_WGMMA_TEXT(type, N, D, "0", OF_SHARED, SHARED)        \
                     : OF("=f", d)                                             \
                     : "r"(a), "r"(b), "n"((int)TURNED),                       \
                       "n"((int)MRT_MATRIX_UPPER)                              \
                     : "memory");                                              \
    }                                                                          \
    template <bool TURNED, bool ADDS>                                          \
    static __device__ __forceinline__ void run(float *d, const uint32_t *a,    \
                                               uint32_t b) {                   \
      if constexpr (ADDS)                                                      \
        asm volatile(MRT_WGMMA_TEXT(type, N, D, "1", OF_REGISTERS, REGISTERS)  \
                     : OF("+f", d)                                             \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b),     \
                       "n"((int)TURNED), "n"((int)MRT_MATRIX_UPPER)            \
                     : "memory");                                              \
      else                                                                     \
        asm volatile(MRT_WGMMA_TEXT(type, N, D, "0", OF_REGISTERS, REGISTERS)  \
                     : OF("=f", d)                                             \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b),     \
                       "n"((int)TURNED), "n"((int)MRT_MATRIX_UPPER)            \
                     : "memory");                                              \
    }                                                                          \
  };
#define MRT_WGMMA_BOTH(T, type)                                                \
  MRT_WGMMA(T, type, 64, MRT_D_32, MRT_OF_32,                                  \
            "mov.b64 a, {%32, %35}; mov.b64 b, {%33, %35}; ",                  \
            "a, b, p, 1, 1, 0, %34", "mov.b64 b, {%36, %38}; ",                \
            "{%32, %33, %34, %35}, b, p, 1, 1, %37")                           \
  MRT_WGMMA(T, type, 128, MRT_D_64, MRT_OF_64,                                 \
            "mov.b64 a, {%64, %67}; mov.b64 b, {%65, %67}; ",                  \
            "a, b, p, 1, 1, 0, %66", "mov.b64 b, {%68, %70}; ",                \
            "{%64, %65, %66, %67}, b, p, 1, 1, %69")
MRT_WGMMA_BOTH(mrt_bf16, "bf16")
MRT_WGMMA_BOTH(mrt_f16, "f16")
#undef MRT_WGMMA_BOTH
#undef MRT_WGMMA
#undef MRT_WGMMA_TEXT
#undef MRT_OF_64
#undef MRT_OF_32
#undef MRT_D_8
#undef MRT_D_64
#undef MRT_D_32
#endif

#ifdef MRT_HAS_WGMMA
/* a: a descriptor's lower half, as b, or four registers. */
template <typename T, int N, bool TURNED, bool ADDS, typename A>
MRT_DEVICE void mrt_wgmma(float *d, A a, uint32_t b) {
  mrt_wgmma_of<T, N>::template run<TURNED, ADDS>(d, a, b);
}
#endif

#endif
