/* fuse.c -- which pointwise operators, and reductions of what they compute, run
 * as one pass over memory?
 *
 *   needs   a captured graph
 *   method  One walk in order.  A pointwise node joins the group that computes
 *           one of its inputs; the group then runs where this node stands.
 *           That is legal when nobody outside the group reads the group's
 *           values before that place, and no variable it reads is updated in
 *           between.  It is worth it when waiting does not keep more bytes
 *           alive than it saves.  Where it is not, the node may run earlier,
 *           where the group does, if all it reads is there by then and what it
 *           gives is no more than what the group then need not give.  A
 *           reduction of a group's only result ends it, by the same rules.
 *   never   changes a bit: each operator rounds to its own dtype (op/fused.h)
 *
 * SPDX-License-Identifier: MIT */
#include "rewrite/fuse.h"

static bool pointwise(const mrt_node *n) {
  return (n->op->traits & MRT_POINTWISE) && n->nout == 1 && n->nin <= 3 &&
         !mrt_node_is_update(n);
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
  return a != b && !a->reduction && !b->reduction &&
         mrt_type_same_shape(s, t) && a->count + b->count <= MAX_CODE &&
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

/* ---- reductions ---------------------------------------------------------- */

/* Is `v`, which one node reads, the only result of group `b`? */
static bool is_all_of(const fusing *f, const group *b, const mrt_value *v) {
  if (v->uses != 1) return false;
  for (int m = 0; m < b->count; m++) {
    const mrt_value *other = b->members[m]->out[0];
    if (other != v && read_outside(f, other, b, b)) return false;
  }
  return true;
}

/* May the group that computes what is reduced wait for that, and never write
 * it? */
static bool may_reduce(const fusing *f, const group *b, const mrt_node *n,
                       int place) {
  mrt_value *v = n->in[0];
  mrt_dtype dtype = v->type.dtype;
  if (b->reduction || inlined(v) || !is_all_of(f, b, v)) return false;
  if (dtype != MRT_f32 && dtype != MRT_f64) return false;
  if (b->reads_variable &&
      f->updates_before[place] != f->updates_before[b->end])
    return false;
  return only_pointwise_between(f, b->end, place) ||
         worth_waiting(f, b, b, place);
}

static void end_group(fusing *f, int i) {
  mrt_node *n = f->g->nodes[i];
  if (!f->reduces || f->rewrite->off || !n->op->reduce_kind) return;
  group *b = maker(f, n->in[0]);
  if (!b || !may_reduce(f, b, n, i)) return;
  b->reduction = n, b->end = i;
  f->group_of[i] = b;
}

mrt_status mrt_pass_fuse(mrt_rewrite *r) {
  mrt_graph *g = r->graph;
  fusing f = { .rewrite = r, .g = g, .e = &g->ctx->error };
  const mrt_device *d = &g->ctx->device;
  f.reduces = d->kernel(d, MRT_OP_fused_reduce, MRT_f32) != NULL;
  MRT_TRY(index_users(&f));
  for (int i = 0; i < g->node_count; i++)
    if (pointwise(g->nodes[i]))
      MRT_TRY(start_group(&f, i));
    else
      end_group(&f, i);
  mrt_node **order = MRT_NEW(&g->arena, mrt_node *, g->node_count);
  if (!order) return mrt_nomem(f.e);
  int count = 0;
  for (int i = 0; i < g->node_count; i++) {
    group *b = f.group_of[i];
    if (!b)
      order[count++] = g->nodes[i];
    else if (b->end == i)
      MRT_TRY(mrt_fuse_node(&f, b, &order[count++]));
  }
  mrt_graph_set_order(g, order, count);
  return mrt_pass_dce(r);
}
