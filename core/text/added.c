/* added.c -- tokens that are found in the text itself
 *
 * First those that are found as they are, then, in what the normalizers make of
 * the rest, those that are to be normalised.  The leftmost is found, of those
 * that begin at one place the longest.  lstrip and rstrip take the white space
 * beside, single_word wants no letter there.  Of tokens that normalizers make
 * the same the first is meant.
 *
 * SPDX-License-Identifier: MIT */
#include "text/normal.h"

#include <string.h>

mrt_status mrt_added_put(mrt_tokenizer *t, const mrt_added_token *token) {
  mrt_added *a = &t->added;
  if (!MRT_PUSH_ROOM(&t->arena, a->list, a->count, a->room))
    return mrt_nomem(&t->ctx->error);
  mrt_added_token *made = &a->list[a->count];
  *made = *token;
  made->content =
      mrt_slice_copy(&t->arena, token->content.at, token->content.size);
  if (!made->content.at) return mrt_nomem(&t->ctx->error);
  a->count++;
  return MRT_OK;
}

/* ---- tries --------------------------------------------------------------- */

/* What normalizers make of it, in the arena. */
static mrt_status normalise_token(mrt_tokenizer *t, mrt_added_token *k) {
  mrt_slice key;
  size_t head = 0;
  if (!k->normalized) return k->normal = k->content, MRT_OK;
  MRT_TRY(mrt_normalise(t, k->content, &key, &head));
  k->normal = mrt_slice_copy(&t->arena, key.at, key.size);
  return k->normal.at ? MRT_OK : mrt_nomem(&t->ctx->error);
}

/* Of tokens that are normalised or not; without the special ones? */
static mrt_status make_trie(mrt_tokenizer *t, mrt_trie *trie, bool normalized,
                            bool plain, bool *any) {
  mrt_added *a = &t->added;
  size_t n = 0, bytes = (size_t)a->count * sizeof(mrt_trie_entry);
  mrt_trie_entry *e = mrt_calloc(t->ctx->allocator, 1, bytes);
  if (!e) return mrt_nomem(&t->ctx->error);
  mrt_status status = MRT_OK;
  for (int i = 0; i < a->count; i++) {
    const mrt_added_token *k = &a->list[i];
    if (k->normalized != normalized || (plain && k->special)) continue;
    if (k->replaced) continue;
    if (k->normal.size) e[n++] = (mrt_trie_entry){ k->normal, a->count - i };
  }
  *any = n > 0;
  if (n) status = mrt_trie_make(trie, &t->arena, &t->ctx->error, e, n);
  mrt_release(t->ctx->allocator, e, bytes);
  return status;
}

mrt_status mrt_added_prepare(mrt_tokenizer *t) {
  mrt_added *a = &t->added;
  for (int i = 0; i < a->count; i++) {
    MRT_TRY(normalise_token(t, &a->list[i]));
    t->said[a->list[i].id] = a->list[i].normal;
  }
  MRT_TRY(make_trie(t, &a->raw, false, false, &a->any_raw));
  MRT_TRY(make_trie(t, &a->normal, true, false, &a->any_normal));
  MRT_TRY(make_trie(t, &a->raw_plain, false, true, &a->any_raw_plain));
  return make_trie(t, &a->normal_plain, true, true, &a->any_normal_plain);
}

/* ---- finding ------------------------------------------------------------- */

/* The bytes of the character before `at`. */
static size_t before(const char *text, size_t at) {
  size_t n = 1;
  while (n < at && ((uint8_t)text[at - n] & 0xc0) == 0x80) n++;
  return n;
}

static bool stands_alone(mrt_slice text, size_t begin, size_t end) {
  size_t n;
  if (begin &&
      mrt_is_word(mrt_utf8_get(text.at + begin - before(text.at, begin), &n)))
    return false;
  return end == text.size || !mrt_is_word(mrt_utf8_get(text.at + end, &n));
}

