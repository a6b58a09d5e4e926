/* mrt.h -- the C API of mrt for those who use it, in the order one calls it
 *
 *     mrt_context_new(NULL, &ctx), mrt_scope_new(ctx, &s);
 *     w = mrt_parameter(s, mrt_randn(s, &type), "w");
 *     mrt_trace_begin(ctx);                         a step is written down:
 *     y = mrt_op2(s, "matmul", mrt_input(s, &in), w, NULL);
 *     loss = mrt_op1(s, "sum", mrt_op2(s, "mul", y, y, NULL), NULL);
 *     mrt_gradients(s, loss, &w, 1, &dw);
 *     mrt_set(s, w, mrt_op2(s, "sub", w, dw, NULL));
 *     plan = mrt_scope_plan(s, &loss, 1, NULL);
 *     mrt_plan_get_info(plan).peak                  its bytes, before it runs
 *     mrt_plan_run(plan, &x, 1, &out, 1);           as often as one wants
 *
 * (examples/train.c is a whole program.)  A plan says to the byte what a run
 * takes, and mrt_plan_run takes exactly that.  Outside a trace operators are
 * lazy: shapes are checked now, values computed by mrt_eval.
 *
 * Everything hangs on one context; a context and all that belongs to it is
 * used by one thread at a time.  Functions that can fail return a status; the
 * message is then in mrt_message(ctx), arguments are unchanged and what was to
 * be filled is NULL or untouched.  Any of them may fail with MRT_ENOMEM, which
 * contracts below do not repeat.  Pointers are borrowed for the call unless a
 * comment says more; a tensor that is filled in is a handle that its caller
 * owns, and ends with mrt_tensor_unref.
 *
 * Beside this one: mrt/types.h (included here), mrt/schema.h (operators by
 * their rows), mrt/device.h (what plans are made for), mrt/policy.h (what
 * policies are asked), mrt/ranks.h (several processes), mrt/inspect.h (what is
 * in a plan), mrt/text.h (tokenizers), mrt/json.h (JSON that is read),
 * mrt/gguf.h (included here: files of llama.cpp), mrt/solve.h (the planner's
 * solvers on plain arrays) and mrt/frontend.h (for bindings of languages).
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_H
#define MRT_H

#include "mrt/gguf.h"
#include "mrt/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- context ------------------------------------------------------------- */

typedef struct mrt_context_options {
  const mrt_allocator *allocator; /* NULL: malloc; borrowed for good */
  int threads;         /* 0: OMP_NUM_THREADS, or the cores it may use */
  const char *isa;     /* NULL: the best this processor has */
  bool poison;         /* overwrite each value when it dies */
  size_t memory_limit; /* bytes of tensors; 0: no limit */
  const char *device;  /* NULL or "cpu"; "gpu:0": number 0 of libmrt_gpu.so */
  mrt_context *ranks;  /* whose communicators it uses; it keeps that context.
                         NULL: its own */
  char *message;       /* gets the message of a failure; NULL: not wanted */
  size_t message_room;
} mrt_context_options;

/* Open a device.  All of a context's tensors are on it.  `options` may be NULL.
 * On failure *ctx is NULL: ENOMEM; EDEVICE and EVALUE for a device or an
 * instruction set that is not here. */
MRT_API mrt_status mrt_context_new(const mrt_context_options *options,
                                   mrt_context **ctx);
/* Names of the kinds of devices whose libraries, libmrt_<name>.so, lie beside
 * this one, the CPU not among them; false past the last. */
MRT_API bool mrt_device_kind(int i, char *name, size_t room);
/* The caller is done with it: it goes once its last tensor and plan are gone.
 * NULL is fine. */
MRT_API void mrt_context_free(mrt_context *ctx);
/* What the last failure was about, "matmul: f32[2,3] against f32[4,5], ..";
 * never NULL, borrowed until the next call. */
MRT_API const char *mrt_message(const mrt_context *ctx);
/* After EBUDGET: bytes that would do, 0 where that is unknown. */
MRT_API size_t mrt_budget_needed(const mrt_context *ctx);
/* Overwrite each value when it dies, with NaN or an integer's extreme: what
 * reads it later shows. */
