/* frontend.h -- what only a binding of a language needs
 *
 * Operators' options from values of the language, where nodes come from in its
 * sources, traces that are planned several times (micro-batches, new shapes,
 * new precisions), and plans that share memory.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_FRONTEND_H
#define MRT_FRONTEND_H

#include "mrt/policy.h"
#include "mrt/ranks.h"
#include "mrt/schema.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- options by name, dtypes and shapes that meet ------------------------- */

/* The option of this name, which is `size` bytes long; -1: there is none. */
MRT_API int mrt_option_find(const mrt_op *op, const char *name, size_t size);
/* Which of an ENUM's words this is; -1: none. */
MRT_API int mrt_option_word(const mrt_option *option, const char *word,
                            size_t size);
/* "dim, keepdim" into `text`, cut to `size`. */
MRT_API void mrt_option_names(const mrt_op *op, char *text, size_t size);
/* Fill an options struct of the operator's options_size bytes from text such as
 * "dim=-1, keepdim=true" (mrt.h, formulas).  EVALUE. */
MRT_API mrt_status mrt_options_parse(mrt_context *ctx, const mrt_op *op,
                                     const char *text, void *options);
/* The dtype of the result where both meet in a pointwise operator. */
MRT_API mrt_dtype mrt_dtype_promote(mrt_dtype a, mrt_dtype b);
/* By what it goes: larger is wider, above that of i64 are floats. */
MRT_API int mrt_dtype_width(mrt_dtype dtype);
/* Widen the shape of `all` so that that of `t` stretches to it; false, with
 * nothing changed, when it cannot. */
MRT_API bool mrt_type_broadcast(mrt_type *all, const mrt_type *t);

/* ---- rows ----------------------------------------------------------------- */

/* These rows of a tensor, counted from 0, as a new tensor of n rows.  EVALUE:
 * there is no such row; ESHAPE: a scalar. */
MRT_API mrt_status mrt_tensor_rows(mrt_tensor *t, const int64_t *rows,
                                   int64_t n, mrt_tensor **out);
/* Write `from` over the rows of `to` from `row` on, counted from 0, where these
 * lie: for results that are put together before anybody has them.  Both have
 * been evaluated.  EDTYPE, ESHAPE: they are not of one kind of row; EVALUE: rows
 * that `to` does not have; ESTATE: one is pending. */
MRT_API mrt_status mrt_tensor_put_rows(mrt_tensor *to, int64_t row,
                                       const mrt_tensor *from);

/* ---- traces, and what is marked in them ---------------------------------- */

/* Where the next nodes come from, for errors and reports: a line of the
 * program, and the path of a module ("blocks.3.fc"; NULL: in none).  Both are
 * copied; on failure (out of memory) nodes say "?", and no module. */
MRT_API void mrt_set_origin(mrt_context *ctx, const char *file, int line,
                            const char *module);

/* The script of this process: when ranks plan different collectives they say
 * whether they run different scripts too. */
MRT_API void mrt_context_set_script(mrt_context *ctx, const char *text,
                                    size_t size);

/* d y / d xs[i] for a scalar y; NULL where it does not depend on it.
 * `apart`: the xs count as independent, also of each other.
 * `behind`: NULL, or where behind[i] is the number of an operator (mrt_work), the
 * part of the gradient that comes from those with larger numbers: a view of its own,
 * one for all xs of which that is the same tensor, which the sweep goes on from. */
MRT_API mrt_status mrt_grad_partial(mrt_context *ctx, mrt_tensor *y,
                                    mrt_tensor *const *xs, int nx, bool apart,
                                    const uint64_t *behind, mrt_tensor **dx);

/* A step of the reverse sweep: an operator some of whose results have a gradient,
 * and what of it goes to what it reads.  All are borrowed, for the time of a call. */
typedef struct mrt_sweep_step {
  const char *op;
  const char *file; /* of the operator; NULL: unknown */
  int line;
  int nin, nout;
  mrt_tensor *const *in, *const *out; /* out[i] NULL: nobody has it */
  mrt_tensor *const
      *dout;              /* the gradient of out[i], a sum; NULL: it has none */
  mrt_tensor *const *din; /* what is added to that of in[i]; NULL: nothing */
  const bool *wants;      /* else what is at din[i] counts for nothing */
} mrt_sweep_step;
typedef struct mrt_grad_watch {
  bool (*step)(void *user, const mrt_sweep_step *step); /* false: no memory */
  void *user;
} mrt_grad_watch;
/* mrt_grad, while `watch`, unless it is NULL, is told of each step of the sweep.
 * `behind`: as of mrt_grad_partial; there dx[i] is NULL where nothing is. */
