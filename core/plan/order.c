/* order.c -- when does each node run?
 *
 *   needs   layouts, and steps with their scratch, in program order
 *   gives   the executing order, chosen for the least peak of live bytes; what
 *           any order needs
 *   method  The best of a few orders (order_start.c) by simulating each; of a
 *           small graph the best of all (order_exact.c); otherwise moves at
 *           the peak (order_moves.c), from several starts unless the graph is
 *           large.  All stop at the bound that holds for any order (bounds.c).
 *           Ties go to program order.
 *   never   changes what a node reads (precedence.c), needs more than program
 *           order, or looks at the clock
 *
 * SPDX-License-Identifier: MIT */
#include "plan/order.h"

#include <string.h>

enum {
  FEW_SETS = 1 << 12,  /* of the exact search over a small graph */
  MANY_SETS = 1 << 18, /* ... and over one of EXACT_FOR_SURE nodes */
  EXACT_FOR_SURE = 24,
  LARGE = 20000,      /* nodes up to which moves start from every order */
  THOROUGH = 1000,    /* nodes up to which they start again, */
  SHAKES = 48,        /* so many times from near the best order, unless */
  ENOUGH = 4,         /* so many starts have led to the same peak, or */
  PATIENCE = 12,      /* so many in turn have not helped */
  WORK_SMALL = 10000, /* edges looked at by the moves, per node of these */
  WORK_LARGE = 500    /* ... and per node beyond */
};

typedef struct ordering {
  const mrt_flow *flow;
  mrt_arena arena;
  mrt_profile profile; /* for trying */
  int *order, *best;   /* node numbers */
  int64_t peak, floor; /* of `best`; of any order */
  int agreed;          /* starts from which moves have led to `peak` */
  bool near;           /* take as good an order too: go elsewhere from there */
} ordering;

typedef mrt_status (*start)(const mrt_flow *f, mrt_arena *a, int *order);
static const start starts[] = { mrt_order_program, mrt_order_hoisted,
                                mrt_order_backward, mrt_order_forward,
                                mrt_order_greedy };

static void copy(int *to, const int *from, int n) {
  memcpy(to, from, (size_t)n * sizeof *to);
}

static void keep(ordering *o, const int *order, int64_t peak) {
  if (peak > o->peak || (peak == o->peak && !o->near)) return;
  o->peak = peak;
  copy(o->best, order, o->flow->nodes);
}

static int64_t load(ordering *o, const int *order) {
  for (int b = 0; b < o->flow->blocks; b++) o->profile.last[b] = -1;
  return mrt_profile_sweep(&o->profile, 0, o->flow->nodes - 1, order, true);
}

static mrt_status improve(ordering *o, const int *order) {
  int n = o->flow->nodes;
  int small = n < THOROUGH ? n : THOROUGH;
  int64_t work =
      (int64_t)WORK_SMALL * small + (int64_t)WORK_LARGE * (n - small);
  int64_t peak = load(o, order);
  mrt_arena a;
  mrt_arena_init(&a, o->arena.allocator);
  mrt_status s = mrt_order_improve(&o->profile, &a, o->floor, work, &peak);
  mrt_arena_free(&a);
  if (peak < o->peak) o->agreed = 0;
  if (peak <= o->peak) o->agreed++;
  keep(o, o->profile.order, peak);
  return s;
}

/* Of a small graph the best of all orders; *done when that is certain. */
static mrt_status exact(ordering *o, int sets, bool *done) {
  mrt_arena a;
  mrt_arena_init(&a, o->arena.allocator);
  mrt_exact *x = mrt_exact_make(o->flow, &a, sets);
  int64_t peak = load(o, o->best), work = 0;
  if (x) {
    mrt_found found =
        mrt_exact_window(x, &o->profile, 0, o->flow->nodes - 1, &peak, &work);
    *done = found != MRT_FOUND_NOTHING;
    if (found == MRT_FOUND_BETTER) keep(o, o->profile.order, peak);
  }
  mrt_arena_free(&a);
  return x ? MRT_OK : MRT_ENOMEM;
}

