/* pack_search.c -- an exact search over canonical placements
 *
 *   method  Place bottom-up, each item at its lowest offset, in the order
 *           (offset, rank); so every packing that matters is met once.  Never
 *           place at or above the top that some unplaced item could have at
 *           its lowest offset: it would fit below.  Of equal items the lower
 *           number goes first.  When no unplaced item crosses from one section
 *           to the next, both sides are searched apart.  Ranks come from
 *           several orders, tried in turn with growing limits, for the bound
 *           and for heights between it and the best known.
 *   cost    counted work up to a limit, about a second
 *   from    MiniMalloc (Moffitt, ASPLOS 2023); the ladder of heights:
 *           omnimalloc's SuperMalloc
 *
 * SPDX-License-Identifier: MIT */
#include "plan/pack_search.h"

#include <string.h>

typedef enum outcome { NONE, FOUND, STOPPED } outcome;

typedef struct searching {
  mrt_pack_state state;
  const char *letters; /* of the order that ranks items */
  int64_t left;        /* work for all searches together */
  int lucky;           /* the order that last found a packing */
  uint64_t tries;      /* searches so far */
  int *covers;         /* of a section: items that begin or end to cover it */
  int *pool;           /* lists of items, nested */
  int pool_used, pool_room;
  mrt_pack_order *order;
} searching;

/* Items to place within sections [from, to], by rank. */
typedef struct part {
  const int *items;
  int count, from, to;
} part;

static outcome search(searching *s, part at, int64_t least, int rank);

/* ---- parts --------------------------------------------------------------- */

/* A factor from 0.75 to 1.25, the same for an item throughout one search. */
static double noise(const searching *s, int item) {
  uint64_t x = (uint64_t)item * 0x9e3779b97f4a7c15u + s->tries;
  x = (x ^ x >> 31) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 29) * 0x94d049bb133111ebu;
  return 0.75 + (double)(x >> 44) / (1 << 21);
}

static double key_of(const searching *s, char letter, int item) {
  const mrt_packed *i = &s->state.p->items[item];
  int64_t most = 0;
  switch (letter) {
  case 'S':
    return (double)i->size;
  case 'W':
    return i->duration;
  case 'N':
    return i->duration * noise(s, item);
  case 'A':
    return (double)i->size * i->duration;
  case 'C':
    return s->state.meets_at[item + 1] - s->state.meets_at[item];
  default:
    for (int k = i->first; k <= i->last; k++)
      if (s->state.total[k] > most) most = s->state.total[k];
    return (double)most;
  }
}

static bool before(const mrt_pack_order *a, const mrt_pack_order *b) {
  for (int k = 0; k < 3; k++)
    if (a->key[k] != b->key[k]) return a->key[k] > b->key[k];
  return a->item < b->item;
}

/* By insertion: the items come nearly ranked from the part around. */
static void rank_items(searching *s, int *items, int count) {
  mrt_pack_order *o = s->order;
  for (int k = 0; k < count; k++) {
    mrt_pack_order next = { .item = items[k] };
    for (int j = 0; j < 3; j++)
      next.key[j] = key_of(s, s->letters[j], items[k]);
    int at = k;
    for (; at > 0 && before(&next, &o[at - 1]); at--) o[at] = o[at - 1];
    o[at] = next;
  }
  for (int k = 0; k < count; k++) items[k] = o[k].item;
  s->state.work -= 8 * count;
}

/* The unplaced items of `around` in sections [from, to], ranked. */
static bool make_part(searching *s, const part *around, int from, int to,
                      part *made) {
  const mrt_pack_state *t = &s->state;
  int *items = s->pool + s->pool_used, count = 0;
  if (s->pool_used + around->count > s->pool_room) return false;
  for (int k = 0; k < around->count; k++) {
    int i = around->items[k];
    if (t->low[i] == MRT_PLACED || t->p->items[i].first < from ||
        t->p->items[i].first > to)
      continue;
    items[count++] = i;
  }
  rank_items(s, items, count);
  *made = (part){ items, count, from, to };
  return true;
}

