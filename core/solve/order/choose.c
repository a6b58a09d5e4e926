/* choose.c -- the order with the least peak
 *
 *   method  The best of a few orders (candidates.c) by simulating each; of a
 *           small graph the best of all (exact_window.c); otherwise moves at
 *           the peak (local_search.c), from several starts unless the graph is
 *           large, and random walks (anneal.c) where the bound leaves
 *           room.  All stop at the bound that holds for any order.  Ties go
 *           to program order.
 *   never   needs more than program order, or looks at the clock
 *
 * SPDX-License-Identifier: MIT */
#include "solve/order/order.h"

#include <math.h>
#include <string.h>

enum {
  FEW_SETS = 1 << 12,  /* of the exact search over a small graph */
  MANY_SETS = 1 << 18, /* ... and over one of EXACT_FOR_SURE nodes */
  EXACT_FOR_SURE = 24,
  LARGE = 20000,      /* nodes up to which moves start from every order */
  THOROUGH = 1000,    /* nodes up to which random walks follow: */
  CLOSE = 256,        /* none if the peak is that part above its bound; */
  NEAR = 32,          /* only a short one if it is that part above it, */
  ENOUGH = 4,         /* or if so many starts have led to the same peak */
  WALKS = 5,          /* and that did not help; else so many, or fewer, */
  IDLE = 2,           /* until so many in turn, of tiny graphs one, have not */
  SHORT = 8,          /* how much shorter the first is */
  WORK_WALK = 64,     /* positions a walk looks at, times nodes squared */
  WALK_NODES = 250,   /* nodes beyond which all walks together do no more */
  WORK_SMALL = 10000, /* edges looked at by the moves, per node of these */
  WORK_LARGE = 500,   /* ... and per node beyond */
  WORK_LITTLE = 500000, /* of either that is always worth it: some 10 ms, */
  WORK_BYTE = 1         /* and for each byte above the floor: 20 ms a MiB */
};

typedef struct ordering {
  const mrt_dag *dag;
  mrt_arena arena;
  mrt_live_profile profile; /* for trying */
  int *order, *best;        /* node numbers */
  int64_t peak, floor;      /* of `best`; of any order */
  int effort;
  int agreed; /* starts from which moves have led to `peak` */
} ordering;

typedef mrt_status (*start)(const mrt_dag *dag, mrt_arena *a, int *order);
static const start starts[] = { mrt_order_program,  mrt_order_hoisted,
                                mrt_order_backward, mrt_order_forward,
                                mrt_order_greedy,   mrt_order_needed };

static void copy(int *to, const int *from, int n) {
  memcpy(to, from, (size_t)n * sizeof *to);
}

static void keep(ordering *o, const int *order, int64_t peak) {
  if (peak >= o->peak) return;
  o->peak = peak;
  copy(o->best, order, o->dag->nodes);
}

static int64_t load(ordering *o, const int *order) {
  for (int b = 0; b < o->dag->buffers; b++) o->profile.last[b] = -1;
  return mrt_live_profile_sweep(&o->profile, 0, o->dag->nodes - 1, order, true);
}

/* How much of that work the bytes above the floor are worth. */
static int64_t worth(const ordering *o, int64_t work) {
  int64_t most = WORK_LITTLE + (o->peak - o->floor) * WORK_BYTE;
  return o->effort > 0 || work < most ? work : most;
}

static mrt_status improve(ordering *o, const int *order) {
  int n = o->dag->nodes;
  int small = n < THOROUGH ? n : THOROUGH;
  int64_t work =
      (int64_t)WORK_SMALL * small + (int64_t)WORK_LARGE * (n - small);
  work = worth(o, work);
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
  mrt_order_exact *x = mrt_order_exact_new(o->dag, &a, sets);
  int64_t peak = load(o, o->best), work = 0;
  if (x) {
    mrt_order_found found = mrt_order_exact_window(
        x, &o->profile, 0, o->dag->nodes - 1, &peak, &work);
    *done = found != MRT_ORDER_UNKNOWN;
    if (found == MRT_ORDER_BETTER) keep(o, o->profile.order, peak);
  }
  mrt_arena_free(&a);
  return x ? MRT_OK : MRT_ENOMEM;
}

/* All candidates; `moves`: each improved, the last where it begins no higher
 * than the others have come to. */
static mrt_status try_all(ordering *o, bool moves) {
  for (int i = 0; i < MRT_COUNT(starts) && o->peak > o->floor; i++) {
    bool last = i == MRT_COUNT(starts) - 1;
    MRT_TRY(starts[i](o->dag, &o->arena, o->order));
    if (!moves)
      keep(o, o->order, load(o, o->order));
    else if (!last || load(o, o->order) <= o->peak)
      MRT_TRY(improve(o, o->order));
  }
  return MRT_OK;
}

