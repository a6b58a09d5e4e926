/* cost.c -- how long does a node take?
 *
 *   needs   a node's types and options, a device's figures
 *   method  Work is flop by kind at that kind's rate; a product of matrices is
 *           charged for its edges, which makes small and thin ones slow, at the
 *           rate of what its factors are multiplied in; what is done to its
 *           result in the same kernel comes on top.
 *           Bytes move meanwhile: the slower of the two counts, and a launch.
 *           So do ranks' bytes over their links (collective_time.c).
 *   never   looks at the clock or the machine: the figures say it all
 *   from    Williams, Waterman, Patterson, Roofline, CACM 52(4), 2009
 *
 * SPDX-License-Identifier: MIT */
#include "plan/cost.h"
#include "op/sums.h"
#include "op/winograd.h"
#include "plan/host_step.h"
#include "rewrite/precision.h"

#include <string.h>

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

/* All values of f8 are bf16. */
static bool fits_bf16(mrt_dtype d) { return mrt_is_narrow(d) && d != MRT_f16; }

/* The dtype that both factors of a product have, or are exactly in. */
static mrt_dtype factors(const mrt_signature *s) {
  const mrt_option *o = mrt_narrow_option(s->op);
  mrt_dtype a = s->in[0]->dtype, b = s->in[1]->dtype, rounded = MRT_DTYPE_COUNT;
  if (o) memcpy(&rounded, (const char *)s->options + o->offset, sizeof rounded);
  if (rounded != MRT_DTYPE_COUNT) a = b = rounded;
  if (a == b) return a;
  if (fits_bf16(a) && fits_bf16(b)) return MRT_bf16;
  return a == MRT_f64 || b == MRT_f64 ? MRT_f64 : MRT_f32;
}

/* How much faster than in f32.  What a device does not multiply is widened. */
static double speed_in(const mrt_device_profile *d, mrt_dtype dtype) {
  double own = d->matrix[dtype];
  if (!(own > 0) && fits_bf16(dtype)) own = d->matrix[MRT_bf16];
  return own > 0 ? own / d->matrix[MRT_f32] : 1;
}

mrt_dtype mrt_node_sums(const mrt_node *n) {
  const mrt_dtype *sums = mrt_sums_of(n->op, n->options);
  return sums ? *sums : MRT_DTYPE_COUNT;
}

/* Operations of arithmetic that a term costs whose sum is rounded after it:
 * pointwise work, whatever the device has for products. */
enum { ROUNDED_TERM = 4 };

/* Whether the device computes a convolution in Winograd's way. */
static bool by_winograd(const mrt_device_profile *d, const mrt_signature *s) {
  int way = (int)s->op->cost - (int)MRT_COST_convolution;
  bool convolves = way >= MRT_WINOGRAD_Y && way <= MRT_WINOGRAD_DW;
  bool widens = !(d->matrix[MRT_bf16] > 0);
  return convolves && d->winograd > 0 &&
         mrt_winograd_takes((mrt_winograd_way)way, s->in[0], s->in[1],
                            s->out[0], s->options, widens);
}

double mrt_node_speed(const mrt_device_profile *d, const mrt_node *n) {
  mrt_node_types t;
  if (mrt_node_is_view(n) || n->op->traits & (MRT_SWAPS | MRT_WAITS)) return 0;
  mrt_node_types_init(&t, n);
  if (!n->op->product) return speed_in(d, mrt_node_real(n));
  /* 16 multiplications for 36, were there nothing else to do. */
  double fewer = by_winograd(d, &t.s) ? 36.0 / 16 : 1;
  return fewer * speed_in(d, factors(&t.s));
}

/* How many times quicker than a product of its m, n, k. */
static double fewer_products(const mrt_device_profile *d,
                             const mrt_signature *s) {
  return by_winograd(d, s) ? d->winograd : 1;
}

/* Seconds of a product, its edges included. */
static double product_seconds(const mrt_device_profile *d,
                              const mrt_signature *s) {
  mrt_product p = s->op->product(s);
  mrt_cost kind = s->op->cost;
  const double *edge = d->edge[kind];
  return 2 * p.count * (p.m + edge[0]) * (p.n + edge[1]) * (p.k + edge[2]) /
         (d->rate[kind] * speed_in(d, factors(s)) * fewer_products(d, s));
}

