/* cuda_runtime_api.h -- the part of the CUDA runtime that mrt uses, emulated
 *
 * Names, numbers and meanings are those of CUDA 13; what they do here is in
 * spec/kernels/cuda/emulate*.cc.  For C and C++.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_EMULATE_CUDA_RUNTIME_API_H
#define MRT_EMULATE_CUDA_RUNTIME_API_H

#include <stddef.h>
#include <stdint.h>

#define CUDART_VERSION 13000
#define MRT_EMULATED   1

#ifdef __cplusplus
extern "C" {
#endif

/* name, number, cudaGetErrorString's text */
#define MRT_EMULATE_ERRORS(ERROR)                                              \
  ERROR(cudaSuccess, 0, "no error")                                            \
  ERROR(cudaErrorInvalidValue, 1, "invalid argument")                          \
  ERROR(cudaErrorMemoryAllocation, 2, "out of memory")                         \
  ERROR(cudaErrorInvalidConfiguration, 9, "invalid configuration argument")    \
  ERROR(cudaErrorNoDevice, 100, "no CUDA-capable device is detected")          \
  ERROR(cudaErrorInvalidDevice, 101, "invalid device ordinal")                 \
  ERROR(cudaErrorInvalidResourceHandle, 400, "invalid resource handle")        \
  ERROR(cudaErrorNotReady, 600, "device not ready")                            \
  ERROR(cudaErrorIllegalAddress, 700,                                          \
        "an illegal memory access was "                                        \
        "encountered")                                                         \
  ERROR(cudaErrorLaunchFailure, 719, "unspecified launch failure")             \
  ERROR(cudaErrorStreamCaptureUnsupported, 900,                                \
        "operation not permitted when "                                        \
        "stream is capturing")                                                 \
  ERROR(cudaErrorStreamCaptureInvalidated, 901,                                \
        "operation failed due to a "                                           \
        "previous error during "                                               \
        "capture")                                                             \
  ERROR(cudaErrorStreamCaptureUnjoined, 904,                                   \
        "capturing stream has unjoined "                                       \
        "work")                                                                \
  ERROR(cudaErrorCapturedEvent, 907,                                           \
        "operation not permitted on an event "                                 \
        "last recorded in a capturing stream")

typedef enum cudaError {
#define ERROR(name, number, text) name = number,
  MRT_EMULATE_ERRORS(ERROR)
#undef ERROR
} cudaError_t;

typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;
typedef struct CUgraph_st *cudaGraph_t;
typedef struct CUgraphExec_st *cudaGraphExec_t;

enum cudaMemcpyKind {
  cudaMemcpyHostToHost,
  cudaMemcpyHostToDevice,
  cudaMemcpyDeviceToHost,
  cudaMemcpyDeviceToDevice,
  cudaMemcpyDefault
};
enum cudaStreamCaptureMode {
  cudaStreamCaptureModeGlobal,
  cudaStreamCaptureModeThreadLocal,
  cudaStreamCaptureModeRelaxed
};
enum cudaStreamCaptureStatus {
  cudaStreamCaptureStatusNone,
  cudaStreamCaptureStatusActive,
  cudaStreamCaptureStatusInvalidated
};
enum cudaDeviceAttr {
  cudaDevAttrMaxThreadsPerBlock = 1,
  cudaDevAttrMaxSharedMemoryPerBlock = 8,
  cudaDevAttrWarpSize = 10,
  cudaDevAttrClockRate = 13,
  cudaDevAttrMultiProcessorCount = 16,
  cudaDevAttrMemoryClockRate = 36,
  cudaDevAttrGlobalMemoryBusWidth = 37,
  cudaDevAttrL2CacheSize = 38,
  cudaDevAttrAsyncEngineCount = 40,
  cudaDevAttrComputeCapabilityMajor = 75,
  cudaDevAttrComputeCapabilityMinor = 76,
  cudaDevAttrMaxSharedMemoryPerBlockOptin = 97
};
enum cudaFuncAttribute {
  cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
  cudaFuncAttributePreferredSharedMemoryCarveout = 9
};
enum {
  cudaStreamDefault = 0,
  cudaStreamNonBlocking = 1,
  cudaEventDefault = 0,
  cudaEventBlockingSync = 1,
  cudaEventDisableTiming = 2,
  cudaHostAllocDefault = 0,
  cudaHostAllocPortable = 1,
  cudaHostAllocMapped = 2,
  cudaHostRegisterDefault = 0
};

