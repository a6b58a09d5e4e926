/* instructions.c -- each pointwise operator as CUDA C
 *
 * SPDX-License-Identifier: MIT */
#include "jit/writer.h"
#include "op/activation.h"
#include "op/make.h"
#include "op/op.h"
#include "op/random.h"
#include "op/special.h"

#include <string.h>

typedef void write_made(mrt_jit_writer *w, const mrt_fused_code *code);

/* Declares the result's register: ready for an expression and a semicolon. */
static void result(mrt_jit_writer *w, const mrt_fused_code *code) {
  mrt_jit_put(&w->body, "    const %s r%d = ", mrt_jit_c_type(code->out_dtype),
              code->out);
}

static write_made write_gelu, write_gelu_grad, write_cast, write_full,
    write_arange, write_rand, write_randn, write_randint, write_dropout,
    write_bitwise_not, write_polygamma;

typedef struct jit_row {
  const char *reals, *integers;
  int options; /* doubles in the operator's struct that are k, l, m */
  write_made *made;
} jit_row;

static const jit_row rows[MRT_OP_COUNT] = {
#define POINT(name, of_reals, of_integers)                                     \
  [MRT_OP_##name] = { #of_reals, #of_integers, 0, NULL },
#define WITH(name, count, of_reals, of_integers)                               \
  [MRT_OP_##name] = { #of_reals, #of_integers, count, NULL },
#define MADE(name) [MRT_OP_##name] = { NULL, NULL, 0, write_##name },
#include "jit/pointwise.def"
};

bool mrt_jit_text_has(int op) {
  const jit_row *r = &rows[op];
  return r->made || r->reals || op == MRT_OP_fused;
}

static bool real(mrt_dtype d) { return d == MRT_f32 || d == MRT_f64; }

/* Options as constants c<register><letter> before the loops, and under their
 * letters here. */
static void write_options(mrt_jit_writer *w, const mrt_fused_code *code,
                          int count) {
  const double *option = code->options;
  for (int i = 0; i < count; i++) {
    int a = mrt_jit_argument_real(w, option[i]);
    mrt_jit_put(&w->head, "  const %s c%d%c = m_to_%s(m_double_of(a.v[%d]));\n",
                mrt_jit_c_type(code->in_dtype), code->out, "klm"[i],
                mrt_jit_c_name(code->in_dtype), a);
    mrt_jit_put(&w->body, " const auto %c = c%d%c;", "klm"[i], code -> out,
                "klm"[i]);
  }
}

void mrt_jit_write_instruction(mrt_jit_writer *w, const mrt_fused_code *code) {
  const jit_row *r = &rows[code->op];
  if (r->made) {
    r->made(w, code);
    return;
  }
  const char *expression = real(code->in_dtype) ? r->reals : r->integers;
  const char *type = mrt_jit_c_type(code->out_dtype);
  mrt_jit_put(&w->body, "    %s r%d;\n    {\n      const auto x = r%d;", type,
              code->out, code->in[0]);
  if (code->nin > 1) mrt_jit_put(&w->body, " const auto y = r%d;", code->in[1]);
  if (code->nin > 2) mrt_jit_put(&w->body, " const auto z = r%d;", code->in[2]);
  write_options(w, code, r->options);
  mrt_jit_put(&w->body, "\n      r%d = (%s)(%s);\n    }\n", code->out, type,
              expression);
}

/* ---- those with options -------------------------------------------------- */

static const char *by(const mrt_fused_code *code) {
  const mrt_gelu_options *o = code->options;
  return o->approximate == MRT_GELU_TANH ? "tanh" : "erf";
}
static void write_gelu(mrt_jit_writer *w, const mrt_fused_code *code) {
  result(w, code);
  mrt_jit_put(&w->body, "m_gelu_%s(r%d);\n", by(code), code->in[0]);
}
static void write_gelu_grad(mrt_jit_writer *w, const mrt_fused_code *code) {
  result(w, code);
  mrt_jit_put(&w->body, "r%d * m_gelu_%s_slope(r%d);\n", code->in[1], by(code),
              code->in[0]);
}

static void write_polygamma(mrt_jit_writer *w, const mrt_fused_code *code) {
  const mrt_polygamma_options *o = code->options;
  int n = mrt_jit_argument(w, o->n);
  result(w, code);
  mrt_jit_put(&w->body, "m_polygamma((int)a.v[%d], r%d);\n", n, code->in[0]);
}

/* A bool is a byte that is 0 or 1. */
static void write_bitwise_not(mrt_jit_writer *w, const mrt_fused_code *code) {
  result(w, code);
  mrt_jit_put(&w->body, "(%s)%cr%d;\n", mrt_jit_c_type(code->out_dtype),
              code->out_dtype == MRT_bool ? '!' : '~', code->in[0]);
}

static void write_cast(mrt_jit_writer *w, const mrt_fused_code *code) {
  result(w, code);
  mrt_jit_put(&w->body, "m_to_%s(m_of_%s(r%d));\n",
              mrt_jit_c_name(code->out_dtype), mrt_jit_c_name(code->in_dtype),
              code->in[0]);
}

static void write_full(mrt_jit_writer *w, const mrt_fused_code *code) {
  const mrt_full_options *o = code->options;
  int a = mrt_jit_argument_real(w, o->value);
  mrt_jit_put(&w->head, "  const %s c%d = m_to_%s(m_double_of(a.v[%d]));\n",
              mrt_jit_c_type(code->out_dtype), code->out,
              mrt_jit_c_name(code->out_dtype), a);
  result(w, code);
  mrt_jit_put(&w->body, "c%d;\n", code->out);
}

/* In integers exact, in reals rounded twice. */
static void write_arange(mrt_jit_writer *w, const mrt_fused_code *code) {
  const mrt_arange_options *o = code->options;
  const char *type = mrt_jit_c_type(code->out_dtype);
  bool reals = real(code->out_dtype);
  int start = reals ? mrt_jit_argument_real(w, o->start)
                    : mrt_jit_argument(w, (int64_t)o->start);
  int step = reals ? mrt_jit_argument_real(w, o->step)
                   : mrt_jit_argument(w, (int64_t)o->step);
  result(w, code);
  if (reals)
    mrt_jit_put(
        &w->body,
        "(%s)(m_double_of(a.v[%d]) + m_double_of(a.v[%d]) * (double)e);\n",
        type, start, step);
  else
    mrt_jit_put(&w->body, "(%s)(a.v[%d] + a.v[%d] * (m_i64)e);\n", type, start,
                step);
}

static void write_draw(mrt_jit_writer *w, const mrt_fused_code *code) {
  mrt_draw d;
  memcpy(&d, code->options, sizeof d);
  int key = mrt_jit_argument(w, (int64_t)d.key);
  int seed = mrt_jit_argument(w, (int64_t)d.seed);
  int inner = mrt_jit_argument(w, d.inner);
  mrt_jit_put(&w->head,
              "  m_draw d%d = m_draw_make(words, a.v[%d], a.v[%d], a.v[%d]);\n",
              code->out, key, seed, inner);
  result(w, code);
}
static void write_rand(mrt_jit_writer *w, const mrt_fused_code *code) {
  write_draw(w, code);
  mrt_jit_put(&w->body, "m_rand<%s>(d%d, e);\n",
              mrt_jit_c_type(code->out_dtype), code->out);
}
static void write_randn(mrt_jit_writer *w, const mrt_fused_code *code) {
  write_draw(w, code);
  mrt_jit_put(&w->body, "m_randn<%s>(d%d, e);\n",
              mrt_jit_c_type(code->out_dtype), code->out);
}
static void write_randint(mrt_jit_writer *w, const mrt_fused_code *code) {
  const mrt_randint_options *o = code->options;
  uint64_t width = (uint64_t)o->high - (uint64_t)o->low;
  write_draw(w, code);
  int low = mrt_jit_argument(w, o->low),
      range = mrt_jit_argument(w, (int64_t)width);
  mrt_jit_put(&w->body, "(%s)m_randint(d%d, e, a.v[%d], a.v[%d]);\n",
              mrt_jit_c_type(code->out_dtype), code->out, low, range);
}
/* x * scale where the element's word reaches the threshold, else x * 0. */
static void write_dropout(mrt_jit_writer *w, const mrt_fused_code *code) {
  const mrt_dropout_options *o = code->options;
  write_draw(w, code);
  int drop = mrt_jit_argument(w, o->p < 1 ? (int64_t)(o->p * 0x1p32) : 0);
  int scale = mrt_jit_argument_real(w, o->p < 1 ? 1 / (1 - o->p) : 0);
  mrt_jit_put(&w->body,
              "m_dropout(d%d, e, r%d, a.v[%d], m_double_of(a.v[%d]));\n",
              code->out, code->in[0], drop, scale);
}
