/* swap.c -- when are values that live in the swap tier in the arena?
 *
 *   needs   the executing order; which variables they are (swap_variables.c),
 *           which activations (recompute.c)
 *   gives   an order with copies: a variable comes to the arena for a stay, a
 *           run of uses, is read and updated there, and if it was updated goes
 *           back.  An activation's first stay begins where it is made and
 *           covers the forward pass; it goes once and comes as a variable does.
 *   method  A stay ends where other swapped values are used before the next
 *           use; of an activation that the solver swaps, where the solver says.
 *           A copy in starts as late as should do, but not before the uses
 *           that precede its own: so what is wanted next is fetched while
 *           what is there now is worked on, and no more.  Copies out are over
 *           before those of the next update start.
 *   cost    O(steps + stays squared)
 *   never   changes a number, or the order of other nodes
 *
 * SPDX-License-Identifier: MIT */
#include "plan/swap/swap.h"
#include "plan/cost.h"
#include "plan/host_step.h"
#include "tensor/swap_tier.h"

#include <math.h>

/* How much longer than declared a copy may take, for how early it starts:
 * too late costs time, too early memory. */
static const double margin = 2;

typedef struct stay {
  mrt_value *home;               /* the variable, or the activation */
  int fetch;                     /* which of the solver's it follows */
  int next;                      /* its next stay, or -1 */
  int uses, last_use;            /* its inputs of nodes, in order, or -1 */
  int first, last;               /* uses */
  int in_at;                     /* the copy in starts before this step */
  int out_until;                 /* that out is over before this step */
  bool born;                     /* an activation's first */
  bool written;                  /* it goes back */
  mrt_value *resident, *version; /* where it is; the newest there */
  mrt_copying in, out;
} stay;

typedef struct swap_use {
  int step, input, stay;
  int next; /* of the same stay, or -1 */
} swap_use;

/* Lists of stays by step, each list in ascending order. */
typedef struct agenda {
  int *head; /* by step: a stay, or -1 */
  int *next; /* by stay */
} agenda;

typedef struct swapping {
  mrt_plan *plan;
  int64_t **staged; /* to fill; or NULL */
  mrt_graph *g;
  mrt_arena arena;
  stay *stays;    /* in ascending order of first */
  swap_use *uses; /* in ascending order of step */
  int count, room, use_count, use_room;
  int *newest;      /* by value id: its newest stay, or -1 */
  int latest[2];    /* the last step with uses, and the one before */
  double *time;     /* before step i */
  int prefetch;     /* how many copies may be under way in a lane */
  mrt_node **nodes; /* the new order */
  int node_count, node_room;
} swapping;

/* ---- stays --------------------------------------------------------------- */

static bool is_forward(const mrt_node *n) {
  return !n->origin.backward && !n->original && !mrt_node_is_update(n);
}

/* Does a use at `step` belong to the stay?  Where no step lies between, there is
 * no time to leave and come back. */
static bool goes_on(const swapping *w, const stay *s, int fetch, int step) {
  if (s->home->fetch) return s->fetch == fetch || step <= s->last + 1;
  return s->last >= w->latest[1] || (s->born && is_forward(w->g->nodes[step]));
}

/* The stay in which `v` is made or used at `step`. */
static mrt_status stay_at(swapping *w, mrt_value *v, int step, int *index) {
  mrt_value *home = v->base;
  int newest = w->newest[home->id], fetch = v == home ? 0 : v->fetch;
  if (w->latest[0] != step) w->latest[1] = w->latest[0], w->latest[0] = step;
  *index = newest;
  if (newest >= 0 && goes_on(w, &w->stays[newest], fetch, step)) {
    w->stays[newest].fetch = fetch;
    return MRT_OK;
  }
  if (!MRT_PUSH_ROOM(&w->arena, w->stays, w->count, w->room))
    return mrt_nomem(&w->g->ctx->error);
  *index = w->newest[home->id] = w->count++;
  if (newest >= 0) w->stays[newest].next = *index;
  w->stays[*index] = (stay){ .home = home,
                             .fetch = fetch,
                             .next = -1,
                             .uses = -1,
                             .last_use = -1,
                             .first = step };
  return MRT_OK;
}

