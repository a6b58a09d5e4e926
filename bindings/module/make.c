/* make.c -- tensors from Lua tables, numbers and bytes
 *
 * A nested table is measured along its first elements, then checked and read
 * in one walk; what does not fit is named by its place, as in "[2][3]".
 *
 * SPDX-License-Identifier: MIT */
#include "binding.h"

#include <math.h>
#include <string.h>

/* A walk over a nested table. */
typedef struct table_walk {
  lua_State *L;
  mrt_binding *m;
  mrt_type type;
  lua_Integer place[MRT_MAX_RANK]; /* where we are, 1-based */
  bool booleans, integers, floats; /* what there is */
  void *data;                      /* NULL while looking */
  int64_t next;                    /* element to fill */
} table_walk;

/* Push "[2][3]", the place of `depth` indices. */
static const char *push_place(const table_walk *w, int depth) {
  lua_pushliteral(w->L, "");
  for (int i = 0; i < depth; i++) {
    lua_pushfstring(w->L, "[%I]", (LUAI_UACINT)w->place[i]);
    lua_concat(w->L, 2);
  }
  return lua_tostring(w->L, -1);
}

static void refuse(const table_walk *w, int depth, const char *what) {
  mrt_lua_fail(w->L, w->m, MRT_EVALUE, "tensor", "%s at %s", what,
               depth ? push_place(w, depth) : "the top");
}

/* Dimensions along the first elements of the value on top. */
static void measure(table_walk *w) {
  lua_State *L = w->L;
  int top = lua_gettop(L);
  while (lua_istable(L, -1)) {
    if (w->type.rank == MRT_MAX_RANK)
      mrt_lua_fail(L, w->m, MRT_ESHAPE, "tensor", "tables more than %d deep",
                   (int)MRT_MAX_RANK);
    luaL_checkstack(L, 4, NULL);
    lua_Unsigned n = lua_rawlen(L, -1);
    w->type.dims[w->type.rank++] = (int64_t)n;
    if (n == 0) break;
    lua_rawgeti(L, -1, 1);
  }
  lua_settop(L, top);
}

static void look_at(table_walk *w) {
  lua_State *L = w->L;
  if (lua_isboolean(L, -1))
    w->booleans = true;
  else if (lua_isinteger(L, -1))
    w->integers = true;
  else if (lua_type(L, -1) == LUA_TNUMBER)
    w->floats = true;
  else
    refuse(w, w->type.rank,
           lua_pushfstring(L, "%s instead of a number", luaL_typename(L, -1)));
}

static lua_Integer integer_of(const table_walk *w, lua_Integer least,
                              lua_Integer most) {
  lua_State *L = w->L;
  int is_integer = 1;
  lua_Integer v = lua_isboolean(L, -1) ? lua_toboolean(L, -1)
                                       : lua_tointegerx(L, -1, &is_integer);
  if (!is_integer || v < least || v > most)
    refuse(w, w->type.rank,
           lua_pushfstring(L, "%s does not fit %s", mrt_lua_show(L, -1),
                           mrt_dtype_name(w->type.dtype)));
  return v;
}

static double number_of(const table_walk *w) {
  return lua_isboolean(w->L, -1) ? lua_toboolean(w->L, -1)
                                 : lua_tonumber(w->L, -1);
}

static void fill_one(table_walk *w) {
  int64_t i = w->next++;
  switch (w->type.dtype) { /* over element types */
  case MRT_f64:
    ((double *)w->data)[i] = number_of(w);
    break;
  case MRT_i64:
    ((int64_t *)w->data)[i] = integer_of(w, INT64_MIN, INT64_MAX);
    break;
  case MRT_i32:
    ((int32_t *)w->data)[i] = (int32_t)integer_of(w, INT32_MIN, INT32_MAX);
    break;
  case MRT_u8:
    ((uint8_t *)w->data)[i] = (uint8_t)integer_of(w, 0, UINT8_MAX);
    break;
  case MRT_bool:
    ((uint8_t *)w->data)[i] = number_of(w) != 0;
    break;
  default:
    ((float *)w->data)[i] = (float)number_of(w);
    break;
  }
}

/* Visit every element of the value on top, which is `depth` deep. */
static void visit(table_walk *w, int depth) {
  lua_State *L = w->L;
  if (depth == w->type.rank) {
    if (lua_istable(L, -1)) refuse(w, depth, "a table instead of a number");
    if (w->data)
      fill_one(w);
    else
      look_at(w);
    return;
  }
  if (!lua_istable(L, -1))
    refuse(w, depth,
           lua_pushfstring(L, "%s instead of a table", luaL_typename(L, -1)));
  int64_t n = (int64_t)lua_rawlen(L, -1);
  if (n != w->type.dims[depth])
    refuse(w, depth,
           lua_pushfstring(L, "ragged table: %I elements instead of %I",
                           (LUAI_UACINT)n, (LUAI_UACINT)w->type.dims[depth]));
  luaL_checkstack(L, 8, NULL);
  for (int64_t i = 1; i <= n; i++) {
    w->place[depth] = i;
    lua_rawgeti(L, -1, i);
    visit(w, depth + 1);
    lua_pop(L, 1);
  }
}