MRT_API void mrt_context_set_poison(mrt_context *ctx, bool poison);
/* From now on a plan of more bytes is refused when it is to run (EBUDGET);
 * 0: none is. */
MRT_API void mrt_context_set_budget(mrt_context *ctx, size_t bytes);
/* Ask the running step to stop at the next node before its first update; safe
 * in a signal handler.  The run returns EINTERRUPT with no state changed.
 * Contexts that share ranks (mrt_context_options) share interrupts too. */
MRT_API void mrt_interrupt(mrt_context *ctx);
/* Forget an interrupt that no run has acted on; true if there was one. */
MRT_API bool mrt_interrupt_clear(mrt_context *ctx);
/* Bytes that this process can still get; 0: unknown. */
MRT_API size_t mrt_context_available(const mrt_context *ctx);
/* Bytes of the device that are in use and were not requested for tensors: what
 * its driver and libraries (and other processes) hold now; 0 on the CPU. */
MRT_API size_t mrt_context_overhead(const mrt_context *ctx);
/* A run that must get more than is available is refused before it begins
 * (ENOMEM): from now on so many bytes, instead of asking the device; 0: ask;
 * SIZE_MAX: nothing is refused. */
MRT_API void mrt_context_set_available(mrt_context *ctx, size_t bytes);
/* Make the file that values are swapped to in this folder; by default the first
 * step that swaps makes it in $TMPDIR or /tmp.  It has no name and dies with
 * the process.  ESTATE when something is swapped already, EDEVICE when it cannot
 * be: the one before then stays. */
MRT_API mrt_status mrt_context_set_swap_folder(mrt_context *ctx,
                                               const char *path);
/* Restart the random numbers: same seed, same program, same bits. */
MRT_API void mrt_seed(mrt_context *ctx, uint64_t seed);
/* How far the random numbers have got, to go on from there in another process:
 * `next` is the key of the next operator that draws some. */
typedef struct mrt_random {
  uint64_t seed, next;
  uint64_t begun; /* how often mrt_seed was called */
} mrt_random;
MRT_API mrt_random mrt_random_get(const mrt_context *ctx);
/* Begin anew at such a place. */
MRT_API void mrt_random_set(mrt_context *ctx, uint64_t seed, uint64_t next);

typedef struct mrt_context_info {
  const char *device; /* "cpu", "gpu:0" */
  const char *isa;
  int threads;
  const char *libraries; /* "cuBLASLt" */
  size_t bytes_now;      /* tensor bytes requested from the device */
  size_t bytes_peak;     /* the most at any time since mrt_context_reset_peak */
  size_t alignment;      /* what the device allocates is a multiple of it */
  size_t bytes_swapped;  /* of the swap tier */
  size_t bytes_spare;    /* given back by tensors and kept for the next */
  size_t bytes_host;   /* of the host, for what the device has no kernels for */
  int devices;         /* of its kind that are here */
  bool queues;         /* plans return before they are done; reading waits */
  uint64_t unrecorded; /* plans that its device failed to record: each of their
                          runs is queued step by step */
  uint64_t steps;      /* run so far: operators of evaluations and of plans */
  uint64_t plans;      /* made so far */
  uint64_t objects;    /* made so far: tensors, and what computes them */
} mrt_context_info;
/* What is swapped to the i-th place: 0 is the device's own (*folder is NULL),
 * others are folders that a profile names.  False past the last. */
MRT_API bool mrt_context_swapped_to(const mrt_context *ctx, int i,
                                    const char **folder, size_t *bytes);
MRT_API mrt_context_info mrt_context_get_info(const mrt_context *ctx);
/* Set bytes_peak back to bytes_now. */
MRT_API void mrt_context_reset_peak(mrt_context *ctx);

/* ---- tensors ------------------------------------------------------------- */

/* A tensor with these elements: row-major, of type->dtype, copied.  ESHAPE,
 * EDTYPE for a type that is none. */
