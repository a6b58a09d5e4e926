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

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MRT_VERSION "0.1.0"
#if defined(__GNUC__)
#define MRT_API __attribute__((visibility("default")))
#else
#define MRT_API
#endif

/* ---- status, element types, shapes --------------------------------------- */

typedef enum mrt_status {
  MRT_OK,
#define ERROR(name, text) MRT_##name,
#include "errors.def"
#undef ERROR
} mrt_status;

/* "shape", "dtype" ...; never NULL. */
MRT_API const char *mrt_status_name(mrt_status status);
MRT_API const char *mrt_version(void);

typedef enum mrt_dtype {
#define DTYPE(name, ...) MRT_##name,
#include "dtypes.def"
#undef DTYPE
  MRT_DTYPE_COUNT
} mrt_dtype;

enum { MRT_MAX_RANK = 8 };

/* What a tensor is before it has numbers.  The last dimension is contiguous.
 * dims of a checked type multiply to bytes that fit in 62 bits. */
typedef struct mrt_type {
  mrt_dtype dtype;
  int rank; /* 0 is a scalar */
  int64_t dims[MRT_MAX_RANK];
} mrt_type;

typedef struct mrt_dtype_info {
  const char *name;
  size_t bytes;
  bool floating, narrow;  /* narrow: a float of 16 or 8 bits */
  int exponent, fraction; /* bits of a float */
  double largest;         /* finite number */
} mrt_dtype_info;

MRT_API mrt_dtype_info mrt_dtype_get_info(mrt_dtype dtype);
MRT_API const char *mrt_dtype_name(mrt_dtype dtype);
/* MRT_DTYPE_COUNT when there is no such name. */
MRT_API mrt_dtype mrt_dtype_find(const char *name);
MRT_API int64_t mrt_type_count(const mrt_type *type);
MRT_API size_t mrt_type_bytes(const mrt_type *type);
/* "f32[2,3]" into `text`, cut to `size`. */
MRT_API void mrt_type_print(const mrt_type *type, char *text, size_t size);

/* ---- devices ------------------------------------------------------------- */

/* What kind of work an operator is. */
typedef enum mrt_cost {
#define COST(name, doc) MRT_COST_##name,
#include "costs.def"
#undef COST
  MRT_COST_COUNT
} mrt_cost;

/* "matmul" ...; NULL past the last. */
MRT_API const char *mrt_cost_name(int kind);

/* How fast a device is and what it holds: all that predicted times depend on.
 * Seconds, bytes, bytes a second, flop a second. */
typedef struct mrt_device_profile {
  char name[64];
  size_t align;    /* of every offset: a power of two */
  size_t capacity; /* of its memory; 0: unknown */
  size_t overhead; /* of it, what its driver and libraries take; budgets leave
                      it to them */
  int threads;     /* that the figures are for */
  double launch;   /* seconds for any node, and `call` for a run */
  double call;
  double serial; /* work of so many seconds or less is done by one thread */
  /* flop/s of large products; 0: see f32 */
  double matrix[MRT_DTYPE_COUNT];
  /* flop/s of work in f32, as rows count it; that of products in another dtype
   * is in proportion to `matrix`. */
  double rate[MRT_COST_COUNT];
  /* A product of m, n, k takes the time of one of m + edge[kind][0],
   * n + edge[kind][1], k + edge[kind][2]: tiles half full, packing. */
  double edge[MRT_COST_COUNT][3];
  bool epilogues; /* its products compute the GELU of their sum, which rounds
                     otherwise than GELU of the product */
  double cache;   /* bytes that come again at cache_bandwidth */
  double cache_bandwidth, bandwidth;
  double slow_capacity, slow_read, slow_write, slow_latency; /* slow tier */
} mrt_device_profile;

/* ---- context ------------------------------------------------------------- */

/* realloc in one function: new_size 0 frees and returns NULL; a NULL result
 * for new_size > 0 is a failure that leaves `block` as it was. */
typedef struct mrt_allocator {
  void *(*resize)(void *user, void *block, size_t old_size, size_t new_size);
  void *user;
} mrt_allocator;

typedef struct mrt_context mrt_context;
typedef struct mrt_tensor mrt_tensor;
typedef struct mrt_op mrt_op;
typedef struct mrt_plan mrt_plan;
typedef struct mrt_space mrt_space;

