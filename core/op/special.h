/* special.h -- options of special functions
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_OP_SPECIAL_H
#define MRT_OP_SPECIAL_H

#include <stdint.h>

enum { MRT_POLYGAMMA_MOST = 20 }; /* the highest derivative of digamma */

typedef struct mrt_polygamma_options {
  int64_t n; /* which derivative of digamma: 0 .. MRT_POLYGAMMA_MOST */
} mrt_polygamma_options;

#endif
