/* available.c -- how much memory can this process still get, how many cores?
 *
 * Of memory the kernel's own estimate for the machine (MemAvailable), and for
 * each control group from ours up to the root its limit less its use; cached
 * file pages that nobody uses count as free.  Of cores those that the process
 * may run on, and what the groups' quotas come to.  Groups of version 2 first,
 * of version 1 where that is mounted.
 *
 * SPDX-License-Identifier: MIT */
#ifdef __linux__
#define _GNU_SOURCE /* sched_getaffinity */
#endif
#include "runtime/available.h"

#include <limits.h>
#include <math.h>
#ifdef __linux__
#include <sched.h>
#endif
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* Our group's path, without a slash at its end; `entry` as in /proc. */
static void find_group(const char *entry, char *group) {
  char line[4200];
  FILE *file = fopen("/proc/self/cgroup", "r");
  group[0] = 0;
  while (file && fgets(line, sizeof line, file)) {
    char *at = strstr(line, entry);
    if (!at) continue;
    line[strcspn(line, "\n")] = 0;
    snprintf(group, PATH_ROOM, "%s", at + strlen(entry));
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
    find_group(versions[i].entry, group);
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

/* ---- cores --------------------------------------------------------------- */

/* Those that the calling thread may run on. */
static int allowed_cores(void) {
#ifdef __linux__
  for (int room = CPU_SETSIZE; room <= 1 << 16; room *= 4) {
    cpu_set_t *set = CPU_ALLOC(room);
    if (!set) break;
    int failed = sched_getaffinity(0, CPU_ALLOC_SIZE(room), set);
    int count = failed ? 0 : CPU_COUNT_S(CPU_ALLOC_SIZE(room), set);
    CPU_FREE(set);
    if (count) return count;
  }
#endif
  long online = sysconf(_SC_NPROCESSORS_ONLN);
  return online > 0 ? (int)online : 1;
}

/* The files of one version: what a group may have in each period, in
 * microseconds; of version 2 both stand in the one file. */
typedef struct cores_version {
  const char *root, *entry;
  const char *quota, *period;
} cores_version;

static const cores_version cores_versions[] = {
  { "/sys/fs/cgroup", "0::", "cpu.max", NULL },
  { "/sys/fs/cgroup/cpu", ":cpu:", "cpu.cfs_quota_us", "cpu.cfs_period_us" },
  { "/sys/fs/cgroup/cpu", ":cpu,cpuacct:", "cpu.cfs_quota_us",
    "cpu.cfs_period_us" },
};

/* Reads one number or two; how many there are. */
static int read_numbers(const char *root, const char *group, const char *file,
                        double *first, double *second) {
  char path[PATH_ROOM + 64];
  int n = snprintf(path, sizeof path, "%s%s/%s", root, group, file);
  FILE *from = n < (int)sizeof path ? fopen(path, "r") : NULL;
  if (!from) return 0;
  n = fscanf(from, "%lf %lf", first, second);
  fclose(from);
  return n;
}

/* Of a group; less than 0: no quota. */
static double quota_of(const cores_version *v, const char *group) {
  double quota = -1, period = -1, none;
  read_numbers(v->root, group, v->quota, &quota, &period);
  if (v->period) read_numbers(v->root, group, v->period, &period, &none);
  return quota > 0 && period > 0 ? quota / period : -1;
}

int mrt_cpu_cores(void) {
  int least = allowed_cores();
  for (size_t i = 0; i < sizeof cores_versions / sizeof *cores_versions; i++) {
    const cores_version *v = &cores_versions[i];
    char group[PATH_ROOM];
    find_group(v->entry, group);
    for (;;) {
      double quota = quota_of(v, group);
      if (quota > 0 && quota < least - 1) least = (int)ceil(quota);
      char *slash = strrchr(group, '/');
      if (!slash) break;
      *slash = 0;
    }
  }
  return least > 0 ? least : 1;
}
