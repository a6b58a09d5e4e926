/* declared_profile.c -- what a CUDA device declares of its speed
 *
 * Published figures of the architecture, in proportion to the device's own
 * number of multiprocessors; `mrt info --measure` finds out.
 *
 * SPDX-License-Identifier: MIT */
#include "runtime/cuda.h"

#include <stdio.h>

/* Per multiprocessor: flop/s of products; bytes/s of memory. */
typedef struct cuda_figure {
  int arch; /* from this one on */
  double f32, f64, half, f8, memory, host;
} cuda_figure;

/* A100 (108 multiprocessors), H100 SXM (132), B200 (148): data sheets. */
static const cuda_figure figures[] = {
  { 80, 19.5e12 / 108, 19.5e12 / 108, 312e12 / 108, 312e12 / 108, 1555e9 / 108,
    25e9 },
  { 90, 67e12 / 132, 67e12 / 132, 989.4e12 / 132, 1979e12 / 132, 3350e9 / 132,
    55e9 },
  { 100, 75e12 / 148, 37e12 / 148, 2250e12 / 148, 4500e12 / 148, 8000e9 / 148,
    55e9 },
};

/* On an H200 cuBLAS reaches 0.78 to 0.81 of the peak in large products, cuDNN
 * 0.77 of the bandwidth in norms: figures of others, not of these kernels. */
static const double reached = 0.77;

void mrt_cuda_describe(const mrt_device *device, mrt_device_profile *to) {
  const mrt_cuda *c = mrt_cuda_of(device);
  const cuda_figure *f = figures;
  for (int i = 0; i < MRT_COUNT(figures); i++)
    if (figures[i].arch <= c->arch) f = &figures[i];
  double n = c->sms * reached;
  *to = (mrt_device_profile){ .align = device->align,
                              .capacity = c->capacity,
                              .overhead = c->overhead,
                              .threads = 1,
                              .launch = 3e-6,
                              .call = 1e-5,
                              .epilogues = true,
                              .matrix[MRT_f32] = n * f->f32,
                              .matrix[MRT_f64] = n * f->f64,
                              .matrix[MRT_f16] = n * f->half,
                              .matrix[MRT_bf16] = n * f->half,
                              .matrix[MRT_f8_e4m3] = n * f->f8,
                              .matrix[MRT_f8_e5m2] = n * f->f8,
                              .cache = 40e6,
                              .cache_bandwidth = 3 * n * f->memory,
                              .bandwidth = n * f->memory,
                              .swap_capacity = 1e12,
                              .swap_read = f->host,
                              .swap_write = f->host,
                              .swap_latency = 1e-5 };
  for (int i = 0; i < MRT_COST_COUNT; i++) to->rate[i] = n * f->f32;
  to->rate[MRT_COST_attention] = n * f->f32 / 2;
  static const int products[] = { MRT_COST_matmul, MRT_COST_convolution,
                                  MRT_COST_convolution_dx,
                                  MRT_COST_convolution_dw };
  for (int i = 0; i < MRT_COUNT(products); i++) {
    double *edge = to->edge[products[i]]; /* tiles of 128, half empty */
    edge[0] = edge[1] = 64, edge[2] = 32;
  }
  to->edge[MRT_COST_attention][0] = to->edge[MRT_COST_attention][1] = 64;
  snprintf(to->name, sizeof to->name, "cuda-%s-%d", c->isa, c->sms);
}
