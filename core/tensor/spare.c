/* spare.c -- memory that was freed, kept for who asks for as much
 *
 * SPDX-License-Identifier: MIT */
#include "tensor/spare.h"
#include "base/sanitizers.h"
#include "tensor/context.h"

#include <string.h>

/* Bytes.  Below LEAST the allocator's own lists are as quick. */
static const size_t SPARE = 256 << 20, LITTLE = 8 << 20, LEAST = 16 << 10;

#ifdef MRT_SANITIZES_ADDRESSES
enum { KEEPS = 0 }; /* that a use after it was freed is seen */
#else
enum { KEEPS = 1 };
#endif

static size_t most_of(const mrt_context *ctx) {
  return !KEEPS ? 0 : ctx->spare.arenas ? LITTLE : SPARE;
}

static void *take_out(mrt_spare *s, int i) {
  void *data = s->block[i].data;
  s->bytes -= s->block[i].nbytes, s->count--;
  memmove(&s->block[i], &s->block[i + 1],
          (size_t)(s->count - i) * sizeof s->block[0]);
  return data;
}

void *mrt_spare_get(mrt_context *ctx, size_t nbytes) {
  mrt_spare *s = &ctx->spare;
  for (int i = s->count - 1; i >= 0; i--)
    if (s->block[i].nbytes == nbytes) return take_out(s, i);
  return NULL;
}

static void drop_oldest(mrt_context *ctx) {
  size_t nbytes = ctx->spare.block[0].nbytes;
  ctx->device.free(&ctx->device, take_out(&ctx->spare, 0), nbytes);
}

void mrt_spare_trim(mrt_context *ctx, size_t most) {
  while (ctx->spare.bytes > most) drop_oldest(ctx);
}

bool mrt_spare_give(mrt_context *ctx, void *data, size_t nbytes) {
  mrt_spare *s = &ctx->spare;
  size_t most = most_of(ctx);
  if (ctx->device.remote || nbytes < LEAST || nbytes > most) return false;
  mrt_spare_trim(ctx, most - nbytes);
  if (s->count == MRT_SPARE_BLOCKS) drop_oldest(ctx);
  s->block[s->count++] = (struct mrt_spare_block){ data, nbytes };
  s->bytes += nbytes;
  return true;
}

void mrt_spare_arenas(mrt_context *ctx, int change) {
  ctx->spare.arenas += change;
  mrt_spare_trim(ctx, most_of(ctx));
}
