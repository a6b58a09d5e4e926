/* profile.c -- do a device's figures make sense?
 *
 * SPDX-License-Identifier: MIT */
#include "device/device.h"

#include <math.h>

/* Figures that must be positive. */
typedef struct profile_figure {
  const char *name;
  double value;
} profile_figure;

static mrt_status want_positive(const profile_figure *f, int n, mrt_error *e) {
  for (int i = 0; i < n; i++)
    if (!(f[i].value > 0) || isinf(f[i].value))
      return mrt_fail(e, MRT_EVALUE,
                      "device: %s is %g, a positive number wanted", f[i].name,
                      f[i].value);
  return MRT_OK;
}

static mrt_status want_more(const profile_figure *f, int n, mrt_error *e) {
  for (int i = 0; i < n; i++)
    if (!(f[i].value >= 0) || isinf(f[i].value))
      return mrt_fail(e, MRT_EVALUE,
                      "device: %s is %g, zero or a positive number wanted",
                      f[i].name, f[i].value);
  return MRT_OK;
}

mrt_status mrt_device_check(const mrt_device_profile *p, mrt_error *e) {
  const profile_figure positive[] = {
    { "matrix.f32", p->matrix[MRT_f32] },
    { "cache_bandwidth", p->cache_bandwidth },
    { "bandwidth", p->bandwidth },
    { "threads", (double)p->threads },
  };
  const profile_figure more[] = {
    { "launch", p->launch },
    { "call", p->call },
    { "serial", p->serial },

    { "cache", p->cache },
    { "swap_read", p->swap_read },
    { "swap_write", p->swap_write },
    { "swap_latency", p->swap_latency },
    { "swap_capacity", p->swap_capacity },
  };
  MRT_TRY(want_positive(positive, MRT_COUNT(positive), e));
  MRT_TRY(want_more(more, MRT_COUNT(more), e));
  for (int i = 0; i < MRT_DTYPE_COUNT; i++) {
    profile_figure f = { "a figure of matrix", p->matrix[i] };
    MRT_TRY(want_more(&f, 1, e));
  }
  for (int i = 0; i < MRT_COST_COUNT; i++) {
    profile_figure f = { "a figure of rate", p->rate[i] };
    MRT_TRY(want_positive(&f, 1, e));
    for (int k = 0; k < 3; k++) {
      profile_figure edge = { "a figure of edge", p->edge[i][k] };
      MRT_TRY(want_more(&edge, 1, e));
    }
  }
  for (int i = 0; i < p->link_count; i++) {
    const mrt_link *l = &p->links[i];
    profile_figure rest[] = { { "ranks of a link", l->ranks },
                              { "latency of a link", l->latency },
                              { "ramp of a link", l->ramp } };
    profile_figure speed = { "bandwidth of a link", l->bandwidth };
    MRT_TRY(want_positive(&speed, 1, e));
    MRT_TRY(want_more(rest, MRT_COUNT(rest), e));
    bool last = i == p->link_count - 1;
    double below = i > 0 ? p->links[i - 1].ranks : 1;
    if (l->ranks <= below && !(last && l->ranks == 0))
      return mrt_fail(e, MRT_EVALUE,
                      "device: link %d joins %g ranks, more than %g wanted",
                      i + 1, l->ranks, below);
  }
  if (p->align < 1 || p->align > 1 << 30 || (p->align & (p->align - 1)))
    return mrt_fail(e, MRT_EVALUE,
                    "device: align is %zu, a power of two wanted", p->align);
  return MRT_OK;
}
