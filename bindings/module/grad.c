/* grad.c -- gradients, and custom ones written in Lua
 *
 * A custom gradient is a Lua function that the core calls while it builds a
 * gradient.  It runs protected; its error waits in the registry until the core
 * has unwound, and is then raised as it was.
 *
 * SPDX-License-Identifier: MIT */
#include "fields.h"

/* The list at `arg`, or NULL. */
static mrt_lua_handles *optional_list(lua_State *L, mrt_binding *m, int arg,
                                      int count) {
  if (lua_isnoneornil(L, arg)) return NULL;
  mrt_lua_handles *h = mrt_lua_check_list(L, m, arg, "grad");
  if (h->count != count)
    mrt_lua_fail(L, m, MRT_EVALUE, "grad", "%d grad_outputs for %d outputs",
                 h->count, count);
  return h;
}

/* The list of numbers of operators at `arg`, left on the stack; NULL: nil. */
static uint64_t *optional_behind(lua_State *L, mrt_binding *m, int arg,
                                 int count) {
  if (lua_isnoneornil(L, arg)) return NULL;
  luaL_checktype(L, arg, LUA_TTABLE);
  if (lua_rawlen(L, arg) != (lua_Unsigned)count)
    mrt_lua_fail(L, m, MRT_EVALUE, "grad",
                 "a number to be behind of each of %d inputs wanted", count);
  uint64_t *behind =
      lua_newuserdatauv(L, (size_t)count * sizeof *behind + 1, 0);
  for (int i = 0; i < count; i++) {
    lua_rawgeti(L, arg, i + 1);
    behind[i] = (uint64_t)luaL_checkinteger(L, -1);
    lua_pop(L, 1);
  }
  return behind;
}

/* What a call of grad is given. */
typedef struct request {
  mrt_lua_handles *ys, *dys, *xs, *dx;
  bool unused;
  const uint64_t *behind;
  const mrt_grad_watch *watch;
} request;

/* Fills dx, or leaves it empty. */
static mrt_status attempt(mrt_binding *m, const request *r) {
  mrt_status status = mrt_grad_watched(
      m->ctx, r->ys->at, r->dys ? r->dys->at : NULL, r->ys->count, r->xs->at,
      r->xs->count, r->unused, r->behind, r->watch, r->dx->at);
  if (status != MRT_OK) mrt_lua_handles_forget(r->dx);
  return status;
}

/* Pushes the list of gradients of ys, xs, dys?, allow_unused?, behind?, at 1 to
 * 5. */
static int push_grad(lua_State *L, const mrt_grad_watch *watch) {
  mrt_binding *m = mrt_binding_get(L);
  request r = { .unused = lua_toboolean(L, 4), .watch = watch };
  r.ys = mrt_lua_check_list(L, m, 1, "grad");
  r.xs = mrt_lua_check_list(L, m, 2, "grad");
  r.dys = optional_list(L, m, 3, r.ys->count);
  r.behind = optional_behind(L, m, 5, r.xs->count);
  r.dx = mrt_lua_new_handles(L, r.xs->count);
  lua_State *outer = m->caller;
  mrt_lua_at(L, m);
  m->caller = L;
  mrt_status status = attempt(m, &r);
  if (status == MRT_ENOMEM && !m->carried && !watch) {
    mrt_lua_collect(L);
    status = attempt(m, &r);
  }
  m->caller = outer;
  mrt_lua_handles_clear(r.ys);
  mrt_lua_handles_clear(r.xs);
  if (r.dys) mrt_lua_handles_clear(r.dys);
  if (status != MRT_OK) return mrt_lua_raise(L, m, status, "grad");
  mrt_lua_communicate(L, m, "grad");
  mrt_lua_push_list(L, r.dx);
  return 1;
}

/* grad(ys, xs, dys?, allow_unused?, behind?) -> list of gradients; of xs that have
 * a number to be behind, false where there is none */
static int grad(lua_State *L) {
  lua_settop(L, 5);
  return push_grad(L, NULL);
}

