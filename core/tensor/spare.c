/* spare.c -- memory that was freed, kept for who asks for as much
 *
 * SPDX-License-Identifier: MIT */
#include "tensor/spare.h"
#include "base/sanitizers.h"
#include "tensor/context.h"

#include <string.h>

/* Bytes.  Below LEAST the pool is quicker. */
static const size_t SPARE = 256 << 20, LITTLE = 8 << 20, LEAST = 16 << 10;

#ifdef MRT_SANITIZES_ADDRESSES
enum { KEEPS = 0 }; /* that a use after it was freed is seen */
#else
enum { KEEPS = 1 };
#endif

static size_t most_of(const mrt_context *ctx) {
  return !KEEPS ? 0 : ctx->spare.arenas ? LITTLE : SPARE;
}

/* Of a size that the pool has a list for. */
static bool is_little(size_t nbytes) {
  return nbytes < LEAST && nbytes == mrt_pool_size(nbytes);
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
  if (is_little(nbytes)) return mrt_pool_get(&s->little, nbytes);
  for (int i = s->count - 1; i >= 0; i--)
    if (s->block[i].nbytes == nbytes) return take_out(s, i);
  return NULL;
}

static void drop_oldest(mrt_context *ctx) {
  size_t nbytes = ctx->spare.block[0].nbytes;
  ctx->device.free(&ctx->device, take_out(&ctx->spare, 0), nbytes);
}

static void drop_little(mrt_context *ctx) {
  size_t nbytes;
  for (void *data; (data = mrt_pool_take(&ctx->spare.little, &nbytes));)
    ctx->device.free(&ctx->device, data, nbytes);
}

void mrt_spare_trim(mrt_context *ctx, size_t most) {
  if (most < ctx->spare.bytes + ctx->spare.little.bytes) drop_little(ctx);
  while (ctx->spare.bytes > most) drop_oldest(ctx);
}

bool mrt_spare_give(mrt_context *ctx, void *data, size_t nbytes) {
  mrt_spare *s = &ctx->spare;
  size_t most = most_of(ctx);
  if (ctx->device.remote || nbytes > most) return false;
  if (is_little(nbytes)) return mrt_pool_give(&s->little, data, nbytes);
  if (nbytes < LEAST) return false;
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
