/* partition_walk.h -- one walk that settles how every value lies
 *
 * The pass walks to rewrite a graph; partition_choose.c walks to find out which
 * weights to cut, and rewrites nothing.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_REWRITE_PARTITION_WALK_H
#define MRT_REWRITE_PARTITION_WALK_H

#include "rewrite/partition.h"

/* How a value lies, and what of it has been made otherwise. */
typedef struct mrt_located {
  mrt_placement at, again; /* again: how `other` lies */
  mrt_value *local;        /* as `at` says; NULL: the walk only looks */
  mrt_value *whole, *other;
  bool weight;             /* a variable, or a view or cast of one */
  bool apart;              /* each rank's own, as a piece is: never divided */
  bool gathered, repeated; /* `whole`, `other` are there, or would be */
  int weighs;              /* 1 + the weight it shows, of those to choose of */
} mrt_located;

typedef struct mrt_partition {
  mrt_graph *g;
  int64_t comm, rank, size;
  bool inputs;   /* what lies in pieces are inputs, along the sequence; else
                  weights */
  bool no_ring;  /* of inputs: keys and values are gathered for attention */
  bool sequence; /* sums may be taken in pieces of leading dimensions */
  mrt_located *values; /* by id */
  int count;
  mrt_arena scratch; /* of one node */
} mrt_partition;

static inline mrt_located *mrt_located_of(const mrt_partition *p,
                                          const mrt_value *v) {
  return &p->values[v->id];
}

/* The cheapest way to compute a node as its inputs lie; *bytes: what the ranks
 * move for it, each.  False: whole, on every rank.  ENOMEM as *failed. */
bool mrt_partition_lane(mrt_partition *p, const mrt_node *n, mrt_lane *lane,
                        double *bytes, bool *failed);
/* What moves when `v` is to lie as `want`, on each rank; of a sum, beside what
 * taking it in pieces moves, which counts where the sum is made. */
double mrt_partition_bytes(const mrt_partition *p, const mrt_value *v,
                           const mrt_placement *want);
/* What taking the sums moves that a node adds to those it reads. */
double mrt_partition_sums(const mrt_partition *p, const mrt_node *n,
                          const mrt_lane *lane);
/* Where results of a node lie, with nothing of them made otherwise yet. */
void mrt_partition_place(mrt_partition *p, const mrt_node *n,
                         const mrt_lane *lane);
/* The value as `want` says, in nodes appended to the graph. */
mrt_status mrt_partition_move(mrt_partition *p, mrt_value *v,
                              const mrt_placement *want, mrt_value **out);
/* A form of its own, for what no rule says: some inputs must lie so, and other
 * nodes stand for the operator. */
typedef struct mrt_form {
  int op;
  /* Fill the lane; false: there is none as the inputs lie. */
  bool (*lane)(const mrt_partition *p, const mrt_node *n, mrt_lane *lane);
  /* Append it, of inputs that lie as the lane wants; out[0..nout). */
  mrt_status (*build)(mrt_partition *p, const mrt_node *n, mrt_value *const *in,
                      mrt_value **out);
} mrt_form;
/* Up to one whose op is below 0: of tables cut by rows (partition_table.c), of
 * the sequence in pieces (partition_ring.c, partition_sequence.c). */
extern const mrt_form mrt_table_forms[], mrt_ring_forms[], mrt_sequence_forms[];
bool mrt_partition_has_form(const mrt_node *n);
/* Fill the lane of a node's first form that has one; false: there is none as its
 * inputs lie. */
bool mrt_partition_form_lane(const mrt_partition *p, const mrt_node *n,
                             mrt_lane *lane);
/* Append op(in), as its row infers it; out: the first output, or `nout`. */
mrt_status mrt_partition_put(mrt_partition *p, int op, const void *options,
                             int nin, mrt_value *const *in, mrt_origin at,
                             mrt_value **out);
mrt_status mrt_partition_put_all(mrt_partition *p, int op, const void *options,
                                 int nin, mrt_value *const *in, mrt_origin at,
                                 mrt_value **out, int nout);
/* The same elements, in a node appended to the graph if need be. */
mrt_status mrt_partition_reshape(mrt_partition *p, mrt_value *v, mrt_type type,
                                 mrt_value **out);

#endif
