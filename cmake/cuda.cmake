# The CUDA device, twice from the same sources, if asked for:
#   MRT_CUDA           mrt_cuda, by nvcc, for a GPU; ON where there is a driver
#   MRT_CUDA_EMULATED  mrt_cuda_emulated, by the C++ compiler against spec/kernels/cuda,
#                      and its tests; scripts/test asks for it
set(driver OFF)
# 90a: Hopper's own instructions, which attention_wgmma.cu has
set(archs "80-real;90a-real;100-real;100-virtual")
if(EXISTS /proc/driver/nvidia/version AND EXISTS /usr/local/cuda/bin/nvcc)
  set(driver ON)
  set(archs native)
endif()
option(MRT_CUDA "build the CUDA device" ${driver})
option(MRT_CUDA_EMULATED "build the CUDA device for the emulator" OFF)
set(MRT_CUDA_ARCHS ${archs} CACHE STRING "compute capabilities")
if(NOT MRT_CUDA AND NOT MRT_CUDA_EMULATED)
  return()
endif()

include(CheckLanguage)
check_language(CXX)
if(NOT CMAKE_CXX_COMPILER)
  message(STATUS "no C++ compiler: the CUDA device is neither built nor tested")
  return()
endif()
enable_language(CXX)
set(CMAKE_CXX_STANDARD 17)
file(GLOB cuda_kernels CONFIGURE_DEPENDS kernels/cuda/*.cu
  kernels/cuda/*/*.cu)
file(GLOB cuda_hosts CONFIGURE_DEPENDS kernels/cuda/*.c
  kernels/cuda/*/*.c)
list(APPEND cuda_hosts ${CMAKE_SOURCE_DIR}/core/base/memory.c
  ${CMAKE_SOURCE_DIR}/core/device/communicator.c
  ${CMAKE_SOURCE_DIR}/core/base/dtype.c)
# what of it the emulator has in another form
set(cuda_toolkit ${CMAKE_SOURCE_DIR}/kernels/cuda/jit/nvrtc.c)
list(REMOVE_ITEM cuda_hosts ${cuda_toolkit})

# pointwise.cuh and special.cuh as a string, put before generated sources
set(pointwise_text ${CMAKE_BINARY_DIR}/generated/pointwise_text.c)
add_custom_command(OUTPUT ${pointwise_text}
  COMMAND ${CMAKE_COMMAND} -DFROM=${CMAKE_SOURCE_DIR}/kernels/cuda/jit/pointwise.cuh
    -DTHEN=${CMAKE_SOURCE_DIR}/kernels/cuda/jit/special.cuh
    -DTO=${pointwise_text} -DNAME=mrt_pointwise_text
    -P ${CMAKE_SOURCE_DIR}/cmake/text.cmake
  DEPENDS ${CMAKE_SOURCE_DIR}/kernels/cuda/jit/pointwise.cuh
    ${CMAKE_SOURCE_DIR}/kernels/cuda/jit/special.cuh
    ${CMAKE_SOURCE_DIR}/cmake/text.cmake)
set_source_files_properties(${pointwise_text} PROPERTIES
  COMPILE_OPTIONS -Wno-overlength-strings)
add_library(cuda_text OBJECT ${pointwise_text})
if(MRT_CUDA_EMULATED)
  add_subdirectory(spec/kernels/cuda)
endif()

if(MRT_SANITIZE OR NOT MRT_CUDA)
  return()
endif()
if(NOT CMAKE_CUDA_COMPILER AND EXISTS /usr/local/cuda/bin/nvcc)
  set(ENV{CUDACXX} /usr/local/cuda/bin/nvcc)
