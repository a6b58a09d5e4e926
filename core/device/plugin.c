/* plugin.c -- devices by name; all but the CPU are loaded
 *
 * The name says where to look: "gpu:1" is number 1 of what libmrt_gpu.so
 * opens, or the library that MRT_GPU names.  A plug-in is never unloaded: its
 * driver has threads of its own.
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "device/device.h"
#include "device/op_names.h"

#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_DEVICES = 1024, MOST_LETTERS = 23 };

#define PREFIX "libmrt_"
#define SUFFIX ".so"

/* ---- where libraries are ------------------------------------------------- */

/* The Lua module lies in a folder of its own beside the libraries. */
static const char *const folders[] = { "", "lib/", "../lib/", "../" };

typedef struct path {
  char s[4096];
} path;

/* The file that this code is in, links followed.  A program that was found by
 * PATH is called by its bare name. */
static path own_file(void) {
  path p = { "" };
  Dl_info here;
  if (!dladdr(MRT_PLUGIN_ENTRY, &here) || !here.dli_fname) return p;
  const char *name =
      strchr(here.dli_fname, '/') ? here.dli_fname : "/proc/self/exe";
  char *real = realpath(name, NULL);
  snprintf(p.s, sizeof p.s, "%s", real ? real : here.dli_fname);
  free(real);
  return p;
}

/* folders[i] beside what this code is in, and `file` there; "": nowhere. */
static path beside(int i, const char *file) {
  path own = own_file(), p = { "" };
  const char *slash = strrchr(own.s, '/');
  if (!slash) return p;
  int n = snprintf(p.s, sizeof p.s, "%.*s%s%s", (int)(slash - own.s + 1), own.s,
                   folders[i], file);
  if (n < 0 || (size_t)n >= sizeof p.s) p.s[0] = 0;
  return p;
}

/* *there: one that is there cannot be opened, for a library that it needs, say;
 * dlerror has not been asked why. */
static void *open_beside(const char *file, bool *there) {
  void *found = NULL;
  for (int i = 0; i < MRT_COUNT(folders) && !found && !*there; i++) {
    path p = beside(i, file);
    if (p.s[0]) found = dlopen(p.s, RTLD_NOW | RTLD_LOCAL);
    *there = p.s[0] && !found && access(p.s, R_OK) == 0;
  }
  return found;
}

void *mrt_plugin_library(const char *variable, const char *file,
                         const char **why) {
  const char *given = getenv(variable);
  bool named = given && *given, there = false;
  void *library =
      named ? dlopen(given, RTLD_NOW | RTLD_LOCAL) : open_beside(file, &there);
  if (!library && !named && !there)
    library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  const char *text = library ? NULL : dlerror();
  *why = text ? text : "not found";
  return library;
}

/* ---- names --------------------------------------------------------------- */

typedef struct named {
  char kind[MOST_LETTERS + 1];     /* "gpu" */
  char variable[8 + MOST_LETTERS]; /* "MRT_GPU" */
  char file[16 + MOST_LETTERS];    /* "libmrt_gpu.so" */
  int index;
} named;

static bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

/* "kind" and "kind:0" are number 0; false: that is no name of a device. */
static bool read_name(const char *name, named *to) {
  size_t n = 0;
  while (is_letter(name[n])) n++;
  if (n == 0 || n > MOST_LETTERS || (name[0] >= '0' && name[0] <= '9'))
    return false;
  memset(to, 0, sizeof *to);
  memcpy(to->kind, name, n);
  snprintf(to->file, sizeof to->file, PREFIX "%s" SUFFIX, to->kind);
  snprintf(to->variable, sizeof to->variable, "MRT_%s", to->kind);
  for (char *c = to->variable; *c; c++)
    if (*c >= 'a' && *c <= 'z') *c += 'A' - 'a';
  if (!name[n]) return true;
  char *end;
  if (name[n] != ':' || name[n + 1] < '0' || name[n + 1] > '9') return false;
  long index = strtol(name + n + 1, &end, 10);
  to->index = (int)index;
  return !*end && index < MOST_DEVICES;
}

/* The kind that a file is for: "gpu" of "libmrt_gpu.so". */
static bool kind_of(const char *file, char *kind, size_t room) {
  size_t n = strlen(file), ends = strlen(PREFIX) + strlen(SUFFIX);
  named own;
  if (n <= ends || n - ends >= room || strncmp(file, PREFIX, strlen(PREFIX)) ||
      strcmp(file + n - strlen(SUFFIX), SUFFIX) != 0)
    return false;
  snprintf(kind, room, "%.*s", (int)(n - ends), file + strlen(PREFIX));
  return read_name(kind, &own) && !strchr(kind, ':');
}

