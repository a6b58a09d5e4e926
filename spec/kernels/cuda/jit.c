/* jit.c -- generated kernels against the CPU's
 *
 *     jit               in the emulator; XDG_CACHE_HOME keeps its code
 *
 *   rows     every pointwise operator in every dtype its row takes, on special
 *            and random numbers: the same bits where IEEE 754 says which, near
 *            within the dtype's tolerance where it does not
 *   alone    an operator alone has the bits it has in a program
 *   layouts  dense, same, strided, misaligned; sizes 0, 1, odd; in place
 *   far      more than 31 bits of index
 *   parts    a part of a batch draws what the whole batch draws there
 *   kept     what lies on disk cut or changed is not there; the first writer's
 *            stays; what is too much goes, used longest ago first
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "base/dtype.h"
#include "base/memory.h"
#include "device/device.h"
#include "jit/compile.h"
#include "jit_cases.h"
#include "runtime/cache.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { ELEMENTS = 1003, GUARD = 64 };

static mrt_device cpu;
static int failures, checks;

static void complain(const char *what, const char *name) {
  if (failures++ < 20) fprintf(stderr, "%s: %s\n", what, name);
}

/* ---- rows ---------------------------------------------------------------- */

static mrt_dtype real_of(const mrt_fused_code *code, const mrt_call *call) {
  bool wide = code->out_dtype == MRT_f64;
  for (int i = 0; i < code->nin; i++)
    wide |= call->in[code->in[i]].type.dtype == MRT_f64;
  return wide ? MRT_f64 : MRT_f32;
}

static void compare(const chain_program *p, int k, mrt_run *run, int64_t n) {
  const mrt_fused_code *code = &p->code[k];
  const mrt_call *call = &p->call;
  void *want = calloc((size_t)n + 1, 8);
  mrt_block b = { .n = n,
                  .out = want,
                  .in_dtype = code->in_dtype,
                  .out_dtype = code->out_dtype,
                  .options = code->options,
                  .run = run };
  for (int i = 0; i < code->nin; i++) b.in[i] = call->in[i].data;
  cpu.kernel(&cpu, code->op, real_of(code, call))->block(&b);
  for (int64_t i = 0; i < n; i++) {
    checks++;
    if (chain_same(code->out_dtype, call->out[k].data, want, i,
                   chain_exact(code->op)))
      continue;
    char text[200];
    snprintf(text, sizeof text,
             "%s %s -> %s, element %lld of %.9g %.9g: %.17g, "
             "%.17g wanted",
             mrt_ops[code->op]->name, mrt_dtype_name(code->in_dtype),
             mrt_dtype_name(code->out_dtype), (long long)i,
             code->nin ? mrt_number_at(call->in[0].type.dtype, b.in[0], i) : 0,
             code->nin > 1 ? mrt_number_at(call->in[1].type.dtype, b.in[1], i)
                           : 0,
             mrt_number_at(code->out_dtype, call->out[k].data, i),
             mrt_number_at(code->out_dtype, want, i));
    complain("rows", text);
    break;
  }
  free(want);
}

static bool launch(mrt_call *call, int op) {
  mrt_jit *c = mrt_jit_prepare(call, op);
  char why[MRT_JIT_WHY];
  if (mrt_jit_failed(why)) complain("prepare", why);
  mrt_jit_run(c, call);
  mrt_jit_release(c);
  return c != NULL;
}

/* The words that a run of these numbers has on its device. */
static void set_run(mrt_run *run, mrt_run_words *words) {
  words->seed = run->seed, words->step = run->step;
  words->row = run->row, words->rows = run->rows;
  words->all_rows = run->all_rows;
  words->rank = run->rank, words->ranks = run->ranks;
  words->first_row = run->first_row;
  run->words = words;
}

