/* normal.c -- normalizers of which each is a few lines
 *
 * SPDX-License-Identifier: MIT */
#include "text/normal.h"

#include <string.h>

mrt_normalizer *mrt_tokenizer_normalizer(mrt_tokenizer *t) {
  mrt_normalizer *n = MRT_NEW(&t->arena, mrt_normalizer, 1),
                 **at = &t->normalizers;
  while (*at) at = &(*at)->next;
  return *at = n;
}

/* What rules make of a text may be larger, but not by any factor. */
static mrt_status check_growth(mrt_tokenizer *t, size_t from, size_t to) {
  if (to / 64 <= from + 1024) return MRT_OK;
  return mrt_fail(&t->ctx->error, MRT_EVALUE,
                  "encode: the normalizers make more than %zu bytes of %zu", to,
                  from);
}

/* What is made of the head alone is about the head of what is made of all. */
static mrt_status find_head(mrt_tokenizer *t, const mrt_normalizer *n,
                            mrt_slice text, mrt_chars *room, size_t *head) {
  bool same = false;
  if (*head > text.size) *head = text.size; /* what is behind was taken away */
  if (!*head) return MRT_OK;
  if (n->head) return n->head(t, n, text, head);
  while (*head < text.size && ((uint8_t)text.at[*head] & 0xc0) == 0x80) ++*head;
  MRT_TRY(n->apply(t, n, (mrt_slice){ text.at, *head }, room, &same));
  if (!same) *head = room->size;
  room->size = 0;
  return MRT_OK;
}

mrt_status mrt_normalise(mrt_tokenizer *t, mrt_slice text, mrt_slice *out,
                         size_t *head) {
  int turn = 0;
  t->original = text.size;
  *out = text;
  for (const mrt_normalizer *n = t->normalizers; n; n = n->next) {
    mrt_chars *room = &t->normal[turn];
    bool same = false;
    room->size = 0;
    MRT_TRY(mrt_chars_room(t->ctx, room, out->size));
    if (t->heads && *head) MRT_TRY(find_head(t, n, *out, room, head));
    MRT_TRY(n->apply(t, n, *out, room, &same));
    if (same) continue;
    MRT_TRY(check_growth(t, t->original, room->size));
    *out = (mrt_slice){ room->at, room->size };
    turn = !turn;
  }
  return MRT_OK;
}

static mrt_status put(mrt_tokenizer *t, mrt_chars *out, uint32_t c) {
  MRT_TRY(mrt_chars_room(t->ctx, out, 4));
  out->size += mrt_utf8_put(c, out->at + out->size);
  return MRT_OK;
}

/* ---- character by character ---------------------------------------------- */

mrt_status mrt_normalise_lower(mrt_tokenizer *t, const mrt_normalizer *self,
                               mrt_slice text, mrt_chars *out, bool *same) {
  (void)self, (void)same;
  for (size_t i = 0, n; i < text.size; i += n) {
    uint32_t c = mrt_utf8_get(text.at + i, &n), lower[2];
    MRT_TRY(mrt_chars_room(t->ctx, out, 8));
    if (c < 0x80) {
      out->at[out->size++] = (char)(c >= 'A' && c <= 'Z' ? c | 32 : c);
      continue;
    }
    size_t k = mrt_to_lower(c, lower);
    for (size_t j = 0; j < k; j++)
      out->size += mrt_utf8_put(lower[j], out->at + out->size);
  }
  return MRT_OK;
}

mrt_status mrt_normalise_accents(mrt_tokenizer *t, const mrt_normalizer *self,
                                 mrt_slice text, mrt_chars *out, bool *same) {
  (void)self, (void)same;
  for (size_t i = 0, n; i < text.size; i += n) {
    uint32_t c = mrt_utf8_get(text.at + i, &n);
    if (c < 0x80 || !mrt_is_mark(c)) MRT_TRY(put(t, out, c));
  }
  return MRT_OK;
}

/* As google's neural translation had it: controls away, spaces alike. */
mrt_status mrt_normalise_nmt(mrt_tokenizer *t, const mrt_normalizer *self,
                             mrt_slice text, mrt_chars *out, bool *same) {
  (void)self, (void)same;
  for (size_t i = 0, n; i < text.size; i += n) {
    uint32_t c = mrt_utf8_get(text.at + i, &n);
    if ((c >= 1 && c <= 8) || c == 0xb || (c >= 0xe && c <= 0x1f) ||
        c == 0x7f || c == 0x8f || c == 0x9f)
      continue;
    if (c == 9 || c == 0xa || c == 0xc || c == 0xd || c == 0x1680 ||
        (c >= 0x200b && c <= 0x200f) || c == 0x2028 || c == 0x2029 ||
        c == 0x2581 || c == 0xfeff || c == 0xfffd)
      c = ' ';
    MRT_TRY(put(t, out, c));
  }
  return MRT_OK;
}

mrt_status mrt_normalise_bytes(mrt_tokenizer *t, const mrt_normalizer *self,
                               mrt_slice text, mrt_chars *out, bool *same) {
  (void)self, (void)same;
  return mrt_bytes_name(t->ctx, out, text.at, text.size);
}

/* ---- BERT ---------------------------------------------------------------- */

