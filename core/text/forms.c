/* forms.c -- Unicode's normal forms
 *
 * Characters and their marks come from utf8proc; marks are put in order here,
 * for that takes utf8proc the square of how many there are.  ASCII is as it is
 * in every form, and composes with what follows alone, so a text is done in
 * parts that begin before what is not ASCII.
 *
 * SPDX-License-Identifier: MIT */
#include "text/normal.h"

#include <string.h>
#include <utf8proc.h>

enum { LONGEST_CHARACTER = 32 };

/* ---- what the forms of Hugging Face's tokenizers do not know -------------- */

/* They are of Unicode 9 where marks are put in order, of 12 where characters
 * are taken apart.  Ranges as spec/text/unicode.py finds them, and what has come
 * since. */
static const int32_t unordered[][2] = {
  { 0x7fd, 0x7fd },     { 0x897, 0x897 },     { 0x898, 0x89f },
  { 0x8ca, 0x8d3 },     { 0x9fe, 0x9fe },     { 0xc3c, 0xc3c },
  { 0xd3b, 0xd3c },     { 0xeba, 0xeba },     { 0xece, 0xece },
  { 0x1715, 0x1715 },   { 0x1abf, 0x1ace },   { 0x1df6, 0x1dfa },
  { 0xa82c, 0xa82c },   { 0x10d24, 0x10d27 }, { 0x10d69, 0x10d6d },
  { 0x10eab, 0x10eac }, { 0x10efa, 0x10eff }, { 0x10f46, 0x10f50 },
  { 0x10f82, 0x10f85 }, { 0x11070, 0x11070 }, { 0x1133b, 0x1133b },
  { 0x113ce, 0x113d0 }, { 0x113e1, 0x113e2 }, { 0x1145e, 0x1145e },
  { 0x11839, 0x1183a }, { 0x1193d, 0x1193e }, { 0x11943, 0x11943 },
  { 0x119e0, 0x119e0 }, { 0x11a34, 0x11a34 }, { 0x11a47, 0x11a47 },
  { 0x11a99, 0x11a99 }, { 0x11d42, 0x11d42 }, { 0x11d44, 0x11d45 },
  { 0x11d97, 0x11d97 }, { 0x11f41, 0x11f42 }, { 0x1612f, 0x1612f },
  { 0x16ff0, 0x16ff1 }, { 0x1e08f, 0x1e08f }, { 0x1e130, 0x1e136 },
  { 0x1e2ae, 0x1e2ae }, { 0x1e2ec, 0x1e2ef }, { 0x1e4ec, 0x1e4ef },
  { 0x1e5ee, 0x1e5ef }, { 0x1e6e3, 0x1e6e3 }, { 0x1e6e6, 0x1e6e6 },
  { 0x1e6ee, 0x1e6ef }, { 0x1e6f5, 0x1e6f5 },
};
static const int32_t whole[][2] = {
  { 0x32ff, 0x32ff },   { 0xa7f1, 0xa7f4 },   { 0xab69, 0xab69 },
  { 0x105c9, 0x105c9 }, { 0x105e4, 0x105e4 }, { 0x10781, 0x107ba },
  { 0x11383, 0x11391 }, { 0x113c5, 0x113c8 }, { 0x11938, 0x11938 },
  { 0x16121, 0x16128 }, { 0x16d68, 0x16d6a }, { 0x1ccd6, 0x1ccf9 },
  { 0x1e030, 0x1e06d }, { 0x1f16c, 0x1f16c }, { 0x1fbf0, 0x1fbf9 },
};

static bool is_in(const int32_t (*r)[2], int count, int32_t c) {
  int i = 0;
  while (i < count && r[i][1] < c) i++;
  return i < count && r[i][0] <= c;
}

/* A mark that is taken for a letter. */
static bool is_unordered(int32_t c) {
  return utf8proc_get_property(c)->combining_class &&
         is_in(unordered, MRT_COUNT(unordered), c);
}

/* The first of what a character is taken apart into, where the head is sought. */
enum { BEGINS = 1 << 30 };

