/* embedding_bag.h -- options of embedding_bag, shared by rows and kernels
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_OP_EMBEDDING_BAG_H
#define MRT_OP_EMBEDDING_BAG_H

#include <stdint.h>

enum { MRT_BAG_SUM, MRT_BAG_MEAN, MRT_BAG_MAX };

typedef struct mrt_bag_options {
  int mode;
} mrt_bag_options;

typedef struct mrt_bag_grad_options {
  int mode;
  int64_t rows; /* of the table */
} mrt_bag_grad_options;

#endif
