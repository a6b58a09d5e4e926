/* tokenizer.c -- texts as ids and back, for Lua
 *
 * SPDX-License-Identifier: MIT */
#include "binding.h"
#include "mrt/text.h"

#include <stdint.h>

#define TOKENIZER "mrt.Tokenizer"

static mrt_tokenizer **push_slot(lua_State *L) {
  mrt_tokenizer **slot = lua_newuserdatauv(L, sizeof *slot, 0);
  *slot = NULL;
  luaL_setmetatable(L, TOKENIZER);
  return slot;
}

/* open_tokenizer(path, pattern or nil) */
static int open_tokenizer(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  const char *path = mrt_lua_check_text(L, m, 1, "tokenizer", "the path");
  const char *pattern = luaL_optstring(L, 2, NULL);
  mrt_tokenizer **slot = push_slot(L);
  MRT_ATTEMPT(L, m, "tokenizer",
              mrt_tokenizer_open(m->ctx, path, pattern, slot));
  return 1;
}

/* parse_tokenizer(name, bytes): of what open_tokenizer would find in a file. */
static int parse_tokenizer(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  size_t size;
  const char *name = mrt_lua_check_text(L, m, 1, "tokenizer", "the name");
  const char *bytes = luaL_checklstring(L, 2, &size);
  mrt_tokenizer **slot = push_slot(L);
  MRT_ATTEMPT(L, m, "tokenizer",
              mrt_tokenizer_from(m->ctx, name, bytes, size, NULL, slot));
  return 1;
}

/* open_merges(vocab path, merges path, pattern or nil) */
static int open_merges(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  const char *vocab = mrt_lua_check_text(L, m, 1, "bpe", "the vocabulary");
  const char *merges = mrt_lua_check_text(L, m, 2, "bpe", "the list of merges");
  const char *pattern = luaL_optstring(L, 3, NULL);
  mrt_tokenizer **slot = push_slot(L);
  MRT_ATTEMPT(L, m, "bpe",
              mrt_tokenizer_open_merges(m->ctx, vocab, merges, pattern, slot));
  return 1;
}

static mrt_tokenizer *check(lua_State *L) {
  mrt_tokenizer *t = *(mrt_tokenizer **)luaL_checkudata(L, 1, TOKENIZER);
  if (!t) luaL_error(L, "the tokenizer is closed");
  return t;
}

static int close(lua_State *L) {
  mrt_tokenizer **slot = luaL_checkudata(L, 1, TOKENIZER), *t = *slot;
  *slot = NULL;
  mrt_tokenizer_free(t);
  return 0;
}

static const int32_t *encode(lua_State *L, mrt_binding *m, size_t *n) {
  mrt_tokenizer *t = check(L);
  size_t size;
  const int32_t *ids = NULL;
  if (lua_type(L, 2) != LUA_TSTRING)
    mrt_lua_fail(L, m, MRT_EVALUE, "encode", "a string wanted, got %s",
                 mrt_lua_show(L, 2));
  const char *text = lua_tolstring(L, 2, &size);
  int flags = (lua_toboolean(L, 3) ? MRT_ENCODE_SPECIAL : 0) |
              (lua_toboolean(L, 4) ? MRT_ENCODE_PLAIN : 0);
  MRT_CHECK(L, m, "encode",
            mrt_tokenizer_encode(t, text, size, flags, &ids, n));
  return ids;
}

/* pack(text, special, plain): ids as a string, 32 bits each. */
static int pack(lua_State *L) {
  size_t n;
  const int32_t *ids = encode(L, mrt_binding_get(L), &n);
  lua_pushlstring(L, (const char *)ids, n * sizeof *ids);
  return 1;
}

