/* match.c -- dtypes promoted and shapes broadcast before a pointwise operator
 *
 *   dtypes   promoted, and
 *   shapes   broadcast, as the core does it everywhere
 *   numbers  take the tensors' dtype, so that x + 1 and x * 0.5 keep f32; an
 *            integer needs i64 at least beside bool, a float f32 beside
 *            integers
 *   reals    operators of real numbers (exp, atan2 ..) take integers and bool
 *            as f32
 *
 * SPDX-License-Identifier: MIT */
#include "binding.h"

#include <string.h>

/* The dtype of the whole from tensors, then from numbers. */
static mrt_dtype common_dtype(lua_State *L, mrt_binding *m, int first,
                              int count) {
  mrt_dtype dtype = MRT_bool;
  for (int i = first; i < first + count; i++) {
    mrt_tensor *t = mrt_lua_to_tensor(L, m, i);
    if (t) dtype = mrt_dtype_promote(dtype, mrt_tensor_type(t)->dtype);
  }
  for (int i = first; i < first + count; i++) {
    if (lua_type(L, i) != LUA_TNUMBER) continue;
    if (!lua_isinteger(L, i)) {
      if (mrt_dtype_width(dtype) <= mrt_dtype_width(MRT_i64)) dtype = MRT_f32;
    } else if (dtype == MRT_bool) {
      dtype = MRT_i64;
    }
  }
  return dtype;
}

/* ---- numbers ------------------------------------------------------------- */

static void check_range(lua_State *L, mrt_binding *m, const char *who, int arg,
                        mrt_dtype dtype) {
  if (dtype == MRT_bool || mrt_dtype_width(dtype) > mrt_dtype_width(MRT_i64))
    return;
  int is_integer;
  lua_Integer v = lua_tointegerx(L, arg, &is_integer);
  bool fits = dtype == MRT_u8    ? v >= 0 && v <= UINT8_MAX
              : dtype == MRT_i32 ? v >= INT32_MIN && v <= INT32_MAX
                                 : true;
  if (!is_integer || !fits)
    mrt_lua_fail(L, m, MRT_EVALUE, who, "%s does not fit %s",
                 mrt_lua_show(L, arg), mrt_dtype_name(dtype));
}

/* Push the number at `arg` as a scalar tensor. */
static void push_number(lua_State *L, mrt_binding *m, const char *who, int arg,
                        mrt_dtype dtype) {
  check_range(L, m, who, arg, dtype);
  int64_t integer = lua_tointeger(L, arg);
  double number = lua_tonumber(L, arg);
  if (dtype == MRT_i64 &&
      (integer > (INT64_C(1) << 53) || integer < -(INT64_C(1) << 53))) {
    mrt_type type = { .dtype = dtype }; /* a double cannot hold it */
    mrt_tensor **slot = mrt_lua_new_tensor(L);
    MRT_CHECK(L, m, who, mrt_tensor_from(m->ctx, &type, &integer, slot));
    return;
  }
  mrt_lua_call call;
  mrt_lua_call_init(&call, m->full);
  mrt_lua_call_set(&call, MRT_OPT_NUM, &number, sizeof number);
  mrt_lua_call_set(&call, MRT_OPT_DTYPE, &dtype, sizeof dtype);
  mrt_lua_apply(L, m, &call, NULL, 0);
}

mrt_tensor *mrt_lua_convert(lua_State *L, mrt_binding *m, const char *who,
                            int arg, mrt_dtype dtype) {
  arg = lua_absindex(L, arg);
  if (lua_type(L, arg) == LUA_TNUMBER) {
    push_number(L, m, who, arg, dtype);
    lua_replace(L, arg);
    return mrt_lua_to_tensor(L, m, arg);
  }
  mrt_tensor *t = mrt_lua_check_tensor(L, m, arg, who);
  if (mrt_tensor_type(t)->dtype == dtype) return t;
  mrt_lua_call call;
  mrt_lua_call_init(&call, m->cast);
  mrt_lua_call_set(&call, MRT_OPT_DTYPE, &dtype, sizeof dtype);
  t = mrt_lua_apply(L, m, &call, &t, 1);
  lua_replace(L, arg);
  return t;
}

/* ---- shapes -------------------------------------------------------------- */

static bool same_shape(const mrt_type *a, const mrt_type *b) {
  return a->rank == b->rank &&
         memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) == 0;
}

mrt_tensor *mrt_lua_expand(lua_State *L, mrt_binding *m, int arg,
                           const mrt_type *like) {
  arg = lua_absindex(L, arg);
  mrt_tensor *t = mrt_lua_check_tensor(L, m, arg, "expand");
  if (same_shape(mrt_tensor_type(t), like)) return t;
  mrt_ints shape = { .count = like->rank };
  memcpy(shape.at, like->dims, (size_t)like->rank * sizeof *like->dims);
  mrt_lua_call call;
  mrt_lua_call_init(&call, m->expand);
  mrt_lua_call_set(&call, MRT_OPT_INTS, &shape, sizeof shape);
  t = mrt_lua_apply(L, m, &call, &t, 1);
  lua_replace(L, arg);
  return t;
}

/* "f32[2,3] against f32[4]" */
static void refuse(lua_State *L, mrt_binding *m, const char *who, int first,
                   int count) {
  luaL_checkstack(L, 8, NULL);
  char text[256];
  lua_pushliteral(L, "");
  for (int i = first; i < first + count; i++) {
    mrt_type_print(mrt_tensor_type(mrt_lua_to_tensor(L, m, i)), text,
                   sizeof text);
    lua_pushfstring(L, i > first ? " against %s" : "%s", text);
    lua_concat(L, 2);
  }
  mrt_lua_fail(L, m, MRT_ESHAPE, who, "%s, shapes do not broadcast",
               lua_tostring(L, -1));
}

void mrt_lua_match(lua_State *L, mrt_binding *m, const mrt_op_info *op,
                   int first, int count) {
  const char *who = op->name;
  /* Of three, the first is a condition that chooses between the others. */
  int skip = count == 3;
  mrt_dtype dtype = common_dtype(L, m, first + skip, count - skip);
  if (op->of_reals && mrt_dtype_width(dtype) <= mrt_dtype_width(MRT_i64))
    dtype = MRT_f32;
  if (skip && lua_type(L, first) == LUA_TNUMBER)
    mrt_lua_convert(L, m, who, first, MRT_bool);
  for (int i = first + skip; i < first + count; i++)
    mrt_lua_convert(L, m, who, i, dtype);
  mrt_type shape = { .rank = 0 };
  bool fits = true;
  for (int i = first; fits && i < first + count; i++)
    fits =
        mrt_type_broadcast(&shape, mrt_tensor_type(mrt_lua_to_tensor(L, m, i)));
  if (!fits) refuse(L, m, who, first, count);
  for (int i = first; i < first + count; i++) mrt_lua_expand(L, m, i, &shape);
}
