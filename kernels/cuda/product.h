/* product.h -- products of matrices by cuBLASLt
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CUDA_PRODUCT_H
#define MRT_CUDA_PRODUCT_H

#include "cuda.h"

/* With the device: the library's handle, and what it has learned. */
cudaError_t mrt_product_open(mrt_cuda *c);
void mrt_product_close(mrt_cuda *c);

#endif
