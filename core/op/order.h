/* order.h -- options of sort and of what chooses elements by their rank
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_OP_ORDER_H
#define MRT_OP_ORDER_H

#include "mrt/types.h"

typedef struct mrt_sort_options {
  int64_t dim;
  bool descending;
} mrt_sort_options;

typedef struct mrt_topk_options {
  int64_t k, dim;
  bool largest, sorted;
} mrt_topk_options;

typedef struct mrt_kthvalue_options {
  int64_t k, dim; /* k counts from 1: the smallest */
  bool keepdim;
} mrt_kthvalue_options;

/* median, mode */
typedef struct mrt_middle_options {
  int64_t dim;
  bool keepdim;
  bool skip_nan; /* of median: the median of the others */
} mrt_middle_options;

#endif