static int class_of(int32_t c) {
  c &= ~BEGINS;
  return is_unordered(c) ? 0 : utf8proc_get_property(c)->combining_class;
}

/* ---- marks in order ------------------------------------------------------ */

/* Stable, by combining class: counted. */
static void sort_many(int32_t *c, size_t n, int32_t *room) {
  size_t at[257] = { 0 };
  for (size_t i = 0; i < n; i++) at[(class_of(c[i]) & 255) + 1]++;
  for (int k = 0; k < 256; k++) at[k + 1] += at[k];
  for (size_t i = 0; i < n; i++) room[at[class_of(c[i]) & 255]++] = c[i];
  memcpy(c, room, n * sizeof *c);
}

static void sort_few(int32_t *c, size_t n) {
  for (size_t i = 1; i < n; i++) {
    int32_t moved = c[i];
    size_t k = i;
    for (; k && class_of(c[k - 1]) > class_of(moved); k--) c[k] = c[k - 1];
    c[k] = moved;
  }
}

/* Runs of characters that are no starters; `room` is as long as all. */
static void sort_marks(int32_t *c, size_t n, int32_t *room) {
  for (size_t i = 0; i < n;) {
    size_t from = i;
    while (i < n && (c[i] < 0x300 || class_of(c[i]) == 0)) i++;
    from = i;
    while (i < n && class_of(c[i]) != 0) i++;
    if (i - from > 16)
      sort_many(c + from, i - from, room);
    else
      sort_few(c + from, i - from);
  }
}

/* ---- forms --------------------------------------------------------------- */

static mrt_status decompose(mrt_tokenizer *t, const mrt_normalizer *self,
                            mrt_slice part, mrt_id_list *out) {
  utf8proc_option_t how = UTF8PROC_DECOMPOSE;
  if (self->compatible) how |= UTF8PROC_COMPAT;
  int bound = UTF8PROC_BOUNDCLASS_START;
  out->count = 0;
  for (size_t i = 0, n; i < part.size; i += n) {
    int32_t c = (int32_t)mrt_utf8_get(part.at + i, &n);
    MRT_TRY(mrt_ids_room(t->ctx, out, LONGEST_CHARACTER));
    if (c >= whole[0][0] && is_in(whole, MRT_COUNT(whole), c)) {
      out->at[out->count++] = c;
      continue;
    }
    utf8proc_ssize_t k = utf8proc_decompose_char(
        c, out->at + out->count, LONGEST_CHARACTER, how, &bound);
    if (k < 0 || k > LONGEST_CHARACTER)
      return mrt_fail(&t->ctx->error, MRT_EVALUE,
                      "encode: U+%04X cannot be decomposed", (unsigned)c);
    out->count += (size_t)k;
  }
  return MRT_OK;
}

