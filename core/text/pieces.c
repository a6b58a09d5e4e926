/* pieces.c -- decoders, each of which makes a list of pieces of another
 *
 * SPDX-License-Identifier: MIT */
#include "text/text.h"

#include <string.h>

mrt_status mrt_piece_end(mrt_context *ctx, mrt_pieces *p) {
  if (p->count == p->room) {
    size_t room = p->room ? 2 * p->room : 64;
    void *wide = mrt_resize(ctx->allocator, p->ends, p->room * sizeof *p->ends,
                            room * sizeof *p->ends);
    if (!wide) return mrt_nomem(&ctx->error);
    p->ends = wide, p->room = room;
  }
  p->ends[p->count++] = p->text.size;
  return MRT_OK;
}

void mrt_pieces_free(mrt_context *ctx, mrt_pieces *p) {
  mrt_chars_free(ctx, &p->text);
  mrt_release(ctx->allocator, p->ends, p->room * sizeof *p->ends);
  *p = (mrt_pieces){ 0 };
}

/* The bytes that the names stand for; a name with a character that stands for
 * none is itself. */
mrt_status mrt_decode_bytes(mrt_tokenizer *t, const mrt_decoder *self,
                            const mrt_pieces *in, mrt_pieces *out) {
  (void)self;
  MRT_TRY(mrt_chars_room(t->ctx, &out->text, in->text.size));
  size_t at = 0;
  for (size_t i = 0; i < in->count; at = in->ends[i++]) {
    size_t before = out->text.size, n;
    for (size_t k = at; k < in->ends[i]; k += n) {
      int byte = mrt_byte_of_name(mrt_utf8_get(in->text.at + k, &n));
      if (byte < 0) {
        size_t size = in->ends[i] - at;
        memcpy(out->text.at + before, in->text.at + at, size);
        out->text.size = before + size;
        break;
      }
      out->text.at[out->text.size++] = (char)byte;
    }
  }
  return mrt_piece_end(t->ctx, out);
}

static mrt_slice piece(const mrt_pieces *in, size_t i) {
  size_t from = i ? in->ends[i - 1] : 0;
  return (mrt_slice){ in->text.at + from, in->ends[i] - from };
}

static mrt_status put(mrt_tokenizer *t, mrt_pieces *out, const char *p,
                      size_t n) {
  return mrt_chars_put(t->ctx, &out->text, p, n);
}

static bool begins(mrt_slice text, mrt_slice with) {
  return text.size >= with.size &&
         (!with.size || memcmp(text.at, with.at, with.size) == 0);
}

mrt_status mrt_put_replaced(mrt_tokenizer *t, mrt_chars *out, mrt_slice text,
                            mrt_slice what, mrt_slice with) {
  for (size_t i = 0; i < text.size;) {
    mrt_slice rest = { text.at + i, text.size - i };
    bool is = what.size && begins(rest, what);
    MRT_TRY(is ? mrt_chars_put(t->ctx, out, with.at, with.size)
               : mrt_chars_put(t->ctx, out, text.at + i, 1));
    i += is ? what.size : 1;
  }
  return MRT_OK;
}

/* ---- English, as it is written ------------------------------------------- */

#define TEXT(text)                                                             \
  { text, sizeof text - 1 }

/* One rule after the other, on the last piece of `out`, from `from` on. */
static mrt_status clean_up(mrt_tokenizer *t, mrt_pieces *out, size_t from) {
  static const mrt_slice rules[][2] = {
    { TEXT(" ."), TEXT(".") },     { TEXT(" ?"), TEXT("?") },
    { TEXT(" !"), TEXT("!") },     { TEXT(" ,"), TEXT(",") },
    { TEXT(" ' "), TEXT("'") },    { TEXT(" n't"), TEXT("n't") },
    { TEXT(" 'm"), TEXT("'m") },   { TEXT(" do not"), TEXT(" don't") },
    { TEXT(" 's"), TEXT("'s") },   { TEXT(" 've"), TEXT("'ve") },
    { TEXT(" 're"), TEXT("'re") },
  };
  for (int i = 0; i < MRT_COUNT(rules); i++) {
    mrt_slice text = { out->text.at + from, out->text.size - from };
    if (!text.size || !memchr(text.at, ' ', text.size)) break;
    t->bert.size = 0;
    MRT_TRY(mrt_put_replaced(t, &t->bert, text, rules[i][0], rules[i][1]));
    out->text.size = from;
    MRT_TRY(put(t, out, t->bert.at, t->bert.size));
  }
  return MRT_OK;
}

