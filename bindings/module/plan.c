/* plan.c -- plans, the spaces they share
 *
 * A plan userdata keeps what a run needs, so that running one allocates only
 * the userdata of its results: arrays for inputs and outputs, and a scalar
 * tensor for each input that the program gives as a number (learning rates).
 *
 * SPDX-License-Identifier: MIT */
#include "fields.h"

#include <string.h>
#include <time.h>

#define PLAN  "mrt.CorePlan"
#define SPACE "mrt.Space"

typedef struct plan {
  mrt_plan *plan;
  mrt_lua_handles *in, *out, *numbers; /* user values 1, 2, 3 */
} plan;

enum { USER_SPACE = 4, USER_VALUES = 4 };

static plan *check_plan(lua_State *L, mrt_binding *m, int arg) {
  plan *p = luaL_testudata(L, arg, PLAN);
  if (!p) {
    mrt_lua_fail(L, m, MRT_EVALUE, "plan", "a plan wanted, got %s",
                 luaL_typename(L, arg));
    return NULL;
  }
  if (!p->plan) mrt_lua_fail(L, m, MRT_ESTATE, NULL, "plan is closed");
  mrt_binding_decide(m, mrt_plan_context(p->plan));
  return p;
}

mrt_plan *mrt_lua_check_plan(lua_State *L, mrt_binding *m, int arg) {
  return check_plan(L, m, arg)->plan;
}

mrt_plan *mrt_lua_plan_at(lua_State *L, int arg) {
  plan *p = luaL_testudata(L, arg, PLAN);
  return p ? p->plan : NULL;
}

/* ---- making -------------------------------------------------------------- */

/* Push a plan userdata that holds no plan yet. */
static plan *push_plan(lua_State *L, int inputs, int outputs, int space) {
  plan *p = lua_newuserdatauv(L, sizeof *p, USER_VALUES);
  p->plan = NULL;
  luaL_setmetatable(L, PLAN);
  p->in = mrt_lua_new_handles(L, inputs);
  lua_setiuservalue(L, -2, 1);
  p->out = mrt_lua_new_handles(L, outputs);
  lua_setiuservalue(L, -2, 2);
  p->numbers = mrt_lua_new_handles(L, inputs);
  lua_setiuservalue(L, -2, 3);
  lua_pushvalue(L, space);
  lua_setiuservalue(L, -2, USER_SPACE);
  return p;
}

/* (inputs, outputs, options, space?, part?) -> plan.  `inputs` says how many
 * there were; `part` is a batch.  With options.offer the error of a budget has
 * a `plan` that takes what is needed, if there is one. */
static int make_plan(lua_State *L, bool last) {
  mrt_binding *m = mrt_binding_get(L);
  lua_settop(L, 5);
  mrt_lua_handles *outputs = mrt_lua_check_list(L, m, 2, "trace");
  mrt_space **space = luaL_testudata(L, 4, SPACE);
  mrt_lua_plan_reading reading;
  mrt_lua_read_plan_options(L, m, 3, &reading);
  reading.options.part = mrt_lua_to_batch(L, 5);
  lua_Integer inputs = luaL_checkinteger(L, 1);
  luaL_argcheck(L, inputs >= 0 && inputs <= MRT_LONGEST_LIST, 1,
                "not a count of inputs");
  plan *p = push_plan(L, (int)inputs, outputs->count, 4);
  int at = lua_gettop(L);
  mrt_lua_at(L, m);
  /* The trace ends whatever is returned, so there is no second try. */
  mrt_status status = (last ? mrt_trace_end : mrt_trace_plan)(
      m->ctx, outputs->at, outputs->count, &reading.options,
      space ? *space : NULL, &p->plan);
  mrt_lua_handles_clear(outputs);
  if (status == MRT_EBUDGET && p->plan) return mrt_lua_offer(L, m, at, "plan");
  if (status != MRT_OK) {
    p->plan = NULL;
    return mrt_lua_raise(L, m, status, "plan");
  }
  return 1;
}

static int trace_end(lua_State *L) { return make_plan(L, true); }
/* The same, and the trace goes on. */
static int trace_plan(lua_State *L) { return make_plan(L, false); }

/* ---- running ------------------------------------------------------------- */

/* Input i as a number: the plan's own scalar with that value.  Nobody else
 * ever sees it, so it can be written again before every run. */
