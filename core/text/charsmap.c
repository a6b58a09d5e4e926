/* charsmap.c -- sentencepiece's normalisation rules, compiled
 *
 * A blob of a length, a double array that long, and the texts that it leads to.
 * Each unit has a label, an offset to its children, and whether a string ends:
 *
 *   from  github.com/s-yata/darts-clone; sentencepiece, src/normalizer.cc
 *
 * sentencepiece takes the longest rule that fits.  Hugging Face's tokenizers go
 * by what people take for characters: one of less than six bytes is looked up
 * whole and then replaced by its shortest rule, others code point by code point.
 *
 * SPDX-License-Identifier: MIT */
#include "text/normal.h"

#include <string.h>
#include <utf8proc.h>

enum { LONGEST_TEXT = 512 };

bool mrt_charsmap_read(mrt_charsmap *m, const char *blob, size_t size) {
  if (size < 4) return false;
  size_t bytes = (size_t)mrt_little((const uint8_t *)blob, 4);
  if (bytes % 4 || bytes > size - 4 || bytes == 0) return false;
  m->units = (const uint32_t *)(const void *)(blob + 4);
  m->count = bytes / 4;
  m->texts = blob + 4 + bytes;
  m->size = size - 4 - bytes;
  return true;
}

/* The blob need not be aligned, and is little-endian. */
static uint32_t unit_at(const mrt_charsmap *m, size_t i) {
  return (uint32_t)mrt_little((const uint8_t *)m->units + 4 * i, 4);
}

static size_t offset_of(uint32_t unit) {
  return (size_t)(unit >> 10) << ((unit & 0x200) >> 6);
}

static mrt_slice text_at(const mrt_charsmap *m, size_t at) {
  mrt_slice none = { 0 };
  if (at >= m->size) return none;
  size_t most = m->size - at < LONGEST_TEXT ? m->size - at : LONGEST_TEXT;
  const char *end = memchr(m->texts + at, 0, most);
  size_t n = end ? (size_t)(end - (m->texts + at)) : 0;
  if (!end || mrt_utf8_valid(m->texts + at, n) < n) return none;
  return (mrt_slice){ m->texts + at, n };
}

mrt_slice mrt_charsmap_find(const mrt_charsmap *m, const char *p, size_t n,
                            bool longest, size_t *size) {
  size_t at = offset_of(unit_at(m, 0));
  mrt_slice found = { 0 };
  for (size_t i = 0; i < n && p[i]; i++) {
    at ^= (uint8_t)p[i];
    if (at >= m->count) break;
    uint32_t unit = unit_at(m, at);
    if ((unit & 0x800000ff) != (uint8_t)p[i]) break;
    at ^= offset_of(unit);
    if (!(unit >> 8 & 1)) continue;
    if (at >= m->count) break;
    mrt_slice text = text_at(m, unit_at(m, at) & 0x7fffffff);
    if (!text.at) break;
    found = text, *size = i + 1;
    if (!longest) break;
  }
  return found;
}

bool mrt_charsmap_begins(const mrt_charsmap *m, char byte) {
  size_t at = offset_of(unit_at(m, 0)) ^ (uint8_t)byte;
  return at < m->count && (unit_at(m, at) & 0x800000ff) == (uint8_t)byte;
}

/* ---- as Hugging Face's tokenizers do ------------------------------------- */

/* Marks of Unicode 16 and 17, which utf8proc may not know: such a character
 * stands for them. */