MRT_API mrt_status mrt_tensor_from(mrt_context *ctx, const mrt_type *type,
                                   const void *data, mrt_tensor **out);
/* A variable: a tensor that can be assigned.  Its storage is made, and `init`
 * computed into it, when it is first needed; `name` is copied, may be NULL. */
MRT_API mrt_status mrt_variable_new(mrt_context *ctx, mrt_tensor *init,
                                    const char *name, mrt_tensor **out);
/* These cannot fail; names and types are borrowed from the tensor. */
MRT_API bool mrt_tensor_is_variable(const mrt_tensor *t);
/* How often it has been written: by steps, one each, or assigned. */
MRT_API uint64_t mrt_variable_writes(const mrt_tensor *variable);
MRT_API const char *mrt_tensor_name(const mrt_tensor *t); /* or NULL */
MRT_API mrt_status mrt_tensor_set_name(mrt_tensor *t, const char *name);
MRT_API const mrt_type *mrt_tensor_type(const mrt_tensor *t);
MRT_API mrt_context *mrt_tensor_context(const mrt_tensor *t);
/* Tells it from all others of the context; plans say it of variables. */
MRT_API uint64_t mrt_tensor_id(const mrt_tensor *t);
/* Where it was made: "train.lua", 12.  Never NULL. */
MRT_API const char *mrt_tensor_origin(const mrt_tensor *t, int *line);
/* One more handle, and one less: a tensor goes with the last and with what is
 * computed from it. */
MRT_API void mrt_tensor_ref(mrt_tensor *t);
MRT_API void mrt_tensor_unref(mrt_tensor *t); /* NULL is fine */
/* The elements, row-major, after mrt_tensors_read; NULL while pending.
 * Borrowed until the tensor is assigned, freed or left, or a plan runs that
 * swaps it. */
MRT_API const void *mrt_tensor_data(const mrt_tensor *t);
/* Overwrite the elements of a tensor that has some and that nobody else reads:
 * new data for an input that is used again.  ESTATE otherwise. */
MRT_API mrt_status mrt_tensor_write(mrt_tensor *t, const void *data);
/* The reader is done: a copy that mrt_tensors_read has brought to memory, of a
 * variable that is swapped or from a device, may leave it again. */
MRT_API void mrt_tensor_leave(mrt_tensor *t);
/* Element i, counted row-major, as a double or an int64 (bool as 0 or 1); t has
 * been read. */
MRT_API double mrt_tensor_number(const mrt_tensor *t, int64_t i);
MRT_API int64_t mrt_tensor_integer(const mrt_tensor *t, int64_t i);

/* Compute these tensors.  All or none: on failure none is evaluated.  ESTATE
 * inside a trace; EDATA: an index is out of range. */
MRT_API mrt_status mrt_eval(mrt_context *ctx, mrt_tensor *const *t, int n);
/* The same, and bring them to where the host can read them. */
MRT_API mrt_status mrt_tensors_read(mrt_context *ctx, mrt_tensor *const *t,
                                    int n);

/* variable = value, of its type, where `when` (a bool scalar, NULL for always)
 * is true.  Inside a trace it becomes an update of the plan; otherwise it happens now,
 * after pending tensors that read the old value have been computed. */
MRT_API mrt_status mrt_assign(mrt_context *ctx, mrt_tensor *variable,
                              mrt_tensor *value, mrt_tensor *when);
/* Store a variable in another float dtype from now on: rounded once,
 * after pending tensors that read it have been computed; what it begins as,
 * if it has not begun.  Plans that were made for the old dtype refuse to run.
 * On failure nothing has changed.  ESTATE inside a trace; EDTYPE. */
MRT_API mrt_status mrt_variable_convert(mrt_context *ctx, mrt_tensor *variable,
                                        mrt_dtype dtype);

