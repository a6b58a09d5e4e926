/* exact_window.c -- the best order of a few nodes that stand together
 *
 *   question  can positions [from, to] run with a lower peak?
 *   facts     What lives after a set of nodes has run depends on the set only,
 *             not on its order.
 *   method    Search over such sets (closed under predecessors), always going
 *             on from the one reached with the least peak, the larger set
 *             first; each is kept once.  A node that leaves no more alive than
 *             before and does not raise the peak is run at once: no order that
 *             runs it later is better.  A fixed number of sets, never the
 *             clock.
 *   cost      O(sets * edges of the part)
 *
 * SPDX-License-Identifier: MIT */
#include "solve/order/order.h"

#include <string.h>

typedef struct state {
  uint64_t ran; /* bit i: the i-th node of the part has run */
  int64_t live, peak;
  int from, node; /* the state it was reached from, by running which */
} state;

struct mrt_order_exact {
  const mrt_dag *dag;
  mrt_arena *arena;
  state *states;
  int count, most;
  int *table, size; /* 1 + state, by hash of `ran`; size a power of two */
  mrt_order_heap open;
  int *local_node, *local_buffer; /* 1 + number in the part */
  int *buffers, buffer_count;     /* of the part */
  uint64_t *readers;              /* by local buffer; bit 63: read after it */
  int *left;                      /* by buffer: for mrt_dag_use */
  uint64_t before[MRT_ORDER_EXACT_NODES];
  int nodes[MRT_ORDER_EXACT_NODES], count_nodes;
  int64_t peak; /* to get below */
  int64_t looked;
};

#define AFTERWARDS ((uint64_t)1 << 63)

mrt_order_exact *mrt_order_exact_new(const mrt_dag *dag, mrt_arena *a,
                                     int states) {
  mrt_order_exact *x = MRT_NEW(a, mrt_order_exact, 1);
  if (!x) return NULL;
  *x = (mrt_order_exact){ .dag = dag,
                          .arena = a,
                          .most = states,
                          .size = 1,
                          .states = MRT_NEW(a, state, states),
                          .local_node = MRT_NEW(a, int, dag->nodes),
                          .local_buffer = MRT_NEW(a, int, dag->buffers),
                          .buffers = MRT_NEW(a, int, dag->buffers),
                          .readers = MRT_NEW(a, uint64_t, dag->buffers),
                          .left = MRT_NEW(a, int, dag->buffers) };
  while (x->size < 2 * states) x->size *= 2;
  x->table = MRT_NEW(a, int, x->size);
  bool ok = x->states && x->local_node && x->local_buffer && x->buffers &&
            x->readers && x->left && x->table;
  return ok ? x : NULL;
}

/* ---- the part ------------------------------------------------------------ */

static void enter(mrt_order_exact *x, const mrt_live_profile *p, int from,
                  int to) {
  const mrt_dag *dag = x->dag;
  x->count_nodes = to - from + 1, x->buffer_count = 0;
  for (int i = 0; i < x->count_nodes; i++) {
    x->nodes[i] = p->order[from + i];
    x->local_node[x->nodes[i]] = i + 1;
  }
  for (int i = 0; i < x->count_nodes; i++) {
    int n = x->nodes[i];
    x->before[i] = 0;
    for (int k = dag->before.start[n]; k < dag->before.start[n + 1]; k++) {
      int l = x->local_node[dag->before.item[k]];
      if (l) x->before[i] |= (uint64_t)1 << (l - 1);
    }
    for (int k = dag->reads.start[n]; k < dag->reads.start[n + 1]; k++) {
      int b = dag->reads.item[k];
      if (!x->local_buffer[b]) {
        x->buffers[x->buffer_count++] = b;
        x->local_buffer[b] = x->buffer_count;
        x->readers[x->buffer_count - 1] = p->last[b] > to ? AFTERWARDS : 0;
      }
      x->readers[x->local_buffer[b] - 1] |= (uint64_t)1 << i;
    }
  }
}

static void leave(mrt_order_exact *x) {
  for (int i = 0; i < x->count_nodes; i++) x->local_node[x->nodes[i]] = 0;
  for (int i = 0; i < x->buffer_count; i++) x->local_buffer[x->buffers[i]] = 0;
}

