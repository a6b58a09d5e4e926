/* lapack.c -- LAPACK, opened by its name
 *
 * OpenBLAS built without threads has no locks either: two threads must not be
 * in it, so they take turns.  It says so itself (openblas_get_parallel).
 *
 * SPDX-License-Identifier: MIT */
#include "base/lapack.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void any_fn(void);

static struct {
  pthread_once_t once;
  pthread_mutex_t turn;
  bool turns;
  char file[256], why[256];
  any_fn *at[2][MRT_LAPACK_COUNT];
} lapack = { .once = PTHREAD_ONCE_INIT, .turn = PTHREAD_MUTEX_INITIALIZER };

static bool find(void *library, const char *name, void *slot) {
  void *symbol = dlsym(library, name);
  memcpy(slot, &symbol, sizeof symbol);
  return symbol != NULL;
}

static bool find_all(void *library) {
  static const char *const names[] = {
#define F(name) #name,
    MRT_LAPACK_NAMES(F)
#undef F
  };
  for (int real = 0; real < 2; real++)
    for (int i = 0; i < MRT_LAPACK_COUNT; i++) {
      char name[32];
      snprintf(name, sizeof name, "%c%s_", "sd"[real], names[i]);
      if (find(library, name, &lapack.at[real][i])) continue;
      snprintf(lapack.why, sizeof lapack.why, "it has no %s", name);
      return false;
    }
  return true;
}

static void one_thread(void *library) {
  void (*set_threads)(int);
  int (*parallel)(void);
  if (find(library, "openblas_set_num_threads", &set_threads)) set_threads(1);
  lapack.turns =
      find(library, "openblas_get_parallel", &parallel) && !parallel();
}

static void open_once(void) {
  const char *name = getenv("MRT_LAPACK");
  if (!name || !*name) name = "liblapack.so.3";
  if (strcmp(name, "off") == 0) {
    snprintf(lapack.why, sizeof lapack.why, "MRT_LAPACK=off");
    return;
  }
  void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char *why = dlerror();
    snprintf(lapack.why, sizeof lapack.why, "%s", why ? why : name);
  } else if (find_all(library)) {
    one_thread(library);
    snprintf(lapack.file, sizeof lapack.file, "%s", name);
  } else {
    dlclose(library);
  }
}

mrt_status mrt_lapack_open(const char *who, mrt_error *e) {
  pthread_once(&lapack.once, open_once);
  if (lapack.file[0]) return MRT_OK;
  return mrt_fail(
      e, MRT_EDEVICE,
      "%s: LAPACK wanted (%s): apt-get install libopenblas0-pthread "
      "or liblapack3, or name the library by MRT_LAPACK",
      who, lapack.why);
}

any_fn *mrt_lapack_find(mrt_lapack_name name, bool double_) {
  return lapack.at[double_][name];
}

void mrt_lapack_enter(void) {
  if (lapack.turns) pthread_mutex_lock(&lapack.turn);
}

void mrt_lapack_leave(void) {
  if (lapack.turns) pthread_mutex_unlock(&lapack.turn);
}

MRT_API const char *mrt_lapack_file(void) {
  return lapack.file[0] ? lapack.file : NULL;
}