typedef struct mrt_found {
  size_t begin, end; /* with the space beside that it takes */
  const mrt_added_token *token;
} mrt_found;

/* Is what stands at `at` such a token?  From `last` on the text is free. */
static bool look_at(const mrt_added *a, const mrt_trie *trie, mrt_slice text,
                    size_t at, size_t last, mrt_found *f, size_t *next) {
  size_t size, n;
  int32_t i = mrt_trie_longest(trie, text.at + at, text.size - at, &size);
  if (i < 0) return false;
  *next = at + size;
  f->token = &a->list[a->count - i], f->begin = at, f->end = at + size;
  if (f->token->single_word && !stands_alone(text, at, at + size)) return false;
  if (f->token->lstrip && at < last) f->begin = last;
  while (f->token->lstrip && f->begin > last) {
    size_t back = before(text.at, f->begin);
    if (!mrt_is_space(mrt_utf8_get(text.at + f->begin - back, &n))) break;
    f->begin -= back;
  }
  while (f->token->rstrip && f->end < text.size &&
         mrt_is_space(mrt_utf8_get(text.at + f->end, &n)))
    f->end += n;
  return f->begin < f->end; /* or another has taken it */
}

/* The next token from `from` on, of a text that is free from `last` on. */
static bool find(const mrt_added *a, const mrt_trie *trie, mrt_slice text,
                 size_t *from, size_t last, mrt_found *f) {
  for (size_t at = *from; at < text.size;) {
    if (trie->root[(uint8_t)text.at[at]] < 0) {
      at++;
      continue;
    }
    size_t next = at + 1;
    if (look_at(a, trie, text, at, last, f, &next)) {
      *from = next;
      return true;
    }
    at = next;
  }
  return false;
}

typedef mrt_status encode_rest(mrt_tokenizer *t, const mrt_word_text *w,
                               bool plain);

/* Tokens are ids; what lies between is for `rest`. */
static mrt_status encode(mrt_tokenizer *t, const mrt_word_text *w, bool plain,
                         const mrt_trie *trie, encode_rest *rest) {
  mrt_slice text = { w->at, w->size };
  size_t last = 0, from = 0;
  mrt_found f;
  while (trie && find(&t->added, trie, text, &from, last, &f)) {
    mrt_word_text part = { w->at + last, f.begin - last,
                           mrt_head_from(w->head, last), w->bare && last == 0 };
    if (f.begin > last) MRT_TRY(rest(t, &part, plain));
    MRT_TRY(mrt_ids_put(t->ctx, &t->ids, f.token->id));
    last = f.end;
  }
  mrt_word_text part = { w->at + last, w->size - last,
                         mrt_head_from(w->head, last), w->bare && last == 0 };
  return last < w->size ? rest(t, &part, plain) : MRT_OK;
}

static mrt_status split(mrt_tokenizer *t, const mrt_word_text *w, bool plain) {
  (void)plain;
  return mrt_split(t, t->splitters, w);
}

static mrt_status normalise(mrt_tokenizer *t, const mrt_word_text *w,
                            bool plain) {
  const mrt_added *a = &t->added;
  bool any = plain ? a->any_normal_plain : a->any_normal;
  mrt_slice text = { w->at, w->size };
  size_t head = w->head;
  MRT_TRY(mrt_normalise(t, text, &text, &head));
  mrt_word_text normal = { text.at, text.size, head, w->bare };
  return encode(t, &normal, plain,
                !any    ? NULL
                : plain ? &a->normal_plain
                        : &a->normal,
                split);
}

mrt_status mrt_added_encode(mrt_tokenizer *t, const mrt_word_text *w,
                            bool plain) {
  const mrt_added *a = &t->added;
  bool any = plain ? a->any_raw_plain : a->any_raw;
  return encode(t, w, plain,
                !any    ? NULL
                : plain ? &a->raw_plain
                        : &a->raw,
                normalise);
}
