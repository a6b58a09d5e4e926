/* tensor.h -- contexts, storages, lazy tensors
 *
 * A tensor is a handle on a value: a type, and either a storage with the
 * numbers, or the expression that will compute them, or both.  Expressions
 * form a graph from results to leaves; it lives exactly as long as somebody
 * can still reach it.
 *
 * Invariants
 *   - a tensor has a storage, an expression, or is an input of the trace, or
 *     is a variable (whose storage is made when it is first needed);
 *   - the storage of a part of a bucket is a copy, let go when the bucket is
 *     written;
 *   - only a variable's storage may lie in the slow tier (tensor/slow.h);
 *   - ids grow with creation, so an expression's inputs have smaller ids: id
 *     order is a topological order;
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
#include "base/memory.h"
#include "device/communicator.h"
#include "device/device.h"
#include "mrt.h"

typedef struct mrt_home mrt_home; /* tensor/slow.h */

typedef struct mrt_storage {
  mrt_context *ctx;
  int refs;
  void *data;     /* NULL: at home only */
  void *host;     /* its bytes where we can read them, if somebody looks */
  size_t nbytes;  /* requested: a multiple of the device's alignment */
  mrt_home *home; /* in the slow tier; NULL: none */
  /* On a device that queues: its bytes are there once this is reached, and
   * what was queued since does not write them; 0: not known. */
  uint64_t mark;
} mrt_storage;

/* Where a node was written, for errors and reports.  `file` is interned. */
typedef struct mrt_origin {
  const char *file;
  int line;
  bool backward; /* built by mrt_grad from that line */
  int layer;     /* of the network, 1, 2, ..; 0: in none */
  int region;    /* to be recomputed as a whole, 1, 2, ..; 0: in none */
} mrt_origin;

typedef struct mrt_expr {
  const mrt_op *op;
  uint64_t id;
  int nin, nout, live; /* live: output tensors that exist */
  int updates;         /* outputs that take the storage of the first inputs */
  bool computed;       /* no longer counts as pending on its inputs */
  bool stale;          /* reads a variable's old value */
  bool traced;         /* made in a trace: computed by its plan only */
  bool once;           /* a collective: its numbers are never given back */
  struct mrt_expr *next_wanted; /* scratch of mrt_tensor_await */
  struct mrt_tensor **in;       /* held */
  struct mrt_tensor **out;      /* borrowed; NULL when that tensor is gone */
  mrt_type *out_types;
  void *options;
  size_t options_size;
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
  /* its numbers lie among those of a bucket (run/part.c) */
  struct mrt_tensor *bucket; /* held; NULL: it has its own */
  int64_t offset;            /* among the elements of all ranks' pieces */
  int comm;
  bool again;                /* gathered again for the backward pass */
  struct mrt_tensor **parts; /* of a bucket: borrowed, whose numbers it has */
  int part_count, part_room;
  struct mrt_tensor *whole; /* of a bucket: held while parts are begun */
  int64_t number;           /* of a bucket: counted by its ranks, from 1 on */
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
  struct mrt_tensor *instead; /* borrowed: the variable that plans of the trace
                                 read for it */
  mrt_variable *variable;
  mrt_origin origin;
  char *name;
  struct mrt_tensor *next_dead;
  uint64_t walk; /* the walk that wrote `mark` (tensor/marks.h) */
  int mark;
};

/* What one tracing of a function records. */
typedef struct mrt_section {
  mrt_tensor **inputs; /* held */
  int input_count, input_room;
  mrt_expr **updates;   /* kept alive by `results` */
  mrt_tensor **results; /* held: output 0 of each update */
  int update_count, update_room, result_room;
} mrt_section;

