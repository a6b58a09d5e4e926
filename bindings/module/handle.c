/* handle.c -- the userdata that own tensors
 *
 * A tensor is a userdata that holds one handle; `__gc`, `__close` and free()
 * drop it.  Every use of one that is closed raises.
 *
 * Finalizers of the user's run whenever Lua allocates, so also in the middle
 * of our functions.  A free() in one is left to the collector; then a tensor
 * that a function has taken from its arguments stays until it returns.
 *
 * SPDX-License-Identifier: MIT */
#include "binding.h"

#define HANDLES "mrt.Handles"

/* What a userdata of ours holds: known by `kind`, at once, where Lua's own way
 * takes a look into its registry. */
typedef struct handle {
  mrt_tensor *tensor;
  const void *kind;
} handle;

static const char kind;

static mrt_tensor **slot_at(lua_State *L, int arg) {
  handle *h = lua_touserdata(L, arg);
  bool ours = h && lua_rawlen(L, arg) == sizeof *h && h->kind == &kind;
  return ours ? &h->tensor : NULL;
}

mrt_tensor **mrt_lua_new_tensor(lua_State *L) {
  handle *h = lua_newuserdatauv(L, sizeof *h, 0);
  *h = (handle){ NULL, &kind };
  lua_rawgetp(L, LUA_REGISTRYINDEX, &kind);
  lua_setmetatable(L, -2);
  return &h->tensor;
}

void mrt_lua_push_tensor(lua_State *L, mrt_tensor *t) {
  mrt_tensor **slot = mrt_lua_new_tensor(L);
  mrt_tensor_ref(t);
  *slot = t;
}

bool mrt_lua_is_tensor(lua_State *L, int arg) {
  return slot_at(L, arg) != NULL;
}

mrt_tensor *mrt_lua_to_tensor(lua_State *L, mrt_binding *m, int arg) {
  mrt_tensor **slot = slot_at(L, arg);
  if (slot && !*slot) mrt_lua_fail(L, m, MRT_ESTATE, NULL, "tensor is closed");
  if (!slot) return NULL;
  mrt_binding_decide(m, mrt_tensor_context(*slot));
  return *slot;
}

mrt_tensor *mrt_lua_check_tensor(lua_State *L, mrt_binding *m, int arg,
                                 const char *who) {
  mrt_tensor *t = mrt_lua_to_tensor(L, m, arg);
  if (!t)
    mrt_lua_fail(L, m, MRT_EVALUE, who, "a tensor wanted, got %s%s",
                 mrt_lua_show(L, arg),
                 arg == 1 ? " (a method is called with a colon)" : "");
  return t;
}

bool mrt_lua_in_finalizer(lua_State *L) { return lua_gc(L, LUA_GCCOUNT) == -1; }

static int collect_tensor(lua_State *L) {
  mrt_tensor **slot = slot_at(L, 1);
  if (!slot) return luaL_typeerror(L, 1, MRT_TENSOR);
  mrt_tensor *t = *slot;
  *slot = NULL;
  mrt_tensor_unref(t);
  return 0;
}

static int free_tensor(lua_State *L) {
  return mrt_lua_in_finalizer(L) ? 0 : collect_tensor(L);
}

/* ---- arrays -------------------------------------------------------------- */

void mrt_lua_handles_clear(mrt_lua_handles *h) {
  for (int i = 0; i < h->count; i++) {
    mrt_tensor *t = h->at[i];
    h->at[i] = NULL;
    mrt_tensor_unref(t);
  }
}

void mrt_lua_handles_forget(mrt_lua_handles *h) {
  for (int i = 0; i < h->count; i++) h->at[i] = NULL;
}

static int free_handles(lua_State *L) {
  mrt_lua_handles_clear(luaL_checkudata(L, 1, HANDLES));
  return 0;
}

mrt_lua_handles *mrt_lua_new_handles(lua_State *L, int count) {
  mrt_lua_handles *h =
      lua_newuserdatauv(L, sizeof *h + (size_t)count * sizeof *h->at, 0);
  h->count = count;
  for (int i = 0; i < count; i++) h->at[i] = NULL;
  luaL_setmetatable(L, HANDLES);
  return h;
}

