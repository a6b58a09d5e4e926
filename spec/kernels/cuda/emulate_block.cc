/* emulate_block.cc -- a block's threads as fibers on one host thread
 *
 * A thread runs until it returns or waits.  One that never waits needs no
 * fiber of its own: a fiber takes one thread after another, and only when its
 * thread waits does the next fiber go on with those that have not begun.  What
 * the last of them has been waited for is let go, all together; so between two
 * barriers threads run one after another, in the order of the seed, and a race
 * shows as results that depend on the seed.
 *
 * When nobody can go on the block is divergent: some wait where others have
 * returned or wait elsewhere.  That breaks the device.
 *
 * SPDX-License-Identifier: MIT */
#undef _FORTIFY_SOURCE /* its longjmp does not leave the stack */
#include "emulate_inside.h"
#include <csetjmp>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <ucontext.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#else
static void __sanitizer_start_switch_fiber(void **, const void *, size_t) {}
static void __sanitizer_finish_switch_fiber(void *, const void **, size_t *) {}
#define ASAN_UNPOISON_MEMORY_REGION(at, size)
#endif

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace {

enum { MOST_THREADS = 1024, STACK = 256 << 10, LANES = 32 };

struct fiber {
  char *stack;
  ucontext_t first;
  jmp_buf at;
  void *fake; /* the sanitizer's */
  bool begun;
};

enum state { FRESH, READY, AT_BARRIER, IN_WARP, RETURNED };

struct thread {
  state is;
  fiber *on;
  uint3 index;
  const char *what, *file; /* where it waits */
  int line, source;
  unsigned mask;
  uint64_t value;
};

/* The block that runs. */
thread threads[MOST_THREADS];
int order[MOST_THREADS], count, fresh, waiting, returned;
int running; /* thread */
const std::function<void()> *body;
const char *kernel;
void *dynamic_shared;

/* ---- fibers -------------------------------------------------------------- */

std::vector<fiber *> idle;
jmp_buf scheduler;
const void *host_stack;
size_t host_stack_size;
fiber *entered;

void leave(fiber *f) {
  if (_setjmp(f->at) == 0) {
    __sanitizer_start_switch_fiber(&f->fake, host_stack, host_stack_size);
    _longjmp(scheduler, 1);
  }
  __sanitizer_finish_switch_fiber(f->fake, &host_stack, &host_stack_size);
}

void become(int t) {
  running = t;
  threadIdx = threads[t].index;
}

/* Threads that have not begun, until one waits or none is left. */
void take_threads(fiber *f) {
  while (fresh < count) {
    int t = order[fresh++];
    threads[t].on = f;
    threads[t].is = READY;
    become(t);
    (*body)();
    threads[running].is = RETURNED;
    returned++;
  }
}

void live() {
  fiber *self = entered;
  __sanitizer_finish_switch_fiber(NULL, &host_stack, &host_stack_size);
  for (;;) {
    take_threads(self);
    idle.push_back(self);
    leave(self);
  }
}

void begin(fiber *f) {
  ASAN_UNPOISON_MEMORY_REGION(f->stack, STACK);
  f->begun = false;
  f->fake = NULL;
  getcontext(&f->first);
  f->first.uc_stack.ss_sp = f->stack;
  f->first.uc_stack.ss_size = STACK;
  f->first.uc_link = NULL;
  makecontext(&f->first, live, 0);
}

/* A page below each stack ends the process when it overflows. */
fiber *take_fiber() {
  if (idle.empty()) {
    size_t page = 4096;
    void *m = mmap(NULL, STACK + page, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (m == MAP_FAILED) {
      fprintf(stderr, "emulated device: no memory for a stack\n");
      abort();
    }
    mprotect(m, page, PROT_NONE);
    fiber *f = new fiber();
    f->stack = (char *)m + page;
    begin(f);
    idle.push_back(f);
  }
  fiber *f = idle.back();
  idle.pop_back();
  return f;
}

void enter(fiber *f) {
  void *fake = NULL;
  entered = f;
  if (_setjmp(scheduler) == 0) {
    __sanitizer_start_switch_fiber(&fake, f->stack, STACK);
    if (f->begun) _longjmp(f->at, 1);
    f->begun = true;
    setcontext(&f->first);
  }
  __sanitizer_finish_switch_fiber(fake, NULL, NULL);
}

/* ---- waiting ------------------------------------------------------------- */

void wait(thread *t, state how, const char *what, const char *file, int line) {
  fiber *f = t->on;
  t->is = how;
  t->what = what, t->file = file, t->line = line;
  int self = running;
  if (how == AT_BARRIER && ++waiting == count) {
    bool same = true;
    for (int i = 0; i < count; i++)
      same = same && threads[i].line == line && !strcmp(threads[i].file, file);
    waiting = same ? 0 : waiting;
    for (int i = 0; same && i < count; i++) threads[i].is = READY;
  }
  leave(f);
  become(self);
}

/* When all of the mask wait at the same place: give each what it gets. */
void exchange(int t) {
  int first = t / LANES * LANES;
  thread *warp = &threads[first], *self = &threads[t];
  uint64_t value[LANES], votes = 0;
  for (int i = 0; i < LANES; i++) {
    if (!(self->mask >> i & 1)) continue;
    const thread *l = &warp[i];
    if (first + i >= count || l->is != IN_WARP || l->mask != self->mask ||
        l->line != self->line || l->what != self->what)
      return;
    value[i] = l->value;
    votes |= (uint64_t)(l->value != 0) << i;
  }
  for (int i = 0; i < LANES; i++) {
    if (!(self->mask >> i & 1)) continue;
    thread *l = &warp[i];
    l->is = READY;
    if (l->source < 0)
      l->value = votes;
    else /* from a lane that does not take part: anything */
      l->value = self->mask >> l->source & 1 ? value[l->source] : ~UINT64_C(0);
  }
}

/* ---- a block ------------------------------------------------------------- */

/* Who waits where, in a line. */
void diverged() {
  char text[400];
  int n =
      snprintf(text, sizeof text, "kernel %s, block %u: ", kernel, blockIdx.x);
  const thread *told = NULL;
  for (int i = 0; i < count && n < 300; i++) {
    const thread *t = &threads[i];
    if (t->is == RETURNED || (told && told->line == t->line)) continue;
    n += snprintf(text + n, sizeof text - (size_t)n,
                  "thread %d waits in %s at %s:%d, ", i, t->what, t->file,
                  t->line);
    told = t;
  }
  snprintf(text + n, sizeof text - (size_t)n, "%d of %d threads have returned",
           returned, count);
  broken(cudaErrorLaunchFailure, text);
}

/* The fibers of threads that will never return. */
void abandon() {
  for (int i = 0; i < count; i++) {
    if (threads[i].is == RETURNED || threads[i].is == FRESH) continue;
    begin(threads[i].on);
    idle.push_back(threads[i].on);
  }
}

bool run_block() {
  fresh = waiting = returned = 0;
  for (int i = 0; i < count; i++) threads[i].is = FRESH;
  while (fresh < count) enter(take_fiber());
  while (returned < count) {
    bool moved = false;
    for (int i = 0; i < count; i++) {
      thread *t = &threads[order[i]];
      if (t->is != READY) continue;
      moved = true;
      enter(t->on);
    }
    if (moved) continue;
    diverged();
    abandon();
    return false;
  }
  return true;
}

/* ---- shared memory ------------------------------------------------------- */

/* Static shared memory is what the kernel's module keeps for each thread. */
struct module {
  uintptr_t code;
  void *shared;
  size_t size;
};

#ifndef __SANITIZE_ADDRESS__
int find_module(struct dl_phdr_info *info, size_t size, void *data) {
  module *m = (module *)data;
  bool mine = false;
  size_t bytes = 0;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *p = &info->dlpi_phdr[i];
    uintptr_t at = info->dlpi_addr + p->p_vaddr;
    if (p->p_type == PT_LOAD && m->code >= at && m->code < at + p->p_memsz)
      mine = true;
    if (p->p_type == PT_TLS) bytes = p->p_memsz;
  }
  if (!mine) return 0;
  m->shared = info->dlpi_tls_data;
  m->size = m->shared ? bytes : 0;
  return 1;
}
#endif

/* The module of this code, which the kernels are linked with. */
module shared_memory() {
  module m = { (uintptr_t)&run_grid, NULL, 0 };
#ifndef __SANITIZE_ADDRESS__
  dl_iterate_phdr(find_module, &m);
#endif
  return m;
}

/* A larger one is filled for the first block only: it would take too long. */
enum { FILLED_ALWAYS = 64 << 10 };

void fill_shared(const module &m, size_t dynamic, bool first) {
  if (m.size && (first || m.size <= FILLED_ALWAYS))
    memset(m.shared, 0xff, m.size);
  if (dynamic) memset(dynamic_shared, 0xff, dynamic);
}

void order_threads(dim3 block) {
  blockDim = block;
  count = (int)(block.x * block.y * block.z);
  for (int i = 0; i < count; i++) {
    unsigned u = (unsigned)i;
    order[i] = (int)in_order(u, (uint64_t)count, 1);
    threads[i].index = { u % block.x, u / block.x % block.y,
                         u / block.x / block.y };
  }
}

} // namespace

