/* binding.h -- what the files of the Lua module mrt.core share
 *
 *   core.c     opens the module: the context, its allocator, the environment
 *   binding.c  the binding of a state, functions that have it
 *   error.c    the one place that raises
 *   place.c    whose code a line of Lua is
 *   called.c   public functions as they are called, and where
 *   pressure.c native memory under Lua's collector
 *   handle.c   the userdata that own tensors
 *   option.c   an operator's options from Lua arguments, by its schema
 *   apply.c    an operator applied to Lua arguments
 *   match.c    dtypes promoted and shapes broadcast before a pointwise operator
 *   make.c     tensors from tables and bytes
 *   read.c     tables, numbers and bytes from tensors
 *   state.c    variables, assignment, updates, evaluation
 *   grad.c     gradients, and custom ones written in Lua
 *   trace.c    traces and marks in them
 *   plan.c     plans, the spaces they share
 *   plan_option.c  their options
 *   policy.c   checkpoint and swap policies written in Lua
 *   transfers.c copies of a plan between tiers
 *   batch.c    how a traced function's values depend on the batch
 *   describe.c plans as Lua tables
 *   operators.c operators as Lua tables
 *   device.c   what plans are made for, and how long their nodes take
 *   pack.c     offsets for lifetimes
 *   schedule.c a program within a budget
 *   source.c   files of arrays
 *   tokenizer.c  texts as ids and back
 *   json_read.c, json_write.c  values as JSON
 *   communicator.c  ranks that compute together
 *   ranks.c    ranks as threads with Lua states of their own
 *   host.c     a clock, a terminal
 *   interrupt.c  Ctrl-C that waits
 *   process.c  other processes
 *
 * Lua raises by longjmp, so no C function here holds anything that only a
 * later line would free: tensors go straight into userdata that are already
 * on the stack, and arrays are userdata too.  Messages end in one function,
 * which adds the user's line.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_BINDING_H
#define MRT_BINDING_H

#include "mrt.h"
#include "mrt/device.h"
#include "mrt/frontend.h"
#include "mrt/inspect.h"
#include "mrt/solve.h"

#include <lauxlib.h>
#include <lua.h>
#include <stddef.h>

/* Tensors owned by an array; slots may be NULL. */
typedef struct mrt_lua_handles {
  int count;
  mrt_tensor *at[];
} mrt_lua_handles;

enum { MRT_CONTEXTS = 16, MRT_LINES = 16 };

/* The innermost line of the user's own code above a call of a module. */
typedef struct mrt_lua_line {
  lua_Integer call; /* its number; 0: none */
  int line;
  char file[LUA_IDSIZE];
} mrt_lua_line;

/* One per Lua state; upvalue 1 of every function of the module.  A context is
 * one device: a call is about that of its first tensor or plan, or else about
 * the chosen one. */
typedef struct mrt_binding {
  mrt_context *ctx; /* of the call under way */
  mrt_context *chosen, *open[MRT_CONTEXTS];
  int open_count;
  bool decided;      /* ctx is that of a tensor */
  lua_State *main;   /* its main thread, for callbacks that come without one */
  lua_State *caller; /* the thread inside mrt_grad */
  bool carried;      /* a Lua error waits in the registry to be raised again */
  mrt_allocator allocator;
  const mrt_op *cast, *expand, *full;
  mrt_lua_handles *outputs; /* scratch for the results of one operator */
  /* Tensor bytes: at the last collection, and of the young; when to next. */
  size_t seen, seen_young, limit;
  uint64_t made;     /* objects of the core, at the last of the young */
  bool generational; /* Lua's collector */
  int world; /* 1 + the number of the communicator of all ranks; 0: none yet */
  bool launched;               /* it was given: there is no other */
  lua_CFunction pcall, xpcall; /* Lua's own, which catch errors */
  char root[512];              /* chunk names of mrt's own Lua files begin so */
  lua_Integer calls;           /* of modules, so far */
  int under_way;               /* of them; after errors more than there are */
  mrt_lua_line lines[MRT_LINES]; /* by a call's number */
} mrt_binding;

enum {
  MRT_ROOM = 64, /* most outputs of one operator */
  MRT_LONGEST_LIST = 100000
};

#define MRT_TENSOR "mrt.Tensor"

