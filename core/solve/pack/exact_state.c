/* exact_state.c -- placing a buffer, and what follows from it
 *
 *   method  In each section buffers are placed bottom-up, so one that meets a
 *           placed buffer goes above it: its lowest offset rises.  In a section
 *           all buffers lie on each other: for any height h, those that cannot
 *           begin below h must fit between h and the cap (the bound of one
 *           machine with release times).  The lowest of them is the section's
 *           floor.
 *   cost    O(buffers met, and for each section they live in that may change,
 *           its buffers); all changes are logged and taken back, nothing is
 *           copied
 *   from    MiniMalloc (Moffitt, ASPLOS 2023) for floors inferred across
 *           sections; Jackson's bound for the rest
 *
 * SPDX-License-Identifier: MIT */
#include "solve/pack/exact.h"

#include <string.h>

/* Which buffers live in which section, and which are born there. */
static mrt_status list_sections(mrt_packing *p, mrt_pack_state *s) {
  s->begins_at = MRT_NEW(p->arena, int, p->sections + 1);
  s->holds_at = MRT_NEW(p->arena, int, p->sections + 2);
  if (!s->begins_at || !s->holds_at) return MRT_ENOMEM;
  int *at = s->holds_at + 1; /* shifted: filling moves each to its end */
  for (int i = 0; i < p->n; i++) {
    s->begins_at[p->buffers[i].first + 1]++;
    for (int k = p->buffers[i].first; k <= p->buffers[i].last; k++) at[k + 1]++;
  }
  for (int k = 1; k <= p->sections; k++) {
    at[k] += at[k - 1];
    s->begins_at[k] += s->begins_at[k - 1];
  }
  s->holds = MRT_NEW(p->arena, int, at[p->sections]);
  if (!s->holds) return MRT_ENOMEM;
  for (int i = 0; i < p->n; i++)
    for (int k = p->buffers[i].first; k <= p->buffers[i].last; k++)
      s->holds[at[k]++] = i;
  return MRT_OK;
}

/* Items are numbered by birth, so those met later follow each other. */
static mrt_status list_meetings(mrt_packing *p, mrt_pack_state *s) {
  s->meets_at = MRT_NEW(p->arena, int, p->n + 2);
  if (!s->meets_at) return MRT_ENOMEM;
  int *at = s->meets_at + 1;
  for (int i = 0; i < p->n; i++)
    for (int k = i + 1; k < p->n && p->buffers[k].first <= p->buffers[i].last;
         k++)
      at[i + 1]++, at[k + 1]++;
  for (int i = 1; i <= p->n; i++) at[i] += at[i - 1];
  s->meets = MRT_NEW(p->arena, int, at[p->n]);
  if (!s->meets) return MRT_ENOMEM;
  for (int i = 0; i < p->n; i++)
    for (int k = i + 1; k < p->n && p->buffers[k].first <= p->buffers[i].last;
         k++)
      s->meets[at[i]++] = k, s->meets[at[k]++] = i;
  return MRT_OK;
}

mrt_status mrt_pack_state_new(mrt_packing *p, mrt_pack_state *s) {
  *s = (mrt_pack_state){ .p = p };
  int64_t **of_items[] = { &s->low, &s->support, &s->size };
  int64_t **of_sections[] = { &s->floor,      &s->lowest,   &s->next,
                              &s->total,      &s->crossing, &s->names,
                              &s->touched_in, &s->unplaced };
  for (int k = 0; k < MRT_COUNT(of_items); k++)
    if (!(*of_items[k] = MRT_NEW(p->arena, int64_t, p->n))) return MRT_ENOMEM;
  for (int k = 0; k < MRT_COUNT(of_sections); k++)
    if (!(*of_sections[k] = MRT_NEW(p->arena, int64_t, p->sections)))
      return MRT_ENOMEM;
  s->name = MRT_NEW(p->arena, uint64_t, p->n);
  s->failures = MRT_NEW(p->arena, double, p->sections);
  s->touched = MRT_NEW(p->arena, int, p->sections);
  if (!s->name || !s->failures || !s->touched) return MRT_ENOMEM;
  for (int i = 0; i < p->n; i++) {
    s->size[i] = p->buffers[i].size;
    s->name[i] = mrt_pack_mix(((uint64_t)i + 1) * 0x9e3779b97f4a7c15u);
  }
  MRT_TRY(list_sections(p, s));
  return list_meetings(p, s);
}

static void change(mrt_pack_state *s, int64_t *at, int64_t value) {
  if (*at == value) return;
  if (!MRT_PUSH_ROOM(s->p->arena, s->changes, s->change_count,
                     s->change_room)) {
    s->out_of_memory = true;
    return;
  }
  s->changes[s->change_count++] = (mrt_pack_change){ at, *at };
  *at = value;
}

void mrt_pack_state_undo(mrt_pack_state *s, int count) {
  while (s->change_count > count) {
    const mrt_pack_change *c = &s->changes[--s->change_count];
    *c->at = c->old;
  }
}

/* ---- what follows -------------------------------------------------------- */

static void begin(mrt_pack_state *s) {
  s->turn++;
  s->touched_count = 0;
}

static void touch(mrt_pack_state *s, int section) {
  if (s->touched_in[section] == s->turn) return;
  s->touched_in[section] = s->turn;
  s->touched[s->touched_count++] = section;
}

/* The buffer begins at `level` or above; false if it no longer fits.  A section
 * changes only if the buffer was among its lowest two, or if all that is left
 * of it might not fit above. */