/* In place; how many are left.  Nothing composes across an unordered mark. */
static size_t compose(int32_t *c, size_t n) {
  size_t out = 0;
  for (size_t i = 0, end; i < n; i = end) {
    for (end = i; end < n && (c[end] < 0x300 || !is_unordered(c[end])); end++)
      continue;
    size_t some = end - i;
    memmove(c + out, c + i, some * sizeof *c);
    utf8proc_ssize_t k = utf8proc_normalize_utf32(
        c + out, (utf8proc_ssize_t)some, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    out += k < 0 ? some : (size_t)k;
    if (end < n) c[out++] = c[end++];
  }
  return out;
}

static mrt_status put_all(mrt_tokenizer *t, const int32_t *c, size_t n,
                          mrt_chars *out) {
  MRT_TRY(mrt_chars_room(t->ctx, out, 4 * n));
  for (size_t i = 0; i < n; i++)
    out->size += mrt_utf8_put((uint32_t)c[i], out->at + out->size);
  return MRT_OK;
}

static mrt_status normalise_part(mrt_tokenizer *t, const mrt_normalizer *self,
                                 mrt_slice part, mrt_chars *out) {
  mrt_id_list *c = &t->characters;
  MRT_TRY(decompose(t, self, part, c));
  size_t n = c->count;
  MRT_TRY(mrt_ids_room(t->ctx, c, n));
  sort_marks(c->at, n, c->at + n);
  if (self->compose) n = compose(c->at, n);
  return put_all(t, c->at, n, out);
}

/* Is it what its form would be, as one sees without looking closely? */
static bool is_simple(const mrt_normalizer *self, mrt_slice text) {
  uint8_t most = self->compose && !self->compatible ? 0xcc : 0x80;
  for (size_t i = 0; i < text.size; i++)
    if ((uint8_t)text.at[i] >= most) return false;
  return true;
}

mrt_status mrt_normalise_form(mrt_tokenizer *t, const mrt_normalizer *self,
                              mrt_slice text, mrt_chars *out, bool *same) {
  if (is_simple(self, text)) return *same = true, MRT_OK;
  size_t done = 0, i = 0;
  while (i < text.size) {
    while (i < text.size && (uint8_t)text.at[i] < 0x80) i++;
    if (i == text.size) break;
    size_t from = i > done ? i - 1 : i;
    while (i < text.size && (uint8_t)text.at[i] >= 0x80) i++;
    MRT_TRY(mrt_chars_put(t->ctx, out, text.at + done, from - done));
    mrt_slice part = { text.at + from, i - from };
    MRT_TRY(normalise_part(t, self, part, out));
    done = i;
  }
  return mrt_chars_put(t->ctx, out, text.at + done, text.size - done);
}

/* ---- the head ------------------------------------------------------------- */

/* The text's beginning that says what becomes of its head, with the head's
 * characters: up to the second letter behind it. */
static size_t enough_for(mrt_slice text, size_t head, size_t *characters) {
  size_t letters = 0, i = 0, n;
  *characters = 0;
  for (; i < text.size && letters < 2; i += n) {
    int32_t c = (int32_t)mrt_utf8_get(text.at + i, &n);
    if (i < head)
      ++*characters;
    else
      letters += class_of(c) == 0;
  }
  return i;
}

/* As many characters of the text as the head has are counted out to what they
 * became, in the order after marks were moved: where one is followed by another's
 * mark, that is taken for its own.  That is how it is there; what is composed
 * counts with the letter it goes into. */
mrt_status mrt_head_form(mrt_tokenizer *t, const mrt_normalizer *self,
                         mrt_slice text, size_t *head) {
  if (is_simple(self, text)) return MRT_OK;
  size_t had, size = enough_for(text, *head, &had), count = 0, first = 0;
  mrt_id_list *all = &t->head_characters;
  all->count = 0;
  for (size_t i = 0, n; i < size; i += n) {
    mrt_utf8_get(text.at + i, &n);
    MRT_TRY(decompose(t, self, (mrt_slice){ text.at + i, n }, &t->characters));
    mrt_id_list *some = &t->characters;
    MRT_TRY(mrt_ids_room(t->ctx, all, some->count));
    for (size_t k = 0; k < some->count; k++)
      all->at[all->count++] = some->at[k] | (k == 0 ? BEGINS : 0);
  }
  count = all->count;
  MRT_TRY(mrt_ids_room(t->ctx, all, count));
  sort_marks(all->at, count, all->at + count);
  for (size_t begun = 0; first < count; first++) {
    begun += (all->at[first] & BEGINS) != 0;
    if (begun > had) break;
  }
  for (size_t i = 0; i < count; i++) all->at[i] &= ~BEGINS;
  if (self->compose) {
    t->characters.count = 0;
    MRT_TRY(mrt_ids_room(t->ctx, &t->characters, first));
    memcpy(t->characters.at, all->at, first * sizeof *all->at);
    first = compose(t->characters.at, first);
    compose(all->at, count);
  }
  char bytes[4];
  *head = 0;
  for (size_t i = 0; i < first; i++)
    *head += mrt_utf8_put((uint32_t)all->at[i], bytes);
  return MRT_OK;
}
