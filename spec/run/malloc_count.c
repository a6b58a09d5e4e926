/* malloc_count.c -- a compiled training step allocates no tensor, no scratch
 *
 *     malloc_count script.lua        in the project's folder
 *
 * malloc and its kin are replaced for the whole process, libraries included,
 * and counted between the global functions count() and counted(), which gives
 * the number of requests, their bytes, and the largest.  The script asserts.
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "mrt.h"

#include <errno.h>
#include <lauxlib.h>
#include <lualib.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

/* glibc's own, under their other names */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

static atomic_bool counting;
static atomic_size_t requests, bytes, largest;

static void note(size_t size) {
  if (!counting) return;
  requests++;
  bytes += size;
  if (size > largest) largest = size;
}

EXPORT void *malloc(size_t size) {
  note(size);
  return __libc_malloc(size);
}

EXPORT void *calloc(size_t count, size_t size) {
  note(count * size);
  return __libc_calloc(count, size);
}

EXPORT void *realloc(void *block, size_t size) {
  note(size);
  return __libc_realloc(block, size);
}

EXPORT void *memalign(size_t alignment, size_t size) {
  note(size);
  return __libc_memalign(alignment, size);
}

EXPORT void *aligned_alloc(size_t alignment, size_t size) {
  note(size);
  return __libc_memalign(alignment, size);
}

EXPORT int posix_memalign(void **block, size_t alignment, size_t size) {
  note(size);
  *block = __libc_memalign(alignment, size);
  return *block ? 0 : ENOMEM;
}

EXPORT void *mmap(void *at, size_t size, int protection, int flags, int file,
                  off_t offset) {
  note(size);
  long result = syscall(SYS_mmap, at, size, protection, flags, file, offset);
  return (void *)result;
}

static int count(lua_State *L) {
  (void)L;
  requests = bytes = largest = 0;
  counting = true;
  return 0;
}

static int counted(lua_State *L) {
  counting = false;
  lua_pushinteger(L, (lua_Integer)requests);
  lua_pushinteger(L, (lua_Integer)bytes);
  lua_pushinteger(L, (lua_Integer)largest);
  return 3;
}

int luaopen_mrt_core(lua_State *L);

int main(int argc, char **argv) {
  if (argc != 2) return fprintf(stderr, "usage: malloc_count script.lua\n"), 2;
  setenv("LUA_PATH", "lua/?.lua;lua/?/init.lua", 0);
  lua_State *L = luaL_newstate();
  if (!L) return EXIT_FAILURE;
  luaL_openlibs(L);
  luaL_requiref(L, "mrt.core", luaopen_mrt_core, 0);
  lua_register(L, "count", count);
  lua_register(L, "counted", counted);
  int failed = luaL_dofile(L, argv[1]);
  if (failed)
    fprintf(stderr, "malloc_count: %s\n", luaL_tolstring(L, -1, NULL));
  lua_close(L);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