bool run_grid(const launch &l) {
  uint64_t blocks = (uint64_t)l.grid.x * l.grid.y * l.grid.z;
  order_threads(l.block);
  gridDim = l.grid;
  body = &l.body;
  kernel = l.name;
  module m = shared_memory();
  std::unique_ptr<char[]> room;
  /* exactly as large as it was asked for, so that the sanitizer sees its end */
  if (l.shared) room.reset(new char[l.shared]);
  dynamic_shared = room.get();
  for (uint64_t i = 0; i < blocks; i++) {
    uint64_t b = in_order(i, blocks, 2);
    blockIdx = { (unsigned)(b % l.grid.x), (unsigned)(b / l.grid.x % l.grid.y),
                 (unsigned)(b / l.grid.x / l.grid.y) };
    fill_shared(m, l.shared, i == 0);
    begin_async(dynamic_shared, l.shared,
                (int)(l.block.x * l.block.y * l.block.z));
    if (!run_block() || !end_async()) return false;
  }
  return true;
}

int running_thread() { return running; }
const char *running_kernel() { return kernel; }

/* ---- what kernels call --------------------------------------------------- */

void *mrt_emulate_shared(void) { return dynamic_shared; }

int mrt_emulate_lane(void) { return running % LANES; }

void mrt_emulate_barrier(const char *what, const char *file, int line) {
  wait(&threads[running], AT_BARRIER, what, file, line);
}

uint64_t mrt_emulate_exchange(const char *what, unsigned mask, uint64_t value,
                              int source, const char *file, int line) {
  int self = running;
  thread *t = &threads[self];
  t->mask = mask;
  t->value = value;
  t->source = source;
  t->is = IN_WARP;
  t->what = what, t->line = line;
  exchange(self);
  if (t->is == READY) {
    fiber *f = t->on;
    leave(f);
    become(self);
  } else {
    wait(t, IN_WARP, what, file, line);
  }
  return t->value;
}
