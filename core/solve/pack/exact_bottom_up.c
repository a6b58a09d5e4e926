/* exact_bottom_up.c -- an exact search in ascending order of offset
 *
 *   method  Place bottom-up, each buffer at its lowest offset, in the order
 *           (offset, rank); so every packing that matters is met once.  Never
 *           place at or above the top that some unplaced buffer could have at
 *           its lowest offset: it would fit below.  Of equal buffers the lower
 *           number goes first.  When no unplaced buffer crosses from one
 *           section to the next, both sides are searched apart.  Ranks come
 *           from several orders.  It does better than exact_skyline.c where
 *           there is much room, and where most buffers live long.
 *   cost    O(buffers and sections of the part) a step besides that of the
 *           state
 *   from    MiniMalloc (Moffitt, ASPLOS 2023)
 *
 * SPDX-License-Identifier: MIT */
#include "solve/pack/exact.h"

#include <string.h>

/* Items to place within sections [from, to], by rank. */
typedef struct pack_part {
  const int *buffers;
  int count, from, to;
} pack_part;

static mrt_pack_found search(mrt_pack_exact_search *s, pack_part at,
                             int64_t least, int rank);

/* ---- parts --------------------------------------------------------------- */

/* A factor from 0.75 to 1.25, the same for a buffer throughout one search. */
static double noise(const mrt_pack_exact_search *s, int buffer) {
  uint64_t x = (uint64_t)buffer * 0x9e3779b97f4a7c15u + (uint64_t)s->rises;
  x = (x ^ x >> 31) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 29) * 0x94d049bb133111ebu;
  return 0.75 + (double)(x >> 44) / (1 << 21);
}

static double key_of(const mrt_pack_exact_search *s, char letter, int buffer) {
  const mrt_packed_buffer *i = &s->state.p->buffers[buffer];
  int64_t most = 0;
  switch (letter) {
  case 'S':
    return (double)i->size;
  case 'W':
    return i->duration;
  case 'N':
    return i->duration * noise(s, buffer);
  case 'A':
    return (double)i->size * i->duration;
  case 'C':
    return s->state.meets_at[buffer + 1] - s->state.meets_at[buffer];
  default:
    for (int k = i->first; k <= i->last; k++)
      if (s->state.total[k] > most) most = s->state.total[k];
    return (double)most;
  }
}

static bool before(const mrt_pack_order *a, const mrt_pack_order *b) {
  for (int k = 0; k < 3; k++)
    if (a->key[k] != b->key[k]) return a->key[k] > b->key[k];
  return a->buffer < b->buffer;
}

/* By insertion: the buffers come nearly ranked from the part around. */
static void rank_items(mrt_pack_exact_search *s, int *buffers, int count) {
  mrt_pack_order *o = s->order;
  for (int k = 0; k < count; k++) {
    mrt_pack_order next = { .buffer = buffers[k] };
    for (int j = 0; j < 3; j++)
      next.key[j] = key_of(s, s->letters[j], buffers[k]);
    int at = k;
    for (; at > 0 && before(&next, &o[at - 1]); at--) o[at] = o[at - 1];
    o[at] = next;
  }
  for (int k = 0; k < count; k++) buffers[k] = o[k].buffer;
  s->state.work -= 8 * count;
}

/* The unplaced buffers of `around` in sections [from, to], ranked. */
static bool make_part(mrt_pack_exact_search *s, const pack_part *around,
                      int from, int to, pack_part *made) {
  const mrt_pack_state *t = &s->state;
  int *buffers = s->pool + s->pool_used, count = 0;
  if (s->pool_used + around->count > s->pool_room) return false;
  for (int k = 0; k < around->count; k++) {
    int i = around->buffers[k];
    if (t->low[i] == MRT_PACK_PLACED || t->p->buffers[i].first < from ||
        t->p->buffers[i].first > to)
      continue;
    buffers[count++] = i;
  }
  rank_items(s, buffers, count);
  *made = (pack_part){ buffers, count, from, to };
  return true;
}

/* Search the pieces that nothing unplaced connects, one after the other. */
static mrt_pack_found search_pieces(mrt_pack_exact_search *s,
                                    const pack_part *around, int64_t least) {
  int from = around->from;
  for (int k = around->from; k <= around->to; k++) {
    if (k < around->to && s->state.crossing[k]) continue;
    pack_part piece;
    int used = s->pool_used;
    if (!make_part(s, around, from, k, &piece)) return MRT_PACK_STOPPED;
    s->pool_used += piece.count;
    mrt_pack_found o =
        piece.count ? search(s, piece, least, 0) : MRT_PACK_FOUND;
    s->pool_used = used;
    if (o != MRT_PACK_FOUND) return o;
    from = k + 1;
  }
  return MRT_PACK_FOUND;
}

