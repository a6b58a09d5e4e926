/* emulate_graph.cc -- capture into graphs, and replay
 *
 * A capturing stream records what it is given as nodes, each after the last of
 * its stream and after what it waited for.  A replay is one piece of work of
 * its stream; inside it every order that the edges permit may come: seed 0
 * does copies as late as it can, seed 1 as early, others draw.
 *
 * MRT_EMULATE_CAPTURE names what fails, each time: "begin", "inside" (a call of
 * what is captured), "end" or "instantiate"; "end@1": on rank 1 only.
 *
 * SPDX-License-Identifier: MIT */
#include "emulate_inside.h"
#include <algorithm>
#include <cstdlib>
#include <cstring>

struct CUgraphExec_st {
  std::shared_ptr<const std::vector<node>> nodes;
};

namespace {

bool fails(const char *at) {
  static const char *const text = getenv("MRT_EMULATE_CAPTURE"),
                           *const rank = getenv("RANK");
  size_t n = strlen(at);
  if (!text || strncmp(text, at, n) != 0) return false;
  return !text[n] ||
         (text[n] == '@' && rank && strcmp(text + n + 1, rank) == 0);
}

std::vector<capture_ref> captures;
std::vector<cudaStream_t> capturing; /* of all of them */

void end(const capture_ref &c) {
  for (size_t i = capturing.size(); i-- > 0;) {
    cudaStream_t s = capturing[i];
    if (s->recording != c) continue;
    s->recording = NULL;
    s->last.clear();
    capturing.erase(capturing.begin() + (long)i);
  }
  captures.erase(std::find(captures.begin(), captures.end(), c));
}

/* Nodes that come after others have these behind them: all that is not so must
 * be what the origin goes on from. */
bool is_joined(const capture &c) {
  std::vector<bool> followed(c.nodes.size());
  for (const node &n : c.nodes)
    for (int before : n.after) followed[(size_t)before] = true;
  for (int i : c.origin->last) followed[(size_t)i] = true;
  return std::find(followed.begin(), followed.end(), false) == followed.end();
}

/* Which of `ready` (in the order of capture) is next. */
size_t choose(const std::vector<node> &nodes, const std::vector<int> &ready) {
  if (seed() > 1) return (size_t)chance(ready.size());
  for (size_t i = 0; i < ready.size(); i++)
    if (nodes[(size_t)ready[i]].what.copies == (seed() == 1)) return i;
  return 0;
}

void replay(const std::vector<node> &nodes) {
  std::vector<size_t> missing(nodes.size());
  std::vector<std::vector<int>> next(nodes.size());
  std::vector<int> ready;
  for (size_t i = 0; i < nodes.size(); i++) {
    missing[i] = nodes[i].after.size();
    if (!missing[i]) ready.push_back((int)i);
    for (int before : nodes[i].after) next[(size_t)before].push_back((int)i);
  }
  while (!ready.empty() && !is_broken()) {
    size_t k = choose(nodes, ready);
    size_t i = (size_t)ready[k];
    ready.erase(ready.begin() + (long)k);
    if (nodes[i].what.run) nodes[i].what.run();
    for (int n : next[i])
      if (--missing[(size_t)n] == 0) ready.push_back(n);
  }
}

} // namespace

bool is_capturing(cudaStream_t stream) { return stream->recording != NULL; }

bool is_capturing_strictly() {
  for (const capture_ref &c : captures)
    if (c->mode != cudaStreamCaptureModeRelaxed) return true;
  return false;
}

cudaError_t refuse_capture(cudaStream_t stream) {
  for (const capture_ref &c : captures)
    if (!stream || stream->recording == c) c->invalid = true;
  return cudaErrorStreamCaptureUnsupported;
}

void record(cudaStream_t s, work w) {
  capture &c = *s->recording;
  if (fails("inside") && c.nodes.size() == 3) c.invalid = true;
  int number = (int)c.nodes.size();
  c.nodes.push_back({ std::move(w), s->last });
  s->last = { number };
}

void join(cudaStream_t s, const capture_ref &c, const std::vector<int> &on) {
  if (!s->recording) {
    s->recording = c;
    s->last.clear();
    capturing.push_back(s);
  }
  for (int i : on)
    if (std::find(s->last.begin(), s->last.end(), i) == s->last.end())
      s->last.push_back(i);
}

void forget_captures() {
  while (!captures.empty()) end(captures.back());
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream,
                                   enum cudaStreamCaptureMode mode) {
  inside call;
  if (cudaError_t e = working()) return said(e);
  if (!stream) return said(cudaErrorStreamCaptureUnsupported);
  if (stream->recording) return said(refuse_capture(stream));
  if (fails("begin")) return said(cudaErrorStreamCaptureUnsupported);
  capture_ref c(new capture{ {}, stream, mode, false });
  captures.push_back(c);
  join(stream, c, {});
  return said(cudaSuccess);
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
  inside call;
  *graph = NULL;
  if (!stream || !stream->recording || stream->recording->origin != stream)
    return said(cudaErrorInvalidValue);
  capture_ref c = stream->recording;
  bool joined = is_joined(*c);
  end(c);
  if (cudaError_t e = working()) return said(e);
  if (c->invalid || fails("end"))
    return said(cudaErrorStreamCaptureInvalidated);
  if (!joined) return said(cudaErrorStreamCaptureUnjoined);
  count("cudaStreamEndCapture");
  *graph = new CUgraph_st{ std::move(c->nodes) };
  return said(cudaSuccess);
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream,
                                  enum cudaStreamCaptureStatus *status) {
  inside call;
  const capture_ref c = stream ? stream->recording : NULL;
  *status = !c           ? cudaStreamCaptureStatusNone
            : c->invalid ? cudaStreamCaptureStatusInvalidated
                         : cudaStreamCaptureStatusActive;
  return said(cudaSuccess);
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph,
                                 unsigned long long flags) {
  inside call;
  *exec = NULL;
  if (cudaError_t e = working()) return said(e);
  if (!graph) return said(cudaErrorInvalidValue);
  if (fails("instantiate")) return said(cudaErrorMemoryAllocation);
  count("cudaGraphInstantiate");
  *exec =
      new CUgraphExec_st{ std::make_shared<std::vector<node>>(graph->nodes) };
  return said(cudaSuccess);
}
cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream) {
  inside call;
  return said(exec ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  inside call;
  if (cudaError_t e = working()) return said(e);
  if (!exec) return said(cudaErrorInvalidValue);
  count("cudaGraphLaunch");
  auto nodes = exec->nodes;
  return said(give(
      stream, { "graph", false, [nodes] { replay(*nodes); }, NULL, NULL }));
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  inside call;
  delete graph;
  return said(cudaSuccess);
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  inside call;
  delete exec;
  return said(cudaSuccess);
}
