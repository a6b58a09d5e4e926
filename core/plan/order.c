/* order.c -- when does each node run?
 *
 *   needs   layouts, and steps with their scratch, in program order
 *   gives   the executing order, chosen for the least peak of live bytes
 *           (choose.c); what any order needs (bounds.c).  Where a policy
 *           or a region says what to recompute, the peak is elsewhere
 *           afterwards: then an order of brief lives as well, and the reorder
 *           pass mends the one with clones.  So too where the planner swaps
 *           variables: updates spread over the step hide their copies.
 *   never   changes what a node reads (dag.c), needs more than program
 *           order, or looks at the clock
 *
 * SPDX-License-Identifier: MIT */
#include "solve/order/order.h"
#include "plan/dag.h"
#include "plan/planner.h"

#include <string.h>

enum { HOPELESS = 2 };

/* Nodes, steps and scratch follow the order. */
static mrt_status apply(mrt_plan *plan, const mrt_dag *f, const int *order) {
  mrt_graph *g = &plan->graph;
  mrt_node **nodes = MRT_NEW(&g->arena, mrt_node *, f->real);
  mrt_step *steps = MRT_NEW(&g->arena, mrt_step, f->real);
  if (!nodes || !steps) return MRT_ENOMEM;
  for (int i = 0, n = 0; i < f->nodes; i++) {
    if (order[i] == f->real) continue; /* the barrier */
    nodes[n] = g->nodes[order[i]];
    steps[n] = plan->steps[order[i]];
    steps[n].call.node = n;
    if (nodes[n]->scratch_buffer >= 0) {
      mrt_buffer *s = &plan->buffers[nodes[n]->scratch_buffer];
      s->first = s->last = n;
    }
    n++;
  }
  plan->steps = steps;
  mrt_graph_set_order(g, nodes, f->real);
  return MRT_OK;
}

/* What another plan of this trace has found. */
static mrt_status order_as_remembered(mrt_planner *p, const mrt_dag *f) {
  mrt_plan *plan = p->plan;
  const mrt_memo *memo = &p->memo;
  plan->info.working_set = memo->working_set;
  plan->info.order_free_bound = memo->order_free_bound;
  return apply(plan, f, memo->order);
}

/* From the order of the program, which it fills. */
static mrt_status find_bounds(mrt_plan *plan, const mrt_dag *f,
                              mrt_arena *arena, int *order) {
  int64_t working, any;
  MRT_TRY(mrt_order_program(f, arena, order));
  MRT_TRY(mrt_dag_bounds(f, plan->ctx->allocator, order, &working, &any));
  plan->info.working_set = (size_t)working;
  plan->info.order_free_bound = (size_t)any;
  return MRT_OK;
}

/* Has that plan a node of the same operator wherever this graph has one? */
static bool is_alike(const mrt_graph *g, const mrt_plan *like, int *at) {
  int n = 0;
  for (int i = 0; i < like->graph.node_count; i++) {
    const mrt_node *there = like->graph.nodes[i];
    if (there->recomputed) continue;
    if (there->id >= g->next_node || !at[there->id]) return false;
    if (g->nodes[at[there->id] - 1]->op != there->op) return false;
    n++;
  }
  return n == g->node_count;
}

/* First runs of a plan with clones, the barrier at the end. */
static mrt_status order_as_run(mrt_planner *p, const mrt_dag *f,
                               mrt_arena *arena) {
  mrt_plan *plan = p->plan;
  const mrt_graph *g = &plan->graph;
  const mrt_memo *memo = &p->memo;
  int *at = MRT_NEW(arena, int, g->next_node), n = 0;
  int *order = MRT_NEW(arena, int, f->nodes);
  if (!at || !order) return MRT_ENOMEM;
  plan->info.working_set = memo->working_set;
  plan->info.order_free_bound = memo->order_free_bound;
  for (int i = 0; i < f->real; i++) at[g->nodes[i]->id] = i + 1;
  if (memo->like && !is_alike(g, memo->like, at)) return mrt_plan_over(plan, 0);
  if (memo->like) MRT_TRY(find_bounds(plan, f, arena, order));
  for (int i = 0; i < memo->run_count; i++) {
    int *node = &at[memo->runs[i]];
    if (*node > 0) order[n++] = *node - 1;
    *node = 0;
  }
  if (n < f->nodes) order[n] = f->real;
  return apply(plan, f, order);
}

