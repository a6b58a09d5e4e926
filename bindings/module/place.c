/* place.c -- whose code a line of Lua is
 *
 * Lua files of mrt are known by their chunk names, which begin with `root`.
 * A few of them, or whole folders, are plumbing: they only pass calls on, and
 * are not shown.
 *
 * SPDX-License-Identifier: MIT */
#include "binding.h"

#include <string.h>

bool mrt_lua_is_user(const mrt_binding *m, const char *source) {
  size_t n = strlen(m->root);
  return n == 0 || strncmp(source, m->root, n) != 0;
}

int mrt_lua_place(const mrt_binding *m, const char *source) {
  static const char *const plumbing[] = {
    "init.lua",
    "tensor/",
    "linalg/",
    "fft/",
    "util/argument.lua",
    "util/hints.lua",
    "util/json.lua",
    "util/options.lua",
    "communicator/",
    "train/snapshot.lua",
    "compile/",
    "accumulate/init.lua",
    "accumulate/gradient.lua",
    "plan/init.lua",
    "nn/module.lua",
    "policy/",
  };
  size_t n = strlen(m->root);
  if (mrt_lua_is_user(m, source)) return MRT_USER;
  for (size_t i = 0; i < sizeof plumbing / sizeof *plumbing; i++)
    if (strncmp(source + n, plumbing[i], strlen(plumbing[i])) == 0)
      return MRT_PLUMBING;
  return MRT_LIBRARY;
}

int mrt_lua_find_level(lua_State *L, const mrt_binding *m, int deepest,
                       lua_Debug *ar) {
  for (int level = 0; lua_getstack(L, level, ar); level++) {
    lua_getinfo(L, "l", ar);
    if (ar->currentline <= 0) continue; /* C */
    lua_getinfo(L, "S", ar);
    if (mrt_lua_place(m, ar->source) <= deepest) return level;
  }
  return -1;
}

const char *mrt_lua_show_file(const mrt_binding *m, lua_Debug *ar) {
  if (mrt_lua_is_user(m, ar->source)) return ar->short_src;
  return ar->source + strlen(m->root) - strlen("mrt/");
}

/* root(chunkname): the chunk name of mrt's init.lua says where mrt lies. */
static int set_root(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  size_t n;
  const char *name = luaL_checklstring(L, 1, &n);
  const char *slash = strrchr(name, '/');
  size_t length = slash ? (size_t)(slash - name) + 1 : 0;
  bool ours = length >= 4 && length < sizeof m->root &&
              strncmp(name + length - 4, "mrt/", 4) == 0;
  memcpy(m->root, name, ours ? length : 0);
  m->root[ours ? length : 0] = 0;
  return 0;
}

void mrt_lua_place_open(lua_State *L, mrt_binding *m) {
  static const luaL_Reg functions[] = {
    { "root", set_root },
    { NULL, NULL },
  };
  mrt_lua_register(L, m, functions);
}
