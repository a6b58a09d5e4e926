/* fuzz_bpe.c -- vocabularies, merges and texts, whatever they say
 *
 * An input is vocab.json, a zero byte, merges.txt, a zero byte, a text.  What
 * is encoded must give the text back.
 *
 * SPDX-License-Identifier: MIT */
#include "io/bpe.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The bytes up to the next zero, as a source without a format. */
static mrt_source *take(mrt_context *ctx, const uint8_t **data, size_t *size) {
  mrt_source *s = NULL;
  const uint8_t *stop = memchr(*data, 0, *size);
  size_t n = stop ? (size_t)(stop - *data) : *size;
  /* "csv" finds nothing wrong with an empty file */
  if (mrt_source_from(ctx, "fuzz", "csv", *data, 0, &s) != MRT_OK) abort();
  s->bytes.size = n;
  *data += n + (stop != NULL), *size -= n + (stop != NULL);
  return s;
}

static void encode(mrt_bpe *bpe, const char *text, size_t size) {
  int32_t *ids = malloc(size * sizeof *ids + 1);
  size_t count = 0, at = 0, n;
  if (!ids) abort();
  if (mrt_bpe_encode(bpe, text, size, ids, &count) == MRT_OK) {
    for (size_t i = 0; i < count; at += n, i++) {
      const char *bytes = mrt_bpe_token(bpe, ids[i], &n);
      if (!bytes || n > size - at || memcmp(bytes, text + at, n)) abort();
    }
    if (at != size) abort();
  }
  free(ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static mrt_context *ctx;
  mrt_bpe *bpe = NULL;
  if (!ctx && mrt_context_new(NULL, &ctx) != MRT_OK) abort();
  mrt_source *vocab = take(ctx, &data, &size);
  mrt_source *merges = take(ctx, &data, &size);
  if (mrt_bpe_from(vocab, merges, &bpe) == MRT_OK)
    encode(bpe, (const char *)data, size);
  mrt_bpe_free(bpe);
  mrt_source_free(vocab);
  mrt_source_free(merges);
  return 0;
}