MRT_API mrt_status mrt_grad_watched(mrt_context *ctx, mrt_tensor *const *ys,
                                    mrt_tensor *const *dys, int ny,
                                    mrt_tensor *const *xs, int nx,
                                    bool allow_unused, const uint64_t *behind,
                                    const mrt_grad_watch *watch,
                                    mrt_tensor **dx);

/* A tensor equal to `y` whose gradient is what `backward` returns: called
 * with the gradient of y while mrt_grad builds, it fills dx[nx] with tensors
 * (one handle each, taken) or NULL.  `release` is called once when the node
 * dies, also when this function fails. */
MRT_API mrt_status mrt_custom(mrt_context *ctx, mrt_tensor *y,
                              mrt_tensor *const *xs, int nx,
                              mrt_backward backward, void (*release)(void *),
                              void *user, mrt_tensor **out);

/* mrt_trace_begin for a plan that is to take the place of `old`: it draws the
 * random numbers that the old one would have drawn next.  Borrows `old` until the
 * trace ends. */
MRT_API mrt_status mrt_trace_begin_anew(mrt_context *ctx, const mrt_plan *old);

/* What `t` is at this place of the trace: a variable's newest version,
 * borrowed; else `t` itself. */
MRT_API mrt_tensor *mrt_tensor_current(mrt_tensor *t);
/* The name of the operator that makes `t`, and what it reads, borrowed; NULL:
 * nothing makes it. */
MRT_API const char *mrt_tensor_maker(const mrt_tensor *t, int *nin,
                                     mrt_tensor *const **in);
/* Of that operator: its flops, the bytes that it reads and writes, whether all it
 * makes are views, a number that all its results have, and the path of the module
 * that it is of (borrowed; NULL: none); of what nothing makes, nothing. */
typedef struct mrt_work {
  double flops, bytes;
  bool view;
  uint64_t id;
  const char *module;
} mrt_work;
MRT_API mrt_work mrt_tensor_work(const mrt_tensor *t);
/* Are two tensors the same result of the same operator with the same options, of
 * whatever each reads? */
MRT_API bool mrt_tensor_alike(const mrt_tensor *a, const mrt_tensor *b);

/* Was `t` made in the trace under way? */
MRT_API bool mrt_trace_has(const mrt_context *ctx, const mrt_tensor *t);
/* What was recorded becomes a section of the trace, the first is 0; recording
 * begins anew: no updates, and the inputs of section `like`, or none (-1).
 * Random numbers are drawn as in the section before. */
MRT_API mrt_status mrt_trace_section(mrt_context *ctx, int like);
/* Draw random numbers as the trace did whose first key is `first`; 0 changes
 * nothing.  Returns this trace's first key. */
MRT_API uint64_t mrt_trace_keys(mrt_context *ctx, uint64_t first);
/* A number of this trace for the option `draw` of updates that are parts of
 * one; 0 outside a trace. */
MRT_API uint64_t mrt_trace_draw(mrt_context *ctx);
/* From here on the trace reads `value`, of its type, where a variable is read.
 * EVALUE. */
MRT_API mrt_status mrt_trace_read(mrt_context *ctx, mrt_tensor *variable,
                                  mrt_tensor *value);
/* Plans of the trace that are made from here on read `leaf`, a variable or an
 * input of the section that they are of, where they would compute `t`; NULL: they
 * compute it again.  What is computed of an input alone will do, too, as long as
 * the caller holds it.  What is of a narrow float may stand for one of f32. */
MRT_API mrt_status mrt_trace_replace(mrt_context *ctx, mrt_tensor *t,
                                     mrt_tensor *leaf);

/* A value that products read scaled to fit `dtype`. */
typedef struct mrt_site {
  const char *op;   /* what made it; "variable", "input" or "constant" */
  const char *name; /* or NULL */
  const char *file, *module; /* module may be NULL */
  int line, layer;
  bool backward;
  mrt_type type;
  mrt_dtype dtype;
} mrt_site;

/* Scales that the program knows before a run, one a site, instead of those of
 * what is largest in it then.  Sites are numbered in traced order.  Both are
 * variables f32[sites]: `scale` is read; what reads `amax` reads instead the
 * largest magnitude at each site of this plan, if it has any. */
struct mrt_delayed {
  mrt_tensor *scale, *amax; /* NULL: not made yet, as long as there are sites */
  /* Told once, while planning; a failure, as it must be where the variables are
   * not of this size, fails the plan, and its message is the host's. */
  mrt_status (*sites)(void *user, const mrt_site *sites, int count);
  void *user;
};

