/* json_words.c -- "pre_tokenizer" of tokenizer.json
 *
 * SPDX-License-Identifier: MIT */
#include "text/json.h"

#include <string.h>

static mrt_status add(const mrt_json *j, mrt_splitter **s) {
  *s = mrt_tokenizer_splitter(j->t);
  return *s ? MRT_OK : mrt_nomem(&j->t->ctx->error);
}

/* trim_offsets is about offsets, which we do not give. */
static mrt_status byte_level(const mrt_json *j) {
  bool regex = true, space = true;
  mrt_splitter *s, *cut = NULL;
  mrt_slice pattern = { mrt_gpt2_pattern, strlen(mrt_gpt2_pattern) };
  MRT_TRY(mrt_json_bool(j, "use_regex", &regex));
  MRT_TRY(mrt_json_bool(j, "add_prefix_space", &space));
  j->t->byte_level = true;
  if (space) {
    MRT_TRY(add(j, &s));
    s->split = mrt_split_spaced;
  }
  if (regex) {
    MRT_TRY(add(j, &cut));
    cut->split = mrt_split_pattern, cut->behavior = MRT_SPLIT_ISOLATED;
    MRT_TRY(
        mrt_pattern_make(j->t, j->s, pattern, MRT_PATTERN_ONIG, &cut->pattern));
  }
  MRT_TRY(add(j, &s));
  s->split = mrt_split_bytes;
  return MRT_OK;
}

static mrt_status behavior(const mrt_json *j, mrt_splitter *s) {
  static const char *const names[] = { "Removed", "Isolated",
                                       "MergedWithPrevious", "MergedWithNext",
                                       "Contiguous" };
  mrt_slice text;
  MRT_TRY(mrt_json_text(j, "behavior", &text));
  for (int i = 0; text.at && i < MRT_COUNT(names); i++)
    if (strcmp(text.at, names[i]) == 0)
      return s->behavior = (mrt_behavior)i, MRT_OK;
  return mrt_json_fail(j, "behavior '%.40s' is not understood",
                       text.at ? text.at : "");
}

static mrt_status split(const mrt_json *j) {
  mrt_splitter *s;
  MRT_TRY(add(j, &s));
  s->split = mrt_split_pattern;
  MRT_TRY(behavior(j, s));
  MRT_TRY(mrt_json_bool(j, "invert", &s->invert));
  return mrt_json_pattern(j, &s->pattern);
}

static const mrt_json_kind kinds[] = {
  { "ByteLevel", "add_prefix_space trim_offsets use_regex", byte_level },
  { "Split", "pattern behavior invert", split },
  { 0 },
};

mrt_status mrt_json_splitters(const mrt_json *j) {
  return mrt_json_read(j, kinds, "pretokenizers");
}