/* The state after node i has run: bytes and peak. */
static state after(mrt_order_exact *x, const state *s, int i) {
  const mrt_dag *dag = x->dag;
  int n = x->nodes[i];
  uint64_t bit = (uint64_t)1 << i;
  state next = { .ran = s->ran | bit, .live = s->live, .node = i };
  for (int k = dag->reads.start[n]; k < dag->reads.start[n + 1]; k++) {
    int b = dag->reads.item[k];
    bool dies = (x->readers[x->local_buffer[b] - 1] & ~s->ran) == bit;
    x->left[b] = dies ? 1 : 2;
    if (dies) next.live -= dag->bytes[b];
  }
  for (int b = dag->made[n]; b < dag->made[n + 1]; b++)
    if (dag->readers.start[b] < dag->readers.start[b + 1])
      next.live += dag->bytes[b];
  int64_t use = mrt_dag_use(dag, n, s->live, x->left);
  next.peak = use > s->peak ? use : s->peak;
  x->looked += dag->reads.start[n + 1] - dag->reads.start[n] + 2;
  return next;
}

/* ---- the search ---------------------------------------------------------- */

static int *find(mrt_order_exact *x, uint64_t ran) {
  uint64_t h = ran * 0x9E3779B97F4A7C15u;
  int at = (int)((h ^ h >> 32) & (uint64_t)(x->size - 1));
  while (x->table[at] && x->states[x->table[at] - 1].ran != ran)
    at = (at + 1) & (x->size - 1);
  return &x->table[at];
}

/* Keep `s` if it is new or better; false when there is no room. */
static bool reach(mrt_order_exact *x, state s) {
  int *slot = find(x, s.ran);
  if (*slot && x->states[*slot - 1].peak <= s.peak) return true;
  if (!*slot) {
    if (x->count == x->most) return false;
    *slot = ++x->count;
  }
  x->states[*slot - 1] = s;
  mrt_order_entry e = { s.peak, -__builtin_popcountll(s.ran), *slot - 1 };
  return mrt_order_heap_push(&x->open, x->arena, e);
}

static bool extend(mrt_order_exact *x, int from) {
  state s = x->states[from], next[MRT_ORDER_EXACT_NODES];
  int n = 0;
  for (int i = 0; i < x->count_nodes; i++) {
    if (s.ran >> i & 1 || (x->before[i] & ~s.ran)) continue;
    next[n] = after(x, &s, i);
    next[n].from = from;
    if (next[n].live <= s.live && next[n].peak <= s.peak)
      return reach(x, next[n]);
    if (next[n].peak < x->peak) n++;
  }
  for (int i = 0; i < n; i++)
    if (!reach(x, next[i])) return false;
  return true;
}

enum { NONE = -1, TOO_MANY = -2 };

/* The state where all have run, NONE below x->peak, or TOO_MANY to tell. */
static int search(mrt_order_exact *x, int64_t live) {
  uint64_t all = ((uint64_t)1 << x->count_nodes) - 1;
  memset(x->table, 0, (size_t)x->size * sizeof *x->table);
  x->count = x->open.count = 0;
  if (!reach(x, (state){ .live = live, .from = -1 })) return TOO_MANY;
  while (x->open.count) {
    mrt_order_entry e = mrt_order_heap_pop(&x->open);
    const state *s = &x->states[e.item];
    if (e.key != s->peak) continue; /* reached better since */
    if (s->ran == all) return e.item;
    if (!extend(x, e.item)) return TOO_MANY;
  }
  return NONE;
}

mrt_order_found mrt_order_exact_window(mrt_order_exact *x, mrt_live_profile *p,
                                       int from, int to, int64_t *peak,
                                       int64_t *work) {
  int order[MRT_ORDER_EXACT_NODES];
  x->peak = *peak, x->looked = x->size / 16;
  enter(x, p, from, to);
  int end = search(x, p->start[from]);
  leave(x);
  *work -= x->looked;
  if (end < 0) return end == NONE ? MRT_ORDER_BEST : MRT_ORDER_UNKNOWN;
  int i = x->count_nodes;
  for (int s = end; x->states[s].from >= 0; s = x->states[s].from)
    order[--i] = x->nodes[x->states[s].node];
  *peak = mrt_live_profile_sweep(p, from, to, order, true);
  return MRT_ORDER_BETTER;
}
