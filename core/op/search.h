/* search.h -- options of what looks for elements, or counts them
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_OP_SEARCH_H
#define MRT_OP_SEARCH_H

#include "mrt/types.h"

typedef struct mrt_searchsorted_options {
  bool right;
} mrt_searchsorted_options;

typedef struct mrt_bincount_options {
  int64_t size; /* of the result: ids lie below */
} mrt_bincount_options;

typedef struct mrt_histc_options {
  int64_t bins;
  double min, max; /* equal: those of the data, or 1 to each side */
} mrt_histc_options;

typedef struct mrt_nonzero_options {
  int64_t size, fill_value;
} mrt_nonzero_options;

#endif
