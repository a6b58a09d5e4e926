/* dnn.h -- convolutions and attention by cuDNN, where it is installed
 *
 * The library is opened with the device and is never needed: what it refuses,
 * or does not compute alike each time, kernels of ours do (dnn/fallback.h).
 * Which of the two is decided when a plan is made, by shape, dtype, device and
 * version.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CUDA_DNN_H
#define MRT_CUDA_DNN_H

#include "runtime/cuda.h"

enum {
  MRT_DNN_OPERANDS = 10,
  MRT_DNN_ALIGN = 16, /* bytes: all addresses are multiples of it */
  /* Bytes of workspace, and a little that the library needs beside. */
  MRT_DNN_MOST = (256 << 20) + (4 << 10),
  MRT_DNN_MOST_ATTENTION = (512 << 20) + (4 << 10)
};

/* With the device: the library, if it is there and not turned off, and what it
 * has learned. */
void mrt_dnn_open(mrt_cuda *c);
void mrt_dnn_close(mrt_cuda *c);
/* 92800: 9.28.0; 0: it is not used. */
size_t mrt_dnn_version(const mrt_cuda *c);

/* What is computed, and its operands in this order. */
typedef enum mrt_dnn_kind {
  MRT_DNN_CONV,       /* x, w, y, and a bias if there is one */
  MRT_DNN_CONV_DX,    /* dy, w, dx */
  MRT_DNN_CONV_DW,    /* x, dy, dw */
  MRT_DNN_ATTEND,     /* q, k, v, o, lse */
  MRT_DNN_ATTEND_GRAD /* and do, dq, dk, dv, and delta, which is scratch */
} mrt_dnn_kind;

/* As the library counts dimensions: images [N, C, H, W], weights
 * [O, C/groups, kh, kw], heads [B, H, T, D]. */
typedef struct mrt_dnn_tensor {
  int64_t dims[4], strides[4];
  int64_t dtype;
} mrt_dnn_tensor;

/* Compared as bytes: it has no gaps, and zeros where a field means nothing. */
typedef struct mrt_dnn_shape {
  int64_t kind, count; /* operands */
  mrt_dnn_tensor of[MRT_DNN_OPERANDS];
  int64_t stride[2], padding[2], dilation[2];
  int64_t causal; /* query t sees keys s <= t */
  double scale;
} mrt_dnn_shape;

typedef struct mrt_dnn mrt_dnn;

/* How the library computes it, kept with the device; NULL: it does not. */
const mrt_dnn *mrt_dnn_find(mrt_cuda *c, const mrt_dnn_shape *shape);
/* Bytes that every run needs. */
size_t mrt_dnn_workspace(const mrt_dnn *p);
/* Whether these addresses are multiples of MRT_DNN_ALIGN. */
bool mrt_dnn_takes(void *const *data, int count);
/* Queue it.  A failure is the device's. */
void mrt_dnn_run(mrt_cuda *c, const mrt_dnn *p, void *const *data,
                 void *workspace);

static inline size_t mrt_dnn_up(size_t bytes) {
  return (bytes + 255) / 256 * 256;
}

#endif
