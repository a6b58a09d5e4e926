# What only tests need: host programs, the toy device, readers of files against
# files that lie, the examples in C.  -DMRT_BUILD_TESTS=OFF leaves it out.

# The examples in C: the core alone, and Lua in a program of one's own.
if(MRT_LIBRARY)
  add_executable(train examples/train.c)
  target_link_libraries(train PRIVATE libmrt)
endif()
add_executable(embed examples/embed.c $<TARGET_OBJECTS:binding_objects>)
target_include_directories(embed PRIVATE bindings)
target_link_libraries(embed PRIVATE mrt_core mrt_stock_lua)

# Host programs that try what a spec cannot reach from inside Lua; long are
# those that scripts/test --quick leaves out.  The sanitizers replace malloc as
# malloc_count does.
set(host_tests base/allocation bindings/two_states run/swap_faults)
if(NOT MRT_SANITIZE)
  list(APPEND host_tests run/malloc_count)
endif()
foreach(source IN LISTS host_tests)
  get_filename_component(host ${source} NAME)
  add_executable(${host} spec/${source}.c $<TARGET_OBJECTS:binding_objects>)
  target_link_libraries(${host} PRIVATE mrt_core mrt_stock_lua)
  set_target_properties(${host} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/spec)
  add_test(NAME ${host} COMMAND ${host} spec/${source}.lua
    WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(${host} PROPERTIES LABELS host)
endforeach()
set_tests_properties(allocation PROPERTIES LABELS "host;long")
# For the campaign of disks that fail: preloaded, linked with nothing.
if(NOT MRT_SANITIZE AND NOT MRT_LIBFUZZER)
  add_library(faulty_disk SHARED spec/campaign/faulty_disk.c)
  target_link_libraries(faulty_disk PRIVATE ${CMAKE_DL_LIBS})
  set_target_properties(faulty_disk PROPERTIES
    C_VISIBILITY_PRESET default LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/spec)
endif()
# The solvers, the C API alone and the threads, from C programs that know no Lua.
foreach(program solve/solvers run/scope run/rounding kernels/cpu/workers)
  get_filename_component(name ${program} NAME)
  add_executable(${name} spec/${program}.c)
  target_include_directories(${name} PRIVATE kernels/cpu)
  target_link_libraries(${name} PRIVATE mrt_core)
  set_target_properties(${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/spec)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS host)
endforeach()
# The threads of the kernels under the thread sanitizer.
if(NOT MRT_SANITIZE AND NOT MRT_LIBFUZZER)
  add_executable(workers_threads spec/kernels/cpu/workers.c
    kernels/cpu/runtime/workers.c core/base/memory.c core/base/error.c)
  target_compile_definitions(workers_threads PRIVATE SPEC_THREADS_ONLY)
  target_compile_options(workers_threads PRIVATE -fsanitize=thread -g -O1)
  target_link_options(workers_threads PRIVATE -fsanitize=thread)
  target_link_libraries(workers_threads PRIVATE Threads::Threads m)
  target_include_directories(workers_threads PRIVATE core kernels/cpu)
  set_target_properties(workers_threads PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/spec)
  add_test(NAME workers_threads COMMAND workers_threads)
  set_tests_properties(workers_threads PROPERTIES LABELS host)
endif()
# Products in scratch that is allocated to the byte, under the address sanitizer;
# those of AVX-512 once more with a model of tile registers, and convolutions.
if(NOT MRT_SANITIZE AND NOT MRT_LIBFUZZER)
  function(test_scratch spec name isa sources)
    # The spec itself for any processor: it asks whether it may go on.
    add_library(${spec}_of_${name} OBJECT ${sources} kernels/cpu/floats.c)
    target_compile_options(${spec}_of_${name} PRIVATE ${${isa}_flags})
    add_executable(${spec}_${name} spec/kernels/cpu/${spec}.c
      $<TARGET_OBJECTS:${spec}_of_${name}>)
    target_compile_definitions(${spec}_${name} PRIVATE SPEC_ISA_${isa})
    foreach(target ${spec}_${name} ${spec}_of_${name})
      target_compile_definitions(${target} PRIVATE MRT_VARIANT=${isa}_f32
        MRT_ISA=${isa} ${ARGN})
      target_compile_options(${target} PRIVATE -fopenmp-simd -fsanitize=address
        -g -O1)
      target_include_directories(${target} PRIVATE core kernels/cpu)
    endforeach()
    target_compile_definitions(${spec}_${name} PRIVATE MRT_VECTOR_BYTES=16)
    target_link_options(${spec}_${name} PRIVATE -fsanitize=address)
    target_link_libraries(${spec}_${name} PRIVATE mrt_core)
    set_target_properties(${spec}_${name} PROPERTIES
      RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/spec)
    add_test(NAME ${spec}_${name} COMMAND ${spec}_${name})
    set_tests_properties(${spec}_${name} PROPERTIES LABELS host)
  endfunction()
  file(GLOB products CONFIGURE_DEPENDS kernels/cpu/gemm/*.c)
  file(GLOB convolutions CONFIGURE_DEPENDS kernels/cpu/conv/*.c)
  foreach(isa IN LISTS MRT_ISAS)
    test_scratch(products ${isa} ${isa} "${products}")
  endforeach()
  if(avx512 IN_LIST MRT_ISAS)
    test_scratch(products tiles avx512 "${products}" MRT_AMX_MODEL)
    test_scratch(convolutions tiles avx512 "${products};${convolutions}"
      MRT_AMX_MODEL)
  endif()
endif()
include(cmake/toy.cmake)
include(cmake/jit.cmake)
include(cmake/collectives.cmake)
# Readers of files against files that lie: a program for each format, with a
# main of its own that makes a fixed number of inputs, or libFuzzer's.
set(corpus ${CMAKE_BINARY_DIR}/spec/corpus)
add_test(NAME corpus COMMAND mrt spec/io/corpus.lua ${corpus}
  WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
set_tests_properties(corpus PROPERTIES LABELS host FIXTURES_SETUP corpus)
set(fuzz_runs 20000)
add_custom_target(fuzzers)
function(add_fuzzer name source)
  add_executable(fuzz_${name} spec/io/${source}.c)
  add_dependencies(fuzzers fuzz_${name})
  target_compile_definitions(fuzz_${name} PRIVATE MRT_FORMAT="${name}")
  target_link_libraries(fuzz_${name} PRIVATE mrt_core)
  set_target_properties(fuzz_${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/spec)
  if(MRT_LIBFUZZER)
    target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
    return()
  endif()
  target_sources(fuzz_${name} PRIVATE spec/io/fuzz_main.c)
  add_test(NAME fuzz_${name} COMMAND fuzz_${name} ${fuzz_runs} ${corpus}/${name}
    WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(fuzz_${name} PROPERTIES LABELS "host;long"
    FIXTURES_REQUIRED corpus TIMEOUT 600)
endfunction()
foreach(format safetensors shards gguf npy npz idx cifar10 cifar100 tokens csv)
  add_fuzzer(${format} fuzz_source)
endforeach()
add_fuzzer(bpe fuzz_bpe)
foreach(format tokenizer sentencepiece tiktoken)
  add_fuzzer(${format} fuzz_tokenizer)
endforeach()

find_program(MRT_BUSTED busted)
if(MRT_BUSTED)
  add_test(NAME specs COMMAND $<TARGET_FILE:mrt> ${MRT_BUSTED}
    --ignore-lua WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(specs PROPERTIES
    ENVIRONMENT MRT=$<TARGET_FILE:mrt>)
endif()