/* Did placing `buffer` cut the part in two? */
static bool splits(const mrt_pack_exact_search *s, const pack_part *at,
                   int buffer) {
  const mrt_packed_buffer *i = &s->state.p->buffers[buffer];
  for (int k = i->first; k < i->last; k++)
    if (!s->state.crossing[k] && k >= at->from && k < at->to) return true;
  return false;
}

/* ---- the search ---------------------------------------------------------- */

/* The highest offset that may be used next, or -1 when all are placed. */
static int64_t highest(const mrt_pack_exact_search *s, const pack_part *at) {
  const mrt_pack_state *t = &s->state;
  int64_t top = MRT_PACK_PLACED, total = 0;
  for (int k = 0; k < at->count; k++) {
    int i = at->buffers[k];
    if (t->low[i] == MRT_PACK_PLACED) continue;
    if (t->low[i] + t->p->buffers[i].size < top)
      top = t->low[i] + t->p->buffers[i].size;
  }
  if (top == MRT_PACK_PLACED) return -1;
  for (int k = at->from; k <= at->to; k++)
    if (t->total[k] > total) total = t->total[k];
  return top - 1 < t->cap - total ? top - 1 : t->cap - total;
}

/* The rank of the next buffer in (offset, rank) from (least, rank) on. */
static int next_item(const mrt_pack_exact_search *s, const pack_part *at,
                     int64_t least, int rank, int64_t most) {
  const int64_t *low = s->state.low;
  int64_t best = most + 1;
  int found = -1;
  for (int k = 0; k < at->count; k++) {
    int64_t offset = low[at->buffers[k]];
    if (offset < least || offset >= best || (offset == least && k < rank))
      continue;
    best = offset, found = k;
  }
  return found;
}

/* Can sections wait that nothing from (offset, rank) on covers at `offset`?
 * What they hold will begin at the next offset that anything can have. */
static bool can_go_on(mrt_pack_exact_search *s, const pack_part *at,
                      int64_t offset, int rank) {
  const mrt_pack_state *t = &s->state;
  int64_t next = MRT_PACK_PLACED;
  int *covers = s->covers, over = 0;
  memset(covers + at->from, 0, (size_t)(at->to - at->from + 2) * sizeof(int));
  for (int k = 0; k < at->count; k++) {
    const mrt_packed_buffer *i = &t->p->buffers[at->buffers[k]];
    int64_t low = t->low[at->buffers[k]];
    if (low == offset && k >= rank) {
      covers[i->first]++, covers[i->last + 1]--;
      low += i->size;
    }
    if (low > offset && low < next) next = low;
  }
  for (int k = at->from; k <= at->to; k++) {
    over += covers[k];
    if (!over && t->total[k] && next + t->total[k] > t->cap) return false;
  }
  return true;
}

/* An equal buffer of lower number goes first. */
static bool is_second(const mrt_pack_state *t, int buffer) {
  return buffer &&
         mrt_pack_equal(&t->p->buffers[buffer], &t->p->buffers[buffer - 1]) &&
         t->low[buffer - 1] != MRT_PACK_PLACED;
}

static mrt_pack_found search(mrt_pack_exact_search *s, pack_part at,
                             int64_t least, int rank) {
  mrt_pack_state *t = &s->state;
  if (t->work < 0 || t->out_of_memory) return MRT_PACK_STOPPED;
  t->p->nodes++;
  int64_t most = highest(s, &at);
  if (most == -1) return MRT_PACK_FOUND;
  int mark = t->change_count;
  for (;;) {
    int k = next_item(s, &at, least, rank, most);
    t->work -= 3 * at.count + 2 * (at.to - at.from);
    if (k < 0) return MRT_PACK_NONE;
    int buffer = at.buffers[k];
    least = t->low[buffer], rank = k + 1;
    if (!can_go_on(s, &at, least, k)) return MRT_PACK_NONE;
    if (is_second(t, buffer)) continue;
    mrt_pack_found o = MRT_PACK_NONE;
    bool fits = mrt_pack_state_place(t, buffer), hat = t->hat;
    if (fits)
      o = splits(s, &at, buffer) ? search_pieces(s, &at, least)
                                 : search(s, at, least, rank);
    if (o != MRT_PACK_NONE) return o;
    mrt_pack_state_undo(t, mark);
    if (!hat) return MRT_PACK_NONE;
  }
}

static const char *const orders[] = { "TWA", "WAT", "TAW", "CAT",
                                      "TSW", "NAT", "NAT" };

mrt_pack_found mrt_pack_bottom_up(mrt_pack_exact_search *s) {
  const mrt_packing *p = s->state.p;
  int *all = s->pool, o = (s->lucky + s->rises++) % MRT_COUNT(orders);
  s->letters = orders[o];
  for (int i = 0; i < p->n; i++) all[i] = i;
  s->pool_used = p->n;
  pack_part whole = { all, p->n, 0, p->sections - 1 };
  mrt_pack_found found = search_pieces(s, &whole, 0);
  if (found == MRT_PACK_FOUND) s->lucky = o, s->rises = 0;
  return found;
}
