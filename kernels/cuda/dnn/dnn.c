/* dnn.c -- cuDNN: opened by its name, asked once for each shape
 *
 * MRT_CUDNN in the environment names the library, or says "off".
 * MRT_CUDNN_LIBRARY is its usual name; without, there were no headers to build
 * against, and it is never used.
 *
 * SPDX-License-Identifier: MIT */
#include "dnn/dnn.h"

bool mrt_dnn_takes(void *const *data, int count) {
  uintptr_t all = 0;
  for (int i = 0; i < count; i++) all |= (uintptr_t)data[i];
  return all % MRT_DNN_ALIGN == 0;
}

#ifdef MRT_CUDNN_LIBRARY
#include "dnn/graph.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 64, OLDEST = 90000, TOO_NEW = 100000 };
/* Shapes of attention: the library compiles kernels for each, which takes half
 * a second.  Where lengths are of all kinds, kernels of ours do the rest. */
enum { MOST_COMPILED = 128 };

typedef struct mrt_dnns {
  mrt_dnn_library lib;
  int compiled;
  mrt_dnn *known[BUCKETS];
} mrt_dnns;

/* ---- the library --------------------------------------------------------- */

static bool find(const mrt_dnn_library *l, void *slot, const char *name) {
  void *symbol = dlsym(l->library, name);
  memcpy(slot, &symbol, sizeof symbol);
  return symbol != NULL;
}

static bool find_all(mrt_dnn_library *l) {
  return find(l, &l->version, "cudnnGetVersion") &&
         find(l, &l->error, "cudnnGetErrorString") &&
         find(l, &l->create, "cudnnCreate") &&
         find(l, &l->destroy, "cudnnDestroy") &&
         find(l, &l->stream, "cudnnSetStream") &&
         find(l, &l->make, "cudnnBackendCreateDescriptor") &&
         find(l, &l->unmake, "cudnnBackendDestroyDescriptor") &&
         find(l, &l->finalize, "cudnnBackendFinalize") &&
         find(l, &l->set, "cudnnBackendSetAttribute") &&
         find(l, &l->get, "cudnnBackendGetAttribute") &&
         find(l, &l->execute, "cudnnBackendExecute");
}

/* Once open it stays: it has state of its own on the device. */
static bool open_library(mrt_dnn_library *l, cudaStream_t queue) {
  const char *name = getenv("MRT_CUDNN");
  if (!name || !*name) name = MRT_CUDNN_LIBRARY;
  if (!*name || strcmp(name, "off") == 0) return false;
  l->library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (!l->library || !find_all(l)) return false;
  l->number = l->version();
  return l->number >= OLDEST && l->number < TOO_NEW && !l->create(&l->handle) &&
         !l->stream(l->handle, queue);
}

void mrt_dnn_open(mrt_cuda *c) {
  mrt_dnns *all = calloc(1, sizeof *all);
  c->dnn = all;
  if (!all || open_library(&all->lib, c->queue)) return;
  cudaGetLastError(); /* not to have it is no failure */
  mrt_dnn_close(c);
}

static void forget(const mrt_dnn_library *l, mrt_dnn *p) {
  while (p->count > 0) l->unmake(p->made[--p->count]);
  free(p);
}

void mrt_dnn_close(mrt_cuda *c) {
  mrt_dnns *all = c->dnn;
  if (!all) return;
  for (int i = 0; i < BUCKETS; i++)
    while (all->known[i]) {
      mrt_dnn *p = all->known[i];
      all->known[i] = p->next;
      forget(&all->lib, p);
    }
  if (all->lib.handle) all->lib.destroy(all->lib.handle);
  free(all);
  c->dnn = NULL;
}

size_t mrt_dnn_version(const mrt_cuda *c) {
  return c->dnn ? c->dnn->lib.number : 0;
}

/* ---- what is known ------------------------------------------------------- */

