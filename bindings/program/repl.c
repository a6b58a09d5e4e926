/* repl.c -- gives the prompt, lua/mrt/cli/repl/, and commands that talk what Lua
 * cannot do itself
 *
 *     terminal.read(prompt)      a line; nil at the end; false after Ctrl-C
 *     terminal.history(path)     keep the history there
 *     terminal.remember(entry)   of the history; it may have several lines
 *     terminal.drop()            forget what was pasted and not yet read; was
 *                                there some?
 *     terminal.width()           of the window, in columns; nil: no terminal
 *     terminal.call(f)           true, results or false, message; Ctrl-C works
 *     terminal.clock()           seconds, monotonic
 *     terminal.colour            standard output is a terminal
 *     terminal.typed             so is standard input
 *     terminal.complete          set by the prompt: text -> insert, choices
 *
 * SPDX-License-Identifier: MIT */
#include "edit.h"
#include "program.h"

#include <lauxlib.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

/* The editor is in upvalue 1 of every function. */
static mrt_edit *editor(lua_State *L) {
  return *(mrt_edit **)lua_touserdata(L, lua_upvalueindex(1));
}

static int close_editor(lua_State *L) {
  mrt_edit **e = lua_touserdata(L, 1);
  mrt_edit_close(*e);
  *e = NULL;
  return 0;
}

static int read_line(lua_State *L) {
  const char *line = NULL;
  switch (mrt_edit_read(editor(L), luaL_checkstring(L, 1), &line)) {
  case MRT_EDIT_LINE:
    lua_pushstring(L, line);
    break;
  case MRT_EDIT_END:
    lua_pushnil(L);
    break;
  case MRT_EDIT_INTERRUPTED:
    lua_pushboolean(L, 0);
    break;
  }
  return 1;
}

static int keep_history(lua_State *L) {
  lua_pushboolean(L, mrt_edit_history(editor(L), luaL_checkstring(L, 1)));
  return 1;
}

static int remember(lua_State *L) {
  mrt_edit_remember(editor(L), luaL_checkstring(L, 1));
  return 0;
}

static int drop(lua_State *L) {
  lua_pushboolean(L, mrt_edit_drop(editor(L)));
  return 1;
}

static int width(lua_State *L) {
  struct winsize size;
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || !size.ws_col) return 0;
  lua_pushinteger(L, size.ws_col);
  return 1;
}

static int call(lua_State *L) {
  lua_settop(L, 1);
  int status = mrt_program_call(L, 0, LUA_MULTRET);
  lua_pushboolean(L, status == LUA_OK);
  lua_insert(L, 1);
  return lua_gettop(L);
}

static int clock_seconds(lua_State *L) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  lua_pushnumber(L, (double)now.tv_sec + 1e-9 * (double)now.tv_nsec);
  return 1;
}

/* The completer is terminal.complete, where its results stay referenced while
 * the editor borrows them. */
static const char *complete(void *user, const char *line, size_t size,
                            const char **choices) {
  lua_State *L = user;
  const char *text = NULL;
  int top = lua_gettop(L);
  if (lua_getfield(L, LUA_REGISTRYINDEX, "mrt.terminal") == LUA_TTABLE) {
    lua_getfield(L, -1, "complete");
    lua_pushlstring(L, line, size);
    if (lua_pcall(L, 1, 2, 0) == LUA_OK) {
      text = lua_tostring(L, -2);
      *choices = lua_tostring(L, -1);
      lua_setfield(L, top + 1, "choices");
      lua_setfield(L, top + 1, "text");
    }
  }
  lua_settop(L, top);
  return text;
}

int mrt_program_terminal(lua_State *L) {
  static const luaL_Reg functions[] = {
    { "read", read_line },      { "history", keep_history },
    { "remember", remember },   { "call", call },
    { "clock", clock_seconds }, { "drop", drop },
    { "width", width },         { NULL, NULL },
  };
  luaL_newlibtable(L, functions);
  mrt_edit **e = lua_newuserdatauv(L, sizeof *e, 0);
  *e = NULL;
  lua_createtable(L, 0, 1);
  lua_pushcfunction(L, close_editor);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
  *e = mrt_edit_open(complete, L);
  if (!*e) return luaL_error(L, "not enough memory");
  luaL_setfuncs(L, functions, 1);
  lua_pushboolean(L, isatty(STDOUT_FILENO));
  lua_setfield(L, -2, "colour");
  lua_pushboolean(L, isatty(STDIN_FILENO));
  lua_setfield(L, -2, "typed");
  lua_pushvalue(L, -1);
  lua_setfield(L, LUA_REGISTRYINDEX, "mrt.terminal");
  return 1;
}

static int run(lua_State *L) {
  lua_getglobal(L, "require");
  lua_pushliteral(L, "mrt.cli.repl");
  lua_call(L, 1, 1);
  mrt_program_terminal(L);
  lua_call(L, 1, 0);
  return 0;
}

int mrt_program_repl(lua_State *L) {
  lua_pushcfunction(L, run);
  return lua_pcall(L, 0, 0, 0);
}
