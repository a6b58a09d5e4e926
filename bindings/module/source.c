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

/* open_source(path, format) */
static int open_source(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  const char *path = mrt_lua_check_text(L, m, 1, "open", "the path");
  const char *format = mrt_lua_check_text(L, m, 2, "open", "the format");
  mrt_source **slot = lua_newuserdatauv(L, sizeof *slot, 0);
  *slot = NULL;
  luaL_setmetatable(L, SOURCE);
  MRT_ATTEMPT(L, m, "open", mrt_source_open(m->ctx, path, format, slot));
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

/* metas(): see mrt_lua_push_metas. */
static int metas(lua_State *L) {
  mrt_lua_push_metas(L, check_source(L, mrt_binding_get(L)));
  return 1;
}

/* read(i) */
static int read_array(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  mrt_source *s = check_source(L, m);
  int i = check_array(L, s);
  mrt_lua_at(L, m);
  mrt_tensor **slot = mrt_lua_new_tensor(L);
  MRT_ATTEMPT(L, m, "read", mrt_source_read(s, i, slot));
  mrt_lua_pressure(L, m);
  return 1;
}

/* codes(i): codes and scales of a packed array; see mrt_source_read_codes. */
static int read_codes(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  mrt_source *s = check_source(L, m);
  int i = check_array(L, s);
  mrt_lua_at(L, m);
  mrt_tensor **codes = mrt_lua_new_tensor(L), **scales = mrt_lua_new_tensor(L);
  MRT_ATTEMPT(L, m, "read", mrt_source_read_codes(s, i, codes, scales));
  mrt_lua_pressure(L, m);
  return 2;
}

/* verify(i): true, or as read. */
static int verify_array(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  mrt_source *s = check_source(L, m);
  int i = check_array(L, s);
  MRT_ATTEMPT(L, m, "verify", mrt_source_verify(s, i));
  lua_pushboolean(L, 1);
  return 1;
}

/* The list of integers at `arg`, on the stack. */
static int64_t *check_rows(lua_State *L, int arg, size_t *n) {
  mrt_binding *m = mrt_binding_get(L);
  if (!lua_istable(L, arg))
    mrt_lua_fail(L, m, MRT_EVALUE, "read", "a list of rows wanted, got %s",
                 mrt_lua_show(L, arg));
  *n = lua_rawlen(L, arg);
  luaL_argcheck(L, *n <= SIZE_MAX / 2 / sizeof(int64_t), arg, "too long");
  int64_t *rows = lua_newuserdatauv(L, *n * sizeof *rows + 1, 0);
  for (size_t k = 0; k < *n; k++) {
    lua_rawgeti(L, arg, (lua_Integer)k + 1);
    int is_whole;
    rows[k] = lua_tointegerx(L, -1, &is_whole);
    if (!is_whole)
      mrt_lua_fail(L, m, MRT_EVALUE, "read", "row %d is %s, an integer wanted",
                   (int)k + 1, mrt_lua_show(L, -1));
    lua_pop(L, 1);
  }
  return rows;
}

/* How many rows from each on: 0 when absent. */
static int64_t check_length(lua_State *L, mrt_binding *m, int arg) {
  int is_whole = lua_isnoneornil(L, arg);
  int64_t length = is_whole ? 0 : lua_tointegerx(L, arg, &is_whole);
  if (!is_whole || length < 0)
    mrt_lua_fail(L, m, MRT_EVALUE, "read",
                 "length: an integer from 0 wanted, got %s",
                 mrt_lua_show(L, arg));
  return length;
}

/* rows(i, {row, ...}, length?): rows from 0; see mrt_source_read_rows. */
static int read_rows(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  mrt_source *s = check_source(L, m);
  int i = check_array(L, s);
  size_t n;
  int64_t length = check_length(L, m, 4);
  int64_t *rows = check_rows(L, 3, &n);
  mrt_lua_at(L, m);
  mrt_tensor **slot = mrt_lua_new_tensor(L);
  MRT_ATTEMPT(L, m, "rows",
              mrt_source_read_rows(s, i, rows, (int64_t)n, length, slot));
  mrt_lua_pressure(L, m);
  return 1;
}

/* expect(i, {row, ...}, length?) */
static int expect_rows(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  mrt_source *s = check_source(L, m);
  int i = check_array(L, s);
  size_t n;
  int64_t length = check_length(L, m, 4);
  int64_t *rows = check_rows(L, 3, &n);
  mrt_source_expect(s, i, rows, (int64_t)n, length);
  return 0;
}

/* ---- tables of text ------------------------------------------------------ */

/* numbers({column, ...}, skipped rows, missing?): f32[rows,n] */
static int read_numbers(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  mrt_source *s = check_source(L, m);
  lua_settop(L, 4);
  luaL_checktype(L, 2, LUA_TTABLE);
  int n = (int)lua_rawlen(L, 2);
  lua_Integer first = luaL_checkinteger(L, 3);
  double missing = luaL_optnumber(L, 4, 0);
  int *columns = lua_newuserdatauv(L, (size_t)n * sizeof *columns + 1, 0);
  for (int i = 0; i < n; i++) {
    lua_rawgeti(L, 2, i + 1);
    columns[i] = (int)luaL_checkinteger(L, -1) - 1;
    lua_pop(L, 1);
  }
  mrt_lua_at(L, m);
  mrt_tensor **slot = mrt_lua_new_tensor(L);
  MRT_ATTEMPT(L, m, "numbers",
              mrt_source_numbers(s, columns, n, first,
                                 lua_isnil(L, 4) ? NULL : &missing, slot));
  mrt_lua_pressure(L, m);
  return 1;
}

/* Push what a field says: of two quotes in quotes, one. */
static void push_field(lua_State *L, const mrt_field *f) {
  if (!f->quoted || !memchr(f->text, '"', f->size)) {
    lua_pushlstring(L, f->text, f->size);
    return;
  }
  luaL_Buffer b;
  char *out = luaL_buffinitsize(L, &b, f->size);
  size_t n = 0;
  for (size_t i = 0; i < f->size; i++) {
    out[n++] = f->text[i];
    if (f->text[i] == '"') i++;
  }
  luaL_pushresultsize(&b, n);
}

/* texts(column, skipped rows): a list of strings. */
static int read_texts(lua_State *L) {
  mrt_source *s = check_source(L, mrt_binding_get(L));
  int column = check_array(L, s);
  lua_Integer first = luaL_checkinteger(L, 3);
  mrt_field f = { .text = NULL };
  lua_newtable(L);
  for (size_t at = 0; mrt_source_next_field(s, &at, &f);) {
    if (f.column != column || f.row < first) continue;
    push_field(L, &f);
    lua_rawseti(L, -2, f.row - first + 1);
  }
  return 1;
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
    list[i].name = mrt_lua_check_text(L, m, -2, "save", "a name");
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
    list[i].key = mrt_lua_check_text(L, m, -2, "save", "a key of metadata");
    list[i].value = mrt_lua_check_text(L, m, -1, "save", "a value of metadata");
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
  const char *path = mrt_lua_check_text(L, m, 1, "save", "the path");
  mrt_named *list = check_named(L, m, 2, &n);
  mrt_text_pair *pairs = check_pairs(L, m, 3, &pair_count);
  mrt_lua_at(L, m);
  MRT_ATTEMPT(L, m, "save",
              mrt_save_safetensors(m->ctx, path, list, n, pairs, pair_count));
  return saved(L);
}

/* save_npz(path, {name = tensor}, deflate?) */
static int save_npz(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  lua_settop(L, 3);
  int n;
  const char *path = mrt_lua_check_text(L, m, 1, "save", "the path");
  mrt_named *list = check_named(L, m, 2, &n);
  bool deflate = lua_toboolean(L, 3);
  mrt_lua_at(L, m);
  MRT_ATTEMPT(L, m, "save", mrt_save_npz(m->ctx, path, list, n, deflate));
  return saved(L);
}

/* save_npy(path, tensor) */
static int save_npy(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  const char *path = mrt_lua_check_text(L, m, 1, "save", "the path");
  mrt_tensor *t = mrt_lua_check_tensor(L, m, 2, "save");
  mrt_lua_at(L, m);
  MRT_ATTEMPT(L, m, "save", mrt_save_npy(m->ctx, path, t));
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

void mrt_lua_source_open(lua_State *L, mrt_binding *m) {
  static const luaL_Reg methods[] = {
    { "close", close_source },
    { "count", count },
    { "get", get },
    { "metadata", metadata },
    { "metas", metas },
    { "read", read_array },
    { "rows", read_rows },
    { "codes", read_codes },
    { "verify", verify_array },
    { "expect", expect_rows },
    { "numbers", read_numbers },
    { "texts", read_texts },
    { NULL, NULL },
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
  mrt_lua_register(L, m, methods);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
  mrt_lua_register(L, m, functions);
}
