/* sequence_program.c -- the line of the program as it is, and a line's acts
 *
 *   gives   a line in which every operator runs once, in program order, to
 *           begin with; of any line, the acts that follow it: a value is
 *           dropped right after its last read before it is made again
 *   cost    O(operators + accesses)
 *
 * SPDX-License-Identifier: MIT */
#include "solve/recompute/sequence.h"

static mrt_status allot(mrt_sequence *l) {
  const mrt_problem *p = l->p;
  int accesses = p->makes.start[p->ops] + p->reads.start[p->ops] + p->values;
  l->run_room = 2 * p->ops + 64;
  l->access_room = 2 * accesses + 64;
  l->work = MRT_NEW(l->arena, int64_t, p->ops + 1);
  l->maker = MRT_NEW(l->arena, int, p->values + 1);
  l->cursor = MRT_NEW(l->arena, int, p->values + 1);
  l->free = MRT_NEW(l->arena, int, p->ops + 1);
  l->run = MRT_NEW(l->arena, mrt_sequence_run, l->run_room);
  l->access = MRT_NEW(l->arena, mrt_sequence_access, l->access_room);
  if (!l->work || !l->maker || !l->cursor || !l->free || !l->run || !l->access)
    return MRT_ENOMEM;
  return MRT_OK;
}

static void add_access(mrt_sequence *l, int run, int value, bool write) {
  int access = l->accesses++, last = l->cursor[value];
  l->access[access] = (mrt_sequence_access){
    .value = value, .run = run, .before = last, .after = -1, .write = write
  };
  if (last >= 0) l->access[last].after = access;
  l->cursor[value] = access;
  l->run[run].makes += write;
  l->run[run].count++;
  l->work[l->run[run].op] += l->p->bytes[value];
}

static void add_runs(mrt_sequence *l) {
  const mrt_problem *p = l->p;
  for (int v = 0; v < p->values; v++) l->cursor[v] = -1;
  for (int op = 0; op <= p->ops; op++) {
    l->free[op] = -1;
    l->work[op] = p->scratch && op < p->ops ? p->scratch[op] : 0;
    l->run[l->runs++] = (mrt_sequence_run){
      .op = op,
      .access = l->accesses,
      .stage = op,
      .next_run = -1,
      .last_run = -1,
      .first = true,
      .there = true,
    };
    if (op == p->ops) break;
    for (int i = p->makes.start[op]; i < p->makes.start[op + 1]; i++) {
      add_access(l, op, p->makes.item[i], true);
      l->maker[p->makes.item[i]] = op;
    }
    for (int i = p->reads.start[op]; i < p->reads.start[op + 1]; i++)
      add_access(l, op, p->reads.item[i], false);
    l->cost += p->cost[op];
  }
  for (int v = 0; v < p->values; v++)
    if (p->pinned && p->pinned[v]) add_access(l, p->ops, v, false);
  l->length = p->ops;
}

/* Bytes of every run: its own, and what lives past it. */
static int64_t *weigh(mrt_sequence *l) {
  const mrt_problem *p = l->p;
  int64_t *bytes = MRT_NEW(l->arena, int64_t, p->ops + 2), live = 0;
  if (!bytes) return NULL;
  for (int op = 0; op <= p->ops; op++) {
    const mrt_sequence_run *r = &l->run[op];
    for (int i = r->access; i < r->access + r->count; i++)
      if (!l->access[i].write) live -= p->bytes[l->access[i].value];
    bytes[op] = live + l->work[op] - mrt_sequence_taken(l, op);
    for (int i = r->access; i < r->access + r->count; i++)
      if (mrt_sequence_lives_on(l, i)) live += p->bytes[l->access[i].value];
  }
  return bytes;
}

mrt_status mrt_sequence_new(mrt_arena *arena, const mrt_problem *p,
                            const uint8_t *may, mrt_sequence *l) {
  *l = (mrt_sequence){ .arena = arena, .p = p, .may = may };
  if (allot(l)) return MRT_ENOMEM;
  add_runs(l);
  int64_t *bytes = weigh(l);
  if (!bytes) return MRT_ENOMEM;
  while (1 << l->levels <= p->ops) l->levels++;
  l->gap = MRT_NEW(arena, int, (size_t)2 << l->levels);
  if (!l->gap) return MRT_ENOMEM;
  for (int i = 0; i < 2 << l->levels; i++) l->gap[i] = -1;
  for (int i = 0; i < l->accesses; i++)
    if (mrt_sequence_lives_on(l, i)) mrt_sequence_open_gap(l, i);
  return mrt_sequence_fill(l, bytes);
}

/* ---- acts ---------------------------------------------------------------- */

static void push(mrt_schedule *s, mrt_act_kind kind, int index) {
  s->act[s->count++] = (mrt_act){ kind, index };
}

mrt_status mrt_sequence_acts(const mrt_sequence *l, mrt_arena *arena,
                             mrt_schedule *out) {
  int run = 0;
  size_t most = 0;
  for (int r = 0; r >= 0; r = mrt_sequence_next(l, r))
    most += 1 + (size_t)l->run[r].count;
  out->count = 0;
  out->act = MRT_NEW(arena, mrt_act, most + 1);
  if (!out->act) return MRT_ENOMEM;
  for (; l->run[run].op < l->p->ops; run = mrt_sequence_next(l, run)) {
    const mrt_sequence_run *r = &l->run[run];
    push(out, MRT_ACT_RUN, r->op);
    for (int i = r->access + r->count - 1; i >= r->access; i--) {
      const mrt_sequence_access *a = &l->access[i];
      if ((r->first || mrt_sequence_is_linked(l, a)) &&
          !mrt_sequence_lives_on(l, i))
        push(out, MRT_ACT_DROP, a->value);
    }
  }
  out->peak = mrt_sequence_peak(l);
  out->cost = l->cost;
  return MRT_OK;
}
