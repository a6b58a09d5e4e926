/* rows.c -- some rows of a tensor as a new one, for mini-batches; rows of results
 * of micro-batches into those of the batch
 *
 * Mini-batches' go straight from the one's bytes to the other's: beside the result
 * nothing is taken but, on a device whose memory is its own, a copy of them all
 * for the host, which stays there for the next mini-batch.
 *
 * SPDX-License-Identifier: MIT */
#include "mrt/frontend.h"
#include "run/run.h"

#include <string.h>

static mrt_status check(const mrt_tensor *t, const int64_t *rows, int64_t n) {
  mrt_error *e = &t->ctx->error;
  if (t->type.rank == 0) return mrt_fail(e, MRT_ESHAPE, "a scalar has no rows");
  for (int64_t i = 0; i < n; i++)
    if (rows[i] < 0 || rows[i] >= t->type.dims[0])
      return mrt_fail(e, MRT_EVALUE, "there is no row %lld of %lld",
                      (long long)rows[i], (long long)t->type.dims[0]);
  return MRT_OK;
}

static void gather(const mrt_tensor *t, const int64_t *rows, int64_t n,
                   char *out) {
  const char *data = mrt_tensor_data(t);
  size_t width = n ? mrt_type_bytes(&t->type) / (size_t)t->type.dims[0] : 0;
  for (int64_t i = 0; i < n; i++)
    memcpy(out + (size_t)i * width, data + (size_t)rows[i] * width, width);
}

/* Only a variable's bytes change, so a copy for the host is as good as new. */
static mrt_status read(mrt_tensor *t) {
  bool is_copied = t->ctx->device.remote && t->storage && t->storage->host;
  return is_copied && !t->variable ? MRT_OK : mrt_tensors_read(t->ctx, &t, 1);
}

MRT_API mrt_status mrt_tensor_rows(mrt_tensor *t, const int64_t *rows,
                                   int64_t n, mrt_tensor **out) {
  mrt_context *ctx = t->ctx;
  mrt_type type = t->type;
  mrt_storage *s;
  MRT_TRY(check(t, rows, n));
  MRT_TRY(read(t));
  type.dims[0] = n;
  MRT_TRY(mrt_type_check(&type, "rows", &ctx->error));
  MRT_TRY(mrt_storage_new_apart(ctx, mrt_type_bytes(&type), &s));
  mrt_status status = mrt_storage_fill_begin(s);
  if (!status) gather(t, rows, n, s->host);
  if (!status) status = mrt_storage_fill_end(s);
  mrt_tensor *made = status ? NULL : mrt_tensor_new(ctx, &type);
  if (!made)
    return mrt_storage_unref(s), status ? status : mrt_nomem(&ctx->error);
  made->storage = s, made->handles = 1;
  return *out = made, MRT_OK;
}

/* ---- into another --------------------------------------------------------- */

static mrt_status check_put(const mrt_tensor *to, int64_t row,
                            const mrt_tensor *from) {
  mrt_error *e = &to->ctx->error;
  mrt_type a = to->type, b = from->type;
  if (!to->storage || !from->storage)
    return mrt_fail(e, MRT_ESTATE, "rows of what is pending");
  if (a.dtype != b.dtype)
    return mrt_fail(e, MRT_EDTYPE, "rows of %s put into %s",
                    mrt_dtype_name(b.dtype), mrt_dtype_name(a.dtype));
  if (a.rank == 0 || b.rank == 0)
    return mrt_fail(e, MRT_ESHAPE, "a scalar has no rows");
  int64_t rows = a.dims[0], n = b.dims[0];
  a.dims[0] = b.dims[0] = 1;
  if (!mrt_type_equal(&a, &b))
    return mrt_fail(e, MRT_ESHAPE, "rows of another shape");
  if (row < 0 || row > rows || n > rows - row)
    return mrt_fail(e, MRT_EVALUE, "rows %lld to %lld of %lld", (long long)row,
                    (long long)(row + n), (long long)rows);
  return MRT_OK;
}

MRT_API mrt_status mrt_tensor_put_rows(mrt_tensor *to, int64_t row,
                                       const mrt_tensor *from) {
  MRT_TRY(check_put(to, row, from));
  size_t bytes = mrt_type_bytes(&from->type), rows = (size_t)from->type.dims[0];
  if (bytes == 0) return MRT_OK;
  char *at = (char *)to->storage->data + bytes / rows * (size_t)row;
  return mrt_device_copy(&to->ctx->device, at, from->storage->data, bytes,
                         &to->ctx->error);
}
