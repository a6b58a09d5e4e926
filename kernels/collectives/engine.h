/* engine.h -- what carries bytes between ranks that share no memory
 *
 * Two channels join each two ranks: one for control messages, of which a
 * receive is always posted, and one for data, which come only to a rank that
 * has agreed to take them; so a control message is never stuck behind data.  On
 * a channel the bytes of one rank reach another whole and in order, and both
 * cut them into the same lengths.
 *
 * An engine is used by one thread at a time.  It knows no deadlines: who waits
 * has them (message_control.c).
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_COLLECTIVES_ENGINE_H
#define MRT_COLLECTIVES_ENGINE_H

#include "base/error.h"
#include "base/memory.h"

enum { MRT_ENGINE_CONTROL, MRT_ENGINE_DATA, MRT_ENGINE_CHANNELS };

/* A send or receive; its owner keeps it and `data` until it is done. */
typedef struct mrt_request {
  int peer, channel;
  bool is_send; /* this rank sends */
  bool done;
  char *data;
  size_t nbytes;            /* not 0 */
  size_t moved;             /* so far, where the engine can tell */
  struct mrt_request *next; /* the engine's */
  union {
    void *pointer;
    int number;
  } handle; /* the engine's */
} mrt_request;

typedef struct mrt_engine mrt_engine;
struct mrt_engine {
  const char *name; /* "sockets", "mpi" */
  int rank, size;
  bool ends_together; /* `close` waits for all ranks */
  char why[160];      /* of the last failure; "": the other side is gone */
  /* Begins; never blocks. */
  void (*start)(mrt_engine *engine, mrt_request *request);
  /* 1: done; 0: not yet; -1: never, see `why`. */
  int (*test)(mrt_engine *engine, mrt_request *request);
  /* Waits a little, longer with the turns: 1, 2, .. since something moved;
   * what can move does. */
  void (*rest)(mrt_engine *engine, int turns);
  /* Forgets all requests: their memory is not touched any more. */
  void (*stop)(mrt_engine *engine);
  /* Frees it.  `well`: all ranks have said that they are done. */
  void (*close)(mrt_engine *engine, bool well);
};

#endif
