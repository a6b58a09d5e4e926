/* emulate_inside.h -- what the emulator's parts share
 *
 * One lock for everything: a host thread is inside from the start of a call to
 * its end, and kernels run inside the call that waits for them.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_EMULATE_INSIDE_H
#define MRT_EMULATE_INSIDE_H

#include "cuda_runtime.h"
#include "emulate.h"
#include <cstdio>
#include <deque>
#include <memory>
#include <vector>

/* ---- state and failures (emulate_device.cc) ------------------------------ */

/* Every call holds one.  The outermost one's end hides the device's memory from
 * the host again. */
struct inside {
  inside();
  ~inside();
  inside(const inside &) = delete;
};

/* Remember `e` for cudaGetLastError and return it; one that breaks the device
 * comes back from every later call. */
cudaError_t said(cudaError_t e);
/* The device is broken from now on; printed at once. */
void broken(cudaError_t e, const char *message);
/* The error that broke the device, or cudaSuccess; counts a call that gives or
 * awaits work, which may be the one that is to fail. */
cudaError_t working();
bool is_broken();

/* Whether a kernel runs, not breaks; counts it. */
bool may_run(const char *name);
/* MRT_EMULATE_COUNT tells how often something was done, too. */
void count(const char *name);

uint64_t seed();
/* The i-th of n in the order of the seed; `salt` makes different ones. */
uint64_t in_order(uint64_t i, uint64_t n, uint64_t salt);
/* A number below n that the seed decides; the next call gives another. */
uint64_t chance(uint64_t n);

/* ---- memory (emulate_memory.cc) ------------------------------------------ */

/* Kernels and copies may touch the device's memory until the call ends. */
void open_memory();
void close_memory();
void forget_memory();
void forget_freed();

/* ---- a kernel's threads (emulate_block.cc) ------------------------------- */

struct launch {
  dim3 grid, block;
  size_t shared;
  const char *name;
  std::function<void()> body;
};
/* False when threads of a block wait for each other in vain. */
bool run_grid(const launch &l);
/* The thread and the kernel that run. */
int running_thread();
const char *running_kernel();

/* ---- copies and products beside threads (emulate_async.cc) --------------- */

/* A block begins, with its dynamic shared memory; false when it broke a rule. */
void begin_async(void *shared, size_t bytes, int threads);
bool end_async();

/* ---- streams (emulate_stream.cc) ----------------------------------------- */

/* A place in a stream: whether what was before it is done, and when it was. */
struct mark {
  bool done;
  cudaStream_t stream;
  double seconds;
};
typedef std::shared_ptr<mark> mark_ref;

struct work {
  const char *name;
  bool copies;
  std::function<void()> run; /* may be empty */
  mark_ref waits_for, makes; /* before it; after it */
};

/* Work recorded by a capture, after others of it. */
struct node {
  work what;
  std::vector<int> after;
};
struct CUgraph_st {
  std::vector<node> nodes;
};
struct capture {
  std::vector<node> nodes;
  cudaStream_t origin;
  cudaStreamCaptureMode mode;
  bool invalid;
};
typedef std::shared_ptr<capture> capture_ref;

struct CUstream_st {
  std::deque<work> queue;
  bool blocking;
  capture_ref recording; /* none: NULL */
  std::vector<int> last; /* nodes that the next one comes after */
};

/* Queue, or record where the stream is capturing. */
cudaError_t give(cudaStream_t stream, work w);
cudaStream_t stream_or_default(cudaStream_t stream);
/* Do what was given to one; to all; to the default one and those that go with
 * it. */
void finish(cudaStream_t stream);
void finish_all();
void finish_blocking();
void forget_streams();
/* While one lives, what is done is what the host waits for in that call, which is
 * counted, as "cudaFree waited", unless it is copies only. */
struct waiting {
  explicit waiting(const char *name);
  ~waiting();
  waiting(const waiting &) = delete;
};

/* ---- capture (emulate_graph.cc) ------------------------------------------ */

bool is_capturing(cudaStream_t stream);
/* Some stream is, in a mode that forbids to allocate. */
bool is_capturing_strictly();
/* A call that a capture does not permit: it is void from now on. */
cudaError_t refuse_capture(cudaStream_t stream);
void record(cudaStream_t stream, work w);
void join(cudaStream_t stream, const capture_ref &c,
          const std::vector<int> &on);
void forget_captures();

#endif
