/* convolutions.c -- conv2d, its dx and dw in exactly the scratch that they ask for
 *
 * Of bf16 in the model of tile registers (gemm/amx.h), under the address
 * sanitizer: scratch is allocated to the byte, and begins as NaN.  Values are
 * whole numbers, so that every sum is exact in any order; with other numbers the
 * bits are the same for any number of threads.
 *
 * SPDX-License-Identifier: MIT */
#include "base/narrow.h"
#include "conv/conv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CASES = 300, LOOKS = 20, MOST = 2000000 };
enum { Y, DX, DW };

extern const mrt_kernel MRT_CPU(conv2d), MRT_CPU(conv2d_dx), MRT_CPU(conv2d_dw);

static int64_t below(int64_t n) { return rand() % n; }

/* x, w, y, bias; each operator writes one of the first three. */
typedef struct sample {
  mrt_conv_options options;
  mrt_operand x, w, y, bias;
  bool biased;
} sample;

static int64_t count_of(const mrt_operand *a) {
  return mrt_type_count(&a->type);
}

static mrt_operand operand(mrt_dtype dtype, int rank, const int64_t *dims) {
  mrt_operand a = { .type = { .dtype = dtype, .rank = rank } };
  memcpy(a.type.dims, dims, (size_t)rank * sizeof *dims);
  a.data = calloc((size_t)count_of(&a), mrt_dtypes[dtype].bytes);
  if (!a.data) exit(1);
  return a;
}

/* Whole numbers from -most to most, or any where that is 0. */
static void fill(mrt_operand *a, int most) {
  for (int64_t i = 0; i < count_of(a); i++) {
    float x = most ? (float)(below(2 * most + 1) - most)
                   : (float)(below(2001) - 1000) / 700;
    if (a->type.dtype == MRT_f32)
      ((float *)a->data)[i] = x;
    else
      ((uint16_t *)a->data)[i] = float_to_bf16(x);
  }
}

static double value_at(const mrt_operand *a, int64_t i, int64_t j, int64_t k,
                       int64_t l) {
  const int64_t *d = a->type.dims;
  int64_t at = ((i * d[1] + j) * d[2] + k) * d[3] + l;
  return a->type.dtype == MRT_f32
             ? (double)((const float *)a->data)[at]
             : (double)bf16_to_float(((const uint16_t *)a->data)[at]);
}

/* ---- what is right --------------------------------------------------------- */

/* The place of x that row or column i of y reads with tap a; -1: padding. */
static int64_t read_at(const sample *s, int dim, int64_t i, int64_t a) {
  const mrt_conv_options *o = &s->options;
  int64_t at = i * o->stride.at[dim] + a * o->dilation.at[dim];
  at -= o->padding.at[dim];
  return at < s->x.type.dims[1 + dim] ? at : -1;
}

/* The sum over all (n, i, j, o, c, a, b) of x, w and y that belong together, of
 * those that have the element p of the result. */
static double wanted(const sample *s, int way, const int64_t p[4]) {
  const int64_t *y = s->y.type.dims, *w = s->w.type.dims;
  int64_t filters = w[0] / s->options.groups;
  double sum =
      way == Y && s->biased ? (double)((const float *)s->bias.data)[p[3]] : 0;
  int64_t n0 = way == DW ? 0 : p[0], n1 = way == DW ? y[0] : p[0] + 1;
  int64_t o0 = way == Y ? p[3] : way == DW ? p[0] : p[3] / w[1] * filters;
  int64_t o1 = way == DX ? o0 + filters : o0 + 1;
  for (int64_t n = n0; n < n1; n++)
    for (int64_t o = o0; o < o1; o++)
      for (int64_t i = way == Y ? p[1] : 0; i < (way == Y ? p[1] + 1 : y[1]);
           i++)
        for (int64_t j = way == Y ? p[2] : 0; j < (way == Y ? p[2] + 1 : y[2]);
             j++)
          for (int64_t a = 0; a < w[2]; a++)
            for (int64_t b = 0; b < w[3]; b++) {
              int64_t u = read_at(s, 0, i, a), v = read_at(s, 1, j, b);
              if (u < 0 || v < 0) continue;
              if (way == DX && (u != p[1] || v != p[2])) continue;
              if (way == DW && (a != p[2] || b != p[3])) continue;
              for (int64_t c = 0; c < w[1]; c++) {
                int64_t channel = o / filters * w[1] + c;
                if (way == DX && channel != p[3]) continue;
                if (way == DW && c != p[1]) continue;
                double x = way == DX ? 1 : value_at(&s->x, n, u, v, channel);
                double k = way == DW ? 1 : value_at(&s->w, o, c, a, b);
                sum += x * k * (way == Y ? 1 : value_at(&s->y, n, i, j, o));
              }
            }
  return sum;
}

/* ---- a case ---------------------------------------------------------------- */

