/* fft.h -- options of the Fourier transforms
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_OP_FFT_H
#define MRT_OP_FFT_H

#include "mrt/types.h"

typedef struct mrt_fft_options {
  int64_t dim;
  double scale;
  bool inverse;
} mrt_fft_options;

/* adjoint: what this is to the other's gradient.  Of a whole spectrum each
 * number but the first, and the middle one, stands for two. */
typedef struct mrt_rfft_options {
  int64_t dim;
  double scale;
  bool adjoint; /* these are doubled */
} mrt_rfft_options;

typedef struct mrt_irfft_options {
  int64_t dim;
  double scale;
  bool adjoint; /* these are halved */
  int64_t n;    /* of the result */
} mrt_irfft_options;

#endif
