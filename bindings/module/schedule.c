/* schedule.c -- mrt.core.schedule: a program within a budget of bytes
 *
 *     result = core.schedule({
 *       bytes = {1024, ...},              by value
 *       pinned = {[7] = true},            there at the end; may be left out
 *       ops = { {cost=, reads={}, makes={}, scratch=, takes={{out, in}, ..},
 *                before=}, ... }
 *     }, budget)
 *     result = { peak=, cost=, bound=, acts = {"run", 1, "drop", 2, ...} }
 *
 * Values and operators count from 1; `scratch`, `takes` and `before` (it runs
 * again only before that operator's first run; 0: never again) may be left out.
 *
 * SPDX-License-Identifier: MIT */
#include "binding.h"

#include <string.h>

typedef struct problem_reader {
  lua_State *L;
  mrt_binding *m;
  mrt_problem p;
} problem_reader;

static int fail(problem_reader *r, int op, const char *what) {
  return mrt_lua_fail(r->L, r->m, MRT_EVALUE, "schedule", "operator %d: %s", op,
                      what);
}

/* Zeroed memory that lives as long as the table of such at stack index 3. */
static void *hold(problem_reader *r, size_t count, size_t size) {
  void *block = lua_newuserdatauv(r->L, (count + 1) * size, 0);
  memset(block, 0, (count + 1) * size);
  lua_rawseti(r->L, 3, (lua_Integer)lua_rawlen(r->L, 3) + 1);
  return block;
}

/* Push field `name` of the operator on top: a list, or nothing; its length. */
static int push_list(problem_reader *r, int op, const char *name) {
  int type = lua_getfield(r->L, -1, name);
  if (type != LUA_TTABLE && type != LUA_TNIL) fail(r, op, "no list of values");
  lua_Unsigned n = type == LUA_TNIL ? 0 : lua_rawlen(r->L, -1);
  if (n > INT32_MAX / 8) fail(r, op, "too many values");
  return (int)n;
}

/* How many items the lists of this name have together. */
static size_t count_items(problem_reader *r, const char *name) {
  size_t sum = 0;
  for (int i = 1; i <= r->p.ops; i++) {
    if (lua_rawgeti(r->L, -1, i) != LUA_TTABLE) fail(r, i, "is no table");
    sum += (size_t)push_list(r, i, name);
    lua_pop(r->L, 2);
  }
  if (sum > INT32_MAX / 8) fail(r, r->p.ops, "too many values");
  return sum;
}

static int read_value(problem_reader *r, int op, int k) {
  int is_integer;
  lua_rawgeti(r->L, -1, k);
  lua_Integer v = lua_tointegerx(r->L, -1, &is_integer);
  lua_pop(r->L, 1);
  if (!is_integer || v < 1 || v > r->p.values) fail(r, op, "no such value");
  return (int)v - 1;
}

static void read_lists(problem_reader *r, const char *name, mrt_lists *lists) {
  lists->start = hold(r, (size_t)r->p.ops + 1, sizeof(int));
  lists->item = hold(r, count_items(r, name), sizeof(int));
  for (int i = 0; i < r->p.ops; i++) {
    lua_rawgeti(r->L, -1, i + 1);
    int n = push_list(r, i + 1, name);
    for (int k = 0; k < n; k++)
      lists->item[lists->start[i] + k] = read_value(r, i + 1, k + 1);
    lists->start[i + 1] = lists->start[i] + n;
    lua_pop(r->L, 2);
  }
}

static void read_takes(problem_reader *r) {
  mrt_problem *p = &r->p;
  p->take_start = hold(r, (size_t)p->ops + 1, sizeof(int));
  p->take = hold(r, count_items(r, "takes"), sizeof(mrt_take));
  for (int i = 0; i < p->ops; i++) {
    lua_rawgeti(r->L, -1, i + 1);
    int n = push_list(r, i + 1, "takes");
    for (int k = 0; k < n; k++) {
      if (lua_rawgeti(r->L, -1, k + 1) != LUA_TTABLE)
        fail(r, i + 1, "takes: {out, in} wanted");
      mrt_take *t = &p->take[p->take_start[i] + k];
      t->out = read_value(r, i + 1, 1);
      t->in = read_value(r, i + 1, 2);
      lua_pop(r->L, 1);
    }
    p->take_start[i + 1] = p->take_start[i] + n;
    lua_pop(r->L, 2);
  }
}

static int64_t read_integer(problem_reader *r, int op, const char *name,
                            lua_Integer without) {
  int is_integer;
  int type = lua_getfield(r->L, -1, name);
  lua_Integer v = lua_tointegerx(r->L, -1, &is_integer);
  lua_pop(r->L, 1);
  if (type == LUA_TNIL) return without;
  if (!is_integer || v < 0) fail(r, op, "scratch and before are integers");
  return v;
}