static mrt_tensor *number_input(lua_State *L, mrt_binding *m, plan *p, int i) {
  float value = (float)lua_tonumber(L, -1);
  mrt_tensor **slot = &p->numbers->at[i];
  if (*slot) {
    MRT_CHECK(L, m, "plan", mrt_tensor_write(*slot, &value));
    return *slot;
  }
  mrt_type type = { .dtype = MRT_f32 };
  MRT_CHECK(L, m, "plan", mrt_tensor_from(m->ctx, &type, &value, slot));
  return *slot;
}

static void read_inputs(lua_State *L, mrt_binding *m, plan *p, int list) {
  int n = p->in->count;
  if (!lua_istable(L, list) || lua_rawlen(L, list) != (lua_Unsigned)n)
    mrt_lua_fail(L, m, MRT_EVALUE, "plan", "a list of %d inputs wanted", n);
  mrt_lua_handles_clear(p->in);
  for (int i = 0; i < n; i++) {
    lua_rawgeti(L, list, i + 1);
    mrt_tensor *t = lua_type(L, -1) == LUA_TNUMBER
                        ? number_input(L, m, p, i)
                        : mrt_lua_check_tensor(L, m, -1, "plan");
    mrt_tensor_ref(t);
    p->in->at[i] = t;
    lua_pop(L, 1);
  }
}

/* run(plan, inputs) -> outputs...: an input is a tensor, or a number for a
 * scalar f32. */
/* What a run has met that is no error. */
static void warn_of_notice(lua_State *L, const mrt_plan *plan) {
  char text[400];
  mrt_context_take_notice(mrt_plan_context(plan), text, sizeof text);
  if (!text[0]) return;
  lua_warning(L, "mrt: ", 1);
  lua_warning(L, text, 0);
}

static int run(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  plan *p = check_plan(L, m, 1);
  lua_settop(L, 2);
  if (mrt_lua_in_finalizer(L)) /* it may have interrupted a run of this plan */
    return mrt_lua_fail(L, m, MRT_ESTATE, "plan", "cannot run in a finalizer");
  int n = p->out->count;
  luaL_checkstack(L, n + 8, "too many results");
  for (int i = 0; i < n; i++) mrt_lua_new_tensor(L);
  read_inputs(L, m, p, 2);
  mrt_lua_at(L, m);
  mrt_status status =
      mrt_plan_run(p->plan, p->in->at, p->in->count, p->out->at, n);
  if (status == MRT_ENOMEM) {
    mrt_lua_collect(L);
    status = mrt_plan_run(p->plan, p->in->at, p->in->count, p->out->at, n);
  }
  mrt_lua_handles_clear(p->in);
  if (status != MRT_OK) mrt_lua_handles_forget(p->out);
  if (status != MRT_OK) return mrt_lua_raise(L, m, status, "plan");
  for (int i = 0; i < n; i++) {
    mrt_tensor **slot = lua_touserdata(L, 3 + i);
    *slot = p->out->at[i];
    p->out->at[i] = NULL;
  }
  warn_of_notice(L, p->plan);
  mrt_lua_pressure(L, m);
  return n;
}

