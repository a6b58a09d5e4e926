/* mrt.h -- the whole public C API of mrt, in the order one calls it
 *
 *     mrt_context *ctx;
 *     mrt_context_new(NULL, &ctx);
 *     ... mrt_tensor_from / mrt_variable_new        leaves
 *     ... mrt_apply(ctx, mrt_op_find("add"), ...)   lazy: shapes checked now
 *     ... mrt_grad(...)                             more lazy tensors
 *     ... mrt_eval(ctx, &y, 1)                      computed here
 *     mrt_context_free(ctx);
 *
 * A training step is traced once between mrt_trace_begin and mrt_trace_end,
 * which returns a plan: it says to the byte what a run takes, and mrt_plan_run
 * takes exactly that.
 *
 * Everything hangs on one context; a context and all that belongs to it is
 * used by one thread at a time.  Functions that can fail return a status; the
 * message is then in mrt_message(ctx), and arguments are unchanged.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_H
#define MRT_H

#include "mrt/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- context ------------------------------------------------------------- */

typedef struct mrt_context_options {
  const mrt_allocator *allocator; /* NULL: malloc; borrowed for good */
  int threads;                    /* 0: OMP_NUM_THREADS or all cores */
  const char *isa;                /* NULL: the best this processor has */
  bool poison;                    /* overwrite each value when it dies */
  size_t memory_limit;            /* bytes of tensors; 0: no limit */
  const char *device; /* NULL or "cpu"; "gpu:0": number 0 of libmrt_gpu.so */
  mrt_context *ranks; /* whose communicators it uses; it keeps that context.
                         NULL: its own */
  char *message;      /* gets the message of a failure; NULL: not wanted */
  size_t message_room;
} mrt_context_options;

/* All of a context's tensors are on its one device.  `options` may be NULL.
 * On failure *ctx is NULL: ENOMEM; EDEVICE and EVALUE for a device or an
 * instruction set that is not here. */
MRT_API mrt_status mrt_context_new(const mrt_context_options *options,
                                   mrt_context **ctx);
/* Names of the kinds of devices whose libraries, libmrt_<name>.so, lie beside
 * this one, the CPU not among them; false past the last. */
MRT_API bool mrt_device_kind(int i, char *name, size_t room);
/* Frees the context once its last tensor and plan are gone. */
MRT_API void mrt_context_free(mrt_context *ctx);
/* What the last failure was about; borrowed until the next call. */
MRT_API const char *mrt_message(const mrt_context *ctx);
/* After EBUDGET: bytes that would do, 0 where that is unknown. */
MRT_API size_t mrt_budget_needed(const mrt_context *ctx);
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
 * step that swaps makes it in $TMPDIR or /tmp.  It has no name and dies with the
 * process.  ESTATE when something is swapped already, EDEVICE when it cannot
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
  const char *libraries; /* "OpenMP" */
  size_t bytes_now;      /* tensor bytes requested from the device */
  size_t bytes_peak;
  size_t alignment;  /* what the device allocates is a multiple of it */
  size_t bytes_slow; /* of the slow tier */
  size_t bytes_host; /* of the host, for what the device has no kernels for */
  int devices;       /* of its kind that are here */
  bool queues;       /* plans return before they are done; reading waits */
} mrt_context_info;
MRT_API mrt_context_info mrt_context_get_info(const mrt_context *ctx);
/* Set bytes_peak back to bytes_now. */
MRT_API void mrt_context_reset_peak(mrt_context *ctx);

/* ---- operators ----------------------------------------------------------- */

/* ---- tensors ------------------------------------------------------------- */

/* A tensor of the given numbers (row-major, copied). */
MRT_API mrt_status mrt_tensor_from(mrt_context *ctx, const mrt_type *type,
                                   const void *data, mrt_tensor **out);
/* A variable: a tensor that can be assigned.  Its storage is made, and `init`
 * computed into it, when it is first needed; `name` is copied, may be NULL. */
MRT_API mrt_status mrt_variable_new(mrt_context *ctx, mrt_tensor *init,
                                    const char *name, mrt_tensor **out);
MRT_API bool mrt_tensor_is_variable(const mrt_tensor *t);
/* How often its numbers have been written: by steps, one each, or assigned. */
MRT_API uint64_t mrt_variable_writes(const mrt_tensor *variable);
MRT_API const char *mrt_tensor_name(const mrt_tensor *t); /* or NULL */
MRT_API mrt_status mrt_tensor_set_name(mrt_tensor *t, const char *name);
MRT_API const mrt_type *mrt_tensor_type(const mrt_tensor *t);
MRT_API mrt_context *mrt_tensor_context(const mrt_tensor *t);
/* Tells it from all others of the context; plans say it of variables. */
MRT_API uint64_t mrt_tensor_id(const mrt_tensor *t);
/* Where it was made: "train.lua", 12.  Never NULL. */
MRT_API const char *mrt_tensor_origin(const mrt_tensor *t, int *line);
MRT_API void mrt_tensor_ref(mrt_tensor *t);
MRT_API void mrt_tensor_unref(mrt_tensor *t); /* NULL is fine */
/* The numbers, row-major, after mrt_tensors_read; NULL while pending.  Borrowed until
 * the tensor is assigned, freed or left, or a plan runs that swaps it. */
