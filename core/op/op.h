/* op.h -- the operator row: everything the system knows of an operator
 *
 * An operator is one constant struct in a file of its family here, one line in
 * ops.def, one kernel per device, and samples in spec/.  Nothing else names
 * it, and there is no switch over operators anywhere.
 *
 * Invariants (spec/op/ops_spec.lua goes over all rows)
 *   - infer refuses what the kernel cannot do, with a message that names the
 *     operator; it changes nothing when run again;
 *   - outputs agree with a reference, gradients and gradients of these with
 *     differences, on all samples;
 *   - a kernel gives the same bits whether it is fused, works in place or reads
 *     a strided view;
 *   - what traits say holds bit for bit (COMMUTES, INVOLUTION, units): rewrites
 *     rely on it (spec/plan/random_graph_spec.lua);
 *   - a row's functions are pure: they see the signature or the build, write
 *     only what they are given to fill, and never reach for the table of rows.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_OP_OP_H
#define MRT_OP_OP_H

#include "base/dtype.h"
#include "base/error.h"
#include "mrt/schema.h"

/* Operator numbers, in the order of ops.def. */
enum {
#define OP(name)   MRT_OP_##name,
#define VIEW(name) MRT_OP_##name,
#include "ops.def"
#undef OP
#undef VIEW
  MRT_OP_COUNT
};

typedef enum mrt_trait {
  MRT_VIEW = 1,         /* outputs are views of input 0; no kernel */
  MRT_POINTWISE = 2,    /* all shapes equal; the kernel is a block function */
  MRT_COMMUTES = 4,     /* f(a, b) == f(b, a), bit for bit */
  MRT_RANDOM = 8,       /* reads the run's seed and step */
  MRT_UPDATES = 16,     /* outputs take the storage of the leading inputs */
  MRT_FAULTS = 32,      /* checks what it reads and reports what is bad */
  MRT_FIXED = 64,       /* never removed, merged or cloned */
  MRT_INVOLUTION = 128, /* f(f(x)) == x, bit for bit */
  MRT_UNIFORM = 256,    /* no inputs, every element equal */
  MRT_INTERNAL = 512,   /* made by passes only: mrt_apply refuses it */
  MRT_LINEAR = 1024,    /* linear in all inputs together */
  MRT_PRODUCT = 2048,   /* linear in each input alone */
  MRT_QUOTIENT = 4096,  /* linear in input 0, in the inverse of input 1 */
  MRT_BATCH_STATISTICS = 8192, /* output 0: rows of input 0, each of which
                                  depends on the others; then means of rows */
  MRT_SWAPS = 16384, /* begins a copy between its input and its output */
  MRT_WAITS = 32768, /* ends the copy between its inputs */
  /* All ranks call it, in the order of the program: never removed, merged or
     moved past another, computed again only by REPEATS.  Its options begin as
     mrt_meeting (op/collective.h). */
  MRT_COLLECTIVE = 65536,
  MRT_REPEATS = 131072,   /* a collective that may be computed again */
  MRT_PAIR = 262144,      /* a collective of two ranks only */
  MRT_LIBRARY = 524288,   /* for gradients and layers: no function of users */
  MRT_OF_REALS = 1 << 20, /* pointwise: who applies it makes f32 of integers */
  MRT_CLAMPS = 1 << 21, /* relies on a lookup of its ids: rewrite/check_ids.c */
  MRT_DERIVES = 1 << 23, /* an update that computes the gradient it takes */
  MRT_VOUCHES = 1 << 22  /* y = input 0, a caller's word that its rows depend on
                           the batch as those of input 1; in no graph */
} mrt_trait;

/* How it behaves in narrow precision. */
typedef enum mrt_width { MRT_WIDE, MRT_NARROW, MRT_FOLLOW } mrt_width;

enum { MRT_MAX_OUT = 64 }; /* outputs of one node */

/* What `infer` sees.  It checks the inputs and normalises the options (a
 * private copy; running it again changes nothing), then fills out[0..nout). */
typedef struct mrt_infer {
  const mrt_op *op;
  int nin;
  const mrt_type *const *in;
  void *options;
  int nout;
  mrt_type *out;
  mrt_error *e;
} mrt_infer;

/* Types of a node's leading values, for costs. */
typedef struct mrt_signature {
  const mrt_op *op;
  const void *options;
  int nin, nout;
  const mrt_type *const *in, *const *out;
} mrt_signature;

/* `count` products of [m,k] and [k,n]. */
typedef struct mrt_product {
  double count, m, n, k;
} mrt_product;

/* Where the positions along dimension `dim` of input `input` go: the dimension
 * of the outputs along which each is computed from its own alone, or one of
 * these.  Types are those of a legal node. */
typedef enum mrt_shard_rule {
  MRT_RULE_UNKNOWN = -1, /* results depend on several positions */
  MRT_RULE_PARTIAL = -2, /* results are sums over all of them */
  MRT_RULE_UNREAD = -3,  /* the numbers of this input do not matter */
  MRT_RULE_SAME = -4,    /* elements keep their row-major order */
  MRT_RULE_RUNS = -5     /* runs of them come from, or go to, this dimension */
} mrt_shard_rule;
typedef int mrt_shard_rules(const mrt_signature *s, int input, int dim);
/* Make options over a dimension those over one of n equal pieces of each block
 * of so many positions; false: they do not begin and end at blocks. */