typedef struct mrt_context_options {
  const mrt_allocator *allocator; /* NULL: malloc; borrowed for good */
  int threads;                    /* 0: OMP_NUM_THREADS or all cores */
  const char *isa;                /* NULL: the best this processor has */
  bool poison;                    /* overwrite each value when it dies */
  size_t memory_limit;            /* bytes of tensors; 0: no limit */
  const char *device; /* NULL or "cpu"; "cuda:0" where the plug-in is */
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
/* Frees the context once its last tensor and plan are gone. */
MRT_API void mrt_context_free(mrt_context *ctx);
/* What the last failure was about; borrowed until the next call. */
MRT_API const char *mrt_message(const mrt_context *ctx);
/* After EBUDGET: bytes that would do, 0 where that is unknown. */
MRT_API size_t mrt_needed(const mrt_context *ctx);
MRT_API void mrt_set_poison(mrt_context *ctx, bool poison);
/* From now on a plan of more bytes is refused when it is to run (EBUDGET);
 * 0: none is. */
MRT_API void mrt_set_budget(mrt_context *ctx, size_t bytes);
/* Ask the running step to stop at the next node before its first update; safe
 * in a signal handler.  The run returns EINTERRUPT with no state changed.
 * Contexts that share ranks (mrt_context_options) share interrupts too. */
MRT_API void mrt_interrupt(mrt_context *ctx);
/* Forget an interrupt that no run has acted on; true if there was one. */
MRT_API bool mrt_interrupt_clear(mrt_context *ctx);
/* The device that plans are made for: at first this one, with declared figures
 * that depend on instruction set and threads alone. */
MRT_API const mrt_device_profile *mrt_get_device(const mrt_context *ctx);
/* Make plans for another, measured or absent, from now on; copied.  NULL: this
 * one as declared.  EVALUE, with the field, when a figure makes no sense. */
MRT_API mrt_status mrt_set_device(mrt_context *ctx,
                                  const mrt_device_profile *device);
/* Whether the context's own device can compute `op`; views need no kernel. */
MRT_API bool mrt_has_kernel(const mrt_context *ctx, const mrt_op *op);
/* Bytes that this process can still get; 0: unknown. */
MRT_API size_t mrt_available(const mrt_context *ctx);
/* Bytes of the device that are in use and were not requested for tensors: what
 * its driver and libraries (and other processes) hold now; 0 on the CPU. */
MRT_API size_t mrt_overhead(const mrt_context *ctx);
/* A run that must get more than is available is refused before it begins
 * (ENOMEM): from now on so many bytes, instead of asking the device; 0: ask;
 * SIZE_MAX: nothing is refused. */
MRT_API void mrt_set_available(mrt_context *ctx, size_t bytes);
/* Make the file that values are swapped to in this folder; by default the first
 * step that swaps makes it in $TMPDIR or /tmp.  It has no name and dies with the
 * process.  ESTATE when something is swapped already, EDEVICE when it cannot
 * be: the one before then stays. */
MRT_API mrt_status mrt_set_swap_folder(mrt_context *ctx, const char *path);
/* Bytes per second of copies to and from the slow tier. */
typedef struct mrt_slow_rates {
  double latency; /* seconds of a small copy */
  double out, in;
  double out_shared, in_shared; /* while the other direction is busy too */
} mrt_slow_rates;
/* Measure them by copying about `nbytes` each way, alone and together. */
MRT_API mrt_status mrt_measure_slow(mrt_context *ctx, size_t nbytes,
                                    mrt_slow_rates *rates);
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
  const char *device; /* "cpu", "cuda:0" */
  const char *isa;
  int threads;
  const char *libraries; /* "OpenMP" */
  size_t bytes_now;      /* tensor bytes requested from the device */
  size_t bytes_peak;
  size_t alignment;  /* what the device allocates is a multiple of it */
  size_t bytes_slow; /* of the slow tier */
  bool queues;       /* plans return before they are done; reading waits */
} mrt_context_info;
MRT_API mrt_context_info mrt_context_get_info(const mrt_context *ctx);
/* Set bytes_peak back to bytes_now. */
MRT_API void mrt_context_reset_peak(mrt_context *ctx);

/* Where the next nodes come from, for errors and reports.  `file` is copied;
 * on failure (out of memory) nodes say "?". */
MRT_API void mrt_at(mrt_context *ctx, const char *file, int line);

/* ---- operators ----------------------------------------------------------- */

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

typedef struct mrt_ints {
  int count;
  int64_t at[MRT_MAX_RANK];
} mrt_ints;

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
  bool differentiable; /* has a gradient */
  bool random;         /* draws numbers */
  bool collective;     /* all ranks of a communicator compute it together */
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
/* The numbers, row-major, after mrt_read; NULL while pending.  Borrowed until
 * the tensor is assigned, freed or left, or a plan runs that swaps it. */
MRT_API const void *mrt_tensor_data(const mrt_tensor *t);
/* Other numbers for a tensor that has some and that nobody else sees. */
MRT_API mrt_status mrt_tensor_write(mrt_tensor *t, const void *data);
/* The reader is done: numbers that mrt_read has brought to memory, of a
 * variable that is swapped or from a device, may leave it again. */
MRT_API void mrt_tensor_leave(mrt_tensor *t);
/* Element i as a double or an int64 (bool as 0 or 1); t is evaluated. */
MRT_API double mrt_tensor_number(const mrt_tensor *t, int64_t i);
MRT_API int64_t mrt_tensor_integer(const mrt_tensor *t, int64_t i);

/* Compute these tensors.  All or none: on failure none is evaluated. */
MRT_API mrt_status mrt_eval(mrt_context *ctx, mrt_tensor *const *t, int n);
/* The same, and bring their numbers to where we can read them. */
MRT_API mrt_status mrt_read(mrt_context *ctx, mrt_tensor *const *t, int n);

