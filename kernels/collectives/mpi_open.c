/* mpi_open.c -- the transport "mpi": its plug-in, found and loaded
 *
 * SPDX-License-Identifier: MIT */
#include "mpi_open.h"
#include "device/device.h"
#include "transport.h"

#include <dlfcn.h>

/* MRT_MPI names the plug-in, else it is looked for beside this code.  It is
 * never unloaded.  NULL: *why. */
static void *find_entry(const char *name, const char **why) {
  void *library = mrt_plugin_library("MRT_MPI", "libmrt_mpi.so", why);
  void *entry = library ? dlsym(library, name) : NULL;
  if (library && !entry) *why = "the plug-in is of another version";
  return entry;
}

mrt_status mrt_mpi_find(const char **name, mrt_error *e) {
  const char *why = "";
  const char *(*entry)(void);
  *(void **)&entry = find_entry(MRT_MPI_NAME, &why);
  if (!entry) return mrt_fail(e, MRT_EVALUE, "no MPI plug-in: %.200s", why);
  *name = entry();
  return MRT_OK;
}

static mrt_status open_mpi(const mrt_joining *j, mrt_bootstrap *none,
                           mrt_engine **out, mrt_error *e) {
  const char *why = "";
  mrt_mpi_entry *entry;
  (void)none;
  *(void **)&entry = find_entry(MRT_MPI_ENTRY, &why);
  if (!entry)
    return mrt_fail(e, MRT_EVALUE,
                    "no MPI plug-in: %.200s; set MASTER_ADDR, MASTER_PORT and "
                    "MRT_TRANSPORT=sockets to do without, or MRT_MPI to "
                    "libmrt_mpi.so, which is built where there is an mpicc",
                    why);
  return entry(j->allocator, j->meeting->rank, j->meeting->size, out, e);
}

const mrt_transport mrt_transport_mpi = { .name = "mpi", .connect = open_mpi };
