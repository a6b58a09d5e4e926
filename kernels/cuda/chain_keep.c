/* chain_keep.c -- compiled code on disk
 *
 * A file is the code, then its size, a hash of it and a mark; so it can be
 * loaded as it lies.  It is made under another name and renamed.
 *
 * SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L
#include "chain_compile.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct ending {
  uint64_t size, hash, mark;
} ending;
#define MARK   UINT64_C(0x31656e6b5f74726d)
#define FNV    UINT64_C(0xcbf29ce484222325)
#define SECOND UINT64_C(0x9e3779b97f4a7c15)

/* FNV-1a, 64 bits. */
uint64_t mrt_keep_hash(uint64_t hash, const void *data, size_t size) {
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

static uint64_t hash_all(uint64_t hash, const char *target, const char *text) {
  hash = mrt_keep_hash(hash, target, strlen(target) + 1);
  hash = mrt_keep_hash(hash, mrt_pointwise_text, strlen(mrt_pointwise_text));
  return mrt_keep_hash(hash, text, strlen(text));
}

bool mrt_keep_path(const char *target, const char *text,
                   char path[MRT_KEEP_PATH]) {
  const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  int n = 0;
  if (cache && cache[0] == '/')
    n = snprintf(path, MRT_KEEP_PATH, "%s/mrt", cache);
  else if (home && home[0] == '/')
    n = snprintf(path, MRT_KEEP_PATH, "%s/.cache/mrt", home);
  if (n <= 0 || n > MRT_KEEP_PATH - 80 || !make_folder(path)) return false;
  snprintf(path + n, (size_t)(MRT_KEEP_PATH - n), "/%016llx%016llx.code",
           (unsigned long long)hash_all(FNV, target, text),
           (unsigned long long)hash_all(SECOND, target, text));
  return true;
}

static bool whole(const void *data, size_t size, ending *end) {
  if (size < sizeof *end) return false;
  memcpy(end, (const char *)data + size - sizeof *end, sizeof *end);
  return end->mark == MARK && end->size == size - sizeof *end &&
         end->hash == mrt_keep_hash(FNV, data, (size_t)end->size);
}

void *mrt_keep_read(const char *path, size_t *size) {
  FILE *f = fopen(path, "rb");
  if (!f) return NULL;
  struct stat st;
  ending end;
  void *data = NULL;
  bool good = fstat(fileno(f), &st) == 0 && S_ISREG(st.st_mode) &&
              (data = malloc((size_t)st.st_size + 1)) != NULL &&
              fread(data, 1, (size_t)st.st_size, f) == (size_t)st.st_size &&
              whole(data, (size_t)st.st_size, &end);
  fclose(f);
  if (good) {
    *size = (size_t)end.size;
    return data;
  }
  free(data);
  return NULL;
}

bool mrt_keep_write(const char *path, const void *code, size_t size) {
  char part[MRT_KEEP_PATH + 8];
  snprintf(part, sizeof part, "%s.XXXXXX", path);
  int fd = mkstemp(part);
  if (fd < 0) return false;
  FILE *f = fdopen(fd, "wb");
  if (!f) {
    close(fd);
    unlink(part);
    return false;
  }
  ending end = { size, mrt_keep_hash(FNV, code, size), MARK };
  bool good = fwrite(code, 1, size, f) == size &&
              fwrite(&end, 1, sizeof end, f) == sizeof end;
  good &= fclose(f) == 0;
  good = good && rename(part, path) == 0;
  if (!good) unlink(part);
  return good;
}
