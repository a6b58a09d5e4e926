/* core.c -- opens the Lua module mrt.core
 *
 * One context for each device that a Lua state uses, the CPU's first, kept in a
 * userdata of the registry; they go when the state and the last tensor have
 * gone.  Bookkeeping comes from the allocator of the Lua state, so a host that
 * bounds or tests Lua's memory bounds and tests ours.
 *
 * Environment: MRT_THREADS, MRT_ISA, MRT_POISON=1 (overwrite each value when it
 * dies).
 *
 * SPDX-License-Identifier: MIT */
#include "binding.h"
#include "mrt_lua.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_THREADS = 1024 };

/* ---- the context --------------------------------------------------------- */

/* The state's allocator may be replaced at any time: ask for it each time. */
static void *resize(void *user, void *block, size_t old_size, size_t new_size) {
  void *ud;
  lua_Alloc allocate = lua_getallocf(user, &ud);
  return allocate(ud, block, block ? old_size : 0, new_size);
}

static int close_binding(lua_State *L) {
  mrt_binding *m = lua_touserdata(L, 1);
  m->ctx = m->chosen = NULL;
  while (m->open_count) mrt_context_free(m->open[--m->open_count]);
  return 0;
}

/* As many as who made the state says, or the environment. */
static int read_threads(lua_State *L) {
  const char *text = getenv("MRT_THREADS");
  char *end = NULL;
  long n = text && *text ? strtol(text, &end, 10) : 0;
  if (end && (*end || n < 1 || n > MOST_THREADS))
    luaL_error(L, "mrt: MRT_THREADS is '%s', a number from 1 to %d wanted",
               text, (int)MOST_THREADS);
  if (lua_getfield(L, LUA_REGISTRYINDEX, "mrt.threads") == LUA_TNUMBER)
    n = (long)lua_tointeger(L, -1);
  lua_pop(L, 1);
  return n > 0 && n <= MOST_THREADS ? (int)n : 0;
}

static const char *read_isa(void) {
  const char *text = getenv("MRT_ISA");
  return text && *text ? text : NULL;
}

/* One more context; its message goes to `message`. */
static mrt_status open_context(lua_State *L, mrt_binding *m, const char *device,
                               char *message, size_t room) {
  const char *poison = getenv("MRT_POISON");
  mrt_context_options options = {
    .allocator = &m->allocator,
    .threads = read_threads(L),
    .isa = read_isa(),
    .poison = poison && strcmp(poison, "1") == 0,
    .device = device,
    .ranks = m->open_count ? m->open[0] : NULL,
    .message = message,
    .message_room = room,
  };
  mrt_context **to = &m->open[m->open_count];
  mrt_status status = mrt_context_new(&options, to);
  if (status == MRT_ENOMEM) {
    mrt_lua_collect(L);
    status = mrt_context_new(&options, to);
  }
  if (!status) m->open_count++;
  return status;
}

static void choose(lua_State *L, mrt_binding *m, mrt_context *ctx) {
  m->ctx = m->chosen = ctx;
  lua_pushlightuserdata(L, ctx);
  lua_setfield(L, LUA_REGISTRYINDEX, "mrt.context");
}

static void open_first(lua_State *L, mrt_binding *m) {
  char message[512] = "";
  mrt_status status = open_context(L, m, NULL, message, sizeof message);
  if (status != MRT_OK)
    luaL_error(L, "mrt: no context: %s%s%s", mrt_status_name(status),
               *message ? ": " : "", message);
  choose(L, m, m->open[0]);
}

/* "gpu" is "gpu:0". */
static mrt_context *find_open(const mrt_binding *m, const char *device) {
  size_t n = strlen(device);
  for (int i = 0; i < m->open_count; i++) {
    const char *name = mrt_context_get_info(m->open[i]).device;
    if (strncmp(name, device, n) == 0 &&
        (!name[n] || strcmp(name + n, ":0") == 0))
      return m->open[i];
  }
  return NULL;
}

