/* live_profile.c -- how many bytes live at each step of an order?
 *
 *   facts   as lifetime.c will have it: a buffer lives from its maker to its
 *           last reader, scratch while its node runs, and an output takes the
 *           place of an input that dies there
 *   method  One sweep that counts each buffer's reads down.  A part of an
 *           order can be swept alone: what is read after it does not die.
 *   cost    O(nodes + reads) of the part
 *
 * SPDX-License-Identifier: MIT */
#include "solve/order/order.h"

mrt_status mrt_live_profile_make(mrt_live_profile *p, const mrt_dag *dag,
                                 mrt_arena *arena) {
  *p = (mrt_live_profile){ .dag = dag,
                           .order = MRT_NEW(arena, int, dag->nodes),
                           .last = MRT_NEW(arena, int, dag->buffers),
                           .start = MRT_NEW(arena, int64_t, dag->nodes),
                           .use = MRT_NEW(arena, int64_t, dag->nodes),
                           .tried = MRT_NEW(arena, int64_t, dag->nodes),
                           .left = MRT_NEW(arena, int, dag->buffers) };
  bool ok = p->order && p->last && p->start && p->use && p->tried && p->left;
  return ok ? MRT_OK : MRT_ENOMEM;
}

/* Bytes of outputs that take a dying input's place; an input is taken once. */
static int64_t taken(const mrt_dag *dag, int node, int *left) {
  int64_t bytes = 0;
  int done = -1, from = dag->take_start[node], to = dag->take_start[node + 1];
  for (int i = from; i < to; i++) {
    mrt_take t = dag->take[i];
    if (t.out == done || left[t.in] != 1) continue;
    bytes += dag->bytes[t.out];
    done = t.out, left[t.in] = 0;
  }
  for (int i = from; i < to; i++)
    if (left[dag->take[i].in] == 0) left[dag->take[i].in] = 1;
  return bytes;
}

int64_t mrt_dag_use(const mrt_dag *dag, int node, int64_t live, int *left) {
  int64_t use = live + dag->scratch[node];
  for (int b = dag->made[node]; b < dag->made[node + 1]; b++)
    use += dag->bytes[b];
  return use - taken(dag, node, left);
}

/* Live bytes after `node`; its reads are counted down. */
static int64_t step(const mrt_dag *dag, int node, int64_t live, int *left) {
  for (int b = dag->made[node]; b < dag->made[node + 1]; b++)
    if (dag->readers.start[b] < dag->readers.start[b + 1])
      live += dag->bytes[b];
  for (int i = dag->reads.start[node]; i < dag->reads.start[node + 1]; i++)
    if (--left[dag->reads.item[i]] == 0) live -= dag->bytes[dag->reads.item[i]];
  return live;
}

/* Count the reads within the part; one more for what is read after it. */
static void count_reads(mrt_live_profile *p, int to, const int *nodes, int n) {
  const mrt_lists *reads = &p->dag->reads;
  for (int i = 0; i < n; i++)
    for (int k = reads->start[nodes[i]]; k < reads->start[nodes[i] + 1]; k++) {
      int b = reads->item[k];
      if (p->left[b]++ == 0 && p->last[b] > to) p->left[b]++;
    }
}

static void settle(mrt_live_profile *p, int from, int to, const int *nodes,
                   bool keep) {
  const mrt_lists *reads = &p->dag->reads;
  for (int i = from; i <= to; i++) {
    int node = nodes[i - from];
    if (keep) p->order[i] = node;
    for (int k = reads->start[node]; k < reads->start[node + 1]; k++) {
      int b = reads->item[k];
      p->left[b] = 0;
      if (keep && p->last[b] <= to) p->last[b] = i;
    }
  }
}

int64_t mrt_live_profile_sweep(mrt_live_profile *p, int from, int to,
                               const int *nodes, bool keep) {
  const mrt_dag *dag = p->dag;
  int64_t live = from < dag->nodes ? p->start[from] : 0, peak = 0;
  count_reads(p, to, nodes, to - from + 1);
  for (int i = from; i <= to; i++) {
    int node = nodes[i - from];
    int64_t use = mrt_dag_use(dag, node, live, p->left);
    if (use > peak) peak = use;
    p->tried[i - from] = use;
    if (keep) p->start[i] = live, p->use[i] = use;
    live = step(dag, node, live, p->left);
  }
  settle(p, from, to, nodes, keep);
  return peak;
}
