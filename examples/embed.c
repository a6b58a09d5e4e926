/* embed.c -- a program of one's own that trains by running a Lua script
 *
 *     cc embed.c -o embed $(pkg-config --cflags --libs mrt-lua lua5.4)
 *     ./embed train.lua
 *
 * Any Lua 5.4 will do in place of Debian's.  Where mrt is not installed,
 * build/embed is this, and LUA_PATH="lua/?.lua;lua/?/init.lua" says where the
 * modules are.  mrt.core is linked into the program; its tensors live in the
 * Lua state and go with it.  The script sees the global `epochs` and sets
 * `result`; what it raises comes back here as a message, and the host goes on.
 *
 * SPDX-License-Identifier: MIT */
#include <lauxlib.h>
#include <lualib.h>
#include <mrt_lua.h>
#include <stdio.h>

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
