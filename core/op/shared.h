/* shared.h -- options of shared
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_OP_SHARED_H
#define MRT_OP_SHARED_H

#include <stdint.h>

typedef struct mrt_shared_options {
  int64_t count; /* uses */
} mrt_shared_options;

#endif
