/* candidates.c -- orders to choose from
 *
 *   program   as it was traced, only legal
 *   hoisted   the same, each update, and what an optimizer works out for it, as
 *             soon as it may run: a gradient then dies right after it is born
 *   needed    the backward pass as hoisted, and each node of the forward pass
 *             when the first node there needs it: of a computation that is cut
 *             into parts each ends, its backward pass too, before the next
 *             begins, in the order in which their gradients are added up
 *   forward, backward
 *             depth first from what nobody waits for, demanded in or against
 *             program order: everything as late as possible
 *   greedy    always the ready node that raises the peak least, then the one
 *             that leaves least alive (least peak memory first, as PyTorch's
 *             Inductor: torch/_inductor/memory.py)
 *   cost      O(edges log nodes); depth first O(edges)
 *
 * SPDX-License-Identifier: MIT */
#include "solve/order/order.h"

static mrt_status nomem(void) { return MRT_ENOMEM; }

static int *count_before(const mrt_dag *dag, mrt_arena *a) {
  int *waits = MRT_NEW(a, int, dag->nodes);
  for (int i = 0; waits && i < dag->nodes; i++)
    waits[i] = dag->before.start[i + 1] - dag->before.start[i];
  return waits;
}

/* ---- by priority --------------------------------------------------------- */

/* Is node i part of the backward pass?  What reads no other node's result is
 * not: the constants of an optimizer and of a gradient may be one node. */
static bool is_gradient(const mrt_dag *dag, int i) {
  return dag->backward[i] && dag->reads.start[i] < dag->reads.start[i + 1];
}

/* first[i]: node i is an update, or it is no gradient and only updates come of
 * it. */
static bool *find_hoisted(const mrt_dag *dag, mrt_arena *a) {
  bool *first = MRT_NEW(a, bool, dag->nodes);
  for (int i = dag->real; first && i-- > 0;) {
    int from = dag->readers.start[dag->made[i]];
    int to = dag->readers.start[dag->made[i + 1]];
    first[i] = from < to && !is_gradient(dag, i);
    for (int r = from; r < to; r++) first[i] &= first[dag->readers.item[r]];
    first[i] |= dag->update[i];
  }
  return first;
}

/* By node, when it is to run: as written, but what the backward pass needs of
 * the forward pass when the first node there does. */
static int *find_needed(const mrt_dag *dag, mrt_arena *a) {
  const mrt_lists *after = &dag->after;
  bool *needed = MRT_NEW(a, bool, dag->real);
  int *when = MRT_NEW(a, int, dag->real);
  if (!needed || !when) return NULL;
  for (int i = dag->real; i-- > 0;) {
    when[i] = i, needed[i] = is_gradient(dag, i);
    if (needed[i]) continue;
    for (int k = after->start[i]; k < after->start[i + 1]; k++) {
      int other = after->item[k];
      if (other == dag->real || !needed[other]) continue;
      if (!needed[i] || when[other] < when[i]) when[i] = when[other];
      needed[i] = true;
    }
  }
  return when;
}

typedef struct by_priority {
  const mrt_dag *dag;
  const bool *first; /* these and the barrier before the others; NULL: none */
  const int *when;   /* lowest first; NULL: as written */
  mrt_arena *arena;
  mrt_order_heap ready;
} by_priority;

static bool make_ready(by_priority *p, int i) {
  int64_t key = p->when && i < p->dag->real ? p->when[i] : i;
  if (i == p->dag->real || (p->first && p->first[i])) key = -1;
  return mrt_order_heap_push(&p->ready, p->arena,
                             (mrt_order_entry){ key, 0, i });
}

/* Of the ready nodes always the first. */
static mrt_status run_by_priority(by_priority p, int *order) {
  const mrt_dag *dag = p.dag;
  int *waits = count_before(dag, p.arena), n = 0;
  if (!waits) return nomem();
  for (int i = 0; i < dag->nodes; i++)
    if (waits[i] == 0 && !make_ready(&p, i)) return nomem();
  while (p.ready.count) {
    int node = order[n++] = mrt_order_heap_pop(&p.ready).item;
    for (int k = dag->after.start[node]; k < dag->after.start[node + 1]; k++) {
      int i = dag->after.item[k];
      if (--waits[i] == 0 && !make_ready(&p, i)) return nomem();
    }
  }
  return MRT_OK;
}

mrt_status mrt_order_program(const mrt_dag *dag, mrt_arena *a, int *order) {
  return run_by_priority((by_priority){ .dag = dag, .arena = a }, order);
}

mrt_status mrt_order_hoisted(const mrt_dag *dag, mrt_arena *a, int *order) {
  by_priority p = { .dag = dag, .first = find_hoisted(dag, a), .arena = a };
  return p.first ? run_by_priority(p, order) : nomem();
}

mrt_status mrt_order_needed(const mrt_dag *dag, mrt_arena *a, int *order) {
  by_priority p = { .dag = dag,
                    .first = find_hoisted(dag, a),
                    .when = find_needed(dag, a),
                    .arena = a };
  return p.first && p.when ? run_by_priority(p, order) : nomem();
}

/* ---- depth first --------------------------------------------------------- */

typedef struct demanding {
  const mrt_dag *dag;
  int *next;  /* by node: which predecessor to visit next; start - 1: fresh */
  int *stack; /* nodes whose predecessors are being visited */
  int *order, n;
} demanding;

