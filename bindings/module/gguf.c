/* gguf.c -- GGUF files for Lua: metadata with types, and writing
 *
 * Values of metadata pass as they are in files; lua/mrt/io/gguf.lua reads and
 * makes them.
 *
 * SPDX-License-Identifier: MIT */
#include "fields.h"

#include <string.h>

#define GGUF "mrt.Gguf"

void mrt_lua_push_metas(lua_State *L, const mrt_source *s) {
  const mrt_meta *m;
  lua_newtable(L);
  for (int i = 0; (m = mrt_source_meta(s, i)); i++) {
    lua_createtable(L, 0, 4);
    set_text(L, "key", m->key);
    set_text(L, "type", mrt_meta_type_name(m->type, NULL));
    if (m->list) {
      lua_pushinteger(L, (lua_Integer)m->count);
      lua_setfield(L, -2, "count");
    }
    lua_pushlstring(L, m->data, m->size);
    lua_setfield(L, -2, "bytes");
    lua_rawseti(L, -2, i + 1);
  }
}

/* meta_types(): {name, code, bytes or nil} of each. */
static int meta_types(lua_State *L) {
  lua_newtable(L);
  int n = 0;
  for (int code = 0; code < 16; code++) {
    size_t bytes;
    const char *name = mrt_meta_type_name((mrt_meta_type)code, &bytes);
    if (!name) continue;
    lua_createtable(L, 0, 3);
    set_text(L, "name", name);
    lua_pushinteger(L, code);
    lua_setfield(L, -2, "code");
    lua_pushinteger(L, (lua_Integer)bytes);
    lua_setfield(L, -2, "bytes");
    lua_rawseti(L, -2, ++n);
  }
  return 1;
}

/* Field `name` of the table on top, which stays there and owns the text. */
static const char *text_field(lua_State *L, mrt_binding *m, const char *name,
                              size_t *size) {
  if (lua_getfield(L, -1, name) != LUA_TSTRING)
    mrt_lua_fail(L, m, MRT_EVALUE, "save", "%s: a string wanted, got %s", name,
                 mrt_lua_show(L, -1));
  const char *text = lua_tolstring(L, -1, size);
  lua_pop(L, 1);
  return text;
}

static mrt_meta check_meta(lua_State *L, mrt_binding *m) {
  mrt_meta out = { .count = 1 };
  size_t n;
  out.key = text_field(L, m, "key", &n);
  if (strlen(out.key) != n)
    mrt_lua_fail(L, m, MRT_EVALUE, "save", "a key with a zero byte");
  lua_getfield(L, -1, "code");
  out.type = (mrt_meta_type)luaL_checkinteger(L, -1);
  lua_pop(L, 1);
  if (lua_getfield(L, -1, "count") != LUA_TNIL) {
    out.list = true;
    out.count = (uint64_t)luaL_checkinteger(L, -1);
  }
  lua_pop(L, 1);
  out.data = text_field(L, m, "bytes", &out.size);
  return out;
}

