/* tcp.h -- ranks joined by connections
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_COLLECTIVES_TCP_H
#define MRT_COLLECTIVES_TCP_H

#include "engine.h"

/* An engine over connected sockets, fds[MRT_ENGINE_CHANNELS * peer +
 * channel]; -1 of the rank itself.  Takes them over, on failure too. */
mrt_status mrt_tcp_new(const mrt_allocator *a, int rank, int size,
                       const int *fds, mrt_engine **out, mrt_error *e);

#endif
