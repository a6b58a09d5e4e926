/* overlap_collectives.c -- which collectives run beside the steps, from when?
 *
 *   needs   the executing order, clones included
 *   gives   an order in which lazy collectives that are worth it begin ahead: a
 *           node `arrive` waits for each, before its first reader
 *   method  Gathers and reductions take turns, as one thread does them.  From
 *           the last to the first: when must each begin to be over when it is
 *           read?  From the first to the last each begins earlier, with casts
 *           of variables that it reads, until that is so.  Then what reads a
 *           reduction (an update, mostly) runs later until the reduction is
 *           over.  Each move past a node is made if the live bytes stay below
 *           the peak of the order as it was, or below the budget.  What has
 *           not moved runs where it stands.
 *   cost    O(nodes * collectives)
 *   never   changes the order of collectives or what a node reads, has more
 *           gathers under way than options.prefetch, lifts an update over an
 *           index check, or looks at the clock
 *   from    the prefetching of FSDP (Zhao et al., PyTorch FSDP, VLDB 2023),
 *           under a limit as in DeepCompile (Tanaka et al. 2025,
 *           arXiv:2504.09983)
 *
 * SPDX-License-Identifier: MIT */
#include "device/device.h"
#include "op/collective.h"
#include "plan/cost.h"
#include "plan/dag.h"

#include <math.h>

enum { MOST_JOINED = 32 }; /* nodes that move together */

/* How much longer than predicted a collective may take. */
static const double margin = 2;

/* So much of a budget is left to what packing does not fill. */
enum { UNFILLED = 64 };

typedef struct meeting {
  int node, arrive; /* of the dag */
  bool gather;
  double seconds;
  double wanted; /* it should begin when the steps before take so long */
} meeting;

typedef struct collective_moving {
  mrt_plan *plan;
  mrt_graph *g;
  mrt_arena arena;
  mrt_dag dag;
  mrt_live_profile profile;
  meeting *list; /* in the order of collectives */
  int count, room;
  int *meeting_of; /* by node: of a collective or its arrive; -1 */
  int *at;         /* by node: its position */
  int *part;       /* a part of the order, rearranged */
  double *time;    /* by position: of the steps before */
  int64_t limit;   /* of live bytes */
} collective_moving;

/* ---- nodes that wait ----------------------------------------------------- */

/* Of what has storage of its own: readers; -1: it is a result of the plan. */
static void count_uses(const mrt_graph *g) {
  for (int i = 0; i < g->value_count; i++) g->values[i]->uses = 0;
  for (int i = 0; i < g->node_count; i++)
    for (int k = 0; k < g->nodes[i]->nin; k++) g->nodes[i]->in[k]->base->uses++;
  for (int i = 0; i < g->output_count; i++) g->outputs[i]->base->uses = -1;
}

/* Handing over and waiting take about two launches. */
static bool may_begin_ahead(const mrt_plan *plan, const mrt_node *n) {
  const mrt_collective_options *o = n->options;
  return mrt_is_lazy(n->op, o) && o->size > 1 && n->out[0]->base->uses > 0 &&
         mrt_node_seconds(plan, n) > 2 * plan->device.launch;
}

/* Will the result lie where its input does?  As lifetime.c decides it, where
 * nothing else reads that. */
static bool takes_place(const mrt_plan *plan, const mrt_node *n) {
  const mrt_value *x = n->in[0];
  return (n->op->inplace & 1) && !plan->options.no_inplace &&
         x->base->leaf == MRT_LEAF_NONE && x->base->uses == 1 &&
         x->offset == 0 && mrt_value_contiguous(x) &&
         mrt_type_same_shape(&x->type, &n->out[0]->type) &&
         mrt_type_bytes(&x->type) == mrt_type_bytes(&x->base->type);
}

