/* sentencepiece.c -- sentencepiece's models
 *
 * A protocol buffer: pieces with scores and types, what the trainer was told, and
 * the rules of normalisation.  Read by hand: a field is a number with a type, and
 * those that are not ours are passed.
 *
 *   from  github.com/google/sentencepiece, src/sentencepiece_model.proto
 *
 * SPDX-License-Identifier: MIT */
#include "text/sentencepiece.h"

#include <math.h>
#include <string.h>

/* ---- protocol buffers ---------------------------------------------------- */

typedef struct mrt_wire {
  const uint8_t *at, *end;
  int field, type;
  uint64_t number; /* types 0 and 5 */
  mrt_slice bytes; /* type 2 */
} wire;

static bool varint(wire *w, uint64_t *value) {
  *value = 0;
  for (int shift = 0; shift < 64 && w->at < w->end; shift += 7) {
    uint8_t b = *w->at++;
    *value |= (uint64_t)(b & 127) << shift;
    if (b < 128) return true;
  }
  return false;
}

static bool take(wire *w, uint64_t n, mrt_slice *out) {
  if (n > (uint64_t)(w->end - w->at)) return false;
  *out = (mrt_slice){ (const char *)w->at, (size_t)n };
  w->at += n;
  return true;
}

/* The next field; false: broken, or the end (w->at == w->end). */
static bool next_field(wire *w) {
  uint64_t key, n;
  if (w->at == w->end || !varint(w, &key)) return false;
  w->field = (int)(key >> 3 & 0xfffffff), w->type = (int)(key & 7);
  switch (w->type) {
  case 0:
    return varint(w, &w->number);
  case 1:
    return take(w, 8, &w->bytes);
  case 2:
    return varint(w, &n) && take(w, n, &w->bytes);
  case 5:
    if (!take(w, 4, &w->bytes)) return false;
    w->number = mrt_little((const uint8_t *)w->bytes.at, 4);
    return true;
  }
  return false;
}

static wire open_wire(mrt_slice s) {
  const uint8_t *p = (const uint8_t *)s.at;
  return (wire){ .at = p, .end = p + s.size };
}

/* ---- the parts of a model ------------------------------------------------ */

static bool read_piece(mrt_slice text, mrt_spm_piece *p) {
  wire w = open_wire(text);
  *p = (mrt_spm_piece){ .type = MRT_SPM_NORMAL, .text = { "", 0 } };
  while (next_field(&w)) {
    uint32_t bits = (uint32_t)w.number;
    if (w.field == 1 && w.type == 2) p->text = w.bytes;
    if (w.field == 2 && w.type == 5) memcpy(&p->score, &bits, 4);
    if (w.field == 3 && w.type == 0) p->type = (int)(w.number & 15);
  }
  return w.at == w.end && p->score == p->score && fabsf(p->score) < 1e30f;
}

static bool read_trainer(mrt_slice text, mrt_spm *m) {
  wire w = open_wire(text);
  while (next_field(&w)) {
    if (w.type != 0) continue;
    switch (w.field) {
    case 3:
      m->kind = (int)(w.number & 15);
      break;
    case 24:
      m->suffix = w.number != 0;
      break;
    case 35:
      m->byte_fallback = w.number != 0;
      break;
    }
  }
  return w.at == w.end;
}

static bool read_normalizer(mrt_slice text, mrt_spm *m) {
  wire w = open_wire(text);
  while (next_field(&w)) {
    if (w.field == 2 && w.type == 2) m->charsmap = w.bytes;
    if (w.type != 0) continue;
    if (w.field == 3) m->dummy = w.number != 0;
    if (w.field == 4) m->squeeze = w.number != 0;
    if (w.field == 5) m->escape = w.number != 0;
  }
  return w.at == w.end;
}

static bool count_pieces(mrt_slice text, int *count) {
  wire w = open_wire(text);
  *count = 0;
  while (next_field(&w)) *count += w.field == 1 && w.type == 2;
  return w.at == w.end && *count > 0 && *count <= MRT_MOST_TOKENS;
}

static mrt_status broken(mrt_source *s) {
  return mrt_source_fail(s, MRT_EDATA,
                         "no tokenizer: neither JSON, nor a model of "
                         "sentencepiece, nor ranks in tiktoken's form");
}

