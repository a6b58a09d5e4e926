/* option.c -- an operator's options from Lua arguments, by its schema
 *
 * x:sum(2, true), x:sum{dim = 2, keepdim = true} and x:sum(2, {keepdim = true})
 * are the same call.  Dimensions and positions come 1-based, negative from the
 * end, and leave 0-based; the operator's own check knows the range.
 *
 * SPDX-License-Identifier: MIT */
#include "binding.h"

#include <string.h>

void mrt_lua_call_init(mrt_lua_call *call, const mrt_op *op) {
  call->op = op;
  call->info = mrt_op_get_info(op);
  mrt_options_init(op, call->options.bytes);
}

bool mrt_lua_call_set(mrt_lua_call *call, mrt_option_kind kind,
                      const void *value, size_t size) {
  for (int i = 0; i < call->info.option_count; i++)
    if (call->info.options[i].kind == kind) {
      memcpy(call->options.bytes + call->info.options[i].offset, value, size);
      return true;
    }
  return false;
}

/* ---- one value ----------------------------------------------------------- */

/* Who asks for which option, and where its value is to go. */
typedef struct slot {
  lua_State *L;
  mrt_binding *m;
  const char *who;
  const mrt_option *option;
  void *at;
} slot;

static void refuse(const slot *s, int arg, const char *wanted) {
  mrt_lua_fail(s->L, s->m, MRT_EVALUE, s->who, "option '%s': %s wanted, got %s",
               s->option->name, wanted, mrt_lua_show(s->L, arg));
}

static lua_Integer read_integer(const slot *s, int arg, const char *wanted) {
  int is_integer;
  lua_Integer v = lua_tointegerx(s->L, arg, &is_integer);
  if (!is_integer || lua_type(s->L, arg) != LUA_TNUMBER) refuse(s, arg, wanted);
  return v;
}

/* 1-based to 0-based; from the end stays as it is. */
static lua_Integer read_place(const slot *s, int arg, bool dim) {
  lua_Integer v = read_integer(s, arg, dim ? "a dimension" : "a position");
  if (v == 0)
    mrt_lua_fail(s->L, s->m, MRT_EVALUE, s->who,
                 "%s 0: %s count from 1 (or from the end: -1)",
                 dim ? "dim" : s->option->name,
                 dim ? "dimensions" : "positions");
  return v > 0 ? v - 1 : v;
}

static void set_int(const slot *s, int arg) {
  int64_t v = read_integer(s, arg, "an integer");
  memcpy(s->at, &v, sizeof v);
}

static void set_num(const slot *s, int arg) {
  if (lua_type(s->L, arg) != LUA_TNUMBER) refuse(s, arg, "a number");
  double v = lua_tonumber(s->L, arg);
  memcpy(s->at, &v, sizeof v);
}

static void set_bool(const slot *s, int arg) {
  if (!lua_isboolean(s->L, arg)) refuse(s, arg, "true or false");
  bool v = lua_toboolean(s->L, arg);
  memcpy(s->at, &v, sizeof v);
}

static void set_dim(const slot *s, int arg) {
  int64_t v = read_place(s, arg, true);
  memcpy(s->at, &v, sizeof v);
}

static void set_index(const slot *s, int arg) {
  int64_t v = read_place(s, arg, false);
  memcpy(s->at, &v, sizeof v);
}

static void set_dtype(const slot *s, int arg) {
  mrt_dtype v = mrt_lua_check_dtype(s->L, s->m, arg, s->who);
  memcpy(s->at, &v, sizeof v);
}

static void set_word(const slot *s, int arg) {
  size_t n = 0;
  const char *given =
      lua_type(s->L, arg) == LUA_TSTRING ? lua_tolstring(s->L, arg, &n) : NULL;
  int word = given ? mrt_option_word(s->option, given, n) : -1;
  if (word < 0)
    refuse(s, arg, lua_pushfstring(s->L, "one of %s", s->option->words));
  memcpy(s->at, &word, sizeof word);
}

