/* fields.h -- setting fields of the Lua table on top of the stack
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_BINDINGS_FIELDS_H
#define MRT_BINDINGS_FIELDS_H

#include "binding.h"

static inline void set_integer(lua_State *L, const char *key, int64_t value) {
  lua_pushinteger(L, value);
  lua_setfield(L, -2, key);
}

static inline void set_number(lua_State *L, const char *key, double value) {
  lua_pushnumber(L, value);
  lua_setfield(L, -2, key);
}

static inline void set_text(lua_State *L, const char *key, const char *value) {
  lua_pushstring(L, value); /* nil for NULL */
  lua_setfield(L, -2, key);
}

static inline void set_truth(lua_State *L, const char *key, bool value) {
  lua_pushboolean(L, value);
  lua_setfield(L, -2, key);
}

#endif
