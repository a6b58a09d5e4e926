/* words.c -- texts into words
 *
 * Each splitter hands the parts of what it gets to the next one, at once, so
 * nothing is listed; the last hands words to the model.
 *
 * SPDX-License-Identifier: MIT */
#include "text/text.h"

#include <string.h>

mrt_status mrt_split(mrt_tokenizer *t, mrt_splitter *s,
                     const mrt_word_text *w) {
  if (w->size == 0) return MRT_OK;
  return s ? s->split(t, s, w) : t->word(t, w->at, w->size);
}

mrt_splitter *mrt_tokenizer_splitter(mrt_tokenizer *t) {
  mrt_splitter *s = MRT_NEW(&t->arena, mrt_splitter, 1), **at = &t->splitters;
  while (*at) at = &(*at)->next;
  return *at = s;
}

/* ---- what becomes of matches --------------------------------------------- */

/* Parts of a text in order, some of them matches; one waits for what follows. */
typedef struct mrt_parting {
  mrt_tokenizer *t;
  mrt_splitter *self;
  const mrt_word_text *w;
  size_t begin, end; /* of the one that waits */
  bool waits, matched;
} mrt_parting;

static mrt_status hand(const mrt_parting *p, size_t begin, size_t end) {
  mrt_word_text part = { p->w->at + begin, end - begin,
                         mrt_head_from(p->w->head, begin), p->w->bare };
  return mrt_split(p->t, p->self->next, &part);
}

static mrt_status flush(mrt_parting *p) {
  if (!p->waits) return MRT_OK;
  p->waits = false;
  return hand(p, p->begin, p->end);
}

/* Does this part join the one that waits? */
static bool joins(const mrt_parting *p, bool match) {
  switch (p->self->behavior) {
  case MRT_SPLIT_CONTIGUOUS:
    return match == p->matched;
  case MRT_SPLIT_PREVIOUS:
    return match && !p->matched;
  case MRT_SPLIT_NEXT:
    return !match && p->matched;
  default:
    return false;
  }
}

static mrt_status put_part(mrt_parting *p, size_t begin, size_t end,
                           bool match) {
  match ^= p->self->invert;
  if (p->self->behavior == MRT_SPLIT_ISOLATED) return hand(p, begin, end);
  if (p->self->behavior == MRT_SPLIT_REMOVED)
    return match ? MRT_OK : hand(p, begin, end);
  if (p->waits && joins(p, match)) {
    p->end = end;
  } else {
    MRT_TRY(flush(p));
    p->begin = begin, p->end = end, p->waits = true;
  }
  p->matched = match;
  return MRT_OK;
}

mrt_status mrt_split_pattern(mrt_tokenizer *t, mrt_splitter *self,
                             const mrt_word_text *w) {
  mrt_parting p = { .t = t, .self = self, .w = w };
  mrt_matching m = { 0 };
  mrt_slice text = { w->at, w->size };
  size_t last = 0;
  for (;;) {
    MRT_TRY(mrt_pattern_next(t, self->pattern, text, &m));
    if (!m.found) break;
    if (m.begin > last) MRT_TRY(put_part(&p, last, m.begin, false));
    MRT_TRY(put_part(&p, m.begin, m.end, true));
    last = m.end;
  }
  if (last < w->size) MRT_TRY(put_part(&p, last, w->size, false));
  return flush(&p);
}

/* ---- bytes --------------------------------------------------------------- */

mrt_status mrt_split_bytes(mrt_tokenizer *t, mrt_splitter *self,
                           const mrt_word_text *w) {
  size_t head = w->head < w->size ? w->head : w->size;
  self->room.size = 0;
  while (head && head < w->size && ((uint8_t)w->at[head] & 0xc0) == 0x80)
    head++;
  MRT_TRY(mrt_bytes_name(t->ctx, &self->room, w->at, head));
  size_t named_head = self->room.size;
  MRT_TRY(mrt_bytes_name(t->ctx, &self->room, w->at + head, w->size - head));
  mrt_word_text named = { self->room.at, self->room.size, named_head, w->bare };
  return mrt_split(t, self->next, &named);
}

/* A space goes in front of what has none. */
mrt_status mrt_split_spaced(mrt_tokenizer *t, mrt_splitter *self,
                            const mrt_word_text *w) {
  if (w->bare || w->at[0] == ' ') return mrt_split(t, self->next, w);
  self->room.size = 0;
  MRT_TRY(mrt_chars_put(t->ctx, &self->room, " ", 1));
  MRT_TRY(mrt_chars_put(t->ctx, &self->room, w->at, w->size));
  mrt_word_text spaced = { self->room.at, self->room.size,
                           w->head ? w->head + 1 : 0, w->bare };
  return mrt_split(t, self->next, &spaced);
}

