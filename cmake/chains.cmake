# Generated pointwise kernels: sources written by the host, pointwise.cuh as a
# string, and their tests.
if(NOT MRT_CUDA_EMULATED)
  return()
endif()
add_library(mrt_chains OBJECT kernels/cuda/chain.c kernels/cuda/chain_instructions.c
  kernels/cuda/chain_layout.c kernels/cuda/chain_source.c kernels/cuda/chain_writer.c
  kernels/cuda/keep.c)
target_include_directories(mrt_chains PUBLIC core kernels/cuda)

if(CMAKE_CXX_COMPILER)
  add_executable(chains spec/cuda/chains.c spec/cuda/chain_cases.c
    spec/cuda/chain_numbers.c spec/cuda/emulate_nvrtc.cc)
  target_compile_definitions(chains PRIVATE MRT_EMULATE_ALONE)
  target_link_libraries(chains PRIVATE mrt_chains cuda_text mrt_core)
  set_target_properties(chains PROPERTIES CXX_STANDARD 17
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/spec)
  add_test(NAME chains COMMAND chains)
  set_tests_properties(chains PROPERTIES LABELS host ENVIRONMENT
    "XDG_CACHE_HOME=${CMAKE_BINARY_DIR}/spec/cache")
endif()

find_package(CUDAToolkit QUIET)
if(TARGET CUDA::cudart)
  add_executable(chains_compile spec/cuda/chains_compile.c
    spec/cuda/chain_cases.c kernels/cuda/chain_nvrtc.c)
  target_link_libraries(chains_compile PRIVATE mrt_chains cuda_text mrt_core CUDA::cudart
    ${CMAKE_DL_LIBS})
  set_target_properties(chains_compile PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/spec)
  add_test(NAME chains_compile COMMAND chains_compile sm_90)
  set_tests_properties(chains_compile PROPERTIES LABELS host
    SKIP_RETURN_CODE 77)
endif()
