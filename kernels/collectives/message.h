/* message.h -- communicators over messages: any engine that carries bytes
 *
 * Before data move every rank tells all others what it asks for, in a control
 * message; when it has those of all it compares them.  Small operands travel in
 * the control message, and then the collective is done.  A rank that waits
 * tells the others from time to time for whom, so that a deadline names who
 * holds up all.
 *
 * All communicators over one engine (a whole and its parts) share an endpoint
 * and fail together: who finds a reason tells all, who is told tells all once
 * more, so the reason comes before the end of any connection.
 *
 * What always holds:
 *   - a rank has at most one collective and one send or recv with each peer
 *     begun that the peer has not seen: of control messages two of a kind are
 *     kept, by whether their number is even or odd, and none is overwritten
 *     that is still to be read;
 *   - of the control messages under way to a rank one place stays free for
 *     MRT_CONTROL_FAILED, which therefore never waits;
 *   - requests belong to the function that started them, which returns when
 *     they are done or the engine has been stopped.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_COLLECTIVES_MESSAGE_H
#define MRT_COLLECTIVES_MESSAGE_H

#include "common.h"
#include "engine.h"

enum {
  MRT_CONTROL_SMALL = 384,   /* bytes that travel in a control message */
  MRT_CONTROL_IN_FLIGHT = 8, /* control messages under way to one rank */
  MRT_MESSAGE_SCRATCH = 4 << 20
};

typedef enum mrt_control_kind {
  MRT_CONTROL_HELLO = 1,
  MRT_CONTROL_COLLECTIVE, /* a collective */
  MRT_CONTROL_P2P,        /* a send or recv */
  MRT_CONTROL_WAITING,    /* for rank descriptor.peer of the engine */
  MRT_CONTROL_CLOSED,     /* a communicator */
  MRT_CONTROL_DONE,       /* all of them */
  MRT_CONTROL_FAILED
} mrt_control_kind;

/* What a rank says of itself first. */
typedef struct mrt_control_hello {
  int64_t pid;
  char host[64], build[64], algorithm[16];
} mrt_control_hello;

typedef struct mrt_control {
  uint32_t kind, id;
  uint64_t number;
  mrt_descriptor descriptor;
  mrt_caller caller;
  union {
    char small[MRT_CONTROL_SMALL];
    char text[MRT_CONTROL_SMALL];
    mrt_control_hello hello;
  };
} mrt_control;

/* A rank of the engine. */
typedef struct mrt_peer {
  mrt_control in;
  mrt_request recv;
  mrt_control out[MRT_CONTROL_IN_FLIGHT];
  mrt_request sends[MRT_CONTROL_IN_FLIGHT];
  unsigned posted, sent; /* control messages to it; of them, those out */
  bool gone, greeted, done;
  char why[160];
  mrt_control_hello hello;
  int waits; /* for this rank, as it said at the time `waits_at` */
  double waits_at;
} mrt_peer;

/* What the communicators over one engine share. */
typedef struct mrt_endpoint {
  mrt_engine *engine;
  const mrt_allocator *allocator;
  mrt_peer *peers;
  struct mrt_message_comm *comms; /* those that are open */
  int uses;                       /* of them */
  uint32_t last_id;               /* id that this rank has used */
  bool failed;
  char message[448];
  char *scratch;
} mrt_endpoint;

typedef struct mrt_message_comm {
  mrt_communicator comm;
  mrt_endpoint *endpoint;
  struct mrt_message_comm *next;
  uint32_t id;
  bool ring;
  int *members;            /* [size]: their ranks in the engine */
  bool *closed;            /* [size] */
  mrt_control *entered[2]; /* [size]: of calls with even, odd numbers */
  mrt_control *p2p[2];     /* [size] */
  uint64_t *p2p_calls;     /* [size]: sends and recvs begun with each */
  uint64_t calls;          /* collectives begun */
  const void **from;       /* room for as many as there are ranks */
} mrt_message_comm;