/* ---- formulas -------------------------------------------------------------
 *
 *     mrt_tensor *p = mrt_op1(s, "softmax", x, "dim=-1");
 *
 * In a scope a formula reads as one.  The scope owns every tensor that the
 * functions below return and frees them with itself; mrt_tensor_ref keeps one
 * longer.  What fails returns NULL, and what is given NULL does nothing and
 * returns NULL: look once, at mrt_scope_status, at the end.  Functions that
 * return a status return that of the scope.
 *
 * Options are text, "name=value, ..": 0.5, -1, true, a word, [2,3], f32.
 * Dimensions count from 0, from the end when negative.  NULL or "": all as the
 * operator's row presets them.  EVALUE says which operator or option is
 * unknown, missing or of another kind.
 *
 * Pointwise operators (add, mul, where ..) promote dtypes and broadcast shapes
 * as in Lua. */

typedef struct mrt_scope mrt_scope;
typedef struct mrt_plan_options mrt_plan_options; /* see below */
MRT_API mrt_status mrt_scope_new(mrt_context *ctx, mrt_scope **scope);
/* Frees its tensors; parameters that a plan uses live on in it.  NULL is fine.
 */
MRT_API void mrt_scope_free(mrt_scope *scope);
/* The first failure: MRT_OK, ""; the scope does nothing more after one. */
MRT_API mrt_status mrt_scope_status(const mrt_scope *scope);
MRT_API const char *mrt_scope_message(const mrt_scope *scope);

/* A tensor with these elements, as mrt_tensor_from. */
MRT_API mrt_tensor *mrt_data(mrt_scope *scope, const mrt_type *type,
                             const void *data);
/* Every element `value`; a scalar f32; from the normal distribution. */
MRT_API mrt_tensor *mrt_full(mrt_scope *scope, const mrt_type *type,
                             double value);
MRT_API mrt_tensor *mrt_scalar(mrt_scope *scope, double value);
MRT_API mrt_tensor *mrt_randn(mrt_scope *scope, const mrt_type *type);
/* A variable, as mrt_variable_new. */
MRT_API mrt_tensor *mrt_parameter(mrt_scope *scope, mrt_tensor *init,
                                  const char *name);

/* The first result of the operator `name` of so many tensors. */
MRT_API mrt_tensor *mrt_op0(mrt_scope *scope, const char *name,
                            const char *options);
MRT_API mrt_tensor *mrt_op1(mrt_scope *scope, const char *name, mrt_tensor *x,
                            const char *options);
MRT_API mrt_tensor *mrt_op2(mrt_scope *scope, const char *name, mrt_tensor *x,
                            mrt_tensor *y, const char *options);
MRT_API mrt_tensor *mrt_op3(mrt_scope *scope, const char *name, mrt_tensor *x,
                            mrt_tensor *y, mrt_tensor *z, const char *options);
/* Its first `nout` results, of n tensors; NULL where there is none. */
MRT_API mrt_status mrt_opn(mrt_scope *scope, const char *name,
                           mrt_tensor *const *in, int nin, const char *options,
                           mrt_tensor **out, int nout);
/* dx[i], the gradient of the scalar y with respect to xs[i].  EGRAD: there is
 * no path from it to y. */
MRT_API mrt_status mrt_gradients(mrt_scope *scope, mrt_tensor *y,
                                 mrt_tensor *const *xs, int nx,
                                 mrt_tensor **dx);
/* variable = value, as mrt_assign. */
MRT_API mrt_status mrt_set(mrt_scope *scope, mrt_tensor *variable,
                           mrt_tensor *value);
/* An update such as "adamw": its leading tensors are variables, which it
 * overwrites, now or in the trace. */
MRT_API mrt_status mrt_update_by(mrt_scope *scope, const char *name,
                                 mrt_tensor *const *in, int nin,
                                 const char *options);
/* In a trace: the next input of its plan. */
MRT_API mrt_tensor *mrt_input(mrt_scope *scope, const mrt_type *type);
/* End the trace as mrt_trace_end; the caller owns the plan.  After a failure in
 * the scope the trace is forgotten. */
MRT_API mrt_plan *mrt_scope_plan(mrt_scope *scope, mrt_tensor *const *outputs,
                                 int n, const mrt_plan_options *options);