static mrt_status add_arrive(collective_moving *w, mrt_node *n,
                             mrt_node **arrive) {
  mrt_value *in[] = { n->out[0], n->in[0] };
  int nin = takes_place(w->plan, n) ? 1 : 2;
  *arrive = mrt_graph_node(w->g, mrt_ops[MRT_OP_arrive], nin, in, NULL, 0, NULL,
                           n->origin);
  return *arrive ? MRT_OK : mrt_nomem(&w->g->ctx->error);
}

/* Behind each collective that may begin ahead, a node that waits for it. */
static mrt_status add_all(collective_moving *w) {
  mrt_graph *g = w->g;
  mrt_node **nodes = MRT_NEW(&g->arena, mrt_node *, 2 * g->node_count);
  int n = 0;
  if (!nodes) return mrt_nomem(&g->ctx->error);
  count_uses(g);
  for (int i = 0; i < g->node_count; i++) {
    mrt_node *from = g->nodes[i];
    nodes[n++] = from;
    if (!may_begin_ahead(w->plan, from)) continue;
    if (!MRT_PUSH_ROOM(&w->arena, w->list, w->count, w->room))
      return mrt_nomem(&g->ctx->error);
    w->list[w->count++] =
        (meeting){ .node = n - 1,
                   .arrive = n,
                   .gather = from->op->number == MRT_OP_allgather,
                   .seconds = margin * mrt_node_seconds(w->plan, from) };
    MRT_TRY(add_arrive(w, from, &nodes[n++]));
  }
  return w->count ? mrt_plan_insert(w->plan, nodes, n) : MRT_OK;
}

static mrt_status make(collective_moving *w) {
  MRT_TRY(mrt_plan_dag(&w->dag, NULL, w->plan, &w->arena, false));
  MRT_TRY(mrt_live_profile_make(&w->profile, &w->dag, &w->arena));
  int n = w->dag.nodes;
  const mrt_plan_options *o = &w->plan->options;
  w->meeting_of = MRT_NEW(&w->arena, int, n);
  w->at = MRT_NEW(&w->arena, int, n);
  w->part = MRT_NEW(&w->arena, int, n);
  w->time = MRT_NEW(&w->arena, double, n + 1);
  if (!w->meeting_of || !w->at || !w->part || !w->time) return MRT_ENOMEM;
  for (int i = 0; i < n; i++) w->at[i] = w->part[i] = i, w->meeting_of[i] = -1;
  for (int b = 0; b < w->dag.buffers; b++) w->profile.last[b] = -1;
  for (int i = 0; i < w->count; i++)
    w->meeting_of[w->list[i].node] = w->meeting_of[w->list[i].arrive] = i;
  w->limit = mrt_live_profile_sweep(&w->profile, 0, n - 1, w->part, true);
  int64_t budget = (int64_t)(o->memory - o->memory / UNFILLED) -
                   (int64_t)mrt_plan_rest(w->plan);
  if (budget > w->limit) w->limit = budget;
  w->limit -= w->plan->candidate.slack;
  return MRT_OK;
}

/* ---- moves --------------------------------------------------------------- */

static bool any_in(const mrt_lists *l, int node, const int *nodes, int count) {
  for (int k = l->start[node]; k < l->start[node + 1]; k++)
    for (int i = 0; i < count; i++)
      if (l->item[k] == nodes[i]) return true;
  return false;
}

/* Positions from..to-1 become those of the part, if memory allows. */
static bool try(collective_moving *w, int from, int to) {
  mrt_live_profile *p = &w->profile;
  if (mrt_live_profile_sweep(p, from, to - 1, w->part, false) > w->limit)
    return false;
  mrt_live_profile_sweep(p, from, to - 1, w->part, true);
  for (int i = from; i < to; i++) w->at[p->order[i]] = i;
  return true;
}

/* The node at `from` goes behind those up to `to`; or that at `to`, `up`,
 * before those from `from` on. */
