/* pressure.c -- tells Lua's collector about memory that it does not see
 *
 * Lua sees forty bytes where there may be a gigabyte.  Each batch of tensor
 * bytes pushes its collector along; a limit, which follows what survives, bounds
 * the garbage even when that is not enough.  A push costs as Lua's own heap is
 * large, so batches grow with it.
 *
 * SPDX-License-Identifier: MIT */
#include "binding.h"

enum { BATCH = 16 << 20, LEAST_LIMIT = 256 << 20 };

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

static size_t batch_size(lua_State *L) {
  int kilobytes = lua_gc(L, LUA_GCCOUNT);
  size_t heap = kilobytes > 0 ? (size_t)kilobytes << 10 : 0;
  return heap * 4 > BATCH ? heap * 4 : BATCH;
}

void mrt_lua_pressure(lua_State *L, mrt_binding *m) {
  size_t now = mrt_context_get_info(m->ctx).bytes_now;
  if (now < m->seen) m->seen = now;
  if (now > m->limit) {
    mrt_lua_collect(L);
    m->seen = mrt_context_get_info(m->ctx).bytes_now;
    m->limit = m->seen * 2 > LEAST_LIMIT ? m->seen * 2 : LEAST_LIMIT;
  } else if (now - m->seen >= BATCH && now - m->seen >= batch_size(L)) {
    lua_gc(L, LUA_GCSTEP, (int)((now - m->seen) >> 10));
    m->seen = mrt_context_get_info(m->ctx).bytes_now;
  }
}