/* Of all threads, whoever else uses the processor. */
static double processor_time(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* measure(plan, inputs, rounds, cpu?, row?, rows?) -> {total =, call =,
 * seconds = {}, keys = {}}: seconds of a run, of what it takes beside its nodes,
 * and by step; with cpu, of processor time; rows as for run_part. */
static int measure(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  plan *p = check_plan(L, m, 1);
  int rounds = (int)luaL_checkinteger(L, 3);
  double (*clock)(void) = lua_toboolean(L, 4) ? processor_time : NULL;
  mrt_part rows = { .row = luaL_optinteger(L, 5, 0),
                    .rows = luaL_optinteger(L, 6, 0) };
  const mrt_part *part = rows.rows ? &rows : NULL;
  lua_settop(L, 2);
  if (mrt_lua_in_finalizer(L))
    return mrt_lua_fail(L, m, MRT_ESTATE, "plan", "cannot run in a finalizer");
  int n = mrt_plan_get_info(p->plan).nodes;
  double *seconds = lua_newuserdatauv(L, ((size_t)n + 1) * sizeof *seconds, 0);
  double total, sum = 0;
  read_inputs(L, m, p, 2);
  mrt_lua_at(L, m);
  mrt_status status = mrt_plan_measure(p->plan, part, p->in->at, p->in->count,
                                       rounds, clock, seconds, &total);
  if (status == MRT_ENOMEM) {
    mrt_lua_collect(L);
    status = mrt_plan_measure(p->plan, part, p->in->at, p->in->count, rounds,
                              clock, seconds, &total);
  }
  mrt_lua_handles_clear(p->in);
  if (status != MRT_OK) return mrt_lua_raise(L, m, status, "profile");
  lua_createtable(L, 0, 4);
  lua_createtable(L, n, 0);
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) {
    sum += seconds[i];
    lua_pushnumber(L, seconds[i]);
    lua_rawseti(L, -3, i + 1);
    lua_pushinteger(L, (lua_Integer)mrt_plan_step_key(p->plan, i));
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -3, "keys");
  lua_setfield(L, -2, "seconds");
  lua_pushnumber(L, total);
  lua_setfield(L, -2, "total");
  lua_pushnumber(L, total > sum ? total - sum : 0);
  lua_setfield(L, -2, "call");
  return 1;
}

/* The results that the part before has made, or empty. */
static void take_results(lua_State *L, mrt_binding *m, plan *p, int list) {
  mrt_lua_handles_clear(p->out);
  for (int i = 0; i < p->out->count; i++) {
    lua_rawgeti(L, list, i + 1);
    mrt_tensor *t = mrt_lua_check_tensor(L, m, -1, "plan");
    mrt_tensor_ref(t);
    p->out->at[i] = t;
    lua_pop(L, 1);
  }
}

/* run_part(plan, inputs, row, rows, run, results?, first?) -> list of results:
 * those given, once row is not 0.  With `first`, the row of the part that ran
 * first, results are of this part alone. */
static int run_part(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  plan *p = check_plan(L, m, 1);
  mrt_part part = { .row = luaL_checkinteger(L, 3),
                    .rows = luaL_checkinteger(L, 4),
                    .run = (uint64_t)luaL_checkinteger(L, 5),
                    .first = luaL_optinteger(L, 7, 0),
                    .apart = !lua_isnoneornil(L, 7) };
  lua_settop(L, 6);
  if (mrt_lua_in_finalizer(L))
    return mrt_lua_fail(L, m, MRT_ESTATE, "plan", "cannot run in a finalizer");
  bool more = lua_istable(L, 6);
  read_inputs(L, m, p, 2);
  if (more) take_results(L, m, p, 6);
  mrt_lua_at(L, m);
  int nin = p->in->count, nout = p->out->count;
  mrt_status status =
      mrt_plan_run_part(p->plan, &part, p->in->at, nin, p->out->at, nout);
  if (status == MRT_ENOMEM) {
    mrt_lua_collect(L);
    status =
        mrt_plan_run_part(p->plan, &part, p->in->at, nin, p->out->at, nout);
  }
  mrt_lua_handles_clear(p->in);
  if (more) {
    mrt_lua_handles_clear(p->out);
    lua_settop(L, 6);
  } else if (status != MRT_OK) {
    mrt_lua_handles_forget(p->out);
  } else {
    mrt_lua_push_list(L, p->out);
  }
  if (status != MRT_OK) return mrt_lua_raise(L, m, status, "plan");
  warn_of_notice(L, p->plan);
  mrt_lua_pressure(L, m);
  return 1;
}

static int start(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  MRT_CHECK(L, m, "plan", mrt_plan_start(check_plan(L, m, 1)->plan));
  return 0;
}

static int runs(lua_State *L) {
  mrt_plan *p = check_plan(L, mrt_binding_get(L), 1)->plan;
  lua_pushinteger(L, (lua_Integer)mrt_plan_runs(p));
  return 1;
}

/* bytes(): of the plan itself. */
static int bytes(lua_State *L) {
  mrt_plan *p = check_plan(L, mrt_binding_get(L), 1)->plan;
  lua_pushinteger(L, (lua_Integer)mrt_plan_bytes(p));
  return 1;
}

/* fits(): no variable has been converted since it was made. */
static int fits(lua_State *L) {
  mrt_plan *p = check_plan(L, mrt_binding_get(L), 1)->plan;
  lua_pushboolean(L, mrt_plan_fits(p));
  return 1;
}

