/* check_collectives.c -- do all ranks have a plan's collectives?
 *
 * Before the first run of a plan its ranks compare a hash of the collectives
 * they are about to ask for, one list for each communicator: operator, dtype,
 * shape, reduction, root, which bucket of variables, in order.  Where lists
 * differ they exchange them around the first difference, and all end with one
 * error, before anything has changed.
 *
 * A communicator remembers the lists that were found alike.  A comparison is a
 * collective, so all its ranks remember the same ones: when one of them plans
 * anew (a batch of another size), its list is known if the others' is, and it
 * asks nobody.  Comparing is a kind of its own, so what a rank that has no such
 * plan calls instead is a mismatch that the transport tells, not a hang.
 * Communicators are taken in ascending order of their numbers.  Ranks made
 * those they share in one order, so they cannot wait for each other in a
 * circle.
 *
 * What a plan's steps took is rank 0's on all ranks, so that they plan alike
 * with it.
 *
 * Not compared: sends and receives, which two ranks compare when they meet; and
 * what is evaluated outside mrt.compile, where a call is compared as it comes.
 *
 * SPDX-License-Identifier: MIT */
#include "op/collective.h"
#include "op/op.h"
#include "run/run.h"
#include "tensor/tensor.h"

#include <stdio.h>
#include <string.h>

typedef struct digest {
  uint64_t hash, script;
  int64_t count;
} digest;

typedef struct collective_line {
  char s[320];
} collective_line;

typedef struct words {
  char s[96];
} words;

typedef struct comparing {
  const mrt_plan *plan;
  mrt_communicator *comm;
  int64_t number;
  int first; /* step of the first collective */
  mrt_arena arena;
} comparing;

/* ---- the list of one communicator ---------------------------------------- */

static const mrt_collective_options *options_of(const mrt_plan *plan, int i) {
  const mrt_node *n = plan->steps[i].node;
  uint32_t traits = n->op->traits;
  const mrt_collective_options *o = n->options;
  bool all = traits & MRT_COLLECTIVE && !(traits & MRT_PAIR);
  return all && o->size > 1 ? o : NULL;
}

/* The first step from i on that calls communicator `number`; step_count. */
static int next_step(const mrt_plan *plan, int i, int64_t number) {
  for (; i < plan->step_count; i++) {
    const mrt_collective_options *o = options_of(plan, i);
    if (o && o->comm == number) break;
  }
  return i;
}

/* The next communicator that is called, by number; -1: there is no more. */
static int64_t next_number(const mrt_plan *plan, int64_t after) {
  int64_t least = -1;
  for (int i = 0; i < plan->step_count; i++) {
    const mrt_collective_options *o = options_of(plan, i);
    if (o && o->comm > after && (least < 0 || o->comm < least)) least = o->comm;
  }
  return least;
}

/* The bucket whose pieces a step gathers, as they are or cast; NULL: none.  All
 * ranks make the same ones in the same order. */
static const mrt_tensor *bucket_of(const mrt_node *n) {
  const mrt_value *v = n->in[0]->base;
  while (v->node && v->node->nin == 1) v = v->node->in[0]->base;
  bool variable = v->leaf == MRT_LEAF_VARIABLE && v->tensor->variable;
  return variable && v->tensor->variable->number ? v->tensor : NULL;
}

/* Devices queue collectives in the order of the steps, and where communicators
 * have the same ranks that must be one order.  So of a communicator that all
 * ranks have the list says in each place which of these came before it.  Its
 * step; -1: none, or it is no such communicator. */
static int step_before(const mrt_plan *plan, int i) {
  int ranks = mrt_communicators_owner(plan->ctx)->ranks.most;
  const mrt_collective_options *o = options_of(plan, i);
  if (o->size != ranks) return -1;
  while (--i >= 0)
    if ((o = options_of(plan, i)) && o->size == ranks) break;
  return i;
}

/* The how manieth of them its communicator is, from 1 on, which is alike on all
 * ranks; 0: none. */
static int64_t came_before(const mrt_plan *plan, int i) {
  const mrt_ranks *all = &mrt_communicators_owner(plan->ctx)->ranks;
  int64_t order = 0;
  if ((i = step_before(plan, i)) < 0) return 0;
  for (int64_t n = 0; n <= options_of(plan, i)->comm; n++) {
    const mrt_communicator *comm = all->communicators[n];
    order += comm && comm->size == all->most;
  }
  return order;
}

