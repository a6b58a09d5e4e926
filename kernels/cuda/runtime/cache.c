/* cache.c -- what a CUDA device finds out once, on disk
 *
 * A file is the data, then its size, a hash of it and a mark; so code can be
 * loaded as it lies.  It is made under another name.  Reading one sets its time,
 * so that those used longest ago can be told.
 *
 * SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L
#include "runtime/cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct cache_ending {
  uint64_t size, hash, mark;
} cache_ending;
#define MARK   UINT64_C(0x31656e6b5f74726d)
#define FNV    UINT64_C(0xcbf29ce484222325)
#define SECOND UINT64_C(0x9e3779b97f4a7c15)

uint64_t mrt_cuda_cache_hash(uint64_t hash, const void *data, size_t size) {
  const unsigned char *p = data;
  for (size_t i = 0; i < size; i++)
    hash = (hash ^ p[i]) * UINT64_C(0x100000001b3);
  return hash;
}

/* Make the folder that `path` names, and those above. */
static bool make_folder(char *path) {
  for (char *p = path + 1;; p++) {
    char c = *p;
    if (c != '/' && c != '\0') continue;
    *p = '\0';
    bool made = mkdir(path, 0700) == 0 || errno == EEXIST;
    *p = c;
    if (c == '\0') return made;
  }
}

mrt_cuda_cache_key mrt_cuda_cache_begin(void) {
  return (mrt_cuda_cache_key){ FNV, SECOND };
}

void mrt_cuda_cache_add(mrt_cuda_cache_key *name, const void *data,
                        size_t size) {
  name->a = mrt_cuda_cache_hash(name->a, data, size);
  name->b = mrt_cuda_cache_hash(name->b, data, size);
}

bool mrt_cuda_cache_path(const mrt_cuda_cache_key *name, const char *kind,
                         char path[MRT_CUDA_CACHE_PATH]) {
  const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  int n = 0;
  if (cache && cache[0] == '/')
    n = snprintf(path, MRT_CUDA_CACHE_PATH, "%s/mrt", cache);
  else if (home && home[0] == '/')
    n = snprintf(path, MRT_CUDA_CACHE_PATH, "%s/.cache/mrt", home);
  if (n <= 0 || n > MRT_CUDA_CACHE_PATH - 80 || !make_folder(path))
    return false;
  snprintf(path + n, (size_t)(MRT_CUDA_CACHE_PATH - n), "/%016llx%016llx.%s",
           (unsigned long long)name->a, (unsigned long long)name->b, kind);
  return true;
}

static bool whole(const void *data, size_t size, cache_ending *end) {
  if (size < sizeof *end) return false;
  memcpy(end, (const char *)data + size - sizeof *end, sizeof *end);
  return end->mark == MARK && end->size == size - sizeof *end &&
         end->hash == mrt_cuda_cache_hash(FNV, data, (size_t)end->size);
}

void *mrt_cuda_cache_read(const char *path, size_t *size) {
  int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* a pipe: no wait */
  FILE *f = fd < 0 ? NULL : fdopen(fd, "rb");
  if (!f) {
    if (fd >= 0) close(fd);
    return NULL;
  }
  struct stat st;
  cache_ending end;
  void *data = NULL;
  bool here = fstat(fileno(f), &st) == 0 && S_ISREG(st.st_mode) &&
              (data = malloc((size_t)st.st_size + 1)) != NULL &&
              fread(data, 1, (size_t)st.st_size, f) == (size_t)st.st_size;
  bool good = here && whole(data, (size_t)st.st_size, &end);
  if (good) futimens(fileno(f), NULL);
  fclose(f);
  if (good) {
    *size = (size_t)end.size;
    return data;
  }
  if (here) unlink(path); /* damaged */
  free(data);
  return NULL;
}

/* The first one's stays. */
static bool put(const char *part, const char *path) {
  if (link(part, path) == 0 || errno == EEXIST) return unlink(part), true;
  return rename(part, path) == 0; /* not every file system has links */
}

bool mrt_cuda_cache_write(const char *path, const void *data, size_t size) {
  char part[MRT_CUDA_CACHE_PATH + 8];
  snprintf(part, sizeof part, "%s.XXXXXX", path);
  int fd = mkstemp(part);
  if (fd < 0) return false;
  FILE *f = fdopen(fd, "wb");
  if (!f) {
    close(fd);
    unlink(part);
    return false;
  }
  cache_ending end = { size, mrt_cuda_cache_hash(FNV, data, size), MARK };
  bool good = fwrite(data, 1, size, f) == size &&
              fwrite(&end, 1, sizeof end, f) == sizeof end;
  good &= fclose(f) == 0;
  good = good && put(part, path);
  if (!good) unlink(part);
  if (good)
    mrt_cuda_cache_trim(path, MRT_CUDA_CACHE_FILES, MRT_CUDA_CACHE_BYTES);
  return good;
}

/* ---- how much is kept ---------------------------------------------------- */

typedef struct kept {
  char name[64];
  struct timespec used;
  uint64_t bytes;
} kept;

/* What was used longest ago first; names break ties. */
static int by_use(const void *a, const void *b) {
  const kept *x = a, *y = b;
  if (x->used.tv_sec != y->used.tv_sec)
    return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
  if (x->used.tv_nsec != y->used.tv_nsec)
    return x->used.tv_nsec < y->used.tv_nsec ? -1 : 1;
  return strcmp(x->name, y->name);
}

/* Other things may lie in that folder. */
static bool is_ours(const char *name) {
  return strspn(name, "0123456789abcdef") == 32 && name[32] == '.' &&
         strlen(name) < sizeof((kept *)0)->name;
}

/* What of ours is in a folder, in malloc's memory. */
static kept *list(DIR *folder, int *count) {
  kept *all = NULL;
  int room = 0;
  *count = 0;
  for (struct dirent *d; (d = readdir(folder));) {
    struct stat st;
    if (!is_ours(d->d_name) ||
        fstatat(dirfd(folder), d->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISREG(st.st_mode))
      continue;
    if (*count == room) {
      kept *more = realloc(all, (size_t)(room = 2 * room + 64) * sizeof *all);
      if (!more) break;
      all = more;
    }
    kept *k = &all[(*count)++];
    memcpy(k->name, d->d_name, strlen(d->d_name) + 1);
    k->used = st.st_mtim, k->bytes = (uint64_t)st.st_size;
  }
  return all;
}

void mrt_cuda_cache_trim(const char *path, int files, uint64_t bytes) {
  char folder[MRT_CUDA_CACHE_PATH];
  const char *end = strrchr(path, '/');
  int count, n = end ? (int)(end - path) : 0;
  if (n <= 0 || n >= MRT_CUDA_CACHE_PATH) return;
  snprintf(folder, sizeof folder, "%.*s", n, path);
  DIR *d = opendir(folder);
  if (!d) return;
  kept *all = list(d, &count);
  uint64_t sum = 0;
  for (int i = 0; i < count; i++) sum += all[i].bytes;
  if (count > files || sum > bytes)
    qsort(all, (size_t)count, sizeof *all, by_use);
  for (int i = 0; i < count && (count - i > files || sum > bytes); i++) {
    unlinkat(dirfd(d), all[i].name, 0);
    sum -= all[i].bytes;
  }
  free(all);
  closedir(d);
}