typedef bool mrt_divide_runs(void *options, int64_t block, int64_t n);

struct mrt_build; /* op/build.h */
struct mrt_view;

struct mrt_op {
  const char *name, *doc; /* doc: the formula, in one line */
  int number;
  int min_inputs, max_inputs; /* max -1: any number */
  const mrt_option *options;
  int option_count;
  size_t options_size;
  mrt_status (*infer)(mrt_infer *c);
  /* Build the gradients: fills b->din.  NULL: not differentiable. */
  void (*grad)(struct mrt_build *b);
  /* Views: offset and strides of output `index` in elements of the input's
   * storage.  False when this layout cannot be expressed as strides. */
  bool (*view)(struct mrt_view *v);
  mrt_cost cost;                           /* what kind of work it is */
  double (*flops)(const mrt_signature *s); /* NULL: none */
  /* The same work by kind, added to by_kind[MRT_COST_COUNT], where it is not
   * all of one. */
  void (*work)(const mrt_signature *s, double *by_kind);
  /* What products of matrices it is, if it is; 2 m n k count is its flop. */
  mrt_product (*product)(const mrt_signature *s);
  double (*bytes)(const mrt_signature *s); /* NULL: all it reads and writes */
  mrt_shard_rules *shard_rule;  /* NULL: mixed, or for POINTWISE dim for dim */
  mrt_divide_runs *divide_runs; /* NULL: nothing, for RULE_RUNS */
  uint32_t inplace;             /* bit i: output 0 may overwrite input i */
  uint32_t strided;             /* bit i: input i may have any strides */
  int addend;  /* the input that is added to the result; 0: none */
  int updates; /* outputs 0..updates take the storage of inputs 0.. */
  /* Where input i (bit of unit_inputs) is the constant `unit` everywhere, the
   * output is the other input, bit for bit. */
  uint32_t unit_inputs;
  double unit;
  mrt_width width;
  /* bit i: the kernel reads input i, writes output i, in any float dtype; what
   * infer says is f32 then (rewrite/precision.c).  Bit 31: that and all further
   * inputs. */
  uint32_t narrow_inputs, narrow_outputs;
  uint32_t wide_outputs; /* bit i: output i is never rounded to a narrow dtype:
                            statistics, losses */
  uint32_t wide_inputs;  /* bit i: input i is never read rounded: scales */
  /* FAULTS: what is wrong, a format that may take two long longs, bad_id and
     bad_limit of the run (device/kernel.h); NULL: an index out of range */
  const char *fault;
  uint32_t traits;
  int reduce_kind; /* mrt_reduce_kind (op/reduce.h): how fused_reduce takes this reduction */
};

typedef struct mrt_view {
  const mrt_op *op;
  const void *options;
  int index;
  const mrt_type *in, *out;
  const int64_t *in_strides;
  int64_t offset;   /* fill: relative to the input's */
  int64_t *strides; /* fill */
} mrt_view;

/* Not for rows and what they call: these look in their context (table.c). */
extern const mrt_op *const mrt_ops[MRT_OP_COUNT];
/* Bytes of an option in its struct. */
size_t mrt_option_bytes(mrt_option_kind kind);

/* ---- writing a row ------------------------------------------------------- */

#define MRT_OPTIONS(table, type)                                               \
  .options = (table), .option_count = MRT_COUNT(table),                        \
  .options_size = sizeof(type)
#define MRT_OPTION(type, field, ...)                                           \
  { .name = #field, .offset = offsetof(type, field), .kind = __VA_ARGS__ }

/* Fail with "name: <text>". */
#define mrt_refuse(c, status, ...) mrt_refuse_(c, status, __VA_ARGS__)
mrt_status mrt_refuse_(mrt_infer *c, mrt_status status, const char *fmt, ...)
    MRT_PRINTF(3, 4);
/* "f32[2,3]" in one of a few static-free buffers of the call. */
typedef struct mrt_text {
  char s[128];
} mrt_text;
mrt_text mrt_show(const mrt_type *type);

/* Common checks; each names the operator, what was given, what was wanted. */
mrt_status mrt_want_real(mrt_infer *c, int input);    /* f32 or f64 */
mrt_status mrt_want_float(mrt_infer *c, int input);   /* of any width */
mrt_status mrt_want_integer(mrt_infer *c, int input); /* i64, i32 or u8 */
mrt_status mrt_want_dtype(mrt_infer *c, int input, mrt_dtype dtype);
mrt_status mrt_want_same(mrt_infer *c, int a, int b); /* dtype and shape */
mrt_status mrt_want_same_dtype(mrt_infer *c, int a, int b);
mrt_status mrt_want_shape(mrt_infer *c, int input, int rank,
                          const int64_t *dims, const char *why);
/* *dim from the caller's (negative: from the end) to 0-based; EVALUE. */
mrt_status mrt_want_dim(mrt_infer *c, int64_t *dim, int rank);
/* Sort and check a list of dims; an empty list becomes all of them. */
mrt_status mrt_want_dims(mrt_infer *c, mrt_ints *dims, int rank);

/* Lanes of operators that copy: dim for dim. */
int mrt_shard_rules_same(const mrt_signature *s, int input, int dim);
/* Of those that work on what `dim` 0 counts one by one. */
int mrt_shard_rules_first(const mrt_signature *s, int input, int dim);
/* Product of dims [from, to). */
int64_t mrt_extent(const mrt_type *t, int from, int to);

#endif