/* Node `step` makes or uses the value: as its input k, or -1. */
static mrt_status add_use(swapping *w, mrt_value *v, int step, int k) {
  const mrt_node *n = w->g->nodes[step];
  swap_use u = { step, k, -1, -1 };
  if (!v->base->swapped && !v->base->evicted) return MRT_OK;
  if (k >= 0 && mrt_input_in_tier(n, k)) return MRT_OK;
  MRT_TRY(stay_at(w, v, step, &u.stay));
  stay *s = &w->stays[u.stay];
  s->last = step;
  s->born |= k < 0;
  s->written |= k >= 0 && mrt_node_is_update(n) && k < n->op->updates;
  if (k < 0) return MRT_OK;
  if (!MRT_PUSH_ROOM(&w->arena, w->uses, w->use_count, w->use_room))
    return mrt_nomem(&w->g->ctx->error);
  *(s->uses < 0 ? &s->uses : &w->uses[s->last_use].next) = w->use_count;
  s->last_use = w->use_count;
  w->uses[w->use_count++] = u;
  return MRT_OK;
}

static mrt_status find_stays(swapping *w) {
  const mrt_graph *g = w->g;
  w->newest = MRT_NEW(&w->arena, int, g->value_count);
  if (!w->newest) return mrt_nomem(&g->ctx->error);
  for (int i = 0; i < g->value_count; i++) w->newest[i] = -1;
  w->latest[0] = w->latest[1] = -1;
  for (int i = 0; i < g->node_count; i++) {
    const mrt_node *n = g->nodes[i];
    for (int k = 0; k < n->nin; k++) MRT_TRY(add_use(w, n->in[k], i, k));
    for (int k = 0; k < n->nout; k++)
      if (n->out[k]->evicted) MRT_TRY(add_use(w, n->out[k], i, -1));
  }
  for (int i = 0; i < w->count; i++)
    w->stays[i].written |= w->stays[i].born && w->stays[i].next >= 0;
  return MRT_OK;
}

/* ---- when ---------------------------------------------------------------- */

static mrt_status add_up_time(swapping *w) {
  int n = w->g->node_count;
  w->time = MRT_NEW(&w->arena, double, n + 1);
  if (!w->time) return mrt_nomem(&w->g->ctx->error);
  for (int i = 0; i < n; i++)
    w->time[i + 1] = w->time[i] + w->plan->steps[i].seconds;
  return MRT_OK;
}

static double seconds(const swapping *w, const stay *s, bool out) {
  mrt_swap_rates rates = mrt_tier_rates(w->plan, s->home->tier);
  return (w->prefetch > 1 ? 1.1 : margin) *
         mrt_copy_seconds(&rates, out, mrt_type_bytes(&s->home->type));
}

/* The stay's place among those that go out, by their last use: the use of the
 * `prefetch`-th after it, or -1. */
static int use_after(const swapping *w, const int *outs, int count, int at,
                     int prefetch) {
  for (int i = at + 1; i < count; i++)
    if (w->stays[outs[i]].last > w->stays[outs[at]].last && --prefetch == 0)
      return w->stays[outs[i]].last;
  return -1;
}

/* Copies out start after the last use, in turn; where are they waited for? */
static void time_outs(swapping *w, const int *outs, int count) {
  double free = 0; /* when the lane is */
  for (int k = 0; k < count; k++) {
    stay *s = &w->stays[outs[k]];
    int from = s->last + 1, until = w->g->node_count;
    if (s->next >= 0) until = w->stays[s->next].first;
    int other = use_after(w, outs, count, k, w->prefetch);
    if (other >= 0 && other + 1 < until) until = other + 1;
    if (free < w->time[from] || w->prefetch == 1) free = w->time[from];
    free += seconds(w, s, true);
    s->out_until = from < until ? from + 1 : until;
    while (s->out_until < until && w->time[s->out_until] < free) s->out_until++;
  }
}

/* Where do the copies in of stays [from, to), all wanted at one step, start?
 * *busy: when the lane is wanted for those after. */
static void time_in(swapping *w, int from, int to, double *busy) {
  int first = w->stays[from].first, earliest = 0, at = first;
  int prefetch = w->prefetch;
  double needed = 0, end = w->time[first];
  for (int i = from; i-- > 0 && !earliest;) /* the copies in before */
    if (!w->stays[i].born && --prefetch == 0) earliest = w->stays[i].first;
  for (int i = from; i < to; i++)
    if (!w->stays[i].born) needed += seconds(w, &w->stays[i], false);
  if (*busy < end && w->prefetch > 1) end = *busy;
  while (at > earliest && end - w->time[at] < needed) at--;
  if (needed > 0) *busy = w->time[at];
  for (int i = from; i < to; i++)
    if (w->stays[i].in_at < at) w->stays[i].in_at = at;
}