/* mrt_trace_end, and the trace goes on. */
MRT_API mrt_status mrt_trace_plan(mrt_context *ctx, mrt_tensor *const *outputs,
                                  int noutputs, const mrt_plan_options *options,
                                  mrt_space *space, mrt_plan **plan);

/* An arena that several plans use in turn, as large as the largest needs. */
MRT_API mrt_status mrt_space_new(mrt_context *ctx, mrt_space **space);
MRT_API void mrt_space_free(mrt_space *space); /* NULL is fine */
/* What its arena has taken of the device. */
MRT_API size_t mrt_space_bytes(const mrt_space *space);
/* Give its memory back to the system, and what tensors have freed with it; the
 * next run of a plan takes what that needs. */
MRT_API void mrt_space_empty(mrt_space *space);

/* What a run has met that is no error, once; "": nothing. */
MRT_API void mrt_context_take_notice(mrt_context *ctx, char *to, size_t room);

/* False once a variable it reads has another dtype than it was made for. */
MRT_API bool mrt_plan_fits(const mrt_plan *plan);

/* Which part of a batch a run is about, and which run it counts as. */
struct mrt_part {
  int64_t row, rows; /* it begins at row `row` of `rows`; 0 of 0: all of it */
  uint64_t run;      /* what mrt_plan_runs would have been */
  int64_t first; /* where the part begins that runs first: accumulators begin
                        anew with it */
  bool apart;    /* outputs are of this part alone, and new in each run */
};

/* Run a plan over a part: of inputs that are longer in their first dimension
 * than the plan's, the part's rows are read where they lie.  Outputs that are
 * as long as the part are written to their rows of `out`, which the part with
 * row 0 makes and the others are given. */
MRT_API mrt_status mrt_plan_run_part(mrt_plan *plan, const mrt_part *part,
                                     mrt_tensor *const *in, int nin,
                                     mrt_tensor **out, int nout);

/* ---- micro-batches -------------------------------------------------------
 *
 * A function traced over a part of the batch (a section of the trace) and then
 * over all of it (what the trace records now) tells which of its values can be
 * had part by part. */

typedef enum mrt_placement_kind {
  MRT_REPLICATE, /* does not depend on the rows */
  MRT_SHARD,     /* each row's own share, from that row alone */
  MRT_PARTIAL,   /* the sum of what the parts have */
  MRT_UNKNOWN    /* neither: needs the whole batch, or totals over it */
} mrt_placement_kind;

/* `degree` d: the value for all N rows has the factor N^d where a part of n has
 * n^d (a mean over the batch is a PARTIAL of degree -1). */
typedef struct mrt_placement {
  mrt_placement_kind kind;
  int degree;
  int64_t outer; /* SHARD: elements before the batch, in row-major order */
} mrt_placement;

/* `section` is over `part` of `all` rows.  `statistics`: totals over a part
 * may stand for totals over all where rows read them. */
MRT_API mrt_status mrt_batch_new(mrt_context *ctx, int section, int64_t all,
                                 int64_t part, bool statistics,
                                 mrt_batch **batch);
MRT_API void mrt_batch_free(mrt_batch *batch); /* NULL is fine */
/* This is the placement of `micro`, however it is computed. */
MRT_API mrt_status mrt_batch_mark(mrt_batch *batch, mrt_tensor *whole,
                                  mrt_tensor *micro, mrt_placement placement);
/* The placement of a value that is `whole` over all rows and `micro` over the part.
 * EVALUE: the two are not computed alike; ESTATE: the trace is over. */
MRT_API mrt_status mrt_batch_placement(mrt_batch *batch, mrt_tensor *whole,
                                       mrt_tensor *micro,
                                       mrt_placement *placement);

/* A value that others are computed from. */
typedef struct mrt_batch_value {
  mrt_tensor *whole, *micro;
  mrt_tensor *reader; /* over all rows; `whole` itself for one of the n */
  mrt_placement placement;
  bool marked;
} mrt_batch_value;

/* The highest values that are SHARD, PARTIAL or marked, of those that n values
 * (and all updates) are computed from; borrowed until the next call. */
MRT_API mrt_status mrt_batch_cut(mrt_batch *batch, mrt_tensor *const *whole,
                                 mrt_tensor *const *micro, int n, bool updates,
                                 const mrt_batch_value **cuts, int *count);

#ifdef __cplusplus
}
#endif
#endif
