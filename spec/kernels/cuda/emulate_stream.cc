/* emulate_stream.cc -- streams as queues, and launches into them
 *
 * What is given to a stream is done when somebody waits for it, never before:
 * work of other streams that is not waited for comes as late as CUDA permits,
 * so that a wait that was forgotten shows as wrong bits.  Seed 1 does the work
 * of the other streams first instead, as early as permitted; larger seeds draw.
 *
 * SPDX-License-Identifier: MIT */
#include "emulate_inside.h"
#include <algorithm>
#include <ctime>
#include <map>
#include <string>

struct CUevent_st {
  bool timed;
  mark_ref at;           /* where it was recorded last; none: done */
  capture_ref recording; /* or in this capture, after these nodes */
  std::vector<int> after;
};

namespace {

CUstream_st standard = { {}, true, NULL, {} };
std::vector<cudaStream_t> streams = { &standard };
std::map<const void *, int> shared_most; /* of kernels that asked for more */
bool nested; /* work that is done already while other work is waited for */
const char *waits; /* the call in which the host does */

double now() {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

bool is_known(cudaStream_t s) {
  return std::find(streams.begin(), streams.end(), s) != streams.end();
}

void reach(const mark_ref &m);

/* The first of the queue. */
void step(cudaStream_t s) {
  if (s->queue.front().waits_for) reach(s->queue.front().waits_for);
  work w = std::move(s->queue.front());
  s->queue.pop_front();
  if (w.run && !is_broken()) {
    if (waits && !nested && !w.copies) {
      count((std::string(waits) + " waited").c_str());
      waits = NULL;
    }
    open_memory();
    w.run();
  }
  if (!w.makes) return;
  w.makes->done = true;
  w.makes->seconds = now();
}

bool is_ready(cudaStream_t s) {
  if (s->queue.empty()) return false;
  const mark_ref &m = s->queue.front().waits_for;
  return !m || m->done;
}

/* What the seed does in other streams before `s` goes on. */
void others(cudaStream_t s) {
  if (seed() == 0 || nested) return;
  nested = true;
  for (cudaStream_t other : streams)
    while (other != s && is_ready(other) && (seed() == 1 || chance(2)))
      step(other);
  nested = false;
}

void reach(const mark_ref &m) {
  while (!m->done) {
    others(m->stream);
    step(m->stream);
  }
}

} // namespace

waiting::waiting(const char *name) { waits = name; }
waiting::~waiting() { waits = NULL; }

cudaStream_t stream_or_default(cudaStream_t stream) {
  return stream ? stream : &standard;
}

void finish(cudaStream_t s) {
  while (!s->queue.empty()) {
    others(s);
    if (!s->queue.empty()) step(s);
  }
}

/* Streams in the order of the seed. */
void finish_all() {
  size_t n = streams.size();
  for (size_t i = 0; i < n; i++) finish(streams[in_order(i, n, 3)]);
}
void finish_blocking() {
  for (cudaStream_t s : streams)
    if (s->blocking) finish(s);
}

void forget_streams() {
  for (cudaStream_t s : streams) {
    for (work &w : s->queue)
      if (w.makes) w.makes->done = true;
    s->queue.clear();
  }
}

/* The default stream and blocking ones take turns, so none of them is late. */
cudaError_t give(cudaStream_t stream, work w) {
  cudaStream_t s = stream_or_default(stream);
  if (!is_known(s)) return cudaErrorInvalidResourceHandle;
  if (s->recording) {
    record(s, std::move(w));
    return cudaSuccess;
  }
  if (s->blocking)
    for (cudaStream_t other : streams)
      if (other != s && other->blocking &&
          (s == &standard || other == &standard))
        finish(other);
  s->queue.push_back(std::move(w));
  return cudaSuccess;
}

/* ---- launches ------------------------------------------------------------ */

void mrt_emulate_kernel(dim3 grid, dim3 block, size_t shared, void *stream,
                        const char *name, const void *kernel,
                        std::function<void()> body) {
  inside call;
  if (cudaError_t e = working()) {
    said(e);
    return;
  }
  uint64_t threads = (uint64_t)block.x * block.y * block.z;
  auto most = shared_most.find(kernel);
  bool fits = threads > 0 && threads <= 1024 && block.z <= 64 && grid.x > 0 &&
              grid.x <= 0x7fffffff && grid.y > 0 && grid.y <= 65535 &&
              grid.z > 0 && grid.z <= 65535;
  if (!fits) {
    said(cudaErrorInvalidConfiguration);
    return;
  }
  if (shared > (most == shared_most.end() ? 48u << 10 : (size_t)most->second)) {
    said(cudaErrorInvalidValue);
    return;
  }
  launch l = { grid, block, shared, name, std::move(body) };
  said(give(
      (cudaStream_t)stream,
      { name, false, [l] { may_run(l.name) && run_grid(l); }, NULL, NULL }));
}

void mrt_emulate_work(void *stream, const char *name,
                      std::function<void()> body) {
  inside call;
  cudaError_t e = working();
  auto run = [name, body] {
    if (may_run(name)) body();
  };
  if (!e) e = give((cudaStream_t)stream, { name, false, run, NULL, NULL });
  said(e);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, void (*f)(void *),
                               void *data) {
  inside call;
  if (cudaError_t e = working()) return said(e);
  return said(give(stream, { "host", true, [=] { f(data); }, NULL, NULL }));
}

cudaError_t cudaFuncSetAttribute(const void *kernel,
                                 enum cudaFuncAttribute attribute, int value) {
  inside call;
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize)
    return said(cudaSuccess);
  if (value < 0 || value > 227 << 10) return said(cudaErrorInvalidValue);
  shared_most[kernel] = std::max(value, 48 << 10);
  return said(cudaSuccess);
}

