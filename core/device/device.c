/* device.c -- what is done alike with all kinds of devices
 *
 * SPDX-License-Identifier: MIT */
#include "device/device.h"

#include <stdio.h>
#include <string.h>

mrt_status mrt_device_write(const mrt_device *d, void *to, const void *from,
                            size_t nbytes, mrt_error *e) {
  if (d->remote) return d->remote->write(d, to, from, nbytes, e);
  if (nbytes) memcpy(to, from, nbytes);
  return MRT_OK;
}

mrt_status mrt_device_read(const mrt_device *d, void *to, const void *from,
                           size_t nbytes, uint64_t fence, mrt_error *e) {
  if (d->remote) return d->remote->read(d, to, from, nbytes, fence, e);
  if (nbytes) memcpy(to, from, nbytes);
  return MRT_OK;
}

mrt_status mrt_device_copy(const mrt_device *d, void *to, const void *from,
                           size_t nbytes, mrt_error *e) {
  if (d->remote) return d->remote->copy(d, to, from, nbytes, e);
  if (nbytes) memcpy(to, from, nbytes);
  return MRT_OK;
}

mrt_status mrt_device_fill(const mrt_device *d, void *to, int byte,
                           size_t nbytes, mrt_error *e) {
  if (d->remote) return d->remote->fill(d, to, byte, nbytes, e);
  if (nbytes) memset(to, byte, nbytes);
  return MRT_OK;
}

/* Copies between memories as a bus does them; nobody has measured. */
static const double bus_rate = 5e9; /* bytes a second */

void mrt_device_describe(const mrt_device *d, const mrt_device *cpu,
                         mrt_device_profile *to) {
  if (d->describe) {
    d->describe(d, to);
    return;
  }
  cpu->describe(cpu, to);
  to->align = d->align;
  to->swap_read = to->swap_write = bus_rate;
  to->swap_latency = to->launch;
  snprintf(to->name, sizeof to->name, "%s", d->name);
}

mrt_status mrt_device_open_tier(const mrt_device *d, const char *folder,
                                const mrt_allocator *a, mrt_tier **tier,
                                mrt_error *e) {
  if (d->open_tier) return d->open_tier(d, folder, a, tier, e);
  return d->remote ? mrt_host_tier_open(d, a, tier, e)
                   : mrt_file_tier_open(folder, a, tier, e);
}

mrt_status mrt_device_open_folder(const mrt_device *d, const char *folder,
                                  const mrt_allocator *a, mrt_tier **tier,
                                  mrt_error *e) {
  return d->remote ? mrt_staged_tier_open(d, folder, a, tier, e)
                   : mrt_file_tier_open(folder, a, tier, e);
}

mrt_status mrt_device_works(const mrt_device *d, mrt_error *e) {
  return d->check ? d->check(d, e) : MRT_OK;
}

mrt_status mrt_device_wait(const mrt_device *d, mrt_error *e) {
  return d->queue ? d->queue->wait(d, e) : MRT_OK;
}