/* ---- the sweep, looked at ------------------------------------------------- */

/* {id =, name =, type =, bytes =} of a tensor. */
static void push_node(lua_State *L, const mrt_tensor *t) {
  char text[256];
  lua_createtable(L, 0, 5);
  set_integer(L, "id", (int64_t)mrt_tensor_id(t));
  set_text(L, "name", mrt_tensor_name(t));
  mrt_type_print(mrt_tensor_type(t), text, sizeof text);
  set_text(L, "type", text);
  set_integer(L, "bytes", (int64_t)mrt_type_bytes(mrt_tensor_type(t)));
}

/* (list, step): add {op =, file =, line =, nodes = {..}, gives = {..}}: the
 * results that have a gradient, and what gets some of it. */
static int note_step(lua_State *L) {
  const mrt_sweep_step *s = lua_touserdata(L, 2);
  lua_createtable(L, 0, 5);
  set_text(L, "op", s->op);
  set_text(L, "file", s->file);
  set_integer(L, "line", s->line);
  lua_newtable(L);
  for (int i = 0, n = 0; i < s->nout; i++) {
    if (!s->out[i] || !s->dout[i]) continue;
    push_node(L, s->out[i]);
    lua_rawseti(L, -2, ++n);
  }
  lua_setfield(L, -2, "nodes");
  lua_newtable(L);
  for (int i = 0, n = 0; i < s->nin; i++) {
    if (!s->wants[i] || !s->din[i]) continue;
    push_node(L, s->in[i]);
    lua_rawseti(L, -2, ++n);
  }
  lua_setfield(L, -2, "gives");
  lua_rawseti(L, 1, (lua_Integer)lua_rawlen(L, 1) + 1);
  return 0;
}

enum { SWEEP_LIST = 6 }; /* where the steps are, in the frame of sweep */

static bool look(void *user, const mrt_sweep_step *step) {
  lua_State *L = user;
  if (!lua_checkstack(L, 4)) return false;
  lua_pushcfunction(L, note_step);
  lua_pushvalue(L, SWEEP_LIST);
  lua_pushlightuserdata(L, (void *)step);
  if (lua_pcall(L, 2, 0, 0) == LUA_OK) return true;
  lua_pop(L, 1);
  return false;
}

/* sweep(ys, xs, dys?, allow_unused?) -> list of gradients, list of steps */
static int sweep(lua_State *L) {
  mrt_grad_watch watch = { look, L };
  lua_settop(L, 4);
  lua_pushnil(L);
  lua_newtable(L);
  push_grad(L, &watch);
  lua_pushvalue(L, SWEEP_LIST);
  return 2;
}

/* derive(y, xs, apart, behind?) -> list of gradients, false where there is none */
static int derive(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  lua_settop(L, 4);
  mrt_tensor *y = mrt_lua_check_tensor(L, m, 1, "grad");
  mrt_lua_handles *xs = mrt_lua_check_list(L, m, 2, "grad");
  uint64_t *behind = optional_behind(L, m, 4, xs->count);
  mrt_lua_handles *dx = mrt_lua_new_handles(L, xs->count);
  lua_State *outer = m->caller;
  mrt_lua_at(L, m);
  m->caller = L;
  mrt_status status = mrt_grad_partial(m->ctx, y, xs->at, xs->count,
                                       lua_toboolean(L, 3), behind, dx->at);
  m->caller = outer;
  mrt_lua_handles_clear(xs);
  if (status != MRT_OK) {
    mrt_lua_handles_forget(dx);
    return mrt_lua_raise(L, m, status, "grad");
  }
  mrt_lua_push_list(L, dx);
  return 1;
}

/* ---- custom gradients ---------------------------------------------------- */

typedef struct custom {
  mrt_binding *m;
  int function; /* in the registry */
  int nx;
} custom;

/* A call of one: what the protected function gets. */
typedef struct backward_call {
  custom *c;
  mrt_tensor *dy;
  mrt_tensor **dx;
} backward_call;