/* Element 0 of a tensor, which is computed; NaN on failure.  Not in a trace. */
MRT_API double mrt_number(mrt_scope *scope, mrt_tensor *t);

/* ---- gradients ----------------------------------------------------------- */

/* The gradients with respect to xs, as new lazy tensors: dx[i] = sum over j of
 * d ys[j] / d xs[i] * dys[j].  dys may be NULL when every y is a scalar.  EGRAD when some x has no path to
 * any y, unless `allow_unused` (then its gradient is zeros). */
MRT_API mrt_status mrt_grad(mrt_context *ctx, mrt_tensor *const *ys,
                            mrt_tensor *const *dys, int ny,
                            mrt_tensor *const *xs, int nx, bool allow_unused,
                            mrt_tensor **dx);

/* ---- traces and plans ---------------------------------------------------- */

/* Until mrt_trace_end or mrt_trace_abort, assignments are recorded instead of
 * done and evaluating is refused (ESTATE).  Traces do not nest. */
MRT_API mrt_status mrt_trace_begin(mrt_context *ctx);
MRT_API bool mrt_tracing(const mrt_context *ctx);
/* The next input of the plan.  It has no elements while it is traced. */
MRT_API mrt_status mrt_trace_input(mrt_context *ctx, const mrt_type *type,
                                   mrt_tensor **out);
/* Forget the trace; nothing has changed.  Fine where there is none. */
MRT_API void mrt_trace_abort(mrt_context *ctx);

/* What is made until the matching end belongs to one more layer of the network.
 * False, with nothing begun, inside another layer.  Policies see layers. */
MRT_API bool mrt_layer_begin(mrt_context *ctx);
MRT_API void mrt_layer_end(mrt_context *ctx);
/* What is made until the matching end is recomputed for the backward pass from
 * what the region reads.  Regions nest; begin returns what end wants. */
MRT_API int mrt_region_begin(mrt_context *ctx);
MRT_API void mrt_region_end(mrt_context *ctx, int outer);

/* What answers while a plan is made (mrt/policy.h). */
typedef struct mrt_checkpoint mrt_checkpoint;
typedef mrt_status (*mrt_checkpoint_policy)(void *user, mrt_checkpoint *c);
typedef struct mrt_precision mrt_precision;
typedef mrt_status (*mrt_precision_policy)(void *user, mrt_precision *p);
typedef struct mrt_compression mrt_compression;
typedef mrt_status (*mrt_compress_policy)(void *user, mrt_compression *c);
typedef struct mrt_placing mrt_placing;
typedef mrt_status (*mrt_place_policy)(void *user, mrt_placing *p);
typedef struct mrt_swap_policy mrt_swap_policy;
typedef struct mrt_delayed mrt_delayed;   /* mrt/frontend.h */
typedef struct mrt_batch mrt_batch;       /* ditto */
typedef struct mrt_part mrt_part;         /* ditto */
typedef struct mrt_measured mrt_measured; /* mrt/inspect.h */

/* The rewrites of a graph that have a switch, in the order they run. */
typedef enum mrt_rewrite_number {
#define REWRITE(name, doc) MRT_REWRITE_##name,
#define PASS(name, doc)
#include "mrt/passes.def"
  MRT_REWRITE_COUNT
} mrt_rewrite_number;