enum cudaMemPoolAttr {
  cudaMemPoolReuseFollowEventDependencies = 1,
  cudaMemPoolReuseAllowOpportunistic = 2,
  cudaMemPoolReuseAllowInternalDependencies = 3,
  cudaMemPoolAttrReleaseThreshold = 4,
  cudaMemPoolAttrReservedMemCurrent = 5,
  cudaMemPoolAttrUsedMemCurrent = 7
};
typedef struct CUmemPoolHandle_st *cudaMemPool_t;

struct cudaDeviceProp {
  char name[256];
  size_t totalGlobalMem, sharedMemPerBlock, sharedMemPerBlockOptin;
  int warpSize, maxThreadsPerBlock, major, minor, multiProcessorCount;
  int l2CacheSize, memoryBusWidth, pciBusID, pciDeviceID, pciDomainID;
};
#ifndef __cplusplus
typedef struct cudaDeviceProp cudaDeviceProp;
#endif

const char *cudaGetErrorName(cudaError_t e);
const char *cudaGetErrorString(cudaError_t e);
cudaError_t cudaGetLastError(void);
cudaError_t cudaPeekAtLastError(void);

cudaError_t cudaRuntimeGetVersion(int *version);
cudaError_t cudaDriverGetVersion(int *version);
cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDevice(int *device);
cudaError_t cudaDeviceGetPCIBusId(char *id, int room, int device);
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int device);
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute,
                                   int device);
cudaError_t cudaDeviceSynchronize(void);
cudaError_t cudaDeviceReset(void);
cudaError_t cudaFuncSetAttribute(const void *kernel,
                                 enum cudaFuncAttribute attribute, int value);

cudaError_t cudaMalloc(void **data, size_t nbytes);
cudaError_t cudaFree(void *data);
cudaError_t cudaMallocAsync(void **data, size_t nbytes, cudaStream_t stream);
cudaError_t cudaMallocFromPoolAsync(void **data, size_t nbytes,
                                    cudaMemPool_t pool, cudaStream_t stream);
cudaError_t cudaFreeAsync(void *data, cudaStream_t stream);
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int device);
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool,
                                    enum cudaMemPoolAttr attribute,
                                    void *value);
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool,
                                    enum cudaMemPoolAttr attribute,
                                    void *value);
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t kept);
cudaError_t cudaMallocHost(void **data, size_t nbytes);
cudaError_t cudaHostAlloc(void **data, size_t nbytes, unsigned flags);
cudaError_t cudaFreeHost(void *data);
cudaError_t cudaHostRegister(void *data, size_t nbytes, unsigned flags);
cudaError_t cudaHostUnregister(void *data);
cudaError_t cudaMemGetInfo(size_t *free, size_t *total);
cudaError_t cudaMemcpy(void *to, const void *from, size_t nbytes,
                       enum cudaMemcpyKind kind);
cudaError_t cudaMemset(void *to, int byte, size_t nbytes);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t nbytes,
                            enum cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemsetAsync(void *to, int byte, size_t nbytes,
                            cudaStream_t stream);

cudaError_t cudaStreamCreate(cudaStream_t *stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags);
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags,
                                         int priority);
cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event,
                                unsigned flags);
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, void (*f)(void *),
                               void *data);

cudaError_t cudaEventCreate(cudaEvent_t *event);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to);

cudaError_t cudaStreamBeginCapture(cudaStream_t stream,
                                   enum cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph);
cudaError_t cudaStreamIsCapturing(cudaStream_t stream,
                                  enum cudaStreamCaptureStatus *status);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph,
                                 unsigned long long flags);
cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream);
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec);

#ifdef __cplusplus
}
#endif
#endif
