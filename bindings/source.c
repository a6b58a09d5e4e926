/* source.c -- files of arrays, for Lua
 *
 * What the world does to files comes back as nil, message, code; the rest
 * raises.
 *
 * SPDX-License-Identifier: MIT */
#include "fields.h"

#include <stdlib.h>
#include <string.h>

#define SOURCE "mrt.Source"

/* Return nil, message, code for what the world does, raise the rest. */
static int failed(lua_State *L, mrt_binding *m, mrt_status status,
                  const char *who) {
  if (status != MRT_EFILE && status != MRT_EDATA)
    return mrt_lua_raise(L, m, status, who);
  lua_pushnil(L);
  lua_pushstring(L, mrt_message(m->ctx));
  lua_pushstring(L, mrt_status_name(status));
  return 3;
}

/* As MRT_CHECK, but returns from the function with what `failed` pushes. */
#define TRY(L, m, who, call)                                                   \
  do {                                                                         \
    mrt_status status_ = (call);                                               \
    if (status_ == MRT_ENOMEM) {                                               \
      mrt_lua_collect(L);                                                      \
      status_ = (call);                                                        \
    }                                                                          \
    if (status_ != MRT_OK) return failed(L, m, status_, who);                  \
  } while (0)

static const char *check_text(lua_State *L, mrt_binding *m, int arg,
                              const char *who, const char *what) {
  if (lua_type(L, arg) != LUA_TSTRING)
    mrt_lua_fail(L, m, MRT_EVALUE, who, "%s is %s, a string wanted", what,
                 mrt_lua_show(L, arg));
  const char *text = lua_tostring(L, arg);
  if (strlen(text) != lua_rawlen(L, arg))
    mrt_lua_fail(L, m, MRT_EVALUE, who, "%s has a zero byte", what);
  return text;
}

/* open_source(path, format) */
static int open_source(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  const char *path = check_text(L, m, 1, "open", "the path");
  const char *format = check_text(L, m, 2, "open", "the format");
  mrt_source **slot = lua_newuserdatauv(L, sizeof *slot, 0);
  *slot = NULL;
  luaL_setmetatable(L, SOURCE);
  TRY(L, m, "open", mrt_source_open(m->ctx, path, format, slot));
  return 1;
}

static mrt_source *check_source(lua_State *L, mrt_binding *m) {
  mrt_source **slot = luaL_checkudata(L, 1, SOURCE);
  if (!*slot) mrt_lua_fail(L, m, MRT_ESTATE, NULL, "the file is closed");
  return *slot;
}

/* An array's number at 2, from 1. */
static int check_array(lua_State *L, const mrt_source *s) {
  lua_Integer i = luaL_checkinteger(L, 2);
  luaL_argcheck(L, i >= 1 && i <= mrt_source_count(s), 2, "no such array");
  return (int)i - 1;
}

static int close_source(lua_State *L) {
  mrt_source **slot = luaL_checkudata(L, 1, SOURCE), *s = *slot;
  *slot = NULL;
  mrt_source_free(s);
  return 0;
}

static int count(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  lua_pushinteger(L, mrt_source_count(check_source(L, m)));
  return 1;
}

/* get(i): {name, stored, dtype, shape}; dtype nil where no tensor has it. */
static int get(lua_State *L) {
  mrt_source *s = check_source(L, mrt_binding_get(L));
  mrt_array_info a = mrt_source_get(s, check_array(L, s));
  lua_createtable(L, 0, 4);
  set_text(L, "name", a.name);
  set_text(L, "stored", a.stored);
  set_text(L, "dtype", a.readable ? mrt_dtype_name(a.type.dtype) : NULL);
  lua_createtable(L, a.type.rank, 0);
  for (int d = 0; d < a.type.rank; d++) {
    lua_pushinteger(L, a.type.dims[d]);
    lua_rawseti(L, -2, d + 1);
  }
  lua_setfield(L, -2, "shape");
  return 1;
}

static int metadata(lua_State *L) {
  mrt_source *s = check_source(L, mrt_binding_get(L));
  const char *key, *value;
  lua_newtable(L);
  for (int i = 0; (key = mrt_source_metadata(s, i, &value)); i++)
    set_text(L, key, value);
  return 1;
}

/* read(i) */
static int read_array(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  mrt_source *s = check_source(L, m);
  int i = check_array(L, s);
  mrt_lua_at(L, m);
  mrt_tensor **slot = mrt_lua_new_tensor(L);
  TRY(L, m, "read", mrt_source_read(s, i, slot));
  mrt_lua_pressure(L, m);
  return 1;
}

/* The list of integers at `arg`, on the stack. */
static int64_t *check_rows(lua_State *L, int arg, size_t *n) {
  luaL_checktype(L, arg, LUA_TTABLE);
  *n = lua_rawlen(L, arg);
  luaL_argcheck(L, *n <= SIZE_MAX / 2 / sizeof(int64_t), arg, "too long");
  int64_t *rows = lua_newuserdatauv(L, *n * sizeof *rows + 1, 0);
  for (size_t k = 0; k < *n; k++) {
    lua_rawgeti(L, arg, (lua_Integer)k + 1);
    rows[k] = luaL_checkinteger(L, -1);
    lua_pop(L, 1);
  }
  return rows;
}

/* rows(i, {row, ...}, length?): rows from 0; see mrt_source_read_rows. */
static int read_rows(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  mrt_source *s = check_source(L, m);
  int i = check_array(L, s);
  size_t n;
  int64_t length = luaL_optinteger(L, 4, 0);
  luaL_argcheck(L, length >= 0, 4, "negative");
  int64_t *rows = check_rows(L, 3, &n);
  mrt_lua_at(L, m);
  mrt_tensor **slot = mrt_lua_new_tensor(L);
  TRY(L, m, "rows", mrt_source_read_rows(s, i, rows, (int64_t)n, length, slot));
  mrt_lua_pressure(L, m);
  return 1;
}

