/* pack.c -- mrt.core.pack: offsets for pieces of memory with known lifetimes
 *
 *     result = core.pack({ {size, first, last, alignment}, ... }, {capacity=})
 *     result = { height=, bound=, nodes=, proven=, offsets = {...} }
 *
 * Times are integers, both ends included; the alignment may be left out.
 *
 * SPDX-License-Identifier: MIT */
#include "binding.h"

/* Field k of the item on top, item number i of the list. */
static int64_t read_field(lua_State *L, mrt_binding *m, int i, int k,
                          const char *name, int64_t least) {
  int is_integer;
  lua_rawgeti(L, -1, k);
  if (k == 4 && lua_isnil(L, -1)) {
    lua_pop(L, 1);
    return 1;
  }
  int64_t value = lua_tointegerx(L, -1, &is_integer);
  if (!is_integer || value < least) {
    mrt_lua_at(L, m);
    mrt_lua_fail(L, m, MRT_EVALUE, "pack", "buffer %d: its %s is %s", i, name,
                 mrt_lua_show(L, -1));
  }
  lua_pop(L, 1);
  return value;
}

static void read_item(lua_State *L, mrt_binding *m, int i,
                      mrt_pack_buffer *item) {
  if (lua_rawgeti(L, 1, i) != LUA_TTABLE)
    mrt_lua_fail(L, m, MRT_EVALUE, "pack",
                 "buffer %d is %s, {size, first, last, alignment} wanted", i,
                 mrt_lua_show(L, -1));
  *item = (mrt_pack_buffer){
    .size = (size_t)read_field(L, m, i, 1, "size", 0),
    .first = read_field(L, m, i, 2, "first time", INT64_MIN),
    .last = read_field(L, m, i, 3, "last time", INT64_MIN),
    .alignment = (size_t)read_field(L, m, i, 4, "alignment", 1),
  };
  lua_pop(L, 1);
}

static size_t read_capacity(lua_State *L, mrt_binding *m) {
  if (lua_isnoneornil(L, 2)) return 0;
  luaL_checktype(L, 2, LUA_TTABLE);
  lua_getfield(L, 2, "capacity");
  lua_Integer capacity = luaL_optinteger(L, -1, 0);
  if (capacity < 0)
    mrt_lua_fail(L, m, MRT_EVALUE, "pack", "capacity is negative");
  lua_pop(L, 1);
  return (size_t)capacity;
}

static void push_result(lua_State *L, const mrt_pack_result *r,
                        const mrt_pack_buffer *items, int n) {
  lua_createtable(L, 0, 5);
  lua_pushinteger(L, (lua_Integer)r->height);
  lua_setfield(L, -2, "height");
  lua_pushinteger(L, (lua_Integer)r->bound);
  lua_setfield(L, -2, "bound");
  lua_pushinteger(L, (lua_Integer)r->nodes);
  lua_setfield(L, -2, "nodes");
  lua_pushboolean(L, r->proven);
  lua_setfield(L, -2, "proven");
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) {
    lua_pushinteger(L, (lua_Integer)items[i].offset);
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "offsets");
}

static int pack(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  luaL_checktype(L, 1, LUA_TTABLE);
  size_t capacity = read_capacity(L, m);
  lua_Unsigned count = lua_rawlen(L, 1);
  if (count > INT32_MAX / 2)
    return mrt_lua_fail(L, m, MRT_EVALUE, "pack", "too many items");
  int n = (int)count;
  mrt_pack_buffer *items =
      lua_newuserdatauv(L, ((size_t)n + 1) * sizeof *items, 0);
  for (int i = 0; i < n; i++) read_item(L, m, i + 1, &items[i]);
  mrt_pack_result result;
  MRT_CHECK(L, m, "pack", mrt_pack(m->ctx, items, n, capacity, &result));
  push_result(L, &result, items, n);
  return 1;
}

void mrt_lua_pack_open(lua_State *L, mrt_binding *m) {
  static const luaL_Reg functions[] = { { "pack", pack }, { NULL, NULL } };
  mrt_lua_register(L, m, functions);
}