/* ---- streams ------------------------------------------------------------- */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
  inside call;
  *stream = new CUstream_st{ {}, !(flags & cudaStreamNonBlocking), NULL, {} };
  streams.push_back(*stream);
  return said(cudaSuccess);
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags,
                                         int priority) {
  return cudaStreamCreateWithFlags(stream, flags);
}
cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaStreamCreate(cudaStream_t *stream) {
  return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  inside call;
  auto at = std::find(streams.begin(), streams.end(), stream);
  if (!stream || at == streams.end())
    return said(cudaErrorInvalidResourceHandle);
  finish(stream);
  streams.erase(std::find(streams.begin(), streams.end(), stream));
  delete stream;
  return said(cudaSuccess);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  inside call;
  cudaStream_t s = stream_or_default(stream);
  if (cudaError_t e = working()) return said(e);
  if (!is_known(s)) return said(cudaErrorInvalidResourceHandle);
  if (is_capturing(s)) return said(refuse_capture(s));
  waiting for_it("cudaStreamSynchronize");
  finish(s);
  return said(cudaSuccess);
}

/* Asking again and again comes to an end: each time something is done. */
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  inside call;
  cudaStream_t s = stream_or_default(stream);
  if (cudaError_t e = working()) return said(e);
  if (!is_known(s)) return said(cudaErrorInvalidResourceHandle);
  if (is_capturing(s)) return said(refuse_capture(s));
  if (s->queue.empty()) return said(cudaSuccess);
  step(s);
  return said(cudaErrorNotReady);
}

cudaError_t cudaDeviceSynchronize(void) {
  inside call;
  if (cudaError_t e = working()) return said(e);
  if (is_capturing_strictly()) return said(refuse_capture(NULL));
  finish_all();
  return said(cudaSuccess);
}

/* ---- events -------------------------------------------------------------- */

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
  inside call;
  *event = new CUevent_st{ !(flags & cudaEventDisableTiming), NULL, NULL, {} };
  return said(cudaSuccess);
}
cudaError_t cudaEventCreate(cudaEvent_t *event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  inside call;
  if (!event) return said(cudaErrorInvalidResourceHandle);
  delete event;
  return said(cudaSuccess);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  inside call;
  cudaStream_t s = stream_or_default(stream);
  if (cudaError_t e = working()) return said(e);
  if (!event || !is_known(s)) return said(cudaErrorInvalidResourceHandle);
  event->recording = s->recording;
  event->at = NULL;
  if (s->recording) {
    event->after = s->last;
    return cudaSuccess;
  }
  event->at.reset(new mark{ false, s, 0 });
  return said(give(s, { "event", false, {}, NULL, event->at }));
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event,
                                unsigned flags) {
  inside call;
  cudaStream_t s = stream_or_default(stream);
  if (cudaError_t e = working()) return said(e);
  if (!event || !is_known(s)) return said(cudaErrorInvalidResourceHandle);
  if (event->recording && is_capturing(event->recording->origin)) {
    if (s->recording && s->recording != event->recording)
      return said(refuse_capture(s));
    join(s, event->recording, event->after);
    return cudaSuccess;
  }
  /* an event from outside cannot be waited for in a graph */
  if (s->recording) return event->at ? said(refuse_capture(s)) : cudaSuccess;
  if (!event->at) return said(cudaSuccess);
  return said(give(s, { "wait", false, {}, event->at, NULL }));
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  inside call;
  if (cudaError_t e = working()) return said(e);
  if (!event) return said(cudaErrorInvalidResourceHandle);
  if (event->recording) return said(cudaErrorCapturedEvent);
  waiting for_it("cudaEventSynchronize");
  if (event->at) reach(event->at);
  return said(cudaSuccess);
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  inside call;
  if (cudaError_t e = working()) return said(e);
  if (!event) return said(cudaErrorInvalidResourceHandle);
  if (event->recording) return said(cudaErrorCapturedEvent);
  if (!event->at || event->at->done) return said(cudaSuccess);
  step(event->at->stream);
  return said(cudaErrorNotReady);
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to) {
  inside call;
  if (!from || !to || !from->timed || !to->timed || !from->at || !to->at)
    return said(cudaErrorInvalidResourceHandle);
  if (!from->at->done || !to->at->done) return said(cudaErrorNotReady);
  *ms = (float)(1e3 * (to->at->seconds - from->at->seconds));
  return said(cudaSuccess);
}
