/* dag.c -- which nodes must run before which?
 *
 *   needs   layout and scratch; a legal program order
 *   gives   the dag: precedence edges, and who makes and reads each buffer
 *   method  One walk.  A node comes after what makes its inputs; an update
 *           comes after everybody else who reads the version it overwrites;
 *           who reads what a collective began ahead comes after its arrival;
 *           and all updates come after all index checks that depend on none,
 *           so that a bad index is found while nothing has changed.
 *           A variable's update comes after who reads what was gathered of it:
 *           then it can be gathered once more for them.
 *           Collectives keep their order, whatever their communicator: then
 *           ranks that run the same program cannot wait for each other in a
 *           circle.
 *   why it has no circle: program order respects the first two, and what an
 *           update must wait for never depends on an update by the third.
 *   cost    O(nodes + edges)
 *
 * SPDX-License-Identifier: MIT */
#include "plan/dag.h"
#include "plan/recompute/recompute.h"

typedef struct pairs {
  int *key, *item;
  int count, key_room, item_room;
} pairs;

typedef struct dag_building {
  mrt_dag *f;
  mrt_value **value; /* by buffer */
  const mrt_plan *plan;
  const mrt_graph *g;
  mrt_arena *arena;
  int *maker_of;   /* by value id: node that computes it; -1: a leaf */
  int *updater_of; /* by value id of a version: node that overwrites it; -1 */
  int *arrival_of; /* by value id: node that waits for it; -1 */
  int *buffer_of;  /* by value id of a base; -1: not in the arena */
  int *gathered;   /* by node: value id of the variable's version that it
                      gathers, casts or copies; -1 */
  bool *tainted;   /* by node: depends on an update */
  int collective;  /* the last one so far; -1 */
  pairs edges, reads;
  int takes, take_room;
} dag_building;

static mrt_status add_pair(dag_building *b, pairs *p, int key, int item) {
  if (!MRT_PUSH_ROOM(b->arena, p->key, p->count, p->key_room) ||
      !MRT_PUSH_ROOM(b->arena, p->item, p->count, p->item_room))
    return mrt_nomem(&b->g->ctx->error);
  p->key[p->count] = key, p->item[p->count++] = item;
  return MRT_OK;
}

/* Lists of n keys from pairs, which stay in their order within a list. */
static mrt_status make_lists(dag_building *b, mrt_lists *l, int n,
                             const int *key, const int *item, int count) {
  l->start = MRT_NEW(b->arena, int, n + 2);
  l->item = MRT_NEW(b->arena, int, count);
  if (!l->start || !l->item) return mrt_nomem(&b->g->ctx->error);
  for (int i = 0; i < count; i++) l->start[key[i] + 2]++;
  for (int i = 0; i <= n; i++) l->start[i + 1] += l->start[i];
  for (int i = 0; i < count; i++) l->item[l->start[key[i] + 1]++] = item[i];
  return MRT_OK;
}

/* ---- edges --------------------------------------------------------------- */

static void find_updaters(dag_building *b) {
  for (int i = 0; i < b->g->value_count; i++)
    b->maker_of[i] = b->updater_of[i] = b->arrival_of[i] = b->buffer_of[i] = -1;
  for (int i = 0; i < b->g->node_count; i++) {
    const mrt_node *n = b->g->nodes[i];
    for (int k = 0; k < n->nout; k++) b->maker_of[n->out[k]->id] = i;
    if (n->op->number == MRT_OP_arrive) b->arrival_of[n->in[0]->id] = i;
    b->f->update[i] = mrt_node_is_update(n);
    for (int k = 0; b->f->update[i] && k < n->op->updates; k++)
      b->updater_of[mrt_value_root(n->in[k])->id] = i;
  }
}

/* What node i hands on of a variable, and does it gather? */
static void note_gathered(dag_building *b, int i) {
  const mrt_node *n = b->g->nodes[i];
  const mrt_value *from = n->nin ? mrt_value_root(n->in[0]) : NULL;
  bool gathers = n->op->number == MRT_OP_allgather;
  b->gathered[i] = -1;
  if (!from || (n->op->number != MRT_OP_cast && !gathers)) return;
  int maker = b->maker_of[from->id];
  b->gathered[i] = maker < 0 ? from->id : b->gathered[maker];
}

