/* program.c -- a problem of the solvers as a dag to be ordered
 *
 *   method  An operator comes after those that make what it reads.  What is
 *           pinned is read by one more node, which comes after all others: it
 *           then lives to the end.
 *   cost    O(ops + values + reads)
 *
 * SPDX-License-Identifier: MIT */
#include "solve/order/order.h"

typedef struct program_building {
  const mrt_problem *p;
  mrt_dag *dag;
  mrt_arena *arena;
  int *number; /* by value: its buffer, counted by maker */
} program_building;

static int reads_of(const mrt_problem *p, int op) {
  return p->reads.start[op + 1] - p->reads.start[op];
}

/* Buffers are numbered by maker. */
static void number_buffers(program_building *b) {
  const mrt_problem *p = b->p;
  mrt_dag *d = b->dag;
  for (int i = 0; i < p->ops; i++) {
    d->made[i] = d->buffers;
    d->scratch[i] = p->scratch ? p->scratch[i] : 0;
    for (int k = p->makes.start[i]; k < p->makes.start[i + 1]; k++) {
      int v = p->makes.item[k];
      d->maker[d->buffers] = i, d->bytes[d->buffers] = p->bytes[v];
      b->number[v] = d->buffers++;
    }
  }
  d->made[p->ops] = d->made[p->ops + 1] = d->buffers;
}

static void list_reads(program_building *b) {
  const mrt_problem *p = b->p;
  mrt_lists *reads = &b->dag->reads;
  int n = 0, end = p->ops;
  for (int i = 0; i < p->ops; i++) {
    reads->start[i] = n;
    for (int k = p->reads.start[i]; k < p->reads.start[i + 1]; k++)
      reads->item[n++] = b->number[p->reads.item[k]];
  }
  reads->start[end] = n;
  for (int v = 0; v < p->values && p->pinned; v++)
    if (p->pinned[v]) reads->item[n++] = b->number[v];
  reads->start[end + 1] = n;
}

/* The predecessors of the end are all operators; of an operator, what makes its
 * inputs.  One that is there twice waits twice, which is as good. */
static void list_before(program_building *b) {
  mrt_dag *d = b->dag;
  int n = 0, end = b->p->ops;
  for (int i = 0; i < end; i++) {
    d->before.start[i] = n;
    for (int k = d->reads.start[i]; k < d->reads.start[i + 1]; k++)
      d->before.item[n++] = d->maker[d->reads.item[k]];
  }
  d->before.start[end] = n;
  for (int i = 0; i < end; i++) d->before.item[n++] = i;
  d->before.start[end + 1] = n;
}

/* to: by item, the lists that hold it, ascending. */
static mrt_status turn_round(mrt_arena *arena, const mrt_lists *from, int lists,
                             mrt_lists *to, int items) {
  to->start = MRT_NEW(arena, int, items + 2);
  to->item = MRT_NEW(arena, int, from->start[lists]);
  if (!to->start || !to->item) return MRT_ENOMEM;
  for (int i = 0; i < from->start[lists]; i++) to->start[from->item[i] + 2]++;
  for (int i = 0; i <= items; i++) to->start[i + 1] += to->start[i];
  for (int l = 0; l < lists; l++)
    for (int k = from->start[l]; k < from->start[l + 1]; k++)
      to->item[to->start[from->item[k] + 1]++] = l;
  return MRT_OK;
}

static mrt_status number_takes(program_building *b) {
  const mrt_problem *p = b->p;
  mrt_dag *d = b->dag;
  int count = p->take_start ? p->take_start[p->ops] : 0;
  d->take = MRT_NEW(b->arena, mrt_take, count);
  if (!d->take) return MRT_ENOMEM;
  for (int i = 0; i <= p->ops && p->take_start; i++)
    d->take_start[i] = p->take_start[i];
  d->take_start[p->ops + 1] = count;
  for (int k = 0; k < count; k++)
    d->take[k] =
        (mrt_take){ b->number[p->take[k].out], b->number[p->take[k].in] };
  return MRT_OK;
}

mrt_status mrt_order_dag(mrt_dag *d, mrt_arena *arena, const mrt_problem *p) {
  int n = p->ops + 1, reads = p->values;
  for (int i = 0; i < p->ops; i++) reads += reads_of(p, i);
  *d = (mrt_dag){ .real = p->ops,
                  .nodes = n,
                  .before = { MRT_NEW(arena, int, n + 1),
                              MRT_NEW(arena, int, reads + p->ops) },
                  .reads = { MRT_NEW(arena, int, n + 1),
                             MRT_NEW(arena, int, reads) },
                  .made = MRT_NEW(arena, int, n + 1),
                  .maker = MRT_NEW(arena, int, p->values),
                  .bytes = MRT_NEW(arena, int64_t, p->values),
                  .scratch = MRT_NEW(arena, int64_t, n),
                  .take_start = MRT_NEW(arena, int, n + 1),
                  .update = MRT_NEW(arena, bool, n),
                  .backward = MRT_NEW(arena, bool, n) };
  program_building b = { p, d, arena, MRT_NEW(arena, int, p->values) };
  if (!d->before.start || !d->before.item || !d->reads.start ||
      !d->reads.item || !d->made || !d->maker || !d->bytes || !d->scratch ||
      !d->take_start || !d->update || !d->backward || !b.number)
    return MRT_ENOMEM;
  number_buffers(&b);
  list_reads(&b);
  list_before(&b);
  MRT_TRY(number_takes(&b));
  MRT_TRY(turn_round(arena, &d->before, n, &d->after, n));
  return turn_round(arena, &d->reads, n, &d->readers, d->buffers);
}