static inline mrt_binding *mrt_binding_get(lua_State *L) {
  mrt_binding *m = lua_touserdata(L, lua_upvalueindex(1));
  if (!m->chosen) luaL_error(L, "mrt: the Lua state is closing");
  m->ctx = m->chosen, m->decided = false;
  return m;
}
static inline void mrt_binding_decide(mrt_binding *m, mrt_context *ctx) {
  if (!m->decided) m->ctx = ctx, m->decided = true;
}
/* Set `functions` into the table on top, with the binding as upvalue. */
#define MRT_BINDING "mrt.Binding" /* in the registry */
void mrt_lua_register(lua_State *L, mrt_binding *m, const luaL_Reg *functions);
/* core.c: that of a state in which the module is loaded. */
mrt_binding *mrt_lua_binding(lua_State *L);
/* communicator.c: compute the collectives that have been applied, or raise. */
void mrt_lua_communicate(lua_State *L, mrt_binding *m, const char *op);
/* mrt.communicator.create returns this one from now on. */
void mrt_lua_set_world(mrt_binding *m, int number);

/* core.c: the context of a device, opened on first use; raises where it is
 * not here. */
mrt_context *mrt_lua_open_device(lua_State *L, mrt_binding *m,
                                 const char *name);

/* ---- place.c ------------------------------------------------------------- */

enum { MRT_USER, MRT_LIBRARY, MRT_PLUMBING };

/* Whose is a chunk of this name? */
bool mrt_lua_is_user(const mrt_binding *m, const char *source);
int mrt_lua_place(const mrt_binding *m, const char *source);
/* The level of the innermost line of Lua code that lies no deeper than
 * `deepest`; -1: there is none. */
int mrt_lua_find_level(lua_State *L, const mrt_binding *m, int deepest,
                       lua_Debug *ar);
/* "train.lua" as Lua shows it, "mrt/nn/linear.lua" wherever mrt lies. */
const char *mrt_lua_show_file(const mrt_binding *m, lua_Debug *ar);
void mrt_lua_place_open(lua_State *L, mrt_binding *m);

/* ---- called.c ------------------------------------------------------------ */

enum { MRT_LUA_WALK = 16 }; /* stack places that a walk needs */

/* Tell the core where the next nodes come from: the innermost line of the user's
 * own code, or else of mrt's that is no plumbing; and the module that is called,
 * or whose parameter is updated. */
void mrt_lua_at(lua_State *L, mrt_binding *m);
/* The path of the module that is called, if it is in another: pushed. */
bool mrt_lua_push_path(lua_State *L, mrt_binding *m);
/* Count calls of modules that are under way anew, where none is: after errors
 * there are fewer than were begun. */
void mrt_lua_count_anew(lua_State *L, mrt_binding *m);
/* Calls what is behind a public function.  Lua drops the frame of a function
 * that ends in `return x:f()`, and with it the line to blame, but keeps it when f
 * is a C function. */
int mrt_lua_call_behind(lua_State *L);
void mrt_lua_called_open(lua_State *L, mrt_binding *m);

/* ---- error.c ------------------------------------------------------------- */

/* Raise an error object {code, op, message} at the line of the program; never
 * returns.  `op` may be NULL; `fmt` is lua_pushfstring's. */
int mrt_lua_fail(lua_State *L, mrt_binding *m, mrt_status status,
                 const char *op, const char *fmt, ...);
/* The same with the core's message. */
/* The error of a budget that is too little, with the plan at that index, which
 * takes what is needed. */
int mrt_lua_offer(lua_State *L, mrt_binding *m, int plan, const char *op);
int mrt_lua_raise(lua_State *L, mrt_binding *m, mrt_status status,
                  const char *op);
/* Push what a message says of the value at `arg`: "f32[2,3]", 7, 'word'. */
const char *mrt_lua_show(lua_State *L, int arg);
/* Evaluate `call`, a status.  When memory is out, collect garbage and try once
 * more; raise what remains. */
#define MRT_CHECK(L, m, op, call)                                              \
  do {                                                                         \
    mrt_status status_ = (call);                                               \
    if (status_ == MRT_ENOMEM && !(m)->carried) {                              \
      mrt_lua_collect(L);                                                      \
      status_ = (call);                                                        \
    }                                                                          \
    if (status_ != MRT_OK) mrt_lua_raise(L, m, status_, op);                   \
  } while (0)
/* Return nil, message, code for what the world does to files (EFILE, EDATA);
 * raise the rest. */
int mrt_lua_failed(lua_State *L, mrt_binding *m, mrt_status status,
                   const char *op);
/* As MRT_CHECK, but such a failure returns from the function. */
#define MRT_ATTEMPT(L, m, op, call)                                            \
  do {                                                                         \
    mrt_status status_ = (call);                                               \
    if (status_ == MRT_ENOMEM) {                                               \
      mrt_lua_collect(L);                                                      \
      status_ = (call);                                                        \
    }                                                                          \
    if (status_ != MRT_OK) return mrt_lua_failed(L, m, status_, op);           \
  } while (0)
