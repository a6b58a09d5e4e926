/* fallback.h -- kernels of ours that stand in where cuDNN is not used
 *
 * conv.cu, conv_dw.cu, attention.cu, attention_grad.cu; of attention there are
 * three forms
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CUDA_FALLBACK_H
#define MRT_CUDA_FALLBACK_H

#include "device/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

void mrt_cuda_fallback_conv2d(const mrt_call *c);
size_t mrt_cuda_fallback_conv2d_scratch(const mrt_call *c);
void mrt_cuda_fallback_conv2d_dx(const mrt_call *c);
size_t mrt_cuda_fallback_conv2d_dx_scratch(const mrt_call *c);
void mrt_cuda_fallback_conv2d_dw(const mrt_call *c);
size_t mrt_cuda_fallback_conv2d_dw_scratch(const mrt_call *c);
void mrt_cuda_fallback_attention(const mrt_call *c);
void mrt_cuda_fallback_attention_grad(const mrt_call *c);
size_t mrt_cuda_fallback_attention_grad_scratch(const mrt_call *c);
/* The environment says: without matrix units (runtime/switches.c). */
bool mrt_cuda_attention_is_plain(const mrt_call *c);

/* attention_mma.cu, attention_wgmma.cu, and those of the gradient: whether the
 * form for matrix units, and that for Hopper's warpgroups, fits and has been
 * launched.  `delta`: as attention_grad.cu says. */
bool mrt_attention_mma(const mrt_call *c);
bool mrt_attention_wgmma(const mrt_call *c);
bool mrt_attention_grad_mma(const mrt_call *c, const float *delta);
bool mrt_attention_grad_wgmma(const mrt_call *c, const float *delta);
/* attention_trial.c: when a plan is made, try the form for warpgroups; when it
 * runs, whether that is right here. */
void mrt_cuda_attention_try(const mrt_call *c, bool is_grad);
bool mrt_cuda_attention_by_groups(const mrt_call *c, bool is_grad);

#ifdef __cplusplus
}
#endif

#endif
