/* ranks.c -- ranks to try things with: threads of this process
 *
 * Each has a Lua state of its own, made here and run in its thread.  While they
 * run this thread calls nothing of Lua that may raise: it waits, and hands an
 * interrupt on.
 *
 * SPDX-License-Identifier: MIT */
#include "binding.h"

#include <lualib.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST = 64 }; /* ranks */

typedef struct rank {
  struct rank_group *group;
  lua_State *L; /* of its own */
  mrt_context *ctx;
  pthread_t thread;
  int status; /* of its code */
} rank;

typedef struct rank_group {
  pthread_mutex_t lock;
  pthread_cond_t ended;
  int size, started, running;
  bool stopped;
  const char *path, *cpath, *code;
  size_t code_size;
  int threads; /* of each */
  rank ranks[MOST];
} rank_group;

/* ---- a rank -------------------------------------------------------------- */

int luaopen_mrt_core(lua_State *L);

static void set_path(lua_State *L, const char *field, const char *path) {
  if (!path) return;
  lua_getglobal(L, LUA_LOADLIBNAME);
  lua_pushstring(L, path);
  lua_setfield(L, -2, field);
  lua_pop(L, 1);
}

/* Protected, in the state of the rank: libraries, then what it is to run. */
static int prepare(lua_State *L) {
  rank *r = lua_touserdata(L, 1);
  const rank_group *g = r->group;
  luaL_openlibs(L);
  set_path(L, "path", g->path);
  set_path(L, "cpath", g->cpath);
  lua_pushinteger(L, g->threads);
  lua_setfield(L, LUA_REGISTRYINDEX, "mrt.threads");
  luaL_requiref(L, "mrt.core", luaopen_mrt_core, 0);
  r->ctx = mrt_lua_binding(L)->open[0];
  if (luaL_loadbufferx(L, g->code, g->code_size, "=ranks", "t")) lua_error(L);
  return 1;
}

/* Protected: code(mrt, comm), its result as one value that is no table. */
static int run(lua_State *L) {
  luaL_checkstack(L, 8, NULL);
  lua_getglobal(L, "require");
  lua_pushliteral(L, "mrt");
  lua_call(L, 1, 1);
  lua_getglobal(L, "require");
  lua_pushliteral(L, "mrt.communicator");
  lua_call(L, 1, 1);
  lua_getfield(L, -1, "create");
  lua_remove(L, -2);
  lua_call(L, 0, 1);
  lua_call(L, 2, 1);
  int type = lua_type(L, -1);
  if (type > LUA_TSTRING || type == LUA_TLIGHTUSERDATA)
    luaL_error(L, "a rank returns %s: a string, number, boolean or nil wanted",
               luaL_typename(L, -1));
  return 1;
}

static int explain(lua_State *L) {
  luaL_tolstring(L, 1, NULL);
  return 1;
}

/* The others are not to wait for who has failed. */
static void fail(rank *r) {
  mrt_binding *m = mrt_lua_binding(r->L);
  mrt_communicator_abort(r->ctx, m->world - 1, lua_tostring(r->L, -1));
}

/* The state's stack: the code; afterwards its result, or the text of an error. */
static void *work(void *argument) {
  rank *r = argument;
  rank_group *g = r->group;
  lua_State *L = r->L;
  lua_pushcfunction(L, explain);
  lua_pushcfunction(L, run);
  lua_rotate(L, 1, 2);
  r->status = lua_pcall(L, 1, 1, 1);
  if (r->status) fail(r);
  pthread_mutex_lock(&g->lock);
  g->running--;
  pthread_cond_signal(&g->ended);
  pthread_mutex_unlock(&g->lock);
  return NULL;
}

/* ---- all of them --------------------------------------------------------- */

static int close_group(lua_State *L) {
  rank_group *g = lua_touserdata(L, 1);
  for (int i = 0; i < g->size; i++)
    if (g->ranks[i].L) lua_close(g->ranks[i].L);
  if (g->size) pthread_cond_destroy(&g->ended);
  if (g->size) pthread_mutex_destroy(&g->lock);
  g->size = 0;
  return 0;
}

static rank_group *new_group(lua_State *L, int size) {
  rank_group *g = lua_newuserdatauv(L, sizeof *g, 0);
  memset(g, 0, sizeof *g);
  lua_createtable(L, 0, 2);
  lua_pushcfunction(L, close_group);
  lua_pushvalue(L, -1);
  lua_setfield(L, -3, "__gc");
  lua_setfield(L, -2, "__close");
  lua_setmetatable(L, -2);
  pthread_mutex_init(&g->lock, NULL);
  pthread_cond_init(&g->ended, NULL);
  g->size = size;
  lua_toclose(L, -1);
  return g;
}

static void make_state(lua_State *L, mrt_binding *m, rank_group *g, int i) {
  rank *r = &g->ranks[i];
  r->group = g, r->L = luaL_newstate();
  if (!r->L) mrt_lua_fail(L, m, MRT_ENOMEM, "ranks", "out of memory");
  lua_pushcfunction(r->L, prepare);
  lua_pushlightuserdata(r->L, r);
  if (lua_pcall(r->L, 1, 1, 0) == LUA_OK) return;
  mrt_lua_fail(L, m, MRT_EVALUE, "ranks", "%s", lua_tostring(r->L, -1));
}

