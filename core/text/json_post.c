/* json_post.c -- "post_processor", "truncation", "padding" of tokenizer.json
 *
 * All that a post-processor does to one text is to put ids before and after it.
 *
 * SPDX-License-Identifier: MIT */
#include "text/json.h"

#include <string.h>

/* One more id, in the arena: before what comes before, or after. */
static mrt_status add(const mrt_json *j, mrt_id_list *l, size_t at,
                      int32_t id) {
  mrt_tokenizer *t = j->t;
  if (l->count >= 4096) return mrt_json_fail(j, "too many ids");
  int32_t *made = MRT_NEW(&t->arena, int32_t, l->count + 1);
  if (!made) return mrt_nomem(&t->ctx->error);
  if (at) memcpy(made, l->at, at * sizeof *made);
  made[at] = id;
  if (l->count > at)
    memcpy(made + at + 1, l->at + at, (l->count - at) * sizeof *made);
  l->at = made, l->count++;
  return MRT_OK;
}

/* ["[SEP]", 102] */
static mrt_status pair(const mrt_json *j, const char *name, int32_t *id) {
  const json_t *f = json_object_get(j->at, name), *i = json_array_get(f, 1);
  if (!json_is_integer(i) || json_integer_value(i) < 0 ||
      json_integer_value(i) >= MRT_MOST_TOKENS)
    return mrt_json_fail(j, "'%s': a token and its id wanted", name);
  *id = (int32_t)json_integer_value(i);
  return MRT_OK;
}

/* A second one would see more than one text. */
static mrt_status only_one(const mrt_json *j) {
  if (j->t->before.count + j->t->after.count == 0) return MRT_OK;
  return mrt_json_fail(j, "two that add tokens are not understood");
}

/* One more part of what a pair becomes. */
static mrt_status add_pair(const mrt_json *j, int id, int type) {
  mrt_tokenizer *t = j->t;
  if (t->pair_count >= 256) return mrt_json_fail(j, "too many ids");
  mrt_pair_part *made = MRT_NEW(&t->arena, mrt_pair_part, t->pair_count + 1);
  if (!made) return mrt_nomem(&t->ctx->error);
  if (t->pair) memcpy(made, t->pair, t->pair_count * sizeof *made);
  made[t->pair_count] = (mrt_pair_part){ id, type };
  t->pair = made, t->pair_count++;
  return MRT_OK;
}

/* BERT's and RoBERTa's; what else they say is about offsets. */
static mrt_status enclose(const mrt_json *j, bool twice, int type) {
  int32_t first, last;
  MRT_TRY(only_one(j));
  MRT_TRY(pair(j, "cls", &first));
  MRT_TRY(pair(j, "sep", &last));
  MRT_TRY(add(j, &j->t->before, 0, first));
  MRT_TRY(add(j, &j->t->after, j->t->after.count, last));
  MRT_TRY(add_pair(j, first, 0));
  MRT_TRY(add_pair(j, MRT_PAIR_FIRST, 0));
  MRT_TRY(add_pair(j, last, 0));
  if (twice) MRT_TRY(add_pair(j, last, 0));
  MRT_TRY(add_pair(j, MRT_PAIR_SECOND, type));
  return add_pair(j, last, type);
}

static mrt_status bert(const mrt_json *j) { return enclose(j, false, 1); }

static mrt_status roberta(const mrt_json *j) { return enclose(j, true, 0); }

static mrt_status nothing(const mrt_json *j) {
  (void)j;
  return MRT_OK;
}

/* ---- templates ----------------------------------------------------------- */

static mrt_status add_special(const mrt_json *j, const char *name,
                              bool text_seen, size_t *at) {
  const json_t *all = json_object_get(j->at, "special_tokens");
  const json_t *ids = json_object_get(json_object_get(all, name), "ids");
  if (!json_is_array(ids))
    return mrt_json_fail(j, "there is no special token '%.80s'", name);
  for (size_t i = 0; i < json_array_size(ids); i++) {
    const json_t *id = json_array_get(ids, i);
    json_int_t v = json_is_integer(id) ? json_integer_value(id) : -1;
    if (v < 0 || v >= MRT_MOST_TOKENS)
      return mrt_json_fail(j, "ids of '%.80s' wanted", name);
    mrt_id_list *l = text_seen ? &j->t->after : &j->t->before;
    MRT_TRY(add(j, l, text_seen ? l->count : (*at)++, (int32_t)v));
  }
  return MRT_OK;
}

/* The type of ids that a part gives, which is 0 where it is not said. */
static mrt_status type_of(const mrt_json *j, const json_t *part, int *type) {
  const json_t *given = json_object_get(part, "type_id");
  json_int_t v = json_is_integer(given) ? json_integer_value(given) : 0;
  if (v < 0 || v > 1 << 20) return mrt_json_fail(j, "'pair': a type_id wanted");
  return *type = (int)v, MRT_OK;
}

