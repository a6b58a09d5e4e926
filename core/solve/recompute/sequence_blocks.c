/* sequence_blocks.c -- the order of a line's runs, and their bytes
 *
 *   method  Blocks of at most 64 runs in a list by rank; each knows its largest
 *           and its least, and what was added to all of its runs.
 *   cost    O(64 + runs / 64) a change or a question
 *
 * SPDX-License-Identifier: MIT */
#include "solve/recompute/sequence.h"

#include <string.h>

static mrt_sequence_block *block_of(const mrt_sequence *l, int run) {
  return l->block[l->run[run].block];
}

static int rank_of(const mrt_sequence *l, int run) {
  return l->rank[l->run[run].block];
}

static void find_most(mrt_sequence_block *b) {
  int64_t most = INT64_MIN / 2, least = INT64_MAX / 2;
  for (int i = 0; i < b->count; i++) {
    if (b->bytes[i] > most) most = b->bytes[i];
    if (b->bytes[i] < least) least = b->bytes[i];
  }
  b->most = most;
  b->least = least;
}

/* A new block of this rank; the later ones move up. */
static mrt_sequence_block *new_block(mrt_sequence *l, int rank) {
  int room = l->block_room;
  if (!mrt_arena_grow(l->arena, (void **)&l->block, l->blocks, &room,
                      sizeof *l->block) ||
      !MRT_PUSH_ROOM(l->arena, l->order, l->blocks, l->order_room) ||
      !MRT_PUSH_ROOM(l->arena, l->rank, l->blocks, l->rank_room))
    return NULL;
  l->block_room = room;
  mrt_sequence_block *b = MRT_NEW(l->arena, mrt_sequence_block, 1);
  if (!b) return NULL;
  int number = l->blocks++;
  l->block[number] = b;
  for (int r = number; r > rank; r--) {
    l->order[r] = l->order[r - 1];
    l->rank[l->order[r]] = r;
  }
  l->order[rank] = number;
  l->rank[number] = rank;
  find_most(b);
  return b;
}

static void renumber(mrt_sequence *l, mrt_sequence_block *b, int number,
                     int from) {
  for (int i = from; i < b->count; i++) {
    l->run[b->run[i]].block = number;
    l->run[b->run[i]].at = i;
  }
}

/* Move the upper half of a full block into a new one behind it. */
static bool split_block(mrt_sequence *l, int number) {
  mrt_sequence_block *b = l->block[number],
                     *c = new_block(l, l->rank[number] + 1);
  if (!c) return false;
  b = l->block[number];
  int half = b->count / 2;
  c->count = b->count - half;
  c->add = b->add;
  memcpy(c->run, b->run + half, (size_t)c->count * sizeof *c->run);
  memcpy(c->bytes, b->bytes + half, (size_t)c->count * sizeof *c->bytes);
  b->count = half;
  renumber(l, c, l->blocks - 1, 0);
  find_most(c);
  find_most(b);
  return true;
}

mrt_status mrt_sequence_fill(mrt_sequence *l, const int64_t *bytes) {
  mrt_sequence_block *b = NULL;
  for (int run = 0; run < l->runs; run++) {
    if (!b || b->count == MRT_SEQUENCE_BLOCK / 2) {
      if (b) find_most(b);
      b = new_block(l, l->blocks);
      if (!b) return MRT_ENOMEM;
    }
    l->run[run].block = l->blocks - 1;
    l->run[run].at = b->count;
    b->bytes[b->count] = bytes[run];
    b->run[b->count++] = run;
  }
  find_most(b);
  return MRT_OK;
}

bool mrt_sequence_place(mrt_sequence *l, int run, int next, int64_t bytes) {
  if (block_of(l, next)->count == MRT_SEQUENCE_BLOCK &&
      !split_block(l, l->run[next].block))
    return false;
  int number = l->run[next].block, at = l->run[next].at;
  mrt_sequence_block *b = l->block[number];
  memmove(b->run + at + 1, b->run + at,
          (size_t)(b->count - at) * sizeof *b->run);
  memmove(b->bytes + at + 1, b->bytes + at,
          (size_t)(b->count - at) * sizeof *b->bytes);
  b->run[at] = run;
  b->bytes[at] = bytes - b->add;
  b->count++;
  renumber(l, b, number, at);
  if (b->bytes[at] > b->most) b->most = b->bytes[at];
  if (b->bytes[at] < b->least) b->least = b->bytes[at];
  return true;
}

