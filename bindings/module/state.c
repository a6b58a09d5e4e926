/* state.c -- variables, assignment, updates, evaluation
 *
 * SPDX-License-Identifier: MIT */
#include "binding.h"

#include <limits.h>
#include <string.h>

/* variable(init, name?) */
static int new_variable(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  mrt_tensor *init = mrt_lua_check_tensor(L, m, 1, "variable");
  if (!lua_isnoneornil(L, 2) && lua_type(L, 2) != LUA_TSTRING)
    return mrt_lua_fail(L, m, MRT_EVALUE, "variable",
                        "the name is %s, a string wanted", mrt_lua_show(L, 2));
  const char *name = lua_tostring(L, 2);
  mrt_lua_at(L, m);
  mrt_tensor **slot = mrt_lua_new_tensor(L);
  MRT_CHECK(L, m, "variable", mrt_variable_new(m->ctx, init, name, slot));
  return 1;
}

/* The predicate at `arg`, a bool scalar, or NULL. */
static mrt_tensor *check_when(lua_State *L, mrt_binding *m, int arg,
                              const char *who) {
  if (lua_isnoneornil(L, arg)) return NULL;
  mrt_tensor *when = mrt_lua_check_tensor(L, m, arg, who);
  const mrt_type *type = mrt_tensor_type(when);
  if (type->dtype != MRT_bool || type->rank != 0) {
    char text[256];
    mrt_type_print(type, text, sizeof text);
    mrt_lua_fail(L, m, MRT_EDTYPE, who, "when is %s, bool[] wanted", text);
  }
  return when;
}

/* assign(variable, tensor | number, when?): a number or a scalar is repeated,
 * another dtype converted. */
static int assign(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  lua_settop(L, 3);
  mrt_tensor *t = mrt_lua_check_tensor(L, m, 1, "assign");
  mrt_type type = *mrt_tensor_type(t);
  mrt_tensor *when = check_when(L, m, 3, "assign");
  mrt_lua_at(L, m);
  if (!mrt_tensor_is_variable(t))
    return mrt_lua_fail(L, m, MRT_EVALUE, "assign",
                        "this tensor is no variable (see mrt.variable)");
  mrt_tensor *value = mrt_lua_convert(L, m, "assign", 2, type.dtype);
  if (mrt_tensor_type(value)->rank == 0) value = mrt_lua_expand(L, m, 2, &type);
  MRT_CHECK(L, m, "assign", mrt_assign(m->ctx, t, value, when));
  mrt_lua_pressure(L, m);
  return 0;
}

/* convert(variable, dtype): its numbers are stored in another float dtype. */
static int convert(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  mrt_tensor *t = mrt_lua_check_tensor(L, m, 1, "convert");
  mrt_dtype dtype = mrt_lua_check_dtype(L, m, 2, "convert");
  mrt_lua_at(L, m);
  MRT_CHECK(L, m, "convert", mrt_variable_convert(m->ctx, t, dtype));
  mrt_lua_pressure(L, m);
  return 0;
}

static const mrt_op *check_update(lua_State *L, mrt_binding *m, int arg) {
  bool named = lua_type(L, arg) == LUA_TSTRING;
  const mrt_op *op = named ? mrt_op_find(lua_tostring(L, arg)) : NULL;
  if (!op || !mrt_op_get_info(op).updates)
    mrt_lua_fail(L, m, MRT_EVALUE, "update", "no updating operator %s",
                 mrt_lua_show(L, arg));
  return op;
}

/* begins(variable): what it begins as; itself, once it has begun */
static int begins(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  mrt_tensor *t = mrt_lua_check_tensor(L, m, 1, "shard");
  mrt_tensor **slot = mrt_lua_new_tensor(L);
  MRT_CHECK(L, m, "shard", mrt_variable_initial_value(t, slot));
  return 1;
}

/* writes(variable): how often its numbers have been written */
static int writes(lua_State *L) {
  mrt_tensor *t = mrt_lua_check_tensor(L, mrt_binding_get(L), 1, "shard");
  lua_pushinteger(L, (lua_Integer)mrt_variable_writes(t));
  return 1;
}

typedef mrt_status put_in_bucket(mrt_context *, mrt_tensor *, mrt_tensor *, int,
                                 int64_t, bool);

