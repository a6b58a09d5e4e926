/* mincut.c -- the cheapest way to part a source from a sink
 *
 *   method  Dinic's: levels by a walk from the source along edges with room
 *           left, then ways that go up one level with every edge, until no way
 *           is left.  What can still be reached is the source's side.
 *   why     keep_budget.c asks it what to keep at a price; the answer is the
 *           cut nearest the source, so it does not depend on the order of edges
 *   cost    O(nodes^2 edges), far less on graphs of operators
 *
 * SPDX-License-Identifier: MIT */
#include "solve/recompute/mincut.h"

bool mrt_mincut_new(mrt_mincut *c, mrt_arena *arena, int nodes) {
  *c = (mrt_mincut){ .nodes = nodes,
                     .first = MRT_NEW(arena, int, nodes),
                     .level = MRT_NEW(arena, int, nodes),
                     .queue = MRT_NEW(arena, int, nodes),
                     .try = MRT_NEW(arena, int, nodes) };
  if (!c->first || !c->level || !c->queue || !c->try) return false;
  for (int i = 0; i < nodes; i++) c->first[i] = -1;
  return true;
}

static bool add(mrt_mincut *c, mrt_arena *arena, int from, int to,
                int64_t capacity) {
  if (!MRT_PUSH_ROOM(arena, c->edge, c->edges, c->room)) return false;
  c->edge[c->edges] = (struct mrt_mincut_edge){ to, c->first[from], capacity };
  c->first[from] = c->edges++;
  return true;
}

int mrt_mincut_edge(mrt_mincut *c, mrt_arena *arena, int from, int to,
                    int64_t capacity) {
  int number = c->edges;
  bool ok = add(c, arena, from, to, capacity) && add(c, arena, to, from, 0);
  return ok ? number : -1;
}

/* Distances from the source along edges with capacity left. */
static bool find_levels(mrt_mincut *c) {
  for (int i = 0; i < c->nodes; i++) c->level[i] = -1;
  int head = 0, tail = 0;
  c->level[MRT_MINCUT_SOURCE] = 0;
  c->queue[tail++] = MRT_MINCUT_SOURCE;
  while (head < tail) {
    int v = c->queue[head++];
    for (int e = c->first[v]; e >= 0; e = c->edge[e].next) {
      int to = c->edge[e].to;
      if (c->edge[e].left == 0 || c->level[to] >= 0) continue;
      c->level[to] = c->level[v] + 1;
      c->queue[tail++] = to;
    }
  }
  return c->level[MRT_MINCUT_SINK] >= 0;
}

/* The next edge of `v` that leads one level further, or -1. */
static int next_edge(mrt_mincut *c, int v) {
  for (; c->try[v] >= 0; c->try[v] = c->edge[c->try[v]].next) {
    const struct mrt_mincut_edge *e = &c->edge[c->try[v]];
    if (e->left > 0 && c->level[e->to] == c->level[v] + 1) return c->try[v];
  }
  return -1;
}

/* One way from source to sink, its edges in `queue`; its length, or 0. */
static int find_way(mrt_mincut *c) {
  int length = 0, v = MRT_MINCUT_SOURCE;
  while (v != MRT_MINCUT_SINK) {
    int e = next_edge(c, v);
    if (e >= 0) {
      c->queue[length++] = e;
      v = c->edge[e].to;
    } else if (length >
               0) { /* a dead end: back one step, and not there again */
      v = c->edge[c->queue[--length] ^ 1].to;
      c->try[v] = c->edge[c->try[v]].next;
    } else {
      return 0;
    }
  }
  return length;
}

void mrt_mincut_run(mrt_mincut *c) {
  while (find_levels(c)) {
    for (int i = 0; i < c->nodes; i++) c->try[i] = c->first[i];
    for (int n; (n = find_way(c)) > 0;) {
      int64_t least = MRT_MINCUT_NEVER;
      for (int i = 0; i < n; i++)
        if (c->edge[c->queue[i]].left < least)
          least = c->edge[c->queue[i]].left;
      for (int i = 0; i < n; i++) {
        c->edge[c->queue[i]].left -= least;
        c->edge[c->queue[i] ^ 1].left += least;
      }
    }
  }
}