static void rows(const jit_case *cases, int count) {
  static chain_program p, alone;
  mrt_run run = { .seed = 12345, .step = 7 };
  mrt_run_words words;
  set_run(&run, &words);
  for (int from = 0; from < count;) {
    chain_program_of(cases, count, &from, ELEMENTS, &p);
    p.call.run = &run;
    for (int i = 0; i < p.call.nin; i++)
      p.in[i].data = jit_values(p.in[i].type.dtype, ELEMENTS, i);
    for (int i = 0; i < p.call.nout; i++) p.out[i].data = calloc(ELEMENTS, 8);
    if (launch(&p.call, MRT_OP_fused))
      for (int k = 0; k < p.call.nout; k++) compare(&p, k, &run, ELEMENTS);
    /* one of them alone */
    int k = from % p.call.nout;
    chain_single(&cases[from - p.call.nout + k], ELEMENTS, &alone);
    alone.call.run = &run, alone.call.in = p.in;
    alone.out[0].data = calloc(ELEMENTS, 8);
    launch(&alone.call, p.code[k].op);
    if (memcmp(alone.out[0].data, p.out[k].data,
               ELEMENTS * mrt_dtypes[p.code[k].out_dtype].bytes))
      complain("alone", mrt_ops[p.code[k].op]->name);
    free(alone.out[0].data);
    for (int i = 0; i < p.call.nin; i++) free(p.in[i].data);
    for (int i = 0; i < p.call.nout; i++) free(p.out[i].data);
  }
}

/* ---- layouts ------------------------------------------------------------- */

static int64_t place_of(const mrt_operand *x, int64_t i) {
  int64_t at = 0;
  for (int d = x->type.rank - 1; d >= 0; d--) {
    at += i % x->type.dims[d] * x->strides[d];
    i /= x->type.dims[d];
  }
  return at;
}

/* x * y + x rounded twice, x and y anyhow in memory. */
static void check_layout(const mrt_operand *x, const mrt_operand *y, float *out,
                         const char *name) {
  const mrt_type t = x->type;
  const mrt_fused_code code[2] = {
    { MRT_OP_mul, 2, 2, { 0, 1 }, MRT_f32, MRT_f32, NULL },
    { MRT_OP_add, 3, 2, { 2, 0 }, MRT_f32, MRT_f32, NULL },
  };
  const int out_register = 3;
  mrt_fused_options o = { 2, 4, code, &out_register, &t };
  int64_t n = mrt_type_count(&t);
  float *want = calloc((size_t)n + 1, sizeof *want);
  for (int64_t i = 0; i < n; i++) {
    float a = ((float *)x->data)[place_of(x, i)];
    float b = ((float *)y->data)[place_of(y, i)];
    float product = a * b;
    want[i] = product + a;
  }
  mrt_run run = { 0 };
  mrt_run_words words;
  set_run(&run, &words);
  mrt_operand in[2] = { *x, *y }, z = { .data = out, .type = t };
  mrt_type_strides(&t, z.strides);
  mrt_call c = {
    .options = &o, .nin = 2, .nout = 1, .in = in, .out = &z, .run = &run
  };
  memset(out + n, 0x5a, GUARD * sizeof *out);
  launch(&c, MRT_OP_fused);
  checks++;
  if (memcmp(out, want, (size_t)n * sizeof *out)) complain("layouts", name);
  for (int i = 0; i < (int)(GUARD * sizeof *out); i++)
    if (((char *)(out + n))[i] != 0x5a) {
      complain("guard", name);
      break;
    }
  free(want);
}

/* A layout of dims a, b, c over `data`; 7 is one for all. */
static mrt_operand layout(int kind, const int64_t *d, float *data) {
  const int64_t strides[8][3] = {
    { d[1] * d[2], d[2], 1 },
    { d[1] * d[2] + 1, d[2], 1 },
    { 0, d[2], 1 },
    { d[2], 0, 1 },
    { d[1], 1, 0 },
    { 1, d[0], d[0] * d[1] },
    { 2 * d[1] * d[2], 2 * d[2], 2 },
    { 0, 0, 0 },
  };
  mrt_operand x = { .data = data,
                    .type = { MRT_f32, 3, { d[0], d[1], d[2] } } };
  memcpy(x.strides, strides[kind], sizeof strides[kind]);
  return x;
}

