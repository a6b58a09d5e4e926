/* arena_of.c -- what does the arena of a schedule take?
 *
 *   needs   a schedule's acts
 *   gives   the height of its values once they are placed, which a budget must
 *           cover; live bytes alone may be a little less
 *   method  Lifetimes by runs; a value that takes another's place where that
 *           dies shares its item; packed as place.c does (pack.h), a large
 *           schedule by a few first fits
 *
 * SPDX-License-Identifier: MIT */
#include "plan/recompute/recompute.h"
#include "solve/pack/pack.h"

enum { MORE = 2 }; /* effort, where the first packing is above what it may be */

typedef struct packing {
  const mrt_problem *p;
  const mrt_schedule *s;
  mrt_arena *arena;
  mrt_pack_buffer *items;
  int count, room, run;
  int *item; /* by value: its item while it is there, or -1 */
} packing;

static bool add(packing *k, int64_t bytes, int *number) {
  if (!MRT_PUSH_ROOM(k->arena, k->items, k->count, k->room)) return false;
  k->items[k->count] = (mrt_pack_buffer){ .size = (size_t)bytes,
                                          .first = k->run,
                                          .last = INT64_MAX };
  *number = k->count++;
  return true;
}

/* Is `value` dropped by the acts that follow the run at `at`? */
static bool dies(const packing *k, int at, int value) {
  for (int i = at + 1; i < k->s->count; i++) {
    if (k->s->act[i].kind != MRT_ACT_DROP) return false;
    if (k->s->act[i].index == value) return true;
  }
  return false;
}

/* The item whose place a new value may take, or -1. */
static int place_for(const packing *k, int at, int value) {
  const mrt_problem *p = k->p;
  int op = k->s->act[at].index;
  if (!p->take_start) return -1;
  for (int t = p->take_start[op]; t < p->take_start[op + 1]; t++) {
    int in = p->take[t].in, item = k->item[in];
    if (p->take[t].out != value || item < 0 || !dies(k, at, in)) continue;
    if (k->items[item].last == INT64_MAX) return item;
  }
  return -1;
}

static bool run(packing *k, int at) {
  const mrt_problem *p = k->p;
  int op = k->s->act[at].index, scratch;
  for (int m = p->makes.start[op]; m < p->makes.start[op + 1]; m++) {
    int value = p->makes.item[m], number = -1;
    bool there = k->item[value] >= 0;
    if (!there) number = place_for(k, at, value);
    if (number >= 0) { /* taken: its former value ends here, it does not */
      for (int t = p->take_start[op]; t < p->take_start[op + 1]; t++)
        if (k->item[p->take[t].in] == number) k->item[p->take[t].in] = -1;
    } else if (!add(k, p->bytes[value], &number)) {
      return false;
    }
    if (there)
      k->items[number].last = k->run; /* again, beside the one that is there */
    else
      k->item[value] = number;
  }
  if (p->scratch && p->scratch[op] > 0) {
    if (!add(k, p->scratch[op], &scratch)) return false;
    k->items[scratch].last = k->run;
  }
  k->run++;
  return true;
}

mrt_status mrt_recompute_arena_of(mrt_arena *arena, mrt_error *e,
                                  const mrt_problem *p, const mrt_schedule *s,
                                  int64_t enough, int effort, int64_t *height) {
  packing k = {
    .p = p, .s = s, .arena = arena, .item = MRT_NEW(arena, int, p->values)
  };
  mrt_pack_result result = { 0 };
  if (!k.item) return mrt_nomem(e);
  for (int v = 0; v < p->values; v++) k.item[v] = -1;
  for (int i = 0; i < s->count; i++) {
    const mrt_act *act = &s->act[i];
    if (act->kind == MRT_ACT_RUN && !run(&k, i)) return mrt_nomem(e);
    if (act->kind != MRT_ACT_DROP || k.item[act->index] < 0) continue;
    k.items[k.item[act->index]].last = k.run - 1;
    k.item[act->index] = -1;
  }
  for (int i = 0; i < k.count; i++)
    if (k.items[i].last == INT64_MAX) k.items[i].last = k.run - 1;
  if (k.count > MRT_PACK_SMALL) effort = 0;
  MRT_TRY(
      mrt_pack_in(arena, e, k.items, k.count, (size_t)enough, effort, &result));
  bool may = (int64_t)result.bound <= enough;
  if (effort > 0 && may && (int64_t)result.height > enough)
    MRT_TRY(
        mrt_pack_in(arena, e, k.items, k.count, (size_t)enough, MORE, &result));
  *height = (int64_t)result.height;
  return MRT_OK;
}