/* One that cannot be opened, since it needs a library that is not here, has the
 * entry's name in it all the same. */
static bool names_entry(const char *file) {
  char piece[1 << 14];
  size_t kept = 0, n, size = sizeof MRT_PLUGIN_ENTRY; /* with its end */
  bool found = false;
  FILE *f = fopen(file, "rb");
  while (f && !found && (n = fread(piece + kept, 1, sizeof piece - kept, f))) {
    found = memmem(piece, kept + n, MRT_PLUGIN_ENTRY, size) != NULL;
    n += kept, kept = n < size ? n : size;
    memmove(piece, piece + n - kept, kept);
  }
  if (f) fclose(f);
  return found;
}

static bool is_device(const char *file) {
  void *library = dlopen(file, RTLD_LAZY | RTLD_LOCAL);
  return library ? dlsym(library, MRT_PLUGIN_ENTRY) != NULL : names_entry(file);
}

/* Counts `*i` down over the devices of one folder. */
static bool name_in(const path *folder, int *i, char *name, size_t room) {
  bool found = false;
  DIR *dir = folder->s[0] ? opendir(folder->s) : NULL;
  for (struct dirent *entry; dir && !found && (entry = readdir(dir));) {
    path file;
    int n = snprintf(file.s, sizeof file.s, "%s%s", folder->s, entry->d_name);
    if (n > 0 && (size_t)n < sizeof file.s &&
        kind_of(entry->d_name, name, room) && is_device(file.s))
      found = (*i)-- == 0;
  }
  if (dir) closedir(dir);
  return found;
}

bool mrt_plugin_name(int i, char *name, size_t room) {
  for (int k = 0; k < MRT_COUNT(folders); k++) {
    path folder = beside(k, "");
    if (name_in(&folder, &i, name, room)) return true;
  }
  return false;
}

MRT_API bool mrt_device_kind(int i, char *name, size_t room) {
  return mrt_plugin_name(i, name, room);
}

/* ---- opening ------------------------------------------------------------- */

/* Is there such a file, whatever it is? */
static bool is_there(const named *n) {
  const char *given = getenv(n->variable);
  bool there = given && *given && access(given, R_OK) == 0;
  for (int i = 0; i < MRT_COUNT(folders) && !(given && *given) && !there; i++)
    there = access(beside(i, n->file).s, R_OK) == 0;
  return there;
}

static mrt_status open_plugin(const named *n, mrt_plugin_open **entry,
                              mrt_error *e) {
  const char *why;
  void *library = mrt_plugin_library(n->variable, n->file, &why);
  if (!library && is_there(n))
    return mrt_fail(e, MRT_EDEVICE,
                    "no device '%s': %s cannot be opened: %.200s", n->kind,
                    n->file, why);
  if (!library)
    return mrt_fail(e, MRT_EDEVICE,
                    "no device '%s': %s is not beside mrt, in its lib or where "
                    "libraries are, and %s does not name it: %.200s",
                    n->kind, n->file, n->variable, why);
  *(void **)entry = dlsym(library, MRT_PLUGIN_ENTRY);
  if (*entry) return MRT_OK;
  return mrt_fail(e, MRT_EDEVICE,
                  "device %s: the library has no " MRT_PLUGIN_ENTRY
                  ": it is none of a device, or of another version",
                  n->kind);
}

static void complete(mrt_device *d, const named *n, const mrt_device *cpu) {
  snprintf(d->name, sizeof d->name, "%s:%d", n->kind, n->index);
  if (!d->isa) d->isa = "";
  if (!d->libraries) d->libraries = "";
  if (!d->align) d->align = 64;
  if (!d->threads) d->threads = 1;
  if (!d->count) d->count = 1;
  if (!d->clock) d->clock = cpu->clock;
}

mrt_status mrt_plugin_load(const char *name, const mrt_device *cpu,
                           mrt_device *device, mrt_error *e) {
  named n;
  if (!read_name(name, &n))
    return mrt_fail(e, MRT_EVALUE,
                    "no device '%.40s': \"cpu\", \"name\" or \"name:1\" "
                    "wanted, of a library libmrt_name.so",
                    name);
  mrt_plugin_open *entry;
  MRT_TRY(open_plugin(&n, &entry, e));
  mrt_plugin_core core = { .ops = mrt_op_names, .fail = mrt_fail };
  *device = (mrt_device){ 0 };
  MRT_TRY(entry(&core, n.index, device, e));
  complete(device, &n, cpu);
  return MRT_OK;
}
