/* json_write.c -- Lua values become JSON
 *
 * A table is a list if its metatable's `__jsontype` says "array", or where it
 * says nothing if its keys are 1 to n (or none).  Keys of objects are written
 * in a fixed order, so that equal values give equal text: those of the
 * metatable's `__jsonorder`, or else of the given ranks, then the others by
 * their bytes.
 *
 * The text grows in a userdata that lies at one place of the stack, so Lua may
 * raise at any time.
 *
 * SPDX-License-Identifier: MIT */
#include "binding.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VALUE_ARG = 1, NULL_ARG, RANKS_ARG, INDENT_ARG, BUFFER };
enum { DEEPEST = 100, ROOM = 12 };

typedef struct writer {
  lua_State *L;
  mrt_binding *m;
  char *text; /* of the userdata at BUFFER */
  size_t size, room;
  int indent; /* spaces of a level; 0: all in one line */
} writer;

/* ---- text ---------------------------------------------------------------- */

/* Room for n more bytes. */
static char *reserve(writer *w, size_t n) {
  if (n > w->room - w->size) {
    size_t room = w->room * 2 > w->size + n ? w->room * 2 : w->size + n;
    char *more = lua_newuserdatauv(w->L, room, 0);
    memcpy(more, w->text, w->size);
    lua_replace(w->L, BUFFER);
    w->text = more, w->room = room;
  }
  return w->text + w->size;
}

static void put(writer *w, const char *text, size_t n) {
  memcpy(reserve(w, n), text, n);
  w->size += n;
}

static void put_char(writer *w, char c) { put(w, &c, 1); }

static void put_string(writer *w, const char *text, size_t n) {
  static const char named[] = "\"\"\\\\\nn\rr\tt\bb\ff";
  char *to = reserve(w, 6 * n + 2), *from = to;
  *to++ = '"';
  for (size_t i = 0; i < n; i++) {
    unsigned char c = (unsigned char)text[i];
    if (c >= ' ' && c != '"' && c != '\\') {
      *to++ = (char)c;
      continue;
    }
    const char *name = named;
    while (*name && *name != (char)c) name += 2;
    *to++ = '\\';
    if (*name && c)
      *to++ = name[1];
    else
      to += sprintf(to, "u%04x", c);
  }
  *to++ = '"';
  w->size += (size_t)(to - from);
}

/* The fewest digits that give the number back; null where there are none. */
static void put_number(writer *w, double x) {
  char text[40];
  if (!isfinite(x)) {
    put(w, "null", 4);
    return;
  }
  for (int digits = 15; digits <= 17; digits++) {
    snprintf(text, sizeof text, "%.*g", digits, x);
    if (strtod(text, NULL) == x) break;
  }
  for (char *c = text; *c; c++) /* the locale's point */
    if (!strchr("0123456789+-e", *c)) *c = '.';
  if (!strpbrk(text, ".e")) strcat(text, ".0");
  put(w, text, strlen(text));
}

static void put_integer(writer *w, lua_Integer i) {
  char text[32];
  put(w, text, (size_t)snprintf(text, sizeof text, LUA_INTEGER_FMT, i));
}

static void put_line(writer *w, int level) {
  if (!w->indent) return;
  size_t n = (size_t)(w->indent * level);
  put_char(w, '\n');
  memset(reserve(w, n), ' ', n);
  w->size += n;
}

/* ---- tables -------------------------------------------------------------- */

static void write_value(writer *w, int level);

static _Noreturn void refuse(writer *w, const char *why) {
  mrt_lua_fail(w->L, w->m, MRT_EVALUE, "json", "%s", why);
  abort(); /* it raises */
}

/* The field of the metatable of the table on top: pushed, if it is there. */
static bool push_mark(writer *w, const char *name) {
  return luaL_getmetafield(w->L, -1, name) != LUA_TNIL;
}

/* The table on top has keys 1 to n: n; -1: it has others. */
static lua_Integer length(writer *w) {
  lua_State *L = w->L;
  lua_Integer count = 0, n = (lua_Integer)lua_rawlen(L, -1);
  if (push_mark(w, "__jsontype")) {
    bool list = lua_isstring(L, -1) && !strcmp(lua_tostring(L, -1), "array");
    lua_pop(L, 1);
    return list ? n : -1;
  }
  for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1))
    if (!lua_isinteger(L, -2) || lua_tointeger(L, -2) < 1 ||
        lua_tointeger(L, -2) > n || ++count > n) {
      lua_pop(L, 2);
      return -1;
    }
  return count == n ? n : -1;
}

static void write_list(writer *w, lua_Integer n, int level) {
  put_char(w, '[');
  for (lua_Integer i = 1; i <= n; i++) {
    if (i > 1) put_char(w, ',');
    put_line(w, level + 1);
    lua_rawgeti(w->L, -1, i);
    write_value(w, level + 1);
    lua_pop(w->L, 1);
  }
  if (n) put_line(w, level);
  put_char(w, ']');
}

/* A key, and where it comes among the others. */
typedef struct json_member {
  const char *text; /* of the string at `place` of the list of keys */
  size_t size;
  lua_Integer place;
  double rank;
} member;

static int compare(const void *a, const void *b) {
  const member *p = a, *q = b;
  if (p->rank != q->rank) return p->rank < q->rank ? -1 : 1;
  size_t n = p->size < q->size ? p->size : q->size;
  int order = memcmp(p->text, q->text, n);
  if (order) return order;
  return (p->size > q->size) - (p->size < q->size);
}

