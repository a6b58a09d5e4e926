/* transport.h -- one way to join processes, a row of transports.def
 *
 * A transport either makes a communicator of its own, or an engine that carries
 * bytes, over which message.h makes the communicator.  It is a file and a row:
 *
 *     static mrt_status connect_all(const mrt_joining *j, mrt_bootstrap *b,
 *                                   mrt_engine **out, mrt_error *e);
 *     const mrt_transport mrt_transport_rdma = { .name = "rdma",
 *                                                .bootstraps = true,
 *                                                .connect = connect_all };
 *
 *     TRANSPORT(rdma)                            in transports.def
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_COLLECTIVES_TRANSPORT_H
#define MRT_COLLECTIVES_TRANSPORT_H

#include "bootstrap.h"
#include "device/communicator.h"
#include "engine.h"

/* This process, about to become a rank. */
typedef struct mrt_joining {
  const mrt_rendezvous *meeting;
  const volatile int *interrupted;
  const mrt_allocator *allocator;
} mrt_joining;

typedef struct mrt_transport {
  const char *name; /* as in MRT_TRANSPORT; at most 15 characters */
  /* The ranks meet by the bootstrap first.  One that finds its ranks itself is
   * taken only by name: `b` is NULL. */
  bool bootstraps;
  bool one_host; /* only for ranks that can share memory */
  /* One of the two, which all ranks call.  What fails on one rank should fail
   * on all: none may be left waiting without a deadline. */
  mrt_status (*open)(const mrt_joining *j, mrt_bootstrap *b,
                     mrt_communicator **out, mrt_error *e);
  mrt_status (*connect)(const mrt_joining *j, mrt_bootstrap *b,
                        mrt_engine **out, mrt_error *e);
} mrt_transport;

#define TRANSPORT(name) extern const mrt_transport mrt_transport_##name;
#include "transports.def"
#undef TRANSPORT

#endif