static void demand(demanding *d, int root) {
  const mrt_lists *before = &d->dag->before;
  int depth = 0;
  if (d->next[root] < 0) d->stack[depth++] = root, d->next[root] = 0;
  while (depth) {
    int node = d->stack[depth - 1];
    int at = before->start[node] + d->next[node]++;
    if (at >= before->start[node + 1]) {
      d->order[d->n++] = node, depth--;
    } else if (d->next[before->item[at]] < 0) {
      d->next[before->item[at]] = 0;
      d->stack[depth++] = before->item[at];
    }
  }
}

static mrt_status depth_first(const mrt_dag *dag, mrt_arena *a, int *order,
                              bool backward) {
  demanding d = { dag, MRT_NEW(a, int, dag->nodes), MRT_NEW(a, int, dag->nodes),
                  order, 0 };
  if (!d.next || !d.stack) return nomem();
  for (int i = 0; i < dag->nodes; i++) d.next[i] = -1;
  for (int i = 0; i < dag->nodes; i++) {
    int node = backward ? dag->nodes - 1 - i : i;
    if (dag->after.start[node] == dag->after.start[node + 1]) demand(&d, node);
  }
  return MRT_OK;
}

mrt_status mrt_order_forward(const mrt_dag *dag, mrt_arena *a, int *order) {
  return depth_first(dag, a, order, false);
}

mrt_status mrt_order_backward(const mrt_dag *dag, mrt_arena *a, int *order) {
  return depth_first(dag, a, order, true);
}

/* ---- greedy -------------------------------------------------------------- */

enum { GLANCE = 16 }; /* ready nodes looked at for one step */

typedef struct greedy {
  const mrt_dag *dag;
  mrt_arena *arena;
  mrt_order_heap ready; /* by change of live bytes; stale entries are skipped */
  int *waits, *left;
  int *xored;      /* by buffer: its waiting readers, exclusive-ored */
  int64_t *change; /* by node: of live bytes, were it run now */
  bool *done;
  int64_t live, peak;
} greedy;

static bool offer(greedy *g, int node) {
  return mrt_order_heap_push(&g->ready, g->arena,
                             (mrt_order_entry){ g->change[node], 0, node });
}

static mrt_status begin(greedy *g) {
  const mrt_dag *dag = g->dag;
  for (int b = 0; b < dag->buffers; b++) {
    int readers = dag->readers.start[b + 1] - dag->readers.start[b];
    g->left[b] = readers;
    if (readers) g->change[dag->maker[b]] += dag->bytes[b];
    for (int k = dag->readers.start[b]; k < dag->readers.start[b + 1]; k++)
      g->xored[b] ^= dag->readers.item[k];
    if (readers == 1) g->change[g->xored[b]] -= dag->bytes[b];
  }
  for (int i = 0; i < dag->nodes; i++)
    if (g->waits[i] == 0 && !offer(g, i)) return nomem();
  return MRT_OK;
}

/* The first of the best changes that fits under the peak, else the lowest. */
static int choose(greedy *g) {
  mrt_order_entry seen[GLANCE];
  int n = 0, best = -1;
  int64_t best_use = 0;
  while (n < GLANCE && g->ready.count) {
    mrt_order_entry e = mrt_order_heap_pop(&g->ready);
    if (g->done[e.item] || e.key != g->change[e.item]) continue;
    int64_t use = mrt_dag_use(g->dag, e.item, g->live, g->left);
    if (best < 0 || use < best_use) best = n, best_use = use;
    seen[n++] = e;
    if (use <= g->peak) break;
  }
  for (int i = 0; i < n; i++) /* there is room: they came from there */
    if (i != best) mrt_order_heap_push(&g->ready, g->arena, seen[i]);
  if (best_use > g->peak) g->peak = best_use;
  return seen[best].item;
}

static mrt_status run(greedy *g, int node) {
  const mrt_dag *dag = g->dag;
  g->done[node] = true, g->live += g->change[node];
  for (int k = dag->reads.start[node]; k < dag->reads.start[node + 1]; k++) {
    int b = dag->reads.item[k];
    g->xored[b] ^= node;
    if (--g->left[b] != 1) continue;
    int reader = g->xored[b]; /* the last one: it will free the buffer */
    g->change[reader] -= dag->bytes[b];
    if (g->waits[reader] == 0 && !offer(g, reader)) return nomem();
  }
  for (int k = dag->after.start[node]; k < dag->after.start[node + 1]; k++)
    if (--g->waits[dag->after.item[k]] == 0 && !offer(g, dag->after.item[k]))
      return nomem();
  return MRT_OK;
}

mrt_status mrt_order_greedy(const mrt_dag *dag, mrt_arena *a, int *order) {
  greedy g = { .dag = dag,
               .arena = a,
               .waits = count_before(dag, a),
               .left = MRT_NEW(a, int, dag->buffers),
               .xored = MRT_NEW(a, int, dag->buffers),
               .change = MRT_NEW(a, int64_t, dag->nodes),
               .done = MRT_NEW(a, bool, dag->nodes) };
  if (!g.waits || !g.left || !g.xored || !g.change || !g.done) return nomem();
  MRT_TRY(begin(&g));
  for (int i = 0; i < dag->nodes; i++) {
    order[i] = choose(&g);
    MRT_TRY(run(&g, order[i]));
  }
  return MRT_OK;
}
