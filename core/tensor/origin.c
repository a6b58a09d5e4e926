/* origin.c -- where in the user's program things are made
 *
 * SPDX-License-Identifier: MIT */
#include "tensor/origin.h"

#include <string.h>

void mrt_origins_init(mrt_origins *o, const mrt_allocator *allocator) {
  o->now = (mrt_origin){ .file = "?" };
  mrt_arena_init(&o->names, allocator);
}

static const char *intern(mrt_origins *o, const char *text) {
  for (struct mrt_file_name *f = o->files; f; f = f->next)
    if (strcmp(f->text, text) == 0) return f->text;
  struct mrt_file_name *f = MRT_NEW(&o->names, struct mrt_file_name, 1);
  if (!f || !(f->text = mrt_arena_strdup(&o->names, text))) return "?";
  f->next = o->files;
  return (o->files = f)->text;
}

void mrt_origins_close(mrt_origins *o) {
  o->now.layer = o->now.region = 0;
  o->layers = o->regions = 0;
}

void mrt_origins_at(mrt_origins *o, const char *file, int line) {
  if (strcmp(o->now.file, file) != 0) o->now.file = intern(o, file);
  o->now.line = line;
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
