/* sink_permute.c -- in which order of dimensions does a pointwise chain run?
 *
 *   needs   a captured graph
 *   gives   permutations that move past pointwise operators, meet and cancel:
 *           a network written on [N,C,H,W] around kernels that want the
 *           channels last keeps them last in memory
 *   method  Views that permute a permutation become one view, or none.  Then
 *           pointwise operators of one shape that read each other are a group,
 *           all of whose results lie in memory in one order of dimensions.
 *           Inputs from outside vote for the order they lie in, readers
 *           outside for the one they want, each with the bytes that another
 *           order would have them gather or copy.  The winner's group computes
 *           the turned results; views turn them back.  A cat, whose inputs have
 *           other shapes, is a group of its own
 *   never   touches what draws by position (dropout) or adds up (sums): every
 *           element is computed by the same operators, so no bit changes
 *
 * SPDX-License-Identifier: MIT */
#include "op/move.h"
#include "op/views.h"
#include "rewrite/rewrite.h"

/* An order of dimensions, four bits each: dimension d of a value is dimension
 * turn_at(t, d) of what it is a view of. */
typedef uint64_t turn;

static int turn_at(turn t, int d) { return (int)(t >> 4 * d & 15); }
static turn turn_set(int d, int to) { return (turn)to << 4 * d; }

static turn no_turn(int rank) {
  turn t = 0;
  for (int d = 0; d < rank; d++) t |= turn_set(d, d);
  return t;
}
/* A view `b` of a view `a`. */
static turn turn_then(turn a, turn b, int rank) {
  turn t = 0;
  for (int d = 0; d < rank; d++) t |= turn_set(d, turn_at(a, turn_at(b, d)));
  return t;
}
static turn turn_back(turn a, int rank) {
  turn t = 0;
  for (int d = 0; d < rank; d++) t |= turn_set(turn_at(a, d), d);
  return t;
}

/* The one of all turns of a value of this type that lie alike in memory (those
 * that differ in dimensions of size 1) that stands for them. */
static turn turn_of_type(const mrt_type *type, turn a) {
  turn from = turn_back(a, type->rank), t = 0;
  int next = 0;
  for (int d = 0; d < type->rank; d++)
    if (type->dims[d] == 1) t |= turn_set(d, next++);
  for (int k = 0; k < type->rank; k++)
    if (type->dims[turn_at(from, k)] != 1)
      t |= turn_set(turn_at(from, k), next++);
  return t;
}

/* Votes for turns; the first is for none. */
enum { MAX_TURNS = 8 };
typedef struct poll {
  const mrt_type *type;
  int count;
  turn turns[MAX_TURNS];
  double bytes[MAX_TURNS];
} poll;

typedef struct permute_use {
  int node, input; /* node: position; -1: a plan output */
  const struct permute_use *next;
} permute_use;

typedef struct turning {
  mrt_graph *g;
  int *leader;     /* by position: first node of its group; -1: not in one */
  int *next, *end; /* by position: next node of the group; by leader: last */
  turn *chosen;    /* by leader */
  int *made_at;    /* by value id: position of what computes it; -1 */
  int *asked;      /* by value id: 1 + leader of the last group it voted in */
  const permute_use **uses; /* by value id */
  int values;               /* how many there were at first */
} turning;

/* Is it a view that only reorders dimensions?  Strides that no shape gives
 * tell where each dimension went. */
static bool permutes(const mrt_node *n, turn *how) {
  if (!mrt_node_is_view(n) || n->nout != 1 || !n->op->view) return false;
  const mrt_type *in = &n->in[0]->type, *out = &n->out[0]->type;
  int64_t from[MRT_MAX_RANK], to[MRT_MAX_RANK];
  if (in->rank != out->rank) return false;
  for (int d = 0; d < in->rank; d++) from[d] = 1000003 + 7 * d;
  mrt_view v = { .op = n->op,
                 .options = n->options,
                 .in = in,
                 .out = out,
                 .in_strides = from,
                 .strides = to };
  if (!n->op->view(&v) || v.offset != 0) return false;
  int seen = 0;
  *how = 0;
  for (int d = 0; d < out->rank; d++) {
    int64_t k = (to[d] - 1000003) / 7;
    if (k < 0 || k >= in->rank || to[d] != from[k] ||
        in->dims[k] != out->dims[d])
      return false;
    seen |= 1 << k;
    *how |= turn_set(d, (int)k);
  }
  return seen == (1 << in->rank) - 1;
}

