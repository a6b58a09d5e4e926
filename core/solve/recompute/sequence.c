/* sequence.c -- a schedule as a line of runs, with its memory
 *
 *   cost    O(accesses + runs / 64) a change; nothing is copied
 *
 * SPDX-License-Identifier: MIT */
#include "solve/recompute/sequence.h"

/* ---- accesses ------------------------------------------------------------ */

int mrt_sequence_find(mrt_sequence *l, int value, int run) {
  int at = l->cursor[value];
  while (l->access[at].after >= 0 &&
         !mrt_sequence_is_before(l, run, l->access[l->access[at].after].run)) {
    at = l->access[at].after;
    l->worked++;
  }
  while (at >= 0 && mrt_sequence_is_before(l, run, l->access[at].run)) {
    at = l->access[at].before;
    l->worked++;
  }
  if (at >= 0) l->cursor[value] = at;
  return at;
}

int64_t mrt_sequence_taken(const mrt_sequence *l, int run) {
  const mrt_problem *p = l->p;
  int op = l->run[run].op;
  if (!p->take_start || op == p->ops) return 0;
  const mrt_sequence_run *r = &l->run[run];
  int64_t sum = 0;
  int first = p->take_start[op], last = p->take_start[op + 1];
  for (int k = first; k < last; k++) {
    const mrt_take *t = &p->take[k];
    bool used = false;
    for (int j = first; j < k && !used; j++)
      used = p->take[j].out == t->out || p->take[j].in == t->in;
    int in = -1;
    for (int i = r->access + r->makes; i < r->access + r->count; i++)
      if (l->access[i].value == t->in) in = i;
    if (!used && in >= 0 && !mrt_sequence_lives_on(l, in))
      sum += p->bytes[t->in];
  }
  return sum;
}

/* ---- gaps ---------------------------------------------------------------- */

/* Lists of spans of 2^k stages: there are at most ops >> k, and one more. */
static int list_of(const mrt_sequence *l, int level, int stage) {
  int64_t stages = (int64_t)1 << l->levels;
  return (int)(2 * stages - (2 * stages >> level)) + (stage >> level);
}

void mrt_sequence_open_gap(mrt_sequence *l, int access) {
  mrt_sequence_access *a = &l->access[access];
  int from = l->run[a->run].stage, level = 0;
  int to = l->run[l->access[a->after].run].stage;
  while (from >> level != to >> level) level++;
  a->list = list_of(l, level, from);
  a->gap_last = -1;
  a->gap_next = l->gap[a->list];
  if (a->gap_next >= 0) l->access[a->gap_next].gap_last = access;
  l->gap[a->list] = access;
}

void mrt_sequence_close_gap(mrt_sequence *l, int access) {
  mrt_sequence_access *a = &l->access[access];
  if (a->gap_last >= 0)
    l->access[a->gap_last].gap_next = a->gap_next;
  else
    l->gap[a->list] = a->gap_next;
  if (a->gap_next >= 0) l->access[a->gap_next].gap_last = a->gap_last;
}

int mrt_sequence_across(mrt_sequence *l, int run, int *list) {
  int stage = l->run[run].stage, count = 0;
  for (int level = 0; level <= l->levels; level++) {
    int access = l->gap[list_of(l, level, stage)];
    for (; access >= 0; access = l->access[access].gap_next) {
      const mrt_sequence_access *a = &l->access[access];
      l->worked += 3;
      if (mrt_sequence_is_before(l, a->run, run) &&
          mrt_sequence_is_before(l, run, l->access[a->after].run))
        list[count++] = access;
    }
  }
  return count;
}

/* Link an access of a run that stands in the line into its value's list, and
 * change the memory of what lies before it. */
static void link_access(mrt_sequence *l, int access) {
  mrt_sequence_access *a = &l->access[access];
  int64_t bytes = l->p->bytes[a->value];
  int x = mrt_sequence_find(l, a->value, a->run);
  int64_t before = mrt_sequence_taken(l, l->access[x].run);
  int y = l->access[x].after;
  bool live = y >= 0 && !l->access[y].write;
  if (live) mrt_sequence_close_gap(l, x);
  a->before = x;
  a->after = y;
  l->access[x].after = access;
  if (y >= 0) l->access[y].before = access;
  if (!a->write) mrt_sequence_open_gap(l, x);
  if (live) mrt_sequence_open_gap(l, access);
  if (live) mrt_sequence_add_at(l, a->run, -bytes);
  if (live != !a->write)
    mrt_sequence_add_between(l, l->access[x].run, a->run,
                             live ? -bytes : bytes);
  int64_t change = before - mrt_sequence_taken(l, l->access[x].run);
  if (change) mrt_sequence_add_at(l, l->access[x].run, change);
}

static void unlink_access(mrt_sequence *l, int access) {
  mrt_sequence_access *a = &l->access[access];
  int64_t bytes = l->p->bytes[a->value];
  int x = a->before, y = a->after;
  int64_t before = mrt_sequence_taken(l, l->access[x].run);
  bool live = y >= 0 && !l->access[y].write;
  if (!a->write) mrt_sequence_close_gap(l, x);
  if (live) mrt_sequence_close_gap(l, access);
  if (live != !a->write)
    mrt_sequence_add_between(l, l->access[x].run, a->run,
                             live ? bytes : -bytes);
  l->access[x].after = y;
  if (y >= 0) l->access[y].before = x;
  if (live) mrt_sequence_open_gap(l, x);
  l->cursor[a->value] = x;
  int64_t change = before - mrt_sequence_taken(l, l->access[x].run);
  if (change) mrt_sequence_add_at(l, l->access[x].run, change);
}

