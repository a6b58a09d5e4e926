/* fuzz_source.c -- files of arrays of the format MRT_FORMAT, whatever they say
 *
 * A file is opened and all of it is read that is not too large.  Whatever is
 * in it, no request for memory is far beyond its size, and arrays lie within
 * it: what is read is summed up, under the address sanitizer.
 *
 * SPDX-License-Identifier: MIT */
#include "io/io.h"

#include <stdio.h>
#include <stdlib.h>

enum { LARGEST_READ = 1 << 22, AHEAD = 16 };

static size_t most; /* bytes of one request */

static void *resize(void *user, void *block, size_t old_size, size_t new_size) {
  (void)user, (void)old_size;
  if (new_size > most) {
    fprintf(stderr, "a request for %zu bytes\n", new_size);
    abort();
  }
  if (new_size == 0) return free(block), NULL;
  return realloc(block, new_size);
}

static unsigned sum(const uint8_t *data, size_t size) {
  unsigned total = 0;
  for (size_t i = 0; i < size; i++) total += data[i];
  return total;
}

static unsigned look(mrt_source *s, int i) {
  mrt_array_info a = mrt_source_get(s, i);
  mrt_tensor *t = NULL;
  int64_t rows[2] = { 0, 1 };
  if (!a.readable || mrt_type_bytes(&a.type) > LARGEST_READ) return 0;
  unsigned total = 0;
  if (mrt_source_read(s, i, &t) == MRT_OK)
    total += sum(mrt_tensor_data(t), mrt_type_bytes(&a.type));
  mrt_tensor_unref(t);
  t = NULL;
  /* By a thread, whose start takes ten times as long as all else. */
  if (s->bytes.size % AHEAD == 0) mrt_source_expect(s, i, rows, 2, 1);
  if (mrt_source_read_rows(s, i, rows, 2, 1, &t) == MRT_OK)
    total += sum(mrt_tensor_data(t), mrt_type_bytes(mrt_tensor_type(t)));
  mrt_tensor_unref(t);
  return total;
}

static unsigned look_at_table(mrt_source *s) {
  int columns[2] = { 0, 1 };
  double missing = 0;
  mrt_tensor *t = NULL;
  mrt_field f = { .text = NULL };
  unsigned total = 0;
  if (!s->separator) return 0;
  for (size_t at = 0; mrt_source_next_field(s, &at, &f);)
    total += sum((const uint8_t *)f.text, f.size);
  if (mrt_source_numbers(s, columns, s->count < 2 ? s->count : 2, 1, &missing,
                         &t) == MRT_OK)
    total += sum(mrt_tensor_data(t), mrt_type_bytes(mrt_tensor_type(t)));
  mrt_tensor_unref(t);
  return total;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const mrt_allocator allocator = { resize, NULL };
  static mrt_context *ctx;
  static unsigned total;
  /* deflate makes of a byte at most 1032 */
  most = (1 << 22) + 1040 * size;
  mrt_context_options options = { .allocator = &allocator, .threads = 1 };
  if (!ctx && mrt_context_new(&options, &ctx) != MRT_OK) abort();
  mrt_source *s = NULL;
  if (mrt_source_from(ctx, "fuzz", MRT_FORMAT, data, size, &s) == MRT_OK) {
    for (int i = 0; i < mrt_source_count(s); i++) total += look(s, i);
    total += look_at_table(s);
    for (int i = 0; mrt_source_metadata(s, i, NULL); i++) total++;
  }
  mrt_source_free(s);
  return 0;
}
