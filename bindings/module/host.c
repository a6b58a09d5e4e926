/* host.c -- what the Lua library asks of the machine: a clock, a terminal
 *
 * SPDX-License-Identifier: MIT */
#include "binding.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

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

/* terminal_width(): the columns of standard output as they are now; nil where
 * it is no terminal, or one that does not say. */
static int terminal_width(lua_State *L) {
  struct winsize size;
  bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  if (known)
    lua_pushinteger(L, size.ws_col);
  else
    lua_pushnil(L);
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

static int close_folder(lua_State *L) {
  DIR **folder = lua_touserdata(L, 1);
  if (*folder) closedir(*folder);
  *folder = NULL;
  return 0;
}

/* list_folder(path) -> names, in no order; or nil and what is wrong */
static int list_folder(lua_State *L) {
  const char *path = luaL_checkstring(L, 1);
  DIR **folder = lua_newuserdatauv(L, sizeof *folder, 0);
  *folder = NULL;
  lua_createtable(L, 0, 1);
  lua_pushcfunction(L, close_folder);
  lua_setfield(L, -2, "__close");
  lua_setmetatable(L, -2);
  lua_toclose(L, -1); /* what follows may raise */
  lua_newtable(L);
  *folder = opendir(path);
  if (!*folder) {
    lua_pushnil(L);
    lua_pushfstring(L, "%s: %s", path, strerror(errno));
    return 2;
  }
  lua_Integer n = 0;
  for (struct dirent *e; (e = readdir(*folder));) {
    lua_pushstring(L, e->d_name);
    lua_rawseti(L, -2, ++n);
  }
  return 1;
}

/* trim(): what has been freed and is kept for the next malloc goes back to the
 * system, where its library can do so; some milliseconds. */
static int trim(lua_State *L) {
  (void)L;
#ifdef __GLIBC__
  malloc_trim(0);
#endif
  return 0;
}

void mrt_lua_host_open(lua_State *L, mrt_binding *m) {
  static const luaL_Reg functions[] = {
    { "clock", read_clock },
    { "is_terminal", is_terminal },
    { "terminal_width", terminal_width },
    { "make_folders", make_folders },
    { "list_folder", list_folder },
    { "trim", trim },
    { NULL, NULL },
  };
  mrt_lua_register(L, m, functions);
}
