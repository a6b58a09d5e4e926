/* called.c -- public functions as they are called, and where in the program
 * and in which module that is
 *
 * A node belongs to the innermost line of the user's own code, and to the
 * module that is called, whose path Lua's stack tells: each call of a module
 * passes mrt_lua_call_behind.
 *
 * To walk up the stack for each node would cost more than the node.  So each
 * call of a module has a number, and the line above it is remembered by that;
 * and where no module is called nobody looks for one.
 *
 * SPDX-License-Identifier: MIT */
#include "binding.h"

#include <stdio.h>
#include <string.h>

/* ---- calls --------------------------------------------------------------- */

static int within(lua_State *L);

/* What is ours at the bottom of the stack of a call: what it is a call of, and
 * its number. */
enum { KEPT = 2 };

static void begin(lua_State *L, mrt_binding *m) {
  lua_pushinteger(L, ++m->calls);
  m->under_way++;
}

static void end(mrt_binding *m) {
  if (m->under_way > 0) m->under_way--;
}

/* KEPT values at the bottom of the stack are ours, the others results. */
static int returned(lua_State *L, int status, lua_KContext kept) {
  (void)status;
  if (kept) end(lua_touserdata(L, lua_upvalueindex(3)));
  return lua_gettop(L) - (int)kept;
}

int mrt_lua_call_behind(lua_State *L) {
  mrt_binding *m = lua_touserdata(L, lua_upvalueindex(3));
  const char *method = lua_tostring(L, lua_upvalueindex(2));
  if (method && !mrt_lua_is_tensor(L, 1))
    return mrt_lua_fail(L, m, MRT_EVALUE, method,
                        "a tensor wanted in front, got %s: x:%s(), with a "
                        "colon",
                        mrt_lua_show(L, 1), method);
  int kept =
      lua_isboolean(L, lua_upvalueindex(4)) && lua_gettop(L) > 0 ? KEPT : 0;
  luaL_checkstack(L, 4, NULL);
  if (kept) {
    lua_pushvalue(L, 1);
    begin(L, m);
    lua_rotate(L, 1, KEPT);
  }
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1 + kept);
  lua_callk(L, lua_gettop(L) - 1 - kept, LUA_MULTRET, kept, returned);
  if (kept) end(m);
  return lua_gettop(L) - kept;
}

static int within_returned(lua_State *L, int status, lua_KContext kept) {
  (void)status;
  end(lua_touserdata(L, lua_upvalueindex(1)));
  return lua_gettop(L) - (int)kept;
}

/* within(path, f, ...): call f(...); what it computes belongs to what is named
 * so, as to a module. */
static int within(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  luaL_checktype(L, 1, LUA_TSTRING);
  luaL_checkany(L, 2);
  begin(L, m);
  lua_insert(L, KEPT);
  lua_callk(L, lua_gettop(L) - KEPT - 1, LUA_MULTRET, KEPT, within_returned);
  end(m);
  return lua_gettop(L) - KEPT;
}

/* front(f, method?, name?): a C function that calls f; a method checks that its
 * first argument is a tensor.  The name is for messages (the method's, if none
 * is given; true: the `type` of its first argument).  debug.getupvalue finds f. */
static int front(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  luaL_checktype(L, 1, LUA_TFUNCTION);
  luaL_optstring(L, 2, NULL);
  lua_settop(L, 3);
  if (lua_isnil(L, 3)) lua_copy(L, 2, 3);
  lua_pushlightuserdata(L, m);
  lua_insert(L, 3);
  lua_pushcclosure(L, mrt_lua_call_behind, 4);
  return 1;
}

/* ---- modules ------------------------------------------------------------- */

/* Is the function at `ar` one of ours: its number, else 0.  Pushes what it is a
 * call of. */
static lua_Integer push_call(lua_State *L, lua_Debug *ar) {
  lua_getinfo(L, "f", ar);
  lua_CFunction f = lua_tocfunction(L, -1);
  bool ours = f == within;
  if (f == mrt_lua_call_behind) {
    lua_getupvalue(L, -1, 4);
    ours = lua_isboolean(L, -1);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  if (!ours || !lua_getlocal(L, ar, KEPT)) return 0;
  lua_Integer number = lua_tointeger(L, -1);
  lua_pop(L, 1);
  if (number) lua_getlocal(L, ar, 1);
  return number;
}

/* The path of what is on top, a module or a path: pushed; "": a module that is
 * in no other.  False, and nothing is pushed: it has none. */
static bool push_path_of(lua_State *L, mrt_binding *m) {
  if (lua_type(L, -1) == LUA_TSTRING && lua_rawlen(L, -1)) {
    lua_pushvalue(L, -1);
    return true;
  }
  if (!lua_istable(L, -1)) return false;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &m->open);
  lua_pushvalue(L, -2);
  lua_rawget(L, -2);
  lua_remove(L, -2);
  if (lua_type(L, -1) == LUA_TSTRING) return true;
  lua_pop(L, 1);
  return false;
}

