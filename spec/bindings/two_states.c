/* two_states.c -- Lua states in threads of their own do not meet
 *
 *     two_states script.lua        in the project's folder
 *
 * The script trains from the seed it is called with and returns the bits of
 * its parameters.  Several states at once must give what each gives alone.
 *
 * SPDX-License-Identifier: MIT */
#include "mrt.h"

#include <lauxlib.h>
#include <lualib.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int luaopen_mrt_core(lua_State *L);

enum { STATES = 3 };

typedef struct job {
  const char *script;
  int seed;
  char *bits;
  size_t size;
} job;

static void *work(void *argument) {
  job *j = argument;
  lua_State *L = luaL_newstate();
  if (!L) return NULL;
  luaL_openlibs(L);
  luaL_requiref(L, "mrt.core", luaopen_mrt_core, 0);
  int status = luaL_loadfile(L, j->script);
  lua_pushinteger(L, j->seed);
  if (status == LUA_OK) status = lua_pcall(L, 1, 1, 0);
  if (status == LUA_OK && lua_isstring(L, -1)) {
    const char *bits = lua_tolstring(L, -1, &j->size);
    j->bits = malloc(j->size);
    if (j->bits) memcpy(j->bits, bits, j->size);
  } else {
    fprintf(stderr, "two_states: %s\n", luaL_tolstring(L, -1, NULL));
  }
  lua_close(L);
  return NULL;
}

static bool same(const job *a, const job *b) {
  return a->bits && b->bits && a->size == b->size &&
         memcmp(a->bits, b->bits, a->size) == 0;
}

int main(int argc, char **argv) {
  if (argc != 2) return fprintf(stderr, "usage: two_states script.lua\n"), 2;
  setenv("LUA_PATH", "lua/?.lua;lua/?/init.lua", 0);
  job alone[STATES], together[STATES];
  pthread_t threads[STATES];
  for (int i = 0; i < STATES; i++)
    alone[i] = together[i] = (job){ .script = argv[1], .seed = i + 1 };
  for (int i = 0; i < STATES; i++) work(&alone[i]);
  for (int i = 0; i < STATES; i++)
    if (pthread_create(&threads[i], NULL, work, &together[i]) != 0)
      return perror("two_states"), EXIT_FAILURE;
  for (int i = 0; i < STATES; i++) pthread_join(threads[i], NULL);
  int wrong = same(&alone[0], &alone[1]); /* seeds do matter */
  for (int i = 0; i < STATES; i++) {
    wrong += !same(&alone[i], &together[i]);
    free(alone[i].bits);
    free(together[i].bits);
  }
  printf("%d states at once: %s\n", STATES, wrong ? "other bits" : "same bits");
  return wrong ? EXIT_FAILURE : EXIT_SUCCESS;
}