/* expect(i, {row, ...}, length?) */
static int expect_rows(lua_State *L) {
  mrt_source *s = check_source(L, mrt_binding_get(L));
  int i = check_array(L, s);
  size_t n;
  int64_t length = luaL_optinteger(L, 4, 0);
  int64_t *rows = check_rows(L, 3, &n);
  mrt_source_expect(s, i, rows, (int64_t)n, length);
  return 0;
}

/* ---- saving -------------------------------------------------------------- */

static int by_name(const void *p, const void *q) {
  const mrt_named *a = p, *b = q;
  return strcmp(a->name, b->name);
}

/* The map of tensors at `arg` as an array by name, left on the stack: what it
 * borrows stays with the table. */
static mrt_named *check_named(lua_State *L, mrt_binding *m, int arg, int *n) {
  *n = 0;
  if (!lua_istable(L, arg))
    mrt_lua_fail(L, m, MRT_EVALUE, "save", "tensors by name wanted, got %s",
                 mrt_lua_show(L, arg));
  for (lua_pushnil(L); lua_next(L, arg); lua_pop(L, 1)) {
    if (++*n > MRT_LONGEST_LIST)
      mrt_lua_fail(L, m, MRT_EVALUE, "save", "too many tensors");
  }
  mrt_named *list = lua_newuserdatauv(L, (size_t)*n * sizeof *list + 1, 0);
  int i = 0;
  for (lua_pushnil(L); lua_next(L, arg); lua_pop(L, 1), i++) {
    list[i].name = check_text(L, m, -2, "save", "a name");
    list[i].tensor = mrt_lua_to_tensor(L, m, -1);
    if (!list[i].tensor)
      mrt_lua_fail(L, m, MRT_EVALUE, "save", "'%s' is %s, a tensor wanted",
                   list[i].name, mrt_lua_show(L, -1));
  }
  qsort(list, (size_t)*n, sizeof *list, by_name);
  return list;
}

static mrt_text_pair *check_pairs(lua_State *L, mrt_binding *m, int arg,
                                  int *n) {
  *n = 0;
  if (lua_isnoneornil(L, arg)) return NULL;
  if (!lua_istable(L, arg))
    mrt_lua_fail(L, m, MRT_EVALUE, "save", "metadata is %s, a table wanted",
                 mrt_lua_show(L, arg));
  for (lua_pushnil(L); lua_next(L, arg); lua_pop(L, 1)) ++*n;
  mrt_text_pair *list = lua_newuserdatauv(L, (size_t)*n * sizeof *list + 1, 0);
  int i = 0;
  for (lua_pushnil(L); lua_next(L, arg); lua_pop(L, 1), i++) {
    list[i].key = check_text(L, m, -2, "save", "a key of metadata");
    list[i].value = check_text(L, m, -1, "save", "a value of metadata");
  }
  return list;
}

static int saved(lua_State *L) {
  lua_pushboolean(L, 1);
  return 1;
}

/* save_safetensors(path, {name = tensor}, {key = text}?) */
static int save_safetensors(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  lua_settop(L, 3);
  int n, pair_count;
  const char *path = check_text(L, m, 1, "save", "the path");
  mrt_named *list = check_named(L, m, 2, &n);
  mrt_text_pair *pairs = check_pairs(L, m, 3, &pair_count);
  mrt_lua_at(L, m);
  TRY(L, m, "save",
      mrt_save_safetensors(m->ctx, path, list, n, pairs, pair_count));
  return saved(L);
}

/* save_npz(path, {name = tensor}, deflate?) */
static int save_npz(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  lua_settop(L, 3);
  int n;
  const char *path = check_text(L, m, 1, "save", "the path");
  mrt_named *list = check_named(L, m, 2, &n);
  bool deflate = lua_toboolean(L, 3);
  mrt_lua_at(L, m);
  TRY(L, m, "save", mrt_save_npz(m->ctx, path, list, n, deflate));
  return saved(L);
}

/* save_npy(path, tensor) */
static int save_npy(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  const char *path = check_text(L, m, 1, "save", "the path");
  mrt_tensor *t = mrt_lua_check_tensor(L, m, 2, "save");
  mrt_lua_at(L, m);
  TRY(L, m, "save", mrt_save_npy(m->ctx, path, t));
  return saved(L);
}

/* formats(): {name, ending, doc} of each. */
static int formats(lua_State *L) {
  const char *name, *ending, *doc;
  lua_newtable(L);
  for (int i = 0; (name = mrt_format_name(i, &ending, &doc)); i++) {
    lua_createtable(L, 0, 3);
    set_text(L, "name", name);
    set_text(L, "ending", ending);
    set_text(L, "doc", doc);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

void mrt_source_binding_open(lua_State *L, mrt_binding *m) {
  static const luaL_Reg methods[] = {
    { "close", close_source }, { "count", count },     { "get", get },
    { "metadata", metadata },  { "read", read_array }, { "rows", read_rows },
    { "expect", expect_rows }, { NULL, NULL },
  };
  static const luaL_Reg functions[] = {
    { "open_source", open_source }, { "save_safetensors", save_safetensors },
    { "save_npz", save_npz },       { "save_npy", save_npy },
    { "formats", formats },         { NULL, NULL },
  };
  luaL_newmetatable(L, SOURCE);
  lua_pushcfunction(L, close_source);
  lua_setfield(L, -2, "__gc");
  lua_pushcfunction(L, close_source);
  lua_setfield(L, -2, "__close");
  lua_newtable(L);
  mrt_binding_register(L, m, methods);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
  mrt_binding_register(L, m, functions);
}