static mrt_operand run(const sample *s, int way, mrt_dtype dtype, int threads) {
  const mrt_kernel *kernels[] = { &MRT_CPU(conv2d), &MRT_CPU(conv2d_dx),
                                  &MRT_CPU(conv2d_dw) };
  const mrt_operand *like = way == Y ? &s->y : way == DX ? &s->x : &s->w;
  mrt_operand in[3] = { way == DX ? s->y : s->x, way == DW ? s->y : s->w,
                        s->bias };
  mrt_operand out = operand(dtype, 4, like->type.dims);
  mrt_call call = { .options = &s->options,
                    .nin = way == Y && s->biased ? 3 : 2,
                    .nout = 1,
                    .in = in,
                    .out = &out,
                    .threads = threads,
                    .tiles = true };
  size_t bytes = kernels[way]->scratch(&call);
  if (posix_memalign(&call.scratch, 64, bytes ? bytes : 1)) exit(1);
  memset(call.scratch, 0xff, bytes);
  kernels[way]->run(&call);
  free(call.scratch);
  return out;
}

static int64_t differ(const sample *s, int way, const mrt_operand *out) {
  for (int look = 0; look < LOOKS; look++) {
    const int64_t *d = out->type.dims;
    int64_t p[4] = { below(d[0]), below(d[1]), below(d[2]), below(d[3]) };
    float right = (float)wanted(s, way, p);
    if (out->type.dtype == MRT_bf16)
      right = bf16_to_float(float_to_bf16(right));
    if ((float)value_at(out, p[0], p[1], p[2], p[3]) != right)
      return ((p[0] * d[1] + p[1]) * d[2] + p[2]) * d[3] + p[3];
  }
  return -1;
}

/* Few channels, or about the edges of registers and blocks. */
static int64_t channels(void) {
  return below(2) ? 1 + below(9) : 1 + below(3) * 32 + below(34);
}

static sample random_sample(void) {
  static const int images[] = { 1, 2, 3, 15, 16, 17, 31, 33, 40 };
  sample s = { .biased = below(2) };
  mrt_conv_options *o = &s.options;
  o->groups = below(4) ? 1 : 1 + below(3);
  o->compute = o->accumulate = MRT_DTYPE_COUNT;
  int64_t C = channels(), O = channels(), side[2], out[2], kernel[2];
  for (int i = 0; i < 2; i++) {
    o->stride.at[i] = 1 + below(3), o->dilation.at[i] = 1 + below(2);
    o->padding.at[i] = below(4), kernel[i] = 1 + below(5);
    int64_t reach = (kernel[i] - 1) * o->dilation.at[i] + 1;
    side[i] = most(1, reach - 2 * o->padding.at[i]) + below(12);
    out[i] = (side[i] + 2 * o->padding.at[i] - reach) / o->stride.at[i] + 1;
  }
  int64_t N = images[below(sizeof images / sizeof *images)];
  s.x = operand(MRT_bf16, 4, (int64_t[]){ N, side[0], side[1], C * o->groups });
  s.w = operand(MRT_bf16, 4,
                (int64_t[]){ O * o->groups, C, kernel[0], kernel[1] });
  s.y = operand(MRT_bf16, 4, (int64_t[]){ N, out[0], out[1], O * o->groups });
  s.bias = operand(MRT_f32, 1, (int64_t[]){ O * o->groups });
  return s;
}

static int one_case(const sample *s, int way, bool whole) {
  mrt_dtype dtype = below(2) ? MRT_bf16 : MRT_f32;
  mrt_operand out = run(s, way, dtype, 1 + (int)below(4));
  int64_t wrong = whole ? differ(s, way, &out) : -1;
  if (!whole) {
    mrt_operand other = run(s, way, dtype, 1 + (int)below(7));
    size_t bytes = (size_t)count_of(&out) * mrt_dtypes[dtype].bytes;
    if (memcmp(out.data, other.data, bytes)) wrong = 0;
    free(other.data);
  }
  free(out.data);
  if (wrong < 0) return 0;
  const int64_t *x = s->x.type.dims, *w = s->w.type.dims;
  printf("%s of %s at %d: x %d %d %d %d, w %d %d %d %d, stride %d %d\n",
         whole ? "wrong" : "other bits",
         (const char *[]){ "y", "dx", "dw" }[way], (int)wrong, (int)x[0],
         (int)x[1], (int)x[2], (int)x[3], (int)w[0], (int)w[1], (int)w[2],
         (int)w[3], (int)s->options.stride.at[0], (int)s->options.stride.at[1]);
  return 1;
}

int main(void) {
  int wrong = 0;
  if (!__builtin_cpu_supports("avx512vl")) return puts("no AVX-512"), 0;
  srand(7);
  for (int i = 0; i < CASES;) {
    sample s = random_sample();
    bool whole = below(3) > 0;
    const int64_t *w = s.w.type.dims;
    if (count_of(&s.y) * w[1] * w[2] * w[3] < MOST) {
      fill(&s.x, whole ? 3 : 0), fill(&s.w, whole ? 3 : 0);
      fill(&s.y, whole ? 3 : 0), fill(&s.bias, whole ? 3 : 0);
      for (int way = Y; way <= DW; way++) wrong += one_case(&s, way, whole);
      i++;
    }
    free(s.x.data), free(s.w.data), free(s.y.data), free(s.bias.data);
  }
  return wrong > 0;
}
