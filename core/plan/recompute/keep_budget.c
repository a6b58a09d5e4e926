/* keep_budget.c -- what to keep for the backward pass within some bytes
 *
 *   needs   activations; those that a policy has left OPEN
 *   gives   KEEP or RECOMPUTE for each, so that what is kept takes at most
 *           `kept` bytes, with little to run again
 *   method  At a price per byte the best choice is a least cut: a value that
 *           is needed is kept, at its bytes' price, or its node runs again, at
 *           its time, and then needs what it reads.  The price is searched by
 *           halving; what room is left takes values that save most time per
 *           byte.  What layers hand on is kept first, if there is room for all
 *           of it, so that a layer runs again from its own input.
 *   source  min-cut recomputation as in PyTorch's partitioner, here with the
 *           times of running again as capacities
 *
 * SPDX-License-Identifier: MIT */
#include "plan/recompute/recompute.h"
#include "solve/recompute/mincut.h"

#include <math.h>
#include <string.h>

enum {
  HALVINGS = 32, /* of the price, unless */
  NEAR = 100,    /* what is kept is within one part of these of the room */
  FEW = 1000     /* activations, up to which left room is filled one by one */
};

typedef struct within {
  mrt_recompute *k;
  bool free_boundaries; /* what layers hand on is kept in any case */
  bool *keep, *best;    /* by activation: it is kept */
  bool *again;          /* by op: it runs again */
  int *stack;           /* of ops */
} within;

static const double SCALE = 1e12; /* capacity per second */

static mrt_activation *activation(const within *w, int a) {
  return &w->k->asked.activations[a];
}

static int maker(const within *w, int a) {
  return w->k->dag.maker[w->k->buffer_of[a]];
}

static bool is_free(const within *w, int a) {
  const mrt_activation *v = activation(w, a);
  if (v->choice != MRT_CHOICE_OPEN) return v->choice != MRT_CHOICE_RECOMPUTE;
  return w->free_boundaries && v->last_layer > v->layer;
}

static int64_t capacity(double seconds) {
  double c = seconds * SCALE;
  return c < 1e15 ? (int64_t)(c + 0.5) : (int64_t)1e15;
}

/* Layers that are alike come in the order of their bits reversed (van der
 * Corput), so that those kept lie far apart. */
static double spread(int layer) {
  double at = 0;
  for (double half = 0.5; layer > 0; layer /= 2, half /= 2)
    at += layer % 2 * half;
  return 1 + at / 64;
}

static int64_t keeping(const within *w, int a, double price) {
  const mrt_activation *v = activation(w, a);
  if (is_free(w, a)) return 0;
  if (v->choice == MRT_CHOICE_RECOMPUTE) return MRT_MINCUT_NEVER;
  return capacity(price * (double)v->bytes * spread(v->layer));
}

/* ---- the cut at one price ------------------------------------------------ */

/* Node of op i, and of activation a. */
static int op_node(int i) { return 2 + i; }
static int value_node(const within *w, int a) { return 2 + w->k->dag.real + a; }

static bool add_value(const within *w, mrt_mincut *c, mrt_arena *arena, int a,
                      double price) {
  const mrt_dag *f = &w->k->dag;
  int buffer = w->k->buffer_of[a], value = value_node(w, a);
  if (mrt_mincut_edge(c, arena, op_node(maker(w, a)), value,
                      keeping(w, a, price)) < 0)
    return false;
  if (activation(w, a)->saved &&
      mrt_mincut_edge(c, arena, value, MRT_MINCUT_SINK, MRT_MINCUT_NEVER) < 0)
    return false;
  for (int r = f->readers.start[buffer]; r < f->readers.start[buffer + 1];
       r++) {
    int i = f->readers.item[r];
    bool forward =
        f->made[i] < f->made[i + 1] && w->k->activation_of[f->made[i]] >= 0;
    if (forward &&
        mrt_mincut_edge(c, arena, value, op_node(i), MRT_MINCUT_NEVER) < 0)
      return false;
  }
  return true;
}

static bool build(const within *w, mrt_mincut *c, mrt_arena *arena,
                  double price) {
  const mrt_dag *f = &w->k->dag;
  if (!mrt_mincut_new(c, arena, 2 + f->real + w->k->asked.count)) return false;
  for (int a = 0; a < w->k->asked.count; a++)
    if (!add_value(w, c, arena, a, price)) return false;
  for (int i = 0; i < f->real; i++)
    if (mrt_mincut_edge(c, arena, MRT_MINCUT_SOURCE, op_node(i),
                        capacity(w->k->problem.cost[i])) < 0)
      return false;
  return true;
}

