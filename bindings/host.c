/* host.c -- what the Lua library asks of the machine: a clock, a terminal
 *
 * SPDX-License-Identifier: MIT */
#include "binding.h"

#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* clock(): seconds on a clock that only goes forward. */
static int read_clock(lua_State *L) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  lua_pushnumber(L, (double)t.tv_sec + 1e-9 * (double)t.tv_nsec);
  return 1;
}

/* is_terminal(): whether standard output is one. */
static int is_terminal(lua_State *L) {
  lua_pushboolean(L, isatty(STDOUT_FILENO));
  return 1;
}

/* make_folders(path): every folder of it that is not there; no errors, using
 * them will show. */
static int make_folders(lua_State *L) {
  size_t n;
  const char *path = luaL_checklstring(L, 1, &n);
  char *own = lua_newuserdatauv(L, n + 1, 0);
  memcpy(own, path, n + 1);
  for (size_t i = 1; i <= n; i++) {
    if (own[i] != '/' && own[i] != 0) continue;
    own[i] = 0;
    mkdir(own, 0777);
    own[i] = path[i];
  }
  return 0;
}

void mrt_host_open(lua_State *L, mrt_binding *m) {
  static const luaL_Reg functions[] = {
    { "clock", read_clock },
    { "is_terminal", is_terminal },
    { "make_folders", make_folders },
    { NULL, NULL },
  };
  mrt_binding_register(L, m, functions);
}
