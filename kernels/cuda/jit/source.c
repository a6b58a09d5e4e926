/* source.c -- writing the source of a pointwise kernel
 *
 * A loop over vectors, all of a vector's elements loaded before any is stored,
 * then a loop over what is left, which is everything where pointers are not
 * aligned.  A thread reads an element before it writes that element and no
 * other thread touches it, so outputs may lie on dense inputs.  Each operator
 * rounds to its own dtype; compiled without contraction, a chain's bits are
 * those of its operators one by one.
 *
 * SPDX-License-Identifier: MIT */
#include "jit/writer.h"
#include "op/op.h"

#include <stdlib.h>
#include <string.h>

/* ---- the program --------------------------------------------------------- */

static void take_program(mrt_jit_writer *w, const mrt_call *c, int op) {
  for (int i = 0; i < c->nin; i++) w->dtype[i] = c->in[i].type.dtype;
  if (op == MRT_OP_fused) {
    w->program = *(const mrt_fused_options *)c->options;
  } else {
    w->single = (mrt_fused_code){ .op = op,
                                  .out = c->nin,
                                  .nin = c->nin,
                                  .in = { 0, 1, 2 },
                                  .in_dtype = c->out[0].type.dtype,
                                  .out_dtype = c->out[0].type.dtype,
                                  .options = c->options };
    if (c->nin) w->single.in_dtype = c->in[c->nin - 1].type.dtype;
    w->registers[0] = c->nin;
    w->program = (mrt_fused_options){ .code_count = 1,
                                      .registers = c->nin + 1,
                                      .code = &w->single,
                                      .out_register = w->registers };
  }
}

static void write_program(mrt_jit_writer *w) {
  for (int k = 0; k < w->program.code_count; k++)
    mrt_jit_write_instruction(w, &w->program.code[k]);
}

/* ---- the kernel ---------------------------------------------------------- */

static bool is_strided(enum mrt_layout l) {
  return l != MRT_AT_DENSE && l != MRT_AT_SAME;
}

/* "place(e, p1, p4);" or its parameters, with `before` each place. */
static void write_places(mrt_jit_buffer *b, const mrt_call *c,
                         const mrt_jit_layouts *l, const char *before) {
  for (int i = 0; i < c->nin; i++)
    if (is_strided(l->of[i])) mrt_jit_put(b, ", %s%d", before, i);
}

/* place(e, ...): where element e of each strided input is. */
static void write_place(mrt_jit_writer *w, const mrt_call *c,
                        const mrt_jit_layouts *l) {
  mrt_jit_buffer *b = &w->head;
  if (l->rank == 0) return;
  mrt_jit_put(b, "  auto place = [&](index e");
  write_places(b, c, l, "index &p");
  mrt_jit_put(b, ") {\n    index q = e, at;\n");
  for (int d = l->rank - 1; d >= 0; d--) {
    if (d > 0) {
      int64_t n = l->dims[d], shift = 0, times = 0;
      while (n > (int64_t)1 << shift) shift++;
      if (l->narrow)
        times =
            (int64_t)((((uint64_t)1 << 32) * (uint64_t)((1LL << shift) - n)) /
                      (uint64_t)n) +
            1;
      int size = mrt_jit_argument(w, n);
      int t = mrt_jit_argument(w, times), s = mrt_jit_argument(w, shift);
      mrt_jit_put(b,
                  "    q = m_quotient(e, a.v[%d], a.v[%d], a.v[%d]);\n"
                  "    at = e - q * (index)a.v[%d], e = q;\n",
                  size, t, s, size);
    } else {
      mrt_jit_put(b, "    at = q;\n");
    }
    for (int i = 0; i < c->nin; i++)
      if (is_strided(l->of[i]))
        mrt_jit_put(b, "    p%d %s at * (index)a.v[%d];\n", i,
                    d == l->rank - 1 ? "=" : "+=",
                    mrt_jit_argument(w, l->strides[i][d]));
  }
  mrt_jit_put(b, "  };\n");
}

static void write_pointers(mrt_jit_writer *w, const mrt_call *c,
                           const mrt_jit_layouts *l) {
  mrt_jit_buffer *b = &w->head;
  for (int i = 0; i < c->nin; i++) {
    const char *type = mrt_jit_c_type(w->dtype[i]);
    mrt_jit_put(b, "  const %s *in%d = (const %s *)a.v[%d];\n", type, i, type,
                MRT_ARG_IN + i);
    if (l->of[i] == MRT_AT_SAME)
      mrt_jit_put(b, "  const %s u%d = *in%d;\n", type, i, i);
    if (l->of[i] == MRT_AT_STEP)
      mrt_jit_put(b, "  const index s%d = (index)a.v[%d];\n", i,
                  mrt_jit_argument(w, l->strides[i][l->rank - 1]));
  }
  for (int i = 0; i < c->nout; i++) {
    const char *type = mrt_jit_c_type(c->out[i].type.dtype);
    mrt_jit_put(b, "  %s *out%d = (%s *)a.v[%d];\n", type, i, type,
                MRT_ARG_IN + c->nin + i);
  }
}