/* A list, or a number as a list of one. */
static void set_list(const slot *s, int arg) {
  lua_State *L = s->L;
  bool dims = s->option->kind == MRT_OPT_DIMS;
  mrt_ints v = { 0 };
  bool single = !lua_istable(L, arg);
  lua_Unsigned n = single ? 1 : lua_rawlen(L, arg);
  if (n > MRT_MAX_RANK)
    mrt_lua_fail(L, s->m, MRT_EVALUE, s->who,
                 "option '%s': %I integers, at most %d wanted", s->option->name,
                 (LUAI_UACINT)n, (int)MRT_MAX_RANK);
  for (lua_Unsigned i = 0; i < n; i++) {
    if (single)
      lua_pushvalue(L, arg);
    else
      lua_rawgeti(L, arg, (lua_Integer)i + 1);
    v.at[v.count++] =
        dims ? read_place(s, -1, true) : read_integer(s, -1, "integers");
    lua_pop(L, 1);
  }
  memcpy(s->at, &v, sizeof v);
}

static void set_value(lua_State *L, mrt_binding *m, mrt_lua_call *call,
                      const mrt_option *o, int arg) {
  static void (*const setters[])(const slot *, int) = {
    [MRT_OPT_INT] = set_int,     [MRT_OPT_NUM] = set_num,
    [MRT_OPT_BOOL] = set_bool,   [MRT_OPT_DIM] = set_dim,
    [MRT_OPT_INDEX] = set_index, [MRT_OPT_DTYPE] = set_dtype,
    [MRT_OPT_ENUM] = set_word,   [MRT_OPT_INTS] = set_list,
    [MRT_OPT_DIMS] = set_list,
  };
  slot s = { L, m, call->info.name, o, call->options.bytes + o->offset };
  setters[o->kind](&s, lua_absindex(L, arg));
}

mrt_dtype mrt_lua_check_dtype(lua_State *L, mrt_binding *m, int arg,
                              const char *who) {
  const char *name =
      lua_type(L, arg) == LUA_TSTRING ? lua_tostring(L, arg) : NULL;
  mrt_dtype dtype = name ? mrt_dtype_find(name) : MRT_DTYPE_COUNT;
  if (dtype != MRT_DTYPE_COUNT) return dtype;
  const char *given = mrt_lua_show(L, arg);
  lua_pushliteral(L, "");
  for (int d = 0; d < MRT_DTYPE_COUNT; d++) {
    lua_pushfstring(L, d ? " %s" : "%s", mrt_dtype_name((mrt_dtype)d));
    lua_concat(L, 2);
  }
  mrt_lua_fail(L, m, MRT_EDTYPE, who, "no dtype %s, one of %s wanted", given,
               lua_tostring(L, -1));
  return dtype;
}

void mrt_lua_check_ints(lua_State *L, mrt_binding *m, int arg, const char *who,
                        const char *option, mrt_ints *ints) {
  mrt_option o = { .name = option, .kind = MRT_OPT_INTS };
  slot s = { L, m, who, &o, ints };
  if (!lua_istable(L, arg)) refuse(&s, arg, "a list of integers");
  set_list(&s, arg);
}

/* ---- all of them --------------------------------------------------------- */

static bool is_list(const mrt_option *o) {
  return o->kind == MRT_OPT_INTS || o->kind == MRT_OPT_DIMS;
}

static bool is_empty(lua_State *L, int arg) {
  return lua_istable(L, arg) && lua_rawlen(L, arg) == 0;
}

/* Does the table at `arg` have a key that is not a position? */
static bool has_names(lua_State *L, int arg) {
  if (!lua_istable(L, arg)) return false;
  lua_pushnil(L);
  while (lua_next(L, arg)) {
    lua_pop(L, 1);
    if (lua_type(L, -1) != LUA_TNUMBER) return lua_pop(L, 1), true;
  }
  return false;
}