static int32_t known_character(uint32_t c) {
  static const uint32_t marks[][2] = {
    { 0x897, 0x897 },     { 0x1acf, 0x1add },   { 0x1ae0, 0x1aeb },
    { 0x10d69, 0x10d6d }, { 0x10efa, 0x10efc }, { 0x113b8, 0x113c0 },
    { 0x113c2, 0x113c2 }, { 0x113c5, 0x113c5 }, { 0x113c7, 0x113ca },
    { 0x113cc, 0x113d0 }, { 0x113d2, 0x113d2 }, { 0x113e1, 0x113e2 },
    { 0x11b60, 0x11b67 }, { 0x11f5a, 0x11f5a }, { 0x1611e, 0x1612f },
    { 0x1e5ee, 0x1e5ef }, { 0x1e6e3, 0x1e6e3 }, { 0x1e6e6, 0x1e6e6 },
    { 0x1e6ee, 0x1e6ef }, { 0x1e6f5, 0x1e6f5 },
  };
  for (int i = 0; c >= 0x897 && i < MRT_COUNT(marks); i++)
    if (c >= marks[i][0] && c <= marks[i][1]) return 0x300;
  return (int32_t)c;
}

/* The bytes of the character, as people see it, that begins at `p`. */
static size_t grapheme(const char *p, size_t n) {
  int32_t state = 0;
  size_t at, more;
  int32_t before = known_character(mrt_utf8_get(p, &at));
  while (at < n) {
    int32_t c = known_character(mrt_utf8_get(p + at, &more));
    if (utf8proc_grapheme_break_stateful(before, c, &state)) break;
    at += more, before = c;
  }
  return at;
}

static mrt_status put_mapped(mrt_tokenizer *t, const mrt_charsmap *m,
                             const char *p, size_t n, mrt_chars *out,
                             bool *mapped) {
  size_t size;
  mrt_slice text = mrt_charsmap_find(m, p, n, false, &size);
  *mapped = text.at != NULL;
  return text.at ? mrt_chars_put(t->ctx, out, text.at, text.size) : MRT_OK;
}

static mrt_status put_grapheme(mrt_tokenizer *t, const mrt_charsmap *m,
                               const char *p, size_t n, mrt_chars *out) {
  bool mapped = false;
  if (n < 6) MRT_TRY(put_mapped(t, m, p, n, out, &mapped));
  for (size_t i = 0, k; i < n && !(mapped && n < 6); i += k) {
    k = mrt_utf8_length(p[i]);
    MRT_TRY(put_mapped(t, m, p + i, k, out, &mapped));
    if (!mapped) MRT_TRY(mrt_chars_put(t->ctx, out, p + i, k));
    mapped = false;
  }
  return MRT_OK;
}

/* What is taken away at the beginning leaves its place to what follows. */
mrt_status mrt_head_charsmap(mrt_tokenizer *t, const mrt_normalizer *self,
                             mrt_slice text, size_t *head) {
  bool same;
  mrt_chars *room = &t->accents;
  size_t n = *head < text.size ? *head : text.size;
  while (n < text.size && ((uint8_t)text.at[n] & 0xc0) == 0x80) n++;
  room->size = 0;
  MRT_TRY(
      mrt_normalise_charsmap(t, self, (mrt_slice){ text.at, n }, room, &same));
  *head = room->size ? room->size : 1;
  return MRT_OK;
}

static bool is_plain(char c) { return c >= ' ' && c < 0x7f; }

mrt_status mrt_normalise_charsmap(mrt_tokenizer *t, const mrt_normalizer *self,
                                  mrt_slice text, mrt_chars *out, bool *same) {
  (void)same;
  bool mapped[128], known[128] = { false };
  for (size_t i = 0, n; i < text.size; i += n) {
    const char *p = text.at + i;
    n = 1;
    /* What ASCII is followed by ASCII stands alone. */
    if (is_plain(*p) && (i + 1 == text.size || is_plain(p[1]))) {
      size_t size;
      if (!known[(int)*p])
        mapped[(int)*p] =
            mrt_charsmap_find(&self->map, p, 1, false, &size).at != NULL;
      known[(int)*p] = true;
      if (!mapped[(int)*p]) {
        MRT_TRY(mrt_chars_put(t->ctx, out, p, 1));
        continue;
      }
    } else {
      n = grapheme(p, text.size - i);
    }
    MRT_TRY(put_grapheme(t, &self->map, p, n, out));
  }
  return MRT_OK;
}