/* body(e, r0, ..., w0, ...): everything for element e. */
static void write_body(mrt_jit_writer *w, const mrt_call *c,
                       mrt_jit_buffer *b) {
  mrt_jit_put(b, "  auto body = [&](index e");
  for (int i = 0; i < c->nin; i++)
    mrt_jit_put(b, ", const %s r%d", mrt_jit_c_type(w->dtype[i]), i);
  for (int i = 0; i < c->nout; i++)
    mrt_jit_put(b, ", %s &w%d", mrt_jit_c_type(c->out[i].type.dtype), i);
  mrt_jit_put(b, ") {\n%s", w->body.text ? w->body.text : "");
  for (int i = 0; i < c->nout; i++)
    mrt_jit_put(b, "    w%d = r%d;\n", i, w->program.out_register[i]);
  mrt_jit_put(b, "  };\n");
}

/* Where each strided input's element is: declared, and found for `at`; NULL:
 * not yet. */
static void find_places(mrt_jit_buffer *b, const mrt_call *c,
                        const mrt_jit_layouts *l, const char *at) {
  const char *before = "    index p";
  if (l->rank == 0) return;
  for (int i = 0; i < c->nin; i++) {
    if (!is_strided(l->of[i])) continue;
    mrt_jit_put(b, "%s%d", before, i);
    before = ", p";
  }
  mrt_jit_put(b, ";\n");
  if (!at) return;
  mrt_jit_put(b, "    place(%s", at);
  write_places(b, c, l, "p");
  mrt_jit_put(b, ");\n");
}

/* Elements that are no vector in memory, one by one. */
static void write_gathers(const mrt_call *c, const mrt_jit_layouts *l,
                          bool each, mrt_jit_buffer *b) {
  mrt_jit_put(b, "#pragma unroll\n    for (int k = 0; k < %d; k++) {\n",
              l->width);
  if (each) {
    mrt_jit_put(b, "      place(e + k");
    write_places(b, c, l, "p");
    mrt_jit_put(b, ");\n");
  }
  for (int i = 0; i < c->nin; i++)
    if (l->of[i] == MRT_AT_EACH)
      mrt_jit_put(b, "      x%d.v[k] = in%d[p%d];\n", i, i, i);
    else if (l->of[i] == MRT_AT_STEP)
      mrt_jit_put(b, "      x%d.v[k] = in%d[p%d + k * s%d];\n", i, i, i, i);
  mrt_jit_put(b, "    }\n");
}

static void write_loads(mrt_jit_writer *w, const mrt_call *c,
                        const mrt_jit_layouts *l, mrt_jit_buffer *b) {
  bool each = false, steps = false;
  for (int i = 0; i < c->nin; i++)
    each |= l->of[i] == MRT_AT_EACH, steps |= l->of[i] == MRT_AT_STEP;
  find_places(b, c, l, each ? NULL : "e");
  for (int i = 0; i < c->nin; i++) {
    const char *type = mrt_jit_c_type(w->dtype[i]);
    if (l->of[i] == MRT_AT_ONE)
      mrt_jit_put(b, "    const %s x%d = in%d[p%d];\n", type, i, i, i);
    else if (l->of[i] == MRT_AT_DENSE)
      mrt_jit_put(b, "    const auto x%d = m_load<%d>(in%d + e);\n", i,
                  l->width, i);
    else if (l->of[i] == MRT_AT_WIDE)
      mrt_jit_put(b, "    const auto x%d = m_load<%d>(in%d + p%d);\n", i,
                  l->width, i, i);
    else if (l->of[i] != MRT_AT_SAME)
      mrt_jit_put(b, "    m_vector<%s, %d> x%d;\n", type, l->width, i);
  }
  if (each || steps) write_gathers(c, l, each, b);
}

