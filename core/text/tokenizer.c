/* tokenizer.c -- a tokenizer's life, and encoding as a whole
 *
 * SPDX-License-Identifier: MIT */
#include "text/text.h"

#include <string.h>

mrt_status mrt_tokenizer_new(mrt_context *ctx, mrt_tokenizer **out) {
  mrt_tokenizer *t = mrt_calloc(ctx->allocator, 1, sizeof *t);
  if (!t) return mrt_nomem(&ctx->error);
  t->ctx = ctx;
  t->bpe.unknown = -1;
  mrt_context_ref(ctx);
  mrt_arena_init(&t->arena, ctx->allocator);
  *out = t;
  return MRT_OK;
}

MRT_API void mrt_tokenizer_free(mrt_tokenizer *t) {
  if (!t) return;
  mrt_context *ctx = t->ctx;
  for (mrt_splitter *s = t->splitters; s; s = s->next) {
    mrt_pattern_free(s->pattern);
    mrt_chars_free(ctx, &s->room);
  }
  for (mrt_decoder *d = t->decoders; d; d = d->next)
    mrt_pattern_free(d->pattern);
  mrt_cache_free(ctx, &t->cache);
  mrt_merging_free(ctx, &t->merging);
  mrt_ids_free(ctx, &t->ids);
  mrt_chars_free(ctx, &t->repaired);
  mrt_pieces_free(ctx, &t->pieces[0]);
  mrt_pieces_free(ctx, &t->pieces[1]);
  mrt_arena_free(&t->arena);
  mrt_release(ctx->allocator, t, sizeof *t);
  mrt_context_unref(ctx);
}

mrt_status mrt_tokenizer_prepare(mrt_tokenizer *t) {
  const mrt_added *a = &t->added;
  t->count = t->vocab.count;
  for (int i = 0; i < a->count; i++)
    if (a->list[i].id >= t->count) t->count = a->list[i].id + 1;
  t->names = MRT_NEW(&t->arena, mrt_slice, t->count + 1);
  t->special = MRT_NEW(&t->arena, bool, t->count + 1);
  if (!t->names || !t->special) return mrt_nomem(&t->ctx->error);
  for (int i = 0; i < a->count; i++) {
    t->names[a->list[i].id] = a->list[i].content;
    t->special[a->list[i].id] = a->list[i].special;
  }
  return mrt_added_prepare(t);
}

/* ---- opening ------------------------------------------------------------- */

static mrt_status read_source(mrt_context *ctx, mrt_source *s,
                              mrt_tokenizer **out) {
  mrt_tokenizer *t;
  MRT_TRY(mrt_source_hold(s));
  MRT_TRY(mrt_tokenizer_new(ctx, &t));
  mrt_status status = mrt_read_tokenizer_json(t, s);
  if (!status) status = mrt_tokenizer_prepare(t);
  if (status) return mrt_tokenizer_free(t), status;
  *out = t;
  return MRT_OK;
}

MRT_API mrt_status mrt_tokenizer_open(mrt_context *ctx, const char *path,
                                      mrt_tokenizer **out) {
  mrt_source *s;
  MRT_TRY(mrt_source_of(ctx, path, &s));
  mrt_status status = read_source(ctx, s, out);
  mrt_source_free(s);
  return status;
}

MRT_API mrt_status mrt_tokenizer_from(mrt_context *ctx, const char *path,
                                      const void *data, size_t size,
                                      mrt_tokenizer **out) {
  mrt_source s = { .ctx = ctx,
                   .path = path,
                   .bytes = { data ? data : "", size, -1, 0 } };
  return read_source(ctx, &s, out);
}

/* ---- encoding ------------------------------------------------------------ */

/* Bytes that are no UTF-8: a word of each. */
static mrt_status encode_bytes(mrt_tokenizer *t, const char *p, size_t n) {
  char name[2];
  for (size_t i = 0; i < n; i++)
    MRT_TRY(t->word(t, name, mrt_byte_name((uint8_t)p[i], name)));
  return MRT_OK;
}

static mrt_status encode_broken(mrt_tokenizer *t, const char *p, size_t size,
                                bool plain) {
  for (size_t i = 0; i < size;) {
    size_t n = mrt_utf8_valid(p + i, size - i);
    mrt_word_text w = { p + i, n, i == 0, i > 0 };
    if (n) MRT_TRY(mrt_added_encode(t, &w, plain));
    i += n;
    if (i == size) break;
    n = mrt_utf8_broken(p + i, size - i);
    MRT_TRY(encode_bytes(t, p + i, n));
    i += n;
  }
  return MRT_OK;
}

/* The text with U+FFFD for what is no UTF-8. */
static mrt_status repair(mrt_tokenizer *t, const char *p, size_t size) {
  t->repaired.size = 0;
  for (size_t i = 0; i < size;) {
    size_t n = mrt_utf8_valid(p + i, size - i);
    MRT_TRY(mrt_chars_put(t->ctx, &t->repaired, p + i, n));
    i += n;
    if (i == size) break;
    i += mrt_utf8_broken(p + i, size - i);
    MRT_TRY(mrt_chars_put(t->ctx, &t->repaired, "\xef\xbf\xbd", 3));
  }
  return MRT_OK;
}

MRT_API mrt_status mrt_tokenizer_encode(mrt_tokenizer *t, const char *text,
                                        size_t size, int flags,
                                        const int32_t **ids, size_t *count) {
  bool plain = flags & MRT_ENCODE_PLAIN;
  mrt_word_text w = { text, size, true, false };
  t->ids.count = 0;
  if (mrt_utf8_valid(text, size) < size) {
    if (t->byte_level) {
      MRT_TRY(encode_broken(t, text, size, plain));
      w.size = 0;
    } else {
      MRT_TRY(repair(t, text, size));
      w.at = t->repaired.at, w.size = t->repaired.size;
    }
  }
  if (w.size) MRT_TRY(mrt_added_encode(t, &w, plain));
  MRT_TRY(mrt_ids_room(t->ctx, &t->ids, 1));
  *ids = t->ids.at, *count = t->ids.count;
  return MRT_OK;
}

/* ---- what there is ------------------------------------------------------- */

MRT_API int mrt_tokenizer_count(const mrt_tokenizer *t) { return t->count; }

MRT_API const char *mrt_tokenizer_token(const mrt_tokenizer *t, int id,
                                        size_t *size) {
  if (id < 0 || id >= t->count) return NULL;
  const mrt_slice *s = &t->names[id];
  if (!s->at && id < t->vocab.count) s = &t->vocab.tokens[id];
  *size = s->size;
  return s->at;
}

MRT_API int mrt_tokenizer_id(const mrt_tokenizer *t, const char *token,
                             size_t size) {
  const mrt_added *a = &t->added;
  for (int i = a->count; i-- > 0;)
    if (a->list[i].content.size == size &&
        memcmp(a->list[i].content.at, token, size) == 0)
      return a->list[i].id;
  return mrt_vocab_find(&t->vocab, token, size);
}

MRT_API bool mrt_tokenizer_is_special(const mrt_tokenizer *t, int id) {
  return id >= 0 && id < t->count && t->special[id];
}
