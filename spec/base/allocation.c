/* allocation.c -- no allocation that fails crashes, leaks, or half-updates
 *
 *     allocation script.lua        in the project's folder
 *
 * Lua and our bookkeeping share the state's allocator, and device memory asks
 * it for a ticket; so making its n-th call fail makes every allocation fail
 * once.  The script is loaded with mrt and returns functions: `check`, which
 * raises if what is left is not whole, and parts that do a bit of everything.
 *
 *   used    one state: each part with the n-th call failing, for every n until
 *           nothing fails; check() after each.  Once only the n-th fails (then
 *           collecting garbage mends much of it), once all from the n-th on.
 *           Part by part, since what went well before a failure takes the time.
 *   fresh   a new state for n = 1, 1 + stride, ...: opening, loading, working,
 *           closing.
 *
 * Errors must be Lua's "not enough memory" or ours with that code, and closing
 * must give back every byte.
 *
 * SPDX-License-Identifier: MIT */
#include "base/sanitizers.h"
#include "mrt.h"

#include <lauxlib.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int luaopen_mrt_core(lua_State *L);

/* Sanitizers are slow: there every other call fails, in one of the two ways of
 * `used`. */
#ifdef MRT_SANITIZES_ADDRESSES
enum { STRIDE = 4, FRESH_RUNS = 60 };
#else
enum { STRIDE = 1, FRESH_RUNS = 150 };
#endif

typedef struct heap {
  long long bytes; /* given out and not yet given back */
  long calls;      /* those that wanted more memory */
  long fail_at;    /* 0: none */
  bool fail_after; /* also those after it */
} heap;

static void *resize(void *user, void *block, size_t old_size, size_t new_size) {
  heap *h = user;
  if (!block) old_size = 0; /* Lua says what kind of object it will be */
  if (new_size == 0) {
    free(block);
    h->bytes -= (long long)old_size;
    return NULL;
  }
  bool shrinks = block && new_size <= old_size; /* Lua counts on these */
  if (!shrinks) h->calls++;
  if (!shrinks && h->fail_at &&
      (h->fail_after ? h->calls >= h->fail_at : h->calls == h->fail_at))
    return NULL;
  /* Moving each time shows who keeps an old address. */
  void *fresh = malloc(new_size);
  if (!fresh) return shrinks ? block : NULL;
  if (block) memcpy(fresh, block, old_size < new_size ? old_size : new_size);
  free(block);
  h->bytes += (long long)new_size - (long long)old_size;
  return fresh;
}

static _Noreturn void die(const char *mode, long n, const char *what) {
  fprintf(stderr, "allocation: %s, call %ld: %s\n", mode, n, what);
  exit(EXIT_FAILURE);
}

/* Is the error on top one that says that memory is out? */
static bool out_of_memory(lua_State *L, int status) {
  if (status == LUA_ERRMEM) return true;
  if (lua_isstring(L, -1)) /* caught and raised again */
    return strstr(lua_tostring(L, -1), "not enough memory") != NULL ||
           strstr(lua_tostring(L, -1), "out of memory") != NULL;
  if (!lua_istable(L, -1)) return false;
  lua_getfield(L, -1, "code");
  bool is =
      lua_isstring(L, -1) && !strcmp(lua_tostring(L, -1), "out of memory");
  lua_pop(L, 1);
  return is;
}

/* Raises what went wrong; leaves check and the parts on the stack. */
static int load(lua_State *L) {
  const char *script = lua_touserdata(L, 1);
  luaL_openlibs(L);
  luaL_requiref(L, "mrt.core", luaopen_mrt_core, 0);
  lua_settop(L, 0);
  if (luaL_loadfile(L, script) != LUA_OK) return lua_error(L);
  lua_call(L, 0, LUA_MULTRET);
  return lua_gettop(L);
}

static int load_and_work(lua_State *L) {
  int count = load(L);
  for (int part = 2; part <= count; part++) {
    lua_pushvalue(L, part);
    lua_call(L, 0, 0);
  }
  return 0;
}

