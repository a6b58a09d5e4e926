/* mpi_open.h -- the plug-in that speaks MPI
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_COLLECTIVES_MPI_OPEN_H
#define MRT_COLLECTIVES_MPI_OPEN_H

#include "engine.h"

/* What the plug-in has under the name MRT_MPI_ENTRY; this process must be rank
 * `rank` of `size` for MPI too.  A collective, without a deadline while MPI
 * itself starts.  ERANK. */
typedef mrt_status mrt_mpi_entry(const mrt_allocator *a, int rank, int size,
                                 mrt_engine **out, mrt_error *e);
#define MRT_MPI_ENTRY "mrt_mpi_engine"
/* Under the name MRT_MPI_NAME: whose MPI it was built for, "Open MPI v4.1.4". */
const char *mrt_mpi_name(void);
#define MRT_MPI_NAME "mrt_mpi_name"

#endif
