/* file.c -- whole files as strings, for Lua
 *
 * SPDX-License-Identifier: MIT */
#include "binding.h"

/* read_file(path): all of it; nil, message, code for what cannot be read or is
 * not a regular file. */
static int read_file(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  const char *path = mrt_lua_check_text(L, m, 1, "read", "the path");
  size_t room, size;
  luaL_Buffer b;
  MRT_ATTEMPT(L, m, NULL, mrt_file_read(m->ctx, path, NULL, 0, &room));
  char *text = luaL_buffinitsize(L, &b, room);
  mrt_status status = mrt_file_read(m->ctx, path, text, room, &size);
  luaL_pushresultsize(&b, status ? 0 : size);
  return status ? mrt_lua_failed(L, m, status, NULL) : 1;
}

/* write_file(path, text): true, once it is there whole; or as read_file. */
static int write_file(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  const char *path = mrt_lua_check_text(L, m, 1, "write", "the path");
  size_t size;
  const char *text = luaL_checklstring(L, 2, &size);
  MRT_ATTEMPT(L, m, NULL, mrt_file_write(m->ctx, path, text, size));
  lua_pushboolean(L, 1);
  return 1;
}

void mrt_lua_file_open(lua_State *L, mrt_binding *m) {
  static const luaL_Reg functions[] = { { "read_file", read_file },
                                        { "write_file", write_file },
                                        { NULL, NULL } };
  mrt_lua_register(L, m, functions);
}