/* Others may want to know. */
static mrt_status note_order(mrt_planner *p, const mrt_dag *f, const int *order,
                             int64_t peak) {
  const mrt_plan *plan = p->plan;
  mrt_memo *memo = &p->memo;
  memo->order = MRT_NEW(p->memo_arena, int, f->nodes);
  if (!memo->order) return mrt_nomem(&plan->ctx->error);
  memcpy(memo->order, order, (size_t)f->nodes * sizeof *order);
  memo->order_peak = (size_t)peak;
  memo->working_set = plan->info.working_set;
  memo->order_free_bound = plan->info.order_free_bound;
  return MRT_OK;
}

/* Is program order so far above a plan of brief lives that nothing would mend
 * it?  Fills `order`. */
static mrt_status is_hopeless(const mrt_planner *p, const mrt_dag *f,
                              int *order, bool *hopeless) {
  const mrt_plan *plan = p->plan;
  int64_t peak;
  *hopeless = false;
  if (!plan->candidate.lowest || !p->memo.brief_arena) return MRT_OK;
  MRT_TRY(mrt_order_refine(f, plan->ctx->allocator, 0, -1, order, &peak));
  *hopeless = (size_t)peak / HOPELESS > p->memo.brief_arena;
  return MRT_OK;
}

static mrt_status order_nodes(mrt_planner *p, mrt_arena *arena,
                              mrt_order_chooser *choose) {
  mrt_plan *plan = p->plan;
  mrt_dag dag;
  bool fixed = plan->options.keep_order;
  int64_t peak;
  MRT_TRY(mrt_plan_dag(&dag, NULL, plan, arena, !fixed && !plan->part_rows));
  if (p->memo.order && choose == mrt_order_choose)
    return order_as_remembered(p, &dag);
  if (plan->candidate.seeded && choose == mrt_order_brief)
    return order_as_run(p, &dag, arena);
  int *order = MRT_NEW(arena, int, dag.nodes);
  if (!order) return MRT_ENOMEM;
  MRT_TRY(find_bounds(plan, &dag, arena, order));
  if (fixed || dag.real < 2) return MRT_OK;
  if (choose == mrt_order_refine) {
    MRT_TRY(is_hopeless(p, &dag, order, &fixed));
    if (fixed) return MRT_OK;
  }
  MRT_TRY(choose(&dag, plan->ctx->allocator,
                 (int64_t)plan->info.order_free_bound, mrt_plan_effort(plan),
                 order, &peak));
  if (choose == mrt_order_choose) p->memo.kept_peak = (size_t)peak;
  if (p->memo.order && choose == mrt_order_brief)
    p->memo.same_order =
        !memcmp(order, p->memo.order, (size_t)dag.nodes * sizeof *order);
  bool others = plan->options.memory ||
                (plan->options.prefetch && !mrt_plan_has_policy(plan));
  if (others && choose == mrt_order_choose && plan->candidate.variables == 0)
    MRT_TRY(note_order(p, &dag, order, peak));
  return apply(plan, &dag, order);
}

static mrt_status run(mrt_planner *p, mrt_order_chooser *choose) {
  mrt_plan *plan = p->plan;
  mrt_arena arena;
  mrt_arena_init(&arena, plan->ctx->allocator);
  mrt_status s = order_nodes(p, &arena, choose);
  mrt_arena_free(&arena);
  return s == MRT_ENOMEM ? mrt_nomem(&plan->ctx->error) : s;
}

mrt_status mrt_pass_order(mrt_planner *p) {
  mrt_plan *plan = p->plan;
  const mrt_candidate *candidate = &plan->candidate;
  bool brief = (mrt_plan_has_policy(plan) && !candidate->lowest) ||
               candidate->variables > 0 || candidate->brief ||
               candidate->seeded;
  return run(p, brief ? mrt_order_brief : mrt_order_choose);
}

/* The solver has looked at this very order, unless it began with segments, and
 * copies to the swap tier are where they are hidden. */
mrt_status mrt_pass_reorder(mrt_planner *p) {
  mrt_plan *plan = p->plan;
  const mrt_candidate *candidate = &plan->candidate;
  if (plan->options.memory && !candidate->segmented && !candidate->seeded)
    return MRT_OK;
  for (int i = 0; i < plan->graph.node_count; i++)
    if (plan->graph.nodes[i]->op->traits & MRT_SWAPS) return MRT_OK;
  for (int i = 0; i < plan->graph.node_count; i++)
    if (plan->graph.nodes[i]->recomputed) return run(p, mrt_order_refine);
  if (plan->options.memory) return MRT_OK;
  return mrt_plan_has_policy(plan) ? run(p, mrt_order_choose) : MRT_OK;
}
