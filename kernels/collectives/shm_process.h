/* shm_process.h -- the communicators that this program can make
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_COLLECTIVES_TRANSPORTS_H
#define MRT_COLLECTIVES_TRANSPORTS_H

#include "device/communicator.h"

/* Ranks that are threads of this process: fills out[0 .. size - 1], each for
 * one thread at a time; each is closed on its own.  The allocator is called
 * from all of them. */
mrt_status mrt_threads_new(const mrt_allocator *a, int size,
                           mrt_communicator **out, mrt_error *e);

/* ---- ranks that are processes of one host ---------------------------------- *
 *
 * Who starts the ranks makes one object of shared memory and hands its name
 * over (in the environment, or over a wire); every rank attaches.  The name is
 * a path of /proc to the maker's descriptor: there is no file to be left
 * behind, and the memory is gone with the last who has it open.
 *
 *     launcher                               rank
 *     mrt_shared_create(4, token, 0,         mrt_shared_attach(a, name, rank,
 *                       name, &fd, &e)           4, token, 30, &comm, &e)
 *     ... ranks run ...                      ...
 *     close(fd)                              comm->close(comm)
 */
enum { MRT_SHARED_NAME = 48, MRT_SHARED_TOKEN = 64 };

/* An object for `size` ranks, each with a heap of up to `heap_bytes` (0: as
 * much as the machine has memory); pages are taken when they are first
 * written.  `token`, of fewer than MRT_SHARED_TOKEN characters, names the run.
 * Fills `name` and `*fd`, which is closed on exec and must stay open until all
 * ranks have attached.  EVALUE; EFILE what the system refused. */
mrt_status mrt_shared_create(int size, const char *token, size_t heap_bytes,
                             char name[MRT_SHARED_NAME], int *fd, mrt_error *e);

/* Attaches as `rank` and waits until all have, for `timeout` seconds (which is
 * also the communicator's).  ERANK: the object is of another number of ranks
 * or another run, the rank is taken, or a rank does not come; EFILE: there is
 * no such object.  The communicator's alloc gives memory that the others read
 * where it is. */
mrt_status mrt_shared_attach(const mrt_allocator *a, const char *name, int rank,
                             int size, const char *token, double timeout,
                             mrt_communicator **out, mrt_error *e);
/* The same without the waiting, for ranks that meet by other means. */
mrt_status mrt_shared_open(const mrt_allocator *a, const char *name, int rank,
                           int size, const char *token, double timeout,
                           mrt_communicator **out, mrt_error *e);

#endif
