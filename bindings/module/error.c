/* error.c -- the one place that raises
 *
 * An error is a table {code, op, message, position} whose text begins with
 * the line of the user's program, whatever library functions lie between:
 *
 *     train.lua:12: matmul: f32[2,3] against f32[4,5], ... (in blocks.3.fc)
 *
 * or, outside of modules, (in mrt/optim/sgd.lua:20).
 *
 * In a finalizer that does not catch it an error is its text alone: of any other
 * object Lua's warning says only that it is no string.
 *
 * SPDX-License-Identifier: MIT */
#include "binding.h"

#include <stdarg.h>
#include <string.h>

#define ERROR_TABLE "mrt.Error"

/* ---- raising ------------------------------------------------------------- */

/* Is this function, running at `ar`, one that catches errors? */
static bool catches(lua_State *L, const mrt_binding *m, lua_Debug *ar) {
  lua_getinfo(L, "f", ar);
  lua_CFunction f = lua_tocfunction(L, -1);
  lua_pop(L, 1);
  return f && (f == m->pcall || f == m->xpcall);
}

/* Will Lua itself catch what is raised here, to warn of it? */
static bool in_finalizer(lua_State *L, const mrt_binding *m) {
  lua_Debug ar;
  for (int level = 0; lua_getstack(L, level, &ar); level++) {
    if (catches(L, m, &ar)) return false;
    lua_getinfo(L, "n", &ar);
    if (ar.name && strcmp(ar.name, "__gc") == 0 &&
        strcmp(ar.namewhat, "metamethod") == 0)
      return true;
  }
  return false;
}

/* Push the name of the public function on top of the stack, which runs at this
 * level as `ar` says. */
static bool push_name(lua_State *L, int level, const lua_Debug *ar) {
  if (lua_tocfunction(L, -1) != mrt_lua_call_behind) {
    /* an operator, perhaps under another name of PyTorch's */
    bool method = lua_iscfunction(L, -1) && ar->name &&
                  strcmp(ar->namewhat, "method") == 0;
    if (method) lua_pushstring(L, ar->name);
    return method;
  }
  lua_getupvalue(L, -1, 4);
  if (lua_type(L, -1) == LUA_TSTRING) return true;
  bool by_type = lua_toboolean(L, -1); /* a class or an object: its name */
  lua_Debug behind; /* has it first, even where a tail call has taken over */
  if (!by_type || !lua_getstack(L, level - 1, &behind) ||
      !lua_getlocal(L, &behind, 1))
    return false;
  for (int i = 0; i < 2; i++) {
    if (!lua_istable(L, -1)) break;
    lua_pushliteral(L, "type");
    if (lua_rawget(L, -2) == LUA_TSTRING) return true;
    lua_pop(L, 1);
    if (!lua_getmetatable(L, -1)) break;
  }
  return false;
}

/* Does the text say this name already, alone or as the end of a path? */
static bool begins(const char *text, const char *name) {
  const char *end = strstr(text, ": ");
  size_t n = end ? (size_t)(end - text) : strcspn(text, " "), k = strlen(name);
  return n >= k && strncmp(text + n - k, name, k) == 0 &&
         (n == k || strchr(".:", text[n - k - 1]));
}

/* Put the function that the user's line called in front of the message on top,
 * which names the operator that refused: "argsort: sort: dim 0 ...".  Not where
 * the library catches the error itself, nor where the message is about data,
 * which an evaluation anywhere may find. */
