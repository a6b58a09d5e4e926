/* emulate_memory.cc -- the device's memory, pinned memory, copies
 *
 * Device memory can be touched only while the device works: a host that reads
 * it by a pointer is stopped there.  What the device touches is opened as it is
 * touched, so that the rest costs nothing.  An allocation ends where a page
 * does, with a page that nobody may touch behind it; under the address sanitizer
 * the memory is the heap's and guarded to the byte.  Fresh memory is NaN, that of
 * the pool from when its stream comes to the allocation: who uses it before,
 * because a wait was forgotten, loses what he wrote.  It is given back when the
 * stream comes to that.
 *
 * SPDX-License-Identifier: MIT */
#include "emulate_inside.h"
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <map>
#include <sys/mman.h>

namespace {

enum { ALIGN = 256, PAGE = 4096 };

struct block {
  size_t size;     /* as asked for */
  char *map;       /* NULL: from the heap */
  size_t map_size; /* without the guards */
  bool pooled;     /* from the pool, */
  bool freed;      /* and given back: not to be named in a call any more */
};
typedef std::map<char *, block> blocks;

blocks device, pinned;
size_t used;
bool opened;

size_t up(size_t n, size_t to) { return (n + to - 1) / to * to; }

size_t total() {
  static const char *text = getenv("MRT_EMULATE_MEMORY");
  return text && *text ? strtoull(text, NULL, 10) : (size_t)1 << 30;
}

/* Whether p lies in one of them; then also whether n bytes from there do. */
bool within(const blocks &all, const void *p, size_t n, bool *fits) {
  blocks::const_iterator b = all.upper_bound((char *)p);
  if (b == all.begin()) return false;
  --b;
  size_t at = (size_t)((char *)p - b->first);
  if (at >= b->second.size || b->second.freed) return false;
  *fits = n <= b->second.size - at;
  return true;
}

#ifdef __SANITIZE_ADDRESS__
char *get(block *b) {
  void *p = NULL;
  if (posix_memalign(&p, ALIGN, b->size ? b->size : 1)) return NULL;
  return (char *)p;
}
void hide(const block &) {}
void hide_touched() {}
void release(char *p, const block &) { free(p); }
#else
std::vector<block> touched;

void touch(int, siginfo_t *info, void *) {
  char *at = (char *)info->si_addr;
  blocks::iterator b = device.upper_bound(at + PAGE);
  if (opened && b != device.begin()) {
    const block &it = (--b)->second;
    if (at >= it.map && at < it.map + it.map_size) {
      mprotect(it.map, it.map_size, PROT_READ | PROT_WRITE);
      touched.push_back(it);
      return;
    }
  }
  signal(SIGSEGV, SIG_DFL); // and stops there
}
bool look_out() {
  struct sigaction act = {};
  act.sa_sigaction = touch;
  act.sa_flags = SA_SIGINFO;
  return sigaction(SIGSEGV, &act, NULL) == 0;
}

void hide(const block &b) { mprotect(b.map, b.map_size, PROT_NONE); }
void hide_touched() {
  for (const block &b : touched) hide(b);
  touched.clear();
}
char *get(block *b) {
  static bool looks_out = look_out();
  if (!looks_out) return NULL;
  b->map_size = up(b->size ? b->size : 1, PAGE);
  void *m = mmap(NULL, b->map_size + 2 * PAGE, PROT_NONE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (m == MAP_FAILED) return NULL;
  b->map = (char *)m + PAGE;
  mprotect(b->map, b->map_size, PROT_READ | PROT_WRITE);
  return b->map + b->map_size - up(b->size, ALIGN);
}
void release(char *, const block &b) {
  touched.erase(std::remove_if(touched.begin(), touched.end(),
                               [&](const block &t) { return t.map == b.map; }),
                touched.end());
  munmap(b.map - PAGE, b.map_size + 2 * PAGE);
}
#endif

} // namespace

void open_memory() { opened = true; }
void close_memory() {
  if (opened) hide_touched();
  opened = false;
}

void forget_memory() {
  for (const auto &b : device) release(b.first, b.second);
  device.clear();
  used = 0;
}

static cudaError_t allocate(void **data, size_t nbytes, bool pooled) {
  *data = NULL;
  if (cudaError_t e = working()) return said(e);
  if (is_capturing_strictly()) return said(refuse_capture(NULL));
  if (nbytes == 0) return cudaSuccess;
  block b = { nbytes, NULL, 0, pooled, false };
  size_t size = up(nbytes, 2 * ALIGN);
  if (size < nbytes || size > total() - used)
    return said(cudaErrorMemoryAllocation);
  char *p = get(&b);
  if (!p) return said(cudaErrorMemoryAllocation);
  memset(p, 0xff, nbytes);
  device[p] = b;
  hide(b);
  used += size;
  *data = p;
  return cudaSuccess;
}

static void give_back(blocks::iterator b) {
  used -= up(b->second.size, 2 * ALIGN);
  release(b->first, b->second);
  device.erase(b);
}

/* What its stream has not come to, and will not. */
void forget_freed() {
  for (blocks::iterator b = device.begin(), next; b != device.end(); b = next) {
    next = std::next(b);
    if (b->second.freed) give_back(b);
  }
}

cudaError_t cudaMalloc(void **data, size_t nbytes) {
  inside call;
  count("cudaMalloc");
  return allocate(data, nbytes, false);
}

/* Waits for all that the device does. */
cudaError_t cudaFree(void *data) {
  inside call;
  if (!data) return cudaSuccess;
  if (is_capturing_strictly()) return said(refuse_capture(NULL));
  blocks::iterator b = device.find((char *)data);
  if (b == device.end() || b->second.freed) return said(cudaErrorInvalidValue);
  waiting for_all("cudaFree");
  count("cudaFree");
  finish_all();
  give_back(b);
  return said(cudaSuccess);
}

cudaError_t cudaMallocAsync(void **data, size_t nbytes, cudaStream_t stream) {
  inside call;
  if (cudaError_t e = allocate(data, nbytes, true)) return e;
  char *p = (char *)*data;
  return said(give(stream, { "allocate", true, [=] { memset(p, 0xff, nbytes); },
                             NULL, NULL }));
}
cudaError_t cudaMallocFromPoolAsync(void **data, size_t nbytes,
                                    cudaMemPool_t pool, cudaStream_t stream) {
  (void)pool;
  return cudaMallocAsync(data, nbytes, stream);
}
cudaError_t cudaFreeAsync(void *data, cudaStream_t stream) {
  inside call;
  if (!data) return cudaSuccess;
  blocks::iterator b = device.find((char *)data);
  if (b == device.end() || b->second.freed) return said(cudaErrorInvalidValue);
  if (is_capturing(stream_or_default(stream)))
    return said(refuse_capture(stream));
  b->second.freed = true;
  return said(give(stream, { "free", true,
                             [data] { give_back(device.find((char *)data)); },
                             NULL, NULL }));
}
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int number) {
  (void)number;
  *pool = NULL;
  return cudaSuccess;
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool,
                                    cudaMemPoolAttr attribute, void *value) {
  (void)pool, (void)attribute, (void)value;
  return cudaSuccess;
}

