# The plug-in that joins ranks of several hosts by MPI: libmrt_mpi.so, built for
# the MPI that is found; MRT_MPI=OFF does without.
find_package(MPI QUIET COMPONENTS C)
option(MRT_MPI "build the MPI plug-in" ${MPI_C_FOUND})
if(NOT MRT_MPI)
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
install(TARGETS mrt_mpi LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
