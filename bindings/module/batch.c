/* batch.c -- how a traced function's values depend on the batch, for Lua
 *
 * SPDX-License-Identifier: MIT */
#include "binding.h"

#include <string.h>

#define BATCH "mrt.Batch"

static const char *const kinds[] = { "replicate", "shard", "partial", "unknown",
                                     NULL };

mrt_batch *mrt_lua_to_batch(lua_State *L, int arg) {
  mrt_batch **slot = luaL_testudata(L, arg, BATCH);
  return slot ? *slot : NULL;
}

static mrt_batch *check_batch(lua_State *L) {
  return *(mrt_batch **)luaL_checkudata(L, 1, BATCH);
}

/* batch(section, all, part, statistics) */
static int new_batch(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  mrt_batch **slot = lua_newuserdatauv(L, sizeof *slot, 0);
  *slot = NULL;
  luaL_setmetatable(L, BATCH);
  MRT_CHECK(L, m, "accumulate",
            mrt_batch_new(m->ctx, (int)luaL_checkinteger(L, 1),
                          luaL_checkinteger(L, 2), luaL_checkinteger(L, 3),
                          lua_toboolean(L, 4), slot));
  return 1;
}

static int collect_batch(lua_State *L) {
  mrt_batch **slot = luaL_checkudata(L, 1, BATCH);
  mrt_batch *dead = *slot;
  *slot = NULL;
  mrt_batch_free(dead);
  return 0;
}

/* mark(self, whole, micro, kind, degree, outer) */
static int mark(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  mrt_batch *b = check_batch(L);
  mrt_tensor *whole = mrt_lua_check_tensor(L, m, 2, "accumulate");
  mrt_tensor *micro = mrt_lua_check_tensor(L, m, 3, "accumulate");
  mrt_placement s = { (mrt_placement_kind)luaL_checkoption(L, 4, NULL, kinds),
                      (int)luaL_checkinteger(L, 5), luaL_checkinteger(L, 6) };
  MRT_CHECK(L, m, "accumulate", mrt_batch_mark(b, whole, micro, s));
  return 0;
}

static void set_placement(lua_State *L, const mrt_placement *s) {
  lua_pushstring(L, kinds[s->kind]);
  lua_setfield(L, -2, "kind");
  lua_pushinteger(L, s->degree);
  lua_setfield(L, -2, "degree");
  lua_pushinteger(L, s->outer);
  lua_setfield(L, -2, "outer");
}

/* placement(self, whole, micro) -> {kind, degree, outer} */
static int placement(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  mrt_batch *b = check_batch(L);
  mrt_tensor *whole = mrt_lua_check_tensor(L, m, 2, "accumulate");
  mrt_tensor *micro = mrt_lua_check_tensor(L, m, 3, "accumulate");
  mrt_placement s;
  MRT_CHECK(L, m, "accumulate", mrt_batch_placement(b, whole, micro, &s));
  lua_createtable(L, 0, 3);
  set_placement(L, &s);
  return 1;
}

/* cut(self, wholes, micros, updates) -> {{whole, micro, reader, kind, degree,
 * outer, marked}, ...} */
static int cut(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  mrt_batch *b = check_batch(L);
  mrt_lua_handles *whole = mrt_lua_check_list(L, m, 2, "accumulate");
  mrt_lua_handles *micro = mrt_lua_check_list(L, m, 3, "accumulate");
  const mrt_batch_value *cuts;
  int n;
  if (whole->count != micro->count)
    return mrt_lua_fail(L, m, MRT_EVALUE, "accumulate",
                        "%d tensors with all rows, %d with some", whole->count,
                        micro->count);
  MRT_CHECK(L, m, "accumulate",
            mrt_batch_cut(b, whole->at, micro->at, micro->count,
                          lua_toboolean(L, 4), &cuts, &n));
  mrt_lua_handles_clear(whole);
  mrt_lua_handles_clear(micro);
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) {
    lua_createtable(L, 0, 6);
    mrt_lua_push_tensor(L, cuts[i].whole);
    lua_setfield(L, -2, "whole");
    mrt_lua_push_tensor(L, cuts[i].micro);
    lua_setfield(L, -2, "micro");
    mrt_lua_push_tensor(L, cuts[i].reader);
    lua_setfield(L, -2, "reader");
    lua_pushboolean(L, cuts[i].marked);
    lua_setfield(L, -2, "marked");
    set_placement(L, &cuts[i].placement);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* ---- sections of a trace ------------------------------------------------- */

/* trace_section(like?): like counts from 0 */
static int trace_section(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  int like = (int)luaL_optinteger(L, 1, -1);
  MRT_CHECK(L, m, "accumulate", mrt_trace_section(m->ctx, like));
  return 0;
}

/* trace_keys(first?) -> first */
static int trace_keys(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  uint64_t first = (uint64_t)luaL_optinteger(L, 1, 0);
  lua_pushinteger(L, (lua_Integer)mrt_trace_keys(m->ctx, first));
  return 1;
}

/* trace_draw() -> number */
static int trace_draw(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  lua_pushinteger(L, (lua_Integer)mrt_trace_draw(m->ctx));
  return 1;
}

/* trace_replace(tensor, leaf?): a variable, an input, or what is computed of one,
 * which the caller holds; without one it is computed again */
static int trace_replace(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  mrt_tensor *t = mrt_lua_check_tensor(L, m, 1, "accumulate");
  mrt_tensor *leaf = lua_isnoneornil(L, 2)
                         ? NULL
                         : mrt_lua_check_tensor(L, m, 2, "accumulate");
  MRT_CHECK(L, m, "accumulate", mrt_trace_replace(m->ctx, t, leaf));
  return 0;
}

/* trace_read(variable, tensor): what it reads as from here on */
static int trace_read(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  mrt_tensor *variable = mrt_lua_check_tensor(L, m, 1, "shard");
  mrt_tensor *value = mrt_lua_check_tensor(L, m, 2, "shard");
  MRT_CHECK(L, m, "shard", mrt_trace_read(m->ctx, variable, value));
  return 0;
}

/* current(tensor): what a variable is at this place of the trace */
static int current(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  mrt_tensor *t = mrt_lua_check_tensor(L, m, 1, "accumulate");
  mrt_lua_push_tensor(L, mrt_tensor_current(t));
  return 1;
}

/* id(tensor): what plans call a variable */
static int id(lua_State *L) {
  mrt_tensor *t = mrt_lua_check_tensor(L, mrt_binding_get(L), 1, "id");
  lua_pushinteger(L, (lua_Integer)mrt_tensor_id(t));
  return 1;
}

void mrt_lua_batch_open(lua_State *L, mrt_binding *m) {
  static const luaL_Reg methods[] = {
    { "mark", mark }, { "placement", placement }, { "cut", cut }, { NULL, NULL }
  };
  static const luaL_Reg functions[] = {
    { "batch", new_batch },
    { "trace_section", trace_section },
    { "trace_keys", trace_keys },
    { "trace_draw", trace_draw },
    { "trace_replace", trace_replace },
    { "trace_read", trace_read },
    { "current", current },
    { "id", id },
    { NULL, NULL },
  };
  luaL_newmetatable(L, BATCH);
  lua_pushcfunction(L, collect_batch);
  lua_setfield(L, -2, "__gc");
  lua_createtable(L, 0, 3);
  mrt_lua_register(L, m, methods);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
  mrt_lua_register(L, m, functions);
}