/* variable = value, where `when` (a bool scalar, NULL for always) is true.
 * Inside a trace it becomes an update of the plan; otherwise it happens now,
 * after pending tensors that read the old value have been computed. */
MRT_API mrt_status mrt_assign(mrt_context *ctx, mrt_tensor *variable,
                              mrt_tensor *value, mrt_tensor *when);
/* Apply an operator with `updates` (adamw, ...): its leading inputs are
 * variables and are overwritten.  Now, or in the trace. */
MRT_API mrt_status mrt_update(mrt_context *ctx, const mrt_op *op,
                              mrt_tensor *const *in, int nin,
                              const void *options);
/* Store a variable's numbers in another float dtype from now on: rounded once,
 * after pending tensors that read them have been computed; what it begins as,
 * if it has not begun.  Plans that were made for the old dtype refuse to run.
 * On failure nothing has changed.  ESTATE inside a trace; EDTYPE. */
MRT_API mrt_status mrt_variable_convert(mrt_context *ctx, mrt_tensor *variable,
                                        mrt_dtype dtype);

/* ---- ranks that compute together -----------------------------------------
 *
 * The operators allreduce, reduce_scatter, allgather, broadcast, send and recv
 * have an option `comm`: a communicator's number in its context or that of
 * mrt_context_options.ranks.  All of its ranks must call the same ones in the
 * same order.  Those of a trace become nodes of its plan, whoever reads them;
 * those applied outside wait for mrt_communicate.  Ranks count from 0. */

typedef struct mrt_communicator mrt_communicator;
/* The context takes a communicator over and closes it at its end, or at once on
 * failure; no number is given twice. */
MRT_API mrt_status mrt_communicator_add(mrt_context *ctx,
                                        mrt_communicator *comm, int *number);
/* One rank that plans alone: of a single one every collective is the identity;
 * of more, the others are taken to hold what this one does.  EVALUE. */
MRT_API mrt_status mrt_communicator_alone(mrt_context *ctx, int rank, int size,
                                          int *number);
typedef struct mrt_communicator_info {
  int rank, size;
  const char *transport;
  double timeout; /* seconds that a rank is waited for */
  uint64_t sent;  /* bytes that this rank gave to others */
} mrt_communicator_info;
/* Communicators of `size` ranks that are threads of this process, each with a
 * context of its own: out[rank].  `timeout`: seconds; 0: 30. */
MRT_API mrt_status mrt_communicator_threads(mrt_context *ctx, int size,
                                            double timeout,
                                            mrt_communicator **out);
/* Where ranks that are processes meet: rank 0 listens there. */
typedef struct mrt_rendezvous {
  int rank, size;
  const char *address; /* a name or a number */
  int port;
  const char *token; /* what only the ranks of this run know; below 64 bytes */
  double timeout;    /* seconds that a rank is waited for */
  /* "shared": all are on one host; "sockets"; "mpi": by MPI alone, the address
   * is not looked at; NULL or "": shared memory on one host, else sockets. */
  const char *transport;
  const char *algorithm; /* of sockets and mpi: "pairwise" (or NULL), "ring" */
} mrt_rendezvous;
/* Meet the others, and share memory or exchange messages with them: a
 * collective.  Alone nothing is opened.  EVALUE: the address or port cannot be
 * had, no such transport or algorithm; ERANK: somebody did not come, does not
 * fit (another size, build, transport, a rank twice): told to all. */
MRT_API mrt_status mrt_communicator_join(mrt_context *ctx,
                                         const mrt_rendezvous *meeting,
                                         int *number);
/* EVALUE: no such number; ESTATE: it is closed. */
MRT_API mrt_status mrt_communicator_get(mrt_context *ctx, int number,
                                        mrt_communicator_info *info);
/* All ranks call it: those of one color form a new communicator, by rising key,
 * then rank.  A negative color: in none, *part is -1. */
MRT_API mrt_status mrt_communicator_split(mrt_context *ctx, int number,
                                          int color, int key, int *part);
/* "broadcast", "send", "recv" of bytes, or a "barrier", now.  `peer` is the root
 * or the other rank. */
MRT_API mrt_status mrt_communicator_bytes(mrt_context *ctx, int number,
                                          const char *kind, int peer,
                                          void *data, size_t nbytes);
/* All ranks fail from now on, with this text and our rank. */
MRT_API mrt_status mrt_communicator_abort(mrt_context *ctx, int number,
                                          const char *why);
/* The script of this process: when ranks plan different collectives they say
 * whether they run different scripts too. */
MRT_API void mrt_set_script(mrt_context *ctx, const char *text, size_t size);
/* Plans that need it fail from now on (ESTATE). */
MRT_API mrt_status mrt_communicator_close(mrt_context *ctx, int number);
/* Compute the collectives applied outside traces since the last time, gradients'
 * included, in the order of the program; nothing inside a trace.  ERANK: another
 * rank has died, stalled or called something else.  After ENOMEM they can be
 * tried again, or given up. */