MRT_API const void *mrt_tensor_data(const mrt_tensor *t);
/* Other numbers for a tensor that has some and that nobody else sees. */
MRT_API mrt_status mrt_tensor_write(mrt_tensor *t, const void *data);
/* The reader is done: numbers that mrt_tensors_read has brought to memory, of a
 * variable that is swapped or from a device, may leave it again. */
MRT_API void mrt_tensor_leave(mrt_tensor *t);
/* Element i as a double or an int64 (bool as 0 or 1); t is evaluated. */
MRT_API double mrt_tensor_number(const mrt_tensor *t, int64_t i);
MRT_API int64_t mrt_tensor_integer(const mrt_tensor *t, int64_t i);

/* Compute these tensors.  All or none: on failure none is evaluated. */
MRT_API mrt_status mrt_eval(mrt_context *ctx, mrt_tensor *const *t, int n);
/* The same, and bring their numbers to where we can read them. */
MRT_API mrt_status mrt_tensors_read(mrt_context *ctx, mrt_tensor *const *t,
                                    int n);

/* variable = value, where `when` (a bool scalar, NULL for always) is true.
 * Inside a trace it becomes an update of the plan; otherwise it happens now,
 * after pending tensors that read the old value have been computed. */
MRT_API mrt_status mrt_assign(mrt_context *ctx, mrt_tensor *variable,
                              mrt_tensor *value, mrt_tensor *when);
/* Store a variable's numbers in another float dtype from now on: rounded once,
 * after pending tensors that read them have been computed; what it begins as,
 * if it has not begun.  Plans that were made for the old dtype refuse to run.
 * On failure nothing has changed.  ESTATE inside a trace; EDTYPE. */
MRT_API mrt_status mrt_variable_convert(mrt_context *ctx, mrt_tensor *variable,
                                        mrt_dtype dtype);

/* ---- files of arrays -----------------------------------------------------
 *
 * A source is an open file with arrays in it, mapped into memory: numbers are
 * read from the disk when they are asked for.  EFILE: the file cannot be read
 * or written; EDATA: what is in it is not what its format says. */

typedef struct mrt_source mrt_source;

/* The i-th format that can be read, NULL past the last; what such files' names
 * end in, "" where that is open; a line about it. */
MRT_API const char *mrt_format_name(int i, const char **ending,
                                    const char **doc);
/* Open a file of this format; everything but the numbers is read and checked
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
/* The i-th key of the file's metadata, NULL past the last. */
MRT_API const char *mrt_source_metadata(const mrt_source *source, int i,
                                        const char **value);

/* Read array i whole, as a new tensor. */
MRT_API mrt_status mrt_source_read(mrt_source *source, int i, mrt_tensor **out);
/* Read n rows of array i, counted from 0, as a tensor [n, ...]; with `length`
 * not 0, so many rows from each on, as [n, length, ...]. */
MRT_API mrt_status mrt_source_read_rows(mrt_source *source, int i,
                                        const int64_t *rows, int64_t n,
                                        int64_t length, mrt_tensor **out);
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
 * when this returns.  They are computed one after the other. */
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

/* ---- byte-pair encoding -------------------------------------------------- */

/* GPT-2's way from text to tokens, with the vocabulary of two files as it has
 * them: vocab.json and merges.txt.  EFILE: a file cannot be read; EDATA: it is
 * no vocabulary, or a merge is of what is no token. */
typedef struct mrt_bpe mrt_bpe;
MRT_API mrt_status mrt_bpe_open(mrt_context *ctx, const char *vocab,
                                const char *merges, mrt_bpe **out);
MRT_API void mrt_bpe_free(mrt_bpe *bpe); /* NULL is fine */
MRT_API int mrt_bpe_count(const mrt_bpe *bpe);
/* The bytes that a token stands for, borrowed; NULL: there is no such. */
MRT_API const char *mrt_bpe_token(const mrt_bpe *bpe, int id, size_t *size);
/* Fill `ids`, which has room for `size`, and *count.  EVALUE when the
 * vocabulary lacks a byte of the text. */
MRT_API mrt_status mrt_bpe_encode(mrt_bpe *bpe, const char *text, size_t size,
                                  int32_t *ids, size_t *count);

/* ---- gradients ----------------------------------------------------------- */

/* dx[i] = sum over j of d ys[j] / d xs[i] * dys[j], as new lazy tensors.
 * dys may be NULL when every y is a scalar.  EGRAD when some x has no path to
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
/* A new input of the plan, in order. */
MRT_API mrt_status mrt_trace_input(mrt_context *ctx, const mrt_type *type,
                                   mrt_tensor **out);
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

