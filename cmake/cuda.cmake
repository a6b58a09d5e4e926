# The CUDA device, twice from the same sources:
#   mrt_cuda_emulated  by the C++ compiler against spec/cuda: tests run it
#   mrt_cuda           by nvcc, for machines with a GPU; `ninja mrt_cuda`, or as
#                      part of everything with MRT_CUDA=ON
option(MRT_CUDA "build the CUDA device with everything else" OFF)
set(MRT_CUDA_ARCHS "80-real;90-real;100-real;100-virtual" CACHE STRING
  "compute capabilities")

include(CheckLanguage)
check_language(CXX)
if(NOT CMAKE_CXX_COMPILER)
  message(STATUS "no C++ compiler: the CUDA device is neither built nor tested")
  return()
endif()
enable_language(CXX)
set(CMAKE_CXX_STANDARD 17)
file(GLOB cuda_kernels CONFIGURE_DEPENDS kernels/cuda/*.cu)
file(GLOB cuda_hosts CONFIGURE_DEPENDS kernels/cuda/*.c)
add_subdirectory(spec/cuda)

if(MRT_SANITIZE)
  return()
endif()
if(NOT CMAKE_CUDA_COMPILER AND EXISTS /usr/local/cuda/bin/nvcc)
  set(ENV{CUDACXX} /usr/local/cuda/bin/nvcc)
endif()
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES ${MRT_CUDA_ARCHS})
endif()
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  message(STATUS "nvcc not found: no CUDA device for a GPU")
  return()
endif()
enable_language(CUDA)
find_package(CUDAToolkit REQUIRED)
add_library(mrt_cuda SHARED ${cuda_kernels} ${cuda_hosts})
if(NOT MRT_CUDA)
  set_target_properties(mrt_cuda PROPERTIES EXCLUDE_FROM_ALL ON)
endif()
set_target_properties(mrt_cuda PROPERTIES
  CUDA_STANDARD 17 CUDA_ARCHITECTURES "${MRT_CUDA_ARCHS}"
  CUDA_VISIBILITY_PRESET hidden CUDA_RUNTIME_LIBRARY Static
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
target_include_directories(mrt_cuda PRIVATE core kernels/cuda)
target_compile_options(mrt_cuda PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:
  -Werror=all-warnings
  -Xcompiler=-Wall,-Wextra,-Wno-unused-parameter,-Werror>)
target_link_libraries(mrt_cuda PRIVATE CUDA::cudart_static)
