/* rows.c -- some rows of an array, now or soon
 *
 * SPDX-License-Identifier: MIT */
#include "io/io.h"

#include <string.h>

/* The type of `n` windows of `length` rows, 0: of n rows. */
static mrt_status rows_type(mrt_source *s, const mrt_array *a, int64_t n,
                            int64_t length, mrt_type *type) {
  int lead = length ? 2 : 1;
  MRT_TRY(mrt_array_readable(s, a));
  if (a->fortran || a->type.rank == 0 ||
      mrt_array_width(a) % mrt_stored_numbers(a->stored))
    return mrt_source_fail(s, MRT_EVALUE, "'%.80s' can only be read whole",
                           a->name);
  if (a->type.rank - 1 + lead > MRT_MAX_RANK)
    return mrt_source_fail(s, MRT_EVALUE, "'%.80s' has too many dimensions",
                           a->name);
  *type = (mrt_type){ .dtype = a->type.dtype,
                      .rank = a->type.rank - 1 + lead,
                      .dims = { n, length } };
  memcpy(type->dims + lead, a->type.dims + 1,
         (size_t)(a->type.rank - 1) * sizeof *type->dims);
  return MRT_OK;
}

static mrt_status check_rows(mrt_source *s, const mrt_wish *w) {
  int64_t count = mrt_array_count(w->array);
  for (int64_t i = 0; i < w->n; i++)
    if (w->each < 1 || w->rows[i] < 0 || w->rows[i] > count - w->each)
      return mrt_source_fail(
          s, MRT_EVALUE, "%lld rows from %lld on of '%.80s', which has %lld",
          (long long)w->each, (long long)w->rows[i], w->array->name,
          (long long)count);
  return MRT_OK;
}

/* What is wanted, and its type. */
static mrt_status wish(mrt_source *s, int i, const int64_t *rows, int64_t n,
                       int64_t length, mrt_wish *w, mrt_type *type) {
  const mrt_array *a = &s->arrays[i];
  *w = (mrt_wish){ a, rows, n, length ? length : 1, 0 };
  MRT_TRY(rows_type(s, a, n, length, type));
  MRT_TRY(check_rows(s, w));
  MRT_TRY(mrt_type_check(type, "read", &s->ctx->error));
  if (n) w->step = mrt_type_bytes(type) / (size_t)n;
  return MRT_OK;
}

static mrt_status read_now(const mrt_wish *w, const mrt_bytes *in, uint8_t *to,
                           mrt_error *e) {
  mrt_array_reader r = { w->array, in, NULL, e };
  for (int64_t k = 0, run; k < w->n; k += run) {
    run = mrt_wish_run(w, k);
    MRT_TRY(
        mrt_read_rows(&r, w->rows[k], run * w->each, to + w->step * (size_t)k));
  }
  return MRT_OK;
}

MRT_API mrt_status mrt_source_read_rows(mrt_source *s, int i,
                                        const int64_t *rows, int64_t n,
                                        int64_t length, mrt_tensor **out) {
  mrt_type type;
  mrt_wish w;
  mrt_tensor *t = NULL;
  const mrt_bytes *in = NULL;
  mrt_array *a = &s->arrays[i];
  MRT_TRY(wish(s, i, rows, n, length, &w, &type));
  MRT_TRY(mrt_source_find(s, a, &in));
  if (!a->late) MRT_TRY(mrt_array_verify(s, a));
  mrt_storage *ready = mrt_ahead_take(s, &w);
  if (ready) {
    MRT_TRY(mrt_source_wrap(s, &type, ready, &t));
    return mrt_source_finish(s, t, MRT_OK, out);
  }
  MRT_TRY(mrt_source_tensor(s, &type, &t));
  mrt_status status = read_now(&w, in, t->storage->host, &s->ctx->error);
  return mrt_source_finish(s, t, status, out);
}

MRT_API void mrt_source_expect(mrt_source *s, int i, const int64_t *rows,
                               int64_t n, int64_t length) {
  const mrt_array *a = &s->arrays[i];
  mrt_type type;
  mrt_wish w;
  bool there = a->unpacked ? a->whole.data != NULL : a->checked || a->late;
  if (!there || wish(s, i, rows, n, length, &w, &type))
    return; /* reading will say why */
  if (mrt_ahead_begin(s, &w, a->unpacked ? &a->whole : a->bytes) || a->unpacked)
    return;
  for (int64_t k = 0; k < n; k++)
    mrt_bytes_advise(a->bytes, a->offset + (size_t)rows[k] * a->stride,
                     (size_t)w.each * a->stride);
}