/* Search the pieces that nothing unplaced connects, one after the other. */
static outcome search_pieces(searching *s, const part *around, int64_t least) {
  int from = around->from;
  for (int k = around->from; k <= around->to; k++) {
    if (k < around->to && s->state.crossing[k]) continue;
    part piece;
    int used = s->pool_used;
    if (!make_part(s, around, from, k, &piece)) return STOPPED;
    s->pool_used += piece.count;
    outcome o = piece.count ? search(s, piece, least, 0) : FOUND;
    s->pool_used = used;
    if (o != FOUND) return o;
    from = k + 1;
  }
  return FOUND;
}

/* Did placing `item` cut the part in two? */
static bool splits(const searching *s, const part *at, int item) {
  const mrt_packed *i = &s->state.p->items[item];
  for (int k = i->first; k < i->last; k++)
    if (!s->state.crossing[k] && k >= at->from && k < at->to) return true;
  return false;
}

/* ---- the search ---------------------------------------------------------- */

/* The highest offset that may be used next, or -1 when all are placed. */
static int64_t highest(const searching *s, const part *at) {
  const mrt_pack_state *t = &s->state;
  int64_t top = MRT_PLACED, total = 0;
  for (int k = 0; k < at->count; k++) {
    int i = at->items[k];
    if (t->low[i] == MRT_PLACED) continue;
    if (t->low[i] + t->p->items[i].size < top)
      top = t->low[i] + t->p->items[i].size;
  }
  if (top == MRT_PLACED) return -1;
  for (int k = at->from; k <= at->to; k++)
    if (t->total[k] > total) total = t->total[k];
  return top - 1 < t->cap - total ? top - 1 : t->cap - total;
}

/* The rank of the next item in (offset, rank) from (least, rank) on. */
static int next_item(const searching *s, const part *at, int64_t least,
                     int rank, int64_t most) {
  const int64_t *low = s->state.low;
  int64_t best = most + 1;
  int found = -1;
  for (int k = 0; k < at->count; k++) {
    int64_t offset = low[at->items[k]];
    if (offset < least || offset >= best || (offset == least && k < rank))
      continue;
    best = offset, found = k;
  }
  return found;
}

/* Can sections wait that nothing from (offset, rank) on covers at `offset`?
 * What they hold will begin at the next offset that anything can have. */
