/* plan_option.c -- options of a plan from a Lua table
 *
 * Names and values have been checked in Lua.
 *
 * SPDX-License-Identifier: MIT */
#include "binding.h"

#include <stdlib.h>
#include <string.h>

static bool flag(lua_State *L, int arg, const char *name) {
  lua_getfield(L, arg, name);
  bool on = lua_toboolean(L, -1);
  lua_pop(L, 1);
  return on;
}

static lua_Integer count(lua_State *L, int arg, const char *name) {
  lua_getfield(L, arg, name);
  lua_Integer n = lua_tointeger(L, -1);
  lua_pop(L, 1);
  return n;
}

/* Does the option say false? */
static bool is_off(lua_State *L, int arg, const char *name) {
  lua_getfield(L, arg, name);
  bool off = lua_isboolean(L, -1) && !lua_toboolean(L, -1);
  lua_pop(L, 1);
  return off;
}

/* None given is 0, as much as is worth it; a 0 given: as little as can be. */
static int read_effort(lua_State *L, int arg) {
  lua_getfield(L, arg, "effort");
  bool given = !lua_isnil(L, -1);
  int effort = (int)lua_tointeger(L, -1);
  lua_pop(L, 1);
  return given && effort == 0 ? -1 : effort;
}

/* None given is 0, the device's; a 0 given: none. */
static double read_spend(lua_State *L, int arg) {
  bool given = lua_getfield(L, arg, "spend") != LUA_TNIL;
  double share = lua_tonumber(L, -1);
  lua_pop(L, 1);
  return given && share == 0 ? -1 : share;
}

static mrt_plan_options read_plain(lua_State *L, int arg) {
  mrt_plan_options o = { 0 };
  const char *name;
  for (int i = 0; (name = mrt_plan_pass_name(i)); i++)
    if (is_off(L, arg, name)) o.off |= UINT64_C(1) << i;
  o.no_inplace = is_off(L, arg, "inplace"),
  o.no_share = is_off(L, arg, "share");
  o.quick = flag(L, arg, "quick"), o.glance = flag(L, arg, "glance"),
  o.any = flag(L, arg, "any");
  o.offer = flag(L, arg, "offer");
  o.no_swap = flag(L, arg, "no_swap");
  o.in_tier = flag(L, arg, "update_on_host")     ? 1
              : is_off(L, arg, "update_on_host") ? -1
                                                 : 0;
  o.trap = flag(L, arg, "trap"), o.overflows = flag(L, arg, "overflows");
  o.spare = flag(L, arg, "spare"), o.handed_on = flag(L, arg, "handed_on");
  o.no_sequence = is_off(L, arg, "sequence");
  o.no_ring = is_off(L, arg, "ring");
  o.context = (int)count(L, arg, "context");
  o.experts = (int)count(L, arg, "experts");
  lua_getfield(L, arg, "capacity");
  o.capacity = lua_tonumber(L, -1);
  lua_pop(L, 1);
  o.spend = read_spend(L, arg);
  o.effort = read_effort(L, arg);
  o.prefetch = (int)count(L, arg, "prefetch");
  o.rank = count(L, arg, "rank"), o.ranks = count(L, arg, "ranks");
  o.rows = count(L, arg, "rows");
  lua_getfield(L, arg, "order");
  const char *order = lua_tostring(L, -1);
  o.keep_order = order && strcmp(order, "program") == 0;
  lua_getfield(L, arg, "name"); /* the table keeps the string */
  o.name = lua_tostring(L, -1);
  lua_pop(L, 2);
  return o;
}

/* The function and the bytes among the options at `arg`; pushes a value. */
static void read_budget(lua_State *L, mrt_binding *m, int arg,
                        mrt_plan_options *o, mrt_lua_policy_call *policy) {
  lua_getfield(L, arg, "memory");
  if (lua_isinteger(L, -1)) o->memory = (size_t)lua_tointeger(L, -1);
  lua_pop(L, 1);
  if (lua_getfield(L, arg, "checkpoint") != LUA_TFUNCTION) return;
  *policy = (mrt_lua_policy_call){ L, m, lua_gettop(L) };
  o->checkpoint = mrt_lua_policy;
  o->checkpoint_user = policy;
}