static mrt_status clean(mrt_tokenizer *t, const mrt_normalizer *self,
                        mrt_slice text, mrt_chars *out) {
  for (size_t i = 0, n; i < text.size; i += n) {
    uint32_t c = mrt_utf8_get(text.at + i, &n);
    if (self->clean) {
      bool space = mrt_is_space(c);
      if (c == 0 || c == 0xfffd) continue;
      if (c != '\t' && c != '\n' && c != '\r' && mrt_is_other(c)) continue;
      if (space) c = ' ';
    }
    bool apart = self->chinese && c >= 0x3400 && mrt_is_chinese(c);
    if (apart) MRT_TRY(put(t, out, ' '));
    MRT_TRY(put(t, out, c));
    if (apart) MRT_TRY(put(t, out, ' '));
  }
  return MRT_OK;
}

static mrt_status strip_nonspacing(mrt_tokenizer *t, mrt_slice text,
                                   mrt_chars *out) {
  static const mrt_normalizer form = { .compose = false };
  bool same = false;
  mrt_chars *room = &t->accents;
  room->size = 0;
  MRT_TRY(mrt_chars_room(t->ctx, room, text.size));
  MRT_TRY(mrt_normalise_form(t, &form, text, room, &same));
  if (same) return mrt_chars_put(t->ctx, out, text.at, text.size);
  for (size_t i = 0, n; i < room->size; i += n) {
    uint32_t c = mrt_utf8_get(room->at + i, &n);
    if (c < 0x80 || !mrt_is_nonspacing(c)) MRT_TRY(put(t, out, c));
  }
  return MRT_OK;
}

/* Each step of it is one of those above. */
mrt_status mrt_normalise_bert(mrt_tokenizer *t, const mrt_normalizer *self,
                              mrt_slice text, mrt_chars *out, bool *same) {
  mrt_chars *room = &t->bert;
  room->size = 0;
  MRT_TRY(mrt_chars_room(t->ctx, room, text.size));
  MRT_TRY(clean(t, self, text, room));
  mrt_slice cleaned = { room->at, room->size };
  if (self->accents) {
    MRT_TRY(strip_nonspacing(t, cleaned, out));
    if (!self->lower) return MRT_OK;
    room->size = 0;
    MRT_TRY(mrt_chars_put(t->ctx, room, out->at, out->size));
    cleaned = (mrt_slice){ room->at, room->size };
    out->size = 0;
  }
  if (self->lower) return mrt_normalise_lower(t, self, cleaned, out, same);
  return mrt_chars_put(t->ctx, out, cleaned.at, cleaned.size);
}

/* ---- ends, and what is replaced ------------------------------------------ */

mrt_status mrt_normalise_strip(mrt_tokenizer *t, const mrt_normalizer *self,
                               mrt_slice text, mrt_chars *out, bool *same) {
  size_t from = 0, to = text.size, n;
  (void)same;
  while (self->left && from < to &&
         mrt_is_space(mrt_utf8_get(text.at + from, &n)))
    from += n;
  while (self->right && to > from) {
    size_t back = 1;
    while (back < to && ((uint8_t)text.at[to - back] & 0xc0) == 0x80) back++;
    if (!mrt_is_space(mrt_utf8_get(text.at + to - back, &n))) break;
    to -= back;
  }
  return mrt_chars_put(t->ctx, out, text.at + from, to - from);
}

/* Only what is taken away at the beginning matters. */
mrt_status mrt_head_strip(mrt_tokenizer *t, const mrt_normalizer *self,
                          mrt_slice text, size_t *head) {
  size_t from = 0, n;
  (void)t;
  while (self->left && from < text.size &&
         mrt_is_space(mrt_utf8_get(text.at + from, &n)))
    from += n;
  *head = mrt_head_from(*head, from);
  return MRT_OK;
}

mrt_status mrt_normalise_prepend(mrt_tokenizer *t, const mrt_normalizer *self,
                                 mrt_slice text, mrt_chars *out, bool *same) {
  (void)same;
  if (text.size == 0) return MRT_OK;
  MRT_TRY(mrt_chars_put(t->ctx, out, self->text.at, self->text.size));
  return mrt_chars_put(t->ctx, out, text.at, text.size);
}

mrt_status mrt_head_prepend(mrt_tokenizer *t, const mrt_normalizer *self,
                            mrt_slice text, size_t *head) {
  (void)t, (void)text;
  *head += self->text.size;
  return MRT_OK;
}

/* What replaces comes from the last character that is replaced. */
mrt_status mrt_head_replace(mrt_tokenizer *t, const mrt_normalizer *self,
                            mrt_slice text, size_t *head) {
  mrt_matching m = { 0 };
  size_t last = 0, made = 0;
  for (;;) {
    MRT_TRY(mrt_pattern_next(t, self->pattern, text, &m));
    if (!m.found || m.begin >= *head) break;
    made += m.begin - last;
    size_t before = m.end;
    while (before && ((uint8_t)text.at[--before] & 0xc0) == 0x80) continue;
    last = m.end;
    if (before >= *head) return *head = made, MRT_OK;
    made += self->text.size;
  }
  *head = made + mrt_head_from(*head, last);
  return MRT_OK;
}

mrt_status mrt_normalise_replace(mrt_tokenizer *t, const mrt_normalizer *self,
                                 mrt_slice text, mrt_chars *out, bool *same) {
  mrt_matching m = { 0 };
  size_t last = 0;
  for (;;) {
    MRT_TRY(mrt_pattern_next(t, self->pattern, text, &m));
    if (!m.found) break;
    MRT_TRY(mrt_chars_put(t->ctx, out, text.at + last, m.begin - last));
    MRT_TRY(mrt_chars_put(t->ctx, out, self->text.at, self->text.size));
    MRT_TRY(check_growth(t, t->original, out->size));
    last = m.end;
  }
  if (last == 0 && out->size == 0) return *same = true, MRT_OK;
  return mrt_chars_put(t->ctx, out, text.at + last, text.size - last);
}
