/* shm_process.h -- ranks that are processes of one host and share memory
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_COLLECTIVES_SHM_PROCESS_H
#define MRT_COLLECTIVES_SHM_PROCESS_H

#include "device/communicator.h"

/* Who starts the ranks makes one object of shared memory and hands its name
 * over (in the environment, or by the bootstrap); every rank attaches.  The
 * name is a path of /proc to the maker's descriptor: there is no file to be
 * left behind, and the memory is gone with the last who has it open.
 *
 *     launcher                               rank
 *     mrt_shm_create(4, token, 0,            mrt_shm_attach(a, name, rank,
 *                    name, &fd, &e)                     4, token, 30, &comm,
 *                                                       &e)
 *     ... ranks run ...                      ...
 *     close(fd)                              comm->close(comm)
 */
enum { MRT_SHM_NAME = 48, MRT_SHM_TOKEN = 64 };

/* An object for `size` ranks, each with a heap of up to `heap_bytes` (0: as
 * much as the machine has memory); pages are taken when they are first
 * written.  `token`, of fewer than MRT_SHM_TOKEN characters, names the run.
 * Fills `name` and `*fd`, which is closed on exec and must stay open until all
 * ranks have attached.  EVALUE; EFILE what the system refused. */
mrt_status mrt_shm_create(int size, const char *token, size_t heap_bytes,
                          char name[MRT_SHM_NAME], int *fd, mrt_error *e);

/* Attaches as `rank` and waits until all have, for `timeout` seconds (which is
 * also the communicator's).  ERANK: the object is of another number of ranks
 * or another run, the rank is taken, or a rank does not come; EFILE: there is
 * no such object.  The communicator's alloc gives memory that the others read
 * where it is. */
mrt_status mrt_shm_attach(const mrt_allocator *a, const char *name, int rank,
                          int size, const char *token, double timeout,
                          mrt_communicator **out, mrt_error *e);
/* The same without the waiting, for ranks that meet by other means. */
mrt_status mrt_shm_open(const mrt_allocator *a, const char *name, int rank,
                        int size, const char *token, double timeout,
                        mrt_communicator **out, mrt_error *e);

#endif
