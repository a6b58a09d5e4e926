/* declared_profile.c -- what a CUDA device declares of its speed
 *
 * From its own attributes: clocks times multiprocessors times what one of these
 * does in a clock, which the architecture says; the memory's clock times its
 * width.  `mrt info --measure` finds out.
 *
 * Of what other kernels reach there are figures of one H100 only, fitted to steps
 * of GPT-2 in bf16 (lua/mrt/device/profiles.lua says which to what); other devices
 * are taken to do the same share of theirs.
 *
 * SPDX-License-Identifier: MIT */
#include "runtime/cuda.h"

#include <stdio.h>

/* flop in a clock of a multiprocessor; bytes/s to the host. */
typedef struct cuda_figure {
  int arch; /* from this one on */
  double f32, f64, half, f8, host;
} cuda_figure;

/* Data sheets, over multiprocessors and the clock that the driver tells: A100,
 * RTX 3090 (sums in f32), RTX 4090, H100 SXM (its products run at 1.83 GHz), B200,
 * RTX 5090. */
static const cuda_figure figures[] = {
  { 80, 128, 128, 2048, 2048, 25e9 },   { 86, 256, 4, 512, 512, 25e9 },
  { 89, 256, 4, 512, 1024, 25e9 },      { 90, 256, 256, 3786, 7572, 55e9 },
  { 100, 256, 127, 7737, 15474, 55e9 }, { 120, 256, 4, 512, 1024, 55e9 },
};

/* Where an attribute says nothing. */
static const double some_clock = 1.5e9, some_bandwidth = 1e12;

/* On an H200 cuBLAS reaches 0.78 to 0.81 of the peak in large products, cuDNN
 * 0.77 of the bandwidth in norms: figures of others, not of these kernels. */
static const double reached = 0.77;

static double attribute(const mrt_cuda *c, enum cudaDeviceAttr which) {
  int value = 0;
  if (cudaDeviceGetAttribute(&value, which, c->index) == cudaSuccess)
    return value;
  cudaGetLastError();
  return 0;
}

/* Bytes/s: two transfers a clock, which is told in kHz. */
static double bandwidth_of(const mrt_cuda *c) {
  double clock = attribute(c, cudaDevAttrMemoryClockRate),
         bits = attribute(c, cudaDevAttrGlobalMemoryBusWidth);
  return clock > 0 && bits > 0 ? 2 * 1e3 * clock * bits / 8 : some_bandwidth;
}

/* Multiprocessors times their clock. */
static double clocks_of(const mrt_cuda *c) {
  double clock = attribute(c, cudaDevAttrClockRate);
  return c->sms * (clock > 0 ? 1e3 * clock : some_clock);
}

static void fill_kernels(mrt_device_profile *to, double f32, double bandwidth) {
  for (int i = 0; i < MRT_COST_COUNT; i++) to->rate[i] = f32;
  to->rate[MRT_COST_attention] = f32 / 2;
  to->rate[MRT_COST_attention_grad] = f32 / 2 / 1.76;
  to->rate[MRT_COST_activation] = f32 * 0.35;
  to->rate[MRT_COST_norm] = bandwidth * 0.99;
  to->rate[MRT_COST_reduce] = bandwidth * 0.38;
  to->rate[MRT_COST_update] = bandwidth * 0.54;
}

/* Tiles of 128, half empty. */
static void fill_edges(mrt_device_profile *to) {
  static const int products[] = { MRT_COST_matmul, MRT_COST_convolution,
                                  MRT_COST_convolution_dx,
                                  MRT_COST_convolution_dw };
  static const int attentions[] = { MRT_COST_attention,
                                    MRT_COST_attention_grad };
  for (int i = 0; i < MRT_COUNT(products); i++) {
    double *edge = to->edge[products[i]];
    edge[0] = edge[1] = 64, edge[2] = 32;
  }
  for (int i = 0; i < MRT_COUNT(attentions); i++)
    to->edge[attentions[i]][0] = to->edge[attentions[i]][1] = 64;
}

void mrt_cuda_describe(const mrt_device *device, mrt_device_profile *to) {
  const mrt_cuda *c = mrt_cuda_of(device);
  const cuda_figure *f = figures;
  for (int i = 0; i < MRT_COUNT(figures); i++)
    if (figures[i].arch <= c->arch) f = &figures[i];
  double n = clocks_of(c) * reached, bandwidth = bandwidth_of(c) * reached;
  *to = (mrt_device_profile){ .align = device->align,
                              .capacity = c->capacity,
                              .overhead = c->overhead,
                              .threads = 1,
                              .launch = 3e-6,
                              .call = 1e-5,
                              .epilogues = true,
                              .records = device->queue->record != NULL,
                              .matrix[MRT_f32] = n * f->f32,
                              .matrix[MRT_f64] = n * f->f64,
                              .matrix[MRT_f16] = n * f->half,
                              .matrix[MRT_bf16] = n * f->half,
                              .matrix[MRT_f8_e4m3] = n * f->f8,
                              .matrix[MRT_f8_e5m2] = n * f->f8,
                              .cache = 40e6,
                              .cache_bandwidth = 3 * bandwidth,
                              .bandwidth = bandwidth,
                              .swap_capacity = 1e12,
                              .swap_read = f->host,
                              .swap_write = f->host,
                              .swap_latency = 1e-5 };
  fill_kernels(to, n * f->f32, bandwidth);
  fill_edges(to);
  snprintf(to->name, sizeof to->name, "cuda-%s-%d", c->isa, c->sms);
}
