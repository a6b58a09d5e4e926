/* emulate_device.cc -- one device, its settings, and how it fails
 *
 * SPDX-License-Identifier: MIT */
#include "emulate_inside.h"
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <unistd.h>

namespace {

std::recursive_mutex lock;
int depth;

uint64_t number_from(const char *name, uint64_t preset) {
  const char *text = getenv(name);
  return text && *text ? strtoull(text, NULL, 10) : preset;
}

uint64_t seed_now = number_from("MRT_EMULATE_SEED", 0), draws;
long fails_in = (long)number_from("MRT_EMULATE_FAIL", 0);
cudaError_t last, broke;
char message[512];

/* Kernels that ran, and what else is counted, by name; told at the end if that
 * is asked for. */
struct tally {
  std::map<std::string, long> runs;
  ~tally() {
    if (!number_from("MRT_EMULATE_COUNT", 0)) return;
    for (const auto &of : runs)
      fprintf(stderr, "emulated device: %ld %s\n", of.second, of.first.c_str());
  }
} ran;

/* splitmix64: Steele, Lea & Flood, OOPSLA 2014 */
uint64_t mix(uint64_t x) {
  x += UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  return x ^ x >> 31;
}

uint64_t divisor(uint64_t a, uint64_t b) {
  while (b) {
    uint64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

} // namespace

inside::inside() {
  lock.lock();
  depth++;
}
inside::~inside() {
  if (--depth == 0) close_memory();
  lock.unlock();
}

/* ---- the order of things ------------------------------------------------- */

uint64_t seed() { return seed_now; }

__extension__ typedef unsigned __int128 wide;

/* i -> i a + b mod n with a prime to n is a permutation. */
uint64_t in_order(uint64_t i, uint64_t n, uint64_t salt) {
  if (seed_now == 0 || n < 2) return i;
  if (seed_now == 1) return n - 1 - i;
  uint64_t r = mix(seed_now * 8 + salt), a = r % n, b = mix(r) % n;
  while (divisor(a, n) != 1) a = (a + 1) % n;
  return (uint64_t)(((wide)i * a + b) % n);
}

uint64_t chance(uint64_t n) { return mix(seed_now ^ mix(++draws)) % n; }

/* ---- failures ------------------------------------------------------------ */

cudaError_t said(cudaError_t e) {
  if (broke) e = broke;
  if (e && e != cudaErrorNotReady) last = e;
  return e;
}

void broken(cudaError_t e, const char *text) {
  if (broke) return;
  broke = last = e;
  snprintf(message, sizeof message, "%s", text);
  fprintf(stderr, "emulated device: %s\n", message);
}

bool is_broken() { return broke != cudaSuccess; }

cudaError_t working() {
  if (!broke && fails_in > 0 && --fails_in == 0)
    broken(cudaErrorLaunchFailure, "fails as it was told to");
  return broke;
}

void count(const char *name) { ran.runs[name]++; }

/* "name:n": the n-th kernel with this in its name. */
bool may_run(const char *name) {
  static const char *skips = getenv("MRT_EMULATE_SKIP");
  if (skips && *skips && strstr(name, skips)) return false;
  static const char *text = getenv("MRT_EMULATE_BREAK");
  static const char *colon = text ? strchr(text, ':') : NULL;
  static long breaks_in = colon ? strtol(colon + 1, NULL, 10) : 0;
  ran.runs[name]++;
  if (!colon || !strstr(name, std::string(text, colon).c_str())) return true;
  if (--breaks_in != 0) return true;
  broken(cudaErrorIllegalAddress, "breaks as it was told to");
  return false;
}

void mrt_emulate_seed(uint64_t to) {
  inside call;
  seed_now = to;
  draws = 0;
}
void mrt_emulate_fail(long n) {
  inside call;
  fails_in = n;
}
int mrt_emulate_wide(void) {
  static const int wide = number_from("MRT_EMULATE_WIDE", 0) != 0;
  return wide;
}
const char *mrt_emulate_message(void) { return message; }

void mrt_emulate_reset(void) {
  inside call;
  forget_captures();
  forget_streams();
  forget_freed();
  last = broke = cudaSuccess;
  message[0] = 0;
  fails_in = 0;
}

const char *cudaGetErrorName(cudaError_t e) {
#define ERROR(name, number, text)                                              \
  if (e == name) return #name;
  MRT_EMULATE_ERRORS(ERROR)
#undef ERROR
  return "unrecognized error code";
}
const char *cudaGetErrorString(cudaError_t e) {
#define ERROR(name, number, text)                                              \
  if (e == name) return text;
  MRT_EMULATE_ERRORS(ERROR)
#undef ERROR
  return "unrecognized error code";
}

cudaError_t cudaPeekAtLastError(void) {
  inside call;
  return last;
}
cudaError_t cudaGetLastError(void) {
  inside call;
  cudaError_t e = last;
  last = broke;
  return e;
}

/* ---- the device ---------------------------------------------------------- */

cudaError_t cudaRuntimeGetVersion(int *version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int *version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int *count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  inside call;
  return said(device == 0 ? cudaSuccess : cudaErrorInvalidDevice);
}
cudaError_t cudaGetDevice(int *device) {
  *device = 0;
  return cudaSuccess;
}

/* Every process emulates a device of its own, unless it is told to share one. */
cudaError_t cudaDeviceGetPCIBusId(char *id, int room, int device) {
  inside call;
  if (device != 0) return said(cudaErrorInvalidDevice);
  uint64_t bus = number_from("MRT_EMULATE_BUS", (uint64_t)getpid());
  snprintf(id, (size_t)room, "0000:%02x:%02x.0", (unsigned)(bus >> 8),
           (unsigned)(bus & 0xff));
  return cudaSuccess;
}

/* An H100's, but for the memory. */
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int device) {
  inside call;
  if (device != 0) return said(cudaErrorInvalidDevice);
  size_t free;
  *p = cudaDeviceProp();
  snprintf(p->name, sizeof p->name, "emulated");
  p->sharedMemPerBlock = 48 << 10;
  p->sharedMemPerBlockOptin = 227 << 10;
  p->warpSize = 32;
  p->maxThreadsPerBlock = 1024;
  p->major = 9;
  p->multiProcessorCount = 132;
  p->l2CacheSize = 50 << 20;
  p->memoryBusWidth = 5120;
  return cudaMemGetInfo(&free, &p->totalGlobalMem);
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute,
                                   int device) {
  static const int clock = (int)number_from("MRT_EMULATE_CLOCK", 1980000),
                   memory =
                       (int)number_from("MRT_EMULATE_MEMORY_CLOCK", 2619000);
  static const int known[][2] = {
    { cudaDevAttrMaxThreadsPerBlock, 1024 },
    { cudaDevAttrMaxSharedMemoryPerBlock, 48 << 10 },
    { cudaDevAttrMaxSharedMemoryPerBlockOptin, 227 << 10 },
    { cudaDevAttrWarpSize, 32 },
    { cudaDevAttrClockRate, clock },
    { cudaDevAttrMemoryClockRate, memory },
    { cudaDevAttrMultiProcessorCount, 132 },
    { cudaDevAttrGlobalMemoryBusWidth, 5120 },
    { cudaDevAttrL2CacheSize, 50 << 20 },
    { cudaDevAttrAsyncEngineCount, 3 },
    { cudaDevAttrComputeCapabilityMajor, 9 },
    { cudaDevAttrComputeCapabilityMinor, 0 },
  };
  inside call;
  if (device != 0) return said(cudaErrorInvalidDevice);
  for (const int *pair : known)
    if (pair[0] == (int)attribute) {
      *value = pair[1];
      return cudaSuccess;
    }
  return said(cudaErrorInvalidValue);
}

cudaError_t cudaDeviceReset(void) {
  mrt_emulate_reset();
  forget_memory();
  return cudaSuccess;
}
