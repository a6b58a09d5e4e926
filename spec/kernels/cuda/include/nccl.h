/* nccl.h -- the part of NCCL that mrt uses, emulated
 *
 * Names, numbers and meanings are those of NCCL 2.32; what they do here is in
 * spec/kernels/cuda/emulate_nccl.cc.  For C and C++.  The functions are exported: they
 * are found by name, as those of the library are.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_EMULATE_NCCL_H
#define MRT_EMULATE_NCCL_H

#include "cuda_runtime_api.h"
#include "emulate.h"

#ifdef __cplusplus
extern "C" {
#endif

#define NCCL_VERSION_CODE 23203

typedef struct ncclComm *ncclComm_t;
typedef struct {
  char internal[128];
} ncclUniqueId;

typedef enum {
  ncclSuccess,
  ncclUnhandledCudaError,
  ncclSystemError,
  ncclInternalError,
  ncclInvalidArgument,
  ncclInvalidUsage,
  ncclRemoteError,
  ncclInProgress
} ncclResult_t;
typedef enum { ncclSum, ncclProd, ncclMax, ncclMin, ncclAvg } ncclRedOp_t;
typedef enum {
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclInt64 = 4,
  ncclFloat16 = 6,
  ncclFloat32 = 7,
  ncclFloat64 = 8,
  ncclBfloat16 = 9
} ncclDataType_t;

typedef struct {
  size_t size;
  unsigned magic, version;
  int blocking;
} ncclConfig_t;
#define NCCL_CONFIG_INITIALIZER                                                \
  { sizeof(ncclConfig_t), 0xcafebeef, NCCL_VERSION_CODE, 1 }

MRT_EMULATE_API ncclResult_t ncclGetVersion(int *version);
MRT_EMULATE_API ncclResult_t ncclGetUniqueId(ncclUniqueId *id);
MRT_EMULATE_API ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int size,
                                                    ncclUniqueId id, int rank,
                                                    ncclConfig_t *config);
MRT_EMULATE_API ncclResult_t ncclCommDestroy(ncclComm_t comm);
MRT_EMULATE_API ncclResult_t ncclCommAbort(ncclComm_t comm);
MRT_EMULATE_API ncclResult_t ncclCommGetAsyncError(ncclComm_t comm,
                                                   ncclResult_t *code);
MRT_EMULATE_API const char *ncclGetErrorString(ncclResult_t code);
MRT_EMULATE_API const char *ncclGetLastError(ncclComm_t comm);
MRT_EMULATE_API ncclResult_t ncclGroupStart(void);
MRT_EMULATE_API ncclResult_t ncclGroupEnd(void);
MRT_EMULATE_API ncclResult_t ncclCommRegister(ncclComm_t comm, void *data,
                                              size_t nbytes, void **handle);
MRT_EMULATE_API ncclResult_t ncclCommDeregister(ncclComm_t comm, void *handle);

MRT_EMULATE_API ncclResult_t ncclAllReduce(const void *from, void *to,
                                           size_t count, ncclDataType_t type,
                                           ncclRedOp_t op, ncclComm_t comm,
                                           cudaStream_t stream);
MRT_EMULATE_API ncclResult_t ncclReduceScatter(const void *from, void *to,
                                               size_t count,
                                               ncclDataType_t type,
                                               ncclRedOp_t op, ncclComm_t comm,
                                               cudaStream_t stream);
MRT_EMULATE_API ncclResult_t ncclAllGather(const void *from, void *to,
                                           size_t count, ncclDataType_t type,
                                           ncclComm_t comm,
                                           cudaStream_t stream);
MRT_EMULATE_API ncclResult_t ncclBroadcast(const void *from, void *to,
                                           size_t count, ncclDataType_t type,
                                           int root, ncclComm_t comm,
                                           cudaStream_t stream);
MRT_EMULATE_API ncclResult_t ncclSend(const void *from, size_t count,
                                      ncclDataType_t type, int peer,
                                      ncclComm_t comm, cudaStream_t stream);
MRT_EMULATE_API ncclResult_t ncclRecv(void *to, size_t count,
                                      ncclDataType_t type, int peer,
                                      ncclComm_t comm, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
