/* cache.c -- the ids of words that have been met
 *
 * Most words of a text are few.  Of fixed size, made with the first word; when
 * it is full everything is forgotten.
 *
 * SPDX-License-Identifier: MIT */
#include "text/text.h"

#include <string.h>

enum {
  ENTRIES = 1 << 16,
  MOST = ENTRIES / 2,
  TEXT = 1 << 20,
  IDS = 1 << 18,
  LONGEST = 256,
  LONGEST_SEARCH = 32,
};

bool mrt_cache_get(const mrt_word_cache *c, const char *p, size_t n,
                   uint64_t *hash, const int32_t **ids, size_t *count) {
  *hash = 0;
  if (n > LONGEST) return false;
  *hash = mrt_hash_bytes(p, n) | 1;
  if (!c->entries) return false;
  size_t i = (size_t)(*hash >> 20) % ENTRIES;
  for (int k = 0; k < LONGEST_SEARCH; k++, i = (i + 1) % ENTRIES) {
    const mrt_word_entry *e = &c->entries[i];
    if (!e->hash) return false;
    if (e->hash != *hash || e->size != n || memcmp(c->text + e->at, p, n) != 0)
      continue;
    *ids = c->ids + e->ids, *count = e->count;
    return true;
  }
  return false;
}

static bool make(mrt_context *ctx, mrt_word_cache *c) {
  if (c->entries) return true;
  mrt_word_cache made = { 0 };
  made.entries = mrt_calloc(ctx->allocator, ENTRIES, sizeof *made.entries);
  made.text = mrt_calloc(ctx->allocator, TEXT, 1);
  made.ids = mrt_calloc(ctx->allocator, IDS, sizeof *made.ids);
  if (!made.entries || !made.text || !made.ids)
    return mrt_cache_free(ctx, &made), false;
  *c = made;
  return true;
}

void mrt_cache_put(mrt_context *ctx, mrt_word_cache *c, const char *p, size_t n,
                   uint64_t hash, const int32_t *ids, size_t count) {
  if (!hash || count > LONGEST || !make(ctx, c)) return;
  if (c->used == MOST || TEXT - c->text_used < n || IDS - c->ids_used < count) {
    memset(c->entries, 0, ENTRIES * sizeof *c->entries);
    c->used = c->text_used = c->ids_used = 0;
  }
  size_t i = (size_t)(hash >> 20) % ENTRIES;
  for (int k = 0; c->entries[i].hash; k++, i = (i + 1) % ENTRIES)
    if (k == LONGEST_SEARCH) return;
  c->entries[i] = (mrt_word_entry){ hash, c->text_used, (uint32_t)n,
                                    c->ids_used, (uint32_t)count };
  if (n) memcpy(c->text + c->text_used, p, n);
  if (count) memcpy(c->ids + c->ids_used, ids, count * sizeof *ids);
  c->text_used += (uint32_t)n, c->ids_used += (uint32_t)count;
  c->used++;
}

void mrt_cache_free(mrt_context *ctx, mrt_word_cache *c) {
  mrt_release(ctx->allocator, c->entries, ENTRIES * sizeof *c->entries);
  mrt_release(ctx->allocator, c->text, TEXT);
  mrt_release(ctx->allocator, c->ids, IDS * sizeof *c->ids);
  *c = (mrt_word_cache){ 0 };
}
