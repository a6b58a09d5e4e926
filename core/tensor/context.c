/* context.c -- the context: everything of ours hangs on it
 *
 * SPDX-License-Identifier: MIT */
#include "mrt/frontend.h"
#include "tensor/slow.h"

#include <string.h>

/* Numbers begin anew after many, so an older one may look like one inside. */
int mrt_region_around(const mrt_context *ctx, int region) {
  int outer = ctx->outer_region[region - 1];
  return outer < region ? outer : 0;
}

bool mrt_region_inside(const mrt_context *ctx, int inner, int outer) {
  while (inner > outer) inner = mrt_region_around(ctx, inner);
  return inner == outer;
}

mrt_context *mrt_context_make(const mrt_allocator *a) {
  mrt_context *ctx = mrt_calloc(a, 1, sizeof *ctx);
  if (!ctx) return NULL;
  ctx->allocator = a, ctx->refs = 1;
  ctx->next_id = 1, ctx->next_key = 1;
  ctx->origin = (mrt_origin){ .file = "?" };
  mrt_arena_init(&ctx->names, a);
  return ctx;
}

void mrt_context_ref(mrt_context *ctx) { ctx->refs++; }

void mrt_context_unref(mrt_context *ctx) {
  if (--ctx->refs > 0) return;
  mrt_slow_close(ctx);
  mrt_beside_close(ctx->beside);
  mrt_communicators_close(ctx);
  if (ctx->device.close) ctx->device.close(&ctx->device);
  mrt_communicators_leave(ctx);
  mrt_arena_free(&ctx->names);
  mrt_release(ctx->allocator, ctx, sizeof *ctx);
}

MRT_API const char *mrt_message(const mrt_context *ctx) {
  return ctx->error.message;
}

MRT_API size_t mrt_budget_needed(const mrt_context *ctx) {
  return ctx->error.needed;
}

MRT_API void mrt_context_set_poison(mrt_context *ctx, bool poison) {
  ctx->poison = poison;
}

MRT_API void mrt_context_set_budget(mrt_context *ctx, size_t bytes) {
  ctx->budget = bytes;
}

/* ---- interrupts ---------------------------------------------------------- */

/* One word, so that a step that goes on and a thread that waits beside it cannot
 * come to different conclusions: who is first decides. */
static volatile int *interrupts_of(mrt_context *ctx) {
  return &mrt_communicators_home(ctx)->interrupted;
}

MRT_API void mrt_interrupt(mrt_context *ctx) {
  __atomic_fetch_or(interrupts_of(ctx), MRT_RAISED, __ATOMIC_SEQ_CST);
}

MRT_API bool mrt_interrupt_clear(mrt_context *ctx) {
  return __atomic_fetch_and(interrupts_of(ctx), ~MRT_RAISED, __ATOMIC_SEQ_CST) &
         MRT_RAISED;
}

bool mrt_interrupts_raised(mrt_context *ctx) {
  return *interrupts_of(ctx) & MRT_RAISED;
}

bool mrt_interrupts_heed(mrt_context *ctx, bool heed) {
  volatile int *at = interrupts_of(ctx);
  int none = 0;
  if (heed) return __atomic_fetch_and(at, ~MRT_DEAF, __ATOMIC_SEQ_CST), true;
  return __atomic_compare_exchange_n(at, &none, MRT_DEAF, false,
                                     __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST) ||
         (none & MRT_DEAF);
}

MRT_API const mrt_device_profile *
mrt_context_get_device(const mrt_context *ctx) {
  return &ctx->profile;
}

MRT_API mrt_status mrt_context_set_device(mrt_context *ctx,
                                          const mrt_device_profile *device) {
  mrt_device_profile own;
  mrt_device_describe(&ctx->device, &ctx->cpu, &own);
  if (device) MRT_TRY(mrt_device_check(device, &ctx->error));
  ctx->profile = device ? *device : own;
  if (ctx->profile.align < own.align) ctx->profile.align = own.align;
  ctx->device.align = ctx->profile.align;
  return MRT_OK;
}

MRT_API size_t mrt_context_available(const mrt_context *ctx) {
  const mrt_device *d = &ctx->device;
  if (ctx->available) return ctx->available;
  return d->available ? d->available(d) : 0;
}

MRT_API size_t mrt_context_overhead(const mrt_context *ctx) {
  size_t taken = ctx->device.taken ? ctx->device.taken(&ctx->device) : 0;
  return taken > ctx->bytes_now ? taken - ctx->bytes_now : 0;
}

MRT_API void mrt_context_set_available(mrt_context *ctx, size_t bytes) {
  ctx->available = bytes;
}

MRT_API void mrt_seed(mrt_context *ctx, uint64_t seed) {
  mrt_random_set(ctx, seed, 1);
}