static mrt_dtype natural_dtype(const table_walk *w) {
  if (w->booleans && (w->integers || w->floats))
    refuse(w, 0, "booleans among numbers");
  return w->booleans ? MRT_bool : w->integers && !w->floats ? MRT_i64 : MRT_f32;
}

/* Narrow floats are read as f64 and rounded once, by the core. */
static mrt_dtype storage_dtype(mrt_dtype dtype) {
  return mrt_dtype_get_info(dtype).narrow ? MRT_f64 : dtype;
}

/* tensor(table | number | boolean, dtype?) */
static int make_tensor(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  bool given = !lua_isnoneornil(L, 2);
  mrt_dtype wanted = given ? mrt_lua_check_dtype(L, m, 2, "tensor") : MRT_f32;
  lua_settop(L, 1);
  table_walk w = { .L = L, .m = m };
  mrt_lua_at(L, m);
  measure(&w);
  visit(&w, 0);
  if (!given) wanted = natural_dtype(&w);
  w.type.dtype = storage_dtype(wanted);
  w.data = lua_newuserdatauv(L, mrt_type_bytes(&w.type) + 1, 0);
  lua_insert(L, 1);
  visit(&w, 0);
  mrt_tensor **slot = mrt_lua_new_tensor(L);
  MRT_CHECK(L, m, "tensor", mrt_tensor_from(m->ctx, &w.type, w.data, slot));
  mrt_lua_convert(L, m, "tensor", -1, wanted);
  mrt_lua_pressure(L, m);
  return 1;
}

/* ---- bytes --------------------------------------------------------------- */

static size_t check_bytes(lua_State *L, mrt_binding *m, const mrt_type *type) {
  uint64_t n = 1, most = UINT64_C(1) << 60;
  bool overflow = false;
  for (int i = 0; i < type->rank; i++) {
    if (type->dims[i] < 0)
      mrt_lua_fail(L, m, MRT_ESHAPE, "from_bytes", "dimension %d is negative",
                   i + 1);
    uint64_t d = (uint64_t)type->dims[i];
    if (d && n > most / d)
      overflow = true;
    else
      n *= d;
  }
  if (overflow)
    mrt_lua_fail(L, m, MRT_ESHAPE, "from_bytes", "the size overflows");
  return mrt_type_bytes(type);
}

/* A bool is 0 or 1, whatever the file says. */
static const char *check_bools(lua_State *L, mrt_binding *m, const char *data,
                               size_t n) {
  for (size_t i = 0; i < n; i++)
    if (data[i] & ~1)
      mrt_lua_fail(L, m, MRT_EVALUE, "from_bytes",
                   "byte %d at %I, 0 or 1 wanted", (unsigned char)data[i],
                   (LUAI_UACINT)i + 1);
  return data;
}

/* from_bytes(string, dtype, shape): row-major, little-endian. */
static int from_bytes(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  size_t n;
  if (lua_type(L, 1) != LUA_TSTRING)
    return mrt_lua_fail(L, m, MRT_EVALUE, "from_bytes",
                        "a string wanted, got %s", luaL_typename(L, 1));
  const char *data = lua_tolstring(L, 1, &n);
  mrt_type type = { .dtype = mrt_lua_check_dtype(L, m, 2, "from_bytes") };
  mrt_ints shape = { 0 };
  mrt_lua_check_ints(L, m, 3, "from_bytes", "shape", &shape);
  type.rank = shape.count;
  memcpy(type.dims, shape.at, sizeof type.dims);
  if (check_bytes(L, m, &type) != n) {
    char text[256];
    mrt_type_print(&type, text, sizeof text);
    return mrt_lua_fail(L, m, MRT_ESHAPE, "from_bytes",
                        "%I bytes for %s, %I wanted", (LUAI_UACINT)n, text,
                        (LUAI_UACINT)mrt_type_bytes(&type));
  }
  if (type.dtype == MRT_bool) check_bools(L, m, data, n);
  mrt_lua_at(L, m);
  mrt_tensor **slot = mrt_lua_new_tensor(L);
  MRT_CHECK(L, m, "from_bytes", mrt_tensor_from(m->ctx, &type, data, slot));
  mrt_lua_pressure(L, m);
  return 1;
}

void mrt_lua_make_open(lua_State *L, mrt_binding *m) {
  static const luaL_Reg functions[] = {
    { "tensor", make_tensor },
    { "from_bytes", from_bytes },
    { NULL, NULL },
  };
  mrt_lua_register(L, m, functions);
}
