/* buffer.c -- bytes and ids that grow, and a hash of bytes
 *
 * SPDX-License-Identifier: MIT */
#include "text/text.h"

#include <string.h>

/* `items` of `size` bytes get room for `count` + `more`. */
static mrt_status grow(mrt_context *ctx, void **items, size_t count,
                       size_t more, size_t *room, size_t size) {
  size_t most = SIZE_MAX / 4 / size;
  if (more > most || count > most - more) return mrt_nomem(&ctx->error);
  size_t wanted = count + more, next = *room * 2 > 64 ? *room * 2 : 64;
  if (next < wanted) next = wanted;
  void *grown = mrt_resize(ctx->allocator, *items, *room * size, next * size);
  if (!grown) return mrt_nomem(&ctx->error);
  *items = grown, *room = next;
  return MRT_OK;
}

mrt_status mrt_chars_room(mrt_context *ctx, mrt_chars *c, size_t more) {
  if (c->room - c->size >= more && c->at) return MRT_OK;
  return grow(ctx, (void **)&c->at, c->size, more, &c->room, 1);
}

mrt_status mrt_chars_put(mrt_context *ctx, mrt_chars *c, const void *bytes,
                         size_t n) {
  MRT_TRY(mrt_chars_room(ctx, c, n));
  if (n) memcpy(c->at + c->size, bytes, n);
  c->size += n;
  return MRT_OK;
}

void mrt_chars_free(mrt_context *ctx, mrt_chars *c) {
  mrt_release(ctx->allocator, c->at, c->room);
  *c = (mrt_chars){ 0 };
}

mrt_status mrt_ids_room(mrt_context *ctx, mrt_id_list *l, size_t more) {
  if (l->room - l->count >= more && l->at) return MRT_OK;
  return grow(ctx, (void **)&l->at, l->count, more, &l->room, sizeof *l->at);
}

mrt_status mrt_ids_put(mrt_context *ctx, mrt_id_list *l, int32_t id) {
  MRT_TRY(mrt_ids_room(ctx, l, 1));
  l->at[l->count++] = id;
  return MRT_OK;
}

void mrt_ids_free(mrt_context *ctx, mrt_id_list *l) {
  mrt_release(ctx->allocator, l->at, l->room * sizeof *l->at);
  *l = (mrt_id_list){ 0 };
}

/* Eight bytes a turn, each mixed by a multiplication. */
static uint64_t mix(uint64_t h, uint64_t v) {
  h = (h ^ v) * 0x9fb21c651e98df25;
  return h ^ h >> 29;
}

uint64_t mrt_hash_bytes(const char *p, size_t n) {
  uint64_t h = 0x9e3779b97f4a7c15 ^ n, v = 0;
  for (; n >= 8; p += 8, n -= 8) {
    memcpy(&v, p, 8);
    h = mix(h, v);
  }
  v = 0;
  for (size_t i = 0; i < n; i++) v |= (uint64_t)(uint8_t)p[i] << 8 * i;
  return mix(mix(h, v), 0);
}

mrt_slice mrt_slice_copy(mrt_arena *arena, const char *p, size_t n) {
  char *copy = mrt_arena_alloc(arena, n + 1, 1);
  if (copy && n) memcpy(copy, p, n);
  return (mrt_slice){ copy, n };
}
