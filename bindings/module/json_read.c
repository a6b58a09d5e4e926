/* json_read.c -- JSON becomes Lua values
 *
 * Lists and objects are tables whose metatable has `__jsontype`, "array" or
 * "object", which tells empty ones apart; where it is asked for, that of an
 * object has its keys in their order, `__jsonorder`.
 *
 * SPDX-License-Identifier: MIT */
#include "binding.h"
#include "mrt/json.h"

#define DOCUMENT "mrt.Document"
#define LIST     "mrt.json.list"
#define OBJECT   "mrt.json.object"

enum { NULL_ARG = 2, ORDERED_ARG, UNIQUE_ARG };
enum { ROOM = 8 }; /* stack places for a value and what is around it */

static int close(lua_State *L) {
  mrt_document **slot = luaL_checkudata(L, 1, DOCUMENT), *d = *slot;
  *slot = NULL;
  mrt_document_free(d);
  return 0;
}

static void push_value(lua_State *L, const mrt_item *item);

static void push_list(lua_State *L, const mrt_item *list) {
  mrt_item held;
  const char *key;
  mrt_cursor at = { 0 };
  lua_createtable(L, (int)list->size, 0);
  luaL_setmetatable(L, LIST);
  for (lua_Integer i = 1; mrt_item_next(list, &at, &key, &held); i++) {
    push_value(L, &held);
    lua_rawseti(L, -2, i);
  }
}

/* Give the object on top a metatable of its own with the table below it. */
static void set_order(lua_State *L) {
  lua_createtable(L, 0, 2);
  lua_pushliteral(L, "object");
  lua_setfield(L, -2, "__jsontype");
  lua_pushvalue(L, -3);
  lua_setfield(L, -2, "__jsonorder");
  lua_setmetatable(L, -2);
  lua_remove(L, -2);
}

static void push_object(lua_State *L, const mrt_item *object) {
  mrt_item held;
  const char *key;
  mrt_cursor at = { 0 };
  bool ordered = lua_toboolean(L, ORDERED_ARG);
  if (ordered) lua_createtable(L, (int)object->size, 0);
  lua_createtable(L, 0, (int)object->size);
  for (lua_Integer i = 1; mrt_item_next(object, &at, &key, &held); i++) {
    lua_pushstring(L, key);
    if (ordered) {
      lua_pushvalue(L, -1);
      lua_rawseti(L, -4, i);
    }
    push_value(L, &held);
    lua_rawset(L, -3);
  }
  if (ordered)
    set_order(L);
  else
    luaL_setmetatable(L, OBJECT);
}

static void push_value(lua_State *L, const mrt_item *item) {
  luaL_checkstack(L, ROOM, "JSON of too many levels");
  switch (item->kind) {
  case MRT_ITEM_NULL:
    lua_pushvalue(L, NULL_ARG);
    break;
  case MRT_ITEM_TRUTH:
    lua_pushboolean(L, item->truth);
    break;
  case MRT_ITEM_INTEGER:
    lua_pushinteger(L, item->integer);
    break;
  case MRT_ITEM_NUMBER:
    lua_pushnumber(L, item->number);
    break;
  case MRT_ITEM_STRING:
    lua_pushlstring(L, item->text, item->size);
    break;
  case MRT_ITEM_LIST:
    push_list(L, item);
    break;
  case MRT_ITEM_OBJECT:
    push_object(L, item);
    break;
  }
}

/* json_decode(text, null, ordered, unique) -> value, or nil, message, code;
 * `null` stands for null. */
static int decode(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  size_t size;
  const char *text = luaL_checklstring(L, 1, &size);
  lua_settop(L, UNIQUE_ARG);
  mrt_document **slot = lua_newuserdatauv(L, sizeof *slot, 0);
  *slot = NULL;
  luaL_setmetatable(L, DOCUMENT);
  mrt_document_options options = { .unique = lua_toboolean(L, UNIQUE_ARG) };
  MRT_ATTEMPT(L, m, "json",
              mrt_document_parse(m->ctx, text, size, &options, slot));
  mrt_item root = mrt_document_root(*slot);
  push_value(L, &root);
  mrt_document_free(*slot);
  *slot = NULL;
  return 1;
}

static void make_metatable(lua_State *L, const char *name, const char *type) {
  luaL_newmetatable(L, name);
  lua_pushstring(L, type);
  lua_setfield(L, -2, "__jsontype");
  lua_pop(L, 1);
}

void mrt_lua_json_read_open(lua_State *L, mrt_binding *m) {
  static const luaL_Reg functions[] = {
    { "json_decode", decode },
    { NULL, NULL },
  };
  luaL_newmetatable(L, DOCUMENT);
  lua_pushcfunction(L, close);
  lua_setfield(L, -2, "__gc");
  lua_pop(L, 1);
  make_metatable(L, LIST, "array");
  make_metatable(L, OBJECT, "object");
  mrt_lua_register(L, m, functions);
  lua_pushlightuserdata(L, NULL);
  lua_setfield(L, -2, "json_null");
}