typedef struct mrt_message_options {
  const char *build;
  const char *algorithm; /* "pairwise", "ring" */
  const char *host;
  double timeout;
  const volatile int *interrupted;
} mrt_message_options;

/* A collective over the engine's ranks, which ends within the timeout.  Takes
 * the engine over, on failure too.  ERANK: a rank did not come, or is of
 * another build, or is to use another algorithm. */
mrt_status mrt_message_comm_new(const mrt_allocator *a, mrt_engine *engine,
                                const mrt_message_options *options,
                                mrt_communicator **out, mrt_error *e);

/* ---- waiting, failing (message_control.c) -------------------------------- */

typedef struct mrt_message_wait mrt_message_wait;
struct mrt_message_wait {
  const mrt_collective *c; /* NULL: at the start */
  /* The rank that the i-th of `count` things is waited for from; -1: it is
   * here.  `broken`, of data: they cannot come any more. */
  int (*missing)(mrt_message_comm *m, mrt_message_wait *w, int i, bool *broken);
  mrt_request *requests; /* data; NULL: control messages are waited for */
  int count;
  int peer; /* of a send or recv */
  /* Whether there is sense in waiting longer; may be NULL. */
  mrt_status (*check)(mrt_message_comm *m, mrt_message_wait *w, mrt_error *e);
  int turns;
  size_t moved;
  double waited, last, told; /* seconds */
};

/* Waits until nobody is missing. */
mrt_status mrt_message_await(mrt_message_comm *m, mrt_message_wait *w,
                             mrt_error *e);
/* Until these are done. */
mrt_status mrt_message_finish(mrt_message_comm *m, const mrt_collective *c,
                              mrt_request *requests, int count, mrt_error *e);
/* Tells a member; waits while too many control messages are under way. */
mrt_status mrt_message_send_control(mrt_message_comm *m, int rank,
                                    const mrt_control *msg,
                                    const mrt_collective *c, mrt_error *e);
/* From now on all ranks fail with this message, or an earlier one. */
mrt_status mrt_endpoint_fail(mrt_endpoint *endpoint, mrt_error *e,
                             const char *fmt, ...) MRT_PRINTF(3, 4);
/* "rank 2 (pid 123 on a)" */
typedef struct mrt_rank_name {
  char s[128];
} mrt_rank_name;
mrt_rank_name mrt_message_rank_name(const mrt_message_comm *m, int rank);
/* Listens to all for what there is, without waiting. */
void mrt_endpoint_poll(mrt_endpoint *endpoint);
void mrt_endpoint_post_recv(mrt_endpoint *endpoint,
                            int peer); /* to its first control message */
/* Tells all, as far as there is room. */
void mrt_endpoint_send_all(mrt_endpoint *endpoint, const mrt_control *msg);
/* Waits until what was said is out; at most so long. */
void mrt_endpoint_flush(mrt_endpoint *endpoint, double seconds);

/* Of the table. */
mrt_status mrt_message_run(mrt_communicator *comm, const mrt_collective *c,
                           mrt_error *e);

/* ---- data (message_pairwise.c, message_exchange.c, message_ring.c) ------- */

/* Element at which slice r of n elements, cut into `size`, begins. */
static inline int64_t mrt_message_slice(int64_t n, int size, int r) {
  int64_t rest = n % size;
  return n / size * r + (r < rest ? r : rest);
}

/* Begins to move bytes to or from a member; nothing if there are none. */
void mrt_message_start(mrt_message_comm *m, mrt_request *request, int rank,
                       bool gives, void *data, size_t nbytes);
mrt_status mrt_message_pairwise(mrt_message_comm *m, const mrt_collective *c,
                                mrt_error *e);
mrt_status mrt_message_exchange(mrt_message_comm *m, const mrt_collective *c,
                                mrt_error *e);
mrt_status mrt_message_ring(mrt_message_comm *m, const mrt_collective *c,
                            mrt_error *e);

#endif