/* The same, with a name for a module that is in no other: its class. */
static const char *push_label_of(lua_State *L, mrt_binding *m) {
  if (!push_path_of(L, m)) return NULL;
  if (lua_rawlen(L, -1) == 0) {
    lua_getfield(L, -2, "type");
    lua_remove(L, -2);
  }
  return lua_tostring(L, -1);
}

bool mrt_lua_push_path(lua_State *L, mrt_binding *m) {
  lua_Debug ar;
  luaL_checkstack(L, MRT_LUA_WALK, NULL);
  for (int level = 0; lua_getstack(L, level, &ar); level++) {
    if (!push_call(L, &ar)) continue;
    bool found = push_path_of(L, m);
    lua_remove(L, found ? -2 : -1);
    if (!found) continue;
    if (lua_rawlen(L, -1)) return true;
    lua_pop(L, 1);
    return false;
  }
  return false;
}

/* ---- where it is --------------------------------------------------------- */

enum { MOST_PASSED = 8 };

/* What a walk up the stack finds. */
typedef struct call_walk {
  const char *module;              /* on the stack; NULL: none yet */
  mrt_lua_line at;                 /* call: 1 once it is found */
  lua_Integer passed[MOST_PASSED]; /* calls below the line */
  int count;
} call_walk;

static mrt_lua_line *line_of(mrt_binding *m, lua_Integer call) {
  return &m->lines[call % MRT_LINES];
}

/* A level that runs C: a call of a module? */
static void look_at_call(lua_State *L, mrt_binding *m, lua_Debug *ar,
                         call_walk *w) {
  lua_Integer call = push_call(L, ar);
  if (!call) return;
  if (!w->module) w->module = push_label_of(L, m);
  if (w->at.call) return;
  const mrt_lua_line *known = line_of(m, call);
  if (known->call == call)
    w->at = *known, w->at.call = 1;
  else if (w->count < MOST_PASSED)
    w->passed[w->count++] = call;
}

static void look_at_line(lua_State *L, mrt_binding *m, lua_Debug *ar,
                         call_walk *w) {
  lua_getinfo(L, "S", ar);
  if (!mrt_lua_is_user(m, ar->source)) return;
  w->at.call = 1, w->at.line = ar->currentline;
  memcpy(w->at.file, ar->short_src, sizeof w->at.file);
}

/* The library's own line, where no user is. */
static void look_within(lua_State *L, mrt_binding *m, call_walk *w) {
  lua_Debug ar;
  bool found = mrt_lua_find_level(L, m, MRT_LIBRARY, &ar) >= 0;
  w->at.line = found ? ar.currentline : 0;
  snprintf(w->at.file, sizeof w->at.file, "%s",
           found ? mrt_lua_show_file(m, &ar) : "?");
}

/* Remember the line for the calls below it. */
static void remember(mrt_binding *m, const call_walk *w) {
  for (int i = 0; i < w->count; i++) {
    mrt_lua_line *known = line_of(m, w->passed[i]);
    *known = w->at, known->call = w->passed[i];
  }
}

void mrt_lua_at(lua_State *L, mrt_binding *m) {
  lua_Debug ar;
  call_walk w = { 0 };
  int top = lua_gettop(L), kept = top; /* kept: the module's label too */
  luaL_checkstack(L, MRT_LUA_WALK, NULL);
  /* level 0 is a function of ours */
  for (int level = 1; !(w.at.call && (w.module || !m->under_way)) &&
                      lua_getstack(L, level, &ar);
       level++) {
    lua_getinfo(L, "l", &ar);
    if (ar.currentline <= 0 && m->under_way)
      look_at_call(L, m, &ar, &w);
    else if (ar.currentline > 0 && !w.at.call)
      look_at_line(L, m, &ar, &w);
    if (w.module && kept == top) kept = lua_gettop(L);
    lua_settop(L, kept);
  }
  if (w.at.call)
    remember(m, &w);
  else
    look_within(L, m, &w);
  for (int i = 0; i < m->open_count; i++)
    mrt_set_origin(m->open[i], w.at.file, w.at.line, w.module);
  lua_settop(L, top);
}

void mrt_lua_count_anew(lua_State *L, mrt_binding *m) {
  lua_Debug ar;
  int top = lua_gettop(L);
  luaL_checkstack(L, MRT_LUA_WALK, NULL);
  for (int level = 1; lua_getstack(L, level, &ar); level++) {
    bool called = push_call(L, &ar) != 0;
    lua_settop(L, top);
    if (called) return;
  }
  if (L == m->main) m->under_way = 0;
}

void mrt_lua_called_open(lua_State *L, mrt_binding *m) {
  static const luaL_Reg functions[] = {
    { "front", front },
    { "within", within },
    { NULL, NULL },
  };
  mrt_lua_register(L, m, functions);
  lua_newtable(L); /* module_paths: module -> its path, "" of the outermost */
  lua_createtable(L, 0, 1);
  lua_pushliteral(L, "k");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &m->open);
  lua_setfield(L, -2, "module_paths");
}
