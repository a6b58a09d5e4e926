/* tier_row.c -- several tiers as one
 *
 * A place's highest bits say which slot it lies in, and so do a copy's number.
 * Each slot does its copies as it does alone: lanes of different slots run
 * beside each other.
 *
 * SPDX-License-Identifier: MIT */
#include "device/tier.h"

static const int number_bits = 60;
static const uint64_t number_mask = ((uint64_t)1 << 60) - 1;

static uint64_t start(mrt_tier *tier, mrt_tier_lane lane, void *data,
                      size_t place, size_t nbytes) {
  size_t slot = place >> MRT_TIER_PLACE;
  mrt_tier *t = ((mrt_tier_row *)tier)->at[slot];
  size_t offset = place & (((size_t)1 << MRT_TIER_PLACE) - 1);
  return (uint64_t)slot << number_bits |
         t->start(t, lane, data, offset, nbytes);
}

static int wait_for(mrt_tier *tier, mrt_tier_lane lane, uint64_t number) {
  mrt_tier *t = ((mrt_tier_row *)tier)->at[number >> number_bits];
  return t->wait(t, lane, number & number_mask);
}

static void drain(mrt_tier *tier) {
  mrt_tier_row *r = (mrt_tier_row *)tier;
  for (int i = 0; i < MRT_TIER_SLOTS; i++)
    if (r->at[i]) r->at[i]->drain(r->at[i]);
}

static void join(mrt_tier *tier) {
  mrt_tier_row *r = (mrt_tier_row *)tier;
  for (int i = 0; i < MRT_TIER_SLOTS; i++)
    if (r->at[i] && r->at[i]->join) r->at[i]->join(r->at[i]);
}

static void *memory(mrt_tier *tier, size_t place) {
  mrt_tier *t = ((mrt_tier_row *)tier)->at[place >> MRT_TIER_PLACE];
  size_t offset = place & (((size_t)1 << MRT_TIER_PLACE) - 1);
  return t->memory ? t->memory(t, offset) : NULL;
}

static void close_all(mrt_tier *tier) {
  mrt_tier_row *r = (mrt_tier_row *)tier;
  for (int i = 0; i < MRT_TIER_SLOTS; i++) {
    if (r->at[i]) r->at[i]->close(r->at[i]);
    r->at[i] = NULL;
  }
}

void mrt_tier_row_init(mrt_tier_row *row) {
  *row = (mrt_tier_row){ .tier = { NULL, start, wait_for, drain, join,
                                   close_all, memory } };
}