/* One random walk from the best order, and moves from the best it met. */
static mrt_status walk(ordering *o, uint64_t seed, int64_t work) {
  mrt_arena a;
  mrt_arena_init(&a, o->arena.allocator);
  int64_t peak = load(o, o->best);
  mrt_status s =
      mrt_order_anneal(&o->profile, &a, o->floor, seed, work, &peak, o->order);
  mrt_arena_free(&a);
  return s ? s : improve(o, o->order);
}

/* Is the best at most 1 / part above what any order needs? */
static bool within(const ordering *o, int part) {
  return o->peak - o->floor <= o->floor / part;
}

/* How many walks, after a short one that found nothing new. */
static int walks(const ordering *o) {
  int n = o->dag->nodes;
  int usual = n < WALK_NODES ? WALKS : WALKS * WALK_NODES / n;
  if (o->effort > 1) return WALKS * o->effort;
  return n > THOROUGH || o->agreed > ENOUGH || within(o, NEAR) ? 0 : usual;
}

static mrt_status try_walks(ordering *o) {
  int64_t n = o->dag->nodes < WALK_NODES ? o->dag->nodes : WALK_NODES;
  int64_t work = WORK_WALK * n * n;
  int patience = n <= MRT_ORDER_EXACT_NODES ? 1 : IDLE;
  if (o->effort > 1) patience *= o->effort;
  if (o->effort <= 1 && within(o, CLOSE)) return MRT_OK;
  if (worth(o, work / SHORT) < work / SHORT) return MRT_OK;
  MRT_TRY(walk(o, 0, work / SHORT));
  for (int i = 0, idle = 0, most = walks(o);
       i < most && idle < patience && o->peak > o->floor; i++) {
    int64_t before = o->peak, all = work * (i + 1);
    if (worth(o, all) < all) break;
    MRT_TRY(walk(o, (uint64_t)i + 1, work));
    idle = o->peak < before ? 0 : idle + 1;
  }
  return MRT_OK;
}

static mrt_status choose(ordering *o) {
  int n = o->dag->nodes;
  bool done = false;
  MRT_TRY(try_all(o, false));
  if (o->peak > o->floor && n <= MRT_ORDER_EXACT_NODES && o->effort >= 0)
    MRT_TRY(exact(o, FEW_SETS, &done));
  if (o->peak > o->floor && !done && n <= EXACT_FOR_SURE && o->effort >= 0)
    MRT_TRY(exact(o, MANY_SETS, &done));
  if (o->peak <= o->floor || done || o->effort < 0) return MRT_OK;
  if (n <= LARGE) {
    MRT_TRY(try_all(o, true));
    return n <= THOROUGH || o->effort > 1 ? try_walks(o) : MRT_OK;
  }
  copy(o->order, o->best, n);
  return improve(o, o->order);
}

/* Values shall live briefly, wherever the peak is. */
static mrt_status choose_brief(ordering *o) {
  MRT_TRY(mrt_order_needed(o->dag, &o->arena, o->order));
  keep(o, o->order, load(o, o->order));
  return MRT_OK;
}

static mrt_status choose_again(ordering *o) {
  MRT_TRY(mrt_order_program(o->dag, &o->arena, o->order));
  keep(o, o->order, load(o, o->order));
  return o->peak > o->floor && o->effort >= 0 ? improve(o, o->order) : MRT_OK;
}

static mrt_status run(ordering o, const mrt_allocator *allocator,
                      mrt_status (*how)(ordering *), int64_t *peak) {
  o.peak = INT64_MAX;
  if (o.effort > MRT_MOST_EFFORT) o.effort = MRT_MOST_EFFORT;
  mrt_arena_init(&o.arena, allocator);
  mrt_status s = mrt_live_profile_make(&o.profile, o.dag, &o.arena);
  o.order = MRT_NEW(&o.arena, int, o.dag->nodes);
  if (!o.order) s = MRT_ENOMEM;
  if (!s) s = how(&o);
  mrt_arena_free(&o.arena);
  *peak = o.peak;
  return s;
}

mrt_status mrt_order_choose(const mrt_dag *dag, const mrt_allocator *allocator,
                            int64_t floor, int effort, int *best,
                            int64_t *peak) {
  ordering o = { .dag = dag, .floor = floor, .effort = effort, .best = best };
  return run(o, allocator, choose, peak);
}

mrt_status mrt_order_brief(const mrt_dag *dag, const mrt_allocator *allocator,
                           int64_t floor, int effort, int *best,
                           int64_t *peak) {
  ordering o = { .dag = dag, .floor = floor, .effort = effort, .best = best };
  return run(o, allocator, choose_brief, peak);
}

mrt_status mrt_order_refine(const mrt_dag *dag, const mrt_allocator *allocator,
                            int64_t floor, int effort, int *best,
                            int64_t *peak) {
  ordering o = { .dag = dag, .floor = floor, .effort = effort, .best = best };
  return run(o, allocator, choose_again, peak);
}
