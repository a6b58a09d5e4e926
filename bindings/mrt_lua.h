/* mrt_lua.h -- mrt inside a program that has Lua 5.4 inside
 *
 *     luaL_requiref(L, "mrt.core", luaopen_mrt_core, 0);
 *     luaL_dostring(L, "local mrt = require 'mrt' ...");
 *
 *     cc host.c $(pkg-config --cflags --libs mrt-lua lua5.4)
 *
 * The module is linked into the program; the rest of mrt is Lua, found by
 * package.path (share/lua/5.4).  Lua comes from the host, of whatever build of
 * 5.4 it is: mrt-lua names none.  examples/embed.c is a whole program.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_LUA_H
#define MRT_LUA_H

#ifdef __cplusplus
extern "C" {
#endif

struct lua_State;

/* Open the module `mrt.core`: a lua_CFunction, which leaves it on the stack.
 * Each Lua state has a context and tensors of its own, which go with it;
 * several states may be used by several threads.  The state is used by one
 * thread at a time.  Raises Lua errors as Lua's own modules do. */
int luaopen_mrt_core(struct lua_State *L);

#ifdef __cplusplus
}
#endif
#endif
