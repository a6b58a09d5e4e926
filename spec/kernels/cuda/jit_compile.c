/* jit_compile.c -- NVRTC takes the source of every pointwise operator
 *
 *     jit_compile [TARGET ...]   compute_90, to PTX; sm_90 takes twice as long
 *
 * Many kernels make one program, in every dtype and in every layout.  Needs
 * libnvrtc but no GPU; exits with 77 where there is none.
 *
 * SPDX-License-Identifier: MIT */
#include "jit/compile.h"
#include "jit/source.h"
#include "jit_cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ELEMENTS = 48 };

typedef struct sources {
  char *text;
  size_t used;
  int kernels;
} sources;

static void add(sources *all, const mrt_call *call, int op) {
  char name[32];
  mrt_jit_text s;
  snprintf(name, sizeof name, "k%d", all->kernels++);
  if (!mrt_jit_text_write(call, op, name, &s)) {
    fprintf(stderr, "%s cannot be written\n", mrt_ops[op]->name);
    exit(1);
  }
  size_t n = strlen(s.text);
  all->text = realloc(all->text, all->used + n + 1);
  if (!all->text) exit(1);
  memcpy(all->text + all->used, s.text, n + 1);
  all->used += n;
  mrt_jit_text_free(&s);
}

/* x + y in each pair of layouts: dense, one for all, and strided over [4, 12],
 * with rows of vectors, rows of one element, columns; and of an odd row. */
static void add_layouts(sources *all, mrt_dtype d, int64_t row) {
  const int64_t strides[][2] = { { row, 1 }, { 0, 0 },        { 2 * row, 1 },
                                 { 0, 1 },   { 1, 0 },        { 1, 4 },
                                 { 64, 2 },  { 1LL << 33, 1 } };
  enum { KINDS = sizeof strides / sizeof strides[0] };
  for (int i = 0; i < KINDS; i++)
    for (int k = 0; k < KINDS; k++) {
      mrt_type t = { d, 2, { 4, row } };
      mrt_operand in[2] = { { .type = t }, { .type = t } };
      mrt_operand out = { .type = t, .strides = { row, 1 } };
      memcpy(in[0].strides, strides[i], sizeof strides[i]);
      memcpy(in[1].strides, strides[k], sizeof strides[k]);
      mrt_call c = { .nin = 2, .nout = 1, .in = in, .out = &out };
      add(all, &c, MRT_OP_add);
    }
}

static bool compile(const sources *all, const char *target) {
  char why[MRT_JIT_WHY] = "";
  size_t size = 0;
  void *code = mrt_jit_compile(all->text, target, &size, why);
  if (!code && strstr(why, "cannot be opened")) {
    printf("skipped: %s\n", why);
    exit(77);
  }
  printf("%s: %d kernels, %zu bytes of source, %zu of code%s%s\n", target,
         all->kernels, all->used, size, code ? "" : ": ", code ? "" : why);
  free(code);
  return code != NULL;
}

int main(int argc, char **argv) {
  static jit_case cases[CASES_MOST];
  static chain_program p;
  sources all = { NULL };
  int count = jit_cases(ELEMENTS, cases);
  for (int from = 0; from < count;) {
    chain_program_of(cases, count, &from, ELEMENTS, &p);
    add(&all, &p.call, MRT_OP_fused);
  }
  add_layouts(&all, MRT_f32, 12);
  add_layouts(&all, MRT_f32, 13);
  add_layouts(&all, MRT_u8, 32);
  bool good = compile(&all, argc > 1 ? argv[1] : "sm_90");
  for (int i = 2; i < argc; i++) good &= compile(&all, argv[i]);
  free(all.text);
  return good ? 0 : 1;
}