/* The third argument; the core says whether there is one of this number. */
static int check_communicator(lua_State *L, mrt_binding *m, const char *who) {
  lua_Integer number = luaL_checkinteger(L, 3);
  if (number < 0 || number > INT_MAX)
    mrt_lua_fail(L, m, MRT_EVALUE, who, "no communicator %I",
                 (LUAI_UACINT)number);
  return (int)number;
}

static int put_in(lua_State *L, put_in_bucket *put) {
  mrt_binding *m = mrt_binding_get(L);
  mrt_tensor *part = mrt_lua_check_tensor(L, m, 1, "shard");
  mrt_tensor *bucket = mrt_lua_check_tensor(L, m, 2, "shard");
  int comm = check_communicator(L, m, "shard");
  int64_t offset = luaL_checkinteger(L, 4);
  mrt_lua_at(L, m);
  MRT_CHECK(L, m, "shard",
            put(m->ctx, part, bucket, comm, offset, lua_toboolean(L, 5)));
  return 0;
}

/* shard(part, bucket, communicator, offset, reshard_after_forward) */
static int shard(lua_State *L) { return put_in(L, mrt_variable_shard); }

/* suppose_shard(...): the same for plans that nobody runs, until
 * unsuppose(part) */
static int suppose_shard(lua_State *L) {
  return put_in(L, mrt_variable_suppose_shard);
}
/* cut(part, piece, communicator, outer, own_rows) */
static int cut(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  mrt_tensor *part = mrt_lua_check_tensor(L, m, 1, "cut");
  mrt_tensor *piece = mrt_lua_check_tensor(L, m, 2, "cut");
  int comm = check_communicator(L, m, "cut");
  int64_t outer = luaL_checkinteger(L, 4);
  mrt_lua_at(L, m);
  MRT_CHECK(
      L, m, "cut",
      mrt_variable_cut(m->ctx, part, piece, comm, outer, lua_toboolean(L, 5)));
  return 0;
}
/* The weights in the second argument, and the number of ranks in the third. */
static mrt_lua_handles *check_shared(lua_State *L, mrt_binding *m,
                                     const char *who, int *ranks) {
  lua_Integer n = luaL_checkinteger(L, 3);
  if (n < 1 || n > INT_MAX)
    mrt_lua_fail(L, m, MRT_EVALUE, who, "%I ranks", (LUAI_UACINT)n);
  *ranks = (int)n;
  return mrt_lua_check_list(L, m, 2, who);
}
/* weights_to_cut(loss, weights, ranks, sequence) -> {outer, ...}, 0: not at all */
static int weights_to_cut(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  int ranks;
  mrt_tensor *loss = mrt_lua_check_tensor(L, m, 1, "cut");
  mrt_lua_handles *weights = check_shared(L, m, "cut", &ranks);
  size_t n = (size_t)weights->count;
  int64_t *outer = lua_newuserdatauv(L, (n + 1) * sizeof *outer, 0);
  MRT_CHECK(L, m, "cut",
            mrt_weights_to_cut(m->ctx, loss, weights->at, weights->count, ranks,
                               lua_toboolean(L, 4), outer));
  mrt_lua_handles_clear(weights);
  lua_createtable(L, (int)n, 0);
  for (size_t i = 0; i < n; i++) {
    lua_pushinteger(L, outer[i]);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}
/* experts_to_cut(loss, weights, ranks) -> {boolean, ...} */
static int experts_to_cut(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  int ranks;
  mrt_tensor *loss = mrt_lua_check_tensor(L, m, 1, "experts");
  mrt_lua_handles *weights = check_shared(L, m, "experts", &ranks);
  size_t n = (size_t)weights->count;
  bool *cut = lua_newuserdatauv(L, (n + 1) * sizeof *cut, 0);
  MRT_CHECK(L, m, "experts",
            mrt_experts_to_cut(m->ctx, loss, weights->at, weights->count, ranks,
                               cut));
  mrt_lua_handles_clear(weights);
  lua_createtable(L, (int)n, 0);
  for (size_t i = 0; i < n; i++) {
    lua_pushboolean(L, cut[i]);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}
static int unsuppose(lua_State *L) {
  mrt_variable_unsuppose(
      mrt_lua_check_tensor(L, mrt_binding_get(L), 1, "shard"));
  return 0;
}

/* update(name, {variable, ..., value, ...}, options?): numbers in the list
 * become scalars of the first tensor's dtype, or f32 where that is narrow. */
static int update(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  lua_settop(L, 3);
  mrt_lua_call call;
  mrt_lua_call_init(&call, check_update(L, m, 1));
  const char *who = call.info.name;
  mrt_lua_read_options(L, m, &call, 3, 3);
  if (!lua_istable(L, 2))
    return mrt_lua_fail(L, m, MRT_EVALUE, who, "a list of tensors wanted");
  int n = lua_rawlen(L, 2) > MRT_ROOM ? MRT_ROOM : (int)lua_rawlen(L, 2);
  luaL_checkstack(L, n + 8, NULL);
  for (int i = 1; i <= n; i++) lua_rawgeti(L, 2, i);
  mrt_lua_at(L, m);
  mrt_tensor *in[MRT_ROOM];
  for (int i = 0; i < n; i++) {
    bool f64 = i > 0 && mrt_tensor_type(in[0])->dtype == MRT_f64;
    mrt_dtype dtype = f64 ? MRT_f64 : MRT_f32;
    in[i] = lua_type(L, 4 + i) == LUA_TNUMBER
                ? mrt_lua_convert(L, m, who, 4 + i, dtype)
                : mrt_lua_check_tensor(L, m, 4 + i, who);
  }
  MRT_CHECK(L, m, who, mrt_update(m->ctx, call.op, in, n, call.options.bytes));
  mrt_lua_pressure(L, m);
  return 0;
}

/* eval(list) */
static int eval(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  mrt_lua_handles *list = mrt_lua_check_list(L, m, 1, "eval");
  mrt_lua_at(L, m);
  MRT_CHECK(L, m, "eval", mrt_eval(m->ctx, list->at, list->count));
  mrt_lua_handles_clear(list);
  mrt_lua_pressure(L, m);
  return 0;
}

/* eval_few(...): the same of a few tensors; false if that is not what they are,
 * and nothing has been done.  On the stack they stay alive. */
static int eval_few(lua_State *L) {
  enum { FEW = 8 };
  mrt_binding *m = mrt_binding_get(L);
  mrt_tensor *in[FEW];
  int n = lua_gettop(L);
  bool all = n > 0 && n <= FEW;
  for (int i = 0; all && i < n; i++)
    all = (in[i] = mrt_lua_to_tensor(L, m, i + 1)) != NULL;
  if (all) {
    mrt_lua_pressure(L, m); /* what it frees is there for the result */
    mrt_lua_at(L, m);
    MRT_CHECK(L, m, "eval", mrt_eval(m->ctx, in, n));
  }
  lua_pushboolean(L, all);
  return 1;
}

/* seed(number, next?) */
static int seed(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  int is_integer;
  lua_Integer value = lua_tointegerx(L, 1, &is_integer);
  if (!is_integer)
    return mrt_lua_fail(L, m, MRT_EVALUE, "seed", "an integer wanted, got %s",
                        mrt_lua_show(L, 1));
  for (int i = 0; i < m->open_count; i++)
    mrt_random_set(m->open[i], (uint64_t)value,
                   (uint64_t)luaL_optinteger(L, 2, 1));
  return 0;
}

/* random() -> seed, next, begun */
static int random_state(lua_State *L) {
  mrt_random r = mrt_random_get(mrt_binding_get(L)->ctx);
  lua_pushinteger(L, (lua_Integer)r.seed);
  lua_pushinteger(L, (lua_Integer)r.next);
  lua_pushinteger(L, (lua_Integer)r.begun);
  return 3;
}

static int set_poison(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  for (int i = 0; i < m->open_count; i++)
    mrt_context_set_poison(m->open[i], lua_toboolean(L, 1));
  return 0;
}

static int set_budget(lua_State *L) {
  lua_Integer bytes = luaL_checkinteger(L, 1);
  luaL_argcheck(L, bytes >= 0, 1, "not a number of bytes");
  mrt_context_set_budget(mrt_binding_get(L)->ctx, (size_t)bytes);
  return 0;
}

static int set_swap_folder(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  size_t n = 0;
  const char *path =
      lua_type(L, 1) == LUA_TSTRING ? lua_tolstring(L, 1, &n) : NULL;
  if (n == 0 || strlen(path) != n)
    return mrt_lua_fail(L, m, MRT_EVALUE, "swap_folder",
                        "a path wanted, got %s", mrt_lua_show(L, 1));
  MRT_CHECK(L, m, "swap_folder", mrt_context_set_swap_folder(m->ctx, path));
  return 0;
}

static void set_count(lua_State *L, const char *key, size_t value) {
  lua_pushinteger(L, (lua_Integer)value);
  lua_setfield(L, -2, key);
}

/* swapped(): {{folder?, bytes}}, the device's own tier first. */
static int swapped(lua_State *L) {
  const char *folder;
  size_t bytes;
  lua_newtable(L);
  for (int i = 0;
       mrt_context_swapped_to(mrt_binding_get(L)->ctx, i, &folder, &bytes);
       i++) {
    lua_createtable(L, 0, 2);
    lua_pushstring(L, folder);
    lua_setfield(L, -2, "folder");
    set_count(L, "bytes", bytes);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* measure_swap(bytes): bytes per second to and from the swap tier. */
static int measure_swap(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  lua_Integer bytes = luaL_checkinteger(L, 1);
  luaL_argcheck(L, bytes > 0, 1, "not a number of bytes");
  mrt_swap_rates rates;
  MRT_CHECK(L, m, "measure_swap",
            mrt_context_measure_swap(m->ctx, (size_t)bytes, &rates));
  lua_createtable(L, 0, 5);
  lua_pushnumber(L, rates.latency);
  lua_setfield(L, -2, "latency");
  lua_pushnumber(L, rates.out);
  lua_setfield(L, -2, "out");
  lua_pushnumber(L, rates.in);
  lua_setfield(L, -2, "in");
  lua_pushnumber(L, rates.out_shared);
  lua_setfield(L, -2, "out_shared");
  lua_pushnumber(L, rates.in_shared);
  lua_setfield(L, -2, "in_shared");
  return 1;
}

/* info(): version, Lua's, device, threads, libraries, tensor bytes. */
static int info(lua_State *L) {
  mrt_context_info i = mrt_context_get_info(mrt_binding_get(L)->ctx);
  lua_createtable(L, 0, 16);
  lua_pushstring(L, mrt_version());
  lua_setfield(L, -2, "version");
  lua_pushliteral(L, LUA_RELEASE);
  lua_setfield(L, -2, "lua");
  lua_pushstring(L, i.isa);
  lua_setfield(L, -2, "isa");
  lua_pushstring(L, i.device);
  lua_setfield(L, -2, "device");
  lua_pushstring(L, i.libraries);
  lua_setfield(L, -2, "libraries");
  set_count(L, "threads", (size_t)i.threads);
  set_count(L, "bytes_now", i.bytes_now);
  set_count(L, "bytes_peak", i.bytes_peak);
  set_count(L, "alignment", i.alignment);
  set_count(L, "bytes_swapped", i.bytes_swapped);
  set_count(L, "steps", (size_t)i.steps);
  set_count(L, "plans", (size_t)i.plans);
  set_count(L, "bytes_host", i.bytes_host);
  set_count(L, "bytes_spare", i.bytes_spare);
  set_count(L, "unrecorded", (size_t)i.unrecorded);
  lua_pushinteger(L, i.devices);
  lua_setfield(L, -2, "devices");
  lua_pushboolean(L, i.queues);
  lua_setfield(L, -2, "queues");
  return 1;
}

static int reset_peak(lua_State *L) {
  mrt_context_reset_peak(mrt_binding_get(L)->ctx);
  return 0;
}

void mrt_lua_state_open(lua_State *L, mrt_binding *m) {
  static const luaL_Reg functions[] = {
    { "variable", new_variable },
    { "begins", begins },
    { "writes", writes },
    { "shard", shard },
    { "suppose_shard", suppose_shard },
    { "cut", cut },
    { "weights_to_cut", weights_to_cut },
    { "experts_to_cut", experts_to_cut },
    { "unsuppose", unsuppose },
    { "assign", assign },
    { "convert", convert },
    { "update", update },
    { "eval", eval },
    { "eval_few", eval_few },
    { "seed", seed },
    { "random", random_state },
    { "set_poison", set_poison },
    { "set_budget", set_budget },
    { "swap_folder", set_swap_folder },
    { "measure_swap", measure_swap },
    { "swapped", swapped },
    { "info", info },
    { "reset_peak", reset_peak },
    { NULL, NULL },
  };
  mrt_lua_register(L, m, functions);
}