/* ---- runs ---------------------------------------------------------------- */

/* A run of the operator with its accesses, not in the line yet. */
static int new_run(mrt_sequence *l, int op) {
  const mrt_problem *p = l->p;
  int run = l->free[op];
  if (run >= 0) {
    l->free[op] = l->run[run].next_run;
    return run;
  }
  int made = p->makes.start[op + 1] - p->makes.start[op];
  int read = p->reads.start[op + 1] - p->reads.start[op];
  if (!MRT_PUSH_ROOM(l->arena, l->run, l->runs, l->run_room)) return -1;
  while (l->accesses + made + read > l->access_room)
    if (!mrt_arena_grow(l->arena, (void **)&l->access, l->access_room,
                        &l->access_room, sizeof *l->access))
      return -1;
  run = l->runs++;
  l->run[run] = (mrt_sequence_run){
    .op = op, .access = l->accesses, .makes = made, .count = made + read
  };
  for (int i = 0; i < made + read; i++)
    l->access[l->accesses++] = (mrt_sequence_access){
      .value = i < made ? p->makes.item[p->makes.start[op] + i]
                        : p->reads.item[p->reads.start[op] + i - made],
      .run = run,
      .write = i < made,
    };
  return run;
}

int64_t mrt_sequence_crossing(const mrt_sequence *l, int before) {
  const mrt_sequence_run *r = &l->run[before];
  int64_t sum = mrt_sequence_bytes(l, before) - l->work[r->op] +
                mrt_sequence_taken(l, before);
  for (int i = 0; i < r->count; i++) {
    const mrt_sequence_access *a = &l->access[r->access + i];
    if ((r->first || mrt_sequence_is_linked(l, a)) &&
        mrt_sequence_lives_on(l, r->access + i))
      sum += l->p->bytes[a->value];
  }
  return sum;
}

static bool stand(mrt_sequence *l, int run, int next) {
  mrt_sequence_run *r = &l->run[run];
  int before = mrt_sequence_before(l, next);
  if (!mrt_sequence_place(l, run, next,
                          mrt_sequence_crossing(l, before) + l->work[r->op]))
    return false;
  r->stage = l->run[next].stage;
  r->there = true;
  int last = r->op;
  while (l->run[last].next_run >= 0 &&
         mrt_sequence_is_before(l, l->run[last].next_run, run)) {
    last = l->run[last].next_run;
    l->worked++;
  }
  r->last_run = last;
  r->next_run = l->run[last].next_run;
  l->run[last].next_run = run;
  if (r->next_run >= 0) l->run[r->next_run].last_run = run;
  for (int i = 0; i < r->count; i++)
    if (mrt_sequence_is_linked(l, &l->access[r->access + i]))
      link_access(l, r->access + i);
  int64_t saved = mrt_sequence_taken(l, run);
  if (saved) mrt_sequence_add_at(l, run, -saved);
  l->cost += l->p->cost[r->op];
  l->length++;
  l->worked += MRT_SEQUENCE_BLOCK;
  return true;
}

static void leave(mrt_sequence *l, int run) {
  mrt_sequence_run *r = &l->run[run];
  for (int i = r->count - 1; i >= 0; i--)
    if (mrt_sequence_is_linked(l, &l->access[r->access + i]))
      unlink_access(l, r->access + i);
  mrt_sequence_displace(l, run);
  r->there = false;
  l->run[r->last_run].next_run = r->next_run;
  if (r->next_run >= 0) l->run[r->next_run].last_run = r->last_run;
  l->cost -= l->p->cost[r->op];
  l->length--;
  l->worked += MRT_SEQUENCE_BLOCK;
}

static bool note(mrt_sequence *l, mrt_sequence_change change) {
  if (!MRT_PUSH_ROOM(l->arena, l->change, l->changes, l->change_room)) {
    l->failed = true;
    return false;
  }
  l->change[l->changes++] = change;
  return true;
}

int mrt_sequence_insert(mrt_sequence *l, int op, int next) {
  int run = new_run(l, op);
  if (run < 0 || !note(l, (mrt_sequence_change){ run, next, false }) ||
      !stand(l, run, next)) {
    l->failed = true;
    return -1;
  }
  return run;
}

void mrt_sequence_remove(mrt_sequence *l, int run) {
  if (!note(l, (mrt_sequence_change){ run, mrt_sequence_next(l, run), true }))
    return;
  leave(l, run);
}

static void forget(mrt_sequence *l, int run) {
  l->run[run].next_run = l->free[l->run[run].op];
  l->free[l->run[run].op] = run;
}

void mrt_sequence_undo(mrt_sequence *l, int changes) {
  while (l->changes > changes) {
    const mrt_sequence_change *c = &l->change[--l->changes];
    if (c->removed) {
      if (!stand(l, c->run, c->next)) l->failed = true;
    } else {
      leave(l, c->run);
      forget(l, c->run);
    }
  }
}

void mrt_sequence_accept(mrt_sequence *l) {
  for (int i = 0; i < l->changes; i++)
    if (l->change[i].removed && !l->run[l->change[i].run].there)
      forget(l, l->change[i].run);
  l->changes = 0;
}