/* Bytes that are not given back yet, and those of them that somebody has. */
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool,
                                    cudaMemPoolAttr attribute, void *value) {
  inside call;
  uint64_t bytes = 0;
  (void)pool;
  for (const auto &b : device)
    if (b.second.pooled &&
        (attribute == cudaMemPoolAttrReservedMemCurrent || !b.second.freed))
      bytes += up(b.second.size, 2 * ALIGN);
  *(uint64_t *)value = bytes;
  return said(cudaSuccess);
}
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t kept) {
  (void)pool, (void)kept;
  return cudaSuccess;
}

cudaError_t cudaHostAlloc(void **data, size_t nbytes, unsigned flags) {
  inside call;
  *data = NULL;
  if (cudaError_t e = working()) return said(e);
  if (is_capturing_strictly()) return said(refuse_capture(NULL));
  if (nbytes == 0) return cudaSuccess;
  if (posix_memalign(data, PAGE, nbytes)) {
    *data = NULL;
    return said(cudaErrorMemoryAllocation);
  }
  memset(*data, 0xff, nbytes);
  pinned[(char *)*data] = { nbytes, NULL, 0, false, false };
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void **data, size_t nbytes) {
  return cudaHostAlloc(data, nbytes, cudaHostAllocDefault);
}
cudaError_t cudaFreeHost(void *data) {
  inside call;
  if (!data) return cudaSuccess;
  blocks::iterator b = pinned.find((char *)data);
  if (b == pinned.end() || b->second.map) return said(cudaErrorInvalidValue);
  finish_all();
  free(data);
  pinned.erase(b);
  return said(cudaSuccess);
}

