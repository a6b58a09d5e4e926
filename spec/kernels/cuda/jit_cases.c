/* jit_cases.c -- see jit_cases.h; the rows say what is legal
 *
 * SPDX-License-Identifier: MIT */
#include "jit_cases.h"

#include <string.h>

/* A few settings of every operator's options; false past the last. */
static bool set_options(jit_case *c, int which, int64_t n) {
  mrt_ints shape = { 1, { n } };
  mrt_dtype d = (mrt_dtype)(which % MRT_DTYPE_COUNT);
  int round = which / MRT_DTYPE_COUNT;
  switch (c->op) {
  case MRT_OP_cast:
    c->options.cast = d;
    return round == 0;
  case MRT_OP_gelu:
  case MRT_OP_gelu_grad:
    c->options.approximate = which;
    return which < 2;
  case MRT_OP_full:
    c->options.full = (mrt_full_options){ .value = round == 0   ? 3
                                                   : round == 1 ? -0.3
                                                                : 1e6,
                                          shape,
                                          d };
    return round < 3;
  case MRT_OP_arange:
    c->options.arange =
        (mrt_arange_options){ round ? 0.1 : 200,
                              round ? 0.1 + 0.3 * ((double)n - 0.5)
                                    : 200 - (double)n,
                              round ? 0.3 : -1, d };
    return round < 2;
  case MRT_OP_rand:
  case MRT_OP_randn:
    c->options.rand =
        (mrt_rand_options){ .key = 5 + (round ? MRT_DRAW_PINNED : 0),
                            .seed = 77,
                            .inner = 1,
                            .shape = shape,
                            .dtype = d };
    return round < 2;
  case MRT_OP_randint:
    c->options.randint =
        (mrt_randint_options){ .key = 9,
                               .inner = round,
                               .shape = shape,
                               .dtype = d,
                               .low = round ? -3 : 0,
                               .high = round ? (d == MRT_i64 ? INT64_MAX : 1000)
                                             : 256 };
    return round < 2;
  case MRT_OP_dropout:
    c->options.dropout = (mrt_dropout_options){ .key = 3,
                                                .inner = 1,
                                                .p = which == 0   ? 0.1
                                                     : which == 1 ? 0.5
                                                                  : 1 };
    return which < 3;
  case MRT_OP_polygamma:
    c->options.polygamma.n = which;
    return which < 4;
  case MRT_OP_clamp:
  case MRT_OP_hardtanh:
    c->options.some[0] = which ? -1 : 2, c->options.some[1] = 2;
    return which < 2;
  case MRT_OP_leaky_relu:
  case MRT_OP_softshrink:
  case MRT_OP_hardshrink:
  case MRT_OP_lerp:
    c->options.some[0] = which ? 0.75 : 0.25;
    return which < 2;
  case MRT_OP_elu:
  case MRT_OP_nan_to_num:
  case MRT_OP_threshold:
    c->options.some[0] = 1.5, c->options.some[1] = 2, c->options.some[2] = 0.5;
    return which < 1;
  default:
    return which == 0;
  }
}

static bool legal(jit_case *c, int64_t n) {
  const mrt_op *op = mrt_ops[c->op];
  mrt_type type[3], out;
  const mrt_type *in[3] = { &type[0], &type[1], &type[2] };
  for (int i = 0; i < c->nin; i++) type[i] = (mrt_type){ c->in[i], 1, { n } };
  mrt_infer infer = { .op = op,
                      .nin = c->nin,
                      .in = in,
                      .options = &c->options,
                      .nout = 1,
                      .out = &out };
  if (op->infer(&infer) != MRT_OK || out.dims[0] != n) return false;
  c->out = out.dtype;
  return true;
}

int jit_cases(int64_t n, jit_case *cases) {
  int count = 0;
  for (int d = 0; d < MRT_DTYPE_COUNT; d++)
    for (int op = 0; op < MRT_OP_COUNT; op++) {
      if (!(mrt_ops[op]->traits & MRT_POINTWISE)) continue;
      jit_case c;
      memset(&c, 0, sizeof c);
      c.op = op, c.nin = mrt_ops[op]->min_inputs;
      if (c.nin == 0 && d > 0) continue;
      for (int i = 0; i < c.nin; i++) c.in[i] = (mrt_dtype)d;
      if (op == MRT_OP_where) c.in[0] = MRT_bool;
      for (int k = 0; set_options(&c, k, n); k++)
        if (count < CASES_MOST && legal(&c, n)) cases[count++] = c;
    }
  return count;
}

static bool together(const jit_case *a, const jit_case *b) {
  if (a->nin != b->nin) return false;
  for (int i = 0; i < a->nin; i++)
    if (a->in[i] != b->in[i]) return false;
  return true;
}

static void finish(chain_program *p, const jit_case *first, int64_t n) {
  p->call = (mrt_call){
    .nin = first->nin, .nout = p->options.code_count, .in = p->in, .out = p->out
  };
  for (int i = 0; i < first->nin; i++)
    p->in[i] =
        (mrt_operand){ .type = { first->in[i], 1, { n } }, .strides = { 1 } };
  for (int i = 0; i < p->call.nout; i++)
    p->out[i] = (mrt_operand){ .type = p->out_types[i], .strides = { 1 } };
  p->options.code = p->code;
  p->options.out_register = p->out_register;
  p->options.out_types = p->out_types;
}

static void add(chain_program *p, const jit_case *c, int64_t n) {
  int k = p->options.code_count++;
  p->code[k] =
      (mrt_fused_code){ .op = c->op,
                        .out = c->nin + k,
                        .nin = c->nin,
                        .in = { 0, 1, 2 },
                        .in_dtype = c->nin ? c->in[c->nin - 1] : c->out,
                        .out_dtype = c->out,
                        .options = &c->options };
  p->out_register[k] = c->nin + k;
  p->out_types[k] = (mrt_type){ c->out, 1, { n } };
  p->options.registers = c->nin + k + 1;
}

void chain_program_of(const jit_case *cases, int count, int *from, int64_t n,
                      chain_program *p) {
  memset(p, 0, sizeof *p);
  const jit_case *first = &cases[*from];
  for (; *from < count && p->options.code_count < MRT_FUSED_CODE &&
         together(first, &cases[*from]);
       ++*from)
    add(p, &cases[*from], n);
  finish(p, first, n);
  p->call.options = &p->options;
}

void chain_single(const jit_case *c, int64_t n, chain_program *p) {
  memset(p, 0, sizeof *p);
  add(p, c, n);
  finish(p, c, n);
  p->call.options = &c->options;
}
