/* mpi_open.c -- the transport "mpi": its plug-in, found and loaded
 *
 * SPDX-License-Identifier: MIT */
#include "mpi_open.h"
#include "device/device.h"
#include "transport.h"

#include <dlfcn.h>

/* MRT_MPI names the plug-in, else it is looked for beside this code.  It is
 * never unloaded. */
static mrt_status open_mpi(const mrt_joining *j, mrt_bootstrap *none,
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
  return entry(j->allocator, j->meeting->rank, j->meeting->size, out, e);
}

const mrt_transport mrt_transport_mpi = { .name = "mpi", .connect = open_mpi };