static void time_ins(swapping *w) {
  double busy = w->time[w->g->node_count];
  for (int to = w->count, i; to > 0; to = i) {
    for (i = to - 1; i > 0 && w->stays[i - 1].first == w->stays[i].first;) i--;
    time_in(w, i, to, &busy);
  }
}

static mrt_status schedule(swapping *w) {
  int *outs = MRT_NEW(&w->arena, int, w->count), count = 0;
  if (!outs) return mrt_nomem(&w->g->ctx->error);
  for (int i = 0; i < w->count; i++) {
    if (!w->stays[i].written) continue;
    int at = count++;
    for (; at > 0 && w->stays[outs[at - 1]].last > w->stays[i].last; at--)
      outs[at] = outs[at - 1];
    outs[at] = i;
  }
  time_outs(w, outs, count);
  for (int i = 0; i < w->count; i++) {
    stay *s = &w->stays[i];
    int gone = s->written ? s->out_until : s->last + 1;
    if (s->next >= 0) w->stays[s->next].in_at = gone;
  }
  time_ins(w);
  return MRT_OK;
}

/* Homes that are never copied: the host updates them where they lie. */
static mrt_status add_homes(swapping *w, int *of, mrt_tenant **list,
                            int *count) {
  int room = w->count;
  for (int i = 0; i < w->g->node_count; i++) {
    const mrt_node *n = w->g->nodes[i];
    for (int k = 0; n->in_tier && k < n->op->updates; k++) {
      mrt_value *home = n->in[k]->base;
      if (!home->swapped || of[home->id]) continue;
      if (!MRT_PUSH_ROOM(&w->arena, *list, *count, room))
        return mrt_nomem(&w->g->ctx->error);
      (*list)[*count] = (mrt_tenant){ .home = home, .first = i, .last = i };
      of[home->id] = ++*count;
    }
  }
  return MRT_OK;
}

/* Which tier is each home's?  Its copies may hide behind the steps between its
 * stays. */
static mrt_status choose_tiers(swapping *w) {
  mrt_tenant *list = MRT_NEW(&w->arena, mrt_tenant, w->count);
  int *of = MRT_NEW(&w->arena, int, w->g->value_count), count = 0;
  if (!list || !of) return mrt_nomem(&w->g->ctx->error);
  for (int i = 0; i < w->count; i++) {
    const stay *s = &w->stays[i];
    int *at = &of[s->home->id];
    if (!*at) {
      *at = ++count;
      list[count - 1] = (mrt_tenant){ .home = s->home, .first = s->last };
    }
    mrt_tenant *n = &list[*at - 1];
    double since = n->ins + n->outs ? w->time[n->last + 1] : 0;
    n->ins += !s->born, n->outs += s->written;
    n->beside += fmax(w->time[s->first] - since, 0);
    n->last = s->last;
  }
  for (int i = 0; i < count; i++)
    if (list[i].home->swapped)
      list[i].beside += w->time[w->g->node_count] - w->time[list[i].last + 1];
  MRT_TRY(add_homes(w, of, &list, &count));
  return mrt_swap_assign(w->plan, &w->arena, list, count);
}

/* ---- rewriting ----------------------------------------------------------- */

static mrt_status rewrite_use(swapping *w, swap_use u) {
  mrt_node *n = w->g->nodes[u.step];
  stay *s = &w->stays[u.stay];
  if (n->in[u.input]->base != s->resident)
    MRT_TRY(mrt_value_over(w->g, n->in[u.input], s->version, &n->in[u.input]));
  if (mrt_node_is_update(n) && u.input < n->op->updates) {
    s->version = n->out[u.input];
    s->version->base = s->resident;
  }
  return MRT_OK;
}

/* Stays in their order, and their uses: each reads what the last one left. */
static mrt_status rewrite(swapping *w) {
  for (int i = 0; i < w->count; i++) w->stays[i].home->other = w->stays[i].home;
  for (int i = 0; i < w->count; i++) {
    stay *s = &w->stays[i];
    if (!s->born) MRT_TRY(mrt_swap_in(w->g, s->home->other, &s->in));
    s->resident = s->version = s->born ? s->home : s->in.value;
    for (int k = s->uses; k >= 0; k = w->uses[k].next)
      MRT_TRY(rewrite_use(w, w->uses[k]));
    if (!s->written) continue;
    MRT_TRY(mrt_swap_out(w->g, s->version, &s->out));
    s->home->other = s->out.value;
    s->out.value->tier = s->home->tier;
    if (s->born) continue;
    s->out.value->base = s->home;
    s->out.value->swapped = false;
  }
  for (int i = 0; i < w->count; i++) w->stays[i].home->other = NULL;
  return MRT_OK;
}

