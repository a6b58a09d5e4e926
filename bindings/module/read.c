/* read.c -- tables, numbers and bytes from tensors
 *
 * Each of these computes what is still pending; inside a trace that is
 * refused, at the line that asked.  A swapped variable leaves memory again
 * once it is read whole.
 *
 * SPDX-License-Identifier: MIT */
#include "binding.h"

/* The tensor at 1, evaluated. */
static mrt_tensor *evaluated(lua_State *L, mrt_binding *m, const char *who) {
  mrt_tensor *t = mrt_lua_check_tensor(L, m, 1, who);
  mrt_lua_pressure(L, m); /* what it frees is there for the result */
  mrt_lua_at(L, m);
  MRT_CHECK(L, m, who, mrt_tensors_read(m->ctx, &t, 1));
  return t;
}

static void push_element(lua_State *L, const mrt_tensor *t, int64_t i) {
  switch (mrt_tensor_type(t)->dtype) {
  case MRT_bool:
    lua_pushboolean(L, mrt_tensor_integer(t, i) != 0);
    break;
  case MRT_i64:
  case MRT_i32:
  case MRT_u8:
    lua_pushinteger(L, mrt_tensor_integer(t, i));
    break;
  default:
    lua_pushnumber(L, mrt_tensor_number(t, i));
    break;
  }
}

static int item(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  const mrt_type *type = mrt_tensor_type(mrt_lua_check_tensor(L, m, 1, "item"));
  if (mrt_type_count(type) != 1) {
    char text[256];
    mrt_type_print(type, text, sizeof text);
    return mrt_lua_fail(L, m, MRT_ESHAPE, "item",
                        "%s, one element wanted (see totable)", text);
  }
  mrt_tensor *t = evaluated(L, m, "item");
  push_element(L, t, 0);
  mrt_tensor_leave(t);
  return 1;
}

/* Push dimensions [depth, rank) from element *next on. */
static void push_nested(lua_State *L, const mrt_tensor *t, int depth,
                        int64_t *next) {
  const mrt_type *type = mrt_tensor_type(t);
  if (depth == type->rank) {
    push_element(L, t, (*next)++);
    return;
  }
  int64_t n = type->dims[depth];
  luaL_checkstack(L, 4, NULL);
  lua_createtable(L, n < INT32_MAX ? (int)n : 0, 0);
  for (int64_t i = 1; i <= n; i++) {
    push_nested(L, t, depth + 1, next);
    lua_rawseti(L, -2, i);
  }
}

enum { MOST_EMPTY = 1 << 20 }; /* lists of a tensor without elements */

/* Lists that have none: as many as the dimensions before the first 0 say, and
 * no element's memory bounds them. */
static bool too_many_empty(const mrt_type *type) {
  int64_t lists = 1;
  if (mrt_type_count(type) > 0) return false;
  for (int d = 0; d < type->rank && type->dims[d] > 0; d++) {
    if (type->dims[d] > MOST_EMPTY / lists) return true;
    lists *= type->dims[d];
  }
  return false;
}

/* totable(): nested lists; a scalar is a number. */
static int totable(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  const mrt_type *type =
      mrt_tensor_type(mrt_lua_check_tensor(L, m, 1, "totable"));
  if (too_many_empty(type))
    return mrt_lua_fail(L, m, MRT_EVALUE, "totable",
                        "more than %d lists without an element", MOST_EMPTY);
  int64_t next = 0;
  mrt_tensor *t = evaluated(L, m, "totable");
  push_nested(L, t, 0, &next);
  mrt_tensor_leave(t);
  return 1;
}

/* bytes(): row-major, little-endian. */
static int bytes(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  mrt_tensor *t = evaluated(L, m, "bytes");
  lua_pushlstring(L, mrt_tensor_data(t), mrt_type_bytes(mrt_tensor_type(t)));
  mrt_tensor_leave(t);
  return 1;
}

/* element(i): the i-th in row-major order, 1-based. */
static int element(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  mrt_tensor *t = evaluated(L, m, "element");
  lua_Integer i = luaL_checkinteger(L, 2);
  if (i < 1 || i > mrt_type_count(mrt_tensor_type(t)))
    return mrt_lua_fail(L, m, MRT_EVALUE, "element", "there is no element %I",
                        (LUAI_UACINT)i);
  push_element(L, t, i - 1);
  return 1;
}

/* rows(t, {row, ...}): these rows, counted from 0, as a new tensor. */
static int rows(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  luaL_checktype(L, 2, LUA_TTABLE);
  mrt_tensor *t = mrt_lua_check_tensor(L, m, 1, "rows");
  lua_Unsigned n = lua_rawlen(L, 2);
  int64_t *list = lua_newuserdatauv(L, n * sizeof *list + 1, 0);
  for (lua_Unsigned i = 0; i < n; i++) {
    lua_rawgeti(L, 2, (lua_Integer)i + 1);
    list[i] = luaL_checkinteger(L, -1);
    lua_pop(L, 1);
  }
  mrt_lua_at(L, m);
  mrt_tensor **slot = mrt_lua_new_tensor(L);
  MRT_CHECK(L, m, "rows", mrt_tensor_rows(t, list, (int64_t)n, slot));
  mrt_lua_pressure(L, m);
  return 1;
}

/* put_rows(to, row, from): `from` over the rows of `to` from `row` on. */
static int put_rows(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  mrt_tensor *to = mrt_lua_check_tensor(L, m, 1, "rows");
  int64_t row = luaL_checkinteger(L, 2);
  mrt_tensor *from = mrt_lua_check_tensor(L, m, 3, "rows");
  mrt_lua_at(L, m);
  MRT_CHECK(L, m, "rows", mrt_tensor_put_rows(to, row, from));
  return 0;
}

/* same(t): one more handle on it. */
static int same(lua_State *L) {
  mrt_lua_push_tensor(L,
                      mrt_lua_check_tensor(L, mrt_binding_get(L), 1, "same"));
  return 1;
}

/* transfer(t, device): its numbers on another device. */
static int transfer(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  mrt_tensor *t = mrt_lua_check_tensor(L, m, 1, "to");
  mrt_context *to = mrt_lua_open_device(L, m, luaL_checkstring(L, 2));
  mrt_tensor **slot = mrt_lua_new_tensor(L);
  mrt_lua_at(L, m);
  MRT_CHECK(L, m, "to", mrt_tensors_read(mrt_tensor_context(t), &t, 1));
  m->ctx = to; /* whose message it will be */
  MRT_CHECK(L, m, "to",
            mrt_tensor_from(to, mrt_tensor_type(t), mrt_tensor_data(t), slot));
  mrt_tensor_leave(t);
  mrt_lua_pressure(L, m);
  return 1;
}

void mrt_lua_read_open(lua_State *L, mrt_binding *m) {
  static const luaL_Reg methods[] = {
    { "item", item },       { "totable", totable }, { "bytes", bytes },
    { "element", element }, { NULL, NULL },
  };
  static const luaL_Reg functions[] = {
    { "rows", rows },         { "put_rows", put_rows }, { "same", same },
    { "transfer", transfer }, { NULL, NULL },
  };
  mrt_lua_register(L, m, functions);
  lua_getfield(L, -1, "methods");
  mrt_lua_register(L, m, methods);
  lua_pop(L, 1);
}
