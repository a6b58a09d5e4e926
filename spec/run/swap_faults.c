/* swap_faults.c -- a disk that fails, or Ctrl-C, at any copy of a step
 *
 *     swap_faults script.lua        in the project's folder
 *
 * The script gets two functions: fail_at(n) lets the n-th wait for a copy from
 * now on fail, and interrupt_at(n) interrupts there; both return how many waits
 * there were since the last call.  0 is never.  in_child(f) calls f in a forked
 * process, which then closes its state, and returns whether that went well.
 *
 * SPDX-License-Identifier: MIT */
#include "tensor/tensor.h"

#include <errno.h>
#include <lauxlib.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int luaopen_mrt_core(lua_State *L);

/* A tier around the real one. */
typedef struct faulty {
  mrt_tier tier; /* first */
  mrt_tier *real;
} faulty;

static struct {
  mrt_context *ctx;
  mrt_status (*open)(const mrt_device *, const char *, const mrt_allocator *,
                     mrt_tier **, mrt_error *);
  long waits, fail_at, interrupt_at;
  bool failed;
} trial;

static mrt_tier *real(mrt_tier *t) { return ((faulty *)t)->real; }

static mrt_status resize(mrt_tier *t, size_t nbytes, mrt_error *e) {
  return real(t)->resize(real(t), nbytes, e);
}

static uint64_t start(mrt_tier *t, mrt_tier_lane lane, void *data,
                      size_t offset, size_t nbytes) {
  return real(t)->start(real(t), lane, data, offset, nbytes);
}

static int wait_for(mrt_tier *t, mrt_tier_lane lane, uint64_t number) {
  int code = real(t)->wait(real(t), lane, number);
  trial.waits++;
  if (trial.waits == trial.interrupt_at) mrt_interrupt(trial.ctx);
  if (trial.waits == trial.fail_at) trial.failed = true;
  return trial.failed ? EIO : code;
}

static void drain(mrt_tier *t) {
  trial.failed = false;
  real(t)->drain(real(t));
}

static void close_tier(mrt_tier *t) {
  real(t)->close(real(t));
  free(t);
}

static mrt_status open_tier(const mrt_device *device, const char *folder,
                            const mrt_allocator *a, mrt_tier **tier,
                            mrt_error *e) {
  faulty *f = malloc(sizeof *f);
  if (!f) return MRT_ENOMEM;
  f->tier =
      (mrt_tier){ resize, start, wait_for, drain, NULL, close_tier, NULL };
  mrt_status s = trial.open(device, folder, a, &f->real, e);
  *tier = &f->tier;
  if (s) free(f);
  return s;
}

static int begin(lua_State *L, long *at) {
  lua_pushinteger(L, trial.waits);
  trial.waits = trial.fail_at = trial.interrupt_at = 0;
  mrt_interrupt_clear(trial.ctx); /* one past the first update waits on */
  *at = (long)luaL_checkinteger(L, 1);
  return 1;
}

static int fail_at(lua_State *L) { return begin(L, &trial.fail_at); }
static int interrupt_at(lua_State *L) { return begin(L, &trial.interrupt_at); }

static int in_child(lua_State *L) {
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    int status = lua_pcall(L, 0, 0, 0);
    if (status) fprintf(stderr, "child: %s\n", luaL_tolstring(L, -1, NULL));
    lua_close(L);
    _exit(status == LUA_OK ? 0 : 1);
  }
  int status = 1;
  waitpid(child, &status, 0);
  lua_pushboolean(L, status == 0);
  return 1;
}

/* Every function of the module has the binding as its upvalue, which begins
 * with the context. */
static void put_between(lua_State *L) {
  luaL_requiref(L, "mrt.core", luaopen_mrt_core, 0);
  lua_getfield(L, -1, "seed");
  lua_getupvalue(L, -1, 1);
  trial.ctx = *(mrt_context **)lua_touserdata(L, -1);
  lua_settop(L, 0);
  trial.open = trial.ctx->device.open_tier;
  trial.ctx->device.open_tier = open_tier;
}

int main(int argc, char **argv) {
  if (argc != 2) return fprintf(stderr, "usage: swap_faults script.lua\n"), 2;
  setenv("LUA_PATH", "lua/?.lua;lua/?/init.lua", 0);
  setenv("MRT_THREADS", "1", 0);
  lua_State *L = luaL_newstate();
  if (!L) return EXIT_FAILURE;
  luaL_openlibs(L);
  put_between(L);
  int status = luaL_loadfile(L, argv[1]);
  lua_pushcfunction(L, fail_at);
  lua_pushcfunction(L, interrupt_at);
  lua_pushcfunction(L, in_child);
  if (status == LUA_OK) status = lua_pcall(L, 3, 0, 0);
  if (status != LUA_OK)
    fprintf(stderr, "swap_faults: %s\n", luaL_tolstring(L, -1, NULL));
  lua_close(L);
  return status == LUA_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