static bool can_go_on(searching *s, const part *at, int64_t offset, int rank) {
  const mrt_pack_state *t = &s->state;
  int64_t next = MRT_PLACED;
  int *covers = s->covers, over = 0;
  memset(covers + at->from, 0, (size_t)(at->to - at->from + 2) * sizeof(int));
  for (int k = 0; k < at->count; k++) {
    const mrt_packed *i = &t->p->items[at->items[k]];
    int64_t low = t->low[at->items[k]];
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

static outcome search(searching *s, part at, int64_t least, int rank) {
  mrt_pack_state *t = &s->state;
  if (t->work < 0 || t->out_of_memory) return STOPPED;
  t->p->nodes++;
  int64_t most = highest(s, &at);
  if (most == -1) return FOUND;
  int mark = t->move_count;
  for (;;) {
    int k = next_item(s, &at, least, rank, most);
    t->work -= 3 * at.count + 2 * (at.to - at.from);
    if (k < 0) return NONE;
    int item = at.items[k];
    bool hat = true;
    least = t->low[item], rank = k + 1;
    if (!can_go_on(s, &at, least, k)) return NONE;
    if (t->twin[item] >= 0 && t->low[t->twin[item]] != MRT_PLACED) continue;
    outcome o = NONE;
    if (mrt_state_place(t, item, &hat))
      o = splits(s, &at, item) ? search_pieces(s, &at, least)
                               : search(s, at, least, rank);
    if (o != NONE) return o;
    mrt_state_undo(t, mark);
    if (!hat) return NONE;
  }
}

/* ---- orders, heights, limits --------------------------------------------- */

static const char *const orders[] = { "TWA", "WAT", "TAW", "CAT",
                                      "TSW", "NAT", "NAT" };

enum { ORDERS = MRT_COUNT(orders) };
/* Counted steps, about a nanosecond each: more for a larger problem. */
static const int64_t first_work = 2000000, work_a_pair = 4500,
                     most_work = 100000000;

/* One search for a packing no higher than `cap`. */
static outcome search_under(searching *s, int64_t cap, const char *letters,
                            int64_t work) {
  mrt_packing *p = s->state.p;
  int *all = s->pool;
  mrt_state_reset(&s->state, cap);
  s->letters = letters;
  s->tries++;
  s->state.work = work;
  for (int i = 0; i < p->n; i++) all[i] = i;
  s->pool_used = p->n;
  part whole = { all, p->n, 0, p->sections - 1 };
  outcome o = search_pieces(s, &whole, 0);
  if (o != FOUND) return o;
  int64_t height = 0;
  for (int i = 0; i < p->n; i++)
    if (p->items[i].offset + p->items[i].size > height)
      height = p->items[i].offset + p->items[i].size;
  mrt_pack_keep(p, height);
  return FOUND;
}

/* No packing is as low as `cap`. */
static void prove(mrt_packing *p, int64_t cap) {
  if (cap >= p->goal) p->goal = cap + 1;
  if (p->goal > p->enough) p->enough = p->goal;
}

/* Try each order with this much work until one finds a packing no higher than
 * `cap`; the order that found one before goes first. */
static mrt_status try_orders(searching *s, int64_t cap, int64_t work) {
  mrt_packing *p = s->state.p;
  for (int k = 0; k < ORDERS && s->left > 0; k++) {
    int o = (s->lucky + k) % ORDERS;
    outcome found = search_under(s, cap, orders[o], work);
    if (s->state.out_of_memory) return MRT_ENOMEM;
    s->left -= work - s->state.work;
    if (found == NONE) prove(p, cap);
    if (found == FOUND) s->lucky = o;
    if (found != STOPPED) break;
  }
  return MRT_OK;
}

/* The goal itself and what is enough, with most of the work; then between the
 * goal and what is known, by halves: a height that was not reached is taken as
 * too low for this round. */
static mrt_status search_round(searching *s, int64_t work) {
  mrt_packing *p = s->state.p;
  MRT_TRY(try_orders(s, p->goal, 4 * work));
  if (p->height > p->enough && p->enough > p->goal)
    MRT_TRY(try_orders(s, p->enough, 4 * work));
  int64_t failed = p->enough;
  while (s->left > 0 && p->height > p->enough &&
         p->height - failed > p->height / 128) {
    int64_t cap = failed + (p->height - failed) / 2;
    MRT_TRY(try_orders(s, cap, work));
    if (p->height > cap) failed = cap;
  }
  if (p->height <= p->enough) return MRT_OK;
  return try_orders(s, p->height - 1, work); /* or the proof that none is */
}

mrt_status mrt_pack_search(mrt_packing *p) {
  int64_t work = work_a_pair * p->n * p->n;
  if (work > most_work) work = most_work;
  searching s = { .pool_room = 64 * p->n, .left = work * p->effort };
  MRT_TRY(mrt_state_new(p, &s.state));
  s.pool = MRT_NEW(p->arena, int, s.pool_room);
  s.order = MRT_NEW(p->arena, mrt_pack_order, p->n);
  s.covers = MRT_NEW(p->arena, int, p->sections + 1);
  if (!s.pool || !s.order || !s.covers) return MRT_ENOMEM;
  for (work = first_work; s.left > 0 && p->height > p->enough; work *= 4)
    MRT_TRY(search_round(&s, work));
  return MRT_OK;
}
