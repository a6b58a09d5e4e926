/* fuse_program.c -- a group's nodes become the program of one
 *
 * Registers are the group's inputs, then its constants, then what its members
 * compute (op/fused.h).
 *
 * SPDX-License-Identifier: MIT */
#include "rewrite/fuse.h"

#include <stdio.h>
#include <string.h>

typedef struct fused_body {
  mrt_value *inputs[MRT_FUSED_REGISTERS];
  mrt_value *results[MAX_CODE];
  mrt_fused_code code[MRT_FUSED_CODE];
  mrt_value *in_register[MRT_FUSED_REGISTERS];
  int inputs_count, results_count, code_count, registers;
} fused_body;

static int find(const fused_body *p, const mrt_value *v) {
  for (int r = 0; r < p->registers; r++)
    if (p->in_register[r] == v) return r;
  return -1;
}

static void emit_constant(fused_body *p, mrt_value *v) {
  const mrt_node *n = mrt_value_root(v)->node;
  mrt_fused_code *c = &p->code[p->code_count++];
  *c = (mrt_fused_code){ .op = n->op->number,
                         .out = p->registers,
                         .in_dtype = v->type.dtype,
                         .out_dtype = v->type.dtype,
                         .options = n->options };
  p->in_register[p->registers++] = v;
}

static void emit(fused_body *p, const mrt_node *n) {
  mrt_fused_code *c = &p->code[p->code_count++];
  mrt_dtype out = n->out[0]->type.dtype;
  *c = (mrt_fused_code){ .op = n->op->number,
                         .out = p->registers,
                         .nin = n->nin,
                         .in_dtype = out,
                         .out_dtype = out,
                         .options = n->options };
  for (int k = 0; k < n->nin; k++) {
    c->in[k] = find(p, n->in[k]);
    c->in_dtype = n->in[k]->type.dtype;
  }
  p->in_register[p->registers++] = n->out[0];
}

static void write_program(const fusing *f, const group *b, fused_body *p) {
  /* inputs first: they are the lowest registers */
  for (int pass = 0; pass < 2; pass++)
    for (int m = 0; m < b->count; m++)
      for (int k = 0; k < b->members[m]->nin; k++) {
        mrt_value *v = b->members[m]->in[k];
        bool inside = maker(f, v) == b;
        if (inside || find(p, v) >= 0 || inlined(v) != (pass == 1)) continue;
        if (pass == 1)
          emit_constant(p, v);
        else
          p->inputs[p->inputs_count++] = p->in_register[p->registers++] = v;
      }
  for (int m = 0; m < b->count; m++) {
    mrt_value *v = b->members[m]->out[0];
    emit(p, b->members[m]);
    for (int u = f->first_user[v->id]; u < f->first_user[v->id + 1]; u++)
      if (group_at(f, f->users[u]) != b) {
        p->results[p->results_count++] = v;
        break;
      }
  }
}

static const char *label(fusing *f, const group *b) {
  char text[64];
  int used = 0;
  for (int m = 0; m < b->count && used < 48; m++)
    used += snprintf(text + used, sizeof text - (size_t)used, m ? "+%s" : "%s",
                     b->members[m]->op->name);
  if (b->reduction && used < 48)
    used += snprintf(text + used, sizeof text - (size_t)used, "+%s",
                     b->reduction->op->name);
  if (used >= 48) snprintf(text + 48, 4, "...");
  return mrt_arena_strdup(&f->g->arena, text);
}

static void *keep(fusing *f, const void *data, size_t bytes) {
  void *copy = mrt_arena_alloc(&f->g->arena, 1, bytes);
  return copy ? memcpy(copy, data, bytes) : NULL;
}

/* Of a reduction the one result is what it reads. */
static mrt_status keep_program(fusing *f, const group *b, fused_body *p,
                               mrt_fused_options *o) {
  int registers[MAX_CODE];
  mrt_type types[MAX_CODE];
  write_program(f, b, p);
  if (b->reduction) p->results[p->results_count++] = b->reduction->in[0];
  for (int k = 0; k < p->results_count; k++) {
    registers[k] = find(p, p->results[k]);
    types[k] = p->results[k]->type;
  }
  *o = (mrt_fused_options){
    .code_count = p->code_count,
    .registers = p->registers,
    .code = keep(f, p->code, (size_t)p->code_count * sizeof *p->code),
    .out_register = keep(f, registers, (size_t)p->results_count * sizeof(int)),
    .out_types = keep(f, types, (size_t)p->results_count * sizeof *types),
  };
  return o->code && o->out_register && o->out_types ? MRT_OK : mrt_nomem(f->e);
}

/* `n` makes these values from now on. */
static void give(mrt_node *n, mrt_value *const *results) {
  for (int k = 0; k < n->nout; k++) {
    n->out[k] = results[k];
    n->out[k]->node = n, n->out[k]->index = k;
  }
}

static mrt_node *reducing_node(fusing *f, const group *b, const fused_body *p,
                               const mrt_fused_options *program) {
  mrt_node *by = b->reduction;
  mrt_fused_reduce_options o = { .program = *program,
                                 .kind = by->op->reduce_kind,
                                 .out = by->out[0]->type };
  memcpy(&o.over, by->options, sizeof o.over);
  mrt_node *n =
      mrt_graph_node(f->g, mrt_ops[MRT_OP_fused_reduce], p->inputs_count,
                     p->inputs, &o, 1, &o.out, by->origin);
  if (n) give(n, by->out);
  return n;
}

static mrt_node *writing_node(fusing *f, const group *b, const fused_body *p,
                              const mrt_fused_options *o) {
  mrt_node *last = b->members[b->count - 1];
  mrt_node *n =
      mrt_graph_node(f->g, mrt_ops[MRT_OP_fused], p->inputs_count, p->inputs, o,
                     p->results_count, o->out_types, last->origin);
  if (n) give(n, p->results);
  return n;
}

mrt_status mrt_fuse_node(fusing *f, const group *b, mrt_node **out) {
  fused_body p = { .inputs_count = 0 };
  mrt_fused_options o;
  MRT_TRY(keep_program(f, b, &p, &o));
  mrt_node *n =
      b->reduction ? reducing_node(f, b, &p, &o) : writing_node(f, b, &p, &o);
  if (!n || !(n->label = label(f, b))) return mrt_nomem(f->e);
  *out = n;
  return MRT_OK;
}
