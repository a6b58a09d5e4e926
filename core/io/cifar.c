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
  return mrt_array_check(s, a, s->map.size);
}

static mrt_status check_labels(mrt_source *s, const label *l, size_t offset,
                               size_t record) {
  for (size_t at = offset; at < s->map.size; at += record)
    if (s->map.data[at] > l->most)
      return mrt_source_fail(
          s, MRT_EDATA, "record %zu: %s %d, at most %d wanted", at / record + 1,
          l->name, s->map.data[at], l->most);
  return MRT_OK;
}

static mrt_status parse(mrt_source *s, const label *labels, int count) {
  MRT_TRY(mrt_gunzip(s, SIZE_MAX));
  size_t record = (size_t)count + PIXELS;
  if (s->map.size == 0 || s->map.size % record)
    return mrt_source_fail(s, MRT_EDATA, "%zu bytes, a multiple of %zu wanted",
                           s->map.size, record);
  int64_t n = (int64_t)(s->map.size / record);
  mrt_type ids = { .rank = 1, .dims = { n } };
  mrt_type images = { .rank = 4, .dims = { n, 3, 32, 32 } };
  for (int i = 0; i < count; i++) {
    MRT_TRY(check_labels(s, &labels[i], (size_t)i, record));
    MRT_TRY(add(s, labels[i].name, (size_t)i, record, ids));
  }
  return add(s, "images", (size_t)count, record, images);
}

mrt_status mrt_parse_cifar10(mrt_source *s) {
  return parse(s, &(label){ "labels", 9 }, 1);
}

mrt_status mrt_parse_cifar100(mrt_source *s) {
  return parse(s, (label[]){ { "coarse", 19 }, { "fine", 99 } }, 2);
}