struct mrt_plan_options {
  /* Rewrites that are switched off, for study: bit i for the i-th of
   * mrt_plan_pass_name (1 << MRT_REWRITE_cse); the bits of results stay. */
  uint64_t off;
  bool no_inplace, no_share; /* memory schemes, for study */
  bool keep_order;           /* run in program order */
  /* How long an order and places are searched for.  0: as long as the bytes
   * that may still be gained are worth it, and with a budget as for 1;
   * 1 .. MRT_MOST_EFFORT: so many times as long, however few they are; less
   * than 0: a few orders are compared. */
  int effort;
  mrt_checkpoint_policy checkpoint; /* NULL: all OPEN */
  void *checkpoint_user;
  mrt_precision_policy precision; /* NULL: all as traced */
  void *precision_user;
  mrt_compress_policy compress; /* NULL: what is kept is kept as it is */
  void *compress_user;
  mrt_place_policy place; /* NULL: as low as is found */
  void *place_user;
  const mrt_delayed *delayed; /* borrowed for the call; NULL: none is */
  size_t memory; /* a budget for the peak, met by recomputing and swapping,
                    whichever is predicted quickest; 0: none */
  const mrt_plan *like; /* borrowed for the call: a plan of this program for
                           other sizes, whose order and recomputing are tried
                           first within a budget; NULL: none is */
  double
      spend; /* without a budget and a policy: the share of a step's predicted
                   time that may go to computing again what is quick to make, for
                   less memory; 0: the device's, less than 0: none */
  bool trap; /* a run ends with EDATA where a NaN or an infinity is made; it
                    names the operator if nothing is fused */
  bool overflows; /* gradients may: trap nothing from their first node on */
  bool offer;   /* with EBUDGET comes a plan all the same, if one was made that
                     takes what is needed: to look at; it is freed as any */
  bool no_swap; /* the planner swaps nothing of its own accord */
  int in_tier;  /* the host updates what lies in a swap tier of its memory: 1
                     where it can, -1 nowhere, 0 where that is quicker */
  bool quick;   /* EBUDGET without looking for a budget that would do */
  bool glance;  /* within a budget: the first plan that fits of each kind, for
                     somebody compares many */
  bool any;     /* any plan within the budget will do: nobody runs it */
  const mrt_batch *part; /* the plan of a part of the batch: its updates may be
                            left halfway, and it runs with mrt_plan_run_part */
  bool handed_on; /* outputs go to other plans of the same step: a precision
                     policy has something narrow come of them and of all that is
                     forward, as if these were one; named inputs come from
                     others, and may be kept compressed */
  const mrt_swap_policy *swap; /* borrowed for the call; NULL: none is */
  /* This batch is one of `ranks` that make the whole one, for random numbers:
   * what has a multiple of `rows` rows draws as it would in that.  0: it is
   * whole. */
  int64_t rank, ranks, rows;
  int prefetch; /* that many gathers may be under way beside the computation, and
                   reductions while there is memory; 0: none is */
  bool spare;  /* run so only where a rank has a core to spare; no other plan */
  int context; /* 1 + the communicator of ranks that share the sequence of their
                  inputs, the second dimension; 0: none do */
  int experts; /* 1 + the communicator of ranks that have experts' matrices in
                  pieces, and rows of their own; 0: none do */
  double capacity; /* of these: room for so many times an even share of what a
                       rank gives each; the rows beyond are dropped; 0: for all */
  bool no_ring; /* these gather keys and values, rather than pass them round */
  bool no_sequence; /* sums over ranks that share weights are taken whole, not
                       in pieces of the sequence */
  const char *name;
  const mrt_measured *measured; /* instead of predictions, in ascending order of
                                     keys */
  int measured_count;
};

/* Plan the trace: `outputs` are what a run returns; `options` may be NULL;
 * `space` is the memory that this plan shares with others (mrt/frontend.h),
 * NULL: its own.  The plan keeps the variables and tensors that it reads.  The
 * trace ends whatever is returned.  EBUDGET: no plan within options->memory was
 * found, see mrt_budget_needed; ESTATE: there is no trace. */
MRT_API mrt_status mrt_trace_end(mrt_context *ctx, mrt_tensor *const *outputs,
                                 int noutputs, const mrt_plan_options *options,
                                 mrt_space *space, mrt_plan **plan);

/* Run the plan.  Inputs have the traced types (ESHAPE, EDTYPE); outputs are new
 * handles.  EBUDGET: it is above mrt_context_set_budget.  On EINTERRUPT and
 * EDATA (an index out of range, found before the first update) nothing has
 * changed. */
MRT_API mrt_status mrt_plan_run(mrt_plan *plan, mrt_tensor *const *in, int nin,
                                mrt_tensor **out, int nout);
