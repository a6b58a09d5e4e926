/* json_decoders.c -- "decoder" of tokenizer.json
 *
 * SPDX-License-Identifier: MIT */
#include "text/json.h"

static mrt_status add(const mrt_json *j, mrt_decode_pieces *decode,
                      mrt_decoder **d) {
  *d = mrt_tokenizer_decoder(j->t);
  if (!*d) return mrt_nomem(&j->t->ctx->error);
  (*d)->decode = decode;
  return MRT_OK;
}

/* A text that must be there, or its default. */
static mrt_status text(const mrt_json *j, const char *name, const char *usual,
                       size_t size, mrt_slice *out) {
  MRT_TRY(mrt_json_copy(j, name, out));
  if (!out->at) *out = (mrt_slice){ usual, size };
  return MRT_OK;
}

static mrt_status byte_level(const mrt_json *j) {
  mrt_decoder *d;
  return add(j, mrt_decode_bytes, &d);
}

static mrt_status wordpiece(const mrt_json *j) {
  mrt_decoder *d;
  MRT_TRY(add(j, mrt_decode_wordpiece, &d));
  d->cleanup = true;
  MRT_TRY(mrt_json_bool(j, "cleanup", &d->cleanup));
  return text(j, "prefix", "##", 2, &d->text);
}

static mrt_status metaspace(const mrt_json *j) {
  mrt_decoder *d;
  MRT_TRY(add(j, mrt_decode_metaspace, &d));
  MRT_TRY(mrt_json_prepend(j, &d->prepend));
  return text(j, "replacement", "\xe2\x96\x81", 3, &d->text);
}

static mrt_status suffix(const mrt_json *j) {
  mrt_decoder *d;
  MRT_TRY(add(j, mrt_decode_suffix, &d));
  return text(j, "suffix", "</w>", 4, &d->text);
}

static mrt_status fallback(const mrt_json *j) {
  mrt_decoder *d;
  return add(j, mrt_decode_fallback, &d);
}

static mrt_status fuse(const mrt_json *j) {
  mrt_decoder *d;
  return add(j, mrt_decode_fuse, &d);
}

static mrt_status strip(const mrt_json *j) {
  mrt_decoder *d;
  uint32_t c;
  MRT_TRY(add(j, mrt_decode_strip, &d));
  MRT_TRY(mrt_json_int(j, "start", &d->start));
  MRT_TRY(mrt_json_int(j, "stop", &d->stop));
  MRT_TRY(mrt_json_character(j, "content", &c));
  return mrt_json_copy(j, "content", &d->text);
}

static mrt_status replace(const mrt_json *j) {
  mrt_decoder *d;
  MRT_TRY(add(j, mrt_decode_replace, &d));
  MRT_TRY(text(j, "content", "", 0, &d->with));
  return mrt_json_pattern(j, &d->pattern);
}

static mrt_status ctc(const mrt_json *j) {
  mrt_decoder *d;
  MRT_TRY(add(j, mrt_decode_ctc, &d));
  d->cleanup = true;
  MRT_TRY(mrt_json_bool(j, "cleanup", &d->cleanup));
  MRT_TRY(text(j, "pad_token", "<pad>", 5, &d->text));
  return text(j, "word_delimiter_token", "|", 1, &d->with);
}

static const mrt_json_kind kinds[] = {
  { "ByteLevel", "add_prefix_space trim_offsets use_regex", byte_level },
  { "WordPiece", "prefix cleanup", wordpiece },
  { "Metaspace", "replacement str_rep add_prefix_space prepend_scheme split",
    metaspace },
  { "BPEDecoder", "suffix", suffix },
  { "ByteFallback", "", fallback },
  { "Fuse", "", fuse },
  { "Strip", "content start stop", strip },
  { "Replace", "pattern content", replace },
  { "CTC", "pad_token word_delimiter_token cleanup", ctc },
  { 0 },
};

mrt_status mrt_json_decoders(const mrt_json *j) {
  return mrt_json_read(j, kinds, "decoders");
}
