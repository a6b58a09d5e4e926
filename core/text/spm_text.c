/* spm_text.c -- sentencepiece's way from texts to what its models take, and back
 *
 * Symbols of the user stay as they are; elsewhere the longest rule that fits
 * replaces what stands there.  Spaces at the ends and side by side go, one comes
 * in front, and each becomes U+2581.
 *
 *   from  sentencepiece, src/normalizer.cc, src/sentencepiece_processor.cc
 *
 * SPDX-License-Identifier: MIT */
#include "text/sentencepiece.h"

#include <string.h>

#define MARK "\xe2\x96\x81"

/* What stands at `p`, and its bytes. */
static mrt_slice look(const mrt_normalizer *self, const char *p, size_t n,
                      size_t *size) {
  if (self->kept && mrt_trie_longest(self->kept, p, n, size) >= 0)
    return (mrt_slice){ p, *size };
  if (self->map.units) {
    mrt_slice text = mrt_charsmap_find(&self->map, p, n, true, size);
    if (text.at) return text;
  }
  *size = mrt_utf8_length(*p);
  return (mrt_slice){ p, *size };
}

static mrt_status put(mrt_tokenizer *t, const mrt_normalizer *self,
                      mrt_slice text, mrt_chars *out) {
  for (size_t i = 0; i < text.size;) {
    const char *at =
        self->escape ? memchr(text.at + i, ' ', text.size - i) : NULL;
    size_t n = at ? (size_t)(at - (text.at + i)) : text.size - i;
    MRT_TRY(mrt_chars_put(t->ctx, out, text.at + i, n));
    if (at) MRT_TRY(mrt_chars_put(t->ctx, out, MARK, 3));
    i += n + (at != NULL);
  }
  return MRT_OK;
}

static bool is_plain(const mrt_normalizer *self, const char *p) {
  return (uint8_t)*p > ' ' && (uint8_t)*p < 0x7f && self->plain[(int)*p];
}

static mrt_status put_body(mrt_tokenizer *t, const mrt_normalizer *self,
                           mrt_slice text, size_t from, mrt_chars *out) {
  bool space = self->squeeze;
  for (size_t i = from, size = 1; i < text.size; i += size) {
    if (is_plain(self, text.at + i)) {
      size = 1, space = false;
      MRT_TRY(mrt_chars_put(t->ctx, out, text.at + i, 1));
      continue;
    }
    mrt_slice part = look(self, text.at + i, text.size - i, &size);
    while (space && part.size && *part.at == ' ') part.at++, part.size--;
    if (part.size) {
      MRT_TRY(put(t, self, part, out));
      space = part.at[part.size - 1] == ' ';
    }
    space &= self->squeeze;
  }
  return MRT_OK;
}

static mrt_status normalise(mrt_tokenizer *t, const mrt_normalizer *self,
                            mrt_slice text, mrt_chars *out, bool *same) {
  mrt_slice mark =
      self->escape ? (mrt_slice){ MARK, 3 } : (mrt_slice){ " ", 1 };
  size_t from = 0, size;
  (void)same;
  while (self->squeeze && from < text.size) {
    mrt_slice part = look(self, text.at + from, text.size - from, &size);
    if (part.size != 1 || *part.at != ' ') break;
    from += size;
  }
  if (from == text.size) return MRT_OK;
  if (self->dummy && !self->suffix)
    MRT_TRY(mrt_chars_put(t->ctx, out, mark.at, mark.size));
  MRT_TRY(put_body(t, self, text, from, out));
  while (self->squeeze && out->size >= mark.size &&
         memcmp(out->at + out->size - mark.size, mark.at, mark.size) == 0)
    out->size -= mark.size;
  if (self->dummy && self->suffix)
    return mrt_chars_put(t->ctx, out, mark.at, mark.size);
  return MRT_OK;
}

/* ---- making it ----------------------------------------------------------- */

