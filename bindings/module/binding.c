/* binding.c -- the binding of a Lua state, and functions that have it
 *
 * SPDX-License-Identifier: MIT */
#include "binding.h"

void mrt_lua_register(lua_State *L, mrt_binding *m, const luaL_Reg *functions) {
  for (const luaL_Reg *f = functions; f->name; f++) {
    lua_pushlightuserdata(L, m);
    lua_pushcclosure(L, f->func, 1);
    lua_setfield(L, -2, f->name);
  }
}

mrt_binding *mrt_lua_binding(lua_State *L) {
  lua_getfield(L, LUA_REGISTRYINDEX, MRT_BINDING);
  mrt_binding *m = lua_touserdata(L, -1);
  lua_pop(L, 1);
  return m;
}