typedef struct mrt_trace {
  mrt_arena arena;
  uint64_t first_id;            /* tensors with smaller ids come from outside */
  uint64_t first_key, last_key; /* of random nodes: where each section begins,
                                   where all have ended */
  const struct mrt_plan *old;   /* whose place its plan takes; or NULL */
  mrt_section now, **sections;  /* those before */
  int section_count, section_room;
  mrt_tensor **variables; /* held: those with a traced version */
  int variable_count, variable_room;
  mrt_tensor **replaced; /* held: those that read as a variable */
  int replaced_count, replaced_room;
} mrt_trace;

struct mrt_context {
  const mrt_allocator *allocator;
  const mrt_op *const *ops; /* by number (op/table.c) */
  int64_t refs;             /* the owner, tensors, storages, plans, spaces */
  mrt_error error;
  mrt_device device;
  mrt_device cpu;             /* computes while planning, and what the device
                                 has no kernel for */
  mrt_plan *flight;           /* plans whose last run may not have ended */
  mrt_device_profile profile; /* of what plans are made for */
  mrt_device_profile cpu_profile; /* as declared */
  bool poison;
  volatile int interrupted; /* MRT_RAISED, MRT_DEAF; of the home */
  uint64_t seed, seed_epoch, next_key, next_id, walks;
  size_t bytes_now, bytes_peak, memory_limit;
  mrt_tier *tier;    /* opened when first needed; NULL: not yet */
  mrt_home *homes;   /* of the tier, by rising offset */
  size_t slow_bytes; /* the tier's size */
  size_t host_bytes; /* of spaces, for what the CPU computes for the device */
  uint64_t moves;    /* storages that came to memory or left it */
  size_t budget;     /* of one plan; 0: no limit */
  size_t available;  /* instead of asking the device; 0: ask */
  mrt_arena names;   /* interned file names */
  struct mrt_file {
    struct mrt_file *next;
    char *text;
  } * files;
  mrt_origin origin;
  int layers, regions; /* begun so far in this trace */
  int *outer_region;   /* by region, less one: that around it, or 0 */
  int region_room;
  mrt_trace *trace;
  struct {
    mrt_communicator *comm; /* who gave it; NULL: there is none */
    const char *at;
    size_t nbytes, blocks;          /* blocks: in use */
    bool closed;                    /* gives nothing any more */
  } heap;                           /* memory that other ranks see */
  mrt_communicator **communicators; /* by number; NULL: closed */
  int communicator_count, communicator_room;
  struct mrt_agreed {
    int64_t comm;
    uint64_t hash;
  } * agreed; /* lists of collectives that ranks have compared (run/agree.c) */
  int agreed_count, agreed_room;
  uint64_t script;                  /* a hash of its text; 0: not known */
  mrt_context *ranks;               /* has them instead; NULL: these are ours */
  mrt_context *guests, *next_guest; /* contexts that use ours */
  mrt_beside *beside;  /* does them beside the computation; NULL: not yet */
  uint64_t turns;      /* collectives applied so far */
  mrt_tensor **called; /* held: what collectives outside traces give, until
                          mrt_communicate */
  int called_count, called_room;
  mrt_tensor *dead; /* being freed, so that long chains do not recurse */
  bool burying;
};

/* An empty one, with one reference: no device yet.  NULL: no memory. */
mrt_context *mrt_context_make(const mrt_allocator *a);
void mrt_context_ref(mrt_context *ctx);
/* Does region `inner` lie in region `outer`, or is it that? */
bool mrt_region_inside(const mrt_context *ctx, int inner, int outer);
/* The region around one, or 0. */
int mrt_region_around(const mrt_context *ctx, int region);
void mrt_context_unref(mrt_context *ctx);

/* Bytes from the device, counted; NULL past the limit or when there are none.
 * nbytes is rounded up to the alignment; *rounded tells to what. */
void *mrt_device_alloc(mrt_context *ctx, size_t nbytes, size_t *rounded);
void mrt_device_free(mrt_context *ctx, void *data, size_t rounded);
size_t mrt_round_up(const mrt_context *ctx, size_t nbytes);