static int collect_plan(lua_State *L) {
  plan *p = luaL_checkudata(L, 1, PLAN);
  mrt_plan *dead = p->plan;
  p->plan = NULL;
  mrt_plan_free(dead);
  return 0;
}

static int free_plan(lua_State *L) {
  return mrt_lua_in_finalizer(L) ? 0 : collect_plan(L);
}

/* ---- spaces -------------------------------------------------------------- */

static int new_space(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  mrt_space **space = lua_newuserdatauv(L, sizeof *space, 0);
  *space = NULL;
  luaL_setmetatable(L, SPACE);
  MRT_CHECK(L, m, "space", mrt_space_new(m->ctx, space));
  return 1;
}

/* space_bytes(space): of its arena. */
static int space_bytes(lua_State *L) {
  mrt_space **space = luaL_checkudata(L, 1, SPACE);
  lua_pushinteger(L, (lua_Integer)mrt_space_bytes(*space));
  return 1;
}

/* space_empty(space): its memory is given back until a plan runs. */
static int space_empty(lua_State *L) {
  mrt_space **space = luaL_checkudata(L, 1, SPACE);
  mrt_space_empty(*space);
  return 0;
}

static void push_range(lua_State *L, const mrt_range *r) {
  lua_createtable(L, 0, 6);
  set_integer(L, "count", r->count);
  set_integer(L, "zeros", r->zeros);
  set_integer(L, "nans", r->nans);
  set_integer(L, "infinities", r->infinities);
  set_number(L, "largest", r->largest);
  lua_newtable(L);
  for (int i = 0; i < MRT_EXPONENTS; i++) {
    if (!r->exponents[i]) continue;
    lua_pushinteger(L, r->exponents[i]);
    lua_rawseti(L, -2, MRT_LEAST_EXPONENT + i);
  }
  lua_setfield(L, -2, "exponents");
}

/* watch(plan, inputs) -> what each step writes: count, zeros, nans, infinities,
 * largest, exponents (exponent -> count) */
static int watch(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  plan *p = check_plan(L, m, 1);
  lua_settop(L, 2);
  int n = mrt_plan_get_info(p->plan).nodes;
  size_t bytes = ((size_t)n + 1) * sizeof(mrt_range);
  mrt_range *ranges = lua_newuserdatauv(L, bytes, 0);
  memset(ranges, 0, bytes);
  read_inputs(L, m, p, 2);
  mrt_lua_at(L, m);
  mrt_status status = mrt_plan_watch(p->plan, p->in->at, p->in->count, ranges);
  mrt_lua_handles_clear(p->in);
  if (status != MRT_OK) return mrt_lua_raise(L, m, status, "ranges");
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) {
    push_range(L, &ranges[i]);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

static int collect_space(lua_State *L) {
  mrt_space **space = luaL_checkudata(L, 1, SPACE);
  mrt_space *dead = *space;
  *space = NULL;
  mrt_space_free(dead);
  return 0;
}

void mrt_lua_plan_open(lua_State *L, mrt_binding *m) {
  static const luaL_Reg functions[] = {
    { "trace_end", trace_end },     { "trace_plan", trace_plan },
    { "space", new_space },         { "space_bytes", space_bytes },
    { "space_empty", space_empty }, { NULL, NULL },
  };
  static const luaL_Reg methods[] = {
    { "run", run },        { "run_part", run_part }, { "start", start },
    { "runs", runs },      { "measure", measure },   { "watch", watch },
    { "free", free_plan }, { "fits", fits },         { "bytes", bytes },
    { NULL, NULL },
  };
  luaL_newmetatable(L, SPACE);
  lua_pushcfunction(L, collect_space);
  lua_setfield(L, -2, "__gc");
  lua_pop(L, 1);
  luaL_newmetatable(L, PLAN);
  lua_pushcfunction(L, collect_plan);
  lua_setfield(L, -2, "__gc");
  lua_createtable(L, 0, 8);
  mrt_lua_register(L, m, methods);
  mrt_lua_register(L, m, mrt_lua_plan_descriptions);
  mrt_lua_register(L, m, mrt_lua_plan_transfers);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
  mrt_lua_register(L, m, functions);
  mrt_lua_register(L, m, mrt_lua_trace_functions);
}