static mrt_status add_kept(mrt_tokenizer *t, const mrt_spm *m,
                           mrt_normalizer *n) {
  size_t count = 0, room = (size_t)m->count;
  mrt_trie_entry *e = mrt_calloc(t->ctx->allocator, room, sizeof *e);
  if (!e) return mrt_nomem(&t->ctx->error);
  for (int i = 0; i < m->count; i++)
    if (m->pieces[i].type == MRT_SPM_USER)
      e[count++] = (mrt_trie_entry){ m->pieces[i].text, i };
  mrt_status status = MRT_OK;
  if (count) {
    mrt_trie *trie = MRT_NEW(&t->arena, mrt_trie, 1);
    status = trie ? mrt_trie_make(trie, &t->arena, &t->ctx->error, e, count)
                  : mrt_nomem(&t->ctx->error);
    n->kept = trie;
  }
  mrt_release(t->ctx->allocator, e, room * sizeof *e);
  return status;
}

mrt_status mrt_spm_normalizer(mrt_tokenizer *t, mrt_source *s,
                              const mrt_spm *m) {
  mrt_normalizer *n = mrt_tokenizer_normalizer(t);
  if (!n) return mrt_nomem(&t->ctx->error);
  n->apply = normalise;
  n->dummy = m->dummy, n->squeeze = m->squeeze;
  n->escape = m->escape, n->suffix = m->suffix;
  if (m->charsmap.size) {
    mrt_slice map = mrt_slice_copy(&t->arena, m->charsmap.at, m->charsmap.size);
    if (!map.at) return mrt_nomem(&t->ctx->error);
    if (!mrt_charsmap_read(&n->map, map.at, map.size))
      return mrt_source_fail(s, MRT_EDATA,
                             "the rules of normalisation are "
                             "broken");
  }
  MRT_TRY(add_kept(t, m, n));
  /* ASCII that begins nothing else. */
  for (int c = '!'; c < 0x7f; c++) {
    char text[2] = { (char)c, 0 };
    bool kept = n->kept && n->kept->root[c] >= 0;
    n->plain[c] =
        !kept && (!n->map.units || !mrt_charsmap_begins(&n->map, text[0]));
  }
  return MRT_OK;
}

/* ---- back ---------------------------------------------------------------- */

/* A mark is a space, but not the one that was put in front; bytes are text, and
 * each is U+FFFD that is none; what is unknown is seen to be. */
static mrt_status decode(mrt_tokenizer *t, const mrt_decoder *self,
                         const mrt_pieces *in, mrt_pieces *out) {
  size_t from = 0, bytes = 0;
  bool first = true;
  for (size_t i = 0; i <= in->count; i++) {
    mrt_slice p = { in->text.at + from,
                    i < in->count ? in->ends[i] - from : 0 };
    int byte = i < in->count ? mrt_byte_piece(p) : -1;
    char c = (char)byte;
    from += p.size;
    if (byte >= 0) {
      MRT_TRY(mrt_chars_put(t->ctx, &out->text, &c, 1));
      bytes++, first = false;
      continue;
    }
    MRT_TRY(mrt_mend_bytes(t, &out->text, bytes));
    bytes = 0;
    bool mark = p.size >= 3 && memcmp(p.at, MARK, 3) == 0;
    if (first && mark && self->cleanup) p.at += 3, p.size -= 3;
    if (p.size == self->with.size && self->with.size &&
        memcmp(p.at, self->with.at, p.size) == 0)
      p = (mrt_slice){ " \xe2\x81\x87 ", 5 };
    MRT_TRY(mrt_put_replaced(t, &out->text, p, (mrt_slice){ MARK, 3 },
                             (mrt_slice){ " ", 1 }));
    first &= out->text.size == 0 && self->start;
  }
  return mrt_piece_end(t->ctx, out);
}

mrt_status mrt_spm_decoder(mrt_tokenizer *t, const mrt_spm *m,
                           int32_t unknown) {
  mrt_decoder *d = mrt_tokenizer_decoder(t);
  if (!d) return mrt_nomem(&t->ctx->error);
  d->decode = decode;
  d->cleanup = (m->dummy && !m->suffix) || m->squeeze;
  d->start = m->squeeze;
  d->with = m->pieces[unknown].text;
  return MRT_OK;
}