void mrt_lua_push_list(lua_State *L, mrt_lua_handles *h) {
  lua_createtable(L, h->count, 0);
  for (int i = 0; i < h->count; i++) {
    if (h->at[i])
      *mrt_lua_new_tensor(L) = h->at[i];
    else
      lua_pushboolean(L, 0);
    h->at[i] = NULL;
    lua_rawseti(L, -2, i + 1);
  }
}

mrt_lua_handles *mrt_lua_check_list(lua_State *L, mrt_binding *m, int arg,
                                    const char *who) {
  if (!lua_istable(L, arg))
    mrt_lua_fail(L, m, MRT_EVALUE, who, "a list of tensors wanted, got %s",
                 mrt_lua_show(L, arg));
  lua_Unsigned n = lua_rawlen(L, arg);
  if (n > MRT_LONGEST_LIST)
    mrt_lua_fail(L, m, MRT_EVALUE, who, "a list of %I tensors is too long",
                 (LUAI_UACINT)n);
  mrt_lua_handles *h = mrt_lua_new_handles(L, (int)n);
  for (int i = 0; i < h->count; i++) {
    lua_rawgeti(L, arg, i + 1);
    mrt_tensor *t = mrt_lua_to_tensor(L, m, -1);
    if (!t)
      mrt_lua_fail(L, m, MRT_EVALUE, who,
                   "element %d of the list is %s, a tensor wanted", i + 1,
                   mrt_lua_show(L, -1));
    mrt_tensor_ref(t);
    h->at[i] = t;
    lua_pop(L, 1);
  }
  return h;
}

/* ---- what a tensor is ---------------------------------------------------- */

static mrt_tensor *self(lua_State *L, const char *who) {
  return mrt_lua_check_tensor(L, mrt_binding_get(L), 1, who);
}

static int get_dtype(lua_State *L) {
  const mrt_type *type = mrt_tensor_type(self(L, "dtype"));
  lua_pushstring(L, mrt_dtype_name(type->dtype));
  return 1;
}