MRT_API mrt_status mrt_communicate(mrt_context *ctx);
MRT_API void mrt_communicate_not(mrt_context *ctx);

/* Variables in pieces on the ranks.  A bucket is a vector variable; all ranks'
 * buckets, one behind the other, hold the numbers of its parts. */

/* What a variable begins as, as a new handle; itself, once it has begun. */
MRT_API mrt_status mrt_variable_begins(mrt_tensor *variable, mrt_tensor **out);
/* The numbers of `part` are from now on those of `bucket` from element `offset`
 * on, counted over the ranks of communicator `comm`; its own memory is given
 * back, after pending tensors that read it have been computed.  Plans that read
 * it gather the bucket, so all ranks must; with `again` once more for the
 * backward pass.  Who looks at it gets a copy that stays until the bucket is
 * written.  Assigning it
 * writes the bucket, in a trace only what is read from there on: all ranks assign
 * the same numbers.  A bucket's parts must not overlap.
 * On failure nothing has changed.  ESTATE inside a trace, or it has a bucket;
 * EDTYPE, ESHAPE: it does not fit. */
MRT_API mrt_status mrt_variable_shard(mrt_context *ctx, mrt_tensor *part,
                                      mrt_tensor *bucket, int comm,
                                      int64_t offset, bool again);

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

/* d y / d xs[i] for a scalar y; NULL where it does not depend on it.
 * `apart`: the xs count as independent, also of each other. */
MRT_API mrt_status mrt_derive(mrt_context *ctx, mrt_tensor *y,
                              mrt_tensor *const *xs, int nx, bool apart,
                              mrt_tensor **dx);

/* A tensor equal to `y` whose gradient is what `backward` returns: called
 * with the gradient of y while mrt_grad builds, it fills dx[nx] with tensors
 * (one handle each, taken) or NULL.  `release` is called once when the node
 * dies, also when this function fails. */
typedef mrt_status (*mrt_backward)(void *user, mrt_tensor *dy, mrt_tensor **dx);
MRT_API mrt_status mrt_custom(mrt_context *ctx, mrt_tensor *y,
                              mrt_tensor *const *xs, int nx,
                              mrt_backward backward, void (*release)(void *),
                              void *user, mrt_tensor **out);

/* ---- traces and plans ---------------------------------------------------- */

/* Until mrt_trace_end or mrt_trace_abort, assignments are recorded instead of
 * done and evaluating is refused (ESTATE).  Traces do not nest. */
MRT_API mrt_status mrt_trace_begin(mrt_context *ctx);
/* The same for a plan that is to take the place of `old`: it draws the random
 * numbers that the old one would have drawn next.  Borrows `old` until the
 * trace ends. */
MRT_API mrt_status mrt_trace_again(mrt_context *ctx, const mrt_plan *old);
MRT_API bool mrt_tracing(const mrt_context *ctx);
/* A new input of the plan, in order. */
MRT_API mrt_status mrt_trace_input(mrt_context *ctx, const mrt_type *type,
                                   mrt_tensor **out);
MRT_API void mrt_trace_abort(mrt_context *ctx);

/* What `t` is at this place of the trace: a variable's newest version, borrowed;
 * else `t` itself. */
MRT_API mrt_tensor *mrt_tensor_current(mrt_tensor *t);

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
/* Plans of the trace read `variable` where they would compute `t`. */
MRT_API mrt_status mrt_trace_replace(mrt_context *ctx, mrt_tensor *t,
                                     mrt_tensor *variable);

/* What is made until the matching end belongs to one more layer of the network.
 * False, with nothing begun, inside another layer.  Policies see layers. */
MRT_API bool mrt_layer_begin(mrt_context *ctx);
MRT_API void mrt_layer_end(mrt_context *ctx);
/* What is made until the matching end is recomputed for the backward pass from
 * what the region reads.  Regions nest; begin returns what end wants. */
MRT_API int mrt_region_begin(mrt_context *ctx);
MRT_API void mrt_region_end(mrt_context *ctx, int outer);

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
  const char *op, *name; /* name may be NULL */
  const char *file;
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
typedef struct mrt_checkpoint {
  mrt_activation *activations;
  int count, layers;
  const char **variables; /* names of variables: never asked about */
  int variable_count;
  size_t saved;      /* bytes that the backward pass reads, all kept */
  size_t kept;       /* to answer; SIZE_MAX: no such budget */
  bool no_recompute; /* to answer: OPEN ones are never computed again */
} mrt_checkpoint;
typedef mrt_status (*mrt_checkpoint_policy)(void *user, mrt_checkpoint *c);

/* A node that computes floats: what a precision policy is asked about.
 * MRT_DTYPE_COUNT as an answer leaves f32. */
