/* communicator.c -- communicators by number, and bytes between ranks
 *
 * They belong to the CPU's context, and live until they are closed or it ends:
 * a plan that names one needs it when nobody else does.
 *
 * SPDX-License-Identifier: MIT */
#include "binding.h"

#include <limits.h>

/* The context that has the communicators, in `m`. */
static mrt_binding *get(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  m->ctx = m->open[0];
  mrt_lua_at(L, m);
  return m;
}

static int check_int(lua_State *L, int arg) {
  lua_Integer n = luaL_checkinteger(L, arg);
  luaL_argcheck(L, n >= INT_MIN && n <= INT_MAX, arg, "out of range");
  return (int)n;
}

void mrt_lua_communicate(lua_State *L, mrt_binding *m, const char *op) {
  mrt_status s = mrt_communicate(m->ctx);
  if (s == MRT_ENOMEM) {
    mrt_lua_collect(L);
    s = mrt_communicate(m->ctx);
  }
  if (!s) return;
  mrt_communicate_cancel(m->ctx);
  mrt_lua_raise(L, m, s, op);
}

void mrt_lua_set_world(mrt_binding *m, int number) {
  m->world = number + 1, m->launched = true;
}

/* world() -> number: of the communicator of all ranks.  Who starts several has
 * called mrt_lua_set_world; else there is this one, and closing it does no
 * harm. */
static int world(lua_State *L) {
  mrt_binding *m = get(L);
  mrt_communicator_info info;
  int number = m->world - 1;
  bool there =
      m->world && mrt_communicator_get(m->ctx, number, &info) == MRT_OK;
  if (!there && m->launched)
    return mrt_lua_raise(L, m, MRT_ESTATE, "communicator");
  if (!there)
    MRT_CHECK(L, m, "communicator",
              mrt_communicator_alone(m->ctx, 0, 1, &number));
  m->world = number + 1;
  lua_pushinteger(L, number);
  return 1;
}

/* A communicator of so many ranks, of which none is there but this one. */
static int make_alone(lua_State *L, mrt_binding *m) {
  int number;
  MRT_CHECK(L, m, "communicator",
            mrt_communicator_alone(m->ctx, check_int(L, 1), check_int(L, 2),
                                   &number));
  return number;
}

/* alone(rank, size): the communicator of all ranks is such a one. */
static int alone(lua_State *L) {
  mrt_binding *m = get(L);
  mrt_lua_set_world(m, make_alone(L, m));
  return 0;
}

/* supposed(rank, size) -> number: such a one beside that of all ranks. */
static int supposed(lua_State *L) {
  lua_pushinteger(L, make_alone(L, get(L)));
  return 1;
}

static const char *text_field(lua_State *L, int arg, const char *name) {
  lua_getfield(L, arg, name);
  const char *text = luaL_checkstring(L, -1);
  lua_pop(L, 1); /* the table keeps it */
  return text;
}

static int int_field(lua_State *L, int arg, const char *name) {
  lua_getfield(L, arg, name);
  int n = check_int(L, -1);
  lua_pop(L, 1);
  return n;
}

/* join{rank, size, address, port, token, timeout, transport, algorithm}: the
 * communicator of all ranks is that of this meeting from now on; nothing when
 * there is one. */
static int join(lua_State *L) {
  mrt_binding *m = get(L);
  int number;
  luaL_checktype(L, 1, LUA_TTABLE);
  if (m->launched) return 0;
  mrt_rendezvous meeting = { .rank = int_field(L, 1, "rank"),
                             .size = int_field(L, 1, "size"),
                             .address = text_field(L, 1, "address"),
                             .port = int_field(L, 1, "port"),
                             .token = text_field(L, 1, "token"),
                             .transport = text_field(L, 1, "transport"),
                             .algorithm = text_field(L, 1, "algorithm") };
  lua_getfield(L, 1, "timeout");
  meeting.timeout = luaL_checknumber(L, -1);
  mrt_status s = mrt_communicator_join(m->ctx, &meeting, &number);
  if (s) return mrt_lua_raise(L, m, s, "communicator");
  mrt_lua_set_world(m, number);
  return 0;
}

