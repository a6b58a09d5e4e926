/* solvers.c -- the solvers called from a C program of its own, on plain arrays
 *
 * Small random problems, each against what trying everything says: every order
 * of up to eight operators, every offset of up to five buffers.
 *
 * SPDX-License-Identifier: MIT */
#include "mrt.h"
#include "mrt/solve.h"

#include <stdio.h>
#include <stdlib.h>

enum { OPS = 8, PROBLEMS = 120 };

static int failures;

#define CHECK(what, ...)                                                       \
  do {                                                                         \
    if (!(what))                                                               \
      failures++, fprintf(stderr, __VA_ARGS__), fputc('\n', stderr);           \
  } while (0)

static uint64_t state;
static int draw(int n) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (int)((state >> 33) % (uint64_t)n);
}

/* ---- orders and schedules ------------------------------------------------ */

/* Operator i makes value i and reads some before it. */
typedef struct program {
  mrt_problem p;
  int read_start[OPS + 1], read[OPS * OPS], make_start[OPS + 1], make[OPS];
  double cost[OPS];
  int64_t bytes[OPS];
  bool pinned[OPS];
} program;

static void make_program(program *g) {
  int n = 2 + draw(OPS - 1), reads = 0;
  *g = (program){ .p = { .ops = n, .values = n } };
  for (int i = 0; i < n; i++) {
    g->read_start[i] = reads, g->make_start[i] = g->make[i] = i;
    g->cost[i] = 1 + draw(5), g->bytes[i] = 1 + draw(20);
    for (int k = 0; k < i; k++)
      if (draw(3) == 0) g->read[reads++] = k;
    g->pinned[i] = i == n - 1 || draw(6) == 0;
  }
  g->read_start[n] = reads, g->make_start[n] = n;
  g->p.reads = (mrt_lists){ g->read_start, g->read };
  g->p.makes = (mrt_lists){ g->make_start, g->make };
  g->p.cost = g->cost, g->p.bytes = g->bytes, g->p.pinned = g->pinned;
}

static bool reads(const program *g, int op, int value) {
  for (int k = g->read_start[op]; k < g->read_start[op + 1]; k++)
    if (g->read[k] == value) return true;
  return false;
}

/* The peak of an order; -1: it reads what is not there. */
static int64_t peak_of(const program *g, const int *order) {
  int64_t peak = 0;
  for (int at = 0; at < g->p.ops; at++) {
    int64_t live = 0;
    for (int m = 0; m <= at; m++) {
      int v = order[m], last = g->pinned[v] ? g->p.ops : m;
      for (int r = 0; r < g->p.ops; r++) {
        if (!reads(g, order[r], v)) continue;
        if (r <= m) return -1;
        if (r > last) last = r;
      }
      if (last >= at) live += g->bytes[v];
    }
    if (live > peak) peak = live;
  }
  return peak;
}

/* The least peak of all orders that begin with these `count`. */
static int64_t least_peak(const program *g, int *order, int count, int used) {
  int64_t least = INT64_MAX;
  if (count == g->p.ops) {
    int64_t peak = peak_of(g, order);
    return peak < 0 ? INT64_MAX : peak;
  }
  for (int i = 0; i < g->p.ops; i++) {
    bool ready = !(used >> i & 1);
    for (int k = g->read_start[i]; k < g->read_start[i + 1]; k++)
      ready &= used >> g->read[k] & 1;
    if (!ready) continue;
    order[count] = i;
    int64_t peak = least_peak(g, order, count + 1, used | 1 << i);
    if (peak < least) least = peak;
  }
  return least;
}

static void try_order(mrt_context *ctx, const program *g, int number) {
  int order[OPS], other[OPS], program_order[OPS];
  mrt_order_result r;
  for (int i = 0; i < OPS; i++) program_order[i] = i;
  mrt_status s = mrt_order_find(ctx, &g->p, 1, order, &r);
  CHECK(!s, "order %d: %s", number, mrt_message(ctx));
  if (s) return;
  int64_t least = least_peak(g, other, 0, 0);
  CHECK(peak_of(g, order) == r.peak, "order %d: not its peak", number);
  CHECK(r.peak == least, "order %d: %lld, the least is %lld", number,
        (long long)r.peak, (long long)least);
  CHECK(r.program == peak_of(g, program_order), "order %d: program", number);
  CHECK(r.bound <= least, "order %d: the bound is no bound", number);
}