endif()
# "native" means sm_90 on Hopper, without what only sm_90a has
set(cuda_archs ${MRT_CUDA_ARCHS})
if(MRT_CUDA_ARCHS STREQUAL native)
  execute_process(COMMAND nvidia-smi --query-gpu=compute_cap
    --format=csv,noheader OUTPUT_VARIABLE found ERROR_QUIET)
  if(found MATCHES "9\\.0")
    string(REGEX REPLACE "([0-9]+)\\.([0-9]+)" "\\1\\2" found "${found}")
    string(REGEX MATCHALL "[0-9]+" found "${found}")
    list(REMOVE_DUPLICATES found)
    list(TRANSFORM found REPLACE "^90$" "90a")
    list(TRANSFORM found APPEND "-real" OUTPUT_VARIABLE cuda_archs)
  endif()
endif()
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES ${cuda_archs})
endif()
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  message(STATUS "nvcc not found: no CUDA device for a GPU")
  return()
endif()
enable_language(CUDA)
find_package(CUDAToolkit REQUIRED)
# updates have the CPU's bits
set_source_files_properties(kernels/cuda/update.cu kernels/cuda/update8.cu
  kernels/cuda/update_master.cu
  PROPERTIES COMPILE_OPTIONS --fmad=false)
add_library(mrt_cuda SHARED ${cuda_kernels} ${cuda_hosts} ${cuda_toolkit}
  $<TARGET_OBJECTS:cuda_text>)
set_target_properties(mrt_cuda PROPERTIES
  CUDA_STANDARD 17 CUDA_ARCHITECTURES "${cuda_archs}"
  CUDA_VISIBILITY_PRESET hidden CUDA_RUNTIME_LIBRARY Static
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
add_dependencies(runtime mrt_cuda)
install(TARGETS mrt_cuda COMPONENT runtime LIBRARY
  DESTINATION ${CMAKE_INSTALL_LIBDIR})
target_include_directories(mrt_cuda PRIVATE core kernels/cuda)
# cuDNN, for its headers alone: the library is opened when it is there
set(CUDNN_ROOT "" CACHE PATH "where include/cudnn_graph.h of cuDNN 9 is")
find_path(CUDNN_INCLUDE cudnn_graph.h HINTS ${CUDNN_ROOT}
  ${CUDAToolkit_INCLUDE_DIRS} PATH_SUFFIXES include)
if(CUDNN_INCLUDE)
  target_include_directories(mrt_cuda PRIVATE
    $<$<COMPILE_LANGUAGE:C>:${CUDNN_INCLUDE}>)
  target_compile_definitions(mrt_cuda PRIVATE
    MRT_CUDNN_LIBRARY="libcudnn.so.9")
else()
  message(STATUS "no headers of cuDNN 9: the CUDA device does without it")
endif()
# and NCCL, ditto; without its headers kernels/cuda/comm/nccl_comm.c alone is built
set(NCCL_ROOT "" CACHE PATH "where include/nccl.h of NCCL 2 is")
find_path(NCCL_INCLUDE nccl.h HINTS ${NCCL_ROOT} ${CUDAToolkit_INCLUDE_DIRS}
  PATH_SUFFIXES include)
if(NCCL_INCLUDE)
  target_include_directories(mrt_cuda PRIVATE
    $<$<COMPILE_LANGUAGE:C>:${NCCL_INCLUDE}>)
  target_compile_definitions(mrt_cuda PRIVATE MRT_NCCL_LIBRARY="libnccl.so.2")
else()
  message(STATUS "no headers of NCCL: ranks on GPUs compute through the host")
endif()
target_compile_options(mrt_cuda PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:
  -Xcompiler=-Wall,-Wextra,-Wno-unused-parameter>)
if(MRT_WERROR) # not for users: the next toolkit warns of something else
  target_compile_options(mrt_cuda PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:
    -Werror=all-warnings -Xcompiler=-Werror>)
endif()
target_link_libraries(mrt_cuda PRIVATE CUDA::cudart_static CUDA::cublasLt
  ${CMAKE_DL_LIBS})
target_link_options(mrt_cuda PRIVATE -Wl,--no-undefined)
