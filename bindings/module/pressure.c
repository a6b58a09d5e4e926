/* pressure.c -- tells Lua's collector about memory that it does not see
 *
 * Lua sees forty bytes where there may be a gigabyte.  Each batch of tensor
 * bytes pushes its collector along; a limit, which follows what survives, bounds
 * the garbage even when that is not enough.  A push costs as Lua's own heap is
 * large, so batches grow with it.
 *
 * Where the collector is generational, as that of Lua's and our program, looking
 * at the young objects alone costs next to nothing: that is done every megabyte,
 * so that a program that computes line by line goes on in memory that is still
 * in the cache.  What has grown old meanwhile goes with the batch.
 *
 * SPDX-License-Identifier: MIT */
#include "binding.h"

enum { YOUNG = 1 << 20, BATCH = 16 << 20, LEAST_LIMIT = 256 << 20 };
static const uint64_t OBJECTS =
    500; /* of the core: a hundred and fifty operators or so */

static int do_nothing(lua_State *L) {
  (void)L;
  return 0;
}

/* Lua forgets an object whose finalizer finds no memory to be called with, and
 * a tensor with it.  So make sure of that memory: stack for two calls, and the
 * record of one, which stays for the next. */
void mrt_lua_collect(lua_State *L) {
  if (!lua_checkstack(L, 2 * LUA_MINSTACK)) return;
  lua_pushcfunction(L, do_nothing);
  if (lua_pcall(L, 0, 0, 0) != LUA_OK)
    lua_pop(L, 1);
  else
    lua_gc(L, LUA_GCCOLLECT);
}

static size_t heap_bytes(lua_State *L) {
  int kilobytes = lua_gc(L, LUA_GCCOUNT);
  return kilobytes > 0 ? (size_t)kilobytes << 10 : 0;
}

static size_t now_of(const mrt_binding *m) {
  return mrt_context_get_info(m->ctx).bytes_now;
}

/* Asking a generational collector changes nothing. */
void mrt_lua_pressure_open(lua_State *L, mrt_binding *m) {
  m->generational = lua_gc(L, LUA_GCGEN, 0, 0) == LUA_GCGEN;
  if (!m->generational) lua_gc(L, LUA_GCINC, 0, 0, 0);
}

/* The step is as large as the heap: where that has grown old, Lua's own rule
 * then takes all of it. */
static void collect_young(lua_State *L, mrt_binding *m, size_t now) {
  size_t heap = heap_bytes(L);
  if (now - m->seen_young < heap) return;
  lua_gc(L, LUA_GCSTEP, (int)(heap >> 10) + 1);
  m->seen_young = now_of(m);
}

/* Little results are many objects and few bytes. */
static void collect_objects(lua_State *L, mrt_binding *m) {
  uint64_t made = mrt_context_get_info(m->ctx).objects;
  if (made < m->made) m->made = made; /* of another context */
  if (made - m->made < OBJECTS) return;
  lua_gc(L, LUA_GCSTEP, 0);
  m->seen_young = now_of(m), m->made = made;
}

static void collect_batch(lua_State *L, mrt_binding *m, size_t now) {
  if (m->generational)
    mrt_lua_collect(L);
  else
    lua_gc(L, LUA_GCSTEP, (int)((now - m->seen) >> 10));
  m->seen = m->seen_young = now_of(m);
}

static void relieve(lua_State *L, mrt_binding *m) {
  size_t now = now_of(m);
  if (now < m->seen) m->seen = now;
  if (now < m->seen_young) m->seen_young = now;
  if (now > m->limit) {
    mrt_lua_collect(L);
    m->seen = m->seen_young = now_of(m);
    m->limit = m->seen * 2 > LEAST_LIMIT ? m->seen * 2 : LEAST_LIMIT;
  } else if (now - m->seen >= BATCH && now - m->seen >= heap_bytes(L) * 4) {
    collect_batch(L, m, now);
  } else if (m->generational && now - m->seen_young >= YOUNG) {
    collect_young(L, m, now);
  } else if (m->generational) {
    collect_objects(L, m);
  }
}

/* A finalizer may call us, and about another context. */
void mrt_lua_pressure(lua_State *L, mrt_binding *m) {
  mrt_context *ctx = m->ctx;
  bool decided = m->decided;
  relieve(L, m);
  m->ctx = ctx, m->decided = decided;
}
