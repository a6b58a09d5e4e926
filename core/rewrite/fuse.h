/* fuse.h -- what the fuse pass finds, and what makes nodes of it
 *
 * fuse.c decides which nodes are a group, fuse_program.c writes a group's
 * program.  Nobody else includes this.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_REWRITE_FUSE_H
#define MRT_REWRITE_FUSE_H

#include "op/fused.h"
#include "rewrite/rewrite.h"

/* Together they stay within MRT_FUSED_CODE instructions, constants counted. */
enum { MAX_CODE = 18, MAX_INPUTS = 14 };

typedef struct group {
  mrt_node **members; /* in order */
  int count, room;
  int end;             /* position where it runs */
  mrt_node *reduction; /* of the last one's result, not counted; or NULL */
  bool f32, f64;
  bool reads_variable;
} group;

typedef struct fusing {
  const mrt_rewrite *rewrite;
  mrt_graph *g;
  mrt_error *e;
  group **group_of;    /* by position; NULL: in none */
  int *made_at;        /* position of what computes a value, by value id; -1 */
  int *first_user;     /* users of value v: users[first_user[v] ..) */
  int *users;          /* positions, ascending; node_count for a plan output */
  int *updates_before; /* updating nodes before this position */
  bool reduces;        /* the device has a kernel for reductions of programs */
} fusing;

/* A constant that becomes an instruction of every program that reads it. */
static inline bool inlined(mrt_value *v) {
  double k;
  return mrt_value_uniform(v, &k);
}

static inline group *group_at(const fusing *f, int position) {
  return position < f->g->node_count ? f->group_of[position] : NULL;
}

/* The group that computes `v`; NULL when it is a leaf or not pointwise. */
static inline group *maker(const fusing *f, const mrt_value *v) {
  int at = f->made_at[v->id];
  return at < 0 ? NULL : f->group_of[at];
}

/* The node that computes what `b` does. */
mrt_status mrt_fuse_node(fusing *f, const group *b, mrt_node **out);

#endif