mrt_status mrt_storage_new(mrt_context *ctx, size_t nbytes, mrt_storage **out);
void mrt_storage_ref(mrt_storage *s);
void mrt_storage_unref(mrt_storage *s); /* NULL is fine */
/* Its bytes to s->host, until drop_host. */
mrt_status mrt_storage_read(mrt_storage *s);
/* Bytes are to be written to s->host, and become its own at the end. */
mrt_status mrt_storage_fill_begin(mrt_storage *s);
mrt_status mrt_storage_fill_end(mrt_storage *s);
void mrt_storage_drop_host(mrt_storage *s);

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
/* Its results exist: it no longer keeps its inputs' numbers alive. */
void mrt_expr_computed(mrt_expr *x);
/* Into the order of the program: inputs before what reads them. */
void mrt_exprs_sort(mrt_expr **list, int n);

/* Somebody waits for the numbers.  If they were given back, what they are
 * computed from is waited for again too. */
void mrt_tensor_await(mrt_tensor *t);
/* He waits no longer: the numbers are given back if nobody can see them. */
void mrt_tensor_release(mrt_tensor *t);
/* Give the numbers back if nobody can see them. */
void mrt_tensor_trim(mrt_tensor *t);
/* The numbers are in `s` (held on success); the tensor is evaluated. */
void mrt_tensor_settle(mrt_tensor *t, mrt_storage *s);
/* What makes a tensor a variable that starts as `init`; NULL: no memory. */
mrt_variable *mrt_variable_of(mrt_context *ctx, mrt_tensor *init);
/* The variable has its storage: let its initial value go. */
void mrt_variable_started(mrt_variable *v);
void mrt_trace_free(mrt_context *ctx);

/* ---- communicators.c ----------------------------------------------------- */

/* The communicator of this number; NULL, with EVALUE or ESTATE in the context,
 * when there is none or it is closed. */
mrt_communicator *mrt_communicator_find(mrt_context *ctx, int64_t number);
/* FNV-1a: the hash of these bytes too, from MRT_HASH on. */
#define MRT_HASH UINT64_C(0xcbf29ce484222325)
uint64_t mrt_hash(uint64_t hash, const void *data, size_t n);
/* Have this communicator's ranks found this list of collectives alike?  The
 * answer is the same on all of them.  `room` first, so that `add` cannot fail. */
bool mrt_agreed_has(mrt_context *ctx, int64_t comm, uint64_t hash);
mrt_status mrt_agreed_room(mrt_context *ctx);
void mrt_agreed_add(mrt_context *ctx, int64_t comm, uint64_t hash);
/* The context that has the communicators of `ctx`, and its interrupts. */
mrt_context *mrt_communicators_home(mrt_context *ctx);
/* Use those of `ranks`; no longer. */
void mrt_communicators_visit(mrt_context *ctx, mrt_context *ranks);
void mrt_communicators_leave(mrt_context *ctx);
/* Until no device but that of `except` has collectives in its queue; whoever
 * calls a communicator is alone with it then. */
void mrt_communicators_settle(mrt_context *ctx, const mrt_context *except);
/* `t` is what a collective gives: the plan of the trace computes it whoever
 * reads it, and mrt_communicate does outside. */
mrt_status mrt_call_note(mrt_context *ctx, mrt_tensor *t);
/* Forget what was noted outside traces since there were `count`. */
void mrt_calls_drop(mrt_context *ctx, int count);
/* Are interrupts acted on from now on?  False: one was raised before. */
bool mrt_interrupts_heed(mrt_context *ctx, bool heed);
bool mrt_interrupts_raised(mrt_context *ctx);
void mrt_communicators_close(mrt_context *ctx);
/* Memory that other ranks read in place; NULL: there is none, or no more. */
void *mrt_heap_get(mrt_context *ctx, size_t nbytes);
/* False: `data` is no such memory. */
bool mrt_heap_give(mrt_context *ctx, void *data, size_t nbytes);

#endif