/* Of the list up to step i, from that of what is before.  Never 0. */
static uint64_t hash_step(uint64_t hash, const mrt_plan *plan, int i) {
  const mrt_node *n = plan->steps[i].node;
  const mrt_collective_options *o = n->options;
  const mrt_type *x = &n->in[0]->type;
  const mrt_tensor *bucket = bucket_of(n);
  int64_t words[] = { o->op,
                      o->peer,
                      x->dtype,
                      x->rank,
                      bucket ? bucket->variable->number : 0,
                      o->lazy,
                      came_before(plan, i) };
  hash = mrt_hash(hash, n->op->name, strlen(n->op->name) + 1);
  hash = mrt_hash(hash, words, sizeof words);
  hash = mrt_hash(hash, x->dims, (size_t)x->rank * sizeof *x->dims);
  return hash ? hash : 1;
}

static digest digest_of(const comparing *c) {
  const mrt_plan *plan = c->plan;
  digest d = { .hash = MRT_HASH };
  for (int i = c->first; i < plan->step_count;
       i = next_step(plan, i + 1, c->number), d.count++)
    d.hash = hash_step(d.hash, plan, i);
  return d;
}

/* ---- asking the others --------------------------------------------------- */

/* What all ranks have: `n` bytes of each, in the arena; NULL: it failed. */
static void *exchange(comparing *c, const void *own, size_t n) {
  const mrt_node *node = c->plan->steps[c->first].node;
  mrt_error *e = &c->plan->ctx->error;
  size_t size = (size_t)c->comm->size;
  mrt_collective all = { .kind = MRT_COLLECT_compare,
                         .dtype = MRT_u8,
                         .count = (int64_t)(n * size),
                         .in = own,
                         .out = mrt_arena_alloc(&c->arena, n, size),
                         .file = node->origin.file,
                         .line = node->origin.line };
  if (!all.out) return mrt_nomem(e), NULL;
  mrt_communicators_drain(c->plan->ctx, NULL);
  return mrt_collect(c->comm, &all, e) ? NULL : all.out;
}

/* "sum", "root 2": what is not hidden of an operator's options. */
static words describe_options(const mrt_node *n) {
  words l = { "" };
  for (int k = 0, used = 0; k < n->op->option_count; k++) {
    const mrt_option *o = &n->op->options[k];
    const char *at = (const char *)n->options + o->offset;
    if (o->kind == MRT_OPT_ENUM)
      used += snprintf(l.s + used, sizeof l.s - (size_t)used, " %s",
                       mrt_reduction_name(*(const mrt_reduction *)at));
    else if (o->kind == MRT_OPT_INT && strcmp(o->name, "comm") != 0)
      used += snprintf(l.s + used, sizeof l.s - (size_t)used, " %s %lld",
                       o->name, (long long)*(const int64_t *)at);
  }
  return l;
}

/* " of bucket 2 (w and 1 more)" */
static words describe_bucket(const mrt_node *n) {
  words l = { "" };
  const mrt_tensor *t = bucket_of(n);
  if (t)
    snprintf(l.s, sizeof l.s, " of bucket %lld (%.50s)",
             (long long)t->variable->number, t->name ? t->name : "?");
  return l;
}

/* Where another communicator's came before it. */
static words describe_before(const comparing *c, int i) {
  words l = { "" };
  int before = step_before(c->plan, i);
  if (before >= 0 && options_of(c->plan, before)->comm != c->number)
    snprintf(l.s, sizeof l.s, ", after one of another communicator");
  return l;
}

/* Of the end of a long name, which says more. */
static const char *short_name(const char *file) {
  size_t n = strlen(file), most = 50;
  return n > most ? file + n - most : file;
}

static collective_line describe(const comparing *c, int index, int64_t count) {
  collective_line l;
  const mrt_plan *plan = c->plan;
  int i = c->first;
  snprintf(l.s, sizeof l.s, "none, after %lld", (long long)count);
  if (index >= count) return l;
  for (int k = 0; k < index; k++) i = next_step(plan, i + 1, c->number);
  const mrt_node *n = plan->steps[i].node;
  snprintf(l.s, sizeof l.s, "%s%.40s %.60s%.80s%.40s (%.50s:%d)", n->op->name,
           describe_options(n).s, mrt_show(&n->in[0]->type).s,
           describe_bucket(n).s, describe_before(c, i).s,
           short_name(n->origin.file), n->origin.line);
  return l;
}

/* The first place where hashes of some rank differ from rank 0's, and that
 * rank. */