/* The end never leaves, so its block never runs empty; others may. */
void mrt_sequence_displace(mrt_sequence *l, int run) {
  int number = l->run[run].block, at = l->run[run].at;
  mrt_sequence_block *b = l->block[number];
  int64_t bytes = b->bytes[at];
  b->count--;
  memmove(b->run + at, b->run + at + 1,
          (size_t)(b->count - at) * sizeof *b->run);
  memmove(b->bytes + at, b->bytes + at + 1,
          (size_t)(b->count - at) * sizeof *b->bytes);
  renumber(l, b, number, at);
  if (bytes == b->most || bytes == b->least) find_most(b);
}

void mrt_sequence_add_at(mrt_sequence *l, int run, int64_t bytes) {
  mrt_sequence_block *b = block_of(l, run);
  int64_t *at = &b->bytes[l->run[run].at], was = *at;
  *at += bytes;
  if (was == b->most || was == b->least) {
    find_most(b);
    return;
  }
  if (*at > b->most) b->most = *at;
  if (*at < b->least) b->least = *at;
}

static void add_part(mrt_sequence *l, mrt_sequence_block *b, int from, int to,
                     int64_t bytes) {
  for (int i = from; i < to; i++) b->bytes[i] += bytes;
  find_most(b);
  l->worked += MRT_SEQUENCE_BLOCK;
}

/* Between two runs, both excluded. */
void mrt_sequence_add_between(mrt_sequence *l, int from, int to,
                              int64_t bytes) {
  mrt_sequence_block *a = block_of(l, from), *b = block_of(l, to);
  int low = l->run[from].at + 1, high = l->run[to].at;
  if (!bytes) return;
  if (a == b) {
    add_part(l, a, low, high, bytes);
    return;
  }
  add_part(l, a, low, a->count, bytes);
  int first = rank_of(l, from) + 1, last = rank_of(l, to);
  for (int r = first; r < last; r++) l->block[l->order[r]]->add += bytes;
  l->worked += last - first;
  add_part(l, b, 0, high, bytes);
}

int mrt_sequence_next(const mrt_sequence *l, int run) {
  const mrt_sequence_block *b = block_of(l, run);
  int at = l->run[run].at + 1;
  if (at < b->count) return b->run[at];
  for (int r = rank_of(l, run) + 1; r < l->blocks; r++) {
    b = l->block[l->order[r]];
    if (b->count) return b->run[0];
  }
  return -1;
}

int mrt_sequence_before(const mrt_sequence *l, int run) {
  const mrt_sequence_block *b = block_of(l, run);
  int at = l->run[run].at;
  if (at) return b->run[at - 1];
  for (int r = rank_of(l, run) - 1; r >= 0; r--) {
    b = l->block[l->order[r]];
    if (b->count) return b->run[b->count - 1];
  }
  return -1;
}

int64_t mrt_sequence_bytes(const mrt_sequence *l, int run) {
  const mrt_sequence_block *b = block_of(l, run);
  return b->bytes[l->run[run].at] + b->add;
}

int64_t mrt_sequence_peak(const mrt_sequence *l) {
  int64_t most = 0;
  for (int i = 0; i < l->blocks; i++) {
    const mrt_sequence_block *b = l->block[i];
    if (b->count && b->most + b->add > most) most = b->most + b->add;
  }
  return most;
}

int mrt_sequence_over(mrt_sequence *l, int from, int64_t bytes) {
  const mrt_sequence_block *b = block_of(l, from);
  int at = l->run[from].at;
  for (int r = rank_of(l, from); r < l->blocks; r++, at = 0) {
    b = l->block[l->order[r]];
    l->worked++;
    if (b->most + b->add <= bytes) continue;
    for (int i = at; i < b->count; i++)
      if (b->bytes[i] + b->add > bytes) return b->run[i];
  }
  return -1;
}

static double excess_part(const mrt_sequence_block *b, int from, int to,
                          int64_t bytes, int64_t budget) {
  double sum = 0;
  for (int i = from; i < to; i++) {
    int64_t over = b->bytes[i] + b->add - budget;
    if (over + bytes > 0) sum += (double)(over + bytes);
    if (over > 0) sum -= (double)over;
  }
  return sum;
}

double mrt_sequence_excess(mrt_sequence *l, int from, int to, int64_t bytes,
                           int64_t budget, double most) {
  double sum = 0;
  int low = rank_of(l, from), high = rank_of(l, to);
  for (int r = low; r <= high && sum <= most; r++) {
    const mrt_sequence_block *b = l->block[l->order[r]];
    l->worked++;
    if (b->most + b->add + (bytes > 0 ? bytes : 0) <= budget) continue;
    if (r > low && r < high && b->least + b->add >= budget &&
        b->least + b->add + bytes >= budget) {
      sum += (double)bytes * b->count;
      continue;
    }
    l->worked += MRT_SEQUENCE_BLOCK;
    sum += excess_part(b, r == low ? l->run[from].at + 1 : 0,
                       r == high ? l->run[to].at : b->count, bytes, budget);
  }
  return sum;
}