static int run(lua_State *L, lua_CFunction f, const char *script, int results) {
  lua_pushcfunction(L, f);
  lua_pushlightuserdata(L, (void *)script);
  return lua_pcall(L, 1, results, 0);
}

static int call(lua_State *L, int function) {
  lua_pushvalue(L, function);
  return lua_pcall(L, 0, 0, 0);
}

/* What the error on top says. */
static const char *text(lua_State *L) { return luaL_tolstring(L, -1, NULL); }

static void finish(heap *h, lua_State *L, const char *mode, long n) {
  lua_close(L);
  if (h->bytes == 0) return;
  char what[64];
  snprintf(what, sizeof what, "%lld bytes leaked", h->bytes);
  die(mode, n, what);
}

/* Every STRIDE-th n of one part; the two ways take turns.  Returns how many calls it makes. */
static long use_part(lua_State *L, heap *h, int part, bool fail_after,
                     const char *mode) {
  int top = lua_gettop(L);
  if (call(L, part) != LUA_OK) die(mode, 0, text(L));
  long n = fail_after ? 1 - STRIDE + STRIDE / 2 : 1 - STRIDE;
  long calls;
  do {
    n += STRIDE, h->calls = 0;
    h->fail_at = n, h->fail_after = fail_after;
    int status = call(L, part);
    h->fail_at = 0;
    if (status != LUA_OK && !out_of_memory(L, status)) die(mode, n, text(L));
    lua_settop(L, top);
    calls = h->calls;
    if (call(L, 1) != LUA_OK) die(mode, n, text(L));
  } while (calls >= n);
  return calls;
}

/* All parts in one state.  Returns how many calls they make. */
static long use_one_state(const char *script, bool fail_after) {
  const char *mode = fail_after ? "used, all from" : "used, only";
  heap h = { 0 };
  lua_State *L = lua_newstate(resize, &h);
  if (!L || run(L, load, script, LUA_MULTRET) != LUA_OK)
    die(mode, 0, L ? text(L) : "?");
  long calls = 0;
  for (int part = 2, count = lua_gettop(L); part <= count; part++)
    calls += use_part(L, &h, part, fail_after, mode);
  finish(&h, L, mode, calls);
  return calls;
}

/* Opens, loads, works; true when nothing failed. */
static bool try_fresh(const char *script, long n, bool fail_after,
                      long *calls) {
  heap h = { .fail_at = n, .fail_after = fail_after };
  lua_State *L = lua_newstate(resize, &h);
  int status = LUA_ERRMEM;
  if (L) {
    status = run(L, load_and_work, script, 0);
    h.fail_at = 0;
    if (status != LUA_OK && !out_of_memory(L, status)) die("fresh", n, text(L));
    lua_close(L);
  }
  if (h.bytes) die("fresh", n, "bytes leaked");
  *calls = h.calls;
  return status == LUA_OK;
}

static void use_fresh_states(const char *script) {
  long all, calls;
  if (!try_fresh(script, 0, false, &all)) die("fresh", 0, "failed");
  long stride = all / FRESH_RUNS + 1;
  for (long n = 1; n <= all; n += stride) {
    try_fresh(script, n, false, &calls);
    try_fresh(script, n, true, &calls);
  }
  printf("fresh: %ld calls, every %ld-th failed\n", all, stride);
}

int main(int argc, char **argv) {
  if (argc != 2) return fprintf(stderr, "usage: allocation script.lua\n"), 2;
  setenv("LUA_PATH", "lua/?.lua;lua/?/init.lua", 0);
  setenv("MRT_THREADS", "1", 0);
  long n = use_one_state(argv[1], false);
  printf("used: of %ld calls every %d-th failed alone\n", n, STRIDE);
  n = use_one_state(argv[1], true);
  printf("used: of %ld calls every %d-th failed with all after it\n", n,
         STRIDE);
  use_fresh_states(argv[1]);
  return EXIT_SUCCESS;
}
