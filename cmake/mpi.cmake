# The plug-in that joins ranks of several hosts by MPI: libmrt_mpi.so, built for
# the MPI that is found.  It may be installed after the first build.
set(MRT_MPI AUTO CACHE STRING
    "build the MPI plug-in: ON, OFF, or AUTO: where MPI is found")
find_package(MPI QUIET COMPONENTS C)
if(NOT MRT_MPI OR (MRT_MPI STREQUAL "AUTO" AND NOT MPI_C_FOUND))
  return()
endif()
find_package(MPI REQUIRED COMPONENTS C)
add_library(mrt_mpi MODULE kernels/collectives/mpi.c core/base/error.c
  core/base/memory.c)
set_target_properties(mrt_mpi PROPERTIES
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
target_include_directories(mrt_mpi PRIVATE core)
# its header's casts and long strings are not ours to mend
target_include_directories(mrt_mpi SYSTEM PRIVATE ${MPI_C_INCLUDE_DIRS})
target_link_libraries(mrt_mpi PRIVATE MPI::MPI_C)
add_dependencies(runtime mrt_mpi)
install(TARGETS mrt_mpi COMPONENT runtime LIBRARY
  DESTINATION ${CMAKE_INSTALL_LIBDIR})
