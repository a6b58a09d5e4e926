/* merge_files.c -- GPT-2's two files: vocab.json and merges.txt
 *
 * They do not say how texts are cut into words.
 *
 * SPDX-License-Identifier: MIT */
#include "text/json.h"

#include <string.h>

enum { LARGEST = 100000000 };

/* Every token is named bytes. */
static mrt_status check_tokens(mrt_tokenizer *t, mrt_source *s) {
  for (int i = 0; i < t->vocab.count; i++) {
    mrt_slice k = t->vocab.tokens[i];
    size_t n;
    for (size_t at = 0; k.at && at < k.size; at += n)
      if (mrt_byte_of_name(mrt_utf8_get(k.at + at, &n)) < 0)
        return mrt_source_fail(s, MRT_EDATA, "'%.*s' stands for no bytes",
                               (int)(k.size < 80 ? k.size : 80), k.at);
  }
  return MRT_OK;
}

/* Is this, whole, one of the words that texts are cut into?  Of bytes that are
 * no UTF-8 nobody can tell: true. */
static mrt_status is_word(mrt_tokenizer *t, mrt_pattern *words, mrt_slice name,
                          bool *is) {
  mrt_pieces in = { .text = { (char *)name.at, name.size, 0 },
                    .ends = &name.size,
                    .count = 1 };
  mrt_pieces *out = &t->pieces[1];
  mrt_matching m = { 0 };
  out->count = out->text.size = 0;
  MRT_TRY(mrt_decode_bytes(t, NULL, &in, out));
  mrt_slice text = { out->text.at, out->text.size };
  *is = true;
  if (text.size == 0 || mrt_utf8_valid(text.at, text.size) < text.size)
    return MRT_OK;
  MRT_TRY(mrt_pattern_next(t, words, text, &m));
  *is = m.found && m.begin == 0 && m.end == text.size;
  return MRT_OK;
}

/* Merges never cross the ends of words, so those that do were made with other
 * words (a pattern that keeps a bracket with its letters, say), and encoding
 * with ours would give other tokens than the model was trained on.  A few are
 * let pass: tables of Unicode differ. */
static mrt_status check_words(mrt_tokenizer *t, mrt_source *s,
                              mrt_pattern *words) {
  const mrt_merge_table *table = &t->bpe.merges;
  const mrt_merge *first = NULL;
  int across = 0, all = 0;
  for (size_t i = 0; i <= table->mask; i++) {
    const mrt_merge *m = &table->slots[i];
    bool is = true;
    if (!m->key) continue;
    MRT_TRY(is_word(t, words, t->vocab.tokens[m->token], &is));
    all++, across += !is;
    if (!is && (!first || m->rank < first->rank)) first = m;
  }
  if ((int64_t)across * 1000 <= all) return MRT_OK;
  mrt_slice k = t->vocab.tokens[first->token];
  return mrt_source_fail(s, MRT_EDATA,
                         "%d of %d merges, such as that to '%.*s', cross what "
                         "are taken for words: they belong to a tokenizer "
                         "that cuts texts otherwise",
                         across, all, (int)(k.size < 40 ? k.size : 40), k.at);
}

static mrt_status add_parts(mrt_tokenizer *t, mrt_source *s, mrt_slice pattern,
                            mrt_pattern **words) {
  mrt_splitter *cut = mrt_tokenizer_splitter(t);
  mrt_splitter *name = cut ? mrt_tokenizer_splitter(t) : NULL;
  mrt_decoder *d = name ? mrt_tokenizer_decoder(t) : NULL;
  if (!d) return mrt_nomem(&t->ctx->error);
  cut->split = mrt_split_pattern, cut->behavior = MRT_SPLIT_ISOLATED;
  name->split = mrt_split_bytes;
  d->decode = mrt_decode_bytes;
  t->byte_level = true;
  MRT_TRY(mrt_pattern_make(t, s, pattern, MRT_PATTERN_ONIG, &cut->pattern));
  *words = cut->pattern;
  return MRT_OK;
}

static mrt_status fill(mrt_tokenizer *t, mrt_source *vocab, mrt_source *merges,
                       const char *pattern) {
  mrt_pattern *words = NULL;
  if (vocab->bytes.size > LARGEST || merges->bytes.size > LARGEST)
    return mrt_source_fail(vocab, MRT_EDATA, "larger than any vocabulary");
  MRT_TRY(mrt_source_hold(vocab));
  MRT_TRY(mrt_source_hold(merges));
  mrt_slice ids = { (const char *)vocab->bytes.data, vocab->bytes.size };
  mrt_slice lines = { (const char *)merges->bytes.data, merges->bytes.size };
  size_t valid = mrt_utf8_valid(ids.at, ids.size);
  if (valid < ids.size)
    return mrt_source_fail(vocab, MRT_EDATA, "not UTF-8 at byte %zu", valid);
  if (!pattern) pattern = mrt_gpt2_pattern;
  MRT_TRY(add_parts(t, vocab, (mrt_slice){ pattern, strlen(pattern) }, &words));
  MRT_TRY(mrt_read_vocab(t, vocab, ids));
  MRT_TRY(check_tokens(t, vocab));
  MRT_TRY(mrt_read_merge_lines(t, merges, lines));
  MRT_TRY(check_words(t, merges, words));
  t->bpe.strict = true;
  MRT_TRY(mrt_bpe_prepare(t));
  return mrt_tokenizer_prepare(t);
}

mrt_status mrt_tokenizer_from_merges(mrt_source *vocab, mrt_source *merges,
                                     const char *pattern, mrt_tokenizer **out) {
  mrt_tokenizer *t;
  MRT_TRY(mrt_tokenizer_new(vocab->ctx, &t));
  mrt_status status = fill(t, vocab, merges, pattern);
  if (status) return mrt_tokenizer_free(t), status;
  *out = t;
  return MRT_OK;
}

MRT_API mrt_status mrt_tokenizer_open_merges(mrt_context *ctx,
                                             const char *vocab,
                                             const char *merges,
                                             const char *pattern,
                                             mrt_tokenizer **out) {
  mrt_source *v = NULL, *m = NULL;
  mrt_status status = mrt_source_of(ctx, vocab, &v);
  if (!status) status = mrt_source_of(ctx, merges, &m);
  if (!status) status = mrt_tokenizer_from_merges(v, m, pattern, out);
  mrt_source_free(v);
  mrt_source_free(m);
  return status;
}
