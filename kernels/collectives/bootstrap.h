/* bootstrap.h -- how ranks find each other: connections to rank 0 by TCP
 *
 * Small things go over the wire, before and beside the collectives: what each
 * rank is and has, names of shared memory, hashes of plans.  Rank 0 listens;
 * the others connect and say who they are.  Who does not know the run's token
 * is sent away and changes nothing; who knows it and does not fit (another
 * world size, a rank twice, another build) is an error on both sides that names
 * both.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_COLLECTIVES_WIRE_H
#define MRT_COLLECTIVES_WIRE_H

#include "base/error.h"
#include "base/memory.h"

enum { MRT_WIRE_TEXT = 64 }; /* longest token, build, host, with its zero */

typedef struct mrt_wire_options {
  int rank, size;
  const char *address; /* of rank 0: a name or a number */
  int port;
  const char *token; /* of this run; whoever has it is one of us */
  const char *build; /* must be the same on all */
  double timeout;    /* seconds that are waited for others */
  const volatile int *interrupted; /* may be NULL */
} mrt_wire_options;

typedef struct mrt_wire mrt_wire;

/* Returns when all ranks are connected.  ERANK: somebody did not come in time,
 * or does not fit; EVALUE: the address or port cannot be had. */
mrt_status mrt_wire_open(const mrt_wire_options *options,
                         const mrt_allocator *a, mrt_wire **wire, mrt_error *e);
/* A collective: every rank gives nbytes and gets those of all, in the order of
 * the ranks; `all` has room for size * nbytes.  All must ask for as many. */
mrt_status mrt_wire_exchange(mrt_wire *wire, const void *mine, size_t nbytes,
                             void *all, mrt_error *e);
/* What rank said its host and process are; `host` lives as long as the wire.
 * On ranks other than 0 too. */
const char *mrt_wire_host(const mrt_wire *wire, int rank, int64_t *pid);
void mrt_wire_close(mrt_wire *wire);
/* What this host is called: by MRT_HOST, with which one host can play several,
 * else by the system. */
void mrt_wire_own_host(char host[MRT_WIRE_TEXT]);

#endif