/* The string at `arg`, without zero bytes; `what` is said in the error. */
const char *mrt_lua_check_text(lua_State *L, mrt_binding *m, int arg,
                               const char *who, const char *what);
void mrt_lua_error_open(lua_State *L, mrt_binding *m);

/* ---- pressure.c ---------------------------------------------------------- */

void mrt_lua_pressure_open(lua_State *L, mrt_binding *m);
/* Collect garbage because tensors use much memory; cheap when they do not. */
void mrt_lua_pressure(lua_State *L, mrt_binding *m);
/* Collect all garbage, if finalizers can run. */
void mrt_lua_collect(lua_State *L);

/* ---- handle.c ------------------------------------------------------------ */

/* Push a tensor userdata that owns nothing yet, and return its place. */
mrt_tensor **mrt_lua_new_tensor(lua_State *L);
/* Push a userdata on `t`, which gets one more handle. */
void mrt_lua_push_tensor(lua_State *L, mrt_tensor *t);
bool mrt_lua_is_tensor(lua_State *L, int arg);
/* The tensor at `arg`; NULL when it is none.  Raises when it is closed. */
mrt_tensor *mrt_lua_to_tensor(lua_State *L, mrt_binding *m, int arg);
/* The tensor at `arg`, or an error in the name of `who`. */
mrt_tensor *mrt_lua_check_tensor(lua_State *L, mrt_binding *m, int arg,
                                 const char *who);
/* Push an array of `count` empty slots, freed with what they hold. */
mrt_lua_handles *mrt_lua_new_handles(lua_State *L, int count);
/* Release what the slots hold; the array can be used again. */
void mrt_lua_handles_clear(mrt_lua_handles *h);
/* Empty the slots after a call that failed has released them. */
void mrt_lua_handles_forget(mrt_lua_handles *h);
/* Push a list of the tensors, which it takes over. */
void mrt_lua_push_list(lua_State *L, mrt_lua_handles *h);
/* Push an array with a handle on each tensor of the list at `arg`.  Clear it
 * when done: until then the tensors keep their numbers. */
mrt_lua_handles *mrt_lua_check_list(lua_State *L, mrt_binding *m, int arg,
                                    const char *who);
/* Are we called from a finalizer, perhaps in the midst of another call? */
bool mrt_lua_in_finalizer(lua_State *L);
void mrt_lua_handle_open(lua_State *L, mrt_binding *m);

/* ---- option.c ------------------------------------------------------------ */

/* A call of an operator: `options` is filled from Lua arguments. */
typedef struct mrt_lua_call {
  const mrt_op *op;
  mrt_op_info info;
  union {
    max_align_t align;
    char bytes[512];
  } options;
} mrt_lua_call;

/* Begin a call with the defaults. */
void mrt_lua_call_init(mrt_lua_call *call, const mrt_op *op);
/* Read the options from stack [first, last]: positional ones in the order of
 * the schema, then perhaps a table of named ones. */
void mrt_lua_read_options(lua_State *L, mrt_binding *m, mrt_lua_call *call,
                          int first, int last);
/* Set the first option of this kind from C; false when there is none. */
bool mrt_lua_call_set(mrt_lua_call *call, mrt_option_kind kind,
                      const void *value, size_t size);
/* A dtype by name at `arg`. */
mrt_dtype mrt_lua_check_dtype(lua_State *L, mrt_binding *m, int arg,
                              const char *who);
/* A list of integers at `arg` into `ints`. */
void mrt_lua_check_ints(lua_State *L, mrt_binding *m, int arg, const char *who,
                        const char *option, mrt_ints *ints);

/* ---- apply.c, match.c ---------------------------------------------------- */

/* Push the first output of call->op(in...). */
mrt_tensor *mrt_lua_apply(lua_State *L, mrt_binding *m, mrt_lua_call *call,
                          mrt_tensor *const *in, int nin);
/* Make the tensors and numbers at stack [first, first + count) tensors of one
 * dtype and shape, in place. */
void mrt_lua_match(lua_State *L, mrt_binding *m, const mrt_op_info *op,
                   int first, int count);
/* Make the tensor or number at `arg` one of `dtype`; a number becomes a
 * scalar. */
mrt_tensor *mrt_lua_convert(lua_State *L, mrt_binding *m, const char *who,
                            int arg, mrt_dtype dtype);
