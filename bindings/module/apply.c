/* apply.c -- an operator applied to Lua arguments
 *
 * One function serves every operator: tensors come first, then the options.
 * Operators over a list take it as a table, or as many tensors as there are.
 * Pointwise operators also take numbers where tensors stand, and their inputs
 * are brought to one dtype and shape.
 *
 * SPDX-License-Identifier: MIT */
#include "binding.h"

/* The tensors at stack [first, first + n) as an array: the caller's, or a new
 * userdata when there are many. */
enum { FEW = 16 };

static mrt_tensor **read_inputs(lua_State *L, mrt_binding *m, const char *who,
                                mrt_tensor **few, int first, int n) {
  mrt_tensor **in = few;
  if (n > FEW) in = lua_newuserdatauv(L, (size_t)n * sizeof *in, 0);
  for (int i = 0; i < n; i++) {
    in[i] = mrt_lua_to_tensor(L, m, first + i);
    if (!in[i])
      mrt_lua_fail(L, m, MRT_EVALUE, who, "input %d is %s, a tensor wanted",
                   i + 1, mrt_lua_show(L, first + i));
  }
  return in;
}

mrt_tensor *mrt_lua_apply(lua_State *L, mrt_binding *m, mrt_lua_call *call,
                          mrt_tensor *const *in, int nin) {
  int nout;
  mrt_tensor **slot = mrt_lua_new_tensor(L);
  MRT_CHECK(L, m, call->info.name,
            mrt_apply(m->ctx, call->op, in, nin, call->options.bytes, slot, 1,
                      &nout));
  return *slot;
}

/* Where results wait for their userdata.  What an error left there is dropped,
 * unless this call comes from a finalizer amidst the one that owns it. */
static mrt_lua_handles *outputs_array(lua_State *L, mrt_binding *m) {
  if (m->outputs->at[0]) {
    if (mrt_lua_in_finalizer(L)) return mrt_lua_new_handles(L, MRT_ROOM);
    mrt_lua_handles_clear(m->outputs);
  }
  return m->outputs;
}

/* Fills `out` and *nout, or leaves it empty. */
static mrt_status attempt(mrt_binding *m, mrt_lua_call *call, mrt_tensor **in,
                          int nin, mrt_lua_handles *out, int *nout) {
  mrt_status status = mrt_apply(m->ctx, call->op, in, nin, call->options.bytes,
                                out->at, out->count, nout);
  if (status != MRT_OK) mrt_lua_handles_forget(out);
  return status;
}

/* Apply the call to stack [first, first + nin) and push all results. */
static int finish(lua_State *L, mrt_binding *m, mrt_lua_call *call, int first,
                  int nin) {
  mrt_tensor *few[FEW];
  mrt_tensor **in = read_inputs(L, m, call->info.name, few, first, nin);
  mrt_lua_handles *out = outputs_array(L, m);
  mrt_tensor **slot = mrt_lua_new_tensor(L);
  int n = 0;
  MRT_CHECK(L, m, call->info.name, attempt(m, call, in, nin, out, &n));
  /* All userdata first: moving the results into them cannot fail. */
  int base = lua_gettop(L);
  luaL_checkstack(L, n + 4, "too many results");
  for (int i = 1; i < n; i++) mrt_lua_new_tensor(L);
  for (int i = 0; i < n; i++) {
    slot = lua_touserdata(L, base + i);
    *slot = out->at[i];
    out->at[i] = NULL;
  }
  if (call->info.collective) mrt_lua_communicate(L, m, call->info.name);
  return n;
}

/* ---- arguments ----------------------------------------------------------- */

static bool is_operand(lua_State *L, const mrt_lua_call *call, int arg) {
  return mrt_lua_is_tensor(L, arg) ||
         (call->info.pointwise && lua_type(L, arg) == LUA_TNUMBER);
}

/* Push the tensors of the list at 1, or of all the leading arguments.  Fills
 * *next with the first argument that follows. */
static int push_many(lua_State *L, mrt_binding *m, mrt_lua_call *call, int top,
                     int *next) {
  *next = 1;
  if (lua_istable(L, 1)) {
    lua_Unsigned n = lua_rawlen(L, 1);
    if (n > MRT_LONGEST_LIST || !lua_checkstack(L, (int)n + 8))
      mrt_lua_fail(L, m, MRT_EVALUE, call->info.name, "a list that long");
    for (lua_Unsigned i = 1; i <= n; i++) lua_rawgeti(L, 1, (lua_Integer)i);
    *next = 2;
    return (int)n;
  }
  luaL_checkstack(L, top + 8, NULL);
  while (*next <= top && mrt_lua_is_tensor(L, *next))
    lua_pushvalue(L, (*next)++);
  return *next - 1;
}

/* Push the leading tensors (and numbers, for pointwise operators).  A nil
 * where a tensor may be absent counts as one place. */
static int push_few(lua_State *L, mrt_binding *m, mrt_lua_call *call, int top,
                    int *next) {
  int n = 0, most = call->info.max_inputs, arg = 1;
  luaL_checkstack(L, most + 8, NULL);
  while (arg <= top && n < most && is_operand(L, call, arg)) {
    lua_pushvalue(L, arg++);
    n++;
  }
  if (n < call->info.min_inputs) {
    int type = arg == 1 ? lua_type(L, arg) : LUA_TNIL; /* x.softmax(1) */
    bool dot = type == LUA_TNONE || type == LUA_TNUMBER || type == LUA_TTABLE;
    mrt_lua_fail(L, m, MRT_EVALUE, call->info.name,
                 "argument %d: a tensor wanted, got %s%s", arg,
                 arg <= top ? mrt_lua_show(L, arg) : "nothing",
                 dot ? " (a method is called with a colon)" : "");
  }
  for (int left = most - n; left > 0 && arg <= top && lua_isnil(L, arg); left--)
    arg++;
  *next = arg;
  return n;
}

static bool some_tensor(lua_State *L, int first, int n) {
  for (int i = 0; i < n; i++)
    if (mrt_lua_is_tensor(L, first + i)) return true;
  return false;
}

static int apply(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  mrt_lua_call call;
  mrt_lua_call_init(&call, lua_touserdata(L, lua_upvalueindex(2)));
  int top = lua_gettop(L), next;
  int n = call.info.max_inputs < 0 ? push_many(L, m, &call, top, &next)
                                   : push_few(L, m, &call, top, &next);
  mrt_lua_read_options(L, m, &call, next, top);
  mrt_lua_at(L, m);
  if (call.info.pointwise && n > 0) {
    if (!some_tensor(L, top + 1, n))
      return mrt_lua_fail(L, m, MRT_EVALUE, call.info.name,
                          "at least one tensor wanted, got numbers only");
    mrt_lua_match(L, m, &call.info, top + 1, n);
  }
  return finish(L, m, &call, top + 1, n);
}

void mrt_lua_push_operator(lua_State *L, mrt_binding *m, const mrt_op *op) {
  lua_pushlightuserdata(L, m);
  lua_pushlightuserdata(L, (void *)op);
  lua_pushcclosure(L, apply, 2);
}
