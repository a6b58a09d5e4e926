/* json.c -- tokenizer.json of Hugging Face's tokenizers
 *
 * SPDX-License-Identifier: MIT */
#include "text/json.h"

#include <string.h>

enum { LARGEST = 1 << 28, MOST_VALUES = 1 << 20, LARGEST_REST = 1 << 26 };

static mrt_status no_json(mrt_source *s) {
  return mrt_source_fail(s, MRT_EDATA,
                         "no tokenizer: a tokenizer.json begins "
                         "with an object and is whole");
}

/* ---- cutting out what is large ------------------------------------------- */

static bool is_key(mrt_slice key, const char *name) {
  return key.size == strlen(name) + 2 &&
         memcmp(key.at + 1, name, key.size - 2) == 0;
}

/* The value of the next key of an object, as text; keys with escapes are not
 * ours. */
static bool next_member(mrt_scan *p, mrt_slice *key, mrt_slice *value,
                        size_t *values) {
  mrt_scan before = *p;
  if (!mrt_scan_string(p, NULL, NULL)) return false;
  while (*before.at != '"') before.at++;
  *key = (mrt_slice){ before.at, (size_t)(p->at - before.at) };
  if (!mrt_scan_is(p, ':')) return false;
  value->at = p->at;
  if (!mrt_scan_skip(p, values)) return false;
  value->size = (size_t)(p->at - value->at);
  return true;
}

typedef struct mrt_json_rest {
  mrt_model_text model;
  mrt_chars text; /* all else */
  size_t values;
} rest;

/* Copy what lies before `value`, and null for it. */
static mrt_status cut(mrt_source *s, rest *r, const char **from,
                      mrt_slice value) {
  MRT_TRY(mrt_chars_put(s->ctx, &r->text, *from, (size_t)(value.at - *from)));
  *from = value.at + value.size;
  return mrt_chars_put(s->ctx, &r->text, "null", 4);
}

static mrt_status cut_model(mrt_source *s, rest *r, const char **from,
                            mrt_slice model) {
  mrt_scan p = { model.at, model.at + model.size };
  mrt_slice key, value;
  size_t values = 0;
  if (!mrt_scan_is(&p, '{')) return MRT_OK;
  if (mrt_scan_is(&p, '}')) return MRT_OK;
  do {
    size_t before = values;
    if (!next_member(&p, &key, &value, &values)) return no_json(s);
    if (is_key(key, "vocab"))
      r->model.vocab = value;
    else if (is_key(key, "merges"))
      r->model.merges = value;
    else
      continue;
    values = before;
    MRT_TRY(cut(s, r, from, value));
  } while (mrt_scan_is(&p, ','));
  r->values += values;
  return MRT_OK;
}

static mrt_status cut_all(mrt_source *s, rest *r) {
  const char *text = (const char *)s->bytes.data, *from = text;
  mrt_scan p = { text, text + s->bytes.size };
  mrt_slice key, value;
  if (!mrt_scan_is(&p, '{')) return no_json(s);
  do {
    size_t before = r->values;
    if (!next_member(&p, &key, &value, &r->values)) return no_json(s);
    if (!is_key(key, "model")) continue;
    r->values = before;
    MRT_TRY(cut_model(s, r, &from, value));
  } while (mrt_scan_is(&p, ','));
  return mrt_chars_put(s->ctx, &r->text, from,
                       s->bytes.size - (size_t)(from - text));
}

/* ---- the rest ------------------------------------------------------------ */

