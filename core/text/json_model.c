/* json_model.c -- "model" of tokenizer.json
 *
 * SPDX-License-Identifier: MIT */
#include "text/json.h"

#include <math.h>
#include <string.h>

static mrt_status unknown_of(const mrt_json *j, int32_t *id) {
  mrt_slice text;
  MRT_TRY(mrt_json_text(j, "unk_token", &text));
  *id = text.at ? mrt_vocab_find(&j->t->vocab, text.at, text.size) : -1;
  return MRT_OK;
}

static mrt_status read_bpe(const mrt_json *j, const mrt_model_text *text) {
  mrt_bpe *b = &j->t->bpe;
  const json_t *dropout = json_object_get(j->at, "dropout");
  MRT_TRY(mrt_json_only(j, "vocab merges dropout unk_token "
                           "continuing_subword_prefix end_of_word_suffix "
                           "fuse_unk byte_fallback ignore_merges"));
  if (!text->merges.at) return mrt_json_fail(j, "there are no \"merges\"");
  if (json_is_number(dropout) && json_number_value(dropout) != 0)
    return mrt_json_fail(j, "dropout is not understood");
  MRT_TRY(mrt_json_bool(j, "fuse_unk", &b->fuse_unknown));
  MRT_TRY(mrt_json_bool(j, "byte_fallback", &b->byte_fallback));
  MRT_TRY(mrt_json_bool(j, "ignore_merges", &b->whole_words));
  MRT_TRY(mrt_json_copy(j, "continuing_subword_prefix", &b->prefix));
  MRT_TRY(mrt_json_copy(j, "end_of_word_suffix", &b->suffix));
  if (b->prefix.size > MRT_LONGEST_MARK || b->suffix.size > MRT_LONGEST_MARK)
    return mrt_json_fail(j, "more than %d bytes before or behind words",
                         MRT_LONGEST_MARK);
  MRT_TRY(mrt_read_vocab(j->t, j->s, text->vocab));
  MRT_TRY(mrt_read_merges(j->t, j->s, text->merges));
  MRT_TRY(unknown_of(j, &b->unknown));
  return mrt_bpe_prepare(j->t);
}

static mrt_status read_wordpiece(const mrt_json *j,
                                 const mrt_model_text *text) {
  mrt_wordpiece *w = &j->t->wordpiece;
  MRT_TRY(mrt_json_only(j, "vocab unk_token continuing_subword_prefix "
                           "max_input_chars_per_word"));
  w->longest = 100;
  MRT_TRY(mrt_json_int(j, "max_input_chars_per_word", &w->longest));
  MRT_TRY(mrt_json_copy(j, "continuing_subword_prefix", &w->prefix));
  if (!w->prefix.at) w->prefix = (mrt_slice){ "##", 2 };
  MRT_TRY(mrt_read_vocab(j->t, j->s, text->vocab));
  MRT_TRY(unknown_of(j, &w->unknown));
  return mrt_wordpiece_prepare(j->t);
}

static mrt_status read_wordlevel(const mrt_json *j,
                                 const mrt_model_text *text) {
  MRT_TRY(mrt_json_only(j, "vocab unk_token"));
  MRT_TRY(mrt_read_vocab(j->t, j->s, text->vocab));
  j->t->word = mrt_wordlevel_word;
  return unknown_of(j, &j->t->wordpiece.unknown);
}

static mrt_status read_unigram(const mrt_json *j, const mrt_model_text *text) {
  mrt_unigram *u = &j->t->unigram;
  MRT_TRY(mrt_json_only(j, "vocab unk_id byte_fallback"));
  MRT_TRY(mrt_json_bool(j, "byte_fallback", &u->byte_fallback));
  MRT_TRY(mrt_read_scores(j->t, j->s, text->vocab));
  u->unknown = -1;
  MRT_TRY(mrt_json_int(j, "unk_id", &u->unknown));
  if (u->unknown >= j->t->vocab.count)
    return mrt_json_fail(j, "unk_id %d of %d tokens", u->unknown,
                         j->t->vocab.count);
  return mrt_unigram_prepare(j->t);
}

/* Files of before 2021 do not say which it is. */
mrt_status mrt_json_model(const mrt_json *j, const mrt_model_text *text) {
  static const struct {
    const char *name;
    mrt_status (*read)(const mrt_json *j, const mrt_model_text *text);
  } kinds[] = {
    { "BPE", read_bpe },
    { "WordPiece", read_wordpiece },
    { "WordLevel", read_wordlevel },
    { "Unigram", read_unigram },
  };
  const char *type = mrt_json_type(j->at);
  if (!text->vocab.at) return mrt_json_fail(j, "there is no \"vocab\"");
  if (!type)
    type = text->merges.at                                       ? "BPE"
           : *text->vocab.at == '['                              ? "Unigram"
           : json_object_get(j->at, "continuing_subword_prefix") ? "WordPiece"
                                                                 : "WordLevel";
  for (int i = 0; i < MRT_COUNT(kinds); i++)
    if (strcmp(type, kinds[i].name) == 0) return kinds[i].read(j, text);
  return mrt_json_fail(j, "%.80s is not understood", type);
}