/* Somebody else's memory: `map` says so. */
cudaError_t cudaHostRegister(void *data, size_t nbytes, unsigned flags) {
  inside call;
  bool fits;
  if (cudaError_t e = working()) return said(e);
  if (is_capturing_strictly()) return said(refuse_capture(NULL));
  if (!data || !nbytes || within(pinned, data, nbytes, &fits))
    return said(cudaErrorInvalidValue);
  pinned[(char *)data] = { nbytes, (char *)data, nbytes, false, false };
  return said(cudaSuccess);
}
cudaError_t cudaHostUnregister(void *data) {
  inside call;
  blocks::iterator b = pinned.find((char *)data);
  if (b == pinned.end() || !b->second.map) return said(cudaErrorInvalidValue);
  finish_all();
  pinned.erase(b);
  return said(cudaSuccess);
}

cudaError_t cudaMemGetInfo(size_t *free, size_t *all) {
  inside call;
  *all = total();
  *free = total() - used;
  return said(cudaSuccess);
}

/* ---- copies -------------------------------------------------------------- */

namespace {

struct ends {
  bool to_device, from_device;
};

/* Which side each is on; false when they do not fit there. */
bool look(void *to, const void *from, size_t n, cudaMemcpyKind kind, ends *e) {
  bool to_fits = true, from_fits = true;
  e->to_device = within(device, to, n, &to_fits);
  e->from_device = within(device, from, n, &from_fits);
  if (!to_fits || !from_fits) return false;
  if (kind == cudaMemcpyDefault) return true;
  return e->to_device == (kind == cudaMemcpyHostToDevice ||
                          kind == cudaMemcpyDeviceToDevice) &&
         e->from_device == (kind == cudaMemcpyDeviceToHost ||
                            kind == cudaMemcpyDeviceToDevice);
}

bool is_pinned(const void *p, size_t n) {
  bool fits = false;
  return within(pinned, p, n, &fits) && fits;
}

work copy(void *to, const void *from, size_t n) {
  return { "copy", true, [=] { memmove(to, from, n); }, NULL, NULL };
}

} // namespace

/* Pageable memory is read before the call returns, and written by then. */
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t nbytes,
                            enum cudaMemcpyKind kind, cudaStream_t stream) {
  inside call;
  ends on;
  if (cudaError_t e = working()) return said(e);
  if (nbytes == 0) return cudaSuccess;
  if (!look(to, from, nbytes, kind, &on)) return said(cudaErrorInvalidValue);
  if (is_capturing(stream_or_default(stream)))
    return said(give(stream, copy(to, from, nbytes)));
  if (!on.from_device && !is_pinned(from, nbytes)) {
    std::vector<char> staged((const char *)from, (const char *)from + nbytes);
    return said(
        give(stream, { "copy", true, [=] { memcpy(to, staged.data(), nbytes); },
                       NULL, NULL }));
  }
  cudaError_t e = give(stream, copy(to, from, nbytes));
  if (!on.to_device && !is_pinned(to, nbytes))
    finish(stream_or_default(stream));
  return said(e);
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t nbytes,
                       enum cudaMemcpyKind kind) {
  inside call;
  ends on;
  if (cudaError_t e = working()) return said(e);
  if (is_capturing_strictly()) return said(refuse_capture(NULL));
  if (nbytes == 0) return cudaSuccess;
  if (!look(to, from, nbytes, kind, &on)) return said(cudaErrorInvalidValue);
  finish_blocking();
  open_memory();
  if (!is_broken()) memmove(to, from, nbytes);
  return said(cudaSuccess);
}

cudaError_t cudaMemsetAsync(void *to, int byte, size_t nbytes,
                            cudaStream_t stream) {
  inside call;
  bool fits = false;
  if (cudaError_t e = working()) return said(e);
  if (nbytes == 0) return cudaSuccess;
  if (!within(device, to, nbytes, &fits) || !fits)
    return said(cudaErrorInvalidValue);
  return said(give(stream, { "memset", false, [=] { memset(to, byte, nbytes); },
                             NULL, NULL }));
}
cudaError_t cudaMemset(void *to, int byte, size_t nbytes) {
  inside call;
  cudaError_t e = cudaMemsetAsync(to, byte, nbytes, NULL);
  if (e == cudaSuccess) finish_blocking();
  return said(e);
}