/* All candidates; `moves`: each improved. */
static mrt_status try_all(ordering *o, bool moves) {
  for (int i = 0; i < MRT_COUNT(starts) && o->peak > o->floor; i++) {
    MRT_TRY(starts[i](o->flow, &o->arena, o->order));
    if (moves)
      MRT_TRY(improve(o, o->order));
    else
      keep(o, o->order, load(o, o->order));
  }
  return MRT_OK;
}

/* From near the best order again, until that has not helped for a while. */
static mrt_status try_near(ordering *o) {
  o->near = true;
  for (int i = 0, idle = 0; i < SHAKES && idle < PATIENCE; i++) {
    int64_t peak = o->peak;
    if (peak <= o->floor || o->agreed >= ENOUGH) break;
    copy(o->order, o->best, o->flow->nodes);
    MRT_TRY(mrt_order_shake(o->flow, &o->arena, (uint64_t)i, o->order));
    MRT_TRY(improve(o, o->order));
    idle = o->peak < peak ? 0 : idle + 1;
  }
  return MRT_OK;
}

static mrt_status choose(ordering *o) {
  int n = o->flow->nodes;
  bool done = false;
  MRT_TRY(try_all(o, false));
  if (o->peak > o->floor && n <= MRT_EXACT_NODES)
    MRT_TRY(exact(o, FEW_SETS, &done));
  if (o->peak > o->floor && !done && n <= EXACT_FOR_SURE)
    MRT_TRY(exact(o, MANY_SETS, &done));
  if (o->peak <= o->floor || done) return MRT_OK;
  if (n <= LARGE) {
    MRT_TRY(try_all(o, true));
    return n <= THOROUGH ? try_near(o) : MRT_OK;
  }
  copy(o->order, o->best, n);
  return improve(o, o->order);
}

/* ---- the pass ------------------------------------------------------------------ */

/* Nodes, steps and scratch follow the order. */
static mrt_status apply(mrt_plan *plan, const mrt_flow *f, const int *order) {
  mrt_graph *g = &plan->graph;
  mrt_node **nodes = MRT_NEW(&g->arena, mrt_node *, f->real);
  mrt_step *steps = MRT_NEW(&g->arena, mrt_step, f->real);
  if (!nodes || !steps) return MRT_ENOMEM;
  for (int i = 0, n = 0; i < f->nodes; i++) {
    if (order[i] == f->real) continue; /* the barrier */
    nodes[n] = g->nodes[order[i]];
    steps[n] = plan->steps[order[i]];
    steps[n].call.node = n;
    if (nodes[n]->scratch_slot >= 0) {
      mrt_slot *s = &plan->slots[nodes[n]->scratch_slot];
      s->first = s->last = n;
    }
    n++;
  }
  plan->steps = steps;
  mrt_graph_set_order(g, nodes, f->real);
  return MRT_OK;
}

static mrt_status order_nodes(mrt_plan *plan, ordering *o) {
  mrt_flow flow;
  bool fixed = plan->options.keep_order;
  int64_t working;
  o->flow = &flow;
  MRT_TRY(mrt_flow_make(&flow, plan, &o->arena, !fixed));
  MRT_TRY(mrt_profile_make(&o->profile, &flow, &o->arena));
  o->order = MRT_NEW(&o->arena, int, flow.nodes);
  o->best = MRT_NEW(&o->arena, int, flow.nodes);
  if (!o->order || !o->best) return MRT_ENOMEM;
  MRT_TRY(mrt_order_program(&flow, &o->arena, o->order));
  MRT_TRY(mrt_flow_bounds(&flow, plan->ctx, o->order, &working, &o->floor));
  plan->info.working_set = (size_t)working;
  plan->info.order_free_bound = (size_t)o->floor;
  if (fixed || flow.real < 2) return MRT_OK;
  MRT_TRY(choose(o));
  return apply(plan, &flow, o->best);
}

mrt_status mrt_pass_order(mrt_plan *plan) {
  ordering o = { .peak = INT64_MAX };
  mrt_arena_init(&o.arena, plan->ctx->allocator);
  mrt_status s = order_nodes(plan, &o);
  mrt_arena_free(&o.arena);
  return s == MRT_ENOMEM ? mrt_nomem(&plan->ctx->error) : s;
}
