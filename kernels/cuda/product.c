/* product.c -- products of matrices by cuBLASLt
 *
 * SPDX-License-Identifier: MIT */
#include "product.h"

cudaError_t mrt_product_open(mrt_cuda *c) {
  (void)c;
  return cudaSuccess;
}

void mrt_product_close(mrt_cuda *c) { (void)c; }
