/* embed.c -- a program of one's own that trains by running a Lua script
 *
 *     cmake --build build
 *     LUA_PATH="lua/?.lua;lua/?/init.lua" build/embed train.lua
 *
 * (LUA_PATH is not needed where mrt is installed.)  mrt.core is linked into the
 * program; its tensors live in the Lua state and go with it.  The script sees
 * the global `epochs` and sets `result`; what it raises comes back here as a
 * message, and the host goes on.
 *
 * SPDX-License-Identifier: MIT */
#include <lauxlib.h>
#include <lualib.h>
#include <stdio.h>

int luaopen_mrt_core(lua_State *L);

int main(int argc, char **argv) {
  if (argc != 2) return fprintf(stderr, "usage: embed script.lua\n"), 2;
  lua_State *L = luaL_newstate();
  if (!L) return fprintf(stderr, "embed: out of memory\n"), 1;
  luaL_openlibs(L);
  luaL_requiref(L, "mrt.core", luaopen_mrt_core, 0);
  lua_pushinteger(L, 3);
  lua_setglobal(L, "epochs");
  int failed = luaL_dofile(L, argv[1]);
  if (failed) {
    fprintf(stderr, "embed: %s\n", luaL_tolstring(L, -1, NULL));
  } else {
    lua_getglobal(L, "result");
    printf("result: %s\n", luaL_tolstring(L, -1, NULL));
  }
  lua_close(L);
  return failed;
}
