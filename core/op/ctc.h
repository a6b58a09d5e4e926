/* ctc.h -- options of ctc_loss, shared by rows and kernels
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_OP_CTC_H
#define MRT_OP_CTC_H

#include <stdint.h>

typedef struct mrt_ctc_options {
  int64_t blank; /* the class that stands for no label */
} mrt_ctc_options;

#endif
