/* tcp.h -- ranks joined by connections
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_COLLECTIVES_TCP_H
#define MRT_COLLECTIVES_TCP_H

#include "bootstrap.h"
#include "engine.h"

/* An engine over connected sockets, fds[MRT_LANES * peer + lane]; -1 of the
 * rank itself.  Takes them over, on failure too. */
mrt_status mrt_tcp_new(const mrt_allocator *a, int rank, int size,
                       const int *fds, mrt_engine **out, mrt_error *e);
/* A collective of all who meet on the wire: connects each two of them. */
mrt_status mrt_tcp_connect(mrt_wire *wire, const mrt_allocator *a,
                           mrt_engine **out, mrt_error *e);

#endif