/* Walks a schedule: is all there that is read, within the budget? */
static void try_schedule(mrt_context *ctx, const program *g, int number) {
  mrt_schedule s = { 0 };
  mrt_status status = mrt_schedule_find(ctx, &g->p, NULL, INT64_MAX / 2, &s);
  CHECK(!status, "schedule %d: %s", number, mrt_message(ctx));
  int64_t budget = s.peak - 1;
  mrt_schedule_free(ctx, &s);
  status = mrt_schedule_find(ctx, &g->p, NULL, budget, &s);
  CHECK(!status || status == MRT_EBUDGET, "schedule %d: %s", number,
        mrt_message(ctx));
  bool there[OPS] = { false };
  int64_t live = 0;
  for (int i = 0; !status && i < s.count; i++) {
    int at = s.act[i].index;
    if (s.act[i].kind == MRT_ACT_DROP) {
      live -= g->bytes[at], there[at] = false;
      continue;
    }
    for (int k = g->read_start[at]; k < g->read_start[at + 1]; k++)
      CHECK(there[g->read[k]], "schedule %d: reads what is gone", number);
    CHECK(!there[at], "schedule %d: makes it twice", number);
    live += g->bytes[at], there[at] = true;
    CHECK(live <= budget, "schedule %d: over the budget", number);
  }
  for (int v = 0; !status && v < g->p.values; v++)
    CHECK(there[v] || !g->pinned[v], "schedule %d: a result is gone", number);
  mrt_schedule_free(ctx, &s);
}

/* ---- packing ------------------------------------------------------------- */

static bool meet(const mrt_pack_buffer *a, const mrt_pack_buffer *b) {
  return a->first <= b->last && b->first <= a->last;
}

/* The lowest top, trying every order of first fit, which finds it. */
static size_t lowest(mrt_pack_buffer *b, int n, int placed) {
  size_t best = SIZE_MAX;
  if (placed == (1 << n) - 1) {
    best = 0;
    for (int i = 0; i < n; i++)
      if (b[i].offset + b[i].size > best) best = b[i].offset + b[i].size;
    return best;
  }
  for (int i = 0; i < n; i++) {
    if (placed >> i & 1) continue;
    size_t at = 0;
    for (int again = 1; again;) {
      again = 0;
      for (int k = 0; k < n; k++)
        if (placed >> k & 1 && meet(&b[i], &b[k]) &&
            at < b[k].offset + b[k].size && b[k].offset < at + b[i].size)
          at = b[k].offset + b[k].size, again = 1;
    }
    b[i].offset = at;
    size_t top = lowest(b, n, placed | 1 << i);
    if (top < best) best = top;
  }
  return best;
}

static void try_pack(mrt_context *ctx, int number) {
  mrt_pack_buffer b[5], other[5];
  mrt_pack_result r;
  int n = 1 + draw(5);
  for (int i = 0; i < n; i++) {
    int first = draw(6);
    other[i] = b[i] = (mrt_pack_buffer){ .size = (size_t)(1 + draw(9)),
                                         .first = first,
                                         .last = first + draw(4) };
  }
  mrt_status s = mrt_pack(ctx, b, n, 0, &r);
  CHECK(!s, "pack %d: %s", number, mrt_message(ctx));
  for (int i = 0; i < n; i++)
    for (int k = 0; k < i; k++)
      CHECK(!meet(&b[i], &b[k]) || b[i].offset >= b[k].offset + b[k].size ||
                b[k].offset >= b[i].offset + b[i].size,
            "pack %d: two overlap", number);
  size_t least = lowest(other, n, 0);
  CHECK(r.height == least, "pack %d: %zu, the lowest is %zu", number, r.height,
        least);
}

static void refuse(mrt_context *ctx) {
  program g;
  int order[OPS];
  mrt_order_result r;
  make_program(&g);
  g.read_start[1] = 1, g.read[0] = 0; /* reads what it makes */
  CHECK(mrt_order_find(ctx, &g.p, 1, order, &r) == MRT_EVALUE,
        "an operator that reads its own result is no problem");
}

int main(void) {
  mrt_context *ctx;
  if (mrt_context_new(NULL, &ctx)) return EXIT_FAILURE;
  for (int i = 0; i < PROBLEMS; i++) {
    program g;
    state = (uint64_t)i + 1;
    make_program(&g);
    try_order(ctx, &g, i);
    try_schedule(ctx, &g, i);
    try_pack(ctx, i);
  }
  refuse(ctx);
  mrt_context_free(ctx);
  printf("%d problems, %d failures\n", PROBLEMS, failures);
  return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
