/* origin.c -- where in the user's program things are made
 *
 * SPDX-License-Identifier: MIT */
#include "tensor/origin.h"

#include <string.h>

void mrt_origins_init(mrt_origins *o, const mrt_allocator *allocator) {
  o->now = (mrt_origin){ .file = "?" };
  mrt_arena_init(&o->names, allocator);
}

static unsigned hash(const char *text) {
  unsigned h = 2166136261u; /* FNV-1a */
  for (; *text; text++) h = (h ^ (unsigned char)*text) * 16777619u;
  return (h ^ (h >> 16)) % MRT_NAME_LISTS;
}

/* The name as it is kept; NULL: there is no memory for it. */
static const char *intern(mrt_origins *o, const char *text) {
  struct mrt_name **list = &o->by_hash[hash(text)];
  for (struct mrt_name *n = *list; n; n = n->next)
    if (strcmp(n->text, text) == 0) return n->text;
  struct mrt_name *n = MRT_NEW(&o->names, struct mrt_name, 1);
  if (!n || !(n->text = mrt_arena_strdup(&o->names, text))) return NULL;
  n->next = *list;
  return (*list = n)->text;
}

void mrt_origins_close(mrt_origins *o) {
  o->now.layer = o->now.region = 0;
  o->layers = o->regions = 0;
}

void mrt_origins_at(mrt_origins *o, const char *file, int line,
                    const char *module) {
  mrt_origin *now = &o->now;
  if (strcmp(now->file, file) != 0) now->file = intern(o, file);
  if (!now->file) now->file = "?";
  if (!module)
    now->module = NULL;
  else if (!now->module || strcmp(now->module, module) != 0)
    now->module = intern(o, module);
  now->line = line;
}

/* ---- regions ------------------------------------------------------------- */

enum { MOST_REGIONS = 1 << 16 }; /* then their numbers begin anew */

int mrt_region_open(mrt_origins *o) {
  int outer = o->now.region, region = o->regions % MOST_REGIONS + 1;
  if (!MRT_PUSH_ROOM(&o->names, o->outer_region, region - 1, o->region_room))
    return outer;
  o->outer_region[region - 1] = outer;
  o->regions = o->now.region = region;
  return outer;
}

/* Numbers begin anew after many, so an older one may look like one inside. */
int mrt_region_around(const mrt_origins *o, int region) {
  int outer = o->outer_region[region - 1];
  return outer < region ? outer : 0;
}

bool mrt_region_inside(const mrt_origins *o, int inner, int outer) {
  while (inner > outer) inner = mrt_region_around(o, inner);
  return inner == outer;
}
