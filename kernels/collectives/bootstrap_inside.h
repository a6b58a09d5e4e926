/* bootstrap_inside.h -- what the two sides of the bootstrap share
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_COLLECTIVES_BOOTSTRAP_INSIDE_H
#define MRT_COLLECTIVES_BOOTSTRAP_INSIDE_H

#include "bootstrap.h"
#include "sockets.h"

#include <string.h>

enum { MRT_BOOTSTRAP_VERSION = 1, MRT_BOOTSTRAP_REASON = 256 };
#define MRT_BOOTSTRAP_MAGIC "mrtboot" /* 8 bytes, with its zero */

/* What a rank says first.  Hosts of one byte order, as all else. */
typedef struct mrt_bootstrap_hello {
  char magic[8];
  int32_t version, rank, size, reserved;
  int64_t pid;
  char token[MRT_BOOTSTRAP_TEXT], build[MRT_BOOTSTRAP_TEXT],
      host[MRT_BOOTSTRAP_TEXT];
} mrt_bootstrap_hello;

/* What rank 0 answers: 0, or a status and the reason. */
typedef struct mrt_bootstrap_answer {
  char magic[8];
  int32_t status;
  char reason[MRT_BOOTSTRAP_REASON];
} mrt_bootstrap_answer;

typedef struct mrt_bootstrap_peer {
  int64_t pid;
  char host[MRT_BOOTSTRAP_TEXT];
} mrt_bootstrap_peer;

struct mrt_bootstrap {
  const mrt_allocator *allocator;
  mrt_bootstrap_options options; /* its texts: not kept */
  int *sockets;                  /* of rank 0: [size], its own -1; else one */
  mrt_bootstrap_peer *peers;     /* [size] */
  const mrt_error *verdict; /* the meeting has failed: who comes is told so */
};

static inline mrt_deadline mrt_bootstrap_until(const mrt_bootstrap *b,
                                               double deadline) {
  return (mrt_deadline){ deadline, b->options.interrupted };
}

/* For a whole exchange with others. */
static inline mrt_deadline mrt_bootstrap_deadline(const mrt_bootstrap *b) {
  return mrt_bootstrap_until(b, mrt_socket_clock() + b->options.timeout);
}

/* A rank is in: its place is taken. */
void mrt_bootstrap_admit(mrt_bootstrap *b, const mrt_bootstrap_hello *h,
                         int fd);
/* bootstrap_server.c: rank 0's side of the meeting. */
mrt_status mrt_bootstrap_serve(mrt_bootstrap *b, const mrt_bootstrap_hello *own,
                               mrt_error *e);

#endif
