/* sequence.h -- a schedule as a line of runs, with its memory
 *
 * The solver's only choice is which operators run, and when: a value read is
 * the one made last, and it leaves after its last read before the next making.
 * So a schedule is a line of runs; the first run of every operator stands in
 * program order, after them all a run that reads the pinned values.
 *
 * The accesses of a value (runs that make it, runs that read it) are linked in
 * the line's order.  Two neighbours, the second one a read, bound a gap: the
 * value takes room at every run between.  A run's own operands take room at
 * the run itself.  So a run inserted or removed changes a few gaps, and the
 * memory of every run stays known: blocks of runs hold their largest, and
 * what was added to all of them.
 *
 * A gap from stage a to stage b is kept in one list: that of the smallest
 * aligned span of 2^k stages which holds both.  Those across a stage are then
 * in the lists of the spans around it, among few others.
 *
 * Every change is logged until it is accepted, and can be taken back.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_SOLVE_RECOMPUTE_SEQUENCE_H
#define MRT_SOLVE_RECOMPUTE_SEQUENCE_H

#include "solve/recompute/schedule.h"

enum { MRT_SEQUENCE_BLOCK = 64 };

typedef struct mrt_sequence_access {
  int value, run;
  int before, after;      /* neighbours among the value's accesses; -1: none */
  int gap_next, gap_last; /* gaps that begin here: their list in the index */
  int list;
  bool write;
} mrt_sequence_access;

typedef struct mrt_sequence_run {
  int op; /* `ops` is the end, which reads the pinned values */
  int access, makes, count; /* its accesses: `makes` outputs, then inputs */
  int block, at;
  int stage;    /* the next first run is this operator's */
  int next_run; /* of the same operator; -1: none.  Also the free list */
  int last_run; /* the one before */
  bool first, there;
} mrt_sequence_run;

typedef struct mrt_sequence_block {
  int count;
  int64_t add, most, least; /* the last two without `add` */
  int run[MRT_SEQUENCE_BLOCK];
  int64_t bytes[MRT_SEQUENCE_BLOCK];
} mrt_sequence_block;

typedef struct mrt_sequence_change {
  int run, next; /* `run` stood before `next` */
  bool removed;
} mrt_sequence_change;

typedef struct mrt_sequence {
  mrt_arena *arena;
  const mrt_problem *p;
  const uint8_t *may;
  bool failed;   /* an allocation did, and the last change was not made */
  int64_t *work; /* by op: bytes of its operands and its scratch */
  int *maker;    /* by value: op */
  int *cursor;   /* by value: an access of it */
  int *free;     /* by op: removed runs that may be used again */
  mrt_sequence_run
      *run; /* run i < ops is the first of op i; run `ops` is the end */
  int runs, run_room;
  mrt_sequence_access *access;
  int accesses, access_room;
  mrt_sequence_block **block; /* by number; of rank r: block[order[r]] */
  int *order, *rank;
  int blocks, block_room, order_room, rank_room;
  int *gap; /* by list: an access that begins a gap; -1: none */
  int levels;
  mrt_sequence_change *change;
  int changes, change_room;
  double cost;
  int length;     /* runs in the line, without the end */
  int64_t worked; /* counts what is touched, to limit searches */
} mrt_sequence;

/* The line of the program as it is.  ENOMEM. */
mrt_status mrt_sequence_new(mrt_arena *arena, const mrt_problem *p,
                            const uint8_t *may, mrt_sequence *line);

/* Its blocks: all runs there are, with these bytes. */
mrt_status mrt_sequence_fill(mrt_sequence *line, const int64_t *bytes);
/* The gap that begins at this access is there from now on, or no longer. */
void mrt_sequence_open_gap(mrt_sequence *line, int access);
void mrt_sequence_close_gap(mrt_sequence *line, int access);
/* The schedule's acts, peak and cost. */
mrt_status mrt_sequence_acts(const mrt_sequence *line, mrt_arena *arena,
                             mrt_schedule *out);

/* Run `op` again just before `next`; returns the run, or -1 when memory is
 * out.  Something must run before. */
int mrt_sequence_insert(mrt_sequence *line, int op, int next);
/* Take out a run that is not the first of its operator. */
void mrt_sequence_remove(mrt_sequence *line, int run);
/* Take back changes until only `changes` are left. */
void mrt_sequence_undo(mrt_sequence *line, int changes);
/* Forget the log: what was done stays. */
void mrt_sequence_accept(mrt_sequence *line);

int mrt_sequence_next(const mrt_sequence *line,
                      int run); /* -1: it is the end */
int mrt_sequence_before(const mrt_sequence *line,
                        int run); /* -1: it is the first */
/* What lives on past the run. */
int64_t mrt_sequence_crossing(const mrt_sequence *line, int run);
int64_t mrt_sequence_bytes(const mrt_sequence *line, int run);
int64_t mrt_sequence_peak(const mrt_sequence *line);
/* The first run at or after `from` with more than `bytes`; -1: none. */
int mrt_sequence_over(mrt_sequence *line, int from, int64_t bytes);
/* What `bytes` more at all runs between two, both excluded, add to what is
 * above the budget, summed over the runs; may stop above `most`. */
double mrt_sequence_excess(mrt_sequence *line, int from, int to, int64_t bytes,
                           int64_t budget, double most);
/* Bytes of outputs that lie in an input which dies at this run. */
int64_t mrt_sequence_taken(const mrt_sequence *line, int run);
/* Fill `list` with the accesses that begin the gaps across `run`; how many.
 * It has room for as many as there are values. */
int mrt_sequence_across(mrt_sequence *line, int run, int *list);
/* The last access of a value at or before `run`. */
int mrt_sequence_find(mrt_sequence *line, int value, int run);

/* Below the line: a new run of these bytes just before `next`, a run gone,
 * more bytes at one run or at all between two, both excluded. */
bool mrt_sequence_place(mrt_sequence *line, int run, int next, int64_t bytes);
void mrt_sequence_displace(mrt_sequence *line, int run);
void mrt_sequence_add_at(mrt_sequence *line, int run, int64_t bytes);
void mrt_sequence_add_between(mrt_sequence *line, int from, int to,
                              int64_t bytes);

static inline bool mrt_sequence_is_before(const mrt_sequence *l, int run,
                                          int other) {
  const mrt_sequence_run *a = &l->run[run], *b = &l->run[other];
  if (a->block == b->block) return a->at < b->at;
  return l->rank[a->block] < l->rank[b->block];
}

/* Does the value live on after this access? */
static inline bool mrt_sequence_lives_on(const mrt_sequence *l, int access) {
  int after = l->access[access].after;
  return after >= 0 && !l->access[after].write;
}

/* Values kept by the caller's wish are made again beside themselves. */
static inline bool mrt_sequence_is_linked(const mrt_sequence *l,
                                          const mrt_sequence_access *a) {
  return !a->write || !l->may || (l->may[a->value] & MRT_MAY_RECOMPUTE);
}

#endif