static void layouts(void) {
  const int64_t dims[][3] = {
    { 4, 6, 8 }, { 3, 5, 7 },   { 2, 9, 6 },  { 1, 1, 1 },
    { 3, 0, 4 }, { 1, 300, 4 }, { 5, 1, 12 },
  };
  float *a = jit_values(MRT_f32, 8192, 0), *b = jit_values(MRT_f32, 8192, 1);
  float *out = calloc(8192, sizeof *out);
  for (int s = 0; s < MRT_COUNT(dims); s++)
    for (int i = 0; i < 8; i++)
      for (int k = s == 0 ? 0 : i; k < (s == 0 ? 8 : i + 1); k++)
        for (int shift = 0; shift < 2; shift++) {
          char name[64];
          snprintf(name, sizeof name, "shape %d, %d and %d, at %d", s, i, k,
                   shift);
          mrt_operand x = layout(i, dims[s], a + shift);
          mrt_operand y = layout(k, dims[s], b);
          check_layout(&x, &y, out, name);
          check_layout(&x, &y, out + shift, name);
        }
  for (int64_t n = 0; n < 70; n++) { /* ends of vectors; in place */
    mrt_operand x = { .data = out,
                      .type = { MRT_f32, 1, { n } },
                      .strides = { 1 } },
                y = x;
    y.data = b;
    memcpy(out, a, 80 * sizeof *out);
    check_layout(&x, &y, out, "in place");
  }
  free(a), free(b), free(out);
}

/* Rows so far apart that indices take 64 bits; untouched pages cost nothing. */
static void far(void) {
  const int64_t apart = (INT64_C(1) << 30) + 8;
  size_t bytes = (size_t)(apart + 64) * sizeof(float);
  float *data = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  float *b = jit_values(MRT_f32, 128, 1), *out = calloc(256, sizeof *out);
  if (data == MAP_FAILED) {
    printf("far: not enough addresses\n");
  } else {
    for (int64_t i = 0; i < 70; i++)
      chain_put(MRT_f32, (i < 35 ? data : data + apart - 35), i, 0);
    for (int64_t row = 6; row < 8; row++) {
      mrt_operand x = { .data = data,
                        .type = { MRT_f32, 3, { 2, 4, row } },
                        .strides = { apart, row, 1 } },
                  y = x;
      y.data = b, y.strides[0] = 4 * row;
      check_layout(&x, &y, out, "far apart");
    }
    munmap(data, bytes);
  }
  free(b), free(out);
}

/* ---- the rest ------------------------------------------------------------ */

static void parts(void) {
  enum { ROWS = 10, INNER = 7, PART = 3, OUTER = 2 };
  static chain_program p;
  jit_case c = { .op = MRT_OP_rand, .out = MRT_f32 };
  c.options.rand =
      (mrt_rand_options){ .key = 3, .inner = INNER, .dtype = MRT_f32 };
  float all[OUTER * ROWS * INNER], part[OUTER * PART * INNER];
  mrt_run run = {
    .seed = 5, .row = 0, .rows = ROWS, .all_rows = ROWS, .ranks = 1
  };
  mrt_run_words words;
  set_run(&run, &words);
  chain_single(&c, OUTER * ROWS * INNER, &p);
  p.out[0].data = all, p.call.run = &run;
  launch(&p.call, MRT_OP_rand);
  run.row = 4, run.rows = PART;
  set_run(&run, &words);
  chain_single(&c, OUTER * PART * INNER, &p);
  p.out[0].data = part, p.call.run = &run;
  launch(&p.call, MRT_OP_rand);
  for (int o = 0; o < OUTER; o++)
    if (memcmp(part + o * PART * INNER, all + (o * ROWS + 4) * INNER,
               PART * INNER * sizeof *all))
      complain("parts", "rand");
  checks++;
}

static bool path_of(const char *key, char *path) {
  mrt_cuda_cache_key name = mrt_cuda_cache_begin();
  mrt_cuda_cache_add(&name, key, strlen(key));
  return mrt_cuda_cache_path(&name, "code", path);
}

static bool is_there(const char *path) {
  size_t size;
  void *data = mrt_cuda_cache_read(path, &size);
  free(data);
  return data != NULL;
}