/* dx = function(dy): a list with a tensor, or false, for each input. */
static int call_function(lua_State *L) {
  backward_call *b = lua_touserdata(L, 1);
  custom *c = b->c;
  lua_rawgeti(L, LUA_REGISTRYINDEX, c->function);
  mrt_lua_push_tensor(L, b->dy);
  lua_call(L, 1, 1);
  if (!lua_istable(L, -1))
    return mrt_lua_fail(L, c->m, MRT_EGRAD, "custom",
                        "backward returned %s, a list of %d gradients wanted",
                        luaL_typename(L, -1), c->nx);
  int list = lua_gettop(L);
  luaL_checkstack(L, c->nx + 8, NULL);
  for (int i = 1; i <= c->nx; i++) {
    lua_rawgeti(L, list, i);
    if (lua_toboolean(L, -1)) mrt_lua_check_tensor(L, c->m, -1, "custom");
  }
  for (int i = 0; i < c->nx; i++) { /* from here on nothing fails */
    mrt_tensor **slot = lua_touserdata(L, list + 1 + i);
    b->dx[i] = slot ? *slot : NULL;
    if (slot) mrt_tensor_ref(*slot);
  }
  return 0;
}

static mrt_status backward(void *user, mrt_tensor *dy, mrt_tensor **dx) {
  custom *c = user;
  lua_State *L = c->m->caller;
  backward_call b = { c, dy, dx };
  if (!lua_checkstack(L, 4)) return MRT_ENOMEM;
  lua_pushcfunction(L, call_function);
  lua_pushlightuserdata(L, &b);
  if (lua_pcall(L, 1, 0, 0) == LUA_OK) return MRT_OK;
  lua_rawsetp(L, LUA_REGISTRYINDEX, &c->m->carried);
  c->m->carried = true;
  return MRT_EGRAD;
}

/* Called from anywhere, finalizers too: touches the main thread's stack only,
 * which always has room for the two values this needs. */
static void release(void *user) {
  custom *c = user;
  mrt_binding *m = c->m;
  luaL_unref(m->main, LUA_REGISTRYINDEX, c->function);
  m->allocator.resize(m->allocator.user, c, sizeof *c, 0);
}

/* custom(y, xs, function) -> a tensor equal to y with that gradient */
static int new_custom(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  luaL_checktype(L, 3, LUA_TFUNCTION);
  lua_settop(L, 3);
  mrt_tensor *y = mrt_lua_check_tensor(L, m, 1, "custom");
  mrt_lua_handles *xs = mrt_lua_check_list(L, m, 2, "custom");
  mrt_tensor **slot = mrt_lua_new_tensor(L);
  mrt_lua_at(L, m);
  lua_pushvalue(L, 3);
  int function = luaL_ref(L, LUA_REGISTRYINDEX);
  custom *c = m->allocator.resize(m->allocator.user, NULL, 0, sizeof *c);
  if (!c) {
    luaL_unref(L, LUA_REGISTRYINDEX, function);
    return mrt_lua_fail(L, m, MRT_ENOMEM, "custom", "out of memory");
  }
  *c = (custom){ m, function, xs->count };
  /* No second try when memory is out: the first one has released c. */
  mrt_status status =
      mrt_custom(m->ctx, y, xs->at, xs->count, backward, release, c, slot);
  mrt_lua_handles_clear(xs);
  if (status != MRT_OK) return mrt_lua_raise(L, m, status, "custom");
  return 1;
}

void mrt_lua_grad_open(lua_State *L, mrt_binding *m) {
  static const luaL_Reg functions[] = {
    { "grad", grad },         { "sweep", sweep }, { "derive", derive },
    { "custom", new_custom }, { NULL, NULL },
  };
  /* The slot exists, so that carrying an error allocates nothing. */
  lua_pushboolean(L, 0);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &m->carried);
  mrt_lua_register(L, m, functions);
}
