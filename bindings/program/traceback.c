/* traceback.c -- which functions led to an error
 *
 * As Lua's own, but for three things.  It ends where the program's code does.
 * Functions are named as the program calls them: Lua would look for a name in
 * every module that is loaded.  Functions of mrt are one line however many
 * there are, by the name of the one that the program called, unless there is
 * nothing else or the environment says MRT_TRACEBACK=full.
 *
 * SPDX-License-Identifier: MIT */
#include "program.h"

#include <lauxlib.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST = 10, LAST = 11 }; /* of the lines of a deep recursion */

typedef struct mrt_traceback {
  lua_State *L;
  luaL_Buffer *text;
  const char *root; /* how chunks of mrt begin; NULL: nothing is folded */
  int end;          /* one past the last level */
} mrt_traceback;

int mrt_program_depth(lua_State *L) {
  lua_Debug ar;
  int low = 0, high = 1; /* low is running, or 0; high is not */
  while (lua_getstack(L, high, &ar)) low = high, high *= 2;
  while (high - low > 1) {
    int middle = low + (high - low) / 2;
    if (lua_getstack(L, middle, &ar))
      low = middle;
    else
      high = middle;
  }
  return lua_getstack(L, low, &ar) ? low + 1 : 0;
}

static bool is_ours(const mrt_traceback *w, const lua_Debug *ar) {
  return w->root && !strncmp(ar->source, w->root, strlen(w->root));
}

static bool is_c(const lua_Debug *ar) { return *ar->what == 'C'; }

static void look(const mrt_traceback *w, int level, lua_Debug *ar) {
  lua_getstack(w->L, level, ar);
  lua_getinfo(w->L, "Slnt", ar);
}

static void add(const mrt_traceback *w, const char *text) {
  luaL_addstring(w->text, text);
}

/* Is this a function of the program's that mrt calls, by a name of its own? */
static bool is_called_back(const mrt_traceback *w, int level,
                           const lua_Debug *ar) {
  lua_Debug caller;
  if (is_c(ar) || is_ours(w, ar) || level + 1 >= w->end) return false;
  look(w, level + 1, &caller);
  return is_ours(w, &caller);
}

static void add_name(const mrt_traceback *w, int level, const lua_Debug *ar) {
  bool typed = !strcmp(ar->source, "=stdin") && level == w->end - 1;
  if (*ar->namewhat && !is_called_back(w, level, ar)) {
    add(w, strcmp(ar->namewhat, "global") ? ar->namewhat : "function");
    add(w, " '");
    add(w, ar->name);
    add(w, "'");
  } else if (*ar->what == 'm' || typed) {
    add(w, "main chunk");
  } else if (is_c(ar)) {
    add(w, "?");
  } else {
    lua_pushfstring(w->L, "function <%s:%d>", ar->short_src, ar->linedefined);
    luaL_addvalue(w->text);
  }
}

static void add_level(const mrt_traceback *w, int level, const char *place) {
  lua_Debug ar;
  look(w, level, &ar);
  add(w, "\n\t");
  if (place) {
    add(w, place);
  } else if (ar.currentline > 0) {
    lua_pushfstring(w->L, "%s:%d:", ar.short_src, ar.currentline);
    luaL_addvalue(w->text);
  } else {
    lua_pushfstring(w->L, "%s:", ar.short_src);
    luaL_addvalue(w->text);
  }
  add(w, " in ");
  add_name(w, level, &ar);
  if (ar.istailcall && !place) add(w, "\n\t(...tail calls...)");
}

/* The level behind a row of mrt's functions, and of C's between and around
 * them, that begins at `level`; `level` itself where there is no such row. */
static int behind_ours(const mrt_traceback *w, int level) {
  lua_Debug ar;
  bool some = false;
  int at = level;
  for (; at < w->end; at++) {
    look(w, at, &ar);
    if (is_ours(w, &ar))
      some = true;
    else if (!is_c(&ar))
      break;
  }
  return some ? at : level;
}

/* Is there a function of the program's among these? */
static bool has_others(const mrt_traceback *w, int level) {
  lua_Debug ar;
  for (int i = 0; level < w->end && i < 1000; level++, i++) {
    look(w, level, &ar);
    if (!is_c(&ar) && !is_ours(w, &ar)) return true;
  }
  return false;
}

static void add_levels(const mrt_traceback *w, int level) {
  int count = w->end - level;
  bool deep = count > FIRST + LAST;
  int skip = deep ? level + FIRST : w->end, go_on = w->end - LAST;
  while (level < w->end) {
    int next = behind_ours(w, level);
    if (next > level)
      add_level(w, next - 1, "mrt:");
    else
      add_level(w, next++, NULL);
    level = next;
    if (!deep || level < skip || level >= go_on) continue;
    lua_pushfstring(w->L, "\n\t...\t(skipping %d levels)", go_on - level);
    luaL_addvalue(w->text);
    level = go_on;
  }
}

/* What is known of a name in the message on top: mrt.util.hints.of. */
static void add_hint(lua_State *L) {
  int top = lua_gettop(L);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  bool loaded = lua_getfield(L, -1, "mrt") == LUA_TTABLE;
  if (loaded && strstr(lua_tostring(L, top), "attempt to ")) {
    lua_getglobal(L, "require");
    lua_pushliteral(L, "mrt.util.hints");
    if (lua_pcall(L, 1, 1, 0) == LUA_OK && lua_istable(L, -1)) {
      lua_getfield(L, -1, "of");
      lua_pushvalue(L, top);
      if (lua_pcall(L, 1, 1, 0) == LUA_OK && lua_isstring(L, -1)) {
        lua_pushfstring(L, "%s: %s", lua_tostring(L, top), lua_tostring(L, -1));
        lua_replace(L, top);
      }
    }
  }
  lua_settop(L, top);
}

void mrt_program_traceback(lua_State *L, int depth) {
  luaL_Buffer text;
  const char *whole = getenv("MRT_TRACEBACK");
  if (!lua_checkstack(L, 20)) return;
  add_hint(L);
  int message = lua_gettop(L);
  lua_getfield(L, LUA_REGISTRYINDEX, "mrt.lua");
  int root = lua_gettop(L);
  mrt_traceback w = { L, &text, lua_tostring(L, root),
                      mrt_program_depth(L) - depth };
  if ((whole && !strcmp(whole, "full")) || !has_others(&w, 1)) w.root = NULL;
  luaL_buffinit(L, &text);
  lua_pushvalue(L, message);
  luaL_addvalue(&text);
  add(&w, "\nstack traceback:");
  add_levels(&w, 1);
  luaL_pushresult(&text);
  lua_replace(L, message);
  lua_settop(L, message);
}
