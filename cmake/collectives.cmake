# Collectives of ranks of one host: a program of their specs, and the same
# with threads alone under the thread sanitizer, from the few files it needs.
file(GLOB collectives_spec CONFIGURE_DEPENDS spec/kernels/collectives/*.c)
list(FILTER collectives_spec EXCLUDE REGEX "/bootstrap\\.c$")
add_executable(collectives ${collectives_spec})
target_link_libraries(collectives PRIVATE mrt_core)
# how they find each other
add_executable(bootstrap spec/kernels/collectives/bootstrap.c)
target_link_libraries(bootstrap PRIVATE mrt_core)
set(collectives_programs collectives bootstrap)

if(NOT MRT_SANITIZE AND NOT MRT_LIBFUZZER)
  file(GLOB collectives_sources CONFIGURE_DEPENDS kernels/collectives/*.c
    core/base/*.c)
  list(FILTER collectives_sources EXCLUDE REGEX "/(join|shm_join|bootstrap|bootstrap_server|guests|sockets|tcp_mesh|mpi|mpi_open)\\.c$")
  list(FILTER collectives_spec EXCLUDE REGEX "/(heap|faults|bench)\\.c$")
  add_executable(collectives_threads ${collectives_spec} ${collectives_sources}
    core/device/communicator.c core/device/comm_thread.c)
  target_include_directories(collectives_threads PRIVATE core)
  target_compile_definitions(collectives_threads PRIVATE SPEC_THREADS_ONLY)
  target_compile_options(collectives_threads PRIVATE -fsanitize=thread -g -O1)
  target_link_options(collectives_threads PRIVATE -fsanitize=thread)
  target_link_libraries(collectives_threads PRIVATE Threads::Threads m)
  list(APPEND collectives_programs collectives_threads)
endif()

foreach(program IN LISTS collectives_programs)
  target_include_directories(${program} PRIVATE kernels/collectives kernels/cpu)
  set_target_properties(${program} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/spec)
  add_test(NAME ${program} COMMAND ${program})
  set_tests_properties(${program} PROPERTIES LABELS host TIMEOUT 900)
endforeach()
foreach(program IN LISTS collectives_programs)
  if(NOT program STREQUAL bootstrap)
    set_tests_properties(${program} PROPERTIES LABELS "host;long")
  endif()
endforeach()

# A context that uses another's communicators.
add_executable(guests spec/tensor/guests.c)
target_link_libraries(guests PRIVATE mrt_core)
set_target_properties(guests PROPERTIES
  RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/spec)
add_test(NAME guests COMMAND guests)
set_tests_properties(guests PROPERTIES LABELS host)