MRT_API mrt_random mrt_random_get(const mrt_context *ctx) {
  return (mrt_random){ ctx->seed, ctx->next_key, ctx->seed_epoch };
}

MRT_API void mrt_random_set(mrt_context *ctx, uint64_t seed, uint64_t next) {
  ctx->seed = seed, ctx->next_key = next ? next : 1, ctx->seed_epoch++;
}

MRT_API mrt_context_info mrt_context_get_info(const mrt_context *ctx) {
  return (mrt_context_info){
    .device = ctx->device.name,
    .isa = ctx->device.isa,
    .threads = ctx->device.threads,
    .libraries = ctx->device.libraries,
    .bytes_now = ctx->bytes_now,
    .bytes_peak = ctx->bytes_peak,
    .alignment = ctx->device.align,
    .bytes_slow = ctx->slow_bytes,
    .bytes_host = ctx->host_bytes,
    .devices = ctx->device.count,
    .queues = ctx->device.queue != NULL,
  };
}

MRT_API void mrt_context_reset_peak(mrt_context *ctx) {
  ctx->bytes_peak = ctx->bytes_now;
}

static const char *intern(mrt_context *ctx, const char *text) {
  for (struct mrt_file *f = ctx->files; f; f = f->next)
    if (strcmp(f->text, text) == 0) return f->text;
  struct mrt_file *f = MRT_NEW(&ctx->names, struct mrt_file, 1);
  if (!f || !(f->text = mrt_arena_strdup(&ctx->names, text))) return "?";
  f->next = ctx->files;
  return (ctx->files = f)->text;
}

MRT_API void mrt_set_origin(mrt_context *ctx, const char *file, int line) {
  if (strcmp(ctx->origin.file, file) != 0) ctx->origin.file = intern(ctx, file);
  ctx->origin.line = line;
}

size_t mrt_round_up(const mrt_context *ctx, size_t nbytes) {
  size_t align = ctx->device.align;
  return (nbytes + align - 1) / align * align;
}

void *mrt_device_alloc(mrt_context *ctx, size_t nbytes, size_t *rounded) {
  *rounded = mrt_round_up(ctx, nbytes);
  if (ctx->memory_limit && *rounded > ctx->memory_limit - ctx->bytes_now)
    return NULL;
  /* The allocator has a say, so that specs can make this fail too. */
  void *ticket = mrt_calloc(ctx->allocator, 1, 1);
  if (!ticket) return NULL;
  mrt_release(ctx->allocator, ticket, 1);
  void *data = mrt_heap_get(ctx, *rounded);
  if (!data) data = ctx->device.alloc(&ctx->device, *rounded);
  if (!data) return NULL;
  ctx->bytes_now += *rounded;
  if (ctx->bytes_now > ctx->bytes_peak) ctx->bytes_peak = ctx->bytes_now;
  return data;
}

void mrt_device_free(mrt_context *ctx, void *data, size_t rounded) {
  if (!data) return;
  if (!mrt_heap_give(ctx, data, rounded))
    ctx->device.free(&ctx->device, data, rounded);
  ctx->bytes_now -= rounded;
}

mrt_status mrt_storage_new(mrt_context *ctx, size_t nbytes, mrt_storage **out) {
  mrt_storage *s = mrt_calloc(ctx->allocator, 1, sizeof *s);
  if (!s) return mrt_nomem(&ctx->error);
  s->data = mrt_device_alloc(ctx, nbytes, &s->nbytes);
  if (!s->data) {
    mrt_release(ctx->allocator, s, sizeof *s);
    MRT_TRY(mrt_device_works(&ctx->device, &ctx->error)); /* not full: failed */
    return mrt_fail(
        &ctx->error, MRT_ENOMEM,
        "out of memory: %zu bytes wanted for one tensor, %zu in use", nbytes,
        ctx->bytes_now);
  }
  s->ctx = ctx, s->refs = 1;
  mrt_context_ref(ctx);
  *out = s;
  return MRT_OK;
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
                                      s->mark, &ctx->error);
  if (status) mrt_storage_drop_host(s);
  return status;
}

mrt_status mrt_storage_fill_begin(mrt_storage *s) { return make_host(s); }

mrt_status mrt_storage_fill_end(mrt_storage *s) {
  mrt_context *ctx = s->ctx;
  if (!ctx->device.remote) return MRT_OK;
  mrt_status status =
      mrt_device_write(&ctx->device, s->data, s->host, s->nbytes, &ctx->error);
  s->mark = 0;
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
  mrt_home_free(ctx, s->home);
  mrt_release(ctx->allocator, s, sizeof *s);
  mrt_context_unref(ctx);
}