static void name_caller(lua_State *L, const mrt_binding *m, mrt_status status,
                        int user) {
  static const char told[] = {
    [MRT_ESHAPE] = 1, [MRT_EDTYPE] = 1,  [MRT_EVALUE] = 1, [MRT_EGRAD] = 1,
    [MRT_ESTATE] = 1, [MRT_EBUDGET] = 1, [MRT_ENOMEM] = 1
  };
  if ((size_t)status >= sizeof told || !told[status]) return;
  lua_Debug ar;
  int message = lua_gettop(L), called = user - 1;
  luaL_checkstack(L, 6, NULL);
  for (int level = 0; level <= user - 1; level++) {
    lua_getstack(L, level, &ar);
    if (!catches(L, m, &ar)) continue;
    if (level < user - 1) return;
    called = level - 1; /* pcall(f, ...) */
  }
  if (called < 0 || !lua_getstack(L, called, &ar)) return;
  lua_getinfo(L, "nf", &ar);
  if (push_name(L, called, &ar) &&
      !begins(lua_tostring(L, message), lua_tostring(L, -1))) {
    lua_pushfstring(L, "%s: %s", lua_tostring(L, -1), lua_tostring(L, message));
    lua_replace(L, message);
  }
  lua_settop(L, message);
}

/* Where below the user's line: the module, or else the library's line. */
static void push_inner(lua_State *L, mrt_binding *m, bool has_user,
                       lua_Debug *inner) {
  if (!has_user || mrt_lua_place(m, inner->source) != MRT_LIBRARY) {
    lua_pushliteral(L, "");
  } else if (mrt_lua_push_path(L, m)) {
    lua_pushfstring(L, " (in %s)", lua_tostring(L, -1));
    lua_remove(L, -2);
  } else {
    lua_pushfstring(L, " (in %s:%d)", mrt_lua_show_file(m, inner),
                    inner->currentline);
  }
}

/* Replace the message on top by the error object that carries it. */
static void wrap(lua_State *L, mrt_binding *m, mrt_status status,
                 const char *op) {
  lua_Debug user, inner;
  int level = mrt_lua_find_level(L, m, MRT_USER, &user);
  bool has_user = level >= 0;
  if (has_user) name_caller(L, m, status, level);
  bool has_inner = mrt_lua_find_level(L, m, MRT_LIBRARY, &inner) >= 0;
  if (!has_user && has_inner) user = inner;
  luaL_checkstack(L, 6, NULL);
  lua_createtable(L, 0, 5);
  luaL_setmetatable(L, ERROR_TABLE);
  lua_pushstring(L, mrt_status_name(status));
  lua_setfield(L, -2, "code");
  lua_pushstring(L, op);
  lua_setfield(L, -2, "op");
  lua_pushvalue(L, -2);
  lua_setfield(L, -2, "message");
  lua_pushliteral(L, "");
  if (has_user || has_inner) {
    lua_pop(L, 1);
    lua_pushfstring(L, "%s:%d: ", mrt_lua_show_file(m, &user),
                    user.currentline);
    lua_pushlstring(L, lua_tostring(L, -1), lua_rawlen(L, -1) - 2);
    lua_setfield(L, -3, "position");
  }
  lua_pushvalue(L, -3);
  push_inner(L, m, has_user, &inner);
  lua_concat(L, 3);
  if (in_finalizer(L, m)) {
    lua_replace(L, -3);
    lua_pop(L, 1);
    return;
  }
  lua_setfield(L, -2, "text");
  lua_remove(L, -2);
}

/* NULL where the program has taken it away. */
static lua_CFunction global_function(lua_State *L, const char *name) {
  lua_pushglobaltable(L);
  lua_pushstring(L, name);
  lua_rawget(L, -2);
  lua_CFunction f = lua_tocfunction(L, -1);
  lua_pop(L, 2);
  return f;
}

int mrt_lua_fail(lua_State *L, mrt_binding *m, mrt_status status,
                 const char *op, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  lua_pushvfstring(L, fmt, args);
  va_end(args);
  if (op) {
    lua_pushfstring(L, "%s: %s", op, lua_tostring(L, -1));
    lua_remove(L, -2);
  }
  wrap(L, m, status, op);
  return lua_error(L);
}

/* Push the error that the core's message says. */
static void push_failure(lua_State *L, mrt_binding *m, mrt_status status,
                         const char *op) {
  size_t needed = status == MRT_EBUDGET ? mrt_budget_needed(m->ctx) : 0;
  lua_pushstring(L, mrt_message(m->ctx));
  wrap(L, m, status, op);
  if (!needed || !lua_istable(L, -1)) return;
  lua_pushinteger(L, (lua_Integer)needed);
  lua_setfield(L, -2, "needed");
}