static mrt_status read_model(mrt_tokenizer *t, mrt_source *s, mrt_spm *m) {
  mrt_slice text = { (const char *)s->bytes.data, s->bytes.size };
  int n = 0;
  if (!count_pieces(text, &m->count)) return broken(s);
  m->pieces = MRT_NEW(&t->arena, mrt_spm_piece, m->count);
  if (!m->pieces) return mrt_nomem(&s->ctx->error);
  wire w = open_wire(text);
  while (next_field(&w)) {
    bool fine = true;
    if (w.type != 2) continue;
    if (w.field == 1) {
      fine = read_piece(w.bytes, &m->pieces[n]);
      if (fine && mrt_utf8_valid(m->pieces[n].text.at, m->pieces[n].text.size) <
                      m->pieces[n].text.size)
        fine = false;
      n++;
    }
    if (w.field == 2) fine = read_trainer(w.bytes, m);
    if (w.field == 3) fine = read_normalizer(w.bytes, m);
    if (w.field == 5 && fine && w.bytes.size > 2) {
      mrt_spm rules = { .dummy = true };
      fine = read_normalizer(w.bytes, &rules);
      if (fine && rules.charsmap.size)
        return mrt_source_fail(s, MRT_EDATA,
                               "rules of denormalisation are not understood");
    }
    if (!fine) return broken(s);
  }
  return MRT_OK;
}

/* ---- as a tokenizer ------------------------------------------------------ */

static mrt_status add_vocab(mrt_tokenizer *t, mrt_source *s, const mrt_spm *m) {
  if (mrt_vocab_make(&t->vocab, &t->arena, m->count, m->count))
    return mrt_nomem(&s->ctx->error);
  for (int i = 0; i < m->count; i++) {
    mrt_slice k = m->pieces[i].text;
    mrt_slice copy = mrt_slice_copy(&t->arena, k.at, k.size);
    if (!copy.at) return mrt_nomem(&s->ctx->error);
    m->pieces[i].text = copy;
    const char *wrong = mrt_vocab_put(&t->vocab, copy, i, MRT_TOKEN_ONCE);
    if (wrong || copy.size == 0)
      return mrt_source_fail(s, MRT_EDATA, "piece %d, '%.*s': %s", i,
                             (int)(copy.size < 80 ? copy.size : 80), copy.at,
                             wrong ? wrong : "it is empty");
  }
  return MRT_OK;
}

/* Symbols that are found as they are are special: those of control, and what
 * stands for the unknown. */
static mrt_status add_special(mrt_tokenizer *t, mrt_source *s, const mrt_spm *m,
                              int32_t *unknown) {
  *unknown = -1;
  for (int i = 0; i < m->count; i++) {
    const mrt_spm_piece *p = &m->pieces[i];
    if (p->type == MRT_SPM_UNKNOWN && *unknown < 0) *unknown = i;
    if (p->type < MRT_SPM_NORMAL || p->type > MRT_SPM_BYTE)
      return mrt_source_fail(s, MRT_EDATA,
                             "piece %d: type %d is not understood", i, p->type);
    if (p->type != MRT_SPM_CONTROL) continue;
    mrt_added_token a = { .content = p->text, .id = i, .special = true };
    MRT_TRY(mrt_added_put(t, &a));
  }
  if (*unknown >= 0) return MRT_OK;
  return mrt_source_fail(s, MRT_EDATA, "no piece is for what is unknown");
}

mrt_status mrt_read_sentencepiece(mrt_tokenizer *t, mrt_source *s) {
  mrt_spm m = { .kind = 1, .dummy = true, .squeeze = true, .escape = true };
  int32_t unknown;
  MRT_TRY(read_model(t, s, &m));
  MRT_TRY(add_vocab(t, s, &m));
  MRT_TRY(add_special(t, s, &m, &unknown));
  MRT_TRY(mrt_spm_normalizer(t, s, &m));
  MRT_TRY(mrt_spm_decoder(t, &m, unknown));
  if (m.kind == 1) return mrt_spm_unigram(t, &m, unknown);
  if (m.kind == 2) return mrt_spm_bpe(t, s, &m, unknown);
  return mrt_source_fail(s, MRT_EDATA, "models of %s are not understood",
                         m.kind == 3   ? "words"
                         : m.kind == 4 ? "characters"
                                       : "an unknown kind");
}