static bool pass(collective_moving *w, int from, int to, bool up) {
  const int *order = w->profile.order;
  int n = to - from;
  for (int i = 0; i <= n; i++)
    w->part[i] =
        up ? order[i ? from + i - 1 : to] : order[i < n ? from + i + 1 : from];
  return try(w, from, to + 1);
}

static bool is_arrive(const collective_moving *w, int node) {
  int m = w->meeting_of[node];
  return m >= 0 && w->list[m].arrive == node;
}

static bool runs_beside(const collective_moving *w, const meeting *m) {
  return w->at[m->arrive] > w->at[m->node] + 1;
}

/* Gathers that are under way before the node at this position. */
static int gathers_at(const collective_moving *w, int position) {
  int n = 0;
  for (int i = 0; i < w->count; i++) {
    const meeting *m = &w->list[i];
    n += m->gather && w->at[m->node] < position && w->at[m->arrive] >= position;
  }
  return n;
}

/* May one more be under way where this node begins or ends one? */
static bool has_room(const collective_moving *w, int node, int position) {
  int m = w->meeting_of[node];
  return m < 0 || !w->list[m].gather ||
         gathers_at(w, position) < w->plan->options.prefetch;
}

static double seconds_of(const collective_moving *w, int node) {
  int m = w->meeting_of[node];
  if (m < 0) return w->plan->steps[node].seconds;
  if (is_arrive(w, node) || runs_beside(w, &w->list[m])) return 0;
  return w->list[m].seconds / margin;
}

/* What is certain to be done beside counts for nothing; of the others `all`
 * are taken to be so. */
static void add_up_time(collective_moving *w, bool all) {
  for (int i = 0; i < w->dag.nodes; i++) {
    int node = w->profile.order[i];
    double own = all && w->meeting_of[node] >= 0 ? 0 : seconds_of(w, node);
    w->time[i + 1] = w->time[i] + own;
  }
}

/* ---- earlier ------------------------------------------------------------- */

static int first_reader(const collective_moving *w, const meeting *m) {
  const mrt_lists *after = &w->dag.after;
  int first = w->dag.nodes;
  for (int k = after->start[m->arrive]; k < after->start[m->arrive + 1]; k++)
    if (w->at[after->item[k]] < first) first = w->at[after->item[k]];
  return first;
}

static void set_deadlines(collective_moving *w) {
  double next = INFINITY;
  add_up_time(w, true);
  for (int i = w->count; i-- > 0;) {
    meeting *m = &w->list[i];
    next = fmin(next, w->time[first_reader(w, m)]) - m->seconds;
    m->wanted = next;
  }
}

/* It waits for nothing: it may go along. */
static bool may_join(const collective_moving *w, int node) {
  const mrt_lists *before = &w->dag.before;
  return before->start[node] == before->start[node + 1] &&
         !w->dag.update[node] && w->meeting_of[node] < 0;
}

static void begin_earlier(collective_moving *w, const meeting *m) {
  const int *order = w->profile.order;
  int to = w->at[m->node], from = to;
  double now = w->time[from];
  while (from > 0 && now > m->wanted) {
    int before = order[from - 1];
    bool waits = any_in(&w->dag.after, before, order + from, to - from + 1);
    now -= seconds_of(w, before);
    if (waits) {
      if (!may_join(w, before) || to - from == MOST_JOINED) return;
      from--;
      continue;
    }
    if (m->gather && !has_room(w, before, from - 1)) return;
    if (!pass(w, from - 1, to, false)) return;
    from--, to--;
  }
}

/* ---- later --------------------------------------------------------------- */

/* An update stays behind index checks: a bad one changes nothing. */
static bool lifts_update(const collective_moving *w, int next, int from,
                         int to) {
  const int *order = w->profile.order;
  bool checks = false;
  for (int i = from; i <= to; i++)
    checks |= (w->g->nodes[order[i]]->op->traits & MRT_FAULTS) != 0;
  return checks && w->dag.update[next];
}

