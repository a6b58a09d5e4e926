/* plugin.c -- devices by name; those of plug-ins are loaded
 *
 * A plug-in is never unloaded: its driver has threads of its own.
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "device/device.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DEVICES = 1024 };

/* "cuda" and "cuda:0" are number 0; -1: neither. */
static int index_of(const char *name) {
  char *end;
  if (strncmp(name, "cuda", 4) != 0) return -1;
  if (!name[4]) return 0;
  if (name[4] != ':' || name[5] < '0' || name[5] > '9') return -1;
  long n = strtol(name + 5, &end, 10);
  return *end || n >= MOST_DEVICES ? -1 : (int)n;
}

/* The file beside what this code is in, and in lib beside that. */
static void *open_beside(const char *file) {
  static const char *const folders[] = { "", "lib/", "../lib/" };
  char path[4096];
  Dl_info here;
  void *found = NULL;
  if (!dladdr(MRT_PLUGIN_ENTRY, &here) || !here.dli_fname) return NULL;
  const char *slash = strrchr(here.dli_fname, '/');
  int length = slash ? (int)(slash - here.dli_fname + 1) : 0;
  for (int i = 0; i < MRT_COUNT(folders) && !found; i++) {
    int n = snprintf(path, sizeof path, "%.*s%s%s", length, here.dli_fname,
                     folders[i], file);
    if (n > 0 && (size_t)n < sizeof path)
      found = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  }
  return found;
}

void *mrt_plugin_library(const char *variable, const char *file,
                         const char **why) {
  const char *given = getenv(variable);
  bool named = given && *given;
  void *library =
      named ? dlopen(given, RTLD_NOW | RTLD_LOCAL) : open_beside(file);
  if (!library && !named) library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  const char *text = library ? NULL : dlerror();
  *why = text ? text : "not found";
  return library;
}

static mrt_status open_plugin(const char *name, mrt_plugin_open **entry,
                              mrt_error *e) {
  const char *why;
  void *library = mrt_plugin_library("MRT_CUDA", "libmrt_cuda.so", &why);
  if (!library)
    return mrt_fail(e, MRT_EDEVICE, "device %s: no CUDA plug-in: %s", name,
                    why);
  *(void **)entry = dlsym(library, MRT_PLUGIN_ENTRY);
  if (*entry) return MRT_OK;
  return mrt_fail(e, MRT_EDEVICE,
                  "device %s: the CUDA plug-in is of another version", name);
}

static const char ops[] =
#define OP(name)   #name " "
#define VIEW(name) #name " "
#include "ops.def"
#undef OP
#undef VIEW
    ;

mrt_status mrt_plugin_load(const char *name, mrt_device *device, mrt_error *e) {
  int index = index_of(name);
  if (index < 0)
    return mrt_fail(e, MRT_EVALUE, "no device '%.40s' (cpu, cuda, cuda:1)",
                    name);
  mrt_plugin_open *entry;
  MRT_TRY(open_plugin(name, &entry, e));
  mrt_plugin_core core = { .ops = ops, .fail = mrt_fail };
  return entry(&core, index, device, e);
}

/* ---- over the two kinds of devices --------------------------------------- */

mrt_status mrt_device_write(const mrt_device *d, void *to, const void *from,
                            size_t nbytes, mrt_error *e) {
  if (d->remote) return d->remote->write(d, to, from, nbytes, e);
  if (nbytes) memcpy(to, from, nbytes);
  return MRT_OK;
}

mrt_status mrt_device_read(const mrt_device *d, void *to, const void *from,
                           size_t nbytes, uint64_t mark, mrt_error *e) {
  if (d->remote) return d->remote->read(d, to, from, nbytes, mark, e);
  if (nbytes) memcpy(to, from, nbytes);
  return MRT_OK;
}

mrt_status mrt_device_copy(const mrt_device *d, void *to, const void *from,
                           size_t nbytes, mrt_error *e) {
  if (d->remote) return d->remote->copy(d, to, from, nbytes, e);
  if (nbytes) memcpy(to, from, nbytes);
  return MRT_OK;
}

mrt_status mrt_device_fill(const mrt_device *d, void *to, int byte,
                           size_t nbytes, mrt_error *e) {
  if (d->remote) return d->remote->fill(d, to, byte, nbytes, e);
  if (nbytes) memset(to, byte, nbytes);
  return MRT_OK;
}