MRT_API mrt_context *mrt_plan_context(const mrt_plan *plan);
/* Bytes of the plan itself, which no tensor has: what keeping it costs. */
MRT_API size_t mrt_plan_bytes(const mrt_plan *plan);
/* How often it ran since the random numbers last began. */
MRT_API uint64_t mrt_plan_runs(const mrt_plan *plan);
/* Swap out what is swapped between runs, allocate and compute what the plan
 * needs at all times, as its first run would. */
MRT_API mrt_status mrt_plan_start(mrt_plan *plan);
MRT_API void mrt_plan_free(mrt_plan *plan); /* NULL is fine */

/* Counts are of bytes unless they say more; known before the first run. */
typedef struct mrt_plan_info {
  size_t peak;       /* persistent + transient + outputs */
  size_t persistent; /* variables (weights, optimizer state) and constants */
  size_t transient;  /* the arena: activations, gradients, workspaces; slots */
  size_t slots;      /* of it: copies of the inputs, on a device that records
                        runs */
  size_t outputs;
  size_t lower_bound; /* largest sum of live bytes at any node + the rest */
  size_t inputs;      /* the caller's own arguments; not in peak */
  size_t swapped;     /* in the swap tier; not in peak */
  int inputs_count, outputs_count;
  int nodes_traced, nodes;            /* before and after optimisation */
  int nodes_after[MRT_REWRITE_COUNT]; /* after each rewrite that has a switch */
  int peak_step;                      /* where the live bytes are largest */
  double flops;
  size_t kept_peak; /* with a checkpoint policy: what the least order found
                              takes with all kept; 0: none was looked for */
  size_t compressed, compressed_to; /* bytes that a compress policy has packed
                                       for the backward pass; what they take */
  size_t working_set;      /* no recomputing does with less: what the largest
                              node needs at once + the rest */
  size_t order_free_bound; /* no order of these nodes does with less; beyond
                              20,000 nodes it is working_set */
  double seconds;          /* predicted, of one run */
  int unlinked;            /* collectives among its nodes that the device's
                              profile has no links for: `seconds` counts only
                              their traffic in memory */
  double stall;            /* of these, waiting for copies */
  size_t copied_out;       /* bytes to the swap tier in a run, */
  size_t copied_in;        /* and back */
  double wire;             /* bytes that this rank gives to others in a run */
  int collectives;
  /* of a device that has no kernel for some of its nodes: the CPU computes
   * them, from copies */
  int hosted;        /* nodes */
  size_t staging;    /* bytes of the host's memory for them; not in peak */
  size_t hosted_in;  /* bytes copied to the host in a run, */
  size_t hosted_out; /* and back */
} mrt_plan_info;
/* Cannot fail. */
MRT_API mrt_plan_info mrt_plan_get_info(const mrt_plan *plan);

/* ---- files of arrays -----------------------------------------------------
 *
 * A source is an open file with arrays in it: elements are read from the disk
 * when they are asked for.  EFILE: the file cannot be read or written, or has
 * become shorter; EDATA: what is in it is not what its format says. */

typedef struct mrt_source mrt_source;

/* The i-th format that can be read, NULL past the last; what such files' names
 * end in, "" where that is open; a line about it. */
MRT_API const char *mrt_format_name(int i, const char **ending,
                                    const char **doc);
/* Open a file of this format; everything but the elements is read and checked
 * now.  EVALUE: no such format. */
MRT_API mrt_status mrt_source_open(mrt_context *ctx, const char *path,
                                   const char *format, mrt_source **out);
MRT_API void mrt_source_free(mrt_source *source); /* NULL is fine */

typedef struct mrt_array_info {
  const char *name;
  const char *stored; /* its dtype as the format calls it; may be NULL */
  mrt_type type;      /* as it is read */
  bool readable;      /* a tensor can have this dtype; type.dtype makes sense */
} mrt_array_info;
/* Borrowed from the source, as are strings of metadata. */
MRT_API int mrt_source_count(const mrt_source *source);
MRT_API mrt_array_info mrt_source_get(const mrt_source *source, int i);
/* The i-th key of the file's metadata, NULL past the last (of GGUF: mrt/gguf.h). */
MRT_API const char *mrt_source_metadata(const mrt_source *source, int i,
                                        const char **value);

