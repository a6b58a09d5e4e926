/* profile.c -- do a device's figures make sense?
 *
 * SPDX-License-Identifier: MIT */
#include "device/device.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

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

int mrt_device_tier_count(const mrt_device_profile *p) {
  return p->swap_read > 0 && p->swap_write > 0 ? 1 + p->slower_count : 0;
}

mrt_tier_profile mrt_device_tier(const mrt_device_profile *p, int i) {
  if (i > 0) return p->slower[i - 1];
  mrt_tier_profile t = { .capacity = p->swap_capacity,
                         .read = p->swap_read,
                         .write = p->swap_write,
                         .latency = p->swap_latency };
  snprintf(t.name, sizeof t.name, "%s", *p->swap_name ? p->swap_name : "swap");
  snprintf(t.folder, sizeof t.folder, "%s", p->swap_folder);
  return t;
}

/* Each slower tier works, and goes by a name of its own. */
static mrt_status check_slower(const mrt_device_profile *p, mrt_error *e) {
  for (int i = 0; i < p->slower_count; i++) {
    const mrt_tier_profile *t = &p->slower[i];
    profile_figure speed[] = { { "read of a tier", t->read },
                               { "write of a tier", t->write } };
    profile_figure rest[] = { { "latency of a tier", t->latency },
                              { "capacity of a tier", t->capacity } };
    MRT_TRY(want_positive(speed, MRT_COUNT(speed), e));
    MRT_TRY(want_more(rest, MRT_COUNT(rest), e));
    for (int k = 0; k <= i; k++)
      if (strcmp(mrt_device_tier(p, k).name, t->name) == 0)
        return mrt_fail(e, MRT_EVALUE, "device: two swap tiers are named '%s'",
                        t->name);
  }
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
    { "winograd", p->winograd },
    { "spend", p->spend },
    { "swap_read", p->swap_read },
    { "swap_write", p->swap_write },
    { "swap_latency", p->swap_latency },
    { "swap_capacity", p->swap_capacity },
  };
  MRT_TRY(want_positive(positive, MRT_COUNT(positive), e));
  MRT_TRY(want_more(more, MRT_COUNT(more), e));
  MRT_TRY(check_slower(p, e));
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
