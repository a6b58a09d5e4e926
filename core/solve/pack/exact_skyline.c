/* exact_skyline.c -- an exact search that goes on where there is least choice
 *
 *   method  The floors of the sections are a skyline.  In a valley, sections
 *           of one floor between higher ones, some buffer must lie on the floor
 *           of any section, or a gap is left there: the floor rises to the next
 *           offset anything in that section can have.  Nothing that is placed
 *           later comes below, so the order of valleys is free: take the
 *           section with the fewest ways to go on, more readily one that has
 *           often failed, and try its buffers, long-lived ones first.  Only
 *           packings in which no buffer could lie lower are wanted: a buffer
 *           must lie on another, and a gap that a buffer fits in is none.
 *           States that failed are remembered.  When no unplaced buffer crosses
 *           from one section to the next, both sides are searched apart.
 *   cost    O(buffers and sections) a step besides that of the state
 *   from    Burke, Kendall and Whitwell, Operations Research 52(4), 2004 (the
 *           lowest valley of a skyline); Boussemart et al., ECAI 2004 (choices
 *           weighed by failures); MiniMalloc (Moffitt, ASPLOS 2023) for
 *           splitting
 *
 * SPDX-License-Identifier: MIT */
#include "solve/pack/exact.h"

enum { DEEPEST = 20000 };

/* A way to go on: place a buffer on the floor of `section`, or leave a gap.
 * Its valley is [left, right]. */
typedef struct choice {
  int section, left, right;
  double price;
} choice;

static mrt_pack_found search(mrt_pack_exact_search *s, int from, int to);

/* ---- choices ------------------------------------------------------------- */

/* Price the sections of the valley [left, right]. */
static void price(const mrt_pack_state *t, int left, int right, choice *best) {
  int64_t floor = t->floor[left], least = MRT_PACK_PLACED;
  for (int i = t->begins_at[left]; i < t->begins_at[right + 1]; i++)
    if (t->low[i] == floor && t->size[i] < least) least = t->size[i];
  for (int k = left; k <= right; k++) {
    int64_t slack = t->cap - t->total[k] - floor;
    bool gap = slack >= least || slack >= t->next[k] - floor;
    double ways = (double)t->lowest[k] + gap;
    double price = (ways - 0.999) / (1 + t->failures[k]);
    if (price < best->price) *best = (choice){ k, left, right, price };
  }
}

/* The cheapest choice in [from, to]; false when all is placed there. */
static bool choose(mrt_pack_state *t, int from, int to, choice *best) {
  const int64_t *floor = t->floor;
  *best = (choice){ .section = -1, .price = 1e300 };
  for (int left = from, right; left <= to; left = right + 1) {
    for (right = left; right < to && floor[right + 1] == floor[left];) right++;
    if (floor[left] == MRT_PACK_PLACED ||
        (left > from && floor[left - 1] < floor[left]) ||
        (right < to && floor[right + 1] < floor[left]))
      continue;
    price(t, left, right, best);
  }
  t->work -= 4 * (to - from + 1);
  return best->section >= 0;
}

/* The buffers that can lie on the floor there, by rank; -1: no room for
 * them. */
static int list_choices(mrt_pack_exact_search *s, const choice *c, int *list) {
  const mrt_pack_state *t = &s->state;
  int count = 0;
  if (s->pool_used + t->lowest[c->section] > s->pool_room) return -1;
  for (int i = t->begins_at[c->left]; i <= t->p->n - 1; i++) {
    if (t->p->buffers[i].first > c->section) break;
    if (t->low[i] != t->floor[c->section] || t->p->buffers[i].last < c->section)
      continue;
    int at = count++;
    for (; at > 0 && s->rank[list[at - 1]] < s->rank[i]; at--)
      list[at] = list[at - 1];
    list[at] = i;
  }
  return count;
}

/* The least offset there of a buffer that does not lie on the floor: its own,
 * or upon a buffer of the valley beside that section. */
static int64_t next_level(const mrt_pack_state *t, const choice *c, int from) {
  int64_t next = t->next[c->section];
  for (int i = t->begins_at[from]; i < t->begins_at[c->right + 1]; i++) {
    const mrt_packed_buffer *q = &t->p->buffers[i];
    if (t->low[i] < next && t->low[i] + q->size < next && q->last >= c->left &&
        (q->first > c->section || q->last < c->section))
      next = t->low[i] + q->size;
  }
  return next;
}

/* Is there a gap below an unplaced buffer that it fits in? */
static bool drops(mrt_pack_state *t, int from, int to) {
  t->work -= t->begins_at[to + 1] - t->begins_at[from];
  for (int i = t->begins_at[from]; i < t->begins_at[to + 1]; i++) {
    int64_t top = t->support[i] + t->size[i];
    if (t->low[i] == MRT_PACK_PLACED || t->low[i] < top) continue;
    int k = t->p->buffers[i].first;
    while (k <= t->p->buffers[i].last && t->floor[k] >= top) k++;
    if (k > t->p->buffers[i].last) return true;
  }
  return false;
}

