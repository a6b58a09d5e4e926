/* toy.c -- the toy device: its memory, and how it is opened
 *
 * Its memory is a range of pages without access but while one of its kernels or
 * copies runs, so who reads or writes there without a copy crashes.  Nothing is
 * queued: a call is done when it returns.
 *
 * MRT_TOY_MEMORY=n   bytes that it has; 256 MiB
 * MRT_TOY_FAIL=n     the n-th allocation fails, and all that follow
 * MRT_TOY_BREAK=n    the n-th copy fails, and all that follow
 * MRT_TOY_WITHOUT=x  without the kernels whose names are in x: "matmul,copy"
 * MRT_TOY_QUEUE=1    as a device that queues (queue.c)
 *
 * SPDX-License-Identifier: MIT */
#include "toy.h"
#include "device/op_names.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { DEVICES = 2, BLOCKS = 1 << 16, ALIGN = 64, PAGE = 4096 };

typedef struct block {
  size_t at, bytes;
} block;

/* One memory for both devices of the process, however often they are opened. */
static struct {
  char *base;
  size_t bytes;
  block blocks[BLOCKS]; /* in ascending order of `at` */
  int count;
  long allocations, copies;
} memory;

static mrt_status (*fail)(mrt_error *, mrt_status, const char *, ...);

static long number(const char *variable, long usual) {
  const char *text = getenv(variable);
  return text && *text ? strtol(text, NULL, 10) : usual;
}

/* ---- memory -------------------------------------------------------------- */

enum { OPEN = PROT_READ | PROT_WRITE };

/* The pages of these bytes, if they are the device's. */
static void protect(const void *data, size_t nbytes, int access) {
  size_t at = (size_t)((uintptr_t)data - (uintptr_t)memory.base);
  if (at >= memory.bytes || !nbytes) return;
  size_t first = at / PAGE * PAGE, end = (at + nbytes + PAGE - 1) / PAGE * PAGE;
  mprotect(memory.base + first, end - first, access);
}

static void protect_all(int access) {
  const block *last = &memory.blocks[memory.count - 1];
  if (memory.count) protect(memory.base, last->at + last->bytes, access);
}

void toy_unlock(void) { protect_all(OPEN); }
void toy_lock(void) { protect_all(PROT_NONE); }

/* The first gap that is large enough. */
static void *allocate(const mrt_device *device, size_t nbytes) {
  size_t at = 0;
  int i = 0;
  (void)device;
  long failing = number("MRT_TOY_FAIL", 0);
  if (failing && ++memory.allocations >= failing) return NULL;
  if (!nbytes) nbytes = ALIGN;
  while (i < memory.count && memory.blocks[i].at - at < nbytes)
    at = memory.blocks[i].at + memory.blocks[i].bytes, i++;
  if (memory.count == BLOCKS || at + nbytes > memory.bytes) return NULL;
  memmove(memory.blocks + i + 1, memory.blocks + i,
          (size_t)(memory.count - i) * sizeof *memory.blocks);
  memory.blocks[i] = (block){ at, nbytes };
  memory.count++;
  return memory.base + at;
}

static void release(const mrt_device *device, void *data, size_t nbytes) {
  int i = 0;
  (void)device, (void)nbytes;
  while (memory.base + memory.blocks[i].at != (char *)data) i++;
  memory.count--;
  memmove(memory.blocks + i, memory.blocks + i + 1,
          (size_t)(memory.count - i) * sizeof *memory.blocks);
}

static size_t available(const mrt_device *device) {
  size_t free_bytes = memory.bytes;
  (void)device;
  for (int i = 0; i < memory.count; i++) free_bytes -= memory.blocks[i].bytes;
  return free_bytes;
}

/* ---- copies -------------------------------------------------------------- */

static mrt_status move(void *to, const void *from, size_t nbytes,
                       mrt_error *e) {
  long broken = number("MRT_TOY_BREAK", 0);
  if (broken && ++memory.copies >= broken)
    return fail(e, MRT_EDEVICE, "the toy is broken");
  protect(to, nbytes, OPEN), protect(from, nbytes, OPEN);
  if (nbytes) memmove(to, from, nbytes);
  protect(to, nbytes, PROT_NONE), protect(from, nbytes, PROT_NONE);
  return MRT_OK;
}

static mrt_status put(const mrt_device *device, void *to, const void *from,
                      size_t nbytes, mrt_error *e) {
  (void)device;
  return move(to, from, nbytes, e);
}

static mrt_status get(const mrt_device *device, void *to, const void *from,
                      size_t nbytes, uint64_t fence, mrt_error *e) {
  (void)device, (void)fence;
  return move(to, from, nbytes, e);
}

static mrt_status fill(const mrt_device *device, void *to, int byte,
                       size_t nbytes, mrt_error *e) {
  (void)device, (void)e;
  protect(to, nbytes, OPEN);
  memset(to, byte, nbytes);
  protect(to, nbytes, PROT_NONE);
  return MRT_OK;
}

static const mrt_remote remote = {
  .write = put, .read = get, .copy = put, .fill = fill
};

/* ---- opening ------------------------------------------------------------- */

__attribute__((visibility("default"))) mrt_plugin_open mrt_plugin_open_6;

mrt_status mrt_plugin_open_6(const mrt_plugin_core *core, int index,
                             mrt_device *device, mrt_error *e) {
  fail = core->fail;
  if (strcmp(core->ops, mrt_op_names) != 0)
    return fail(e, MRT_EDEVICE, "the toy was built of another version");
  if (index >= DEVICES)
    return fail(e, MRT_EDEVICE, "device toy:%d: there are %d toys", index,
                DEVICES);
  if (!memory.base) {
    memory.bytes = (size_t)number("MRT_TOY_MEMORY", 256 << 20) / PAGE * PAGE;
    void *pages = mmap(NULL, memory.bytes, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages == MAP_FAILED)
      return fail(e, MRT_EDEVICE, "no %zu bytes for the toy", memory.bytes);
    memory.base = pages;
  }
  device->alloc = allocate, device->free = release;
  device->available = available, device->kernel = toy_kernel;
  if (getenv("MRT_TOY_QUEUE")) device->queue = &toy_queue;
  device->remote = &remote, device->align = ALIGN, device->count = DEVICES;
  return MRT_OK;
}
