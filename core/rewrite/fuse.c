/* fuse.c -- which pointwise operators run as one pass over memory?
 *
 *   needs   a captured graph
 *   method  One walk in order.  A pointwise node joins the group that computes
 *           one of its inputs; the group then runs where this node stands.
 *           That is legal when nobody outside the group reads the group's
 *           values before that place, and no variable it reads is updated in
 *           between.  It is worth it when waiting does not keep more bytes
 *           alive than it saves.  Where it is not, the node may run earlier,
 *           where the group does, if all it reads is there by then and what it
 *           gives is no more than what the group then need not give.
 *   never   changes a bit: each operator rounds to its own dtype (op/fused.h)
 *
 * SPDX-License-Identifier: MIT */
#include "op/fused.h"
#include "rewrite/rewrite.h"

#include <stdio.h>
#include <string.h>

typedef struct group {
  mrt_node **members; /* in order */
  int count, room;
  int end; /* position where it runs */
  bool f32, f64;
  bool reads_variable;
} group;

typedef struct fusing {
  const mrt_rewrite *rewrite;
  mrt_graph *g;
  mrt_error *e;
  group **group_of;    /* by position; NULL: not pointwise */
  int *made_at;        /* position of what computes a value, by value id; -1 */
  int *first_user;     /* users of value v: users[first_user[v] ..) */
  int *users;          /* positions, ascending; node_count for a plan output */
  int *updates_before; /* updating nodes before this position */
} fusing;

/* Together they stay within MRT_FUSED_CODE instructions, constants counted. */
enum { MAX_CODE = 18, MAX_INPUTS = 14 };

static bool pointwise(const mrt_node *n) {
  return (n->op->traits & MRT_POINTWISE) && n->nout == 1 && n->nin <= 3 &&
         !mrt_node_is_update(n);
}

/* A constant that becomes an instruction of every program that reads it. */
static bool inlined(mrt_value *v) {
  double k;
  return mrt_value_uniform(v, &k);
}

static bool reads_variable(const mrt_node *n) {
  for (int i = 0; i < n->nin; i++) {
    const mrt_value *v = mrt_value_root(n->in[i]);
    if (v->leaf == MRT_LEAF_VARIABLE ||
        (v->node && mrt_node_is_update(v->node)))
      return true;
  }
  return false;
}

/* ---- facts --------------------------------------------------------------- */

static mrt_status index_users(fusing *f) {
  mrt_graph *g = f->g;
  int n = g->node_count;
  f->group_of = MRT_NEW(&g->temporary, group *, n);
  f->made_at = MRT_NEW(&g->temporary, int, g->value_count);
  f->updates_before = MRT_NEW(&g->temporary, int, n + 1);
  f->first_user = MRT_NEW(&g->temporary, int, g->value_count + 1);
  if (!f->group_of || !f->made_at || !f->updates_before || !f->first_user)
    return mrt_nomem(f->e);
  mrt_graph_count_uses(g);
  for (int v = 0; v < g->value_count; v++)
    f->first_user[v + 1] = f->first_user[v] + g->values[v]->uses;
  f->users = MRT_NEW(&g->temporary, int, f->first_user[g->value_count]);
  int *fill = MRT_NEW(&g->temporary, int, g->value_count);
  if (!f->users || !fill) return mrt_nomem(f->e);
  for (int v = 0; v < g->value_count; v++) f->made_at[v] = -1;
  for (int i = 0; i < n; i++) {
    mrt_node *node = g->nodes[i];
    for (int k = 0; k < node->nout; k++) f->made_at[node->out[k]->id] = i;
    f->updates_before[i + 1] = f->updates_before[i] + mrt_node_is_update(node);
    for (int k = 0; k < node->nin; k++) {
      int v = node->in[k]->id;
      f->users[f->first_user[v] + fill[v]++] = i;
    }
  }
  for (int k = 0; k < g->output_count; k++) {
    int v = g->outputs[k]->id;
    f->users[f->first_user[v] + fill[v]++] = n;
  }
  return MRT_OK;
}

static group *group_at(const fusing *f, int position) {
  return position < f->g->node_count ? f->group_of[position] : NULL;
}

/* The group that computes `v`; NULL when it is a leaf or not pointwise. */
static group *maker(const fusing *f, const mrt_value *v) {
  int at = f->made_at[v->id];
  return at < 0 ? NULL : f->group_of[at];
}

/* ---- joining ------------------------------------------------------------- */

