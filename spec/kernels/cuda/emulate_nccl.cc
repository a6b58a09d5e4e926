/* emulate_nccl.cc -- a small NCCL for processes of one host
 *
 * As the library does: to start, and the first collective, wait for the others in
 * the call, a collective begins in its turn in the stream and waits there for the other ranks, for ever, whether they live
 * or ask for something else, until the communicator is aborted.  So it does
 * where recorded ones meet that were not recorded together.  Memory is shared; the reduction is that of the host's ranks.
 *
 * SPDX-License-Identifier: MIT */
#include "emulate_inside.h"
#include "nccl.h"
#include <algorithm>
#include <atomic>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

extern "C" {
#include "reduce.h"
}

namespace {

enum { MOST = 8 };
const size_t ROOM = (size_t)1 << 26; /* bytes of one operand at most */

struct rank {
  std::atomic<uint64_t> step, asked, recorded;
  std::atomic<uint64_t> sent[MOST], taken[MOST]; /* to; from */
};
struct shared {
  std::atomic<int> come, connected;
  rank ranks[MOST];
};

/* The operands of all ranks, then one for each pair. */
size_t bytes_of(int size) {
  return sizeof(shared) + ROOM * (size_t)(size * size + size);
}

int depth; /* groups that are open */

/* Communicators that are being destroyed: none may be when the library goes. */
struct ending {
  static std::atomic<int> count;
  ending() { count++; }
  ~ending() { count--; }
};
std::atomic<int> ending::count;
struct last_look {
  ~last_look() {
    if (ending::count)
      fprintf(stderr, "emulated NCCL: is ending while CUDA goes\n");
  }
} at_the_end;

} // namespace

struct ncclComm {
  int rank, size;
  std::string name;
  shared *all;
  std::atomic<bool> aborted;
  bool connected;
  uint64_t step;
  uint64_t recorded;         /* collectives so far */
  int enrolled;              /* blocks */
  int joined, grouped, told; /* collectives, in groups; blocks ever enrolled */
  std::vector<cudaStream_t> streams;

  char *operand(int r) const {
    return (char *)all + sizeof(shared) + ROOM * (size_t)r;
  }
  char *pair(int from, int to) const {
    return operand(size + from * size + to);
  }
  /* False: aborted. */
  template <typename F> bool wait(F done) const {
    while (!done()) {
      if (aborted) return false;
      usleep(50);
    }
    return true;
  }
  bool meet() {
    uint64_t want = ++step;
    all->ranks[rank].step = want;
    return wait([&] {
      for (int r = 0; r < size; r++)
        if (all->ranks[r].step < want) return false;
      return true;
    });
  }
  /* Meet; with those who ask for something else, for ever. */
  bool agree(uint64_t asked, uint64_t recorded) {
    all->ranks[rank].asked = asked;
    all->ranks[rank].recorded = recorded;
    if (!meet()) return false;
    for (int r = 0; r < size; r++) {
      uint64_t other = all->ranks[r].recorded;
      if (all->ranks[r].asked != asked ||
          (recorded && other && other != recorded))
        return wait([] { return false; });
    }
    return true;
  }
  ncclResult_t called(cudaStream_t stream) {
    joined++, grouped += depth > 0;
    if (std::find(streams.begin(), streams.end(), stream) == streams.end())
      streams.push_back(stream);
    if (aborted) return ncclInvalidUsage;
    if (depth || connected) return ncclSuccess;
    connected = true;
    all->connected++;
    return wait([&] { return all->connected >= size; }) ? ncclSuccess
                                                        : ncclRemoteError;
  }
};

namespace {

struct call {
  enum { REDUCE, SCATTER, GATHER, BROADCAST } kind;
  const void *from;
  void *to;
  size_t in, out, count; /* bytes, bytes, elements of the whole */
  mrt_dtype dtype;
  mrt_reduction op;
  int root;
  uint64_t recorded; /* as the n-th of its communicator; 0: not */

