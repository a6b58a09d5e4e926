// emulate_nvrtc.cc -- generated kernels compiled by the system's C++ compiler
//
// As kernels/cuda/chain_nvrtc.c: the same text, with a few words defined that CUDA
// has, becomes a shared object; a launch queued is a call of a loop over blocks
// and threads.  These kernels use no barrier, so threads run one by one.
//
// SPDX-License-Identifier: MIT
#include "jit/compile.h"
#include "runtime/cache.h"

#include <dlfcn.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

extern char **environ;

// What the compiler for CUDA knows without a header, and ours does not.
static const char before[] = R"(
#define __device__
#define __global__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(n)
#define __grid_constant__
#define FUNCTION(name) float name##f(float); double name(double);
extern "C" {
FUNCTION(exp) FUNCTION(log) FUNCTION(sqrt) FUNCTION(sin) FUNCTION(cos)
FUNCTION(tanh) FUNCTION(erf) FUNCTION(floor) FUNCTION(ceil) FUNCTION(rint)
FUNCTION(fabs) FUNCTION(trunc) FUNCTION(log1p) FUNCTION(expm1) FUNCTION(exp2)
FUNCTION(log2) FUNCTION(log10) FUNCTION(tan) FUNCTION(asin) FUNCTION(acos)
FUNCTION(atan) FUNCTION(sinh) FUNCTION(cosh) FUNCTION(asinh) FUNCTION(acosh)
FUNCTION(atanh) FUNCTION(erfc) FUNCTION(lgamma)
#define FUNCTION2(name)                                                        \
  float name##f(float, float); double name(double, double);
FUNCTION2(pow) FUNCTION2(fmod) FUNCTION2(atan2) FUNCTION2(hypot)
FUNCTION2(copysign) FUNCTION2(nextafter)
}
struct places { unsigned x; };
static thread_local places threadIdx, blockIdx, blockDim, gridDim;
static inline unsigned __umulhi(unsigned a, unsigned b) {
  return (unsigned)((unsigned long long)a * b >> 32);
}
)";
static const char after[] = R"(
extern "C" void mrt_jit_emulated(const void *args, unsigned blocks,
                                   unsigned threads) {
  gridDim.x = blocks, blockDim.x = threads;
  for (blockIdx.x = 0; blockIdx.x < blocks; blockIdx.x++)
    for (threadIdx.x = 0; threadIdx.x < threads; threadIdx.x++)
      mrt_jit(*(const mrt_jit_args *)args);
}
)";
// Compiling takes longer than running.
static const char *const options[] = {
  "-shared",
  "-fPIC",
  "-O0",
  "-std=c++17",
  "-ffp-contract=off",
  "-fno-math-errno",
  "-w",
#ifdef __SANITIZE_ADDRESS__
  "-fsanitize=address",
  "-g",
#else
  "-nostdlib",
#endif
};

typedef void emulated(const void *args, unsigned blocks, unsigned threads);

bool mrt_jit_target(char target[MRT_JIT_TARGET], char *why) {
  uint64_t hash = mrt_cuda_cache_hash(0, before, sizeof before);
  hash = mrt_cuda_cache_hash(hash, after, sizeof after);
  for (const char *option : options)
    hash = mrt_cuda_cache_hash(hash, option, strlen(option));
  snprintf(target, MRT_JIT_TARGET, "emulated %.20s %016llx", __VERSION__,
           (unsigned long long)hash);
  return true;
}

static std::string folder() {
  const char *given = getenv("TMPDIR");
  std::string name =
      std::string(given && *given ? given : "/tmp") + "/mrt_jit.XXXXXX";
  return mkdtemp(&name[0]) ? name : "";
}

static bool write_all(const std::string &path, const void *data, size_t size) {
  FILE *f = fopen(path.c_str(), "wb");
  if (!f) return false;
  bool good = fwrite(data, 1, size, f) == size;
  return fclose(f) == 0 && good;
}

