/* mpi_open.c -- the plug-in that speaks MPI, found and loaded
 *
 * SPDX-License-Identifier: MIT */
#include "mpi_open.h"
#include "device/device.h"

#include <dlfcn.h>

mrt_status mrt_mpi_open(const mrt_allocator *a, int rank, int size,
                        mrt_engine **out, mrt_error *e) {
  const char *why = "";
  mrt_mpi_entry *entry = NULL;
  void *library = mrt_plugin_library("MRT_MPI", "libmrt_mpi.so", &why);
  if (!library)
    return mrt_fail(e, MRT_EVALUE,
                    "no MPI plug-in: %.200s; set MASTER_ADDR, MASTER_PORT and "
                    "MRT_TRANSPORT=sockets to do without, or MRT_MPI to "
                    "libmrt_mpi.so, which is built where there is an mpicc",
                    why);
  *(void **)&entry = dlsym(library, MRT_MPI_ENTRY);
  if (!entry)
    return mrt_fail(e, MRT_EVALUE, "the MPI plug-in is of another version");
  return entry(a, rank, size, out, e);
}
