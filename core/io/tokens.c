/* tokens.c -- texts that are already numbers
 *
 * llm.c: 256 int32 (magic, version, count), then the tokens, 16 bits each for
 * GPT-2's vocabulary, 32 for Llama 3's.  nanoGPT: 16 bits each, nothing else;
 * its files cannot begin as llm.c's do, for such tokens are beyond GPT-2's.
 *
 *   from  github.com/karpathy/llm.c, dev/data/data_common.py
 *
 * SPDX-License-Identifier: MIT */
#include "io/io.h"
#include "tensor/tensor.h"

enum { HEADER = 256 * 4 };

static const struct {
  uint32_t magic, version;
  mrt_stored stored;
} headers[] = {
  { 20240520, 1, MRT_STORED_u16 },
  { 20240801, 7, MRT_STORED_u32 },
};

/* Read llm.c's header, if there is one. */
static mrt_status read_header(mrt_source *s, mrt_array *a, uint64_t *count) {
  uint8_t data[12] = { 0 };
  if (s->bytes.size < 4) return MRT_OK;
  MRT_TRY(mrt_source_take(s, 0, data, s->bytes.size < 12 ? 4 : 12));
  uint64_t magic = mrt_little(data, 4);
  for (int i = 0; i < MRT_COUNT(headers); i++) {
    if (headers[i].magic != magic) continue;
    if (s->bytes.size < HEADER)
      return mrt_source_fail(s, MRT_EDATA, "cut off in its header");
    uint64_t version = mrt_little(data + 4, 4);
    if (version != headers[i].version)
      return mrt_source_fail(s, MRT_EDATA, "version %llu of %llu, %u wanted",
                             (unsigned long long)version,
                             (unsigned long long)magic, headers[i].version);
    a->stored = headers[i].stored, a->offset = HEADER;
    *count = mrt_little(data + 8, 4);
  }
  return MRT_OK;
}

mrt_status mrt_parse_tokens(mrt_source *s) {
  uint64_t count = s->bytes.size / 2;
  mrt_array *a = mrt_source_add(s, "tokens");
  if (!a) return mrt_nomem(&s->ctx->error);
  a->stored = MRT_STORED_u16;
  MRT_TRY(read_header(s, a, &count));
  size_t width = mrt_stored_bytes(a->stored);
  a->dtype = width == 2 ? "u16" : "u32";
  if (s->bytes.size - a->offset != count * width)
    return mrt_source_fail(
        s, MRT_EDATA, "%zu bytes of tokens, %llu of %zu each wanted",
        s->bytes.size - a->offset, (unsigned long long)count, width);
  a->type = (mrt_type){ .rank = 1, .dims = { (int64_t)count } };
  return mrt_array_check(s, a, s->bytes.size);
}
