/* each_use.h -- options of each_use
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_OP_EACH_USE_H
#define MRT_OP_EACH_USE_H

#include <stdint.h>

typedef struct mrt_each_use_options {
  int64_t count; /* uses */
} mrt_each_use_options;

#endif