  uint64_t number() const {
    return (uint64_t)kind | (uint64_t)dtype << 8 | (uint64_t)op << 16 |
           (uint64_t)root << 24 | (uint64_t)count << 32;
  }
};

void reduce(const ncclComm *c, const call &a) {
  const void *from[MOST];
  bool scatter = a.kind == call::SCATTER;
  for (int r = 0; r < c->size; r++)
    from[r] = c->operand(r) + (scatter ? (size_t)c->rank * a.out : 0);
  void *to = a.to;
  mrt_reduce(a.op, a.dtype, from, c->size, &to, 1,
             (int64_t)(scatter ? a.count / (size_t)c->size : a.count));
}

void compute(ncclComm *c, const call &a) {
  if (a.in) memcpy(c->operand(c->rank), a.from, a.in);
  if (!c->agree(a.number(), a.recorded)) return;
  if (a.kind == call::REDUCE || a.kind == call::SCATTER) reduce(c, a);
  if (a.kind == call::BROADCAST) memcpy(a.to, c->operand(a.root), a.out);
  if (a.kind == call::GATHER)
    for (int r = 0; r < c->size; r++)
      memcpy((char *)a.to + (size_t)r * a.in, c->operand(r), a.in);
  c->meet();
}

ncclResult_t queue(ncclComm_t c, cudaStream_t stream, const char *name,
                   call a) {
  if (a.in > ROOM) return ncclInvalidArgument;
  a.recorded = is_capturing(stream_or_default(stream)) ? ++c->recorded : 0;
  mrt_emulate_work(stream, name, [c, a] { compute(c, a); });
  return c->called(stream);
}

/* A send, or a receive. */
struct part {
  ncclComm_t c;
  bool sends;
  const void *from;
  void *to;
  size_t bytes;
  int peer;

  void give() const {
    memcpy(c->pair(c->rank, peer), from, bytes);
    c->all->ranks[c->rank].sent[peer]++;
  }
  void take() const {
    std::atomic<uint64_t> &sent = c->all->ranks[peer].sent[c->rank],
                          &taken = c->all->ranks[c->rank].taken[peer];
    if (!c->wait([&] { return sent > taken; })) return;
    memcpy(to, c->pair(peer, c->rank), bytes);
    taken++;
  }
  void end() const {
    std::atomic<uint64_t> &sent = c->all->ranks[c->rank].sent[peer],
                          &taken = c->all->ranks[peer].taken[c->rank];
    c->wait([&] { return taken == sent; });
  }
};

std::vector<part> gives, takes; /* of the group that is open */
cudaStream_t grouped_in;

/* At once: a send does not wait before what comes meanwhile is taken. */
void exchange(const std::vector<part> &out, const std::vector<part> &in) {
  for (size_t i = 0; i < out.size() || i < in.size(); i++) {
    if (i < out.size()) out[i].give();
    if (i < in.size()) in[i].take();
    if (i < out.size()) out[i].end();
  }
}

void exchange_grouped() {
  if (gives.empty() && takes.empty()) return;
  std::vector<part> out = std::move(gives), in = std::move(takes);
  gives.clear(), takes.clear();
  mrt_emulate_work(grouped_in, "nccl_send_recv", [=] { exchange(out, in); });
}

ncclResult_t queue_part(cudaStream_t stream, const part &a) {
  (a.sends ? gives : takes).push_back(a);
  grouped_in = stream;
  if (!depth) exchange_grouped();
  return a.c->called(stream);
}

mrt_dtype dtype_of(ncclDataType_t type) {
  switch (type) {
  case ncclInt32:
    return MRT_i32;
  case ncclInt64:
    return MRT_i64;
  case ncclFloat16:
    return MRT_f16;
  case ncclFloat32:
    return MRT_f32;
  case ncclFloat64:
    return MRT_f64;
  case ncclBfloat16:
    return MRT_bf16;
  default:
    return MRT_u8;
  }
}
mrt_reduction reduction_of(ncclRedOp_t op) {
  static const mrt_reduction all[] = { MRT_REDUCE_SUM, MRT_REDUCE_PROD,
                                       MRT_REDUCE_MAX, MRT_REDUCE_MIN,
                                       MRT_REDUCE_MEAN };
  return all[op];
}

} // namespace

/* ---- communicators ------------------------------------------------------- */

ncclResult_t ncclGetVersion(int *version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
  static int count;
  memset(id, 0, sizeof *id);
  snprintf(id->internal, sizeof id->internal, "/mrt-nccl-%ld-%d",
           (long)getpid(), count++);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int size, ncclUniqueId id,
                                    int rank, ncclConfig_t *config) {
  *comm = NULL;
  if (size > MOST || !config->blocking || config->magic != 0xcafebeef)
    return ncclInvalidArgument;
  int fd = shm_open(id.internal, O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ftruncate(fd, (off_t)bytes_of(size))) return ncclSystemError;
  void *at = mmap(NULL, bytes_of(size), PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_NORESERVE, fd, 0);
  close(fd);
  if (at == MAP_FAILED) return ncclSystemError;
  const char *order = getenv("NCCL_LAUNCH_ORDER_IMPLICIT"),
             *mixing = getenv("NCCL_GRAPH_MIXING_SUPPORT");
  if (getenv("MRT_EMULATE_TELL") && rank == 0)
    fprintf(stderr, "emulated NCCL: implicit order %s, mixing %s\n",
            order ? order : "-", mixing ? mixing : "-");
  *comm = new ncclComm();
  (*comm)->rank = rank, (*comm)->size = size, (*comm)->name = id.internal;
  (*comm)->all = (shared *)at;
  (*comm)->all->come++;
  (*comm)->wait([&] { return (*comm)->all->come >= size; });
  shm_unlink(id.internal);
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t c, ncclResult_t *code) {
  (void)c;
  *code = ncclSuccess;
  return ncclSuccess;
}