mrt_status mrt_decode_wordpiece(mrt_tokenizer *t, const mrt_decoder *self,
                                const mrt_pieces *in, mrt_pieces *out) {
  for (size_t i = 0; i < in->count; i++) {
    mrt_slice p = piece(in, i);
    size_t from = out->text.size;
    if (i && begins(p, self->text))
      p.at += self->text.size, p.size -= self->text.size;
    else if (i)
      MRT_TRY(put(t, out, " ", 1));
    MRT_TRY(put(t, out, p.at, p.size));
    if (self->cleanup) MRT_TRY(clean_up(t, out, from));
    MRT_TRY(mrt_piece_end(t->ctx, out));
  }
  return MRT_OK;
}

/* ---- marks and spaces ---------------------------------------------------- */

mrt_status mrt_decode_metaspace(mrt_tokenizer *t, const mrt_decoder *self,
                                const mrt_pieces *in, mrt_pieces *out) {
  mrt_slice space = { " ", 1 }, none = { "", 0 };
  for (size_t i = 0; i < in->count; i++) {
    bool drop = i == 0 && self->prepend != MRT_PREPEND_NEVER;
    MRT_TRY(mrt_put_replaced(t, &out->text, piece(in, i), self->text,
                             drop ? none : space));
    MRT_TRY(mrt_piece_end(t->ctx, out));
  }
  return MRT_OK;
}

mrt_status mrt_decode_suffix(mrt_tokenizer *t, const mrt_decoder *self,
                             const mrt_pieces *in, mrt_pieces *out) {
  mrt_slice space = { " ", 1 }, none = { "", 0 };
  for (size_t i = 0; i < in->count; i++) {
    MRT_TRY(mrt_put_replaced(t, &out->text, piece(in, i), self->text,
                             i + 1 == in->count ? none : space));
    MRT_TRY(mrt_piece_end(t->ctx, out));
  }
  return MRT_OK;
}

mrt_status mrt_decode_replace(mrt_tokenizer *t, const mrt_decoder *self,
                              const mrt_pieces *in, mrt_pieces *out) {
  for (size_t i = 0; i < in->count; i++) {
    mrt_slice p = piece(in, i);
    mrt_matching m = { 0 };
    size_t last = 0;
    for (;;) {
      MRT_TRY(mrt_pattern_next(t, self->pattern, p, &m));
      if (!m.found) break;
      MRT_TRY(put(t, out, p.at + last, m.begin - last));
      MRT_TRY(put(t, out, self->with.at, self->with.size));
      last = m.end;
    }
    MRT_TRY(put(t, out, p.at + last, p.size - last));
    MRT_TRY(mrt_piece_end(t->ctx, out));
  }
  return MRT_OK;
}

mrt_status mrt_decode_fuse(mrt_tokenizer *t, const mrt_decoder *self,
                           const mrt_pieces *in, mrt_pieces *out) {
  (void)self;
  MRT_TRY(put(t, out, in->text.at, in->text.size));
  return mrt_piece_end(t->ctx, out);
}

mrt_status mrt_decode_strip(mrt_tokenizer *t, const mrt_decoder *self,
                            const mrt_pieces *in, mrt_pieces *out) {
  mrt_slice c = self->text;
  for (size_t i = 0; i < in->count; i++) {
    mrt_slice p = piece(in, i);
    for (int k = 0; k < self->start && p.size && begins(p, c); k++)
      p.at += c.size, p.size -= c.size;
    for (int k = 0; k < self->stop && p.size >= c.size; k++) {
      if (memcmp(p.at + p.size - c.size, c.at, c.size) != 0) break;
      p.size -= c.size;
    }
    MRT_TRY(put(t, out, p.at, p.size));
    MRT_TRY(mrt_piece_end(t->ctx, out));
  }
  return MRT_OK;
}

