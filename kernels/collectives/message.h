/* message.h -- communicators over messages: any engine that carries bytes
 *
 * Before numbers move every rank tells all others in a note what it asks for;
 * when it has all notes it compares them.  Small operands travel in the note,
 * and then the collective is done.  A rank that waits tells the others from
 * time to time for whom, so that a deadline names who holds up all.
 *
 * All communicators over one engine (a whole and its parts) fail together: who
 * finds a reason tells all, who is told tells all once more, so the reason
 * comes before the end of any connection.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_COLLECTIVES_MESSAGES_H
#define MRT_COLLECTIVES_MESSAGES_H

#include "common.h"
#include "engine.h"

enum {
  MRT_NOTE_SMALL = 384, /* bytes that travel in a note */
  MRT_NOTES_OUT = 8,    /* notes to one rank that are under way at most */
  MRT_MESSAGES_SCRATCH = 4 << 20
};

typedef enum mrt_note_kind {
  MRT_NOTE_HELLO = 1,
  MRT_NOTE_ASKS,   /* a collective */
  MRT_NOTE_PAIRS,  /* a send or recv */
  MRT_NOTE_WAITS,  /* for rank asked.peer of the engine */
  MRT_NOTE_CLOSED, /* a communicator */
  MRT_NOTE_DONE,   /* all of them */
  MRT_NOTE_FAILED
} mrt_note_kind;

/* What a rank says of itself first. */
typedef struct mrt_hello {
  int64_t pid;
  char host[64], build[64], algorithm[16];
} mrt_hello;

typedef struct mrt_note {
  uint32_t kind, channel;
  uint64_t number;
  mrt_asked asked;
  mrt_asker asker;
  union {
    char small[MRT_NOTE_SMALL];
    char text[MRT_NOTE_SMALL];
    mrt_hello hello;
  };
} mrt_note;

/* A rank of the engine. */
typedef struct mrt_peer {
  mrt_note in;
  mrt_request hears;
  mrt_note out[MRT_NOTES_OUT];
  mrt_request says[MRT_NOTES_OUT];
  unsigned begun, said; /* notes to it; of them, those that are out */
  bool gone, greeted, over;
  char why[160];
  mrt_hello hello;
  int waits; /* for this rank, as it said at the time `waits_at` */
  double waits_at;
} mrt_peer;

/* What the communicators over one engine share. */
typedef struct mrt_hub {
  mrt_engine *engine;
  const mrt_allocator *allocator;
  mrt_peer *peers;
  struct mrt_messages *channels; /* those that are open */
  int uses;                      /* of them */
  uint32_t last;                 /* channel that this rank has used */
  bool failed;
  char message[448];
  char *scratch;
} mrt_hub;

typedef struct mrt_messages {
  mrt_communicator comm;
  mrt_hub *hub;
  struct mrt_messages *next;
  uint32_t channel;
  bool ring;
  int *members;       /* [size]: their ranks in the engine */
  bool *closed;       /* [size] */
  mrt_note *asks[2];  /* [size]: of calls with even and odd numbers */
  mrt_note *pairs[2]; /* [size] */
  uint64_t *met;      /* [size]: sends and recvs begun with each */
  uint64_t calls;     /* collectives begun */
  const void **from;  /* room for as many as there are ranks */
} mrt_messages;

typedef struct mrt_messages_options {
  const char *build;
  const char *algorithm; /* "pairwise", "ring" */
  const char *host;
  double timeout;
  const volatile int *interrupted;
} mrt_messages_options;

/* A collective over the engine's ranks, which ends within the timeout.  Takes
 * the engine over, on failure too.  ERANK: a rank did not come, or is of
 * another build, or is to use another algorithm. */
mrt_status mrt_messages_new(const mrt_allocator *a, mrt_engine *engine,
                            const mrt_messages_options *options,
                            mrt_communicator **out, mrt_error *e);

/* ---- waiting, failing (message_control.c) ------------------------------------------ */

typedef struct mrt_wait mrt_wait;
struct mrt_wait {
  const mrt_collective *c; /* NULL: at the start */
  /* The rank that the i-th of `count` things is waited for from; -1: it is
   * here.  `broken`, of numbers: they can not come any more. */
  int (*missing)(mrt_messages *m, mrt_wait *w, int i, bool *broken);
  mrt_request *requests; /* numbers; NULL: notes are waited for */
  int count;
  int peer; /* of a send or recv */
  /* Whether there is sense in waiting longer; may be NULL. */
  mrt_status (*check)(mrt_messages *m, mrt_wait *w, mrt_error *e);
  int turns;
  size_t moved;
  double waited, last, told; /* seconds */
};

/* Waits until nobody is missing. */
mrt_status mrt_messages_wait(mrt_messages *m, mrt_wait *w, mrt_error *e);
/* Until these are done. */
mrt_status mrt_messages_finish(mrt_messages *m, const mrt_collective *c,
                               mrt_request *requests, int count, mrt_error *e);
/* Tells a member; waits while too many notes are under way. */
mrt_status mrt_messages_tell(mrt_messages *m, int rank, const mrt_note *note,
                             const mrt_collective *c, mrt_error *e);
/* From now on all ranks fail with this message, or an earlier one. */
mrt_status mrt_hub_fail(mrt_hub *hub, mrt_error *e, const char *fmt, ...)
    MRT_PRINTF(3, 4);
/* "rank 2 (pid 123 on a)" */
typedef struct mrt_who {
  char s[128];
} mrt_who;
mrt_who mrt_messages_who(const mrt_messages *m, int rank);
/* Listens to all for what there is, without waiting. */
void mrt_hub_hear(mrt_hub *hub);
void mrt_hub_listen(mrt_hub *hub, int peer); /* to its first note */
/* Tells all, as far as there is room. */
void mrt_hub_say(mrt_hub *hub, const mrt_note *note);
/* Waits until what was said is out; at most so long. */
void mrt_hub_flush(mrt_hub *hub, double seconds);

/* Of the table. */
mrt_status mrt_messages_run(mrt_communicator *comm, const mrt_collective *c,
                            mrt_error *e);

/* ---- numbers (message_pairwise.c, message_ring.c) ---------------------------------------- */

/* Element at which slice r of n elements, cut into `size`, begins. */
static inline int64_t mrt_slice(int64_t n, int size, int r) {
  int64_t rest = n % size;
  return n / size * r + (r < rest ? r : rest);
}

/* Begins to move bytes to or from a member; nothing if there are none. */
void mrt_messages_start(mrt_messages *m, mrt_request *request, int rank,
                        bool gives, void *data, size_t nbytes);
mrt_status mrt_pairwise(mrt_messages *m, const mrt_collective *c, mrt_error *e);
mrt_status mrt_ring(mrt_messages *m, const mrt_collective *c, mrt_error *e);

#endif
