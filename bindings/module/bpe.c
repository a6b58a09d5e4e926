/* bpe.c -- byte-pair encoding, for Lua
 *
 * SPDX-License-Identifier: MIT */
#include "binding.h"

#include <stdint.h>

#define BPE "mrt.BPE"

/* open_bpe(vocab path, merges path) */
static int open_bpe(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  const char *vocab = mrt_lua_check_text(L, m, 1, "bpe", "the vocabulary");
  const char *merges = mrt_lua_check_text(L, m, 2, "bpe", "the list of merges");
  mrt_bpe **slot = lua_newuserdatauv(L, sizeof *slot, 0);
  *slot = NULL;
  luaL_setmetatable(L, BPE);
  MRT_ATTEMPT(L, m, "bpe", mrt_bpe_open(m->ctx, vocab, merges, slot));
  return 1;
}

static mrt_bpe *check_bpe(lua_State *L) {
  return *(mrt_bpe **)luaL_checkudata(L, 1, BPE);
}

static int close_bpe(lua_State *L) {
  mrt_bpe **slot = luaL_checkudata(L, 1, BPE), *bpe = *slot;
  *slot = NULL;
  mrt_bpe_free(bpe);
  return 0;
}

static int count(lua_State *L) {
  lua_pushinteger(L, mrt_bpe_count(check_bpe(L)));
  return 1;
}

/* encode(text): ids as a string, 32 bits each. */
static int encode(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  mrt_bpe *bpe = check_bpe(L);
  size_t size, n;
  if (lua_type(L, 2) != LUA_TSTRING)
    return mrt_lua_fail(L, m, MRT_EVALUE, "encode", "a string wanted, got %s",
                        mrt_lua_show(L, 2));
  const char *text = lua_tolstring(L, 2, &size);
  luaL_argcheck(L, size < SIZE_MAX / 2 / sizeof(int32_t), 2, "too long");
  int32_t *ids = lua_newuserdatauv(L, size * sizeof *ids + 1, 0);
  MRT_CHECK(L, m, "encode", mrt_bpe_encode(bpe, text, size, ids, &n));
  lua_pushlstring(L, (const char *)ids, n * sizeof *ids);
  return 1;
}

/* token(id): its bytes; nil: there is no such. */
static int token(lua_State *L) {
  mrt_bpe *bpe = check_bpe(L);
  lua_Integer id = luaL_checkinteger(L, 2);
  size_t size;
  const char *bytes =
      id < 0 || id > INT32_MAX ? NULL : mrt_bpe_token(bpe, (int)id, &size);
  if (bytes)
    lua_pushlstring(L, bytes, size);
  else
    lua_pushnil(L);
  return 1;
}

void mrt_lua_bpe_open(lua_State *L, mrt_binding *m) {
  static const luaL_Reg methods[] = {
    { "count", count }, { "encode", encode }, { "token", token }, { NULL, NULL }
  };
  static const luaL_Reg functions[] = { { "open_bpe", open_bpe },
                                        { NULL, NULL } };
  luaL_newmetatable(L, BPE);
  lua_pushcfunction(L, close_bpe);
  lua_setfield(L, -2, "__gc");
  lua_newtable(L);
  mrt_lua_register(L, m, methods);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
  mrt_lua_register(L, m, functions);
}