typedef struct mrt_plan_options {
  /* Rewrites that are switched off, for study: bit i for the i-th of
   * mrt_plan_pass_name (1 << MRT_REWRITE_cse); the bits of results stay. */
  uint64_t off;
  bool no_inplace, no_share; /* memory schemes, for study */
  bool keep_order;           /* run in program order */
  int effort; /* how many times longer than usual an order is searched for,
                 1 .. MRT_MOST_EFFORT; 0: 1 */
  mrt_checkpoint_policy checkpoint; /* NULL: all OPEN */
  void *checkpoint_user;
  mrt_precision_policy precision; /* NULL: all as traced */
  void *precision_user;
  const mrt_delayed *delayed; /* borrowed for the call; NULL: none is */
  size_t memory; /* a budget for the peak, met by recomputing and swapping,
                    whichever is predicted quickest; 0: none */
  bool trap;     /* a run ends with EDATA where a NaN or an infinity is made; it
                    names the operator if nothing is fused */
  bool overflows; /* gradients may: trap nothing from their first node on */
  bool no_swap;   /* the planner swaps nothing of its own accord */
  bool quick;     /* EBUDGET without looking for a budget that would do */
  const mrt_batch *part; /* the plan of a part of the batch: its updates may be
                            left halfway, and it runs with mrt_plan_run_part */
  const mrt_swap_policy *swap; /* borrowed for the call; NULL: none is */
  /* This batch is one of `ranks` that make the whole one, for random numbers:
   * what has a multiple of `rows` rows draws as it would in that.  0: it is
   * whole. */
  int64_t rank, ranks, rows;
  int prefetch; /* so many gathers may be under way beside the computation, and
                   reductions while there is memory; 0: none is */
  bool spare; /* run so only where a rank has a core to spare; no other plan */
  const char *name;
  const mrt_measured *measured; /* instead of predictions, by rising key */
  int measured_count;
} mrt_plan_options;

/* Plan the trace: `outputs` are what a run returns.  `space` is the memory
 * that this plan shares with others (plans of one function); NULL makes one.
 * The trace ends whatever is returned. */
MRT_API mrt_status mrt_trace_end(mrt_context *ctx, mrt_tensor *const *outputs,
                                 int noutputs, const mrt_plan_options *options,
                                 mrt_space *space, mrt_plan **plan);

/* Run the plan.  Inputs have the traced types; outputs are new handles.  On
 * EINTERRUPT and EDATA (an index out of range, found before the first update)
 * nothing has changed. */
MRT_API mrt_status mrt_plan_run(mrt_plan *plan, mrt_tensor *const *in, int nin,
                                mrt_tensor **out, int nout);
MRT_API mrt_context *mrt_plan_context(const mrt_plan *plan);
/* How often it ran since the random numbers last began. */
MRT_API uint64_t mrt_plan_runs(const mrt_plan *plan);
/* Allocate and compute what the plan needs at all times, as its first run
 * would. */
MRT_API mrt_status mrt_plan_start(mrt_plan *plan);
MRT_API void mrt_plan_free(mrt_plan *plan); /* NULL is fine */

/* All bytes, known before the first run. */
typedef struct mrt_plan_info {
  size_t peak;       /* persistent + transient + outputs */
  size_t persistent; /* variables (weights, optimizer state) and constants */
  size_t transient;  /* the arena: activations, gradients, workspaces */
  size_t outputs;
  size_t lower_bound; /* largest sum of live bytes at any node + the rest */
  size_t inputs;      /* the caller's own arguments; not in peak */
  size_t slow;        /* in the slow tier; not in peak */
  int inputs_count, outputs_count;
  int nodes_traced, nodes;            /* before and after optimisation */
  int nodes_after[MRT_REWRITE_COUNT]; /* after each rewrite that has a switch */
  int peak_step;                      /* where the live bytes are largest */
  double flops;
  size_t working_set;      /* no recomputing does with less: what the largest
                              node needs at once + the rest */
  size_t order_free_bound; /* no order of these nodes does with less; beyond
                              20,000 nodes it is working_set */
  double seconds;          /* predicted, of one run */
  double stall;            /* of these, waiting for copies */
  double wire;             /* bytes that this rank gives to others in a run */
  int collectives;
  /* of a device that has no kernel for some of its nodes: the CPU computes
   * them, from copies */
  int hosted;        /* nodes */
  size_t staging;    /* bytes of the host's memory for them; not in peak */
  size_t hosted_in;  /* bytes copied to the host in a run, */
  size_t hosted_out; /* and back */
} mrt_plan_info;
MRT_API mrt_plan_info mrt_plan_get_info(const mrt_plan *plan);

#ifdef __cplusplus
}
#endif
#endif
