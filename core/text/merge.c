/* merge.c -- neighbours that become one, the first in the list first
 *
 * A short word is searched for its best pair again and again; in a long one
 * candidates wait in a heap, and one whose tokens have changed meanwhile is
 * passed over: n log n for n tokens.  Of equal ranks the leftmost is first.
 *
 *   from  Sennrich et al. 2016 (arXiv:1508.07909)
 *
 * SPDX-License-Identifier: MIT */
#include "text/text.h"

#include <string.h>

enum { LONGEST_SEARCH = 1024, SHORT = 24 };

/* ---- the table ----------------------------------------------------------- */

mrt_status mrt_merges_make(mrt_merge_table *m, mrt_arena *arena, size_t most) {
  size_t room = 16;
  while (room < 2 * most) room *= 2;
  m->slots = MRT_NEW(arena, mrt_merge, room);
  m->mask = room - 1;
  return m->slots ? MRT_OK : MRT_ENOMEM;
}

static uint64_t key_of(int32_t first, int32_t second) {
  return 1 + ((uint64_t)(uint32_t)first << 32 | (uint32_t)second);
}

static size_t start_of(const mrt_merge_table *m, uint64_t key) {
  return (size_t)((key ^ key >> 29) * 0x9e3779b97f4a7c15 >> 32) & m->mask;
}

const char *mrt_merges_put(mrt_merge_table *m, int32_t first, int32_t second,
                           int32_t rank, int32_t token) {
  uint64_t key = key_of(first, second);
  size_t i = start_of(m, key);
  for (int k = 0; m->slots[i].key && m->slots[i].key != key; k++) {
    if (k > LONGEST_SEARCH) return "merges are made to slow the search";
    i = (i + 1) & m->mask;
  }
  m->slots[i] = (mrt_merge){ key, rank, token };
  return NULL;
}

const mrt_merge *mrt_merges_find(const mrt_merge_table *m, int32_t first,
                                 int32_t second) {
  uint64_t key = key_of(first, second);
  size_t i = start_of(m, key);
  while (m->slots[i].key && m->slots[i].key != key) i = (i + 1) & m->mask;
  return m->slots[i].key ? &m->slots[i] : NULL;
}

/* ---- memory -------------------------------------------------------------- */

static bool widen(const mrt_allocator *a, int32_t **p, size_t from, size_t to) {
  void *wide = mrt_resize(a, *p, from * sizeof **p, to * sizeof **p);
  if (wide) *p = wide;
  return wide;
}

/* Each array has its room before the number of all says so. */
mrt_status mrt_merging_room(mrt_context *ctx, mrt_merging *m, size_t n) {
  const mrt_allocator *a = ctx->allocator;
  if (n <= m->room) return MRT_OK;
  if (n > INT32_MAX / 4)
    return mrt_fail(&ctx->error, MRT_EVALUE,
                    "encode: a word of %zu bytes is too long", n);
  size_t room = m->room;
  while (room < n) room = room ? room * 2 : 64;
  mrt_merging made = { 0 };
  bool fine = widen(a, &made.token, 0, room) &&
              widen(a, &made.before, 0, room) && widen(a, &made.after, 0, room);
  made.heap = fine ? mrt_calloc(a, 3 * room, sizeof *made.heap) : NULL;
  if (made.heap && m->count)
    memcpy(made.token, m->token, m->count * sizeof *m->token);
  made.count = m->count, made.heap_room = 3 * room, made.room = room;
  mrt_merging *drop = made.heap ? m : &made;
  mrt_merging old = *drop;
  if (made.heap) *m = made;
  mrt_merging_free(ctx, &old);
  return made.heap ? MRT_OK : mrt_nomem(&ctx->error);
}

void mrt_merging_free(mrt_context *ctx, mrt_merging *m) {
  const mrt_allocator *a = ctx->allocator;
  mrt_release(a, m->token, m->room * sizeof *m->token);
  mrt_release(a, m->before, m->room * sizeof *m->before);
  mrt_release(a, m->after, m->room * sizeof *m->after);
  mrt_release(a, m->heap, m->heap_room * sizeof *m->heap);
  *m = (mrt_merging){ 0 };
}

/* ---- short words --------------------------------------------------------- */

static int32_t rank_of(const mrt_merge_table *t, int32_t a, int32_t b,
                       int32_t *token) {
  const mrt_merge *m = mrt_merges_find(t, a, b);
  *token = m ? m->token : -1;
  return m ? m->rank : INT32_MAX;
}