mrt_context *mrt_lua_open_device(lua_State *L, mrt_binding *m,
                                 const char *name) {
  char message[512] = "";
  mrt_context *ctx = find_open(m, name);
  if (ctx) return ctx;
  if (m->open_count == MRT_CONTEXTS)
    mrt_lua_fail(L, m, MRT_EVALUE, "device", "%d devices at most",
                 (int)MRT_CONTEXTS);
  mrt_status status = open_context(L, m, name, message, sizeof message);
  if (status) mrt_lua_fail(L, m, status, "device", "%s", message);
  ctx = m->open[m->open_count - 1];
  mrt_random r = mrt_random_get(m->open[0]);
  mrt_random_set(ctx, r.seed, r.next);
  return ctx;
}

/* use_device(name?) -> name: where tensors are made from now on. */
static int use_device(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  const char *name = luaL_optstring(L, 1, NULL);
  if (name) choose(L, m, mrt_lua_open_device(L, m, name));
  lua_pushstring(L, mrt_context_get_info(m->chosen).device);
  return 1;
}

/* open_device(name): have it ready, and choose nothing. */
static int open_device(lua_State *L) {
  mrt_lua_open_device(L, mrt_binding_get(L), luaL_checkstring(L, 1));
  return 0;
}

/* Push the binding of this state, made on first use. */
static mrt_binding *push_binding(lua_State *L) {
  if (lua_getfield(L, LUA_REGISTRYINDEX, MRT_BINDING) == LUA_TUSERDATA)
    return lua_touserdata(L, -1);
  lua_pop(L, 1);
  mrt_binding *m = lua_newuserdatauv(L, sizeof *m, 1);
  memset(m, 0, sizeof *m);
  lua_createtable(L, 0, 1);
  lua_pushcfunction(L, close_binding);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
  lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
  m->main = lua_tothread(L, -1);
  lua_pop(L, 1);
  m->allocator = (mrt_allocator){ resize, m->main };
  m->cast = mrt_op_find("cast");
  m->expand = mrt_op_find("expand");
  m->full = mrt_op_find("full");
  open_first(L, m);
  lua_pushvalue(L, -1);
  lua_setfield(L, LUA_REGISTRYINDEX, MRT_BINDING);
  return m;
}

/* The context is also in the registry, as "mrt.context", for the program that
 * holds the state: mrt_interrupt wants it. */
MRT_API int luaopen_mrt_core(lua_State *L) {
  luaL_checkversion(L);
  mrt_binding *m = push_binding(L);
  lua_newtable(L);
  mrt_lua_handle_open(L, m);
  if (!m->outputs) {
    m->outputs = mrt_lua_new_handles(L, MRT_ROOM);
    lua_setiuservalue(L, -3, 1);
  }
  mrt_lua_pressure_open(L, m);
  mrt_lua_error_open(L, m);
  mrt_lua_place_open(L, m);
  mrt_lua_called_open(L, m);
  mrt_lua_make_open(L, m);
  mrt_lua_read_open(L, m);
  mrt_lua_state_open(L, m);
  mrt_lua_grad_open(L, m);
  mrt_lua_plan_open(L, m);
  mrt_lua_batch_open(L, m);
  mrt_lua_describe_open(L, m);
  mrt_lua_device_open(L, m);
  mrt_lua_pack_open(L, m);
  mrt_lua_schedule_open(L, m);
  mrt_lua_source_open(L, m);
  mrt_lua_gguf_open(L, m);
  mrt_lua_tokenizer_open(L, m);
  mrt_lua_json_read_open(L, m);
  mrt_lua_json_write_open(L, m);
  mrt_lua_file_open(L, m);
  mrt_lua_host_open(L, m);
  mrt_lua_interrupt_open(L, m);
  mrt_lua_process_open(L, m);
  mrt_lua_secret_open(L, m);
  mrt_lua_communicator_open(L, m);
  mrt_lua_ranks_open(L, m);
  static const luaL_Reg functions[] = {
    { "use_device", use_device },
    { "open_device", open_device },
    { NULL, NULL },
  };
  mrt_lua_register(L, m, functions);
  return 1;
}