/* Does anybody outside both groups read a value of `a` before `place`? */
static bool read_before(const fusing *f, const group *a, const group *b,
                        int place) {
  for (int m = 0; m < a->count; m++) {
    int v = a->members[m]->out[0]->id;
    for (int u = f->first_user[v]; u < f->first_user[v + 1]; u++) {
      group *reader = group_at(f, f->users[u]);
      if (f->users[u] < place && reader != a && reader != b) return true;
    }
  }
  return false;
}

/* Does anybody but `a` and `b` read `v`? */
static bool read_outside(const fusing *f, const mrt_value *v, const group *a,
                         const group *b) {
  for (int u = f->first_user[v->id]; u < f->first_user[v->id + 1]; u++) {
    const group *reader = group_at(f, f->users[u]);
    if (reader != a && reader != b) return true;
  }
  return false;
}

/* Bytes of inputs of `a` that nobody else needs until `place`: waiting keeps
 * them alive.  Bytes of its results that nobody outside needs: joining saves
 * them. */
static bool worth_waiting(const fusing *f, const group *a, const group *b,
                          int place) {
  double kept = 0, saved = 0;
  for (int m = 0; m < a->count; m++) {
    mrt_node *n = a->members[m];
    for (int k = 0; k < n->nin; k++) {
      mrt_value *v = n->in[k];
      if (!v->node || inlined(v) || maker(f, v) == a) continue;
      int last = f->users[f->first_user[v->id + 1] - 1];
      if (last < place) kept += (double)mrt_type_bytes(&v->type);
    }
    if (!read_outside(f, n->out[0], a, b))
      saved += (double)mrt_type_bytes(&n->out[0]->type);
  }
  return kept <= saved;
}

static bool only_pointwise_between(const fusing *f, int from, int to) {
  for (int i = from + 1; i < to; i++)
    if (!f->group_of[i] && !mrt_node_is_view(f->g->nodes[i])) return false;
  return true;
}

static bool reads(const mrt_node *n, const mrt_value *v) {
  for (int k = 0; k < n->nin; k++)
    if (n->in[k] == v) return true;
  return false;
}

static int input_count(const fusing *f, const group *a, const group *b) {
  int count = 0;
  for (int part = 0; part < 2; part++) {
    const group *p = part ? b : a;
    for (int m = 0; m < p->count; m++)
      for (int k = 0; k < p->members[m]->nin; k++) {
        const mrt_value *v = p->members[m]->in[k];
        group *from = maker(f, v);
        if ((from != a && from != b) || !from) count++;
      }
  }
  return count;
}

/* Are both of one kind, and together within the limits? */
static bool fit(const fusing *f, const group *a, const group *b) {
  const mrt_type *s = &a->members[0]->out[0]->type;
  const mrt_type *t = &b->members[0]->out[0]->type;
  return a != b && mrt_type_same_shape(s, t) &&
         a->count + b->count <= MAX_CODE &&
         input_count(f, a, b) <= MAX_INPUTS &&
         !((a->f32 || b->f32) && (a->f64 || b->f64));
}

static bool may_join(const fusing *f, const group *a, const group *b) {
  if (!fit(f, a, b)) return false;
  if (a->reads_variable &&
      f->updates_before[b->end] != f->updates_before[a->end])
    return false;
  if (read_before(f, a, b, b->end)) return false;
  return only_pointwise_between(f, a->end, b->end) ||
         worth_waiting(f, a, b, b->end);
}

/* Is all that `n` reads, but for what `a` computes, there where `a` runs? */
static bool is_there(const fusing *f, const mrt_node *n, const group *a) {
  for (int k = 0; k < n->nin; k++) {
    const group *by = maker(f, n->in[k]);
    int at = by ? by->end : f->made_at[n->in[k]->id];
    if (by != a && at >= a->end) return false;
  }
  return true;
}

/* May the node of `b`, alone so far, run where `a` does?  A variable that it
 * reads may be updated in between: what is read after an update is a value that
 * the update computes. */
static bool may_hurry(const fusing *f, const group *a, const group *b) {
  mrt_node *n = b->members[0];
  if (b->count != 1 || !fit(f, a, b) || !is_there(f, n, a)) return false;
  double saved = 0;
  for (int m = 0; m < a->count; m++) {
    const mrt_value *v = a->members[m]->out[0];
    if (reads(n, v) && !read_outside(f, v, a, b))
      saved += (double)mrt_type_bytes(&v->type);
  }
  return saved > 0 && saved >= (double)mrt_type_bytes(&n->out[0]->type);
}

static int position(const fusing *f, const mrt_node *n) {
  return f->made_at[n->out[0]->id];
}