static unsigned bucket_of(const mrt_dnn_shape *s) {
  const unsigned char *byte = (const unsigned char *)s;
  uint32_t hash = 2166136261u; /* FNV-1a */
  for (size_t i = 0; i < sizeof *s; i++) hash = (hash ^ byte[i]) * 16777619u;
  return hash % BUCKETS;
}

const mrt_dnn *mrt_dnn_find(mrt_cuda *c, const mrt_dnn_shape *shape) {
  if (!c->dnn) return NULL;
  mrt_dnn **list = &c->dnn->known[bucket_of(shape)], *p = *list;
  while (p && memcmp(&p->shape, shape, sizeof *shape) != 0) p = p->next;
  if (p) return p->works ? p : NULL;
  bool compiles = shape->kind >= MRT_DNN_ATTEND;
  if (compiles && c->dnn->compiled == MOST_COMPILED) return NULL;
  p = calloc(1, sizeof *p);
  if (!p) return NULL;
  c->dnn->compiled += compiles;
  p->shape = *shape, p->next = *list, *list = p;
  p->scale = (float)shape->scale, p->lowest = -INFINITY, p->one = 1;
  p->works = mrt_dnn_build(&c->dnn->lib, p) == CUDNN_STATUS_SUCCESS;
  if (!p->works) cudaGetLastError(); /* to refuse is no failure */
  return p->works ? p : NULL;
}

size_t mrt_dnn_workspace(const mrt_dnn *p) { return (size_t)p->workspace; }

/* ---- runs ---------------------------------------------------------------- */

static cudnnStatus_t execute(const mrt_dnn_library *l, const mrt_dnn *p,
                             void *const *data, void *workspace,
                             cudnnBackendDescriptor_t pack) {
  void *at[MRT_DNN_IDS] = { 0 };
  int64_t ids[MRT_DNN_IDS], n = 0;
  for (; n < p->shape.count; n++) at[n] = data[n], ids[n] = n + 1;
  if (p->shape.kind >= MRT_DNN_ATTEND)
    at[n] = (void *)&p->scale, ids[n++] = MRT_DNN_SCALE;
  if (p->shape.kind == MRT_DNN_ATTEND_GRAD)
    at[n] = (void *)&p->one, ids[n++] = MRT_DNN_ONE;
  if (p->shape.causal) at[n] = (void *)&p->lowest, ids[n++] = MRT_DNN_LOWEST;
  cudnnStatus_t s = l->set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS,
                           CUDNN_TYPE_INT64, n, ids);
  if (!s)
    s = l->set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
               n, at);
  if (!s)
    s = l->set(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1,
               &workspace);
  if (!s) s = l->finalize(pack);
  return s ? s : l->execute(l->handle, p->plan, pack);
}

void mrt_dnn_run(mrt_cuda *c, const mrt_dnn *p, void *const *data,
                 void *workspace) {
  const mrt_dnn_library *l = &c->dnn->lib;
  cudnnBackendDescriptor_t pack = NULL;
  cudnnStatus_t s = l->make(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack);
  if (!s) s = execute(l, p, data, workspace, pack);
  if (pack) l->unmake(pack);
  if (!s || c->failed) return;
  c->failed = cudaErrorLaunchFailure;
  snprintf(c->why, sizeof c->why, "cuDNN %zu.%zu.%zu: %s", l->number / 10000,
           l->number / 100 % 100, l->number % 100, l->error(s));
}

#else
void mrt_dnn_open(mrt_cuda *c) { c->dnn = NULL; }
void mrt_dnn_close(mrt_cuda *c) { (void)c; }
size_t mrt_dnn_version(const mrt_cuda *c) {
  (void)c;
  return 0;
}
const mrt_dnn *mrt_dnn_find(mrt_cuda *c, const mrt_dnn_shape *shape) {
  (void)c, (void)shape;
  return NULL;
}
size_t mrt_dnn_workspace(const mrt_dnn *p) {
  (void)p;
  return 0;
}
void mrt_dnn_run(mrt_cuda *c, const mrt_dnn *p, void *const *data,
                 void *workspace) {
  (void)c, (void)p, (void)data, (void)workspace;
}
#endif
