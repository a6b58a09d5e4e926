/* interrupt.c -- runs Lua code that Ctrl-C can stop
 *
 * The signal handler does two things that are safe in it: it sets a hook,
 * which raises "interrupted!" before the next Lua instruction, and it asks the
 * context to leave the step that is running, which happens before the step's
 * first update, so no parameter is half written.  While no Lua code runs the
 * signal has whatever meaning it had before.
 *
 * SPDX-License-Identifier: MIT */
#include "program.h"

#include "mrt.h"
#include <lauxlib.h>
#include <signal.h>
#include <string.h>

/* A signal handler has no argument of ours. */
static lua_State *volatile running;
static int depth; /* of the stack where it was called */
static mrt_context *volatile context;
static bool raised; /* by `stop`, since the outermost call began */

int luaopen_mrt_core(lua_State *L);

static int open_core(lua_State *L) {
  lua_pushcfunction(L, luaopen_mrt_core);
  lua_insert(L, 1);
  lua_call(L, lua_gettop(L) - 1, 1);
  lua_getfield(L, LUA_REGISTRYINDEX, "mrt.context");
  context = lua_touserdata(L, -1);
  lua_pop(L, 1);
  return 1;
}

void mrt_program_preload(lua_State *L) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  lua_pushcfunction(L, open_core);
  lua_setfield(L, -2, "mrt.core");
  lua_pushcfunction(L, mrt_program_terminal);
  lua_setfield(L, -2, "mrt.terminal");
  lua_pop(L, 1);
}

/* A step that acted on the signal raises an error of its own: not two. */
static void stop(lua_State *L, lua_Debug *ar) {
  (void)ar;
  lua_sethook(L, NULL, 0, 0);
  if (context && !mrt_interrupt_clear(context)) return;
  raised = true;
  luaL_error(L, "interrupted!");
}

static void on_interrupt(int signal_number) {
  (void)signal_number;
  int every = LUA_MASKCALL | LUA_MASKRET | LUA_MASKLINE | LUA_MASKCOUNT;
  /* First: where another thread than Lua's has the signal, the hook may be called
   * as soon as it is set, and asks for this. */
  if (context) mrt_interrupt(context);
  lua_sethook(running, stop, every, 1);
}

/* Push the code of an error of mrt, "interrupted" for what `stop` raises; or
 * nil. */
static void push_code(lua_State *L) {
  static const char ours[] = "interrupted!";
  size_t n, own = sizeof ours - 1;
  if (lua_istable(L, 1)) {
    lua_pushliteral(L, "code");
    lua_rawget(L, 1);
    return;
  }
  const char *text =
      lua_type(L, 1) == LUA_TSTRING ? lua_tolstring(L, 1, &n) : NULL;
  bool stopped = raised && text && n >= own && !strcmp(text + n - own, ours);
  lua_pushstring(L, stopped ? "interrupted" : NULL);
}

/* Any error value as text, then the traceback, as far as the call: not of
 * Ctrl-C, which is no fault. */
static int explain(lua_State *L) {
  push_code(L);
  bool stopped = lua_type(L, -1) == LUA_TSTRING &&
                 !strcmp(lua_tostring(L, -1), "interrupted");
  lua_setfield(L, LUA_REGISTRYINDEX, "mrt.code");
  const char *message = luaL_tolstring(L, 1, NULL);
  if (!lua_isstring(L, 1) && !luaL_getmetafield(L, 1, "__tostring"))
    message =
        lua_pushfstring(L, "(error object is a %s value)", luaL_typename(L, 1));
  lua_pushstring(L, message);
  if (!stopped) mrt_program_traceback(L, depth);
  return 1;
}

int mrt_program_call(lua_State *L, int nargs, int nresults) {
  struct sigaction stopper = { .sa_handler = on_interrupt,
                               .sa_flags = (int)SA_RESETHAND };
  struct sigaction before;
  int base = lua_gettop(L) - nargs, outer = depth;
  lua_pushcfunction(L, explain);
  lua_insert(L, base);
  running = L;
  if (!outer) raised = false;
  depth = mrt_program_depth(L);
  sigemptyset(&stopper.sa_mask);
  sigaction(SIGINT, &stopper, &before);
  int status = lua_pcall(L, nargs, nresults, base);
  sigaction(SIGINT, &before, NULL);
  depth = outer;
  if (lua_gethook(L) == stop) lua_sethook(L, NULL, 0, 0);
  if (context) mrt_interrupt_clear(context);
  lua_remove(L, base);
  if (status == LUA_OK) { /* no error is the last one */
    lua_pushnil(L);
    lua_setfield(L, LUA_REGISTRYINDEX, "mrt.code");
  }
  return status;
}