/* Until the collective is over, which is when the steps before take `over`. */
static void read_later(collective_moving *w, const meeting *m, double over) {
  const int *order = w->profile.order;
  int from = w->at[m->arrive], to = from;
  double now = w->time[from];
  while (to + 1 < w->dag.nodes && now < over) {
    int next = order[to + 1];
    bool waits = any_in(&w->dag.before, next, order + from, to - from + 1);
    if (waits) {
      if (m->gather || w->meeting_of[next] >= 0 || to - from == MOST_JOINED)
        return;
      to++;
      continue;
    }
    if (m->gather && !has_room(w, next, from)) return;
    if (lifts_update(w, next, from, to)) return;
    if (!pass(w, from, to + 1, true)) return;
    now += seconds_of(w, next);
    from++, to++;
  }
}

static void read_all_later(collective_moving *w) {
  double free = 0; /* when the thread is */
  for (int i = 0; i < w->count; i++) {
    const meeting *m = &w->list[i];
    add_up_time(w, false);
    free = fmax(free, w->time[w->at[m->node]]) + m->seconds;
    read_later(w, m, free);
    if (!runs_beside(w, m)) free = w->time[w->at[m->node] + 1];
  }
}

/* ---- all ----------------------------------------------------------------- */

/* Clones share their options with others. */
static mrt_status mark_ahead(mrt_plan *plan, int step) {
  mrt_node *n = plan->graph.nodes[step];
  mrt_collective_options *own =
      MRT_NEW(&plan->graph.arena, mrt_collective_options, 1);
  if (!own) return mrt_nomem(&plan->ctx->error);
  *own = *(const mrt_collective_options *)n->options;
  own->ahead = true;
  plan->steps[step].call.options = n->options = own;
  plan->overlap_count++;
  return MRT_OK;
}

/* The order as it has become, without the nodes that wait for nothing. */
static mrt_status apply(collective_moving *w) {
  mrt_graph *g = w->g;
  mrt_node **nodes = MRT_NEW(&g->arena, mrt_node *, w->dag.nodes);
  int n = 0;
  if (!nodes) return mrt_nomem(&g->ctx->error);
  for (int i = 0; i < w->dag.nodes; i++) {
    int node = w->profile.order[i], m = w->meeting_of[node];
    if (m >= 0 && runs_beside(w, &w->list[m]) && !is_arrive(w, node))
      MRT_TRY(mark_ahead(w->plan, node));
    if (m < 0 || runs_beside(w, &w->list[m]) || !is_arrive(w, node))
      nodes[n++] = g->nodes[node];
  }
  return mrt_plan_insert(w->plan, nodes, n);
}

static mrt_status move(collective_moving *w) {
  MRT_TRY(add_all(w));
  if (!w->count) return MRT_OK;
  MRT_TRY(make(w));
  set_deadlines(w);
  for (int i = 0; i < w->count; i++) {
    add_up_time(w, true);
    begin_earlier(w, &w->list[i]);
  }
  read_all_later(w);
  return apply(w);
}

bool mrt_overlap_possible(const mrt_plan *plan) {
  const mrt_plan_options *o = &plan->options;
  if (o->prefetch <= 0 || o->keep_order || plan->swaps) return false;
  count_uses(&plan->graph);
  for (int i = 0; i < plan->graph.node_count; i++)
    if (may_begin_ahead(plan, plan->graph.nodes[i])) return true;
  return false;
}

mrt_status mrt_pass_overlap_collectives(mrt_planner *p) {
  mrt_plan *plan = p->plan;
  collective_moving w = { .plan = plan, .g = &plan->graph };
  if (!plan->candidate.overlap || !mrt_overlap_possible(plan)) return MRT_OK;
  mrt_arena_init(&w.arena, plan->ctx->allocator);
  mrt_status s = move(&w);
  mrt_arena_free(&w.arena);
  return s == MRT_ENOMEM ? mrt_nomem(&plan->ctx->error) : s;
}
