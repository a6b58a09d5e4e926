/* bootstrap_inside.h -- what the two sides of a wire share
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_COLLECTIVES_WIRE_INSIDE_H
#define MRT_COLLECTIVES_WIRE_INSIDE_H

#include "bootstrap.h"
#include "sockets.h"

#include <string.h>

enum { MRT_WIRE_VERSION = 1, MRT_WIRE_REASON = 256 };
#define MRT_WIRE_MAGIC "mrtwire" /* 8 bytes, with its zero */

/* What a rank says first.  Hosts of one byte order, as all else. */
typedef struct mrt_wire_hello {
  char magic[8];
  int32_t version, rank, size, reserved;
  int64_t pid;
  char token[MRT_WIRE_TEXT], build[MRT_WIRE_TEXT], host[MRT_WIRE_TEXT];
} mrt_wire_hello;

/* What rank 0 answers: 0, or a status and the reason. */
typedef struct mrt_wire_answer {
  char magic[8];
  int32_t status;
  char reason[MRT_WIRE_REASON];
} mrt_wire_answer;

typedef struct mrt_wire_person {
  int64_t pid;
  char host[MRT_WIRE_TEXT];
} mrt_wire_person;

struct mrt_wire {
  const mrt_allocator *allocator;
  mrt_wire_options options; /* its texts: not kept */
  int *sockets;             /* of rank 0: [size], its own -1; else one */
  mrt_wire_person *people;  /* [size] */
  const mrt_error *verdict; /* the meeting has failed: who comes is told so */
};

static inline mrt_waiting mrt_wire_until(const mrt_wire *w, double deadline) {
  return (mrt_waiting){ deadline, w->options.interrupted };
}

/* For a whole exchange with others. */
static inline mrt_waiting mrt_wire_patience(const mrt_wire *w) {
  return mrt_wire_until(w, mrt_socket_clock() + w->options.timeout);
}

/* A rank is in: its place is taken. */
void mrt_wire_admit(mrt_wire *w, const mrt_wire_hello *h, int fd);
/* bootstrap_server.c: rank 0's side of the meeting. */
mrt_status mrt_wire_gather(mrt_wire *w, const mrt_wire_hello *own,
                           mrt_error *e);

#endif
