/* bootstrap.h -- how ranks find each other: connections to rank 0 by TCP
 *
 * Small things are gathered over it, before and beside the collectives: what
 * each rank is and has, names of shared memory, hashes of plans.  Rank 0
 * listens; the others connect and say who they are.  Who does not know the
 * run's token is sent away and changes nothing; who knows it and does not fit
 * (another world size, a rank twice, another build) is an error on both sides
 * that names both.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_COLLECTIVES_BOOTSTRAP_H
#define MRT_COLLECTIVES_BOOTSTRAP_H

#include "base/error.h"
#include "base/memory.h"

/* Longest token, build, host, with its zero. */
enum { MRT_BOOTSTRAP_TEXT = 64 };

typedef struct mrt_bootstrap_options {
  int rank, size;
  const char *address; /* of rank 0: a name or a number */
  int port;
  const char *token; /* of this run; whoever has it is one of us */
  const char *build; /* must be the same on all */
  double timeout;    /* seconds that are waited for others */
  const volatile int *interrupted; /* may be NULL */
} mrt_bootstrap_options;

typedef struct mrt_bootstrap mrt_bootstrap;

/* Returns when all ranks are connected.  ERANK: somebody did not come in time,
 * or does not fit; EVALUE: the address or port cannot be had. */
mrt_status mrt_bootstrap_open(const mrt_bootstrap_options *options,
                              const mrt_allocator *a, mrt_bootstrap **out,
                              mrt_error *e);
/* A collective: every rank gives nbytes and gets those of all, in the order of
 * the ranks; `all` has room for size * nbytes.  All must ask for as many. */
mrt_status mrt_bootstrap_allgather(mrt_bootstrap *bootstrap, const void *mine,
                                   size_t nbytes, void *all, mrt_error *e);
/* What `rank` said its host and process are, on every rank; the host's name
 * lives as long as the bootstrap. */
const char *mrt_bootstrap_host(const mrt_bootstrap *bootstrap, int rank,
                               int64_t *pid);
void mrt_bootstrap_close(mrt_bootstrap *bootstrap);
/* What this host is called: by MRT_HOST, with which one host can play several,
 * else by the system. */
void mrt_bootstrap_own_host(char host[MRT_BOOTSTRAP_TEXT]);

#endif