typedef struct mrt_computation {
  const char *op;    /* the operator */
  const char *name;  /* of its first result, or NULL */
  const char *cost;  /* kind of work: mrt_cost_name */
  const char *width; /* "narrow": gains by narrow inputs; "wide": loses range or
                        sums many terms; "follow": neither */
  const char *file;
  int line, layer;
  bool backward; /* part of the gradient */
  mrt_type type; /* of its first result */
  double flops;
  /* to answer: */
  mrt_dtype compute;  /* what its inputs are rounded to; sums are in f32 */
  bool scaled;        /* of products: inputs are scaled to fit that dtype, by
                        what is largest in them */
  mrt_dtype gradient; /* if scaled, instead of `compute` for inputs that are
                         gradients */
  mrt_dtype output;   /* of its results; COUNT: as compute, where something
                        narrow comes of them */
} mrt_computation;

/* A precision policy: answers all nodes at once, in the traced order. */
typedef struct mrt_precision {
  mrt_computation *nodes;
  int count;
  mrt_dtype keep; /* to answer: what the backward pass reads of the forward
                     pass is kept so, but for statistics */
} mrt_precision;
typedef mrt_status (*mrt_precision_policy)(void *user, mrt_precision *p);

/* A value that products read scaled to fit `dtype`. */
typedef struct mrt_site {
  const char *op;   /* what made it; "variable", "input" or "constant" */
  const char *name; /* or NULL */
  const char *file;
  int line, layer;
  bool backward;
  mrt_type type;
  mrt_dtype dtype;
} mrt_site;

/* Scales that the program knows before a run, one a site, instead of those of
 * what is largest in it then.  Sites are numbered in the traced order.  Both are
 * variables f32[sites]: `scale` is read; what reads `amax` reads instead the
 * largest magnitude at each site of this plan, if it has any. */
typedef struct mrt_delayed {
  mrt_tensor *scale, *amax; /* NULL: not made yet, as long as there are sites */
  /* Told once, while planning; a failure, as it must be where the variables are
   * not of this size, fails the plan, and its message is the host's. */
  mrt_status (*sites)(void *user, const mrt_site *sites, int count);
  void *user;
} mrt_delayed;

/* Keys of what is measured beside nodes; the nodes' own are those of
 * mrt_plan_step_key. */
enum {
  MRT_MEASURED_CALL,    /* a run beside its nodes */
  MRT_MEASURED_LATENCY, /* a copy to or from the slow tier beside its bytes */
  MRT_MEASURED_OUT,     /* a byte out; with both lanes busy */
  MRT_MEASURED_OUT_SHARED,
  MRT_MEASURED_IN, /* a byte in */
  MRT_MEASURED_IN_SHARED
};
/* Seconds that each node of this key took. */
typedef struct mrt_measured {
  uint64_t key;
  double seconds;
} mrt_measured;

/* A variable that a plan reads, for a swap policy to judge. */
typedef struct mrt_variable_info {
  const char *name; /* may be NULL */
  const char *file;
  int line;
  mrt_type type;
  size_t bytes;
  bool weight;     /* a result or a gradient depends on it; or else only
                      updates do: optimizer state */
  int first, last; /* steps that use it, before copies are added */
} mrt_variable_info;

/* Which variables live in the slow tier between their uses?  Asked once for
 * each while planning.  A failure of `choose` fails the plan; its message is
 * the host's. */
typedef struct mrt_swap_policy {
  mrt_status (*choose)(void *user, const mrt_variable_info *v, bool *swap);
  void *user;
} mrt_swap_policy;

enum { MRT_MOST_EFFORT = 1000 };

typedef struct mrt_batch mrt_batch; /* see below */