/* Fill w->keep with what is kept at this price. */
static mrt_status choose(within *w, double price) {
  mrt_arena arena;
  mrt_mincut c;
  mrt_arena_init(&arena, w->k->plan->ctx->allocator);
  bool ok = build(w, &c, &arena, price);
  if (ok) mrt_mincut_run(&c);
  for (int a = 0; ok && a < w->k->asked.count; a++)
    w->keep[a] =
        c.level[value_node(w, a)] < 0 && c.level[op_node(maker(w, a))] >= 0;
  mrt_arena_free(&arena);
  return ok ? MRT_OK : mrt_nomem(&w->k->plan->ctx->error);
}

/* ---- what a choice means ------------------------------------------------- */

/* Mark the ops that run again when w->keep is kept; their seconds. */
static double mark_again(within *w) {
  const mrt_dag *f = &w->k->dag;
  double seconds = 0;
  int n = 0;
  memset(w->again, 0, (size_t)f->real);
  for (int a = 0; a < w->k->asked.count; a++) {
    int i = maker(w, a);
    if (!activation(w, a)->saved || w->keep[a] || w->again[i]) continue;
    w->again[i] = true;
    w->stack[n++] = i;
  }
  while (n > 0) {
    int i = w->stack[--n];
    seconds += w->k->problem.cost[i];
    for (int r = f->reads.start[i]; r < f->reads.start[i + 1]; r++) {
      int a = w->k->activation_of[f->reads.item[r]];
      if (a < 0 || w->keep[a] || w->again[maker(w, a)]) continue;
      w->again[maker(w, a)] = true;
      w->stack[n++] = maker(w, a);
    }
  }
  return seconds;
}

static size_t kept_bytes(const within *w) {
  size_t bytes = 0;
  for (int a = 0; a < w->k->asked.count; a++)
    if (w->keep[a]) bytes += activation(w, a)->bytes;
  return bytes;
}

/* The least price at which what is kept fits; false if none does. */
static mrt_status search(within *w, size_t kept, bool *found) {
  double low = 0, high = 1; /* a second per byte: nothing open is kept */
  size_t n = (size_t)w->k->asked.count * sizeof *w->keep;
  *found = false;
  MRT_TRY(choose(w, high));
  if (kept_bytes(w) > kept) return MRT_OK;
  *found = true;
  memcpy(w->best, w->keep, n);
  for (int i = 0; i < HALVINGS; i++) {
    /* Prices of interest lie many orders of magnitude apart. */
    double price = low > 0 ? sqrt(low * high) : high * 1e-3;
    MRT_TRY(choose(w, price));
    size_t bytes = kept_bytes(w);
    if (bytes <= kept) memcpy(w->best, w->keep, n);
    if (bytes <= kept) high = price;
    if (bytes > kept) low = price;
    if (high < 1e-18 || (bytes <= kept && kept - bytes < kept / NEAR)) break;
  }
  memcpy(w->keep, w->best, n);
  return MRT_OK;
}

/* Keep more while there is room: what saves most time per byte first. */
static void fill(within *w, size_t kept) {
  size_t used = kept_bytes(w);
  double now = mark_again(w);
  for (;;) {
    int best = -1;
    double most = 0;
    for (int a = 0; a < w->k->asked.count; a++) {
      const mrt_activation *v = activation(w, a);
      if (w->keep[a] || v->choice != MRT_CHOICE_OPEN || v->bytes > kept - used)
        continue;
      mark_again(w); /* as it is now: only what runs again can be saved */
      if (!w->again[maker(w, a)]) continue;
      w->keep[a] = true;
      double saves = (now - mark_again(w)) / (double)v->bytes;
      w->keep[a] = false;
      if (saves > most) most = saves, best = a;
    }
    if (best < 0) break;
    w->keep[best] = true;
    used += activation(w, best)->bytes;
    now = mark_again(w);
  }
}

mrt_status mrt_recompute_keep_budget(mrt_recompute *k, size_t kept) {
  int n = k->asked.count;
  within w = { .k = k,
               .free_boundaries = true,
               .keep = MRT_NEW(k->arena, bool, n),
               .best = MRT_NEW(k->arena, bool, n),
               .again = MRT_NEW(k->arena, bool, k->dag.real),
               .stack = MRT_NEW(k->arena, int, k->dag.real) };
  if (!w.keep || !w.best || !w.again || !w.stack)
    return mrt_nomem(&k->plan->ctx->error);
  bool found;
  MRT_TRY(search(&w, kept, &found));
  if (!found) {
    w.free_boundaries = false;
    MRT_TRY(search(&w, kept, &found));
  }
  if (found && n <= FEW) fill(&w, kept);
  for (int a = 0; a < n; a++) {
    mrt_activation *v = activation(&w, a);
    if (v->choice == MRT_CHOICE_OPEN)
      v->choice = w.keep[a] ? MRT_CHOICE_KEEP : MRT_CHOICE_RECOMPUTE;
  }
  return MRT_OK;
}