/* mpi() -> the MPI there is, in words; or nil and why there is none */
static int mpi(lua_State *L) {
  mrt_binding *m = get(L);
  const char *name;
  if (mrt_mpi_library(m->ctx, &name) != MRT_OK) {
    lua_pushnil(L);
    lua_pushstring(L, mrt_message(m->ctx));
    return 2;
  }
  lua_pushstring(L, name);
  return 1;
}

/* info(number) -> rank, size, transport, timeout, sent */
static int info(lua_State *L) {
  mrt_binding *m = get(L);
  mrt_communicator_info i;
  MRT_CHECK(L, m, "communicator",
            mrt_communicator_get(m->ctx, check_int(L, 1), &i));
  lua_pushinteger(L, i.rank);
  lua_pushinteger(L, i.size);
  lua_pushstring(L, i.transport);
  lua_pushnumber(L, i.timeout);
  lua_pushinteger(L, (lua_Integer)i.sent);
  return 5;
}

/* split(number, color, key) -> number of the part, or nil */
static int split(lua_State *L) {
  mrt_binding *m = get(L);
  int number = check_int(L, 1), color = check_int(L, 2), key = check_int(L, 3);
  int part;
  mrt_status s = mrt_communicator_split(m->ctx, number, color, key, &part);
  if (s) return mrt_lua_raise(L, m, s, "split");
  if (part < 0) return lua_pushnil(L), 1;
  lua_pushinteger(L, part);
  return 1;
}

/* bytes(number, kind, peer, string or size) -> string: what came, or was given */
static int bytes(lua_State *L) {
  mrt_binding *m = get(L);
  int number = check_int(L, 1), peer = check_int(L, 3);
  const char *kind = luaL_checkstring(L, 2);
  bool sized = lua_type(L, 4) == LUA_TNUMBER;
  lua_Integer size =
      sized ? lua_tointeger(L, 4) : (lua_Integer)lua_rawlen(L, 4);
  luaL_argcheck(L, size >= 0 && size < INT_MAX, 4, "not a size");
  luaL_Buffer b;
  char *data = luaL_buffinitsize(L, &b, (size_t)size + 1);
  const char *given = sized ? NULL : luaL_checkstring(L, 4);
  for (lua_Integer i = 0; i < size; i++) data[i] = given ? given[i] : 0;
  /* Not tried again: the others have been told of this one. */
  mrt_status s =
      mrt_communicator_bytes(m->ctx, number, kind, peer, data, (size_t)size);
  if (s) return mrt_lua_raise(L, m, s, kind);
  luaL_pushresultsize(&b, (size_t)size);
  return 1;
}

/* abort(number, why): the others fail from now on. */
static int abort_all(lua_State *L) {
  mrt_binding *m = get(L);
  MRT_CHECK(
      L, m, "abort",
      mrt_communicator_abort(m->ctx, check_int(L, 1), luaL_checkstring(L, 2)));
  return 0;
}

/* script(text): what this process runs. */
static int script(lua_State *L) {
  size_t size;
  const char *text = luaL_checklstring(L, 1, &size);
  mrt_context_set_script(get(L)->ctx, text, size);
  return 0;
}

static int close_one(lua_State *L) {
  mrt_binding *m = get(L);
  MRT_CHECK(L, m, "close", mrt_communicator_close(m->ctx, check_int(L, 1)));
  return 0;
}

/* Add the table communicator: functions by name. */
void mrt_lua_communicator_open(lua_State *L, mrt_binding *m) {
  static const luaL_Reg functions[] = {
    { "join", join },         { "world", world },   { "info", info },
    { "split", split },       { "bytes", bytes },   { "abort", abort_all },
    { "close", close_one },   { "script", script }, { "alone", alone },
    { "supposed", supposed }, { "mpi", mpi },       { NULL, NULL },
  };
  lua_newtable(L);
  mrt_lua_register(L, m, functions);
  lua_setfield(L, -2, "communicator");
}
