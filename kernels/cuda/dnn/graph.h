/* graph.h -- inside of dnn/dnn.c: the library, and graphs of its descriptors
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CUDA_DNN_GRAPH_H
#define MRT_CUDA_DNN_GRAPH_H

#include "dnn/dnn.h"

#include <cudnn.h>

enum { MRT_DNN_MADE = 256, MRT_DNN_OPERATIONS = 32 };

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
  MRT_DNN_ONE,
  MRT_DNN_IDS /* what is between operands, from here on */
} mrt_dnn_number;

/* Operand i has the identity i + 1.  All descriptors stay as long as it. */
struct mrt_dnn {
  mrt_dnn_shape shape;
  mrt_dnn *next;
  bool works;
  cudnnBackendDescriptor_t plan, made[MRT_DNN_MADE];
  int count;
  int64_t workspace;
  float scale, lowest, one;
};

/* Describe p->shape and choose an engine: fills plan and workspace. */
cudnnStatus_t mrt_dnn_build(const mrt_dnn_library *l, mrt_dnn *p);

/* ---- while a graph is made ----------------------------------------------- */

typedef cudnnBackendDescriptor_t mrt_dnn_descriptor;

/* The first failure is kept, and nothing done after. */
typedef struct mrt_dnn_making {
  const mrt_dnn_library *lib;
  mrt_dnn *p;
  cudnnStatus_t status;
  mrt_dnn_descriptor op[MRT_DNN_OPERATIONS];
  int count, between; /* operations; tensors between them */
} mrt_dnn_making;

mrt_dnn_descriptor mrt_dnn_make(mrt_dnn_making *m,
                                cudnnBackendDescriptorType_t type);
void mrt_dnn_set(mrt_dnn_making *m, mrt_dnn_descriptor d,
                 cudnnBackendAttributeName_t name,
                 cudnnBackendAttributeType_t type, int64_t count,
                 const void *value);
void mrt_dnn_set_int(mrt_dnn_making *m, mrt_dnn_descriptor d,
                     cudnnBackendAttributeName_t name, int64_t value);
void mrt_dnn_set_type(mrt_dnn_making *m, mrt_dnn_descriptor d,
                      cudnnBackendAttributeName_t name, cudnnDataType_t value);
void mrt_dnn_refer(mrt_dnn_making *m, mrt_dnn_descriptor d,
                   cudnnBackendAttributeName_t name, mrt_dnn_descriptor to);
mrt_dnn_descriptor mrt_dnn_finish(mrt_dnn_making *m, mrt_dnn_descriptor d);
/* Finish it, and have it be the next of the graph. */
void mrt_dnn_operation(mrt_dnn_making *m, mrt_dnn_descriptor d);

/* Where a tensor's numbers are. */
typedef enum mrt_dnn_place {
  MRT_DNN_IN_MEMORY,
  MRT_DNN_NOWHERE, /* between operations */
  MRT_DNN_ON_HOST
} mrt_dnn_place;

cudnnDataType_t mrt_dnn_type(int64_t dtype);
mrt_dnn_descriptor mrt_dnn_operand(mrt_dnn_making *m, int i);
/* The operand with other dims and strides. */
mrt_dnn_descriptor mrt_dnn_seen(mrt_dnn_making *m, int i,
                                const mrt_dnn_tensor *as);
mrt_dnn_descriptor mrt_dnn_between(mrt_dnn_making *m, cudnnDataType_t type,
                                   const int64_t *dims, const int64_t *strides);
mrt_dnn_descriptor mrt_dnn_scalar(mrt_dnn_making *m, mrt_dnn_number id);

/* y = mode(x, b, t), of those that it takes. */
typedef struct mrt_dnn_pointwise {
  cudnnPointwiseMode_t mode;
  mrt_dnn_descriptor x, b, t, y;
  int64_t axis;       /* 0: none */
  cudnnDataType_t in; /* computed in; f32 if nothing is said */
} mrt_dnn_pointwise;
void mrt_dnn_point(mrt_dnn_making *m, const mrt_dnn_pointwise *p);

/* attention_graph.c: the operations of a shape of these kinds */
void mrt_dnn_attend(mrt_dnn_making *m);
void mrt_dnn_attend_grad(mrt_dnn_making *m);

#endif