static bool raise(mrt_pack_state *s, int buffer, int64_t level) {
  const mrt_packed_buffer *i = &s->p->buffers[buffer];
  int64_t old = s->low[buffer];
  if (old >= level) return true;
  level = mrt_pack_align(i, level);
  if (level + i->size > s->cap) {
    s->failures[i->first] += 0.5, s->failures[i->last] += 0.5;
    return false;
  }
  change(s, &s->low[buffer], level);
  for (int k = i->first; k <= i->last; k++)
    if (old <= s->next[k] || level + s->total[k] > s->cap) touch(s, k);
  s->work -= i->last - i->first + 1;
  return true;
}

/* The buffers of a section in descending order of `low`; they nearly are. */
static void sort(mrt_pack_state *s, int *buffers, int n) {
  int64_t before = MRT_PACK_PLACED;
  int moved = 0;
  for (int k = 0; k < n; k++) {
    int buffer = buffers[k], j = k;
    int64_t at = s->low[buffer];
    if (at > before) {
      for (; j > 0 && s->low[buffers[j - 1]] < at; j--)
        buffers[j] = buffers[j - 1];
      buffers[j] = buffer;
      moved += k - j;
    } else {
      before = at;
    }
  }
  s->work -= n + moved;
}

/* For any height, do the buffers that cannot begin below it fit above it? */
static bool fits(mrt_pack_state *s, int section) {
  int k = s->holds_at[section + 1] - (int)s->unplaced[section];
  if (k > s->holds_at[section]) k--; /* the one placed last */
  int *buffers = s->holds + k, n = s->holds_at[section + 1] - k;
  int64_t least = MRT_PACK_PLACED, next = MRT_PACK_PLACED, lowest = 0, sum = 0;
  sort(s, buffers, n);
  for (k = 0; k < n && s->low[buffers[k]] == MRT_PACK_PLACED;) k++;
  for (; k < n; k++) {
    int64_t at = s->low[buffers[k]];
    sum += s->size[buffers[k]];
    if (at + sum > s->cap) return false;
    if (at == least)
      lowest++;
    else
      next = least, least = at, lowest = 1;
  }
  change(s, &s->floor[section], least);
  change(s, &s->lowest[section], lowest);
  change(s, &s->next[section], next);
  return true;
}

static bool settle(mrt_pack_state *s) {
  for (int k = 0; k < s->touched_count; k++) {
    if (fits(s, s->touched[k])) continue;
    s->failures[s->touched[k]]++;
    return false;
  }
  return !s->out_of_memory;
}

/* An unplaced buffer and what it would lie on. */
static int64_t name_of(const mrt_pack_state *s, int buffer, int64_t support) {
  return (int64_t)mrt_pack_mix(s->name[buffer] + (uint64_t)support);
}

static void support(mrt_pack_state *s, int buffer, int64_t top) {
  const mrt_packed_buffer *i = &s->p->buffers[buffer];
  top = mrt_pack_align(i, top);
  change(s, &s->names[i->first],
         s->names[i->first] ^ name_of(s, buffer, s->support[buffer]) ^
             name_of(s, buffer, top));
  change(s, &s->support[buffer], top);
}

/* ---- steps --------------------------------------------------------------- */

bool mrt_pack_state_reset(mrt_pack_state *s, int64_t cap) {
  const mrt_packing *p = s->p;
  size_t bytes = (size_t)p->sections * sizeof(int64_t);
  s->cap = cap;
  s->change_count = 0;
  memset(s->low, 0, (size_t)p->n * sizeof *s->low);
  memset(s->support, 0, (size_t)p->n * sizeof *s->support);
  memset(s->crossing, 0, bytes);
  memset(s->names, 0, bytes);
  memcpy(s->total, p->live, bytes);
  for (int i = 0; i < p->n; i++) {
    s->names[p->buffers[i].first] ^= name_of(s, i, 0);
    for (int k = p->buffers[i].first; k < p->buffers[i].last; k++)
      s->crossing[k]++;
  }
  begin(s);
  for (int k = 0; k < p->sections; k++) {
    s->unplaced[k] = s->holds_at[k + 1] - s->holds_at[k];
    touch(s, k);
  }
  return settle(s);
}

bool mrt_pack_state_place(mrt_pack_state *s, int buffer) {
  mrt_packed_buffer *i = &s->p->buffers[buffer];
  int64_t top = s->low[buffer] + i->size;
  i->offset = s->low[buffer];
  s->hat = false;
  begin(s);
  change(s, &s->low[buffer], MRT_PACK_PLACED);
  for (int k = i->first; k <= i->last; k++) {
    change(s, &s->total[k], s->total[k] - i->size);
    change(s, &s->unplaced[k], s->unplaced[k] - 1);
    if (k < i->last) change(s, &s->crossing[k], s->crossing[k] - 1);
    touch(s, k);
  }
  change(s, &s->names[i->first],
         s->names[i->first] ^ name_of(s, buffer, s->support[buffer]));
  s->work -= s->meets_at[buffer + 1] - s->meets_at[buffer];
  for (int k = s->meets_at[buffer]; k < s->meets_at[buffer + 1]; k++) {
    int j = s->meets[k];
    if (s->low[j] == MRT_PACK_PLACED) continue;
    s->hat = true;
    if (s->support[j] < top) support(s, j, top);
    if (!raise(s, j, top)) return false;
  }
  return settle(s);
}

bool mrt_pack_state_lift(mrt_pack_state *s, int section, int64_t level) {
  begin(s);
  for (int k = s->holds_at[section]; k < s->holds_at[section + 1]; k++) {
    int j = s->holds[k];
    if (s->low[j] != MRT_PACK_PLACED && !raise(s, j, level)) return false;
  }
  return settle(s);
}
