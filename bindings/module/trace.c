/* trace.c -- what is written down instead of computed, and its marks
 *
 * plan.c has what ends a trace, for that makes a plan.
 *
 * SPDX-License-Identifier: MIT */
#include "binding.h"

/* The trace being made has an object in Lua: in the registry, under its context,
 * where `false` is before it begins and when it is over. */
static void clear_object(lua_State *L, mrt_context *ctx) {
  lua_pushboolean(L, 0);
  lua_rawsetp(L, LUA_REGISTRYINDEX, ctx);
}

/* A trace has begun, and its object is at `at`: call the function behind it, with
 * what follows.  It ends the trace with trace_end; whatever else happens, that is
 * over when this returns or raises. */
static int run_trace(lua_State *L, mrt_context *ctx, int at) {
  lua_pushvalue(L, at);
  lua_rawsetp(L, LUA_REGISTRYINDEX, ctx); /* has its place: needs no memory */
  int status = lua_pcall(L, lua_gettop(L) - at - 1, LUA_MULTRET, 0);
  mrt_trace_abort(ctx);
  clear_object(L, ctx);
  if (status != LUA_OK) return lua_error(L);
  return lua_gettop(L) - at;
}

static void check_trace(lua_State *L, mrt_binding *m, int at) {
  luaL_checktype(L, at + 1, LUA_TFUNCTION);
  if (!mrt_tracing(m->ctx)) clear_object(L, m->ctx);
  mrt_lua_at(L, m);
}

/* trace(object, f, ...): f(...) inside a trace. */
static int trace(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  check_trace(L, m, 1);
  mrt_lua_count_anew(L, m);
  MRT_CHECK(L, m, "trace", mrt_trace_begin(m->ctx));
  return run_trace(L, m->ctx, 1);
}

/* trace_again(plan, object, f, ...): for a plan that takes the place of `plan`. */
static int trace_again(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  const mrt_plan *old = mrt_lua_check_plan(L, m, 1);
  check_trace(L, m, 2);
  MRT_CHECK(L, m, "trace", mrt_trace_begin_anew(m->ctx, old));
  return run_trace(L, m->ctx, 2);
}

/* current_trace() -> the object of the trace being made, or nil */
static int current_trace(lua_State *L) {
  mrt_context *ctx = mrt_binding_get(L)->ctx;
  if (!mrt_tracing(ctx)) return 0;
  lua_rawgetp(L, LUA_REGISTRYINDEX, ctx);
  return 1;
}

static int tracing(lua_State *L) {
  lua_pushboolean(L, mrt_tracing(mrt_binding_get(L)->ctx));
  return 1;
}

/* layer_begin() -> whether one began; layer_end() */
static int layer_begin(lua_State *L) {
  lua_pushboolean(L, mrt_layer_begin(mrt_binding_get(L)->ctx));
  return 1;
}

static int layer_end(lua_State *L) {
  mrt_layer_end(mrt_binding_get(L)->ctx);
  return 0;
}

/* region_begin() -> what region_end(outer) wants */
static int region_begin(lua_State *L) {
  lua_pushinteger(L, mrt_region_begin(mrt_binding_get(L)->ctx));
  return 1;
}

static int region_end(lua_State *L) {
  mrt_region_end(mrt_binding_get(L)->ctx, (int)luaL_checkinteger(L, 1));
  return 0;
}

/* trace_input(like, rows?): an input of the type of a tensor, or with so many
 * rows; without one, a scalar f32. */
static int trace_input(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  mrt_type type = { .dtype = MRT_f32 };
  if (!lua_isnoneornil(L, 1))
    type = *mrt_tensor_type(mrt_lua_check_tensor(L, m, 1, "trace"));
  if (type.rank > 0) type.dims[0] = luaL_optinteger(L, 2, type.dims[0]);
  mrt_lua_at(L, m);
  mrt_tensor **slot = mrt_lua_new_tensor(L);
  MRT_CHECK(L, m, "trace", mrt_trace_input(m->ctx, &type, slot));
  return 1;
}

/* maker(tensor) -> name of its operator, {what that reads}; nothing of a leaf */
static int maker(lua_State *L) {
  mrt_tensor *const *in;
  int nin;
  const mrt_tensor *t = mrt_lua_check_tensor(L, mrt_binding_get(L), 1, "maker");
  const char *name = mrt_tensor_maker(t, &nin, &in);
  if (!name) return 0;
  lua_pushstring(L, name);
  lua_createtable(L, nin, 0);
  for (int i = 0; i < nin; i++) {
    mrt_tensor **slot = mrt_lua_new_tensor(L);
    mrt_tensor_ref(*slot = in[i]);
    lua_rawseti(L, -2, i + 1);
  }
  return 2;
}

/* work(tensor) -> flops of its operator, the bytes that it reads and writes,
 * whether it is a view, a number that all results of it have, the path of the
 * module that it is of, or nil */
static int work(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  mrt_work w = mrt_tensor_work(mrt_lua_check_tensor(L, m, 1, "work"));
  lua_pushnumber(L, w.flops);
  lua_pushnumber(L, w.bytes);
  lua_pushboolean(L, w.view);
  lua_pushinteger(L, (lua_Integer)w.id);
  lua_pushstring(L, w.module);
  return 5;
}

/* alike(x, y) -> are they the same result of the same operator with the same
 * options, of whatever each reads? */
static int alike(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  mrt_tensor *x = mrt_lua_check_tensor(L, m, 1, "alike");
  mrt_tensor *y = mrt_lua_check_tensor(L, m, 2, "alike");
  lua_pushboolean(L, mrt_tensor_alike(x, y));
  return 1;
}

const luaL_Reg mrt_lua_trace_functions[] = {
  { "trace", trace },
  { "trace_again", trace_again },
  { "trace_input", trace_input },
  { "tracing", tracing },
  { "current_trace", current_trace },
  { "maker", maker },
  { "work", work },
  { "alike", alike },
  { "layer_begin", layer_begin },
  { "layer_end", layer_end },
  { "region_begin", region_begin },
  { "region_end", region_end },
  { NULL, NULL },
};