static bool run_compiler(const std::string &from, const std::string &to) {
  const char *compiler = getenv("CXX");
  std::vector<std::string> words = { compiler && *compiler ? compiler : "c++" };
  words.insert(words.end(), std::begin(options), std::end(options));
  words.insert(words.end(), { from, "-lm", "-o", to });
  std::vector<char *> argv;
  for (std::string &word : words) argv.push_back(&word[0]);
  argv.push_back(nullptr);
  std::vector<char *> kept; // a sanitizer's library is not for the compiler
  for (char **e = environ; *e; e++)
    if (strncmp(*e, "LD_PRELOAD=", 11) != 0) kept.push_back(*e);
  kept.push_back(nullptr);
  pid_t pid;
  int status = 0;
  if (posix_spawnp(&pid, argv[0], nullptr, nullptr, argv.data(), kept.data()))
    return false;
  while (waitpid(pid, &status, 0) < 0)
    if (errno != EINTR) return false;
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void *read_all(const std::string &path, size_t *size) {
  FILE *f = fopen(path.c_str(), "rb");
  if (!f) return nullptr;
  std::vector<char> data;
  char piece[4096];
  for (size_t n; (n = fread(piece, 1, sizeof piece, f)) > 0;)
    data.insert(data.end(), piece, piece + n);
  fclose(f);
  void *copy = malloc(data.size() + 1);
  if (copy) memcpy(copy, data.data(), *size = data.size());
  return copy;
}

void *mrt_jit_compile(const char *text, const char *target, size_t *size,
                      char *why) {
  std::string all = std::string(before) + mrt_pointwise_text + text + after;
  std::string in = folder(), from = in + "/chain.cc", to = in + "/chain.so";
  void *code = nullptr;
  if (!in.empty() && write_all(from, all.data(), all.size()) &&
      run_compiler(from, to))
    code = read_all(to, size);
  if (!code)
    snprintf(why, MRT_JIT_WHY, "c++ cannot compile a generated kernel in '%s'",
             in.c_str());
  unlink(from.c_str());
  unlink(to.c_str());
  rmdir(in.c_str());
  return code;
}

static void *load(const char *path, char *why) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  void *function = library ? dlsym(library, "mrt_jit_emulated") : nullptr;
  if (!function) snprintf(why, MRT_JIT_WHY, "%.400s", dlerror());
  if (library && !function) dlclose(library);
  return function;
}

void *mrt_jit_load(const void *code, size_t size, const char *path, char *why) {
  if (path) return load(path, why);
  std::string in = folder(), name = in + "/chain.so";
  void *function = nullptr;
  if (!in.empty() && write_all(name, code, size))
    function = load(name.c_str(), why);
  else
    snprintf(why, MRT_JIT_WHY, "no folder for a generated kernel");
  unlink(name.c_str());
  rmdir(in.c_str());
  return function;
}

#ifdef MRT_EMULATE_ALONE // at once: a test of kernels, not of streams
bool mrt_jit_launch(void *function, int64_t blocks, const int64_t *args,
                    int count, void *queue, char *why) {
  ((emulated *)function)(args, (unsigned)blocks, MRT_JIT_THREADS);
  return true;
}
#else
#include "emulate_inside.h"

bool mrt_jit_launch(void *function, int64_t blocks, const int64_t *args,
                    int count, void *queue, char *why) {
  inside call;
  std::vector<int64_t> copy(args, args + count);
  work w = {};
  w.name = MRT_JIT_NAME;
  w.run = [=] {
    if (!may_run(MRT_JIT_NAME)) return;
    ((emulated *)function)(copy.data(), (unsigned)blocks, MRT_JIT_THREADS);
  };
  cudaError_t e = working();
  if (e == cudaSuccess) e = give((cudaStream_t)queue, std::move(w));
  if (e == cudaSuccess) return true;
  snprintf(why, MRT_JIT_WHY, "a pointwise kernel cannot be launched: %s",
           cudaGetErrorString(said(e)));
  return false;
}
#endif

// Few, so that threads have more than one turn.
int64_t mrt_jit_blocks(void) { return 3; }
