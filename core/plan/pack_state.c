/* pack_state.c -- placing an item, and what follows from it
 *
 *   method  Items are placed bottom-up, so one that meets a placed item goes
 *           above it: its lowest offset rises.  In a section all items lie on
 *           each other: for any height h, those that cannot begin below h must
 *           fit between h and the cap (the bound of one machine with release
 *           times).  The lowest of them is the section's floor.
 *   cost    O(items met, and for each section they live in, its items); all
 *           changes are logged and taken back, nothing is copied
 *   from    MiniMalloc (Moffitt, ASPLOS 2023) for floors inferred across
 *           sections; Jackson's bound for the rest
 *
 * SPDX-License-Identifier: MIT */
#include "plan/pack_search.h"

#include <string.h>

/* Which items live in which section. */
static mrt_status list_sections(mrt_packing *p, mrt_pack_state *s) {
  s->holds_at = MRT_NEW(p->arena, int, p->sections + 2);
  if (!s->holds_at) return MRT_ENOMEM;
  int *at = s->holds_at + 1; /* shifted: filling moves each to its end */
  for (int i = 0; i < p->n; i++)
    for (int k = p->items[i].first; k <= p->items[i].last; k++) at[k + 1]++;
  for (int k = 1; k <= p->sections; k++) at[k] += at[k - 1];
  s->holds = MRT_NEW(p->arena, int, at[p->sections]);
  if (!s->holds) return MRT_ENOMEM;
  for (int i = 0; i < p->n; i++)
    for (int k = p->items[i].first; k <= p->items[i].last; k++)
      s->holds[at[k]++] = i;
  return MRT_OK;
}

/* Items are numbered by birth, so those met later follow each other. */
static mrt_status list_meetings(mrt_packing *p, mrt_pack_state *s) {
  s->meets_at = MRT_NEW(p->arena, int, p->n + 2);
  if (!s->meets_at) return MRT_ENOMEM;
  int *at = s->meets_at + 1;
  for (int i = 0; i < p->n; i++)
    for (int k = i + 1; k < p->n && p->items[k].first <= p->items[i].last; k++)
      at[i + 1]++, at[k + 1]++;
  for (int i = 1; i <= p->n; i++) at[i] += at[i - 1];
  s->meets = MRT_NEW(p->arena, int, at[p->n]);
  if (!s->meets) return MRT_ENOMEM;
  for (int i = 0; i < p->n; i++)
    for (int k = i + 1; k < p->n && p->items[k].first <= p->items[i].last; k++)
      s->meets[at[i]++] = k, s->meets[at[k]++] = i;
  return MRT_OK;
}

static void find_twins(mrt_packing *p, mrt_pack_state *s) {
  for (int i = 0; i < p->n; i++) {
    const mrt_packed *a = &p->items[i], *b = a - 1;
    s->twin[i] = i && a->size == b->size && a->align == b->align &&
                         a->first == b->first && a->last == b->last
                     ? i - 1
                     : -1;
  }
}

mrt_status mrt_state_new(mrt_packing *p, mrt_pack_state *s) {
  *s = (mrt_pack_state){ .p = p };
  s->low = MRT_NEW(p->arena, int64_t, p->n);
  s->floor = MRT_NEW(p->arena, int64_t, p->sections);
  s->total = MRT_NEW(p->arena, int64_t, p->sections);
  s->crossing = MRT_NEW(p->arena, int, p->sections);
  s->twin = MRT_NEW(p->arena, int, p->n);
  s->moves = MRT_NEW(p->arena, mrt_search_move, p->n);
  s->touched = MRT_NEW(p->arena, int, p->sections);
  s->touched_in = MRT_NEW(p->arena, int, p->sections);
  if (!s->low || !s->floor || !s->total || !s->crossing || !s->twin ||
      !s->moves || !s->touched || !s->touched_in)
    return MRT_ENOMEM;
  MRT_TRY(list_sections(p, s));
  MRT_TRY(list_meetings(p, s));
  find_twins(p, s);
  return MRT_OK;
}

void mrt_state_reset(mrt_pack_state *s, int64_t cap) {
  const mrt_packing *p = s->p;
  s->cap = cap;
  s->move_count = s->change_count = 0;
  memset(s->low, 0, (size_t)p->n * sizeof *s->low);
  memset(s->floor, 0, (size_t)p->sections * sizeof *s->floor);
  memcpy(s->total, p->live, (size_t)p->sections * sizeof *s->total);
  memset(s->crossing, 0, (size_t)p->sections * sizeof *s->crossing);
  for (int i = 0; i < p->n; i++)
    for (int k = p->items[i].first; k < p->items[i].last; k++) s->crossing[k]++;
}