/* What is queued may still look at it. */
ncclResult_t ncclCommAbort(ncclComm_t c) {
  c->aborted = true;
  shm_unlink(c->name.c_str());
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t c) {
  const char *seconds = getenv("MRT_EMULATE_DESTROY");
  ending under_way;
  if (seconds) usleep((useconds_t)(1e6 * strtod(seconds, NULL)));
  if (getenv("MRT_EMULATE_TELL"))
    fprintf(
        stderr,
        "emulated NCCL: %d calls, %d in groups, in %zu streams, %d blocks\n",
        c->joined, c->grouped, c->streams.size(), c->told);
  if (c->enrolled)
    fprintf(stderr, "emulated NCCL: %d blocks are still registered\n",
            c->enrolled);
  munmap(c->all, bytes_of(c->size));
  delete c;
  return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t code) {
  return code == ncclRemoteError ? "remote process exited or there was a "
                                   "network error"
                                 : "unhandled error";
}
const char *ncclGetLastError(ncclComm_t) { return ""; }

ncclResult_t ncclGroupStart(void) {
  depth++;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd(void) {
  if (depth < 1) return ncclInvalidUsage;
  if (--depth == 0) exchange_grouped();
  return ncclSuccess;
}

ncclResult_t ncclCommRegister(ncclComm_t c, void *data, size_t nbytes,
                              void **handle) {
  c->enrolled++, c->told++;
  *handle = data;
  return nbytes ? ncclSuccess : ncclInvalidArgument;
}
ncclResult_t ncclCommDeregister(ncclComm_t c, void *) {
  c->enrolled--;
  return ncclSuccess;
}

/* ---- collectives --------------------------------------------------------- */

ncclResult_t ncclAllReduce(const void *from, void *to, size_t count,
                           ncclDataType_t type, ncclRedOp_t op, ncclComm_t c,
                           cudaStream_t stream) {
  mrt_dtype d = dtype_of(type);
  size_t bytes = count * mrt_collective_dtype_bytes(d);
  return queue(c, stream, "nccl_allreduce",
               { call::REDUCE, from, to, bytes, bytes, count, d,
                 reduction_of(op), 0, 0 });
}

ncclResult_t ncclReduceScatter(const void *from, void *to, size_t count,
                               ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t c, cudaStream_t stream) {
  mrt_dtype d = dtype_of(type);
  size_t bytes = count * mrt_collective_dtype_bytes(d), size = (size_t)c->size;
  return queue(c, stream, "nccl_reduce_scatter",
               { call::SCATTER, from, to, bytes * size, bytes, count * size, d,
                 reduction_of(op), 0, 0 });
}

ncclResult_t ncclAllGather(const void *from, void *to, size_t count,
                           ncclDataType_t type, ncclComm_t c,
                           cudaStream_t stream) {
  mrt_dtype d = dtype_of(type);
  size_t bytes = count * mrt_collective_dtype_bytes(d);
  return queue(c, stream, "nccl_allgather",
               { call::GATHER, from, to, bytes, bytes * (size_t)c->size, count,
                 d, MRT_REDUCE_SUM, 0, 0 });
}

ncclResult_t ncclBroadcast(const void *from, void *to, size_t count,
                           ncclDataType_t type, int root, ncclComm_t c,
                           cudaStream_t stream) {
  mrt_dtype d = dtype_of(type);
  size_t bytes = count * mrt_collective_dtype_bytes(d);
  return queue(c, stream, "nccl_broadcast",
               { call::BROADCAST, from, to, c->rank == root ? bytes : 0, bytes,
                 count, d, MRT_REDUCE_SUM, root, 0 });
}

ncclResult_t ncclSend(const void *from, size_t count, ncclDataType_t type,
                      int peer, ncclComm_t c, cudaStream_t stream) {
  size_t bytes = count * mrt_collective_dtype_bytes(dtype_of(type));
  return queue_part(stream, { c, true, from, NULL, bytes, peer });
}

ncclResult_t ncclRecv(void *to, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t c, cudaStream_t stream) {
  size_t bytes = count * mrt_collective_dtype_bytes(dtype_of(type));
  return queue_part(stream, { c, false, NULL, to, bytes, peer });
}
