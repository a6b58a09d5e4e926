/* cost.c -- how long does a node take?
 *
 *   needs   a node's types and options, a device's figures
 *   method  Work is flop by kind at that kind's rate; a product of matrices is
 *           charged for its edges, which makes small and thin ones slow.
 *           Bytes move meanwhile: the slower of the two counts, and a launch.
 *   never   looks at the clock or the machine: the figures say it all
 *   from    Williams, Waterman, Patterson, Roofline, CACM 52(4), 2009
 *
 * SPDX-License-Identifier: MIT */
#include "plan/cost.h"

static void work_by_kind(const mrt_signature *s, double *by_kind) {
  if (s->op->work)
    s->op->work(s, by_kind);
  else if (s->op->flops)
    by_kind[s->op->cost] += s->op->flops(s);
}

mrt_cost mrt_node_cost(const mrt_node *n) {
  mrt_node_types t;
  double by_kind[MRT_COST_COUNT] = { 0 };
  mrt_cost most = n->op->cost;
  if (!n->op->work) return most;
  mrt_node_types_init(&t, n);
  work_by_kind(&t.s, by_kind);
  double work = 0;
  for (int i = 0; i < MRT_COST_COUNT; i++)
    if (i != MRT_COST_pointwise && by_kind[i] > work)
      most = (mrt_cost)i, work = by_kind[i];
  return most;
}

/* Seconds of a product, its edges included. */
static double product_seconds(const mrt_device_profile *d,
                              const mrt_signature *s) {
  mrt_product p = s->op->product(s);
  mrt_dtype dtype = s->out[0]->dtype;
  double rate = d->matrix[dtype] > 0 ? d->matrix[dtype] : d->matrix[MRT_f32];
  return 2 * p.count * (p.m + d->edge[0]) * (p.n + d->edge[1]) *
         (p.k + d->edge[2]) / rate;
}

static double work_seconds(const mrt_device_profile *d, const mrt_node *n) {
  mrt_node_types t;
  double by_kind[MRT_COST_COUNT] = { 0 }, sum = 0;
  mrt_node_types_init(&t, n);
  if (n->op->product) return product_seconds(d, &t.s);
  work_by_kind(&t.s, by_kind);
  for (int i = 0; i < MRT_COST_COUNT; i++)
    if (by_kind[i] > 0) sum += by_kind[i] / d->rate[i];
  /* Vectors of f64 hold half as many. */
  return mrt_node_real(n) == MRT_f64 ? 2 * sum : sum;
}

static double traffic_seconds(const mrt_device_profile *d, double bytes) {
  double near = bytes < d->cache ? bytes : d->cache;
  return near / d->cache_bandwidth + (bytes - near) / d->bandwidth;
}

double mrt_device_seconds(const mrt_device_profile *d, const mrt_node *n) {
  if (mrt_node_is_view(n)) return 0;
  double work = work_seconds(d, n);
  double traffic = traffic_seconds(d, mrt_node_bytes(n));
  return d->launch + (work > traffic ? work : traffic);
}

double mrt_node_seconds(const mrt_plan *plan, const mrt_node *n) {
  return mrt_device_seconds(&plan->device, n);
}
