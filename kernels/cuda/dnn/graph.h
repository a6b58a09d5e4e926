/* graph.h -- inside of dnn/dnn.c: the library, and graphs of its descriptors
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CUDA_DNN_GRAPH_H
#define MRT_CUDA_DNN_GRAPH_H

#include "dnn/dnn.h"

#include <cudnn.h>

enum { MRT_DNN_MADE = 128 };

/* The functions that are used, and a handle of the device's. */
typedef struct mrt_dnn_library {
  void *library;
  size_t number;
  cudnnHandle_t handle;
  size_t (*version)(void);
  const char *(*error)(cudnnStatus_t);
  cudnnStatus_t (*create)(cudnnHandle_t *);
  cudnnStatus_t (*destroy)(cudnnHandle_t);
  cudnnStatus_t (*stream)(cudnnHandle_t, cudaStream_t);
  cudnnStatus_t (*make)(cudnnBackendDescriptorType_t,
                        cudnnBackendDescriptor_t *);
  cudnnStatus_t (*unmake)(cudnnBackendDescriptor_t);
  cudnnStatus_t (*finalize)(cudnnBackendDescriptor_t);
  cudnnStatus_t (*set)(cudnnBackendDescriptor_t, cudnnBackendAttributeName_t,
                       cudnnBackendAttributeType_t, int64_t, const void *);
  cudnnStatus_t (*get)(cudnnBackendDescriptor_t, cudnnBackendAttributeName_t,
                       cudnnBackendAttributeType_t, int64_t, int64_t *, void *);
  cudnnStatus_t (*execute)(cudnnHandle_t, cudnnBackendDescriptor_t,
                           cudnnBackendDescriptor_t);
} mrt_dnn_library;

/* Numbers that a graph reads on the host when it is executed. */
typedef enum mrt_dnn_number {
  MRT_DNN_SCALE = MRT_DNN_OPERANDS + 1,
  MRT_DNN_LOWEST, /* what a score that is not seen becomes */
  MRT_DNN_IDS     /* what is between operands, from here on */
} mrt_dnn_number;

/* Operand i has the identity i + 1.  All descriptors stay as long as it. */
struct mrt_dnn {
  mrt_dnn_shape shape;
  mrt_dnn *next;
  bool works;
  cudnnBackendDescriptor_t plan, made[MRT_DNN_MADE];
  int count;
  int64_t workspace;
  float scale, lowest;
};

/* Describe p->shape and choose an engine: fills plan and workspace. */
cudnnStatus_t mrt_dnn_build(const mrt_dnn_library *l, mrt_dnn *p);

#endif
