# Generated pointwise kernels: sources written by the host, pointwise.cuh as a
# string, and their tests.
if(NOT MRT_CUDA_EMULATED)
  return()
endif()
add_library(mrt_jit OBJECT kernels/cuda/jit/jit.c kernels/cuda/jit/instructions.c
  kernels/cuda/jit/layout.c kernels/cuda/jit/source.c kernels/cuda/jit/writer.c
  kernels/cuda/runtime/cache.c)
target_include_directories(mrt_jit PUBLIC core kernels/cuda)

if(CMAKE_CXX_COMPILER)
  add_executable(jit spec/kernels/cuda/jit.c spec/kernels/cuda/jit_cases.c
    spec/kernels/cuda/jit_values.c spec/kernels/cuda/emulate_nvrtc.cc)
  target_compile_definitions(jit PRIVATE MRT_EMULATE_ALONE)
  target_link_libraries(jit PRIVATE mrt_jit cuda_text mrt_core)
  set_target_properties(jit PROPERTIES CXX_STANDARD 17
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/spec)
  add_test(NAME jit COMMAND jit)
  set_tests_properties(jit PROPERTIES LABELS host ENVIRONMENT
    "XDG_CACHE_HOME=${CMAKE_BINARY_DIR}/spec/cache")
endif()

find_package(CUDAToolkit QUIET)
if(TARGET CUDA::cudart)
  add_executable(jit_compile spec/kernels/cuda/jit_compile.c
    spec/kernels/cuda/jit_cases.c kernels/cuda/jit/nvrtc.c)
  target_link_libraries(jit_compile PRIVATE mrt_jit cuda_text mrt_core CUDA::cudart
    ${CMAKE_DL_LIBS})
  set_target_properties(jit_compile PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/spec)
  add_test(NAME jit_compile COMMAND jit_compile compute_90)
  set_tests_properties(jit_compile PROPERTIES LABELS "host;long"
    SKIP_RETURN_CODE 77)
endif()