int mrt_lua_raise(lua_State *L, mrt_binding *m, mrt_status status,
                  const char *op) {
  if (m->carried) { /* an error of Lua code that the core called */
    m->carried = false;
    lua_rawgetp(L, LUA_REGISTRYINDEX, &m->carried);
    lua_pushboolean(L, 0);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &m->carried);
    return lua_error(L);
  }
  push_failure(L, m, status, op);
  return lua_error(L);
}

int mrt_lua_offer(lua_State *L, mrt_binding *m, int plan, const char *op) {
  push_failure(L, m, MRT_EBUDGET, op);
  if (lua_istable(L, -1)) {
    lua_pushvalue(L, plan);
    lua_setfield(L, -2, "plan");
  }
  return lua_error(L);
}

int mrt_lua_failed(lua_State *L, mrt_binding *m, mrt_status status,
                   const char *op) {
  if (status != MRT_EFILE && status != MRT_EDATA)
    return mrt_lua_raise(L, m, status, op);
  lua_pushnil(L);
  lua_pushstring(L, mrt_message(m->ctx));
  lua_pushstring(L, mrt_status_name(status));
  return 3;
}

const char *mrt_lua_check_text(lua_State *L, mrt_binding *m, int arg,
                               const char *who, const char *what) {
  if (lua_type(L, arg) != LUA_TSTRING)
    mrt_lua_fail(L, m, MRT_EVALUE, who, "%s is %s, a string wanted", what,
                 mrt_lua_show(L, arg));
  const char *text = lua_tostring(L, arg);
  if (strlen(text) != lua_rawlen(L, arg))
    mrt_lua_fail(L, m, MRT_EVALUE, who, "%s has a zero byte", what);
  return text;
}

static int error_text(lua_State *L) {
  lua_getfield(L, 1, "text");
  return 1;
}

static int error_concat(lua_State *L) {
  luaL_tolstring(L, 1, NULL);
  luaL_tolstring(L, 2, NULL);
  lua_concat(L, 2);
  return 1;
}

/* fail(code, op, message): raise an error object from Lua. */
static int fail(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  const char *code = luaL_checkstring(L, 1);
  const char *op = luaL_optstring(L, 2, NULL);
  const char *message = luaL_checkstring(L, 3);
  int status = MRT_EVALUE;
  for (int s = 1; strcmp(mrt_status_name((mrt_status)s), "unknown") != 0; s++)
    if (strcmp(mrt_status_name((mrt_status)s), code) == 0) status = s;
  return mrt_lua_fail(L, m, (mrt_status)status, op, "%s", message);
}

const char *mrt_lua_show(lua_State *L, int arg) {
  mrt_tensor **slot = luaL_testudata(L, arg, MRT_TENSOR);
  if (slot && *slot) {
    char text[256];
    mrt_type_print(mrt_tensor_type(*slot), text, sizeof text);
    return lua_pushstring(L, text);
  }
  switch (lua_type(L, arg)) {
  case LUA_TNIL:
  case LUA_TBOOLEAN:
  case LUA_TNUMBER:
    return luaL_tolstring(L, arg, NULL);
  case LUA_TSTRING:
    return lua_pushfstring(L, "'%s'", lua_tostring(L, arg));
  case LUA_TNONE:
    return lua_pushliteral(L, "nothing");
  default:
    return lua_pushfstring(L, "a %s", luaL_typename(L, arg));
  }
}

void mrt_lua_error_open(lua_State *L, mrt_binding *m) {
  static const luaL_Reg functions[] = {
    { "fail", fail },
    { NULL, NULL },
  };
  m->pcall = global_function(L, "pcall");
  m->xpcall = global_function(L, "xpcall");
  luaL_newmetatable(L, ERROR_TABLE);
  lua_pushcfunction(L, error_text);
  lua_setfield(L, -2, "__tostring");
  lua_pushcfunction(L, error_concat);
  lua_setfield(L, -2, "__concat");
  lua_pop(L, 1);
  mrt_lua_register(L, m, functions);
}