/* Written whole, the first one's stays, damage is noticed. */
static void kept_whole(void) {
  const char code[] = "some code", other[] = "another's";
  char path[MRT_CUDA_CACHE_PATH];
  size_t size = 0;
  bool good = path_of("key", path) && !mrt_cuda_cache_read(path, &size) &&
              mrt_cuda_cache_write(path, code, sizeof code) &&
              mrt_cuda_cache_write(path, other, sizeof other);
  char *read = good ? mrt_cuda_cache_read(path, &size) : NULL;
  if (!read || size != sizeof code || memcmp(read, code, size))
    complain("kept", "what was written first is not read");
  free(read);
  for (int damage = 0; damage < 3; damage++) {
    mrt_cuda_cache_write(path, code, sizeof code);
    FILE *f = fopen(path, damage == 0 ? "wb" : "r+b");
    if (f && damage == 1) fputc('S', f);
    if (f && damage == 2 && fseek(f, -1, SEEK_END) == 0) fputc('S', f);
    if (f) fclose(f);
    if (mrt_cuda_cache_read(path, &size))
      complain("kept", "a damaged file is read");
  }
  checks += 4;
  remove(path);
}

/* Of five files of 100 bytes and their ends, used in the order 1 3 4 0 2. */
static void kept_least(void) {
  static const int order[] = { 1, 3, 4, 0, 2 };
  char path[5][MRT_CUDA_CACHE_PATH], key[2] = "a", data[100] = { 0 };
  char other[MRT_CUDA_CACHE_PATH];
  for (int i = 0; i < 5; i++, key[0]++) {
    path_of(key, path[i]);
    mrt_cuda_cache_write(path[i], data, sizeof data);
  }
  snprintf(other, sizeof other, "%.*s/profile.lua",
           (int)(strrchr(path[0], '/') - path[0]), path[0]);
  FILE *f = fopen(other, "wb");
  if (f) fclose(f);
  for (int i = 0; i < 5; i++) {
    struct timespec pause = { 0, 20000000 }; /* a file's clock may be coarse */
    nanosleep(&pause, NULL);
    if (!is_there(path[order[i]])) complain("kept", "it is not there");
  }
  mrt_cuda_cache_trim(path[0], 4, 1 << 20);
  if (access(path[1], F_OK) == 0) complain("kept", "too many files");
  mrt_cuda_cache_trim(path[0], 4, 2 * 124);
  for (int i = 0; i < 5; i++)
    if ((access(path[order[i]], F_OK) == 0) != (i >= 3))
      complain("kept", "too many bytes, or what was used last is gone");
  mrt_cuda_cache_trim(path[0], 0, 0);
  if (access(other, F_OK) != 0) complain("kept", "what is not ours is gone");
  checks += 12;
  remove(other);
}

static void kept(void) {
  char folder[] = "/tmp/mrt_kept.XXXXXX", path[MRT_CUDA_CACHE_PATH];
  const char *before = getenv("XDG_CACHE_HOME");
  char *was = before ? strdup(before) : NULL;
  if (!mkdtemp(folder)) return;
  setenv("XDG_CACHE_HOME", folder, 1);
  kept_whole();
  kept_least();
  setenv("XDG_CACHE_HOME", "/dev/null/nowhere", 1);
  if (path_of("key", path)) complain("kept", "a folder that cannot be");
  checks++;
  if (was)
    setenv("XDG_CACHE_HOME", was, 1);
  else
    unsetenv("XDG_CACHE_HOME");
  free(was);
  char cache[64];
  snprintf(cache, sizeof cache, "%s/mrt", folder);
  remove(cache), remove(folder);
}

int main(void) {
  static jit_case cases[CASES_MOST];
  mrt_error e = { MRT_OK };
  if (mrt_cpu_open(NULL, 1, &mrt_malloc_allocator, &cpu, &e) != MRT_OK)
    return 1;
  kept();
  int count = jit_cases(ELEMENTS, cases);
  rows(cases, count);
  layouts();
  far();
  parts();
  printf("%d cases, %d checks, %d failures\n", count, checks, failures);
  return failures ? 1 : 0;
}