/* Push the names' ranks of the table on top. */
static void push_ranks(writer *w) {
  lua_State *L = w->L;
  if (!push_mark(w, "__jsonorder")) {
    lua_pushvalue(L, RANKS_ARG);
    return;
  }
  lua_newtable(L);
  lua_Integer n = lua_istable(L, -2) ? (lua_Integer)lua_rawlen(L, -2) : 0;
  for (lua_Integer i = 1; i <= n; i++) {
    if (lua_rawgeti(L, -2, i) == LUA_TNIL) {
      lua_pop(L, 1);
      continue;
    }
    lua_pushinteger(L, i);
    lua_rawset(L, -3);
  }
  lua_remove(L, -2);
}

static double rank_of(lua_State *L, int ranks, const char *key) {
  double rank = HUGE_VAL;
  if (!lua_istable(L, ranks)) return rank;
  lua_getfield(L, ranks, key);
  if (lua_isnumber(L, -1)) rank = lua_tonumber(L, -1);
  lua_pop(L, 1);
  return rank;
}

static size_t count_members(lua_State *L, int table) {
  size_t n = 0;
  for (lua_pushnil(L); lua_next(L, table); lua_pop(L, 1)) n++;
  return n;
}

/* Push a list of the keys of `table` as they are, one of their texts, and an
 * array of members in order. */
static const member *push_members(writer *w, int table, size_t n) {
  lua_State *L = w->L;
  int ranks = table + 1, keys = table + 2, texts = table + 3;
  lua_createtable(L, (int)n, 0);
  lua_createtable(L, (int)n, 0);
  member *list = lua_newuserdatauv(L, n * sizeof *list + 1, 0);
  lua_Integer i = 0;
  for (lua_pushnil(L); lua_next(L, table) && (size_t)i < n; lua_pop(L, 1)) {
    member *one = &list[i++];
    if (lua_type(L, -2) != LUA_TSTRING && lua_type(L, -2) != LUA_TNUMBER)
      refuse(w, lua_pushfstring(L, "a key that is a %s", luaL_typename(L, -2)));
    lua_pushvalue(L, -2);
    lua_rawseti(L, keys, i);
    lua_pushvalue(L, -2);
    one->text = lua_tolstring(L, -1, &one->size);
    lua_rawseti(L, texts, i);
    one->place = i, one->rank = rank_of(L, ranks, one->text);
  }
  qsort(list, n, sizeof *list, compare);
  for (size_t k = 1; k < n; k++)
    if (compare(&list[k - 1], &list[k]) == 0)
      refuse(w, lua_pushfstring(L, "the key '%s' twice, a number and a string",
                                list[k].text));
  return list;
}

static void write_object(writer *w, int level) {
  lua_State *L = w->L;
  int table = lua_gettop(L);
  size_t n = count_members(L, table);
  push_ranks(w);
  const member *list = push_members(w, table, n);
  put_char(w, '{');
  for (size_t i = 0; i < n; i++) {
    if (i) put_char(w, ',');
    put_line(w, level + 1);
    put_string(w, list[i].text, list[i].size);
    put(w, ": ", w->indent ? 2 : 1);
    lua_rawgeti(L, table + 2, list[i].place);
    lua_rawget(L, table);
    write_value(w, level + 1);
    lua_pop(L, 1);
  }
  if (n) put_line(w, level);
  put_char(w, '}');
  lua_settop(L, table);
}

/* The value on top, which stays there. */
static void write_value(writer *w, int level) {
  lua_State *L = w->L;
  luaL_checkstack(L, ROOM, "JSON of too many levels");
  if (lua_isnil(L, -1) || lua_rawequal(L, -1, NULL_ARG)) {
    put(w, "null", 4);
    return;
  }
  switch (lua_type(L, -1)) {
  case LUA_TBOOLEAN:
    put(w, lua_toboolean(L, -1) ? "true" : "false",
        lua_toboolean(L, -1) ? 4 : 5);
    break;
  case LUA_TNUMBER:
    if (lua_isinteger(L, -1))
      put_integer(w, lua_tointeger(L, -1));
    else
      put_number(w, lua_tonumber(L, -1));
    break;
  case LUA_TSTRING: {
    size_t n;
    const char *text = lua_tolstring(L, -1, &n);
    put_string(w, text, n);
    break;
  }
  case LUA_TTABLE: {
    if (level == DEEPEST) refuse(w, "tables of more than 100 levels");
    lua_Integer n = length(w);
    if (n >= 0)
      write_list(w, n, level);
    else
      write_object(w, level);
    break;
  }
  default:
    refuse(w, lua_pushfstring(L, "a %s is no JSON", luaL_typename(L, -1)));
  }
}

/* json_encode(value, null, ranks, indent) -> text; `null` stands for null,
 * `ranks` is a table {name = number} or nil, `indent` spaces or nil. */
static int encode(lua_State *L) {
  writer w = { .L = L, .m = mrt_binding_get(L), .room = 256 };
  luaL_checkany(L, VALUE_ARG);
  lua_settop(L, INDENT_ARG);
  lua_Integer indent = luaL_optinteger(L, INDENT_ARG, 0);
  luaL_argcheck(L, 0 <= indent && indent <= 32, INDENT_ARG, "0 to 32 wanted");
  w.indent = (int)indent;
  w.text = lua_newuserdatauv(L, w.room, 0);
  lua_pushvalue(L, VALUE_ARG);
  write_value(&w, 0);
  lua_pushlstring(L, w.text, w.size);
  return 1;
}

void mrt_lua_json_write_open(lua_State *L, mrt_binding *m) {
  static const luaL_Reg functions[] = {
    { "json_encode", encode },
    { NULL, NULL },
  };
  mrt_lua_register(L, m, functions);
}