/* A plan of the same function for other sizes; one that is closed is none. */
static const mrt_plan *read_like(lua_State *L, int arg) {
  lua_getfield(L, arg, "like");
  const mrt_plan *like = mrt_lua_plan_at(L, -1);
  lua_pop(L, 1);
  return like;
}

static int by_key(const void *a, const void *b) {
  const mrt_measured *x = a, *y = b;
  return (x->key > y->key) - (x->key < y->key);
}

/* options.measured, {[key] = seconds}; what is pushed holds the array. */
static void read_measured(lua_State *L, int arg, mrt_plan_options *o) {
  lua_pushnil(L);
  if (lua_getfield(L, arg, "measured") != LUA_TTABLE) {
    lua_pop(L, 1);
    return;
  }
  int n = 0;
  for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) n++;
  mrt_measured *list = lua_newuserdatauv(L, ((size_t)n + 1) * sizeof *list, 0);
  lua_replace(L, -3);
  o->measured = list;
  for (lua_pushnil(L); lua_next(L, -2) && o->measured_count < n; lua_pop(L, 1))
    list[o->measured_count++] =
        (mrt_measured){ (uint64_t)lua_tointeger(L, -2), lua_tonumber(L, -1) };
  lua_pop(L, 1);
  qsort(list, (size_t)o->measured_count, sizeof *list, by_key);
}

static mrt_tensor *tensor_field(lua_State *L, mrt_binding *m, const char *key) {
  lua_getfield(L, -1, key);
  mrt_tensor *t = mrt_lua_to_tensor(L, m, -1);
  lua_pop(L, 1); /* the table keeps it */
  return t;
}

/* options.delayed = {scale = , amax = , sites = function(self, list)} */
static void read_delayed(lua_State *L, mrt_binding *m, int arg,
                         mrt_lua_plan_reading *r) {
  if (lua_getfield(L, arg, "delayed") != LUA_TTABLE) return;
  r->delaying = (mrt_lua_policy_call){ L, m, lua_gettop(L) };
  r->delayed = (mrt_delayed){ .scale = tensor_field(L, m, "scale"),
                              .amax = tensor_field(L, m, "amax"),
                              .sites = mrt_lua_sites,
                              .user = &r->delaying };
  r->options.delayed = &r->delayed;
}

void mrt_lua_read_plan_options(lua_State *L, mrt_binding *m, int arg,
                               mrt_lua_plan_reading *r) {
  *r = (mrt_lua_plan_reading){ .swap = { mrt_lua_swap_policy, &r->swapping } };
  if (!lua_istable(L, arg)) return;
  r->options = read_plain(L, arg);
  r->options.like = read_like(L, arg);
  read_measured(L, arg, &r->options);
  read_budget(L, m, arg, &r->options, &r->policy);
  if (lua_getfield(L, arg, "precision") == LUA_TFUNCTION) {
    r->options.precision = mrt_lua_precision_policy;
    r->options.precision_user = &r->precision;
  }
  r->precision = (mrt_lua_policy_call){ L, m, lua_gettop(L) };
  if (lua_getfield(L, arg, "swap") == LUA_TFUNCTION) r->options.swap = &r->swap;
  r->swapping = (mrt_lua_policy_call){ L, m, lua_gettop(L) };
  read_delayed(L, m, arg, r);
  if (lua_getfield(L, arg, "compress") == LUA_TFUNCTION) {
    r->options.compress = mrt_lua_compress_policy;
    r->options.compress_user = &r->compressing;
  }
  r->compressing = (mrt_lua_policy_call){ L, m, lua_gettop(L) };
  if (lua_getfield(L, arg, "place") == LUA_TFUNCTION) {
    r->options.place = mrt_lua_place_policy;
    r->options.place_user = &r->placing;
  }
  r->placing = (mrt_lua_policy_call){ L, m, lua_gettop(L) };
}