/* What `v` is a view of by a turn, perhaps itself. */
static mrt_value *base_of(mrt_value *v, turn *how) {
  turn t;
  *how = no_turn(v->type.rank);
  while (v->node && permutes(v->node, &t)) {
    *how = turn_then(t, *how, v->type.rank);
    v = mrt_value_instead(v->node->in[0]);
  }
  return v;
}

/* ---- rewriting ----------------------------------------------------------- */

static mrt_type turned_type(const mrt_type *t, turn how) {
  mrt_type out = *t;
  for (int d = 0; d < t->rank; d++) out.dims[d] = t->dims[turn_at(how, d)];
  return out;
}

/* Append the view of `v` by `how` to the order; `v` itself if that is none. */
static mrt_status view_of(turning *w, mrt_value *v, turn how, mrt_value **out) {
  if (how == no_turn(v->type.rank)) return *out = v, MRT_OK;
  mrt_permute_options o = { .dims.count = v->type.rank };
  for (int d = 0; d < v->type.rank; d++) o.dims.at[d] = turn_at(how, d);
  mrt_type t = turned_type(&v->type, how);
  mrt_node *n = mrt_graph_node(w->g, mrt_ops[MRT_OP_permute], 1, &v, &o, 1, &t,
                               v->origin);
  if (!n) return mrt_nomem(&w->g->ctx->error);
  *out = n->out[0];
  return mrt_graph_append(w->g, n);
}

/* `v` is from now on what `node` computes. */
static void recompute_by(mrt_value *v, mrt_node *node) {
  node->out[0] = v, v->node = node, v->index = 0;
}

/* A view of a view: one, or none. */
static mrt_status shorten(turning *w, mrt_node *n) {
  mrt_value *v = n->out[0], *seen;
  turn how;
  mrt_value *base = base_of(v, &how);
  if (how == no_turn(v->type.rank)) return v->other = base, MRT_OK;
  if (base == n->in[0]) return mrt_graph_append(w->g, n);
  MRT_TRY(view_of(w, base, how, &seen));
  recompute_by(v, seen->node);
  return MRT_OK;
}

static bool is_cat(const mrt_node *n) { return n->op->number == MRT_OP_cat; }

/* The options of n turned by `back`: a cat goes along its dimension, wherever
 * that is then. */
static const void *turned_options(const mrt_node *n, turn back,
                                  mrt_dim_options *room) {
  if (!is_cat(n)) return n->options;
  int64_t dim = ((const mrt_dim_options *)n->options)->dim;
  for (int d = 0; d < n->out[0]->type.rank; d++)
    if (turn_at(back, d) == dim) room->dim = d;
  return room;
}

/* Compute n's result turned back by `how`, and the result as a view of it. */
static mrt_status turn_node(turning *w, mrt_node *n, turn how) {
  mrt_value *in[4], *v = n->out[0], *seen;
  int rank = v->type.rank;
  turn back = turn_back(how, rank), lies;
  mrt_type t = turned_type(&v->type, back);
  for (int k = 0; k < n->nin; k++) {
    mrt_value *base = base_of(n->in[k], &lies);
    MRT_TRY(view_of(w, base, turn_then(lies, back, rank), &in[k]));
  }
  mrt_dim_options room = { 0 };
  mrt_node *turned =
      mrt_graph_node(w->g, n->op, n->nin, in, turned_options(n, back, &room), 1,
                     &t, n->origin);
  if (!turned) return mrt_nomem(&w->g->ctx->error);
  turned->out[0]->name = v->name;
  MRT_TRY(mrt_graph_append(w->g, turned));
  MRT_TRY(view_of(w, turned->out[0], how, &seen));
  recompute_by(v, seen->node);
  return MRT_OK;
}

