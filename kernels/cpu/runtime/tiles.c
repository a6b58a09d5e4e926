/* tiles.c -- tile registers: asked for, and tried
 *
 * Linux saves them for a process that has asked for it (arch_prctl).  Few
 * processors have them, and some only pretend to, as emulators do, so a product
 * of whole numbers is made before any kernel may use them: where it is not right,
 * none ever does.  Their kernels round by instructions of AVX512-BF16, too.
 *
 *   from  Linux, Documentation/arch/x86/xstate.rst
 *
 * SPDX-License-Identifier: MIT */
#include "runtime/tiles.h"

#if defined(__x86_64__) && defined(__linux__)
#include "gemm/amx.h"

#include <cpuid.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
  REQUEST_PERMISSION = 0x1023,
  TILE_DATA = 18, /* which state is asked for */
  BF16_BIT = 1 << 22,
  TILE_BIT = 1 << 24,
  ROUNDING_BIT = 1 << 5 /* AVX512-BF16 */
};

#ifndef MRT_AMX_MODEL
static bool in_processor(void) {
  unsigned a, b, c, d, low, high;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE)) return false;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  bool saved = (low >> 17 & 3) == 3;
  bool tiles = saved && __get_cpuid_count(7, 0, &a, &b, &c, &d) &&
               (d & BF16_BIT) && (d & TILE_BIT);
  return tiles && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & ROUNDING_BIT);
}

static bool may_use(void) {
  return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}
#endif

static uint16_t bf16_of(int x) {
  float y = (float)x;
  uint32_t bits;
  memcpy(&bits, &y, sizeof bits);
  return (uint16_t)(bits >> 16);
}

static int left_at(int i, int k) { return (3 * i + k) % 7 - 3; }
static int right_at(int k, int j) { return (5 * k + 2 * j) % 9 - 4; }

/* Twice the product of [AMX_TILE, 2 AMX_TILE] and [2 AMX_TILE, AMX_TILE]. */
static WITH_AMX bool is_right(void) {
  uint16_t a[AMX_TILE][2 * AMX_TILE], b[AMX_TILE][2 * AMX_TILE];
  float c[AMX_TILE][AMX_TILE];
  bool right = true;
  for (int i = 0; i < AMX_TILE; i++)
    for (int k = 0; k < 2 * AMX_TILE; k++) {
      a[i][k] = bf16_of(left_at(i, k));
      b[k / 2][2 * i + k % 2] = bf16_of(right_at(k, i));
    }
  amx_begin();
  amx_zero(0);
  amx_load(1, a, AMX_ROW);
  amx_load(2, b, AMX_ROW);
  amx_multiply(0, 1, 2);
  amx_multiply(0, 1, 2);
  amx_store(0, c, AMX_ROW);
  amx_end();
  for (int i = 0; i < AMX_TILE; i++)
    for (int j = 0; j < AMX_TILE; j++) {
      int sum = 0;
      for (int k = 0; k < 2 * AMX_TILE; k++)
        sum += left_at(i, k) * right_at(k, j);
      right &= c[i][j] == (float)(2 * sum);
    }
  return right;
}

static bool found;
static void find(void) {
#ifdef MRT_AMX_MODEL
  /* Attention rounds with these in any case. */
  found = __builtin_cpu_supports("avx512bf16") && is_right();
#else
  found = in_processor() && may_use() && is_right();
#endif
}

bool mrt_cpu_has_tiles(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, find);
  return found;
}
#else
bool mrt_cpu_has_tiles(void) { return false; }
#endif