static int first_difference(const uint64_t *all, int64_t n, int size,
                            int *rank) {
  for (int64_t i = 0; i < n; i++)
    for (*rank = 1; *rank < size; ++*rank)
      if (all[*rank * n + i] != all[i]) return (int)i;
  return -1;
}

static const char *ordinal(int n) {
  int tens = n / 10 % 10, ones = n % 10;
  if (tens == 1 || ones < 1 || ones > 3) return "th";
  return ones == 1 ? "st" : ones == 2 ? "nd" : "rd";
}

/* Lists differ: find out where.  All ranks know of it, and come here. */
static mrt_status differ(comparing *c, const digest *own, const digest *all) {
  const mrt_plan *plan = c->plan;
  mrt_error *e = &plan->ctx->error;
  int64_t most = 0;
  int rank = 0, size = c->comm->size, k = 0;
  for (int r = 0; r < size; r++)
    if (all[r].count > most) most = all[r].count;
  uint64_t *hashes = MRT_NEW(&c->arena, uint64_t, most), last = MRT_HASH;
  if (!hashes) return mrt_nomem(e);
  for (int i = c->first; i < plan->step_count;
       i = next_step(plan, i + 1, c->number))
    hashes[k++] = last = hash_step(last, plan, i);
  const uint64_t *theirs = exchange(c, hashes, (size_t)most * sizeof *hashes);
  if (!theirs) return e->status;
  int at = first_difference(theirs, most, size, &rank);
  collective_line mine = describe(c, at, own->count);
  const collective_line *lines = exchange(c, &mine, sizeof mine);
  if (!lines) return e->status;
  return mrt_fail(e, MRT_ERANK,
                  "%s: the ranks plan different collectives%s; the %d%s is on "
                  "rank 0 %s, on rank %d %s",
                  plan->options.name ? plan->options.name : "plan",
                  all[rank].script != all[0].script ? ", of different scripts"
                                                    : "",
                  at + 1, ordinal(at + 1), lines[0].s, rank, lines[rank].s);
}

static mrt_status compare(comparing *c) {
  mrt_context *ctx = c->plan->ctx;
  digest own = digest_of(c);
  own.script = mrt_communicators_owner(ctx)->ranks.script;
  mrt_runner *r = c->plan->runner;
  if (!r->list_hash) r->list_comm = c->number, r->list_hash = own.hash;
  if (mrt_checked_find(ctx, c->number, own.hash)) return MRT_OK;
  MRT_TRY(mrt_checked_room(ctx));
  const digest *all = exchange(c, &own, sizeof own);
  if (!all) return ctx->error.status;
  for (int r = 0; r < c->comm->size; r++)
    if (all[r].hash != all[0].hash || all[r].count != all[0].count)
      return differ(c, &own, all);
  mrt_checked_add(ctx, c->number, own.hash);
  return MRT_OK;
}

/* A closed communicator is told by the collective itself. */
static mrt_status compare_all(comparing *c) {
  const mrt_plan *plan = c->plan;
  for (c->number = next_number(plan, -1); c->number >= 0;
       c->number = next_number(plan, c->number)) {
    c->comm = plan->runner->run.communicators[c->number];
    c->first = next_step(plan, 0, c->number);
    if (c->comm) MRT_TRY(compare(c));
  }
  return MRT_OK;
}

mrt_status mrt_plan_check_collectives(const mrt_plan *plan) {
  mrt_context *ctx = plan->ctx;
  if (plan->runner->agreed || !plan->source) return MRT_OK;
  comparing c = { .plan = plan };
  mrt_arena_init(&c.arena, ctx->allocator);
  mrt_status s = compare_all(&c);
  mrt_arena_free(&c.arena);
  plan->runner->agreed = s == MRT_OK;
  if (s == MRT_EINTERRUPT) mrt_interrupt_clear(ctx);
  return s;
}

/* ---- recordings ---------------------------------------------------------- */

/* Has it a communicator whose ranks record together? */
bool mrt_plan_asks_ranks(const mrt_plan *plan) {
  const mrt_device *d = &plan->ctx->device;
  if (!plan->runner->list_hash || !d->queue->together) return false;
  for (int64_t n = next_number(plan, -1); n >= 0; n = next_number(plan, n)) {
    const mrt_communicator *comm = plan->runner->run.communicators[n];
    if (comm && d->queue->together(d, comm)) return true;
  }
  return false;
}