/* Members stay sorted by position. */
static mrt_status join(fusing *f, group *a, group *b) {
  mrt_node **all = MRT_NEW(&f->g->temporary, mrt_node *, a->count + b->count);
  if (!all) return mrt_nomem(f->e);
  int i = 0, k = 0, n = 0;
  while (i < a->count || k < b->count) {
    bool left = k == b->count ||
                (i < a->count &&
                 position(f, a->members[i]) < position(f, b->members[k]));
    all[n++] = left ? a->members[i++] : b->members[k++];
  }
  for (int m = 0; m < a->count; m++)
    f->group_of[position(f, a->members[m])] = b;
  b->members = all, b->count = b->room = n;
  b->f32 |= a->f32, b->f64 |= a->f64;
  b->reads_variable |= a->reads_variable;
  return MRT_OK;
}

static mrt_status start_group(fusing *f, int i) {
  mrt_node *n = f->g->nodes[i];
  group *b = MRT_NEW(&f->g->temporary, group, 1);
  if (!b || !(b->members = MRT_NEW(&f->g->temporary, mrt_node *, 1)))
    return mrt_nomem(f->e);
  b->members[b->count++] = n;
  b->end = i;
  b->reads_variable = reads_variable(n);
  for (int k = -1; k < n->nin; k++) {
    mrt_dtype d = (k < 0 ? n->out[0] : n->in[k])->type.dtype;
    b->f32 |= d == MRT_f32, b->f64 |= d == MRT_f64;
  }
  f->group_of[i] = b;
  if (f->rewrite->off) return MRT_OK;
  for (int k = 0; k < n->nin; k++) {
    group *a = maker(f, n->in[k]);
    if (a && may_join(f, a, b)) MRT_TRY(join(f, a, b));
  }
  for (int k = 0; k < n->nin && f->group_of[i] == b; k++) {
    group *a = maker(f, n->in[k]);
    if (a && may_hurry(f, a, b)) MRT_TRY(join(f, b, a));
  }
  return MRT_OK;
}

/* ---- from groups to nodes ------------------------------------------------ */

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
  if (used >= 48) snprintf(text + 48, 4, "...");
  return mrt_arena_strdup(&f->g->arena, text);
}

static void *keep(fusing *f, const void *data, size_t bytes) {
  void *copy = mrt_arena_alloc(&f->g->arena, 1, bytes);
  return copy ? memcpy(copy, data, bytes) : NULL;
}

static mrt_status make_node(fusing *f, group *b, mrt_node **out) {
  fused_body p = { .inputs_count = 0 };
  int registers[MAX_CODE];
  mrt_type types[MAX_CODE];
  write_program(f, b, &p);
  for (int k = 0; k < p.results_count; k++) {
    registers[k] = find(&p, p.results[k]);
    types[k] = p.results[k]->type;
  }
  mrt_fused_options o = {
    .code_count = p.code_count,
    .registers = p.registers,
    .code = keep(f, p.code, (size_t)p.code_count * sizeof *p.code),
    .out_register = keep(f, registers, (size_t)p.results_count * sizeof(int)),
    .out_types = keep(f, types, (size_t)p.results_count * sizeof *types),
  };
  if (!o.code || !o.out_register || !o.out_types) return mrt_nomem(f->e);
  mrt_node *last = b->members[b->count - 1];
  mrt_node *n =
      mrt_graph_node(f->g, mrt_ops[MRT_OP_fused], p.inputs_count, p.inputs, &o,
                     p.results_count, types, last->origin);
  if (!n || !(n->label = label(f, b))) return mrt_nomem(f->e);
  for (int k = 0; k < p.results_count; k++) {
    n->out[k] = p.results[k];
    n->out[k]->node = n, n->out[k]->index = k;
  }
  *out = n;
  return MRT_OK;
}

mrt_status mrt_pass_fuse(mrt_rewrite *r) {
  mrt_graph *g = r->graph;
  fusing f = { .rewrite = r, .g = g, .e = &g->ctx->error };
  MRT_TRY(index_users(&f));
  for (int i = 0; i < g->node_count; i++)
    if (pointwise(g->nodes[i])) MRT_TRY(start_group(&f, i));
  mrt_node **order = MRT_NEW(&g->arena, mrt_node *, g->node_count);
  if (!order) return mrt_nomem(f.e);
  int count = 0;
  for (int i = 0; i < g->node_count; i++) {
    group *b = f.group_of[i];
    if (!b)
      order[count++] = g->nodes[i];
    else if (b->end == i)
      MRT_TRY(make_node(&f, b, &order[count++]));
  }
  mrt_graph_set_order(g, order, count);
  return mrt_pass_dce(r);
}