/* ---- by kinds of characters ---------------------------------------------- */

mrt_status mrt_split_kind(mrt_tokenizer *t, mrt_splitter *self,
                          const mrt_word_text *w) {
  mrt_parting p = { .t = t, .self = self, .w = w };
  size_t last = 0;
  for (size_t i = 0, n; i < w->size; i += n) {
    uint32_t c = mrt_utf8_get(w->at + i, &n);
    if (!self->is(self, c)) continue;
    if (i > last) MRT_TRY(put_part(&p, last, i, false));
    MRT_TRY(put_part(&p, i, i + n, true));
    last = i + n;
  }
  if (last < w->size) MRT_TRY(put_part(&p, last, w->size, false));
  return flush(&p);
}

mrt_status mrt_split_length(mrt_tokenizer *t, mrt_splitter *self,
                            const mrt_word_text *w) {
  mrt_parting p = { .t = t, .self = self, .w = w };
  for (size_t from = 0, to; from < w->size; from = to) {
    to = from;
    for (int i = 0; i < self->length && to < w->size; i++)
      to += mrt_utf8_length(w->at[to]);
    MRT_TRY(hand(&p, from, to));
  }
  return MRT_OK;
}

/* What stands before the first script is lost: that is how it is there. */
mrt_status mrt_split_scripts(mrt_tokenizer *t, mrt_splitter *self,
                             const mrt_word_text *w) {
  mrt_parting p = { .t = t, .self = self, .w = w };
  uint32_t last = 0;
  size_t from = 0;
  for (size_t i = 0, n; i < w->size; i += n) {
    uint32_t script = mrt_script_of(mrt_utf8_get(w->at + i, &n));
    if (!script || script == last) continue;
    if (last) MRT_TRY(hand(&p, from, i));
    last = script, from = i;
  }
  return last ? hand(&p, from, w->size) : MRT_OK;
}

/* ---- sentencepiece's spaces ---------------------------------------------- */

/* A mark for each space, and one in front. */
static mrt_status mark_spaces(mrt_tokenizer *t, mrt_splitter *self,
                              const mrt_word_text *w) {
  mrt_chars *room = &self->room;
  mrt_slice mark = self->mark;
  bool has = w->at[0] == ' ' ||
             (w->size >= mark.size && memcmp(w->at, mark.at, mark.size) == 0);
  bool wanted = self->prepend == MRT_PREPEND_ALWAYS ||
                (self->prepend == MRT_PREPEND_FIRST && w->head);
  room->size = 0;
  if (wanted && !has && !w->bare)
    MRT_TRY(mrt_chars_put(t->ctx, room, mark.at, mark.size));
  for (size_t i = 0; i < w->size;) {
    const char *at = memchr(w->at + i, ' ', w->size - i);
    size_t n = at ? (size_t)(at - (w->at + i)) : w->size - i;
    MRT_TRY(mrt_chars_put(t->ctx, room, w->at + i, n));
    if (at) MRT_TRY(mrt_chars_put(t->ctx, room, mark.at, mark.size));
    i += n + (at != NULL);
  }
  return MRT_OK;
}

/* What is in front of the head is part of it, and marks are longer than
 * spaces. */
static size_t marked_head(const mrt_splitter *self, const mrt_word_text *w,
                          size_t size) {
  size_t spaces = 0, n = w->head < w->size ? w->head : w->size, all = 0;
  for (size_t i = 0; i < w->size; i++) {
    all += w->at[i] == ' ';
    spaces += i < n && w->at[i] == ' ';
  }
  size_t longer = self->mark.size - 1, front = size - w->size - all * longer;
  return front + n + spaces * longer;
}

mrt_status mrt_split_metaspace(mrt_tokenizer *t, mrt_splitter *self,
                               const mrt_word_text *w) {
  MRT_TRY(mark_spaces(t, self, w));
  mrt_word_text marked = { self->room.at, self->room.size, 0, w->bare };
  if (w->head) marked.head = marked_head(self, w, marked.size);
  if (!self->cut || marked.size == 0) return mrt_split(t, self->next, &marked);
  mrt_parting p = { .t = t, .self = self, .w = &marked };
  for (size_t last = 0; last < marked.size;) {
    const char *at =
        memchr(marked.at + last + 1, self->mark.at[0], marked.size - last - 1);
    while (at && ((size_t)(marked.at + marked.size - at) < self->mark.size ||
                  memcmp(at, self->mark.at, self->mark.size) != 0))
      at = memchr(at + 1, self->mark.at[0],
                  (size_t)(marked.at + marked.size - at - 1));
    size_t end = at ? (size_t)(at - marked.at) : marked.size;
    MRT_TRY(hand(&p, last, end));
    last = end;
  }
  return MRT_OK;
}