static void change(mrt_pack_state *s, int64_t *at, int64_t value) {
  if (!MRT_PUSH_ROOM(s->p->arena, s->changes, s->change_count,
                     s->change_room)) {
    s->out_of_memory = true;
    return;
  }
  s->changes[s->change_count++] = (mrt_search_change){ at, *at };
  *at = value;
}

static void touch(mrt_pack_state *s, const mrt_packed *i) {
  for (int k = i->first; k <= i->last; k++) {
    if (s->touched_in[k] == s->turn) continue;
    s->touched_in[k] = s->turn;
    s->touched[s->touched_count++] = k;
  }
  s->work -= i->last - i->first;
}

/* Raise all that the item meets to `top`; false if one no longer fits. */
static bool raise_neighbours(mrt_pack_state *s, int item, int64_t top,
                             bool *hat) {
  const mrt_packed *items = s->p->items;
  *hat = false;
  for (int k = s->meets_at[item]; k < s->meets_at[item + 1]; k++) {
    int j = s->meets[k];
    if (s->low[j] == MRT_PLACED) continue;
    *hat = true;
    if (s->low[j] >= top) continue;
    int64_t low = mrt_pack_align(&items[j], top);
    if (low + items[j].size > s->cap) return false;
    change(s, &s->low[j], low);
    touch(s, &items[j]);
  }
  return true;
}

/* For any height h, do those that cannot begin below h fit above it? */
static bool fits_from_above(mrt_pack_state *s, int section) {
  enum { MOST = 64 }; /* fewer items than there are: a weaker bound */
  int64_t low[MOST], size[MOST], sum = 0;
  int n = 0;
  for (int k = s->holds_at[section]; k < s->holds_at[section + 1]; k++) {
    int64_t at = s->low[s->holds[k]];
    if (at == MRT_PLACED || n == MOST) continue;
    int j = n++;
    for (; j > 0 && low[j - 1] < at; j--)
      low[j] = low[j - 1], size[j] = size[j - 1];
    low[j] = at, size[j] = s->p->items[s->holds[k]].size;
  }
  s->work -= 4 * n;
  for (int k = 0; k < n; k++) {
    sum += size[k];
    if (low[k] + sum > s->cap) return false;
  }
  return true;
}

/* Is there room under the cap for what is unplaced in this section? */
static bool fits(mrt_pack_state *s, int section) {
  int64_t least = MRT_PLACED, most = 0;
  for (int k = s->holds_at[section]; k < s->holds_at[section + 1]; k++) {
    int64_t at = s->low[s->holds[k]];
    least = at < least ? at : least;
    most = at > most && at != MRT_PLACED ? at : most;
  }
  s->work -= s->holds_at[section + 1] - s->holds_at[section];
  if (least == MRT_PLACED) return true;
  if (least > s->floor[section]) change(s, &s->floor[section], least);
  if (s->floor[section] + s->total[section] > s->cap) return false;
  return most + s->total[section] <= s->cap || fits_from_above(s, section);
}

bool mrt_state_place(mrt_pack_state *s, int item, bool *hat) {
  mrt_packed *i = &s->p->items[item];
  int64_t top = s->low[item] + i->size;
  s->moves[s->move_count++] = (mrt_search_move){ item, s->change_count };
  i->offset = s->low[item];
  s->low[item] = MRT_PLACED;
  for (int k = i->first; k <= i->last; k++) s->total[k] -= i->size;
  for (int k = i->first; k < i->last; k++) s->crossing[k]--;
  s->work -= i->last - i->first + s->meets_at[item + 1] - s->meets_at[item];
  s->turn++;
  s->touched_count = 0;
  if (!raise_neighbours(s, item, top, hat)) return false;
  for (int k = 0; k < s->touched_count; k++)
    if (!fits(s, s->touched[k])) return false;
  return !s->out_of_memory;
}

void mrt_state_undo(mrt_pack_state *s, int count) {
  while (s->move_count > count) {
    const mrt_search_move *m = &s->moves[--s->move_count];
    const mrt_packed *i = &s->p->items[m->item];
    while (s->change_count > m->changes) {
      const mrt_search_change *c = &s->changes[--s->change_count];
      *c->at = c->old;
    }
    s->low[m->item] = i->offset;
    for (int k = i->first; k <= i->last; k++) s->total[k] += i->size;
    for (int k = i->first; k < i->last; k++) s->crossing[k]++;
  }
}