/* ---- the search ---------------------------------------------------------- */

/* Search the pieces that nothing unplaced connects, one after the other. */
static mrt_pack_found search_pieces(mrt_pack_exact_search *s, int from,
                                    int to) {
  for (int k = from; k <= to; k++) {
    if (k < to && s->state.crossing[k]) continue;
    mrt_pack_found o = search(s, from, k);
    if (o != MRT_PACK_FOUND) return o;
    from = k + 1;
  }
  return MRT_PACK_FOUND;
}

static uint64_t hash_of(const mrt_pack_state *t, int from, int to) {
  uint64_t hash = mrt_pack_mix((uint64_t)t->cap + (uint64_t)from);
  for (int k = from; k <= to; k++) {
    hash = mrt_pack_mix(hash + (uint64_t)t->floor[k]);
    hash = mrt_pack_mix(hash + (uint64_t)t->names[k]);
  }
  return hash;
}

static mrt_pack_found try_items(mrt_pack_exact_search *s, const int *list,
                                int count, int from, int to) {
  mrt_pack_state *t = &s->state;
  int mark = t->change_count;
  const mrt_packed_buffer *buffers = t->p->buffers;
  for (int k = 0; k < count; k++) {
    mrt_pack_found o = MRT_PACK_NONE;
    if (k && mrt_pack_equal(&buffers[list[k]], &buffers[list[k - 1]])) continue;
    if (t->support[list[k]] != t->low[list[k]]) continue; /* it would hang */
    if (mrt_pack_state_place(t, list[k]) && !drops(t, from, to))
      o = search_pieces(s, from, to);
    if (o != MRT_PACK_NONE) return o;
    mrt_pack_state_undo(t, mark);
  }
  return MRT_PACK_NONE;
}

static mrt_pack_found try_gap(mrt_pack_exact_search *s, const choice *c,
                              int from, int to) {
  mrt_pack_state *t = &s->state;
  int mark = t->change_count;
  int64_t next = next_level(t, c, from);
  if (next == MRT_PACK_PLACED || next + t->total[c->section] > t->cap)
    return MRT_PACK_NONE;
  mrt_pack_found o = MRT_PACK_NONE;
  if (mrt_pack_state_lift(t, c->section, next) && !drops(t, from, to))
    o = search(s, from, to);
  if (o == MRT_PACK_NONE) mrt_pack_state_undo(t, mark);
  return o;
}

static mrt_pack_found search(mrt_pack_exact_search *s, int from, int to) {
  mrt_pack_state *t = &s->state;
  choice c;
  if (t->work < 0 || t->out_of_memory || s->depth == DEEPEST)
    return MRT_PACK_STOPPED;
  t->p->nodes++;
  if (!choose(t, from, to, &c)) return MRT_PACK_FOUND;
  uint64_t hash = hash_of(t, from, to);
  uint64_t *failed = &s->failed[hash % MRT_PACK_REMEMBERED];
  if (*failed == hash) return MRT_PACK_NONE;
  int *list = s->pool + s->pool_used, count = list_choices(s, &c, list);
  if (count < 0) return MRT_PACK_STOPPED;
  s->pool_used += count;
  s->depth++;
  mrt_pack_found o = try_items(s, list, count, from, to);
  if (o == MRT_PACK_NONE) o = try_gap(s, &c, from, to);
  s->depth--;
  s->pool_used -= count;
  if (o == MRT_PACK_NONE) *failed = hash;
  return o;
}

/* Long-lived buffers first, every fourth run large ones; but for the first run
 * each key is shaken by up to a half. */
static void rank_items(mrt_pack_exact_search *s) {
  const mrt_packing *p = s->state.p;
  for (int i = 0; i < p->n; i++) {
    uint64_t x = mrt_pack_mix((uint64_t)i * 0x9e3779b97f4a7c15u + s->valleys);
    double shake = 0.5 + (double)(x >> 40) / (1 << 24);
    double key = s->valleys % 4 == 1 ? (double)p->buffers[i].size
                                     : p->buffers[i].duration;
    s->rank[i] = s->valleys ? key * shake : key;
  }
}

mrt_pack_found mrt_pack_skyline(mrt_pack_exact_search *s) {
  const mrt_packing *p = s->state.p;
  rank_items(s);
  s->valleys++;
  s->pool_used = s->depth = 0;
  for (int k = 0; k < p->sections; k++) s->state.failures[k] *= 0.5;
  return search_pieces(s, 0, p->sections - 1);
}
