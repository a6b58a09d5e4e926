/* toy.h -- a device for the specs: memory that nobody else reads, three kernels
 *
 * SPDX-License-Identifier: MIT */
#ifndef TOY_H
#define TOY_H

#include "device/device.h"

/* ---- toy.c --------------------------------------------------------------- */

/* Outside of these two the device's memory can be neither read nor written. */
void toy_unlock(void);
void toy_lock(void);

/* ---- queue.c ------------------------------------------------------------- */

extern const mrt_queue toy_queue;

/* ---- kernels.c ----------------------------------------------------------- */

/* The kernel of this operator, or NULL. */
const mrt_kernel *toy_kernel(const mrt_device *device, int op, mrt_dtype dtype);

#endif