/* ---- bytes as tokens ----------------------------------------------------- */

static int hex(char c) {
  return c >= '0' && c <= '9'   ? c - '0'
         : c >= 'A' && c <= 'F' ? c - 'A' + 10
         : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                : -1;
}

/* "<0xE4>"; -1: it is none. */
int mrt_byte_piece(mrt_slice p) {
  if (p.size != 6 || memcmp(p.at, "<0x", 3) != 0 || p.at[5] != '>') return -1;
  int high = hex(p.at[3]), low = hex(p.at[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

mrt_status mrt_mend_bytes(mrt_tokenizer *t, mrt_chars *out, size_t n) {
  size_t from = out->size - n;
  if (mrt_utf8_valid(out->at + from, n) == n) return MRT_OK;
  t->bert.size = 0;
  for (size_t i = from; i < out->size;) {
    size_t valid = mrt_utf8_valid(out->at + i, out->size - i);
    MRT_TRY(mrt_chars_put(t->ctx, &t->bert, out->at + i, valid));
    i += valid;
    if (i < out->size)
      MRT_TRY(mrt_chars_put(t->ctx, &t->bert, "\xef\xbf\xbd", 3));
    i += i < out->size;
  }
  out->size = from;
  return mrt_chars_put(t->ctx, out, t->bert.at, t->bert.size);
}

/* Bytes side by side are text; each is U+FFFD if that is no UTF-8. */
static mrt_status put_bytes(mrt_tokenizer *t, mrt_pieces *out, size_t from) {
  size_t n = out->text.size - from;
  if (n == 0) return MRT_OK;
  if (mrt_utf8_valid(out->text.at + from, n) == n)
    return mrt_piece_end(t->ctx, out);
  out->text.size = from;
  for (size_t i = 0; i < n; i++) {
    MRT_TRY(put(t, out, "\xef\xbf\xbd", 3));
    MRT_TRY(mrt_piece_end(t->ctx, out));
  }
  return MRT_OK;
}

mrt_status mrt_decode_fallback(mrt_tokenizer *t, const mrt_decoder *self,
                               const mrt_pieces *in, mrt_pieces *out) {
  (void)self;
  size_t from = 0;
  for (size_t i = 0; i < in->count; i++) {
    mrt_slice p = piece(in, i);
    int byte = mrt_byte_piece(p);
    char c = (char)byte;
    if (byte >= 0) {
      MRT_TRY(put(t, out, &c, 1));
      continue;
    }
    MRT_TRY(put_bytes(t, out, from));
    MRT_TRY(put(t, out, p.at, p.size));
    MRT_TRY(mrt_piece_end(t->ctx, out));
    from = out->text.size;
  }
  return put_bytes(t, out, from);
}

/* ---- CTC: what is said once is heard several times ----------------------- */

mrt_status mrt_decode_ctc(mrt_tokenizer *t, const mrt_decoder *self,
                          const mrt_pieces *in, mrt_pieces *out) {
  mrt_slice none = { "", 0 }, space = { " ", 1 }, last = { 0 };
  for (size_t i = 0; i < in->count; i++) {
    mrt_slice p = piece(in, i);
    size_t from = out->text.size;
    bool again = i && p.size == last.size && begins(p, last);
    last = p;
    if (again) continue;
    MRT_TRY(mrt_put_replaced(t, &out->text, p, self->text, none));
    if (self->cleanup) {
      MRT_TRY(clean_up(t, out, from));
      mrt_slice text = { out->text.at + from, out->text.size - from };
      t->bert.size = 0;
      MRT_TRY(mrt_put_replaced(t, &t->bert, text, self->with, space));
      out->text.size = from;
      MRT_TRY(put(t, out, t->bert.at, t->bert.size));
    }
    if (out->text.size > from) MRT_TRY(mrt_piece_end(t->ctx, out));
  }
  return MRT_OK;
}
