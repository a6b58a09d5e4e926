/* ended.c -- a program that fails, as one rank of several
 *
 * SPDX-License-Identifier: MIT */
#include "program.h"

#include "mrt.h"
#include "mrt/ranks.h"
#include <stdio.h>
#include <string.h>

void mrt_program_tell(lua_State *L, const char *message) {
  char line[300];
  mrt_communicator_info info;
  lua_getfield(L, LUA_REGISTRYINDEX, "mrt.context");
  mrt_context *ctx = lua_touserdata(L, -1);
  lua_pop(L, 1);
  snprintf(line, sizeof line, "%.*s", (int)strcspn(message, "\n"), message);
  for (int i = 0; ctx; i++) {
    mrt_status s = mrt_communicator_get(ctx, i, &info);
    if (s == MRT_EVALUE) break; /* there are no more */
    if (s == MRT_OK) (void)mrt_communicator_abort(ctx, i, line);
  }
}

int mrt_program_status(lua_State *L, int status) {
  static const struct {
    const char *code;
    int status;
  } known[] = { { "rank", 75 }, { "interrupted", 130 } };
  bool has = lua_getfield(L, LUA_REGISTRYINDEX, "mrt.code") == LUA_TSTRING;
  for (size_t i = 0; has && i < sizeof known / sizeof *known; i++)
    if (strcmp(lua_tostring(L, -1), known[i].code) == 0)
      status = known[i].status;
  lua_pop(L, 1);
  return status;
}