typedef struct mrt_plan_options {
  /* graph optimisation; each can be switched off for study */
  bool no_cse, no_fold, no_dead, no_identities, no_lookups, no_permutes;
  bool no_epilogues, no_fuse;
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

/* The same, and the trace goes on. */
MRT_API mrt_status mrt_trace_plan(mrt_context *ctx, mrt_tensor *const *outputs,
                                  int noutputs, const mrt_plan_options *options,
                                  mrt_space *space, mrt_plan **plan);

/* An arena that several plans use in turn, as large as the largest needs. */
MRT_API mrt_status mrt_space_new(mrt_context *ctx, mrt_space **space);
MRT_API void mrt_space_free(mrt_space *space); /* NULL is fine */

/* Run the plan.  Inputs have the traced types; outputs are new handles.  On
 * EINTERRUPT and EDATA (an index out of range, found before the first update)
 * nothing has changed. */
MRT_API mrt_status mrt_plan_run(mrt_plan *plan, mrt_tensor *const *in, int nin,
                                mrt_tensor **out, int nout);
MRT_API mrt_context *mrt_plan_context(const mrt_plan *plan);
/* How often it ran since the random numbers last began. */
MRT_API uint64_t mrt_plan_runs(const mrt_plan *plan);
/* False once a variable it reads has another dtype than it was made for. */
MRT_API bool mrt_plan_fits(const mrt_plan *plan);
/* Allocate and compute what the plan needs at all times, as its first run
 * would. */
MRT_API mrt_status mrt_plan_start(mrt_plan *plan);
MRT_API void mrt_plan_free(mrt_plan *plan); /* NULL is fine */

/* Which part of a batch a run is about, and which run it counts as. */
typedef struct mrt_part {
  int64_t row, rows; /* it begins at row `row` of `rows`; 0 of 0: all of it */
  uint64_t run;      /* what mrt_plan_runs would have been */
} mrt_part;

/* Run a plan over a part: of inputs that are longer in their first dimension
 * than the plan's, the part's rows are read where they lie.  Outputs that are
 * as long as the part are written to their rows of `out`, which the part with
 * row 0 makes and the others are given. */
MRT_API mrt_status mrt_plan_run_part(mrt_plan *plan, const mrt_part *part,
                                     mrt_tensor *const *in, int nin,
                                     mrt_tensor **out, int nout);

/* The sizes of numbers: exponents[i] counts those from 2^e on, below 2^(e + 1),
 * for e = MRT_LEAST_EXPONENT + i; the first and the last all beyond. */
enum { MRT_LEAST_EXPONENT = -150, MRT_EXPONENTS = 280 };
typedef struct mrt_range {
  int64_t count, zeros, nans, infinities;
  double largest; /* finite |x| */
  int64_t exponents[MRT_EXPONENTS];
} mrt_range;

/* Run the plan once and add what each node writes to ranges[nodes].  Variables
 * and random numbers are afterwards as they were, as with mrt_plan_measure. */
MRT_API mrt_status mrt_plan_watch(mrt_plan *plan, mrt_tensor *const *in,
                                  int nin, mrt_range *ranges);

/* Run the plan once and then `rounds` times with a clock at every node: fills
 * seconds[nodes] and *total, of a run, with medians.  `part` is NULL for a plan
 * of a whole batch.  `clock` tells seconds; NULL: the device's, of real time.
 * Variables and random numbers are afterwards as they were, whatever is
 * returned; that takes a copy of what the plan updates. */
MRT_API mrt_status mrt_plan_measure(mrt_plan *plan, const mrt_part *part,
                                    mrt_tensor *const *in, int nin, int rounds,
                                    double (*clock)(void), double *seconds,
                                    double *total);
/* Nodes of one key do the same work: operator, types and options are equal. */
MRT_API uint64_t mrt_plan_step_key(const mrt_plan *plan, int i);

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
  int nodes_traced, nodes; /* before and after optimisation */
  int nodes_after[8];      /* after each optimisation, see pass names */
  int peak_step;           /* where the live bytes are largest */
  double flops;
  size_t working_set;      /* no recomputing does with less: what the largest
                              node needs at once + the rest */
  size_t order_free_bound; /* no order of these nodes does with less; beyond
                              20,000 nodes it is working_set */
  double seconds;          /* predicted, of one run */
  double stall;            /* of these, waiting for copies */
  double wire;             /* bytes that this rank gives to others in a run */
  int collectives;
} mrt_plan_info;
MRT_API mrt_plan_info mrt_plan_get_info(const mrt_plan *plan);
/* What the plan was made for; lives as long as the plan. */
MRT_API const mrt_device_profile *mrt_plan_get_device(const mrt_plan *plan);
/* The i-th optimisation's name, NULL past the last. */
MRT_API const char *mrt_plan_pass_name(int i);

/* One node of the plan in executing order. */
typedef struct mrt_step_info {
  const char *op;
  const char *file;
  int line;
  int layer;        /* of the network, 1, 2, ..; 0: in none */
  bool backward;    /* made by mrt_grad */
  bool recomputed;  /* a second run of a forward node */
  const char *cost; /* kind of work */
  double flops, bytes;
  double seconds; /* predicted */
  size_t live;    /* transient bytes alive while it runs, workspace included */
} mrt_step_info;
MRT_API mrt_step_info mrt_plan_get_step(const mrt_plan *plan, int i);

typedef enum mrt_value_kind {
  MRT_VALUE_INPUT,
  MRT_VALUE_VARIABLE,
  MRT_VALUE_CONSTANT,
  MRT_VALUE_ACTIVATION, /* forward */
  MRT_VALUE_GRADIENT,   /* backward */
  MRT_VALUE_WORKSPACE,
  MRT_VALUE_OUTPUT,
  MRT_VALUE_SWAPPED /* in the slow tier: a variable's home, or a value that
                       left the arena for a while */
} mrt_value_kind;

/* One block of memory of the plan: a value and what shares its place. */
typedef struct mrt_value_info {
  mrt_value_kind kind;
  const char *op, *name; /* name may be NULL */
  const char *cost;      /* kind of work of the operator; NULL: a leaf */
  const char *file;
  int line;
  mrt_type type;
  size_t bytes, offset; /* offset in the arena (transient kinds) */
  int first, last;      /* steps, both included */
  uint64_t id;          /* of a variable or constant: the same in other plans */
} mrt_value_info;
MRT_API int mrt_plan_value_count(const mrt_plan *plan);
MRT_API mrt_value_info mrt_plan_get_value(const mrt_plan *plan, int i);

/* What a step touches: what it reads, what it writes, then its workspace. */
typedef struct mrt_operand_info {
  int value;         /* which block of memory; -1 past the last operand */
  bool written;      /* or else read */
  bool overwritable; /* the operator could leave its result in this input */
} mrt_operand_info;
MRT_API mrt_operand_info mrt_plan_get_operand(const mrt_plan *plan, int step,
                                              int i);

