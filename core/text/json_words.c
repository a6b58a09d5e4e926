/* json_words.c -- "pre_tokenizer" of tokenizer.json
 *
 * SPDX-License-Identifier: MIT */
#include "text/json.h"

#include <string.h>

static mrt_status add(const mrt_json *j, mrt_splitter **s) {
  *s = mrt_tokenizer_splitter(j->t);
  return *s ? MRT_OK : mrt_nomem(&j->t->ctx->error);
}

/* One that splits at what a pattern finds. */
static mrt_status add_pattern(const mrt_json *j, const char *pattern,
                              mrt_pattern_kind kind, mrt_splitter **s) {
  MRT_TRY(add(j, s));
  (*s)->split = mrt_split_pattern;
  return mrt_pattern_make(j->t, j->s, (mrt_slice){ pattern, strlen(pattern) },
                          kind, &(*s)->pattern);
}

/* trim_offsets is about offsets, which we do not give. */
static mrt_status byte_level(const mrt_json *j) {
  bool regex = true, space = true;
  mrt_splitter *s, *cut;
  MRT_TRY(mrt_json_bool(j, "use_regex", &regex));
  MRT_TRY(mrt_json_bool(j, "add_prefix_space", &space));
  j->t->byte_level = true;
  if (space) {
    MRT_TRY(add(j, &s));
    s->split = mrt_split_spaced;
  }
  if (regex) {
    MRT_TRY(add_pattern(j, mrt_gpt2_pattern, MRT_PATTERN_ONIG, &cut));
    cut->behavior = MRT_SPLIT_ISOLATED;
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

static mrt_status metaspace(const mrt_json *j) {
  mrt_splitter *s;
  MRT_TRY(add(j, &s));
  s->split = mrt_split_metaspace, s->cut = true;
  MRT_TRY(mrt_json_bool(j, "split", &s->cut));
  MRT_TRY(mrt_json_prepend(j, &s->prepend));
  j->t->heads |= s->prepend == MRT_PREPEND_FIRST;
  MRT_TRY(mrt_json_copy(j, "replacement", &s->mark));
  if (!s->mark.size || mrt_utf8_length(s->mark.at[0]) != s->mark.size)
    return mrt_json_fail(j, "Metaspace: 'replacement': one character wanted");
  return MRT_OK;
}

/* ---- kinds of characters ------------------------------------------------- */

static bool is_space(const mrt_splitter *s, uint32_t c) {
  (void)s;
  return mrt_is_space(c);
}
static bool is_punctuation(const mrt_splitter *s, uint32_t c) {
  (void)s;
  return mrt_is_punctuation(c);
}
static bool is_numeric(const mrt_splitter *s, uint32_t c) {
  (void)s;
  return mrt_is_numeric(c);
}
static bool is_delimiter(const mrt_splitter *s, uint32_t c) {
  return c == s->delimiter;
}

static mrt_status add_kind(const mrt_json *j,
                           bool (*is)(const mrt_splitter *s, uint32_t c),
                           mrt_behavior behavior, mrt_splitter **s) {
  MRT_TRY(add(j, s));
  (*s)->split = mrt_split_kind, (*s)->is = is, (*s)->behavior = behavior;
  return MRT_OK;
}

static mrt_status bert(const mrt_json *j) {
  mrt_splitter *s;
  MRT_TRY(add_kind(j, is_space, MRT_SPLIT_REMOVED, &s));
  return add_kind(j, is_punctuation, MRT_SPLIT_ISOLATED, &s);
}

static mrt_status white_space(const mrt_json *j) {
  mrt_splitter *s;
  return add_kind(j, is_space, MRT_SPLIT_REMOVED, &s);
}

static mrt_status words(const mrt_json *j) {
  mrt_splitter *s;
  MRT_TRY(add_pattern(j, "\\w+|[^\\w\\s]+", MRT_PATTERN_RUST, &s));
  s->invert = true;
  return MRT_OK;
}

static mrt_status punctuation(const mrt_json *j) {
  mrt_splitter *s;
  MRT_TRY(add_kind(j, is_punctuation, MRT_SPLIT_ISOLATED, &s));
  return json_object_get(j->at, "behavior") ? behavior(j, s) : MRT_OK;
}

static mrt_status digits(const mrt_json *j) {
  bool individual = false;
  mrt_splitter *s;
  MRT_TRY(mrt_json_bool(j, "individual_digits", &individual));
  return add_kind(j, is_numeric,
                  individual ? MRT_SPLIT_ISOLATED : MRT_SPLIT_CONTIGUOUS, &s);
}

static mrt_status delimiter(const mrt_json *j) {
  mrt_splitter *s;
  MRT_TRY(add_kind(j, is_delimiter, MRT_SPLIT_REMOVED, &s));
  return mrt_json_character(j, "delimiter", &s->delimiter);
}

static mrt_status scripts(const mrt_json *j) {
  mrt_splitter *s;
  MRT_TRY(add(j, &s));
  s->split = mrt_split_scripts;
  return MRT_OK;
}

static mrt_status fixed_length(const mrt_json *j) {
  mrt_splitter *s;
  MRT_TRY(add(j, &s));
  s->split = mrt_split_length, s->length = 5;
  MRT_TRY(mrt_json_int(j, "length", &s->length));
  return s->length ? MRT_OK : mrt_json_fail(j, "FixedLength: no 'length'");
}

static const mrt_json_kind kinds[] = {
  { "ByteLevel", "add_prefix_space trim_offsets use_regex", byte_level },
  { "Split", "pattern behavior invert", split },
  { "Metaspace", "replacement str_rep add_prefix_space prepend_scheme split",
    metaspace },
  { "BertPreTokenizer", "", bert },
  { "Whitespace", "", words },
  { "WhitespaceSplit", "", white_space },
  { "Punctuation", "behavior", punctuation },
  { "Digits", "individual_digits", digits },
  { "CharDelimiterSplit", "delimiter", delimiter },
  { "FixedLength", "length", fixed_length },
  { "UnicodeScripts", "", scripts },
  { 0 },
};

mrt_status mrt_json_splitters(const mrt_json *j) {
  return mrt_json_read(j, kinds, "pretokenizers");
}