static mrt_status added_token(const mrt_json *j) {
  mrt_added_token a = { 0 };
  int id = -1;
  MRT_TRY(mrt_json_only(
      j, "id content single_word lstrip rstrip normalized special"));
  MRT_TRY(mrt_json_text(j, "content", &a.content));
  MRT_TRY(mrt_json_int(j, "id", &id));
  MRT_TRY(mrt_json_bool(j, "single_word", &a.single_word));
  MRT_TRY(mrt_json_bool(j, "lstrip", &a.lstrip));
  MRT_TRY(mrt_json_bool(j, "rstrip", &a.rstrip));
  a.normalized = true;
  MRT_TRY(mrt_json_bool(j, "special", &a.special));
  MRT_TRY(mrt_json_bool(j, "normalized", &a.normalized));
  if (!a.content.at || id < 0 || id >= MRT_MOST_TOKENS)
    return mrt_json_fail(j, "'%.80s': content and an id below %d wanted",
                         a.content.at ? a.content.at : "", MRT_MOST_TOKENS);
  if (a.content.size > MRT_LONGEST_TOKEN)
    return mrt_json_fail(j, "a token of %zu bytes", a.content.size);
  int32_t known = mrt_vocab_find(&j->t->vocab, a.content.at, a.content.size);
  a.id = known >= 0 ? known : id;
  return a.content.size ? mrt_added_put(j->t, &a) : MRT_OK;
}

static mrt_status added_tokens(const mrt_json *j) {
  for (size_t i = 0; i < json_array_size(j->at); i++) {
    mrt_json in = *j;
    in.at = json_array_get(j->at, i);
    if (!json_is_object(in.at))
      return mrt_json_fail(j, "a list of objects wanted");
    MRT_TRY(added_token(&in));
  }
  return MRT_OK;
}

static mrt_status read_tree(mrt_tokenizer *t, mrt_source *s, const json_t *root,
                            const mrt_model_text *text) {
  mrt_json j = { t, s, root, "it" };
  MRT_TRY(mrt_json_only(&j,
                        "version truncation padding added_tokens normalizer "
                        "pre_tokenizer post_processor decoder model"));
  j.at = json_object_get(root, "model"), j.where = "model";
  if (!json_is_object(j.at)) return no_json(s);
  MRT_TRY(mrt_json_model(&j, text));
  j.at = json_object_get(root, "normalizer"), j.where = "normalizer";
  MRT_TRY(mrt_json_normalizers(&j));
  j.at = json_object_get(root, "added_tokens"), j.where = "added_tokens";
  MRT_TRY(added_tokens(&j));
  j.at = json_object_get(root, "pre_tokenizer"), j.where = "pre_tokenizer";
  MRT_TRY(mrt_json_splitters(&j));
  j.at = json_object_get(root, "post_processor"), j.where = "post_processor";
  MRT_TRY(mrt_json_post(&j));
  j.at = json_object_get(root, "truncation"), j.where = "truncation";
  MRT_TRY(mrt_json_truncation(&j));
  j.at = json_object_get(root, "padding"), j.where = "padding";
  MRT_TRY(mrt_json_padding(&j));
  j.at = json_object_get(root, "decoder"), j.where = "decoder";
  return mrt_json_decoders(&j);
}

static mrt_status parse(mrt_tokenizer *t, mrt_source *s, const rest *r) {
  json_error_t why;
  if (r->values > MOST_VALUES || r->text.size > LARGEST_REST)
    return mrt_source_fail(s, MRT_EDATA, "more than any tokenizer.json says");
  json_t *root = json_loadb(r->text.at, r->text.size,
                            JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &why);
  if (!root && json_error_code(&why) == json_error_out_of_memory)
    return mrt_nomem(&s->ctx->error);
  if (!root) return mrt_source_fail(s, MRT_EDATA, "JSON: %s", why.text);
  mrt_status status = read_tree(t, s, root, &r->model);
  json_decref(root);
  return status;
}

mrt_status mrt_read_tokenizer_json(mrt_tokenizer *t, mrt_source *s) {
  rest r = { 0 };
  if (s->bytes.size > LARGEST)
    return mrt_source_fail(s, MRT_EDATA, "larger than any tokenizer");
  size_t valid = mrt_utf8_valid((const char *)s->bytes.data, s->bytes.size);
  if (valid < s->bytes.size)
    return mrt_source_fail(s, MRT_EDATA, "not UTF-8 at byte %zu", valid);
  mrt_status status = cut_all(s, &r);
  if (!status) status = parse(t, s, &r);
  mrt_chars_free(s->ctx, &r.text);
  return status;
}
