/* available.c -- how much memory can this process still get?
 *
 * The kernel's own estimate for the machine (MemAvailable), and for each
 * control group from ours up to the root its limit less its use; cached file
 * pages that nobody uses count as free.  Groups of version 2 first, of version
 * 1 where that is mounted.
 *
 * SPDX-License-Identifier: MIT */
#include "runtime/available.h"

#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_ROOM = 4400 };

/* The number after `key` at the begin of a line; of the first line when key is
 * empty.  SIZE_MAX where there is none ("max"). */
static size_t read_number(const char *path, const char *key) {
  char line[256];
  size_t found = SIZE_MAX, length = strlen(key);
  FILE *file = fopen(path, "r");
  if (!file) return found;
  while (found == SIZE_MAX && fgets(line, sizeof line, file)) {
    char *end, *text = line + length;
    if (strncmp(line, key, length) != 0) continue;
    unsigned long long n = strtoull(text, &end, 10);
    if (end == text) break;
    found = n < SIZE_MAX ? (size_t)n : SIZE_MAX;
  }
  fclose(file);
  return found;
}

/* The files of one version of control groups. */
typedef struct version {
  const char *root, *entry; /* of /proc/self/cgroup */
  const char *limit, *use, *idle;
} version;

static const version versions[] = {
  { "/sys/fs/cgroup", "0::", "memory.max", "memory.current", "inactive_file " },
  { "/sys/fs/cgroup/memory", ":memory:", "memory.limit_in_bytes",
    "memory.usage_in_bytes", "total_inactive_file " },
};

static size_t ask(const version *v, const char *group, const char *file,
                  const char *key) {
  char path[PATH_ROOM + 64];
  int n = snprintf(path, sizeof path, "%s%s/%s", v->root, group, file);
  return n < (int)sizeof path ? read_number(path, key) : SIZE_MAX;
}

static size_t group_available(const version *v, const char *group) {
  size_t limit = ask(v, group, v->limit, ""), use = ask(v, group, v->use, "");
  size_t idle = ask(v, group, "memory.stat", v->idle);
  if (limit == SIZE_MAX || use == SIZE_MAX) return SIZE_MAX;
  if (idle != SIZE_MAX) use = idle < use ? use - idle : 0;
  return use < limit ? limit - use : 1; /* 0 would mean unknown */
}

/* Our group's path under v's root, without a slash at its end. */
static void find_group(const version *v, char *group) {
  char line[4200];
  FILE *file = fopen("/proc/self/cgroup", "r");
  group[0] = 0;
  while (file && fgets(line, sizeof line, file)) {
    char *at = strstr(line, v->entry);
    if (!at) continue;
    line[strcspn(line, "\n")] = 0;
    snprintf(group, PATH_ROOM, "%s", at + strlen(v->entry));
    break;
  }
  if (file) fclose(file);
  size_t n = strlen(group);
  if (n && group[n - 1] == '/') group[n - 1] = 0;
}

size_t mrt_cpu_available(void) {
  size_t kib = read_number("/proc/meminfo", "MemAvailable:");
  size_t least = kib > SIZE_MAX / 1024 ? SIZE_MAX : kib * 1024;
  for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
    char group[PATH_ROOM];
    find_group(&versions[i], group);
    for (;;) {
      size_t here = group_available(&versions[i], group);
      if (here < least) least = here;
      char *slash = strrchr(group, '/');
      if (!slash) break;
      *slash = 0;
    }
  }
  return least == SIZE_MAX ? 0 : least;
}
