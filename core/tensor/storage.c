/* storage.c -- bytes of the device, and storages
 *
 * SPDX-License-Identifier: MIT */
#include "tensor/storage.h"
#include "mrt/frontend.h"
#include "tensor/context.h"

#include <string.h>

size_t mrt_round_up(const mrt_context *ctx, size_t nbytes) {
  size_t align = ctx->device.align;
  return (nbytes + align - 1) / align * align;
}

/* One of the ways in which the device gives bytes. */
typedef void *(*giver)(const mrt_device *device, size_t nbytes);

static void *get_bytes(mrt_context *ctx, giver give, size_t nbytes,
                       size_t *rounded) {
  *rounded = mrt_round_up(ctx, nbytes);
  if (ctx->memory.limit && *rounded > ctx->memory.limit - ctx->memory.now)
    return NULL;
  /* The allocator has a say, so that specs can make this fail too. */
  if (ctx->allocator != &mrt_malloc_allocator) {
    void *ticket = mrt_calloc(ctx->allocator, 1, 1);
    if (!ticket) return NULL;
    mrt_release(ctx->allocator, ticket, 1);
  }
  void *data = mrt_heap_get(ctx, *rounded);
  if (!data) data = mrt_spare_get(ctx, *rounded);
  if (!data) data = give(&ctx->device, *rounded);
  if (!data && (ctx->spare.count || ctx->spare.little.bytes)) {
    mrt_spare_trim(ctx, 0);
    data = give(&ctx->device, *rounded);
  }
  if (!data) return NULL;
  ctx->memory.now += *rounded;
  if (ctx->memory.limit) /* of what is kept, too */
    mrt_spare_trim(ctx, ctx->memory.limit - ctx->memory.now);
  if (ctx->memory.now > ctx->memory.peak) ctx->memory.peak = ctx->memory.now;
  return data;
}

void *mrt_device_alloc(mrt_context *ctx, size_t nbytes, size_t *rounded) {
  return get_bytes(ctx, ctx->device.alloc, nbytes, rounded);
}

void *mrt_device_reserve(mrt_context *ctx, size_t nbytes, size_t *rounded) {
  const mrt_device *d = &ctx->device;
  return get_bytes(ctx, d->reserve ? d->reserve : d->alloc, nbytes, rounded);
}

void mrt_device_free(mrt_context *ctx, void *data, size_t rounded) {
  if (!data) return;
  if (!mrt_heap_give(ctx, data, rounded) && !mrt_spare_give(ctx, data, rounded))
    ctx->device.free(&ctx->device, data, rounded);
  ctx->memory.now -= rounded;
}

static mrt_status new_storage(mrt_context *ctx, giver give, size_t nbytes,
                              mrt_storage **out) {
  mrt_storage *s = mrt_pool_calloc(&ctx->objects, ctx->allocator, sizeof *s);
  if (!s) return mrt_nomem(&ctx->error);
  s->data = get_bytes(ctx, give, nbytes, &s->nbytes);
  if (!s->data) {
    mrt_pool_release(&ctx->objects, ctx->allocator, s, sizeof *s);
    MRT_TRY(mrt_device_works(&ctx->device, &ctx->error)); /* not full: failed */
    return mrt_fail(
        &ctx->error, MRT_ENOMEM,
        "out of memory: %zu bytes wanted for one tensor, %zu in use", nbytes,
        ctx->memory.now);
  }
  /* What lies behind the elements goes with them into the file of a swap tier. */
  if (!ctx->device.remote)
    memset((char *)s->data + nbytes, 0, s->nbytes - nbytes);
  s->ctx = ctx, s->refs = 1;
  mrt_context_ref(ctx);
  *out = s;
  return MRT_OK;
}

mrt_status mrt_storage_new(mrt_context *ctx, size_t nbytes, mrt_storage **out) {
  return new_storage(ctx, ctx->device.alloc, nbytes, out);
}

/* Bytes.  Of less the copy takes no longer than to have it apart. */
enum { WORTH_APART = 1 << 20 };

mrt_status mrt_storage_new_apart(mrt_context *ctx, size_t nbytes,
                                 mrt_storage **out) {
  const mrt_remote *remote = ctx->device.remote;
  if (!remote || !remote->alloc_apart || nbytes < WORTH_APART)
    return mrt_storage_new(ctx, nbytes, out);
  MRT_TRY(new_storage(ctx, remote->alloc_apart, nbytes, out));
  (*out)->apart = true;
  return MRT_OK;
}

mrt_status mrt_storage_write(mrt_storage *s, const void *data, size_t nbytes) {
  mrt_context *ctx = s->ctx;
  const mrt_device *d = &ctx->device;
  bool apart = s->apart;
  s->apart = false;
  s->fence = 0;
  return apart ? d->remote->write_apart(d, s->data, data, nbytes, &ctx->error)
               : mrt_device_write(d, s->data, data, nbytes, &ctx->error);
}

void mrt_storage_ref(mrt_storage *s) { s->refs++; }

/* ---- bytes for the host -------------------------------------------------- */

static mrt_status make_host(mrt_storage *s) {
  if (!s->ctx->device.remote) return s->host = s->data, MRT_OK;
  if (!s->host) s->host = mrt_calloc(s->ctx->allocator, 1, s->nbytes);
  return s->host ? MRT_OK : mrt_nomem(&s->ctx->error);
}

mrt_status mrt_storage_read(mrt_storage *s) {
  mrt_context *ctx = s->ctx;
  MRT_TRY(make_host(s));
  if (!ctx->device.remote) return MRT_OK;
  mrt_status status = mrt_device_read(&ctx->device, s->host, s->data, s->nbytes,
                                      s->fence, &ctx->error);
  if (status) mrt_storage_drop_host(s);
  return status;
}

mrt_status mrt_storage_fill_begin(mrt_storage *s) { return make_host(s); }

mrt_status mrt_storage_fill_end(mrt_storage *s) {
  mrt_context *ctx = s->ctx;
  if (!ctx->device.remote) return MRT_OK;
  mrt_status status = mrt_storage_write(s, s->host, s->nbytes);
  mrt_storage_drop_host(s);
  return status;
}

void mrt_storage_drop_host(mrt_storage *s) {
  if (s->ctx->device.remote && s->host)
    mrt_release(s->ctx->allocator, s->host, s->nbytes);
  s->host = NULL;
}

void mrt_storage_unref(mrt_storage *s) {
  if (!s || --s->refs > 0) return;
  mrt_context *ctx = s->ctx;
  mrt_storage_drop_host(s);
  mrt_device_free(ctx, s->data, s->nbytes);
  mrt_swap_location_free(ctx, s->location);
  mrt_pool_release(&ctx->objects, ctx->allocator, s, sizeof *s);
  mrt_context_unref(ctx);
}
