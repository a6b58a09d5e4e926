/* schema.h -- operators by their rows, and their options as structs
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_SCHEMA_H
#define MRT_SCHEMA_H

#include "mrt/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What kind of work an operator is. */
typedef enum mrt_cost {
#define COST(name, doc) MRT_COST_##name,
#include "mrt/costs.def"
#undef COST
  MRT_COST_COUNT
} mrt_cost;

/* "matmul" ...; NULL past the last. */
MRT_API const char *mrt_cost_name(int kind);

typedef enum mrt_option_kind {
  MRT_OPT_INT,   /* int64_t */
  MRT_OPT_NUM,   /* double */
  MRT_OPT_BOOL,  /* bool */
  MRT_OPT_DIM,   /* int64_t: a dimension; from the end when negative */
  MRT_OPT_INDEX, /* int64_t: a position; from the end when negative */
  MRT_OPT_DTYPE, /* mrt_dtype */
  MRT_OPT_ENUM,  /* int: index into `words` */
  MRT_OPT_INTS,  /* mrt_ints: a shape */
  MRT_OPT_DIMS,  /* mrt_ints: dimensions */
  MRT_OPT_HIDDEN /* set by the library only (random keys, hooks) */
} mrt_option_kind;

/* One option of an operator: where it lies in the operator's options struct
 * and what it is when it is not given. */
typedef struct mrt_option {
  const char *name;
  mrt_option_kind kind;
  size_t offset;
  bool required;
  double preset;     /* the default of INT, NUM, BOOL, DIM, INDEX, DTYPE, ENUM;
                        DIMS default to count = 0, "all" */
  const char *words; /* ENUM: "none tanh" */
} mrt_option;

typedef struct mrt_op_info {
  const char *name, *doc;
  int min_inputs, max_inputs; /* max_inputs -1: any number, given as a list */
  const mrt_option *options;  /* indices and dimensions here are 0-based */
  int option_count;
  size_t options_size;
  bool updates;   /* writes its first inputs: only the library applies it */
  bool pointwise; /* inputs of one shape: callers broadcast before */
  bool of_reals;  /* pointwise: callers make f32 of integers before */
  bool differentiable; /* has a gradient */
  bool random;         /* draws numbers */
  bool collective;     /* all ranks of a communicator compute it together */
  bool internal;       /* the library's own: offer users no function of it */
  const char *cost;    /* its kind of work */
} mrt_op_info;

MRT_API int mrt_op_count(void);
MRT_API const mrt_op *mrt_op_at(int i);
MRT_API const mrt_op *mrt_op_find(const char *name); /* NULL: none */
MRT_API mrt_op_info mrt_op_get_info(const mrt_op *op);
/* Fill an options struct of options_size bytes with the defaults. */
MRT_API void mrt_options_init(const mrt_op *op, void *options);

/* Apply `op`: check dtypes and shapes, compute nothing.  Fills `out` with up
 * to `room` new tensors, each with one handle the caller owns, and *nout.
 * ESHAPE, EDTYPE, EVALUE with the operator, both sides and what was wanted. */
MRT_API mrt_status mrt_apply(mrt_context *ctx, const mrt_op *op,
                             mrt_tensor *const *in, int nin,
                             const void *options, mrt_tensor **out, int room,
                             int *nout);

/* Apply an operator with `updates` (adamw, ...): its leading inputs are
 * variables and are overwritten.  Now, or in the trace. */
MRT_API mrt_status mrt_update(mrt_context *ctx, const mrt_op *op,
                              mrt_tensor *const *in, int nin,
                              const void *options);

#ifdef __cplusplus
}
#endif
#endif