/* Gather the numbers from `arg` on into a list option; returns what follows. */
static int gather(lua_State *L, mrt_binding *m, mrt_lua_call *call,
                  const mrt_option *o, int arg, int last) {
  if (lua_type(L, arg) != LUA_TNUMBER) {
    set_value(L, m, call, o, arg);
    return arg + 1;
  }
  int n = 0;
  lua_createtable(L, 4, 0);
  for (; arg <= last && lua_type(L, arg) == LUA_TNUMBER; arg++) {
    lua_pushvalue(L, arg);
    lua_rawseti(L, -2, ++n);
  }
  set_value(L, m, call, o, -1);
  lua_pop(L, 1);
  return arg;
}

static uint64_t read_positional(lua_State *L, mrt_binding *m,
                                mrt_lua_call *call, int arg, int last) {
  uint64_t given = 0;
  const int first = arg;
  const mrt_option *o = call->info.options;
  for (int i = 0; i < call->info.option_count && arg <= last; i++) {
    if (o[i].kind == MRT_OPT_HIDDEN) continue;
    if (lua_isnil(L, arg) || (is_empty(L, arg) && !is_list(&o[i]))) {
      arg++;
      continue;
    }
    given |= UINT64_C(1) << i;
    if (is_list(&o[i]))
      arg = gather(L, m, call, &o[i], arg, last);
    else
      set_value(L, m, call, &o[i], arg++);
  }
  for (; arg <= last; arg++)
    if (!lua_isnil(L, arg) && !is_empty(L, arg))
      mrt_lua_fail(L, m, MRT_EVALUE, call->info.name,
                   "unexpected argument: %s%s", mrt_lua_show(L, arg),
                   arg > first && lua_isnil(L, first)
                       ? ", behind a nil (as x.shape[0] is: dimensions count "
                         "from 1)"
                       : "");
  return given;
}

static void unknown(lua_State *L, mrt_binding *m, mrt_lua_call *call, int key) {
  char names[512];
  const char *name = luaL_tolstring(L, key, NULL);
  mrt_option_names(call->op, names, sizeof names);
  if (!names[0])
    mrt_lua_fail(L, m, MRT_EVALUE, call->info.name,
                 "no option '%s' (there are none)", name);
  mrt_lua_fail(L, m, MRT_EVALUE, call->info.name,
               "no option '%s' (options: %s)", name, names);
}

static int find_option(lua_State *L, const mrt_lua_call *call, int key) {
  size_t n = 0;
  const char *name =
      lua_type(L, key) == LUA_TSTRING ? lua_tolstring(L, key, &n) : "";
  return mrt_option_find(call->op, name, n);
}

static uint64_t read_named(lua_State *L, mrt_binding *m, mrt_lua_call *call,
                           int table, uint64_t given) {
  luaL_checkstack(L, 8, NULL);
  lua_pushnil(L);
  while (lua_next(L, table)) {
    if (lua_type(L, -2) == LUA_TNUMBER) { /* read as a list already */
      lua_pop(L, 1);
      continue;
    }
    int i = find_option(L, call, -2);
    if (i < 0) unknown(L, m, call, -2);
    const mrt_option *o = &call->info.options[i];
    if (given & UINT64_C(1) << i)
      mrt_lua_fail(L, m, MRT_EVALUE, call->info.name,
                   "option '%s' is given twice", o->name);
    given |= UINT64_C(1) << i;
    set_value(L, m, call, o, -1);
    lua_pop(L, 1);
  }
  return given;
}

void mrt_lua_read_options(lua_State *L, mrt_binding *m, mrt_lua_call *call,
                          int first, int last) {
  while (last >= first && lua_isnil(L, last)) last--;
  bool named = last >= first && has_names(L, last);
  bool list_too = named && lua_rawlen(L, last) > 0; /* {2, 3, dtype = "f64"} */
  uint64_t given =
      read_positional(L, m, call, first, last - (named && !list_too));
  if (named) given = read_named(L, m, call, last, given);
  for (int i = 0; i < call->info.option_count; i++) {
    const mrt_option *o = &call->info.options[i];
    if (o->required && !(given & UINT64_C(1) << i))
      mrt_lua_fail(L, m, MRT_EVALUE, call->info.name, "option '%s' is missing",
                   o->name);
  }
}
