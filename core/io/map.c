/* map.c -- files as memory
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "io/io.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static mrt_status refuse(const char *path, int code, mrt_error *e) {
  return mrt_fail(e, MRT_EFILE, "%s: %s", path, strerror(code));
}

static mrt_status map_file(const char *path, mrt_map *map, mrt_error *e) {
  struct stat st;
  if (fstat(map->file, &st)) return refuse(path, errno, e);
  if (!S_ISREG(st.st_mode))
    return mrt_fail(e, MRT_EFILE, "%s: not a regular file", path);
  map->data = (const uint8_t *)"";
  map->size = (size_t)st.st_size;
  if (map->size == 0) return MRT_OK; /* nothing cannot be mapped */
  void *data = mmap(NULL, map->size, PROT_READ, MAP_PRIVATE, map->file, 0);
  if (data == MAP_FAILED) {
    map->size = 0;
    return refuse(path, errno, e);
  }
  map->data = data;
  return MRT_OK;
}

mrt_status mrt_map_open(const char *path, mrt_map *map, mrt_error *e) {
  *map = (mrt_map){ .file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) };
  if (map->file < 0) return refuse(path, errno, e);
  mrt_status status = map_file(path, map, e);
  if (status) mrt_map_close(NULL, map);
  return status;
}

void mrt_map_close(const mrt_allocator *a, mrt_map *map) {
  if (map->owned) mrt_release(a, (void *)map->data, map->owned);
  if (map->file >= 0) {
    if (map->size) munmap((void *)map->data, map->size);
    close(map->file);
  }
  *map = (mrt_map){ .file = -1 };
}

bool mrt_map_whole(const mrt_map *map) {
  struct stat st;
  return map->file < 0 ||
         (fstat(map->file, &st) == 0 && (uint64_t)st.st_size >= map->size);
}

void mrt_map_advise(const mrt_map *map, size_t offset, size_t nbytes) {
  if (map->file < 0 || offset >= map->size) return;
  if (nbytes > map->size - offset) nbytes = map->size - offset;
  size_t page = (size_t)sysconf(_SC_PAGESIZE), first = offset / page * page;
  madvise((void *)(map->data + first), nbytes + offset - first, MADV_WILLNEED);
}