/* Repeat the tensor at `arg` to this shape. */
mrt_tensor *mrt_lua_expand(lua_State *L, mrt_binding *m, int arg,
                           const mrt_type *like);
/* Push a function that applies `op`. */
void mrt_lua_push_operator(lua_State *L, mrt_binding *m, const mrt_op *op);

/* ---- policy.c ------------------------------------------------------------ */

/* Who asks: the function at stack index `function` of L answers. */
typedef struct mrt_lua_policy_call {
  lua_State *L;
  mrt_binding *m;
  int function;
} mrt_lua_policy_call;

/* A mrt_checkpoint_policy; `user` is a mrt_lua_policy_call.  An error of the
 * function waits to be raised again. */
mrt_status mrt_lua_policy(void *user, mrt_checkpoint *asked);
/* The same for a mrt_swap_policy. */
mrt_status mrt_lua_precision_policy(void *user, mrt_precision *p);
mrt_status mrt_lua_compress_policy(void *user, mrt_compression *c);
mrt_status mrt_lua_place_policy(void *user, mrt_placing *p);
/* mrt_delayed's `sites`, of such a table. */
mrt_status mrt_lua_sites(void *user, const mrt_site *sites, int count);
mrt_status mrt_lua_swap_policy(void *user, const mrt_variable_info *v,
                               int *swap);

/* ---- plan_option.c ------------------------------------------------------- */

/* Options of a plan, and what they point to. */
typedef struct mrt_lua_plan_reading {
  mrt_plan_options options;
  mrt_lua_policy_call policy, swapping, precision, delaying, compressing,
      placing;
  mrt_delayed delayed;
  mrt_swap_policy swap;
} mrt_lua_plan_reading;

/* Read the table at `arg`, if it is one.  What is pushed must stay until the
 * plan is made. */
void mrt_lua_read_plan_options(lua_State *L, mrt_binding *m, int arg,
                               mrt_lua_plan_reading *r);

/* ---- what each file adds to the module table on top ---------------------- */

void mrt_lua_make_open(lua_State *L, mrt_binding *m);
void mrt_lua_read_open(lua_State *L, mrt_binding *m);
void mrt_lua_state_open(lua_State *L, mrt_binding *m);
void mrt_lua_grad_open(lua_State *L, mrt_binding *m);
void mrt_lua_plan_open(lua_State *L, mrt_binding *m);
void mrt_lua_batch_open(lua_State *L, mrt_binding *m);
void mrt_lua_describe_open(lua_State *L, mrt_binding *m);
void mrt_lua_device_open(lua_State *L, mrt_binding *m);
void mrt_lua_pack_open(lua_State *L, mrt_binding *m);
void mrt_lua_schedule_open(lua_State *L, mrt_binding *m);
void mrt_lua_source_open(lua_State *L, mrt_binding *m);
void mrt_lua_gguf_open(lua_State *L, mrt_binding *m);
/* {key, type, count of a list or nil, bytes} of each of a file's metadata with
 * types, as a list. */
void mrt_lua_push_metas(lua_State *L, const mrt_source *source);
void mrt_lua_tokenizer_open(lua_State *L, mrt_binding *m);
void mrt_lua_json_read_open(lua_State *L, mrt_binding *m);
void mrt_lua_json_write_open(lua_State *L, mrt_binding *m);
void mrt_lua_file_open(lua_State *L, mrt_binding *m);
void mrt_lua_host_open(lua_State *L, mrt_binding *m);
void mrt_lua_interrupt_open(lua_State *L, mrt_binding *m);
void mrt_lua_process_open(lua_State *L, mrt_binding *m);
void mrt_lua_secret_open(lua_State *L, mrt_binding *m);
void mrt_lua_communicator_open(lua_State *L, mrt_binding *m);
void mrt_lua_ranks_open(lua_State *L, mrt_binding *m);

/* batch.c: the one at `arg`, or NULL. */
mrt_batch *mrt_lua_to_batch(lua_State *L, int arg);

/* ---- trace.c ------------------------------------------------------------- */

extern const luaL_Reg mrt_lua_trace_functions[];

/* describe.c: methods of plans, for plan.c's metatable. */
mrt_plan *mrt_lua_check_plan(lua_State *L, mrt_binding *m, int arg);
mrt_plan *mrt_lua_plan_at(lua_State *L, int arg); /* NULL: none, or closed */
extern const luaL_Reg mrt_lua_plan_descriptions[];
/* device.c: push a device's figures as a table. */
void mrt_lua_push_device(lua_State *L, const mrt_device_profile *d);
/* transfers.c: more of them. */
extern const luaL_Reg mrt_lua_plan_transfers[];

#endif
