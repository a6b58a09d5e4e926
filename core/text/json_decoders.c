/* json_decoders.c -- "decoder" of tokenizer.json
 *
 * SPDX-License-Identifier: MIT */
#include "text/json.h"

static mrt_status add(const mrt_json *j, mrt_decoder **d) {
  *d = mrt_tokenizer_decoder(j->t);
  return *d ? MRT_OK : mrt_nomem(&j->t->ctx->error);
}

static mrt_status byte_level(const mrt_json *j) {
  mrt_decoder *d;
  MRT_TRY(add(j, &d));
  d->decode = mrt_decode_bytes;
  return MRT_OK;
}

static const mrt_json_kind kinds[] = {
  { "ByteLevel", "add_prefix_space trim_offsets use_regex", byte_level },
  { 0 },
};

mrt_status mrt_json_decoders(const mrt_json *j) {
  return mrt_json_read(j, kinds, "decoders");
}
