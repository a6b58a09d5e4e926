/* tensor.h -- lazy tensors, expressions, variables
 *
 * A tensor is a handle on a value: a type, and either a storage with the
 * data, or the expression that will compute them, or both.  Expressions
 * form a graph from results to leaves; it lives exactly as long as somebody
 * can still reach it.
 *
 * Invariants
 *   - a tensor has a storage, an expression, or is an input of the trace, or
 *     is a variable (whose storage is made when it is first needed);
 *   - the storage of a variable of a bucket is a copy, let go when the bucket
 *     is written;
 *   - only a variable's storage may lie in the swap tier (swap_tier.h);
 *   - ids grow with creation, so an expression's inputs have smaller ids: id
 *     order is a topological order;
 *   - what an evaluation passes through and a user's handle holds is evaluated
 *     too, where computing it again would cost (run/keep.c);
 *   - after evaluation the expression stays, so that gradients can still be
 *     taken; the storage of an evaluated tensor that no user holds and nothing
 *     pending reads is given back (it could be computed again, same bits);
 *   - when a variable is assigned, what is pending on the old value has been
 *     computed, and expressions that read it become `stale`: nothing may be
 *     computed or differentiated through them any more.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_TENSOR_TENSOR_H
#define MRT_TENSOR_TENSOR_H

#include "base/dtype.h"
#include "tensor/context.h"

typedef struct mrt_expr {
  const mrt_op *op;
  uint64_t id;
  int nin, nout, live; /* live: output tensors that exist */
  int updates;         /* outputs that take the storage of the first inputs */
  bool computed;       /* no longer counts as pending on its inputs */
  bool stale;          /* reads a variable's old value */
  bool traced;         /* made in a trace: computed by its plan only */
  bool once;           /* a collective: its data are never given back */
  bool passed;         /* an evaluation has passed through it (run/keep.c) */
  struct mrt_expr *next_wanted; /* scratch of mrt_tensor_await */
  struct mrt_tensor **in;       /* held */
  struct mrt_tensor **out;      /* borrowed; NULL when that tensor is gone */
  mrt_type *out_types;
  void *options;
  size_t options_size, bytes; /* bytes: of all that is the expression's */
  mrt_origin origin;
  void (*release)(void *user); /* of a custom gradient */
  void *user;
} mrt_expr;

/* What makes a tensor a variable. */
typedef struct mrt_variable {
  struct mrt_tensor *init;   /* held until the storage is made */
  struct mrt_tensor *traced; /* held: its newest version in the trace */
  mrt_expr **readers;        /* borrowed: live expressions that read it,
                                stale ones left out */
  int reader_count, reader_room;
  uint64_t writes; /* how often it was written */
  bool torn;       /* a step broke off while it was being updated */
  /* its data lie among those of a bucket (run/shard.c) */
  struct mrt_tensor *bucket; /* held; NULL: it has its own */
  int64_t offset;            /* among the elements of all ranks' pieces */
  int64_t outer; /* > 0: all pieces are [ranks, outer, inner] of it, which is
                    [outer, ranks, inner]; 0: they are what lies there */
  int comm;
  bool own_rows;              /* of those: the ranks have rows of their own */
  bool reshard_after_forward; /* gathered again for the backward pass */
  bool supposed; /* they do not: plans are made as if, and none is run */
  struct mrt_tensor **shards; /* of a bucket: borrowed, whose data it has */
  int shard_count, shard_room;
  struct mrt_tensor *gathered; /* of a bucket: held while its variables begin */
  int64_t number; /* of a bucket: counted by its ranks, from 1 on */
} mrt_variable;

struct mrt_tensor {
  mrt_context *ctx;
  int refs;    /* all who hold it */
  int handles; /* of these, users */
  int pending; /* expressions not yet computed that read it */
  mrt_type type;
  uint64_t id;
  mrt_storage *storage;
  mrt_expr *expr;
  int index; /* which output of expr */
  int input; /* 1 + position among the trace's inputs; 0: none */
  struct mrt_tensor *instead; /* borrowed: the variable or input that plans of
                                 the trace read for it, or what is computed of
                                 an input alone */
  mrt_variable *variable;
  mrt_origin origin;
  char *name;
  struct mrt_tensor *next_dead;
  uint64_t walk; /* the walk that wrote `mark` (tensor/marks.h) */
  int mark;
};

/* A bare tensor with one reference and no handle. */
mrt_tensor *mrt_tensor_new(mrt_context *ctx, const mrt_type *type);
void mrt_hold(mrt_tensor *t);
void mrt_drop(mrt_tensor *t); /* NULL is fine */

/* A new expression with no outputs yet; holds `in`, copies `options`. */
mrt_expr *mrt_expr_new(mrt_context *ctx, const mrt_op *op, int nin,
                       mrt_tensor *const *in, const void *options,
                       size_t options_size, int nout, const mrt_type *types);
/* Output `i` as a tensor, existing or new, with one reference for the caller;
 * NULL when memory is out. */
mrt_tensor *mrt_expr_output(mrt_context *ctx, mrt_expr *x, int i);
/* Free an expression none of whose outputs was made. */
void mrt_expr_free(mrt_context *ctx, mrt_expr *x);
/* Its results exist: it no longer keeps its inputs' data alive. */
void mrt_expr_computed(mrt_expr *x);
/* Into the order of the program: inputs before what reads them. */
void mrt_exprs_sort(mrt_expr **list, int n);

/* Somebody waits for the data.  If they were given back, what they are
 * computed from is waited for again too. */
void mrt_tensor_await(mrt_tensor *t);
/* It waits no longer: the data are given back if nobody can see them. */
void mrt_tensor_release(mrt_tensor *t);
/* Give the data back if nobody can see them. */
void mrt_tensor_trim(mrt_tensor *t);
/* The data are in `s` (held on success); the tensor is evaluated. */
void mrt_tensor_resolve(mrt_tensor *t, mrt_storage *s);
/* What makes a tensor a variable that starts as `init`; NULL: no memory. */
mrt_variable *mrt_variable_of(mrt_context *ctx, mrt_tensor *init);
/* The variable has its storage: let its initial value go. */
void mrt_variable_started(mrt_variable *v);
/* Its elements are no longer those of its bucket. */
void mrt_variable_leave_bucket(mrt_tensor *t);

#endif