/* Node i reads what was gathered, before the update of what it is of. */
static mrt_status add_gathered_edge(dag_building *b, int i, int maker) {
  int from = maker < 0 ? -1 : b->gathered[maker];
  int updater = from < 0 ? -1 : b->updater_of[from];
  bool gathered = maker >= 0 && mrt_gathered(b->g->nodes[maker]);
  return gathered && updater > i ? add_pair(b, &b->edges, i, updater) : MRT_OK;
}

static mrt_status add_edges(dag_building *b, int i) {
  const mrt_node *n = b->g->nodes[i];
  bool tainted = b->f->update[i];
  note_gathered(b, i);
  for (int k = 0; k < n->nin; k++) {
    int version = mrt_value_root(n->in[k])->id;
    int maker = b->maker_of[version], updater = b->updater_of[version];
    int arrival = b->arrival_of[version];
    if (maker >= 0) MRT_TRY(add_pair(b, &b->edges, maker, i));
    if (maker >= 0) tainted |= b->tainted[maker];
    MRT_TRY(add_gathered_edge(b, i, maker));
    if (arrival >= 0 && arrival != i)
      MRT_TRY(add_pair(b, &b->edges, arrival, i));
    if (updater >= 0 && updater != i)
      MRT_TRY(add_pair(b, &b->edges, i, updater));
  }
  if (n->op->traits & MRT_COLLECTIVE) {
    int before = b->collective;
    if (before >= 0) MRT_TRY(add_pair(b, &b->edges, before, i));
    if (before >= 0) tainted |= b->tainted[before];
    b->collective = i;
  }
  b->tainted[i] = tainted;
  return MRT_OK;
}

static mrt_status add_barrier(dag_building *b) {
  int barrier = b->f->real;
  for (int i = 0; i < barrier; i++) {
    const mrt_node *n = b->g->nodes[i];
    /* A clone finds no fault that the node has not. */
    bool checks = n->op->traits & MRT_FAULTS && !n->recomputed;
    if (checks && !b->tainted[i]) MRT_TRY(add_pair(b, &b->edges, i, barrier));
    if (b->f->update[i]) MRT_TRY(add_pair(b, &b->edges, barrier, i));
  }
  b->f->nodes = barrier + 1;
  return MRT_OK;
}

/* ---- buffers ------------------------------------------------------------- */

static void add_buffers(dag_building *b, int i) {
  mrt_dag *f = b->f;
  const mrt_node *n = b->g->nodes[i];
  f->made[i] = f->buffers;
  for (int k = 0; k < n->nout; k++) {
    const mrt_value *v = n->out[k];
    if (v->base != v || b->buffer_of[v->id] == -2) continue;
    b->buffer_of[v->id] = f->buffers;
    f->maker[f->buffers] = i;
    b->value[f->buffers] = n->out[k];
    f->bytes[f->buffers++] =
        (int64_t)mrt_round_up(b->g->ctx, mrt_type_bytes(&v->type));
  }
}

static mrt_status add_reads(dag_building *b, int i, int *seen) {
  const mrt_node *n = b->g->nodes[i];
  for (int k = 0; k < n->nin; k++) {
    int buffer = b->buffer_of[n->in[k]->base->id];
    if (buffer < 0 || seen[buffer] == i + 1) continue;
    seen[buffer] = i + 1;
    MRT_TRY(add_pair(b, &b->reads, i, buffer));
  }
  return MRT_OK;
}

/* May output `out` lie on input k, if that dies here? */
static bool may_take(const dag_building *b, const mrt_node *n, int k,
                     const mrt_value *out) {
  const mrt_value *in = n->in[k];
  int buffer = b->buffer_of[in->base->id];
  if (k >= 32 || !(n->op->inplace >> k & 1) || buffer < 0) return false;
  if (mrt_dtypes[in->type.dtype].bytes != mrt_dtypes[out->type.dtype].bytes ||
      !mrt_type_same_shape(&in->type, &out->type))
    return false;
  size_t bytes = mrt_round_up(b->g->ctx, mrt_type_bytes(&in->type));
  if (in->offset != 0 || !mrt_value_contiguous(in) ||
      (int64_t)bytes != b->f->bytes[buffer])
    return false;
  for (int m = 0; m < n->nin; m++)
    if (m != k && n->in[m]->base == in->base) return false;
  return true;
}