static mrt_status pair_part(const mrt_json *j, const json_t *part) {
  const json_t *text = json_object_get(part, "Sequence");
  const json_t *special = json_object_get(part, "SpecialToken");
  const char *name =
      json_string_value(json_object_get(text ? text : special, "id"));
  int type;
  if (!name) return mrt_json_fail(j, "'pair' is not understood");
  MRT_TRY(type_of(j, text ? text : special, &type));
  if (text)
    return add_pair(j, strcmp(name, "A") ? MRT_PAIR_SECOND : MRT_PAIR_FIRST,
                    type);
  const json_t *all = json_object_get(j->at, "special_tokens");
  const json_t *ids = json_object_get(json_object_get(all, name), "ids");
  if (!json_is_array(ids))
    return mrt_json_fail(j, "there is no special token '%.80s'", name);
  for (size_t i = 0; i < json_array_size(ids); i++) {
    const json_t *id = json_array_get(ids, i);
    json_int_t v = json_is_integer(id) ? json_integer_value(id) : -1;
    if (v < 0 || v >= MRT_MOST_TOKENS)
      return mrt_json_fail(j, "ids of '%.80s' wanted", name);
    MRT_TRY(add_pair(j, (int)v, type));
  }
  return MRT_OK;
}

static mrt_status template(const mrt_json *j) {
  const json_t *pair = json_object_get(j->at, "pair");
  const json_t *single = json_object_get(j->at, "single");
  bool seen = false;
  size_t at = 0;
  MRT_TRY(only_one(j));
  if (!json_is_array(single))
    return mrt_json_fail(j, "'single': a list wanted");
  for (size_t i = 0; i < json_array_size(single); i++) {
    const json_t *part = json_array_get(single, i);
    const json_t *special = json_object_get(part, "SpecialToken");
    const char *name = json_string_value(json_object_get(special, "id"));
    if (json_object_get(part, "Sequence") && !seen)
      seen = true;
    else if (name)
      MRT_TRY(add_special(j, name, seen, &at));
    else
      return mrt_json_fail(j, "'single' is not understood");
  }
  for (size_t i = 0; i < json_array_size(pair); i++)
    MRT_TRY(pair_part(j, json_array_get(pair, i)));
  return seen ? MRT_OK : mrt_json_fail(j, "'single' has no text in it");
}

static const mrt_json_kind kinds[] = {
  { "TemplateProcessing", "single pair special_tokens", template },
  { "BertProcessing", "sep cls", bert },
  { "RobertaProcessing", "sep cls trim_offsets add_prefix_space", roberta },
  { "ByteLevel", "add_prefix_space trim_offsets use_regex", nothing },
  { 0 },
};

mrt_status mrt_json_post(const mrt_json *j) {
  return mrt_json_read(j, kinds, "processors");
}

/* ---- lengths ------------------------------------------------------------- */

static mrt_status one_of(const mrt_json *j, const char *name, const char *first,
                         const char *second, bool *is) {
  mrt_slice text;
  MRT_TRY(mrt_json_text(j, name, &text));
  *is = text.at && strcmp(text.at, second) == 0;
  if (!text.at || *is || strcmp(text.at, first) == 0) return MRT_OK;
  return mrt_json_fail(j, "%s '%.40s' is not understood", name, text.at);
}

static mrt_status read_strategy(const mrt_json *j) {
  static const char *const all[] = { "LongestFirst", "OnlyFirst",
                                     "OnlySecond" };
  mrt_slice text;
  MRT_TRY(mrt_json_text(j, "strategy", &text));
  for (int i = 0; text.at && i < MRT_COUNT(all); i++)
    if (strcmp(text.at, all[i]) == 0) j->t->strategy = all[i];
  if (text.at && !j->t->strategy)
    return mrt_json_fail(j, "strategy '%.40s' is not understood", text.at);
  return MRT_OK;
}

mrt_status mrt_json_truncation(const mrt_json *j) {
  int stride = 0;
  if (!j->at || json_is_null(j->at)) return MRT_OK;
  MRT_TRY(mrt_json_only(j, "direction max_length strategy stride"));
  MRT_TRY(one_of(j, "direction", "Right", "Left", &j->t->keep_last));
  MRT_TRY(mrt_json_int(j, "stride", &stride));
  MRT_TRY(read_strategy(j));
  return mrt_json_int(j, "max_length", &j->t->most_ids);
}

mrt_status mrt_json_padding(const mrt_json *j) {
  mrt_padding *p = &j->t->padding;
  if (!j->at || json_is_null(j->at)) return MRT_OK;
  p->given = true;
  MRT_TRY(mrt_json_only(j, "strategy direction pad_to_multiple_of pad_id "
                           "pad_type_id pad_token"));
  MRT_TRY(one_of(j, "direction", "Right", "Left", &p->left));
  MRT_TRY(mrt_json_int(j, "pad_id", &p->id));
  MRT_TRY(mrt_json_int(j, "pad_to_multiple_of", &p->multiple));
  mrt_json strategy = *j;
  strategy.at = json_object_get(j->at, "strategy");
  return json_is_object(strategy.at)
             ? mrt_json_int(&strategy, "Fixed", &p->length)
             : MRT_OK;
}
