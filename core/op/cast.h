/* cast.h -- options of cast
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_OP_CAST_H
#define MRT_OP_CAST_H

#include "mrt/types.h"

typedef struct mrt_cast_options {
  mrt_dtype dtype;
} mrt_cast_options;

#endif