static void read_numbers(problem_reader *r) {
  mrt_problem *p = &r->p;
  p->cost = hold(r, (size_t)p->ops, sizeof(double));
  p->scratch = hold(r, (size_t)p->ops, sizeof(int64_t));
  p->until = hold(r, (size_t)p->ops, sizeof(int));
  for (int i = 0; i < p->ops; i++) {
    lua_rawgeti(r->L, -1, i + 1);
    lua_getfield(r->L, -1, "cost");
    int is_number;
    p->cost[i] = lua_tonumberx(r->L, -1, &is_number);
    if (!is_number) fail(r, i + 1, "its cost is no number");
    lua_pop(r->L, 1);
    p->scratch[i] = read_integer(r, i + 1, "scratch", 0);
    int64_t before = read_integer(r, i + 1, "before", p->ops + 1);
    p->until[i] = before > 0 ? (int)(before - 1) : 0;
    lua_pop(r->L, 1);
  }
}

static void read_bytes(problem_reader *r) {
  mrt_problem *p = &r->p;
  p->bytes = hold(r, (size_t)p->values, sizeof(int64_t));
  p->pinned = hold(r, (size_t)p->values, sizeof(bool));
  for (int v = 0; v < p->values; v++) {
    int is_integer;
    lua_rawgeti(r->L, -1, v + 1);
    p->bytes[v] = lua_tointegerx(r->L, -1, &is_integer);
    lua_pop(r->L, 1);
    if (!is_integer)
      mrt_lua_fail(r->L, r->m, MRT_EVALUE, "schedule",
                   "value %d: its bytes are no integer", v + 1);
  }
  if (lua_getfield(r->L, 1, "pinned") == LUA_TTABLE)
    for (int v = 0; v < p->values; v++) {
      lua_rawgeti(r->L, -1, v + 1);
      p->pinned[v] = lua_toboolean(r->L, -1);
      lua_pop(r->L, 1);
    }
  lua_pop(r->L, 1);
}

/* The list in field `name` of the problem, on top; its length. */
static int open_field(problem_reader *r, const char *name) {
  if (lua_getfield(r->L, 1, name) != LUA_TTABLE)
    mrt_lua_fail(r->L, r->m, MRT_EVALUE, "schedule", "%s is no list", name);
  lua_Unsigned n = lua_rawlen(r->L, -1);
  if (n > INT32_MAX / 64)
    mrt_lua_fail(r->L, r->m, MRT_EVALUE, "schedule", "%s is too long", name);
  return (int)n;
}

static void push_acts(lua_State *L, const mrt_schedule *s) {
  static const char *const names[] = { "run", "drop", "out", "in" };
  lua_createtable(L, 2 * s->count, 0);
  for (int i = 0; i < s->count; i++) {
    lua_pushstring(L, names[s->act[i].kind]);
    lua_rawseti(L, -2, 2 * i + 1);
    lua_pushinteger(L, s->act[i].index + 1);
    lua_rawseti(L, -2, 2 * i + 2);
  }
}

/* Pushes the result and frees the schedule that waits in a userdata. */
static int push_result(lua_State *L) {
  const mrt_schedule *s = lua_touserdata(L, 1);
  lua_createtable(L, 0, 4);
  lua_pushinteger(L, s->peak);
  lua_setfield(L, -2, "peak");
  lua_pushnumber(L, s->cost);
  lua_setfield(L, -2, "cost");
  lua_pushnumber(L, s->bound);
  lua_setfield(L, -2, "bound");
  push_acts(L, s);
  lua_setfield(L, -2, "acts");
  return 1;
}

static int schedule(lua_State *L) {
  problem_reader r = { .L = L, .m = mrt_binding_get(L) };
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_Integer budget = luaL_checkinteger(L, 2);
  lua_settop(L, 2);
  lua_newtable(L);
  r.p.values = open_field(&r, "bytes");
  read_bytes(&r);
  r.p.ops = open_field(&r, "ops");
  read_lists(&r, "reads", &r.p.reads);
  read_lists(&r, "makes", &r.p.makes);
  read_takes(&r);
  read_numbers(&r);
  mrt_schedule s;
  lua_pushcfunction(L, push_result);
  lua_pushlightuserdata(L, &s);
  mrt_lua_at(L, r.m);
  MRT_CHECK(L, r.m, "schedule",
            mrt_schedule_find(r.m->ctx, &r.p, NULL, budget, &s));
  int wrong = lua_pcall(L, 1, 1, 0);
  mrt_schedule_free(r.m->ctx, &s);
  return wrong ? lua_error(L) : 1;
}

void mrt_lua_schedule_open(lua_State *L, mrt_binding *m) {
  static const luaL_Reg functions[] = { { "schedule", schedule },
                                        { NULL, NULL } };
  mrt_lua_register(L, m, functions);
}