/* Runs between two turns, but for the first ones: a recording that is lost is
 * made again by then, and ranks seldom wait for each other here. */
enum { TURNS_APART = 64 };

uint64_t mrt_plan_ranks_turn(const mrt_plan *plan) {
  const mrt_runner *r = plan->runner;
  if (!r->list_hash) return 0;
  struct mrt_checked *list =
      mrt_checked_find(plan->ctx, r->list_comm, r->list_hash);
  uint64_t n = list ? ++list->runs : 0;
  bool due = n < TURNS_APART ? n > 1 && !(n & (n - 1)) : !(n % TURNS_APART);
  return due && mrt_plan_asks_ranks(plan) ? n : 0;
}

/* Ranks were not to be asked in the run that this is. */
static mrt_status tell_unasked(const comparing *c) {
  mrt_error *e = &c->plan->ctx->error, told = *e;
  const mrt_node *n = c->plan->steps[c->first].node;
  return mrt_fail(e, told.status, "%s (%s:%d): %s", n->label, n->origin.file,
                  n->origin.line, told.message);
}

mrt_status mrt_plan_ask_ranks(const mrt_plan *plan, uint64_t *word) {
  mrt_context *ctx = plan->ctx;
  const mrt_device *d = &ctx->device;
  mrt_status s = MRT_OK;
  comparing c = { .plan = plan };
  mrt_arena_init(&c.arena, ctx->allocator);
  for (c.number = next_number(plan, -1); c.number >= 0 && !s;
       c.number = next_number(plan, c.number)) {
    c.comm = plan->runner->run.communicators[c.number];
    c.first = next_step(plan, 0, c.number);
    if (!c.comm || !d->queue->together(d, c.comm)) continue;
    uint64_t own = *word;
    const uint64_t *all = exchange(&c, &own, sizeof own);
    if (!all) s = tell_unasked(&c);
    for (int r = 0; !s && r < c.comm->size; r++)
      *word = !all[r] || !*word ? 0 : all[r] == *word ? *word : 1;
  }
  mrt_arena_free(&c.arena);
  if (s == MRT_EINTERRUPT) mrt_interrupt_clear(ctx);
  return s;
}

/* ---- measured times ------------------------------------------------------ */

/* Of all steps: what ranks must have in common to take each other's times. */
static digest digest_of_all(const mrt_plan *plan) {
  digest d = { .hash = MRT_HASH, .count = plan->step_count };
  for (int i = 0; i < plan->step_count; i++) {
    const char *name = plan->steps[i].node->op->name;
    d.hash = mrt_hash(d.hash, name, strlen(name) + 1);
  }
  return d;
}

/* `times` of rank 0, if all ranks have its steps. */
static mrt_status take_times(comparing *c, double *times, int n) {
  mrt_error *e = &c->plan->ctx->error;
  const mrt_node *node = c->plan->steps[c->first].node;
  digest own = digest_of_all(c->plan);
  const digest *all = exchange(c, &own, sizeof own);
  if (!all) return e->status;
  for (int r = 0; r < c->comm->size; r++)
    if (all[r].hash != all[0].hash || all[r].count != all[0].count)
      return MRT_OK;
  mrt_collective first = { .kind = MRT_COLLECT_broadcast,
                           .dtype = MRT_f64,
                           .count = n,
                           .in = times,
                           .out = times,
                           .file = node->origin.file,
                           .line = node->origin.line };
  return mrt_collect(c->comm, &first, e);
}

mrt_status mrt_plan_share_times(const mrt_plan *plan, double *seconds,
                                double *total) {
  mrt_context *ctx = plan->ctx;
  comparing c = { .plan = plan, .number = next_number(plan, -1) };
  if (c.number < 0) return MRT_OK;
  int n = plan->step_count;
  c.comm = plan->runner->run.communicators[c.number];
  c.first = next_step(plan, 0, c.number);
  mrt_arena_init(&c.arena, ctx->allocator);
  double *times = MRT_NEW(&c.arena, double, n + 1);
  mrt_status s = times ? MRT_OK : mrt_nomem(&ctx->error);
  if (!s) {
    memcpy(times, seconds, (size_t)n * sizeof *times);
    times[n] = *total;
    s = take_times(&c, times, n + 1);
  }
  if (!s) {
    memcpy(seconds, times, (size_t)n * sizeof *times);
    *total = times[n];
  }
  if (s == MRT_EINTERRUPT) mrt_interrupt_clear(ctx);
  mrt_arena_free(&c.arena);
  return s;
}