/* encode(text, special, plain): ids as a list. */
static int list(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  size_t n;
  const int32_t *ids = encode(L, m, &n);
  luaL_argcheck(L, n < INT32_MAX, 2, "too long");
  lua_createtable(L, (int)n, 0);
  for (size_t i = 0; i < n; i++) {
    lua_pushinteger(L, ids[i]);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}

/* The list of ids at 2, as a userdata. */
static const int32_t *check_ids(lua_State *L, mrt_binding *m, size_t *n) {
  if (lua_type(L, 2) != LUA_TTABLE)
    mrt_lua_fail(L, m, MRT_EVALUE, "decode", "a list of ids wanted, got %s",
                 mrt_lua_show(L, 2));
  *n = lua_rawlen(L, 2);
  int32_t *ids = lua_newuserdatauv(L, *n * sizeof *ids + 1, 0);
  for (size_t i = 0; i < *n; i++) {
    int is = lua_rawgeti(L, 2, (lua_Integer)i + 1) == LUA_TNUMBER;
    lua_Integer id = is ? lua_tointegerx(L, -1, &is) : -1;
    if (!is || id < 0 || id > INT32_MAX)
      mrt_lua_fail(L, m, MRT_EVALUE, "decode", "ids wanted, got %s",
                   mrt_lua_show(L, -1));
    ids[i] = (int32_t)id;
    lua_pop(L, 1);
  }
  return ids;
}

/* decode(list of ids, skip special) */
static int decode(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  mrt_tokenizer *t = check(L);
  size_t n, size;
  const char *text;
  bool skip = lua_toboolean(L, 3);
  const int32_t *ids = check_ids(L, m, &n);
  MRT_CHECK(L, m, "decode",
            mrt_tokenizer_decode(t, ids, n, skip, &text, &size));
  lua_pushlstring(L, text, size);
  return 1;
}

static bool field(lua_State *L, const char *name) {
  lua_getfield(L, -1, name);
  bool is = lua_toboolean(L, -1);
  lua_pop(L, 1);
  return is;
}

/* The token at the top of the stack, which keeps its text. */
static void read_token(lua_State *L, mrt_extra_token *k) {
  luaL_argcheck(L, lua_istable(L, -1), 2, "a list of tokens wanted");
  *k = (mrt_extra_token){ .special = field(L, "special"),
                          .lstrip = field(L, "lstrip"),
                          .rstrip = field(L, "rstrip"),
                          .single_word = field(L, "single_word"),
                          .normalized = field(L, "normalized") };
  luaL_argcheck(L, lua_getfield(L, -1, "content") == LUA_TSTRING, 2,
                "a token's content wanted");
  k->content = lua_tolstring(L, -1, &k->size);
  lua_getfield(L, -2, "id");
  int is;
  lua_Integer id = lua_tointegerx(L, -1, &is);
  k->id = !is || id < 0 || id > INT32_MAX ? -1 : (int)id;
  lua_pop(L, 2);
}

/* add(list of {content=, id=, special=, lstrip=, rstrip=, single_word=,
 * normalized=}): tokens beside the vocabulary; nil, message, code where an id is
 * another's. */
static int add(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  mrt_tokenizer *t = check(L);
  luaL_checktype(L, 2, LUA_TTABLE);
  size_t n = lua_rawlen(L, 2);
  luaL_argcheck(L, n <= 1 << 20, 2, "too many tokens");
  mrt_extra_token *list = lua_newuserdatauv(L, n * sizeof *list + 1, 0);
  for (size_t i = 0; i < n; i++) {
    lua_rawgeti(L, 2, (lua_Integer)i + 1);
    read_token(L, &list[i]);
    lua_pop(L, 1);
  }
  mrt_status status = mrt_tokenizer_add(t, list, (int)n);
  if (status == MRT_EVALUE) status = MRT_EDATA;
  if (status) return mrt_lua_failed(L, m, status, "tokenizer");
  lua_pushboolean(L, 1);
  return 1;
}

/* enclose(first or nil, last or nil) */
static int enclose(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  mrt_tokenizer *t = check(L);
  lua_Integer first = luaL_optinteger(L, 2, -1),
              last = luaL_optinteger(L, 3, -1);
  luaL_argcheck(L, first >= -1 && first <= INT32_MAX, 2, "an id wanted");
  luaL_argcheck(L, last >= -1 && last <= INT32_MAX, 3, "an id wanted");
  MRT_CHECK(L, m, "tokenizer", mrt_tokenizer_enclose(t, (int)first, (int)last));
  return 0;
}

/* is_bytes(): are its tokens bytes? */
static int is_bytes(lua_State *L) {
  lua_pushboolean(L, mrt_tokenizer_is_bytes(check(L)));
  return 1;
}

/* compose(): texts are put in Unicode's form C first. */
static int compose(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  mrt_tokenizer *t = check(L);
  MRT_CHECK(L, m, "tokenizer", mrt_tokenizer_compose(t));
  return 0;
}

static void set_number(lua_State *L, const char *name, int n) {
  if (n) {
    lua_pushinteger(L, n);
    lua_setfield(L, -2, name);
  }
}

/* padding(): what the file says of it, or nil. */
static int padding(lua_State *L) {
  mrt_padding p = mrt_tokenizer_padding(check(L));
  if (!p.given) return lua_pushnil(L), 1;
  lua_newtable(L);
  lua_pushstring(L, p.left ? "left" : "right");
  lua_setfield(L, -2, "side");
  lua_pushinteger(L, p.id);
  lua_setfield(L, -2, "id");
  set_number(L, "length", p.length);
  set_number(L, "multiple", p.multiple);
  return 1;
}

/* pair(): a list of {id=, type=}, id -1 and -2: the texts; nil: the file does not say it. */
static int pair(lua_State *L) {
  const mrt_pair_part *parts;
  size_t n = mrt_tokenizer_pair(check(L), &parts);
  if (!n) return lua_pushnil(L), 1;
  lua_createtable(L, (int)n, 0);
  for (size_t i = 0; i < n; i++) {
    lua_createtable(L, 0, 2);
    lua_pushinteger(L, parts[i].id);
    lua_setfield(L, -2, "id");
    lua_pushinteger(L, parts[i].type);
    lua_setfield(L, -2, "type");
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}

/* truncation(): most ids or nil, does the end stay, strategy. */
static int truncation(lua_State *L) {
  mrt_truncation k = mrt_tokenizer_truncation(check(L));
  if (k.most)
    lua_pushinteger(L, k.most);
  else
    lua_pushnil(L);
  lua_pushboolean(L, k.left);
  lua_pushstring(L, k.strategy);
  return 3;
}

/* token(id): its name; nil: there is no such. */
static int token(lua_State *L) {
  mrt_tokenizer *t = check(L);
  lua_Integer id = luaL_checkinteger(L, 2);
  size_t size;
  const char *name =
      id < 0 || id > INT32_MAX ? NULL : mrt_tokenizer_token(t, (int)id, &size);
  if (name)
    lua_pushlstring(L, name, size);
  else
    lua_pushnil(L);
  return 1;
}

/* id(name); nil: there is no such. */
static int id(lua_State *L) {
  mrt_tokenizer *t = check(L);
  size_t size;
  const char *name = luaL_checklstring(L, 2, &size);
  int found = mrt_tokenizer_id(t, name, size);
  if (found >= 0)
    lua_pushinteger(L, found);
  else
    lua_pushnil(L);
  return 1;
}

static int special(lua_State *L) {
  mrt_tokenizer *t = check(L);
  lua_Integer i = luaL_checkinteger(L, 2);
  lua_pushboolean(L, i >= 0 && i <= INT32_MAX &&
                         mrt_tokenizer_is_special(t, (int)i));
  return 1;
}

static int count(lua_State *L) {
  lua_pushinteger(L, mrt_tokenizer_count(check(L)));
  return 1;
}

void mrt_lua_tokenizer_open(lua_State *L, mrt_binding *m) {
  static const luaL_Reg methods[] = {
    { "count", count },     { "encode", list },
    { "pack", pack },       { "decode", decode },
    { "token", token },     { "id", id },
    { "special", special }, { "add", add },
    { "enclose", enclose }, { "padding", padding },
    { "pair", pair },       { "truncation", truncation },
    { "compose", compose }, { "is_bytes", is_bytes },
    { NULL, NULL },
  };
  static const luaL_Reg functions[] = {
    { "open_tokenizer", open_tokenizer },
    { "parse_tokenizer", parse_tokenizer },
    { "open_merges", open_merges },
    { NULL, NULL },
  };
  luaL_newmetatable(L, TOKENIZER);
  lua_pushcfunction(L, close);
  lua_setfield(L, -2, "__gc");
  lua_newtable(L);
  mrt_lua_register(L, m, methods);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
  mrt_lua_register(L, m, functions);
}
