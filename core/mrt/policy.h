/* policy.h -- what policies are asked while a plan is made
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_POLICY_H
#define MRT_POLICY_H

#include "mrt.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What happens to an activation between forward and backward pass. */
typedef enum mrt_choice {
  MRT_CHOICE_OPEN, /* the planner's: keep, unless the budget wants otherwise */
  MRT_CHOICE_KEEP,
  MRT_CHOICE_RECOMPUTE,
  MRT_CHOICE_SWAP
} mrt_choice;

/* A value that the forward pass makes: what a checkpoint policy is asked about.
 * Steps count from 0 in the order that needs least memory with all kept. */
typedef struct mrt_activation {
  const char *op, *name;     /* name may be NULL */
  const char *file, *module; /* module may be NULL */
  int line;
  mrt_type type;
  size_t bytes;
  const char *cost;        /* kind of work of the node that makes it */
  double flops, seconds;   /* of that node */
  int first_use, last_use; /* the steps that make it and read it last */
  bool saved;              /* the backward pass reads it */
  int layer;               /* 1, 2, ..: as begun, or else found in the graph */
  int last_layer;          /* the last whose forward pass reads it */
  bool region;       /* inside a region; its choice is RECOMPUTE already */
  mrt_choice choice; /* to answer */
  double priority;   /* among OPEN ones: the larger, the rather kept */
  int segment;      /* what is computed again for one of a segment is held until
                        its last use in that; 0: as layers are cut by what is
                        kept */
  int last_segment; /* the last in which it is held: filled in */
} mrt_activation;

/* A checkpoint policy: answers all activations at once, in step order.
 * `kept`: bytes that OPEN ones may keep for the backward pass; set it to give
 * such a budget. */
struct mrt_checkpoint {
  mrt_activation *activations;
  int count, layers;
  const char **variables; /* names of variables: never asked about */
  int variable_count;
  size_t saved;      /* bytes that the backward pass reads, all kept */
  size_t kept;       /* to answer; SIZE_MAX: no such budget */
  bool no_recompute; /* to answer: OPEN ones are never computed again */
};

/* A block of the arena: a value and what shares its place, or a workspace. */
typedef struct mrt_placed {
  const char *op, *name; /* name may be NULL */
  size_t bytes, align;
  int first, last; /* steps, both included */
  size_t offset;   /* to answer: a multiple of `align` */
} mrt_placed;

/* A place policy: says where all blocks lie, which come in the order of their
 * first steps.  Two that live at one step must not overlap. */
struct mrt_placing {
  mrt_placed *blocks;
  int count, steps;
  size_t height; /* to answer: bytes of the arena; less than what the blocks
                    take: that */
};

/* A node that computes floats: what a precision policy is asked about.
 * MRT_DTYPE_COUNT as an answer leaves f32. */
typedef struct mrt_computation {
  const char *op;    /* the operator */
  const char *name;  /* of its first result, or NULL */
  const char *cost;  /* kind of work: mrt_cost_name */
  const char *width; /* "narrow": gains by narrow inputs; "wide": loses range or
                        sums many terms; "follow": neither */
  const char *file, *module; /* module may be NULL */
  int line, layer;
  bool backward; /* part of the gradient */
  bool boundary; /* hands what comes of variables on to another layer */
  mrt_type type; /* of its first result */
  double flops;
  /* to answer: */
  mrt_dtype compute;  /* what its inputs are rounded to */
  bool scaled;        /* of products: inputs are scaled to fit that dtype, by
                        what is largest in them */
  mrt_dtype gradient; /* if scaled, instead of `compute` for inputs that are
                         gradients */
  mrt_dtype output;   /* of its results; COUNT: as compute, where something
                        narrow comes of them */
  mrt_dtype
      accumulate; /* of matmul, linear and conv2d: what sums are rounded to after
                           each term; COUNT: as the program
                           says, f32 if it does not */
} mrt_computation;

/* A precision policy: answers all nodes at once, in the traced order. */
struct mrt_precision {
  mrt_computation *nodes;
  int count;
  mrt_dtype keep; /* to answer: what the backward pass reads of the forward
                     pass is kept so, but for statistics */
};

/* What a value is kept in for the backward pass. */
typedef enum mrt_compress_format {
  MRT_COMPRESS_NONE, /* as it is */
  MRT_COMPRESS_BF16,
  MRT_COMPRESS_F16,
  MRT_COMPRESS_F8,   /* f8_e4m3: what is beyond its range is its largest */
  MRT_COMPRESS_INT8, /* codes, a scale for each 64 elements: op/quantize.c */
  MRT_COMPRESS_NF4,  /* ditto, two codes to a byte */
  MRT_COMPRESS_COUNT
} mrt_compress_format;
MRT_API const char *
mrt_compress_format_name(mrt_compress_format format); /* NULL: there is none */

/* What the backward pass reads of the forward pass: a value that a compress
 * policy is asked about. */
typedef struct mrt_compressible {
  const char *op, *name;     /* what makes it; its name or NULL */
  const char *file, *module; /* module may be NULL */
  int line, layer;
  mrt_type type;
  size_t bytes;
  const char *refused;        /* why it cannot be compressed; NULL: it can */
  mrt_compress_format format; /* to answer; what is refused stays as it is */
} mrt_compressible;

/* A compress policy: answers all values at once, in the traced order. */
struct mrt_compression {
  mrt_compressible *values;
  int count;
};

/* A variable that a plan reads, for a swap policy to judge. */
typedef struct mrt_variable_info {
  const char *name; /* may be NULL */
  const char *file;
  int line;
  mrt_type type;
  size_t bytes;
  uint64_t id;     /* the same in other plans */
  bool weight;     /* a result or a gradient depends on it; or else only
                      updates do: optimizer state */
  int first, last; /* steps that use it, before copies are added */
} mrt_variable_info;

enum { MRT_SWAP_KEEP = -2, MRT_SWAP_ANY = -1 }; /* or the number of a tier */

/* Which variables live in the swap tier between their uses?  Asked once for
 * each while planning.  A failure of `choose` fails the plan; its message is
 * the host's. */
struct mrt_swap_policy {
  mrt_status (*choose)(void *user, const mrt_variable_info *v, int *swap);
  void *user;
};

#ifdef __cplusplus
}
#endif
#endif