/* One communicator for all; every state has the one of its rank. */
static void connect(lua_State *L, mrt_binding *m, rank_group *g,
                    double timeout) {
  mrt_communicator *comm[MOST];
  mrt_status s = mrt_communicator_threads(m->ctx, g->size, timeout, comm);
  if (s) mrt_lua_raise(L, m, s, "ranks");
  for (int i = 0, number; i < g->size; i++) {
    mrt_status added = mrt_communicator_add(g->ranks[i].ctx, comm[i], &number);
    if (added) s = added;
    if (!added) mrt_lua_set_world(mrt_lua_binding(g->ranks[i].L), number);
  }
  if (s) mrt_lua_fail(L, m, s, "ranks", "out of memory");
}

static void stop(lua_State *L, lua_Debug *ar) {
  (void)ar;
  lua_sethook(L, NULL, 0, 0);
  luaL_error(L, "interrupted!");
}

static void stop_all(rank_group *g) {
  int every = LUA_MASKCALL | LUA_MASKRET | LUA_MASKLINE | LUA_MASKCOUNT;
  g->stopped = true;
  for (int i = 0; i < g->started; i++) {
    mrt_interrupt(g->ranks[i].ctx);
    lua_sethook(g->ranks[i].L, stop, every, 1);
  }
}

/* Until all have ended; an interrupt of ours is theirs. */
static void wait_for_all(mrt_binding *m, rank_group *g) {
  pthread_mutex_lock(&g->lock);
  while (g->running > 0) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 50 * 1000 * 1000;
    until.tv_sec += until.tv_nsec / 1000000000, until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&g->ended, &g->lock, &until);
    if (!g->stopped && mrt_interrupt_clear(m->chosen)) stop_all(g);
  }
  pthread_mutex_unlock(&g->lock);
  for (int i = 0; i < g->started; i++) pthread_join(g->ranks[i].thread, NULL);
}

/* False: some thread could not be made. */
static bool run_all(mrt_binding *m, rank_group *g) {
  sigset_t all, before; /* signals are for the thread of the program */
  sigfillset(&all);
  sigdelset(&all, SIGSEGV); /* a thread's own */
  pthread_sigmask(SIG_SETMASK, &all, &before);
  bool ok = true;
  for (int i = 0; i < g->size && ok; i++) {
    pthread_mutex_lock(&g->lock);
    rank *r = &g->ranks[i];
    ok = pthread_create(&r->thread, NULL, work, r) == 0;
    g->started += ok, g->running += ok;
    pthread_mutex_unlock(&g->lock);
    if (ok) continue;
    lua_pushliteral(r->L, "no thread for this rank");
    fail(r);
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  wait_for_all(m, g);
  return ok;
}

static void push_result(lua_State *L, lua_State *from) {
  size_t n;
  if (lua_isnil(from, -1))
    lua_pushboolean(L, 0);
  else if (lua_isboolean(from, -1))
    lua_pushboolean(L, lua_toboolean(from, -1));
  else if (lua_isinteger(from, -1))
    lua_pushinteger(L, lua_tointeger(from, -1));
  else if (lua_type(from, -1) == LUA_TNUMBER)
    lua_pushnumber(L, lua_tonumber(from, -1));
  else {
    const char *text = lua_tolstring(from, -1, &n);
    lua_pushlstring(L, text, n);
  }
}

/* ranks(n, code, timeout) -> results, failures: lists by 1 + rank.  A nil result
 * is false; failures has texts, at the ranks that have failed. */
static int ranks(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  m->ctx = m->open[0];
  lua_Integer n = luaL_checkinteger(L, 1);
  luaL_checktype(L, 2, LUA_TSTRING);
  double timeout = luaL_checknumber(L, 3);
  if (n < 1 || n > MOST)
    return mrt_lua_fail(L, m, MRT_EVALUE, "ranks", "%I ranks, 1 to %d wanted",
                        n, (int)MOST);
  lua_settop(L, 2);
  lua_getglobal(L, LUA_LOADLIBNAME);
  lua_getfield(L, 3, "path");
  lua_getfield(L, 3, "cpath");
  rank_group *g = new_group(L, (int)n);
  g->path = lua_tostring(L, 4), g->cpath = lua_tostring(L, 5);
  g->code = lua_tolstring(L, 2, &g->code_size);
  int threads = mrt_context_get_info(m->ctx).threads / (int)n;
  g->threads = threads > 1 ? threads : 1;
  for (int i = 0; i < n; i++) make_state(L, m, g, i);
  connect(L, m, g, timeout);
  if (!run_all(m, g))
    return mrt_lua_fail(L, m, MRT_ENOMEM, "ranks", "no more threads");
  if (g->stopped)
    return mrt_lua_fail(L, m, MRT_EINTERRUPT, NULL, "interrupted");
  lua_createtable(L, (int)n, 0);
  lua_newtable(L);
  for (int i = 0; i < n; i++) {
    push_result(L, g->ranks[i].L);
    lua_rawseti(L, g->ranks[i].status ? -2 : -3, i + 1);
  }
  return 2;
}

void mrt_lua_ranks_open(lua_State *L, mrt_binding *m) {
  static const luaL_Reg functions[] = { { "ranks", ranks }, { NULL, NULL } };
  mrt_lua_register(L, m, functions);
}