/* A copy between the arena and the slow tier, beside the steps between. */
typedef struct mrt_transfer_info {
  bool out;       /* or else in */
  int fast, slow; /* values: the block in the arena, the one behind */
  size_t bytes;
  int start, wait; /* steps */
  double seconds;  /* predicted: of the copy alone, */
  double beside;   /* of the steps between, */
  double stall;    /* and spent waiting for it */
} mrt_transfer_info;
MRT_API int mrt_plan_transfer_count(const mrt_plan *plan);
MRT_API mrt_transfer_info mrt_plan_get_transfer(const mrt_plan *plan, int i);
/* Seconds that one run will wait for copies, with other figures than the
 * plan's own where they are given: seconds of each step without waiting, rates
 * of copies.  Fills stalls[], by transfer, unless it is NULL. */
MRT_API mrt_status mrt_plan_predict_stall(const mrt_plan *plan,
                                          const double *seconds,
                                          const mrt_slow_rates *rates,
                                          double *stalls, double *total);
/* Seconds that the last run spent waiting for copies. */
MRT_API double mrt_plan_stalled(const mrt_plan *plan);
/* Print the planned graph, one node a line, into a new string from the
 * context's allocator; free it with mrt_text_free. */
MRT_API mrt_status mrt_plan_print(const mrt_plan *plan, char **text);
MRT_API void mrt_text_free(mrt_context *ctx, char *text);

/* ---- a plan's graph, stage by stage -------------------------------------- */

/* The stages in order: "differentiated" (as traced, gradients included), each
 * pass that follows, "planned".  NULL past the last. */
MRT_API const char *mrt_stage_name(int i);
/* The graph of a traced plan after its i-th stage: it is planned again up to
 * there.  Borrows the plan; free the stage first. */
typedef struct mrt_stage mrt_stage;
MRT_API mrt_status mrt_stage_new(const mrt_plan *plan, int i, mrt_stage **out);
MRT_API void mrt_stage_free(mrt_stage *stage); /* NULL is fine */

/* Nodes stand in the order of the program or, after the pass `order`, in
 * executing order. */
typedef struct mrt_node_info {
  const char *op, *file;
  int line;
  bool backward, recomputed; /* as in mrt_step_info */
  int nin, nout, updates;    /* inputs, outputs; how many of the first inputs
                                the first outputs overwrite */
} mrt_node_info;
MRT_API int mrt_stage_node_count(const mrt_stage *stage);
MRT_API mrt_node_info mrt_stage_get_node(const mrt_stage *stage, int i);
/* Which value: inputs first, then outputs; -1 past the last.  A value keeps
 * its number from stage to stage. */
MRT_API int mrt_stage_get_operand(const mrt_stage *stage, int node, int i);

/* The value that is the plan's i-th output; -1 past the last. */
MRT_API int mrt_stage_get_output(const mrt_stage *stage, int i);

typedef struct mrt_graph_value_info {
  mrt_value_kind kind;
  const char *name; /* may be NULL */
  mrt_type type;
  size_t bytes;
  int block;    /* of memory, for mrt_plan_get_value; -1: none, or not yet */
  int original; /* of what is recomputed: the value made first; else -1 */
} mrt_graph_value_info;
MRT_API int mrt_stage_value_count(const mrt_stage *stage);
MRT_API mrt_graph_value_info mrt_stage_get_value(const mrt_stage *stage, int i);
/* As mrt_plan_print. */
MRT_API mrt_status mrt_stage_print(const mrt_stage *stage, char **text);

/* ---- micro-batches -------------------------------------------------------
 *
 * A function traced over a part of the batch (a section of the trace) and then
 * over all of it (what the trace records now) tells which of its values can be
 * had part by part. */

typedef enum mrt_spread_kind {
  MRT_ALIKE, /* does not depend on the rows */
  MRT_ROWS,  /* each row's own share, from that row alone */
  MRT_TOTAL, /* the sum of what the parts have */
  MRT_MIXED  /* neither: needs the whole batch, or totals over it */
} mrt_spread_kind;

/* `degree` d: the value for all N rows has the factor N^d where a part of n has
 * n^d (a mean over the batch is a TOTAL of degree -1). */
typedef struct mrt_spread {
  mrt_spread_kind kind;
  int degree;
  int64_t outer; /* ROWS: elements before the batch, in row-major order */
} mrt_spread;

/* `section` is over `part` of `all` rows.  `statistics`: totals over a part
 * may stand for totals over all where rows read them. */
MRT_API mrt_status mrt_batch_new(mrt_context *ctx, int section, int64_t all,
                                 int64_t part, bool statistics,
                                 mrt_batch **batch);
MRT_API void mrt_batch_free(mrt_batch *batch); /* NULL is fine */
/* This is how `micro` spreads, however it is computed. */
MRT_API mrt_status mrt_batch_mark(mrt_batch *batch, mrt_tensor *whole,
                                  mrt_tensor *micro, mrt_spread spread);