static void write_vectors(mrt_jit_writer *w, const mrt_call *c,
                          const mrt_jit_layouts *l, mrt_jit_buffer *b) {
  mrt_jit_put(b,
              "  for (index i = at; i < vectors; i += threads) {\n"
              "    const index e = i * %d;\n",
              l->width);
  write_loads(w, c, l, b);
  for (int i = 0; i < c->nout; i++)
    mrt_jit_put(b, "    m_vector<%s, %d> y%d;\n",
                mrt_jit_c_type(c->out[i].type.dtype), l->width, i);
  mrt_jit_put(b,
              "#pragma unroll\n    for (int k = 0; k < %d; k++)\n"
              "      body(e + k",
              l->width);
  for (int i = 0; i < c->nin; i++)
    mrt_jit_put(b,
                l->of[i] == MRT_AT_SAME  ? ", u%d"
                : l->of[i] == MRT_AT_ONE ? ", x%d"
                                         : ", x%d.v[k]",
                i);
  for (int i = 0; i < c->nout; i++) mrt_jit_put(b, ", y%d.v[k]", i);
  mrt_jit_put(b, ");\n");
  for (int i = 0; i < c->nout; i++)
    mrt_jit_put(b, "    m_store(out%d + e, y%d);\n", i, i);
  mrt_jit_put(b, "  }\n");
}

static void write_rest(const mrt_call *c, const mrt_jit_layouts *l,
                       mrt_jit_buffer *b) {
  mrt_jit_put(
      b, "  for (index e = vectors * %d + at; e < count; e += threads) {\n",
      l->width);
  find_places(b, c, l, "e");
  for (int i = 0; i < c->nout; i++)
    mrt_jit_put(b, "    %s y%d;\n", mrt_jit_c_type(c->out[i].type.dtype), i);
  mrt_jit_put(b, "    body(e");
  for (int i = 0; i < c->nin; i++)
    if (l->of[i] == MRT_AT_SAME)
      mrt_jit_put(b, ", u%d", i);
    else if (l->of[i] == MRT_AT_DENSE)
      mrt_jit_put(b, ", in%d[e]", i);
    else
      mrt_jit_put(b, ", in%d[p%d]", i, i);
  for (int i = 0; i < c->nout; i++) mrt_jit_put(b, ", y%d", i);
  mrt_jit_put(b, ");\n");
  for (int i = 0; i < c->nout; i++)
    mrt_jit_put(b, "    out%d[e] = y%d;\n", i, i);
  mrt_jit_put(b, "  }\n}\n");
}

static void write_kernel(mrt_jit_writer *w, const mrt_call *c,
                         const mrt_jit_layouts *l, const char *name,
                         mrt_jit_buffer *b) {
  write_pointers(w, c, l);
  write_place(w, c, l);
  write_program(w);
  mrt_jit_put(b,
              "struct %s_args {\n  m_i64 v[%d];\n};\n"
              "extern \"C\" __global__ void __launch_bounds__(256)\n"
              "%s(const __grid_constant__ %s_args a) {\n"
              "  typedef %s index;\n"
              "  const index count = (index)a.v[0], vectors = (index)a.v[1];\n"
              "  const m_words *words = (const m_words *)a.v[2];\n"
              "  const index threads = (index)gridDim.x * (index)blockDim.x;\n"
              "  const index at = (index)blockIdx.x * (index)blockDim.x +\n"
              "                   (index)threadIdx.x;\n%s",
              name, w->source->args, name, name, l->narrow ? "int" : "m_i64",
              w->head.text ? w->head.text : "");
  write_body(w, c, b);
  write_vectors(w, c, l, b);
  write_rest(c, l, b);
}

static void note_alignment(const mrt_call *c, const mrt_jit_layouts *l,
                           mrt_jit_text *s) {
  for (int i = 0; i < c->nin + c->nout; i++) {
    const mrt_operand *x = i < c->nin ? &c->in[i] : &c->out[i - c->nin];
    int bytes = mrt_jit_c_size(x->type.dtype) * l->width;
    bool vectors =
        i >= c->nin || l->of[i] == MRT_AT_DENSE || l->of[i] == MRT_AT_WIDE;
    s->align[i] = !vectors ? 1 : bytes < 16 ? bytes : 16;
  }
}

bool mrt_jit_text_write(const mrt_call *c, int op, const char *name,
                        mrt_jit_text *s) {
  mrt_jit_writer w = { .source = s };
  mrt_jit_layouts l;
  mrt_jit_buffer b = { NULL };
  memset(s, 0, sizeof *s);
  if (c->nin > MRT_FUSED_REGISTERS || c->nout > MRT_FUSED_REGISTERS)
    return false;
  take_program(&w, c, op);
  mrt_jit_layouts_find(c, &l);
  s->nin = c->nin, s->nout = c->nout, s->width = l.width;
  s->args = MRT_ARG_IN + c->nin + c->nout;
  s->arg[MRT_ARG_COUNT] = l.count;
  note_alignment(c, &l, s);
  write_kernel(&w, c, &l, name, &b);
  bool failed = w.failed || w.head.failed || w.body.failed || b.failed;
  free(w.head.text);
  free(w.body.text);
  s->text = b.text;
  if (failed) mrt_jit_text_free(s);
  return !failed;
}

void mrt_jit_text_free(mrt_jit_text *s) {
  free(s->text);
  s->text = NULL;
}
