/* encode.c -- a text into ids, as a whole
 *
 * SPDX-License-Identifier: MIT */
#include "text/text.h"

#include <string.h>

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

static mrt_status add_ids(mrt_tokenizer *t, const mrt_id_list *more) {
  if (!more) return MRT_OK;
  MRT_TRY(mrt_ids_room(t->ctx, &t->ids, more->count));
  for (size_t i = 0; i < more->count; i++)
    t->ids.at[t->ids.count++] = more->at[i];
  return MRT_OK;
}

/* Leave the text's first ids, or its last, so that with what is added there are
 * no more than the file allows. */
static void truncate(mrt_tokenizer *t, bool special) {
  size_t before = special ? t->before.count : 0;
  size_t added = before + (special ? t->after.count : 0);
  size_t most = (size_t)t->most_ids > added ? (size_t)t->most_ids - added : 0;
  size_t count = t->ids.count - before;
  if (count <= most) return;
  if (t->keep_last)
    memmove(t->ids.at + before, t->ids.at + before + count - most,
            most * sizeof *t->ids.at);
  t->ids.count = before + most;
}

MRT_API mrt_status mrt_tokenizer_encode(mrt_tokenizer *t, const char *text,
                                        size_t size, int flags,
                                        const int32_t **ids, size_t *count) {
  bool plain = flags & MRT_ENCODE_PLAIN, special = flags & MRT_ENCODE_SPECIAL;
  mrt_word_text w = { text, size, 1, false };
  t->ids.count = 0;
  MRT_TRY(add_ids(t, special ? &t->before : NULL));
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
  if (t->most_ids) truncate(t, special);
  MRT_TRY(add_ids(t, special ? &t->after : NULL));
  MRT_TRY(mrt_ids_room(t->ctx, &t->ids, 1));
  *ids = t->ids.at, *count = t->ids.count;
  return MRT_OK;
}
