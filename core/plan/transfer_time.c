/* transfer_time.c -- how long does a run wait for what is done beside it?
 *
 *   method  Steps run one after the other, each in its predicted seconds.
 *           Beside them two lanes of each tier copy, each first come first served.  A copy
 *           takes a latency and then its bytes at its lane's rate, which is
 *           another while both lanes are busy.  A step that waits for a copy
 *           which is not over stalls until it is.  Collectives that begin
 *           ahead are done one after the other, on a thread of their own; one
 *           that does not waits until they are over.
 *   cost    O(steps + copies)
 *
 * SPDX-License-Identifier: MIT */
#include "op/collective.h"
#include "plan/cost.h"

#include <math.h>

/* Copies by number on the lane. */
typedef struct copy_lane {
  double *left; /* seconds alone */
  int started, ended;
} copy_lane;

enum { LANES = 2 * MRT_SWAP_TIERS }; /* of tier i: 2i and 2i + 1 */

typedef struct racing {
  copy_lane lanes[LANES];
  double slower[LANES]; /* of one while its tier's other is busy too: below 1 */
  mrt_swap_rates rates[MRT_SWAP_TIERS];
} racing;

static bool busy(const copy_lane *l) { return l->ended < l->started; }

/* Let the copies go on for `seconds`, or until copy `last` of `until` is over;
 * returns the seconds that took. */
static double advance(racing *r, double seconds, const copy_lane *until,
                      int last) {
  double passed = 0;
  while (passed < seconds && !(until && until->ended > last)) {
    double step = seconds - passed, speed[LANES];
    bool any = false;
    for (int i = 0; i < LANES; i++) {
      copy_lane *l = &r->lanes[i];
      bool both = busy(l) && busy(&r->lanes[i ^ 1]);
      any |= busy(l);
      speed[i] = both ? r->slower[i] : 1;
      if (busy(l) && l->left[l->ended] / speed[i] < step)
        step = l->left[l->ended] / speed[i];
    }
    if (!any) return seconds;
    passed += step;
    for (int i = 0; i < LANES; i++) {
      copy_lane *l = &r->lanes[i];
      if (!busy(l)) continue;
      l->left[l->ended] -= step * speed[i];
      if (l->left[l->ended] <= 1e-12) l->ended++;
    }
  }
  return passed;
}

double mrt_copy_seconds(const mrt_swap_rates *r, bool out, size_t bytes) {
  return r->latency + (double)bytes / (out ? r->out : r->in);
}

mrt_swap_rates mrt_tier_rates(const mrt_plan *plan, int i) {
  if (i == 0) return mrt_declared_rates(plan);
  mrt_tier_profile t = mrt_device_tier(&plan->device, i);
  return (mrt_swap_rates){ t.latency, t.write, t.read, t.write, t.read };
}

/* What was measured instead of the figure `otherwise`. */
static double rate(const mrt_plan *plan, uint64_t key, double otherwise) {
  double seconds = mrt_measured_find(&plan->options, key);
  return seconds > 0 ? 1 / seconds : otherwise;
}

mrt_swap_rates mrt_declared_rates(const mrt_plan *plan) {
  const mrt_device_profile *d = &plan->device;
  double latency = mrt_measured_find(&plan->options, MRT_MEASURED_LATENCY);
  return (mrt_swap_rates){
    .latency = latency >= 0 ? latency : d->swap_latency,
    .out = rate(plan, MRT_MEASURED_OUT, d->swap_write),
    .in = rate(plan, MRT_MEASURED_IN, d->swap_read),
    .out_shared = rate(plan, MRT_MEASURED_OUT_SHARED, d->swap_write),
    .in_shared = rate(plan, MRT_MEASURED_IN_SHARED, d->swap_read),
  };
}

static double simulate(const mrt_plan *plan, const double *seconds, racing *r,
                       int *number, double *stalls) {
  double total = 0;
  for (int i = 0; i < plan->step_count; i++) {
    int t = plan->steps[i].transfer;
    if (t < 0) {
      advance(r, seconds ? seconds[i] : plan->steps[i].seconds, NULL, 0);
      continue;
    }
    const mrt_transfer_info *c = &plan->transfers[t];
    copy_lane *l =
        &r->lanes[2 * c->tier + (c->out ? MRT_TIER_OUT : MRT_TIER_IN)];
    if (i == c->start) {
      number[t] = l->started++;
      l->left[number[t]] =
          mrt_copy_seconds(&r->rates[c->tier], c->out, c->bytes);
    } else {
      double stall = advance(r, HUGE_VAL, l, number[t]);
      if (stalls) stalls[t] = stall;
      total += stall;
    }
  }
  return total;
}

MRT_API mrt_status mrt_plan_transfer_time(const mrt_plan *plan,
                                          const double *seconds,
                                          const mrt_swap_rates *rates,
                                          double *stalls, double *total) {
  mrt_arena arena;
  int n = plan->graph.transfer_count;
  mrt_arena_init(&arena, plan->ctx->allocator);
  racing r = { 0 };
  int *number = MRT_NEW(&arena, int, n);
  bool ok = number != NULL;
  for (int i = 0; i < MRT_SWAP_TIERS && ok; i++) {
    mrt_swap_rates *own = &r.rates[i];
    if (i < mrt_device_tier_count(&plan->device))
      *own = rates && i == 0 ? *rates : mrt_tier_rates(plan, i);
    r.slower[2 * i] = own->out_shared / own->out;
    r.slower[2 * i + 1] = own->in_shared / own->in;
    r.lanes[2 * i].left = MRT_NEW(&arena, double, n);
    r.lanes[2 * i + 1].left = MRT_NEW(&arena, double, n);
    ok = r.lanes[2 * i].left && r.lanes[2 * i + 1].left;
  }
  if (ok) *total = simulate(plan, seconds, &r, number, stalls);
  mrt_arena_free(&arena);
  return ok ? MRT_OK : mrt_nomem(&plan->ctx->error);
}

/* Handing over takes a launch, waiting what it takes. */
mrt_status mrt_plan_collective_time(mrt_plan *plan) {
  double now = 0, free = 0; /* when the thread is */
  if (!plan->overlap_count) return MRT_OK;
  double *over = MRT_NEW(&plan->graph.arena, double, plan->step_count);
  if (!over) return mrt_nomem(&plan->ctx->error);
  for (int i = 0; i < plan->step_count; i++) {
    mrt_step *s = &plan->steps[i];
    mrt_node *n = s->node;
    bool meets = n->op->traits & MRT_COLLECTIVE;
    n->mark = i;
    if (meets && mrt_is_ahead(n->op, n->options)) {
      over[i] = free = fmax(free, now) + s->seconds;
      s->seconds = plan->device.launch;
    } else if (meets) {
      s->seconds += fmax(0, free - now);
    } else if (n->op->number == MRT_OP_arrive) {
      s->seconds += fmax(0, over[n->in[0]->node->mark] - now);
    }
    now += s->seconds;
  }
  return MRT_OK;
}