static mrt_status add_takes(dag_building *b, int i) {
  mrt_dag *f = b->f;
  const mrt_node *n = b->g->nodes[i];
  f->take_start[i] = b->takes;
  for (int o = 0; o < n->nout && !b->plan->options.no_inplace; o++) {
    const mrt_value *out = n->out[o];
    int buffer = b->buffer_of[out->id];
    bool any = o == 0 || (n->op->traits & MRT_POINTWISE);
    for (int k = 0; any && buffer >= 0 && k < n->nin; k++) {
      if (!may_take(b, n, k, out)) continue;
      if (!MRT_PUSH_ROOM(b->arena, f->take, b->takes, b->take_room))
        return mrt_nomem(&b->g->ctx->error);
      f->take[b->takes++] =
          (mrt_take){ buffer, b->buffer_of[n->in[k]->base->id] };
    }
  }
  return MRT_OK;
}

static mrt_status find_buffers(dag_building *b) {
  mrt_dag *f = b->f;
  for (int i = 0; i < b->g->output_count; i++)
    b->buffer_of[b->g->outputs[i]->base->id] = -2; /* has storage of its own */
  for (int i = 0; i < f->real; i++) add_buffers(b, i);
  f->made[f->real] = f->made[f->real + 1] = f->buffers;
  int *seen = MRT_NEW(b->arena, int, f->buffers);
  if (!seen) return mrt_nomem(&b->g->ctx->error);
  for (int i = 0; i < f->real; i++) {
    MRT_TRY(add_reads(b, i, seen));
    MRT_TRY(add_takes(b, i));
    int buffer = b->g->nodes[i]->scratch_buffer;
    f->scratch[i] = buffer < 0 ? 0 : (int64_t)b->plan->buffers[buffer].bytes;
  }
  f->take_start[f->real] = f->take_start[f->real + 1] = b->takes;
  return MRT_OK;
}

static mrt_status make_all_lists(dag_building *b) {
  mrt_dag *f = b->f;
  const pairs *e = &b->edges, *r = &b->reads;
  MRT_TRY(make_lists(b, &f->after, f->nodes, e->key, e->item, e->count));
  MRT_TRY(make_lists(b, &f->before, f->nodes, e->item, e->key, e->count));
  MRT_TRY(make_lists(b, &f->reads, f->nodes, r->key, r->item, r->count));
  return make_lists(b, &f->readers, f->buffers, r->item, r->key, r->count);
}

mrt_status mrt_plan_dag(mrt_dag *f, mrt_value ***value, const mrt_plan *plan,
                        mrt_arena *arena, bool barrier) {
  const mrt_graph *g = &plan->graph;
  int n = g->node_count, values = g->value_count;
  *f = (mrt_dag){ .real = n,
                  .nodes = n,
                  .made = MRT_NEW(arena, int, n + 2),
                  .maker = MRT_NEW(arena, int, values),
                  .bytes = MRT_NEW(arena, int64_t, values),
                  .scratch = MRT_NEW(arena, int64_t, n + 1),
                  .take_start = MRT_NEW(arena, int, n + 2),
                  .update = MRT_NEW(arena, bool, n + 1),
                  .backward = MRT_NEW(arena, bool, n + 1) };
  dag_building b = { .f = f,
                     .value = MRT_NEW(arena, mrt_value *, values),
                     .plan = plan,
                     .g = g,
                     .arena = arena,
                     .maker_of = MRT_NEW(arena, int, values),
                     .updater_of = MRT_NEW(arena, int, values),
                     .arrival_of = MRT_NEW(arena, int, values),
                     .buffer_of = MRT_NEW(arena, int, values),
                     .gathered = MRT_NEW(arena, int, n),
                     .tainted = MRT_NEW(arena, bool, n),
                     .collective = -1 };
  if (!f->made || !f->maker || !b.value || !f->backward || !f->bytes ||
      !f->scratch || !f->take_start || !f->update || !b.maker_of ||
      !b.updater_of || !b.arrival_of || !b.buffer_of || !b.gathered ||
      !b.tainted)
    return mrt_nomem(&g->ctx->error);
  for (int i = 0; i < n; i++) f->backward[i] = g->nodes[i]->origin.backward;
  if (value) *value = b.value;
  find_updaters(&b);
  for (int i = 0; i < n; i++) MRT_TRY(add_edges(&b, i));
  if (barrier) MRT_TRY(add_barrier(&b));
  MRT_TRY(find_buffers(&b));
  return make_all_lists(&b);
}