/* {name, type, shape}, on top. */
static mrt_gguf_entry check_entry(lua_State *L, mrt_binding *m) {
  mrt_gguf_entry out = { .rank = 0 };
  size_t n;
  out.name = text_field(L, m, "name", &n);
  if (strlen(out.name) != n)
    mrt_lua_fail(L, m, MRT_EVALUE, "save", "a name with a zero byte");
  out.type = text_field(L, m, "type", &n);
  lua_getfield(L, -1, "shape");
  luaL_checktype(L, -1, LUA_TTABLE);
  size_t rank = lua_rawlen(L, -1);
  if (rank > MRT_MAX_RANK)
    mrt_lua_fail(L, m, MRT_ESHAPE, "save", "'%.80s': too many dimensions",
                 out.name);
  for (size_t d = 0; d < rank; d++) {
    lua_rawgeti(L, -1, (lua_Integer)d + 1);
    out.dims[out.rank++] = luaL_checkinteger(L, -1);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  return out;
}

/* gguf_bytes({name, type, shape}): bytes of a tensor; raises for what cannot be
 * written. */
static int gguf_bytes(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  uint64_t bytes;
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  mrt_gguf_entry entry = check_entry(L, m);
  MRT_ATTEMPT(L, m, "save", mrt_gguf_bytes(m->ctx, &entry, &bytes));
  lua_pushinteger(L, (lua_Integer)bytes);
  return 1;
}

/* gguf_writer(path, {{name, type, shape} ...}, {{key, code, count?, bytes} ...})
 */
static int gguf_writer(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  const char *path = mrt_lua_check_text(L, m, 1, "save", "the path");
  luaL_checktype(L, 2, LUA_TTABLE);
  luaL_checktype(L, 3, LUA_TTABLE);
  size_t n = lua_rawlen(L, 2), k = lua_rawlen(L, 3);
  if (n > MRT_LONGEST_LIST || k > MRT_LONGEST_LIST)
    mrt_lua_fail(L, m, MRT_EVALUE, "save", "too many tensors");
  mrt_gguf_entry *entries = lua_newuserdatauv(L, n * sizeof *entries + 1, 0);
  mrt_meta *metas = lua_newuserdatauv(L, k * sizeof *metas + 1, 0);
  for (size_t i = 0; i < n; i++, lua_pop(L, 1)) {
    lua_rawgeti(L, 2, (lua_Integer)i + 1);
    entries[i] = check_entry(L, m);
  }
  for (size_t i = 0; i < k; i++, lua_pop(L, 1)) {
    lua_rawgeti(L, 3, (lua_Integer)i + 1);
    metas[i] = check_meta(L, m);
  }
  mrt_gguf **slot = lua_newuserdatauv(L, sizeof *slot, 0);
  *slot = NULL;
  luaL_setmetatable(L, GGUF);
  MRT_ATTEMPT(L, m, "save",
              mrt_gguf_new(m->ctx, path, entries, (int)n, metas, (int)k, slot));
  return 1;
}

static mrt_gguf *check_file(lua_State *L, mrt_binding *m) {
  mrt_gguf **slot = luaL_checkudata(L, 1, GGUF);
  if (!*slot) mrt_lua_fail(L, m, MRT_ESTATE, "save", "the file is closed");
  return *slot;
}

/* put(tensor): the next; true, or nil, message, code. */
static int put(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  mrt_gguf *f = check_file(L, m);
  mrt_tensor *t = mrt_lua_check_tensor(L, m, 2, "save");
  mrt_lua_at(L, m);
  MRT_ATTEMPT(L, m, "save", mrt_gguf_put(f, t));
  lua_pushboolean(L, 1);
  return 1;
}

static int commit(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  MRT_ATTEMPT(L, m, "save", mrt_gguf_commit(check_file(L, m)));
  lua_pushboolean(L, 1);
  return 1;
}

static int close_file(lua_State *L) {
  mrt_gguf **slot = luaL_checkudata(L, 1, GGUF), *f = *slot;
  *slot = NULL;
  mrt_gguf_free(f);
  return 0;
}

void mrt_lua_gguf_open(lua_State *L, mrt_binding *m) {
  static const luaL_Reg methods[] = {
    { "put", put },
    { "commit", commit },
    { "close", close_file },
    { NULL, NULL },
  };
  static const luaL_Reg functions[] = {
    { "meta_types", meta_types },
    { "gguf_bytes", gguf_bytes },
    { "gguf_writer", gguf_writer },
    { NULL, NULL },
  };
  luaL_newmetatable(L, GGUF);
  lua_pushcfunction(L, close_file);
  lua_setfield(L, -2, "__gc");
  lua_pushcfunction(L, close_file);
  lua_setfield(L, -2, "__close");
  lua_newtable(L);
  mrt_lua_register(L, m, methods);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
  mrt_lua_register(L, m, functions);
}
