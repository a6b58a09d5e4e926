/* fuzz_bpe.c -- vocabularies, merges and texts, whatever they say
 *
 * An input is vocab.json, a zero byte, merges.txt, a zero byte, a text.  What
 * is encoded must give the text back.
 *
 * SPDX-License-Identifier: MIT */
#include "text/json.h"

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

static void encode(mrt_tokenizer *t, const char *text, size_t size) {
  const int32_t *ids;
  int32_t *kept;
  const char *back;
  size_t count, n;
  if (mrt_tokenizer_encode(t, text, size, 0, &ids, &count) != MRT_OK) return;
  if (!(kept = malloc(count * sizeof *kept + 1))) abort();
  memcpy(kept, ids, count * sizeof *kept);
  if (mrt_tokenizer_decode(t, kept, count, false, &back, &n) != MRT_OK) abort();
  if (n != size || (n && memcmp(back, text, n))) abort();
  free(kept);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static mrt_context *ctx;
  mrt_tokenizer *t = NULL;
  if (!ctx && mrt_context_new(NULL, &ctx) != MRT_OK) abort();
  mrt_source *vocab = take(ctx, &data, &size);
  mrt_source *merges = take(ctx, &data, &size);
  if (mrt_tokenizer_from_merges(vocab, merges, NULL, &t) == MRT_OK)
    encode(t, (const char *)data, size);
  mrt_tokenizer_free(t);
  mrt_source_free(vocab);
  mrt_source_free(merges);
  return 0;
}