static mrt_status put(swapping *w, mrt_node *n) {
  if (!MRT_PUSH_ROOM(&w->g->arena, w->nodes, w->node_count, w->node_room))
    return mrt_nomem(&w->g->ctx->error);
  w->nodes[w->node_count++] = n;
  return MRT_OK;
}

typedef enum moment { ENDED, OUT, IN, WANTED, PASSED, MOMENTS } moment;

/* What has to do with the stay before which step?  -1: nothing. */
static int step_of(const stay *s, moment m) {
  bool back = s->written, passed = back && s->out_until == s->last + 1;
  const int steps[] = { back && !passed ? s->out_until : -1,
                        back ? s->last + 1 : -1, s->born ? -1 : s->in_at,
                        s->born ? -1 : s->first, passed ? s->out_until : -1 };
  return steps[m];
}

static mrt_status list_stays(swapping *w, moment m, agenda *a) {
  int n = w->g->node_count;
  a->head = MRT_NEW(&w->arena, int, n + 1);
  a->next = MRT_NEW(&w->arena, int, w->count);
  if (!a->head || !a->next) return mrt_nomem(&w->g->ctx->error);
  for (int i = 0; i <= n; i++) a->head[i] = -1;
  for (int k = w->count; k-- > 0;) {
    int i = step_of(&w->stays[k], m);
    if (i < 0) continue;
    a->next[k] = a->head[i];
    a->head[i] = k;
  }
  return MRT_OK;
}

/* The copies that start or end before step `i`. */
static mrt_status put_copies(swapping *w, const agenda *agendas, int i) {
  for (moment m = 0; m < MOMENTS; m++)
    for (int k = agendas[m].head[i]; k >= 0; k = agendas[m].next[k]) {
      const stay *s = &w->stays[k];
      mrt_node *const nodes[] = { s->out.end, s->out.start, s->in.start,
                                  s->in.end, s->out.end };
      MRT_TRY(put(w, nodes[m]));
    }
  return MRT_OK;
}

/* Bytes of the arena for stays, from copy in to copy out; by step. */
static mrt_status add_up_staged(swapping *w) {
  int n = w->g->node_count;
  int64_t *live = MRT_NEW(&w->g->arena, int64_t, n + 1);
  if (!live) return mrt_nomem(&w->g->ctx->error);
  for (int i = 0; i < w->count; i++) {
    const stay *s = &w->stays[i];
    int64_t bytes =
        (int64_t)mrt_swap_tier_round(mrt_type_bytes(&s->home->type));
    live[s->in_at] += bytes;
    live[s->written ? s->out_until : s->last + 1] -= bytes;
  }
  for (int i = 0; i < n; i++) live[i + 1] += live[i];
  *w->staged = live;
  return MRT_OK;
}

static mrt_status plan_stays(swapping *w) {
  w->prefetch =
      w->plan->candidate.prefetch > 1 ? w->plan->candidate.prefetch : 1;
  MRT_TRY(find_stays(w));
  MRT_TRY(add_up_time(w));
  MRT_TRY(choose_tiers(w));
  return schedule(w);
}

static mrt_status arrange(swapping *w) {
  MRT_TRY(plan_stays(w));
  agenda agendas[MOMENTS];
  MRT_TRY(rewrite(w));
  for (moment m = 0; m < MOMENTS; m++) MRT_TRY(list_stays(w, m, &agendas[m]));
  for (int i = 0; i < w->g->node_count; i++) {
    MRT_TRY(put_copies(w, agendas, i));
    MRT_TRY(put(w, w->g->nodes[i]));
  }
  MRT_TRY(put_copies(w, agendas, w->g->node_count));
  return mrt_plan_insert(w->plan, w->nodes, w->node_count);
}

mrt_status mrt_swap_staged(mrt_planner *p) {
  mrt_plan *plan = p->plan;
  swapping w = { .plan = plan, .g = &plan->graph, .staged = &p->staged };
  mrt_arena_init(&w.arena, plan->ctx->allocator);
  mrt_status s = plan_stays(&w);
  if (!s) s = add_up_staged(&w);
  mrt_arena_free(&w.arena);
  return s;
}

mrt_status mrt_pass_swap(mrt_planner *p) {
  mrt_plan *plan = p->plan;
  swapping w = { .plan = plan, .g = &plan->graph };
  if (!plan->swaps) return MRT_OK;
  mrt_arena_init(&w.arena, plan->ctx->allocator);
  mrt_status s = arrange(&w);
  mrt_arena_free(&w.arena);
  return s;
}