static double work_seconds(const mrt_device_profile *d, const mrt_node *n) {
  mrt_node_types t;
  double by_kind[MRT_COST_COUNT] = { 0 }, sum = 0;
  mrt_node_types_init(&t, n);
  if (n->op->product && mrt_node_sums(n) != MRT_DTYPE_COUNT)
    return ROUNDED_TERM * n->op->flops(&t.s) / d->rate[MRT_COST_pointwise];
  if (n->op->product) sum = product_seconds(d, &t.s);
  if (n->op->product && !n->op->work) return sum;
  work_by_kind(&t.s, by_kind);
  if (n->op->product) by_kind[n->op->cost] = 0; /* the rest comes on top */
  for (int i = 0; i < MRT_COST_COUNT; i++)
    if (by_kind[i] > 0) sum += by_kind[i] / d->rate[i];
  /* Vectors of f64 hold half as many. */
  return mrt_node_real(n) == MRT_f64 ? 2 * sum : sum;
}

static double traffic_seconds(const mrt_device_profile *d, double bytes) {
  double near = bytes < d->cache ? bytes : d->cache;
  return near / d->cache_bandwidth + (bytes - near) / d->bandwidth;
}

/* Short work does not wake the other threads. */
static double on_threads(const mrt_device_profile *d, double seconds) {
  double alone = seconds * d->threads;
  return alone <= d->serial ? alone : seconds;
}

double mrt_device_seconds(const mrt_device_profile *d, const mrt_node *n) {
  if (mrt_node_is_view(n)) return 0;
  /* Copies between tiers run beside the steps: transfer_time.c. */
  if (n->op->traits & (MRT_SWAPS | MRT_WAITS)) return d->launch;
  double work = on_threads(d, work_seconds(d, n));
  double traffic = traffic_seconds(d, mrt_node_bytes(n));
  double together =
      n->op->traits & MRT_COLLECTIVE ? mrt_collective_seconds(d, n) : 0;
  if (together > traffic) traffic = together;
  return d->launch + (work > traffic ? work : traffic);
}

/* ---- measured ------------------------------------------------------------ */

double mrt_measured_find(const mrt_plan_options *options, uint64_t key) {
  int from = 0, to = options->measured_count;
  while (from < to) {
    int middle = from + (to - from) / 2;
    if (options->measured[middle].key < key)
      from = middle + 1;
    else
      to = middle;
  }
  bool found =
      from < options->measured_count && options->measured[from].key == key;
  return found ? options->measured[from].seconds : -1;
}

double mrt_node_seconds(const mrt_plan *plan, const mrt_node *n) {
  if (plan->options.measured_count && !mrt_node_is_view(n)) {
    double seconds = mrt_measured_find(&plan->options, mrt_node_key(n));
    if (seconds >= 0) return seconds;
  }
  bool hosted = false;
  if (plan->ctx->device.remote && !mrt_node_is_view(n))
    mrt_node_kernel(plan->ctx, n, &hosted);
  return hosted ? mrt_hosted_seconds(plan, n)
                : mrt_device_seconds(&plan->device, n);
}

static uint64_t mix_type(uint64_t h, const mrt_type *t) {
  int head[] = { (int)t->dtype, t->rank };
  h = mrt_hash(h, head, sizeof head);
  return mrt_hash(h, t->dims, (size_t)t->rank * sizeof *t->dims);
}

/* Options as the schema knows them: no random keys, no padding. */
static uint64_t mix_options(uint64_t h, const mrt_op *op, const void *options) {
  for (int i = 0; i < op->option_count; i++) {
    const mrt_option *o = &op->options[i];
    if (o->kind == MRT_OPT_HIDDEN) continue;
    h = mrt_hash(h, (const char *)options + o->offset,
                 mrt_option_bytes(o->kind));
  }
  return h;
}

/* What a fused chain does is in its label, and in how much work it is. */
uint64_t mrt_node_key(const mrt_node *n) {
  uint64_t h = MRT_HASH;
  double flops = mrt_node_flops(n);
  h = mrt_hash(h, n->label, strlen(n->label));
  h = mrt_hash(h, &flops, sizeof flops);
  h = mix_options(h, n->op, n->options);
  for (int i = 0; i < n->nin; i++) h = mix_type(h, &n->in[i]->type);
  for (int i = 0; i < n->nout; i++) h = mix_type(h, &n->out[i]->type);
  return h ? h : 1;
}