/* How a value spreads that is `whole` over all rows and `micro` over the part.
 * EVALUE: the two are not computed alike; ESTATE: the trace is over. */
MRT_API mrt_status mrt_batch_spread(mrt_batch *batch, mrt_tensor *whole,
                                    mrt_tensor *micro, mrt_spread *spread);

/* A value that others are computed from. */
typedef struct mrt_batch_value {
  mrt_tensor *whole, *micro;
  mrt_tensor *reader; /* over all rows; `whole` itself for one of the n */
  mrt_spread spread;
  bool marked;
} mrt_batch_value;

/* The highest values that are ROWS, TOTAL or marked, of those that n values
 * (and all updates) are computed from; borrowed until the next call. */
MRT_API mrt_status mrt_batch_cut(mrt_batch *batch, mrt_tensor *const *whole,
                                 mrt_tensor *const *micro, int n, bool updates,
                                 const mrt_batch_value **cuts, int *count);

/* ---- packing ------------------------------------------------------------- */

/* A piece of memory with a known lifetime. */
typedef struct mrt_pack_item {
  size_t size;
  int64_t first, last; /* when it lives, both included */
  size_t alignment;    /* of the offset; 0 is 1 */
  size_t offset;       /* filled */
} mrt_pack_item;

typedef struct mrt_pack_result {
  size_t height;  /* what all of them need */
  size_t bound;   /* the largest sum of sizes alive at once */
  uint64_t nodes; /* placements tried by the exact search */
  bool proven;    /* no packing is lower */
} mrt_pack_result;

/* Fill the items' offsets so that no two that live at once overlap, as low as
 * is found with a fixed amount of work: the same items, in any order, have
 * the same height everywhere.  Stops early at a height within `capacity`;
 * 0 asks for the lowest.  A height above `capacity` is no failure: compare. */
MRT_API mrt_status mrt_pack(mrt_context *ctx, mrt_pack_item *items, int n,
                            size_t capacity, mrt_pack_result *result);

/* ---- recomputation ------------------------------------------------------- */

/* Lists by number: those of i are item[start[i]] up to, not
 * with, item[start[i + 1]]. */
typedef struct mrt_lists {
  int *start, *item;
} mrt_lists;

/* Value `in` may be overwritten by value `out` where it dies. */
typedef struct mrt_take {
  int out, in;
} mrt_take;

typedef struct mrt_problem {
  int ops, values;
  mrt_lists reads;  /* op -> values, each once; an op's are made before it */
  mrt_lists makes;  /* op -> values; every value is made by one op */
  double *cost;     /* by op: seconds, or any other unit, >= 0 */
  int64_t *scratch; /* by op: bytes it needs beside its values; NULL: none */
  int *until;       /* by op: it may run again only before this op's first run,
                 which overwrites what it reads beside values; 0: never again;
                 NULL: always */
  int64_t *bytes;   /* by value */
  bool *pinned;     /* by value: must be there at the end; NULL: none */
  int *take_start;  /* by op, into `take`; NULL: nothing in place */
  mrt_take *take;
  double swap_out, swap_in; /* seconds per byte; 0: nothing can be swapped */
} mrt_problem;

/* Everything is explicit: a value is there from the act that brings it to its
 * DROP.  A RUN whose outputs are partly there makes those again beside them,
 * and drops the copies at once. */
typedef enum mrt_act_kind {
  MRT_ACT_RUN,  /* op: its inputs are there; its outputs then are */
  MRT_ACT_DROP, /* value; right after a RUN that may take its place: in place.
                   Waits for its OUT, if that is not over */
  MRT_ACT_OUT,  /* value: a copy to the slow tier begins */
  MRT_ACT_IN    /* value: takes its bytes again, a copy back begins; who reads
                   it first waits for the end */
} mrt_act_kind;

typedef struct mrt_act {
  mrt_act_kind kind;
  int index;
} mrt_act;

typedef struct mrt_schedule {
  mrt_act *act;
  int count;
  int64_t peak;
  double cost;  /* of all runs, and of waiting for copies */
  double bound; /* no schedule with these first runs costs less */
} mrt_schedule;

/* What a value may do while nobody reads it, by value; a set. */
enum { MRT_MAY_KEEP = 1, MRT_MAY_RECOMPUTE = 2, MRT_MAY_SWAP = 4 };

/* The cheapest schedule of `p` found within `budget` bytes, by a fixed amount
 * of work: the same problem has the same schedule everywhere.  `may` by value;
 * NULL: keep or recompute.  Free it with mrt_schedule_free.  EBUDGET when none
 * is found: schedule->peak is then the least peak that was, and there are no
 * acts.  EVALUE for a problem that is none. */
MRT_API mrt_status mrt_schedule_find(mrt_context *ctx, const mrt_problem *p,
                                     const uint8_t *may, int64_t budget,
                                     mrt_schedule *schedule);
MRT_API void mrt_schedule_free(mrt_context *ctx, mrt_schedule *schedule);

#ifdef __cplusplus
}
#endif
#endif
