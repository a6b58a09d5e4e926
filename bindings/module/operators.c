/* operators.c -- dtypes and operators as Lua tables, operators by name
 *
 * SPDX-License-Identifier: MIT */
#include "fields.h"

#include <string.h>

static const char *option_kind(mrt_option_kind kind) {
  static const char *const names[] = {
    [MRT_OPT_INT] = "int",     [MRT_OPT_NUM] = "num",
    [MRT_OPT_BOOL] = "bool",   [MRT_OPT_DIM] = "dim",
    [MRT_OPT_INDEX] = "index", [MRT_OPT_DTYPE] = "dtype",
    [MRT_OPT_ENUM] = "enum",   [MRT_OPT_INTS] = "ints",
    [MRT_OPT_DIMS] = "dims",
  };
  return names[kind];
}

/* The `index`th of the words in `words`. */
static void push_word(lua_State *L, const char *words, int index) {
  while (index-- > 0) words += strcspn(words, " ") + 1;
  lua_pushlstring(L, words, strcspn(words, " "));
}

/* "default": as Lua would give it, from 1; none where the row says "all" or
 * "that of the input". */
static void set_default(lua_State *L, const mrt_option *o) {
  if (o->required) return;
  switch (o->kind) {
  case MRT_OPT_DIM:
  case MRT_OPT_INDEX:
    if (o->preset < -MRT_MAX_RANK) return; /* no dimension: all of them */
    lua_pushinteger(L, (lua_Integer)o->preset + (o->preset >= 0));
    break;
  case MRT_OPT_INT:
    lua_pushinteger(L, (lua_Integer)o->preset);
    break;
  case MRT_OPT_NUM:
    lua_pushnumber(L, o->preset);
    break;
  case MRT_OPT_BOOL:
    lua_pushboolean(L, o->preset != 0);
    break;
  case MRT_OPT_DTYPE:
    if (o->preset == MRT_DTYPE_COUNT) return;
    lua_pushstring(L, mrt_dtype_name((mrt_dtype)(int)o->preset));
    break;
  case MRT_OPT_ENUM:
    push_word(L, o->words, (int)o->preset);
    break;
  case MRT_OPT_INTS:
  case MRT_OPT_DIMS:
  case MRT_OPT_HIDDEN:
    return;
  }
  lua_setfield(L, -2, "default");
}

static void set_options(lua_State *L, const mrt_op_info *info) {
  int n = 0;
  lua_newtable(L);
  for (int i = 0; i < info->option_count; i++) {
    const mrt_option *o = &info->options[i];
    if (o->kind == MRT_OPT_HIDDEN) continue;
    lua_createtable(L, 0, 5);
    set_text(L, "name", o->name);
    set_text(L, "kind", option_kind(o->kind));
    set_truth(L, "required", o->required);
    set_text(L, "words", o->words);
    set_default(L, o);
    lua_rawseti(L, -2, ++n);
  }
  lua_setfield(L, -2, "options");
}

/* operators() -> a list that describes each; `kernel`: the chosen device can
 * compute it. */
static int operators(lua_State *L) {
  const mrt_context *ctx = mrt_binding_get(L)->ctx;
  lua_createtable(L, mrt_op_count(), 0);
  for (int i = 0; i < mrt_op_count(); i++) {
    mrt_op_info info = mrt_op_get_info(mrt_op_at(i));
    lua_createtable(L, 0, 12);
    set_text(L, "name", info.name);
    set_text(L, "doc", info.doc);
    set_text(L, "class", info.cost);
    set_integer(L, "min_inputs", info.min_inputs);
    set_integer(L, "max_inputs", info.max_inputs);
    set_truth(L, "updates", info.updates);
    set_truth(L, "pointwise", info.pointwise);
    set_truth(L, "differentiable", info.differentiable);
    set_truth(L, "random", info.random);
    set_truth(L, "collective", info.collective);
    set_truth(L, "internal", info.internal);
    set_truth(L, "kernel", mrt_context_has_kernel(ctx, mrt_op_at(i)));
    set_options(L, &info);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* dtypes() -> dtype name -> what is known of it. */
/* The names of the rewrites that have a switch. */
static int rewrites(lua_State *L) {
  lua_createtable(L, MRT_REWRITE_COUNT, 0);
  for (int i = 0; i < MRT_REWRITE_COUNT; i++) {
    lua_pushstring(L, mrt_plan_pass_name(i));
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

static int dtypes(lua_State *L) {
  lua_createtable(L, 0, MRT_DTYPE_COUNT);
  for (int d = 0; d < MRT_DTYPE_COUNT; d++) {
    mrt_dtype_info info = mrt_dtype_get_info((mrt_dtype)d);
    lua_createtable(L, 0, 7);
    set_text(L, "name", info.name);
    set_integer(L, "bytes", (int64_t)info.bytes);
    set_truth(L, "floating", info.floating);
    set_truth(L, "narrow", info.narrow);
    set_integer(L, "exponent", info.exponent);
    set_integer(L, "fraction", info.fraction);
    set_number(L, "largest", info.largest);
    lua_setfield(L, -2, info.name);
  }
  return 1;
}

/* Add dtypes(), operators() and the table op: name -> function. */
void mrt_lua_describe_open(lua_State *L, mrt_binding *m) {
  static const luaL_Reg functions[] = {
    { "dtypes", dtypes },
    { "rewrites", rewrites },
    { "operators", operators },
    { NULL, NULL },
  };
  mrt_lua_register(L, m, functions);
  lua_createtable(L, 0, mrt_op_count());
  for (int i = 0; i < mrt_op_count(); i++) {
    const mrt_op *op = mrt_op_at(i);
    mrt_op_info info = mrt_op_get_info(op);
    if (info.updates) continue;
    mrt_lua_push_operator(L, m, op);
    lua_setfield(L, -2, info.name);
  }
  lua_setfield(L, -2, "op");
}
