/* transfers.c -- copies of a plan between memory and the swap tier, as tables
 *
 * SPDX-License-Identifier: MIT */
#include "binding.h"

static void set_integer(lua_State *L, const char *key, int64_t value) {
  lua_pushinteger(L, value);
  lua_setfield(L, -2, key);
}

static void set_number(lua_State *L, const char *key, double value) {
  lua_pushnumber(L, value);
  lua_setfield(L, -2, key);
}

static void set_text(lua_State *L, const char *key, const char *value) {
  lua_pushstring(L, value); /* nil for NULL */
  lua_setfield(L, -2, key);
}

/* Of each tier: name, bytes, capacity (absent: unknown), copied_out, _in. */
static int plan_tiers(lua_State *L) {
  const mrt_plan *plan = mrt_lua_check_plan(L, mrt_binding_get(L), 1);
  int n = mrt_plan_tier_count(plan);
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) {
    mrt_tier_info t = mrt_plan_get_tier(plan, i);
    lua_createtable(L, 0, 5);
    set_text(L, "name", t.name);
    set_integer(L, "bytes", (int64_t)t.bytes);
    if (t.capacity) set_integer(L, "capacity", (int64_t)t.capacity);
    set_integer(L, "copied_out", (int64_t)t.copied_out);
    set_integer(L, "copied_in", (int64_t)t.copied_in);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* Steps and values are 1-based here. */
static int plan_transfers(lua_State *L) {
  const mrt_plan *plan = mrt_lua_check_plan(L, mrt_binding_get(L), 1);
  int n = mrt_plan_transfer_count(plan);
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) {
    mrt_transfer_info t = mrt_plan_get_transfer(plan, i);
    lua_createtable(L, 0, 10);
    set_text(L, "lane", t.out ? "out" : "in");
    set_text(L, "name", mrt_plan_get_buffer(plan, t.resident).name);
    set_integer(L, "value", t.resident + 1);
    set_integer(L, "swapped", t.swapped + 1);
    set_integer(L, "tier", t.tier + 1);
    set_integer(L, "bytes", (int64_t)t.bytes);
    set_integer(L, "start", t.start + 1);
    set_integer(L, "wait", t.wait + 1);
    set_number(L, "time", t.seconds);
    set_number(L, "beside", t.beside);
    set_number(L, "stall", t.stall);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

static double number_at(lua_State *L, int table, const char *key) {
  lua_getfield(L, table, key);
  double value = luaL_checknumber(L, -1);
  lua_pop(L, 1);
  return value;
}

/* predict_stall(seconds of each step, rates): seconds that a run waits. */
static int plan_predict_stall(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  const mrt_plan *plan = mrt_lua_check_plan(L, m, 1);
  int n = mrt_plan_get_info(plan).nodes;
  luaL_checktype(L, 2, LUA_TTABLE);
  luaL_checktype(L, 3, LUA_TTABLE);
  mrt_swap_rates rates = { .latency = number_at(L, 3, "latency"),
                           .out = number_at(L, 3, "out"),
                           .in = number_at(L, 3, "in"),
                           .out_shared = number_at(L, 3, "out_shared"),
                           .in_shared = number_at(L, 3, "in_shared") };
  double *seconds = lua_newuserdatauv(L, (size_t)n * sizeof *seconds + 1, 0);
  for (int i = 0; i < n; i++) {
    lua_rawgeti(L, 2, i + 1);
    seconds[i] = luaL_checknumber(L, -1);
    lua_pop(L, 1);
  }
  double total;
  MRT_CHECK(L, m, "plan",
            mrt_plan_transfer_time(plan, seconds, &rates, NULL, &total));
  lua_pushnumber(L, total);
  return 1;
}

static int plan_stalled(lua_State *L) {
  const mrt_plan *plan = mrt_lua_check_plan(L, mrt_binding_get(L), 1);
  lua_pushnumber(L, mrt_plan_stalled(plan));
  return 1;
}

const luaL_Reg mrt_lua_plan_transfers[] = {
  { "tiers", plan_tiers },
  { "transfers", plan_transfers },
  { "stalled", plan_stalled },
  { "predict_stall", plan_predict_stall },
  { NULL, NULL },
};