static mrt_status rewrite(turning *w) {
  mrt_graph *g = w->g;
  int count = g->node_count;
  mrt_node **nodes = mrt_graph_take_order(g);
  turn how;
  if (!nodes) return mrt_nomem(&g->ctx->error);
  for (int i = 0; i < count; i++) {
    mrt_node *n = nodes[i];
    for (int k = 0; k < n->nin; k++) n->in[k] = mrt_value_instead(n->in[k]);
    int leader = w->leader ? w->leader[i] : -1;
    if (leader >= 0 && w->chosen[leader] != no_turn(n->out[0]->type.rank))
      MRT_TRY(turn_node(w, n, w->chosen[leader]));
    else if (permutes(n, &how))
      MRT_TRY(shorten(w, n));
    else
      MRT_TRY(mrt_graph_append(g, n));
  }
  mrt_graph_substitute(g);
  return MRT_OK;
}

/* ---- groups -------------------------------------------------------------- */

static bool may_turn(const mrt_node *n) {
  bool pointwise =
      (n->op->traits & MRT_POINTWISE) && !(n->op->traits & MRT_RANDOM);
  return (pointwise || is_cat(n)) && !mrt_node_is_update(n) && n->nout == 1 &&
         n->nin > 0 && n->nin <= 4 && n->out[0]->type.rank > 1;
}

static mrt_status note_use(turning *w, const mrt_value *v, int node, int k) {
  permute_use *u = MRT_NEW(&w->g->temporary, permute_use, 1);
  if (!u) return mrt_nomem(&w->g->ctx->error);
  *u = (permute_use){ node, k, w->uses[v->id] };
  w->uses[v->id] = u;
  return MRT_OK;
}

static int leader_of(const turning *w, int i) {
  while (w->leader[i] != i) i = w->leader[i];
  return i;
}

/* The earlier leader leads both. */
static void unite(turning *w, int a, int b) {
  a = leader_of(w, a), b = leader_of(w, b);
  if (a == b) return;
  int first = a < b ? a : b, other = a < b ? b : a;
  w->leader[other] = first;
  w->next[w->end[first]] = other;
  w->end[first] = w->end[other];
}

static mrt_status gather(turning *w) {
  mrt_graph *g = w->g;
  mrt_arena *arena = &g->temporary;
  int n = g->node_count;
  w->values = g->value_count;
  w->leader = MRT_NEW(arena, int, n), w->next = MRT_NEW(arena, int, n);
  w->end = MRT_NEW(arena, int, n), w->chosen = MRT_NEW(arena, turn, n);
  w->made_at = MRT_NEW(arena, int, w->values);
  w->asked = MRT_NEW(arena, int, w->values);
  w->uses = MRT_NEW(arena, const permute_use *, w->values);
  if (!w->leader || !w->next || !w->end || !w->chosen || !w->made_at ||
      !w->asked || !w->uses)
    return mrt_nomem(&g->ctx->error);
  for (int v = 0; v < w->values; v++) w->made_at[v] = -1;
  for (int i = 0; i < n; i++) {
    mrt_node *node = g->nodes[i];
    bool may = may_turn(node);
    w->leader[i] = may ? i : -1, w->next[i] = -1, w->end[i] = i;
    for (int k = 0; k < node->nout; k++) w->made_at[node->out[k]->id] = i;
    for (int k = 0; k < node->nin; k++) {
      MRT_TRY(note_use(w, node->in[k], i, k));
      int maker = w->made_at[node->in[k]->id];
      bool one = may && maker >= 0 && w->leader[maker] >= 0 && !is_cat(node) &&
                 !is_cat(g->nodes[maker]);
      if (one) unite(w, i, maker);
    }
  }
  for (int k = 0; k < g->output_count; k++)
    MRT_TRY(note_use(w, g->outputs[k], -1, 0));
  for (int i = 0; i < n; i++)
    if (w->leader[i] >= 0) w->leader[i] = leader_of(w, i);
  return MRT_OK;
}