/* Read array i whole, as a new tensor; where the file has a checksum of it,
 * what is read is compared with that. */
MRT_API mrt_status mrt_source_read(mrt_source *source, int i, mrt_tensor **out);
/* Read n rows of array i, counted from 0, as a tensor [n, ...]; with `length`
 * not 0, `length` rows from each on, as [n, length, ...].  EVALUE for a row
 * that is not there.  Rows of safetensors are not compared with a checksum,
 * which would read the whole array. */
MRT_API mrt_status mrt_source_read_rows(mrt_source *source, int i,
                                        const int64_t *rows, int64_t n,
                                        int64_t length, mrt_tensor **out);
/* Read array i to compare it with its checksum, if there is one and it has not
 * been compared. */
MRT_API mrt_status mrt_source_verify(mrt_source *source, int i);
/* These rows will be read next, with the same arguments: a thread of the source
 * begins to, into at most 256 MiB at a time.  Does not wait, cannot fail; what
 * goes wrong, reading says. */
MRT_API void mrt_source_expect(mrt_source *source, int i, const int64_t *rows,
                               int64_t n, int64_t length);

/* A field of a table of text (format csv); zeroed before the first.  The text
 * is that of the file: within quotes, a quote is written twice. */
typedef struct mrt_field {
  const char *text; /* not terminated */
  size_t size;
  bool quoted;
  bool last; /* of its row */
  bool good; /* its quotes end */
  int column;
  int64_t row;
} mrt_field;
/* The next field, row by row from *at = 0 on; false past the last.  Arrays of
 * the source are the columns, named as the first row says. */
MRT_API bool mrt_source_next_field(const mrt_source *source, size_t *at,
                                   mrt_field *field);
/* Read n columns from row `first` on as f32[rows,n].  `missing` stands for
 * fields that are empty; NULL: they are refused, as is what is no number. */
MRT_API mrt_status mrt_source_numbers(mrt_source *source, const int *columns,
                                      int n, int64_t first,
                                      const double *missing, mrt_tensor **out);

typedef struct mrt_named {
  const char *name;
  mrt_tensor *tensor;
} mrt_named;

typedef struct mrt_text_pair {
  const char *key, *value;
} mrt_text_pair;

/* Write tensors to a file, which appears whole or not at all and is on the disk
 * when this returns.  They are computed one after the other.  Checksums go into
 * the metadata as "mrt.crc32", with "format" = "pt" unless there is one.
 *
 * Who may read the file that is replaced, may the new one.  A link stays: what
 * it names is replaced.  EFILE: also where there is a pipe, a device, a folder. */
MRT_API mrt_status mrt_save_safetensors(mrt_context *ctx, const char *path,
                                        const mrt_named *tensors, int n,
                                        const mrt_text_pair *metadata,
                                        int pairs);
/* The same of one tensor as npy, and of several as npz, `deflate`d or not.
 * bf16 is written as V2. */
MRT_API mrt_status mrt_save_npy(mrt_context *ctx, const char *path,
                                mrt_tensor *tensor);
MRT_API mrt_status mrt_save_npz(mrt_context *ctx, const char *path,
                                const mrt_named *tensors, int n, bool deflate);

/* Read a regular file whole into `text`, which has `room` bytes; *size tells how
 * many it has.  With `text` NULL nothing is read, and *size is room enough, as
 * long as it does not grow much meanwhile.  EFILE: what cannot be read, or is a
 * pipe, a device, a folder. */
MRT_API mrt_status mrt_file_read(mrt_context *ctx, const char *path, char *text,
                                 size_t room, size_t *size);
/* Write a file, which appears whole or not at all. */
MRT_API mrt_status mrt_file_write(mrt_context *ctx, const char *path,
                                  const char *text, size_t size);

#ifdef __cplusplus
}
#endif
#endif
