/* fuzz_tokenizer.c -- files of tokenizers and texts, whatever they say
 *
 * An input is a file, and after the last of two zero bytes side by side a text
 * (else one of ours).  What opens must encode it, or say why not, in bounded
 * time, and decode what it made.
 *
 * SPDX-License-Identifier: MIT */
#include "text/text.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void encode(mrt_tokenizer *t, const char *text, size_t size, int flags) {
  const int32_t *ids;
  int32_t *kept;
  const char *back;
  size_t count, n;
  if (mrt_tokenizer_encode(t, text, size, flags, &ids, &count) != MRT_OK)
    return;
  if (!(kept = malloc(count * sizeof *kept + 1))) abort();
  memcpy(kept, ids, count * sizeof *kept);
  for (size_t i = 0; i < count; i++)
    if (kept[i] < 0 || kept[i] >= mrt_tokenizer_count(t)) abort();
  (void)mrt_tokenizer_decode(t, kept, count, flags == 0, &back, &n);
  free(kept);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char ours[] = "The d\xc3\xa9j\xc3\xa0 vu's 12 \xe6\x97\xa5\n\n"
                             "  <s>ab</s> e\xcc\x81\xff\xef\xac\x81";
  static mrt_context *ctx;
  mrt_tokenizer *t = NULL;
  const char *text = ours, *bytes = (const char *)data;
  size_t n = sizeof ours - 1, file = size;
  if (!ctx && mrt_context_new(NULL, &ctx) != MRT_OK) abort();
  for (size_t i = size; i-- > 1;) {
    if (data[i] || data[i - 1]) continue;
    text = bytes + i + 1, n = size - i - 1, file = i - 1;
    break;
  }
  if (mrt_tokenizer_from(ctx, "fuzz", data, file, "\\p{L}+|\\s+|.", &t) !=
      MRT_OK)
    return 0;
  encode(t, text, n, MRT_ENCODE_SPECIAL);
  encode(t, ours, sizeof ours - 1, MRT_ENCODE_PLAIN);
  encode(t, ours, sizeof ours - 1, 0);
  mrt_tokenizer_free(t);
  return 0;
}