/* before[i] has the rank of the pair (i, i + 1), after[i] what it becomes. */
static void merge_short(const mrt_merge_table *t, mrt_merging *m) {
  int32_t *token = m->token, *rank = m->before, *to = m->after;
  size_t n = m->count;
  for (size_t i = 0; i + 1 < n; i++)
    rank[i] = rank_of(t, token[i], token[i + 1], &to[i]);
  for (;;) {
    size_t best = 0;
    if (n < 2) break;
    for (size_t i = 1; i + 1 < n; i++)
      if (rank[i] < rank[best]) best = i;
    if (to[best] < 0) break;
    token[best] = to[best];
    for (size_t i = best + 1; i + 1 < n; i++) {
      token[i] = token[i + 1];
      rank[i] = i + 2 < n ? rank[i + 1] : INT32_MAX;
      to[i] = i + 2 < n ? to[i + 1] : -1;
    }
    n--;
    if (best > 0)
      rank[best - 1] = rank_of(t, token[best - 1], token[best], &to[best - 1]);
    rank[best] = INT32_MAX, to[best] = -1;
    if (best + 1 < n)
      rank[best] = rank_of(t, token[best], token[best + 1], &to[best]);
  }
  m->count = n;
}

/* ---- long ones ----------------------------------------------------------- */

static bool comes_first(const mrt_merge_candidate *a,
                        const mrt_merge_candidate *b) {
  return a->rank < b->rank || (a->rank == b->rank && a->at < b->at);
}

/* There is room: a candidate for each pair, and two more for each merge. */
static void push(mrt_merging *m, mrt_merge_candidate c) {
  size_t i = m->heap_count++;
  for (size_t up; i && (up = (i - 1) / 2, comes_first(&c, &m->heap[up]));
       i = up)
    m->heap[i] = m->heap[up];
  m->heap[i] = c;
}

static mrt_merge_candidate pop(mrt_merging *m) {
  mrt_merge_candidate top = m->heap[0], last = m->heap[--m->heap_count];
  size_t n = m->heap_count, i = 0, down;
  while ((down = 2 * i + 1) < n) {
    if (down + 1 < n && comes_first(&m->heap[down + 1], &m->heap[down])) down++;
    if (!comes_first(&m->heap[down], &last)) break;
    m->heap[i] = m->heap[down];
    i = down;
  }
  m->heap[i] = last;
  return top;
}

static void consider(const mrt_merge_table *t, mrt_merging *m, int32_t at) {
  int32_t next = at < 0 ? -1 : m->after[at];
  if (next < 0) return;
  int32_t a = m->token[at], b = m->token[next];
  const mrt_merge *found = mrt_merges_find(t, a, b);
  if (found) push(m, (mrt_merge_candidate){ found->rank, at, a, b });
}

/* Merge what the candidate says, if it still holds. */
static void merge(const mrt_merge_table *t, mrt_merging *m,
                  const mrt_merge_candidate *c) {
  int32_t next = m->token[c->at] == c->first ? m->after[c->at] : -1;
  if (next < 0 || m->token[next] != c->second) return;
  m->token[c->at] = mrt_merges_find(t, c->first, c->second)->token;
  m->after[c->at] = m->after[next];
  if (m->after[next] >= 0) m->before[m->after[next]] = c->at;
  m->token[next] = -1; /* no candidate fits it any more */
  consider(t, m, m->before[c->at]);
  consider(t, m, c->at);
}

static void merge_long(const mrt_merge_table *t, mrt_merging *m) {
  int32_t n = (int32_t)m->count;
  for (int32_t i = 0; i < n; i++) {
    m->before[i] = i - 1;
    m->after[i] = i + 1 < n ? i + 1 : -1;
  }
  m->heap_count = 0;
  for (int32_t i = 0; i + 1 < n; i++) consider(t, m, i);
  while (m->heap_count) {
    mrt_merge_candidate c = pop(m);
    merge(t, m, &c);
  }
  m->count = 0;
  for (int32_t i = 0; i >= 0; i = m->after[i])
    m->token[m->count++] = m->token[i];
}

mrt_status mrt_merge_all(mrt_context *ctx, const mrt_merge_table *t,
                         mrt_merging *m, mrt_id_list *out) {
  if (m->count > SHORT)
    merge_long(t, m);
  else
    merge_short(t, m);
  MRT_TRY(mrt_ids_room(ctx, out, m->count));
  memcpy(out->at + out->count, m->token, m->count * sizeof *m->token);
  out->count += m->count;
  return MRT_OK;
}