/* A new list of its dimensions. */
static int get_shape(lua_State *L) {
  const mrt_type *type = mrt_tensor_type(self(L, "shape"));
  lua_createtable(L, type->rank, 0);
  for (int i = 0; i < type->rank; i++) {
    lua_pushinteger(L, type->dims[i]);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

static int get_rank(lua_State *L) {
  lua_pushinteger(L, mrt_tensor_type(self(L, "dim"))->rank);
  return 1;
}

static int get_count(lua_State *L) {
  lua_pushinteger(L, mrt_type_count(mrt_tensor_type(self(L, "numel"))));
  return 1;
}

static int get_nbytes(lua_State *L) {
  lua_pushinteger(
      L, (lua_Integer)mrt_type_bytes(mrt_tensor_type(self(L, "nbytes"))));
  return 1;
}

/* size(dim): one dimension.  size(): all of them, as a list. */
static int get_size(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  if (lua_isnoneornil(L, 2)) return get_shape(L);
  const mrt_type *type = mrt_tensor_type(self(L, "size"));
  int is_integer;
  lua_Integer dim = lua_tointegerx(L, 2, &is_integer);
  if (!is_integer)
    return mrt_lua_fail(L, m, MRT_EVALUE, "size", "a dimension wanted, got %s",
                        mrt_lua_show(L, 2));
  lua_Integer at = dim < 0 ? dim + type->rank : dim - 1;
  if (at < 0 || at >= type->rank)
    return mrt_lua_fail(L, m, MRT_EVALUE, "size",
                        "dim %I of a tensor with %d dimensions",
                        (LUAI_UACINT)dim, type->rank);
  lua_pushinteger(L, type->dims[at]);
  return 1;
}

static int get_length(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  const mrt_type *type = mrt_tensor_type(self(L, "#"));
  if (type->rank == 0)
    return mrt_lua_fail(L, m, MRT_ESHAPE, "#", "a scalar has no length");
  lua_pushinteger(L, type->dims[0]);
  return 1;
}

/* "f32[2,3]" */
static int get_type(lua_State *L) {
  char text[256];
  if (!lua_isnoneornil(L, 2))
    return mrt_lua_fail(L, mrt_binding_get(L), MRT_EVALUE, "type",
                        "says what a tensor is; x:to 'f64' is one of a dtype");
  mrt_type_print(mrt_tensor_type(self(L, "type")), text, sizeof text);
  lua_pushstring(L, text);
  return 1;
}

static int get_name(lua_State *L) {
  lua_pushstring(L, mrt_tensor_name(self(L, "name")));
  return 1;
}

static int set_name(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  mrt_tensor *t = self(L, "name");
  const char *name = lua_tostring(L, 2);
  if (!name)
    return mrt_lua_fail(L, m, MRT_EVALUE, "name", "a string wanted, got %s",
                        luaL_typename(L, 2));
  MRT_CHECK(L, m, "name", mrt_tensor_set_name(t, name));
  return 0;
}

/* Where it was made: file, line. */
static int get_origin(lua_State *L) {
  int line;
  lua_pushstring(L, mrt_tensor_origin(self(L, "origin"), &line));
  lua_pushinteger(L, line);
  return 2;
}

/* rebind(x, y): from now on x is what y is, under x's name; nobody else who
 * has the old value sees that.  In a trace only what it has made is rebound: the
 * new value is gone with it. */
static int rebind(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  mrt_tensor *old = mrt_lua_check_tensor(L, m, 1, "write");
  mrt_tensor *new = mrt_lua_check_tensor(L, m, 2, "write");
  mrt_context *ctx = mrt_tensor_context(old);
  if (mrt_tracing(ctx) && !mrt_trace_has(ctx, old))
    return mrt_lua_fail(L, m, MRT_ESTATE, "write",
                        "this tensor is from outside of the compiled function, "
                        "which can write variables (mrt.variable) and what it "
                        "makes itself (x:clone())");
  const char *name = mrt_tensor_name(old);
  if (name) MRT_CHECK(L, m, "write", mrt_tensor_set_name(new, name));
  mrt_tensor_ref(new);
  *slot_at(L, 1) = new;
  mrt_tensor_unref(old);
  return 0;
}

static int is_tensor(lua_State *L) {
  lua_pushboolean(L, mrt_lua_is_tensor(L, 1));
  return 1;
}

static int is_variable(lua_State *L) {
  mrt_tensor *t = mrt_lua_to_tensor(L, mrt_binding_get(L), 1);
  lua_pushboolean(L, t && mrt_tensor_is_variable(t));
  return 1;
}

/* Are its elements there, in memory that is read without asking the device? */
static int is_computed(lua_State *L) {
  mrt_tensor *t = mrt_lua_to_tensor(L, mrt_binding_get(L), 1);
  lua_pushboolean(L, t && mrt_tensor_data(t));
  return 1;
}

static int is_closed(lua_State *L) {
  mrt_tensor **slot = slot_at(L, 1);
  lua_pushboolean(L, slot && !*slot);
  return 1;
}

/* Add to the module: `Tensor` is the metatable, `methods` what C gives it. */
void mrt_lua_handle_open(lua_State *L, mrt_binding *m) {
  static const luaL_Reg meta[] = {
    { "__gc", collect_tensor },
    { "__close", free_tensor },
    { "__len", get_length },
    { NULL, NULL },
  };
  static const luaL_Reg methods[] = {
    { "free", free_tensor },    { "dim", get_rank },
    { "numel", get_count },     { "nbytes", get_nbytes },
    { "size", get_size },       { "type", get_type },
    { "get_dtype", get_dtype }, { "get_shape", get_shape },
    { "get_name", get_name },   { "set_name", set_name },
    { "origin", get_origin },   { NULL, NULL },
  };
  static const luaL_Reg functions[] = {
    { "is_tensor", is_tensor },     { "is_variable", is_variable },
    { "is_computed", is_computed }, { "is_closed", is_closed },
    { "rebind", rebind },           { NULL, NULL },
  };
  luaL_newmetatable(L, HANDLES);
  lua_pushcfunction(L, free_handles);
  lua_setfield(L, -2, "__gc");
  lua_pop(L, 1);
  luaL_newmetatable(L, MRT_TENSOR);
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &kind);
  mrt_lua_register(L, m, meta);
  lua_setfield(L, -2, "Tensor");
  lua_newtable(L);
  mrt_lua_register(L, m, methods);
  lua_setfield(L, -2, "methods");
  mrt_lua_register(L, m, functions);
}