/* ---- votes --------------------------------------------------------------- */

static void vote(poll *p, turn how, double bytes) {
  int i = 0;
  how = turn_of_type(p->type, how);
  while (i < p->count && p->turns[i] != how) i++;
  if (i == MAX_TURNS) return;
  if (i == p->count) p->turns[p->count++] = how, p->bytes[i] = 0;
  p->bytes[i] += bytes;
}

static poll new_poll(const mrt_type *type) {
  poll p = { .type = type };
  vote(&p, no_turn(type->rank), 0);
  return p;
}

/* How a value that `leader`'s group reads lies in memory. */
static void ask_input(turning *w, int leader, mrt_value *v, poll *p) {
  turn how;
  double k;
  mrt_value *base = base_of(v, &how);
  int maker = w->made_at[base->id];
  int from = maker < 0 ? -1 : w->leader[maker];
  bool repeated =
      mrt_type_count(&mrt_value_root(v)->type) < mrt_type_count(&v->type);
  if (from == leader || repeated || mrt_value_uniform(v, &k) ||
      w->asked[base->id] == leader + 1)
    return;
  w->asked[base->id] = leader + 1;
  if (from >= 0 && from < leader) /* it has been decided on */
    how = turn_then(w->chosen[from], how, v->type.rank);
  vote(p, how, (double)mrt_type_bytes(&v->type));
}

/* What a reader pays for a value in any other order: it gathers what it needs,
 * or gets a copy, which is written and read again. */
static double price(const turning *w, const permute_use *u,
                    const mrt_value *v) {
  const mrt_node *n = u->node < 0 ? NULL : w->g->nodes[u->node];
  bool any = n && u->input < 32 && n->op->strided >> u->input & 1;
  return (any ? 1 : 2) * (double)mrt_type_bytes(&v->type);
}

/* The readers of `v`, and of views that turn it, say how they want it to lie:
 * one copy serves all who want the same. */
static void ask_readers(turning *w, int leader, mrt_value *v, poll *p) {
  poll own = new_poll(&v->type);
  turn how, none = no_turn(v->type.rank);
  for (const permute_use *u = w->uses[v->id]; u; u = u->next) {
    mrt_node *n = u->node < 0 ? NULL : w->g->nodes[u->node];
    if (n && w->leader[u->node] == leader) continue;
    if (!n || !permutes(n, &how)) {
      vote(&own, none, price(w, u, v));
      continue;
    }
    for (const permute_use *x = w->uses[n->out[0]->id]; x; x = x->next)
      vote(&own, turn_back(how, v->type.rank), price(w, x, v));
  }
  double most = 2 * (double)mrt_type_bytes(&v->type);
  for (int i = 0; i < own.count; i++)
    vote(p, own.turns[i], own.bytes[i] < most ? own.bytes[i] : most);
}

static void choose(turning *w, int leader) {
  poll p = new_poll(&w->g->nodes[leader]->out[0]->type);
  for (int i = leader; i >= 0; i = w->next[i]) {
    mrt_node *n = w->g->nodes[i];
    for (int k = 0; k < n->nin; k++) ask_input(w, leader, n->in[k], &p);
    ask_readers(w, leader, n->out[0], &p);
  }
  int best = 0;
  for (int i = 1; i < p.count; i++)
    if (p.bytes[i] > p.bytes[best]) best = i;
  w->chosen[leader] = best ? p.turns[best] : no_turn(p.type->rank);
}

mrt_status mrt_pass_sink_permute(mrt_rewrite *r) {
  turning w = { .g = r->graph };
  MRT_TRY(rewrite(&w));
  MRT_TRY(gather(&w));
  for (int i = 0; i < w.g->node_count; i++)
    if (w.leader[i] == i) choose(&w, i);
  return rewrite(&w);
}
