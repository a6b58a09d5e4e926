/* cifar.c -- CIFAR-10 and CIFAR-100, the binary version
 *
 * Records of one label, or a coarse and a fine one, and 3 x 32 x 32 bytes:
 * red, green, blue, each row by row.  No header: the size must fit, and the
 * labels must be labels.
 *
 *   from  www.cs.toronto.edu/~kriz/cifar.html
 *
 * SPDX-License-Identifier: MIT */
#include "io/io.h"
#include "tensor/tensor.h"

enum { PIXELS = 3 * 32 * 32 };

typedef struct label {
  const char *name;
  int most;
} label;

static mrt_status add(mrt_source *s, const char *name, size_t offset,
                      size_t record, mrt_type type) {
  mrt_array *a = mrt_source_add(s, name);
  if (!a) return mrt_nomem(&s->ctx->error);
  a->stored = MRT_STORED_u8, a->dtype = "u8";
  a->type = type, a->offset = offset, a->stride = record;
  return mrt_array_check(s, a, s->bytes.size);
}

/* The labels of the array that was added last. */
static mrt_status check_labels(mrt_source *s, const label *l) {
  uint8_t data[1024];
  const mrt_array *a = &s->arrays[s->count - 1];
  mrt_array_reader r = { a, a->bytes, NULL, &s->ctx->error };
  int64_t count = mrt_array_count(a), n;
  for (int64_t first = 0; first < count; first += n) {
    n = count - first < 1024 ? count - first : 1024;
    mrt_status status = mrt_read_rows(&r, first, n, data);
    if (status) return mrt_source_fail(s, status, "%s", mrt_message(s->ctx));
    for (int64_t i = 0; i < n; i++)
      if (data[i] > l->most)
        return mrt_source_fail(
            s, MRT_EDATA, "record %lld: %s %d, at most %d wanted",
            (long long)(first + i + 1), l->name, data[i], l->most);
  }
  return MRT_OK;
}

static mrt_status parse(mrt_source *s, const label *labels, int count) {
  MRT_TRY(mrt_gunzip(s, SIZE_MAX));
  size_t record = (size_t)count + PIXELS;
  if (s->bytes.size == 0 || s->bytes.size % record)
    return mrt_source_fail(s, MRT_EDATA, "%zu bytes, a multiple of %zu wanted",
                           s->bytes.size, record);
  int64_t n = (int64_t)(s->bytes.size / record);
  mrt_type ids = { .rank = 1, .dims = { n } };
  mrt_type images = { .rank = 4, .dims = { n, 3, 32, 32 } };
  for (int i = 0; i < count; i++) {
    MRT_TRY(add(s, labels[i].name, (size_t)i, record, ids));
    MRT_TRY(check_labels(s, &labels[i]));
  }
  return add(s, "images", (size_t)count, record, images);
}

mrt_status mrt_parse_cifar10(mrt_source *s) {
  return parse(s, &(label){ "labels", 9 }, 1);
}

mrt_status mrt_parse_cifar100(mrt_source *s) {
  return parse(s, (label[]){ { "coarse", 19 }, { "fine", 99 } }, 2);
}
