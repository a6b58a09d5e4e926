/* rows.c -- some rows of an array, now or soon
 *
 * SPDX-License-Identifier: MIT */
#include "io/io.h"

#include <string.h>

/* The type of `n` windows of `length` rows, 0: of n rows. */
static mrt_status rows_type(mrt_source *s, const mrt_array *a, int64_t n,
                            int64_t length, mrt_type *type) {
  int lead = length ? 2 : 1;
  if (a->fortran || a->type.rank == 0)
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

MRT_API mrt_status mrt_source_read_rows(mrt_source *s, int i,
                                        const int64_t *rows, int64_t n,
                                        int64_t length, mrt_tensor **out) {
  mrt_type type;
  mrt_wish w;
  mrt_tensor *t = NULL;
  const uint8_t *from;
  MRT_TRY(wish(s, i, rows, n, length, &w, &type));
  MRT_TRY(mrt_source_find(s, &s->arrays[i], &from));
  mrt_storage *ready = mrt_ahead_take(s, &w);
  if (ready) {
    MRT_TRY(mrt_source_wrap(s, &type, ready, &t));
    return mrt_source_finish(s, t, MRT_OK, out);
  }
  MRT_TRY(mrt_source_tensor(s, &type, &t));
  uint8_t *to = t->storage->host;
  mrt_status status = MRT_OK;
  for (int64_t k = 0; k < n && !status; k++, to += w.step)
    status = mrt_array_rows(w.array, from + (size_t)rows[k] * w.array->stride,
                            w.each, to, &s->ctx->error);
  return mrt_source_finish(s, t, status, out);
}

MRT_API void mrt_source_expect(mrt_source *s, int i, const int64_t *rows,
                               int64_t n, int64_t length) {
  const mrt_array *a = &s->arrays[i];
  mrt_type type;
  mrt_wish w;
  bool there = a->unpacked ? a->whole != NULL : a->checked;
  if (!there || a->stored == MRT_STORED_COUNT ||
      wish(s, i, rows, n, length, &w, &type))
    return; /* reading will say why */
  const uint8_t *from = (a->unpacked ? a->whole : a->map->data) + a->offset;
  if (mrt_ahead_begin(s, &w, from) || a->unpacked) return;
  for (int64_t k = 0; k < n; k++)
    mrt_map_advise(a->map, a->offset + (size_t)rows[k] * a->stride,
                   (size_t)w.each * a->stride);
}
