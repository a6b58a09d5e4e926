/* decode.c -- ids into text
 *
 * The names of the tokens are a list of pieces; each decoder makes another list
 * of it, and what is left is joined.  Without any decoder the names are joined
 * by spaces.
 *
 * SPDX-License-Identifier: MIT */
#include "text/text.h"

#include <string.h>

mrt_decoder *mrt_tokenizer_decoder(mrt_tokenizer *t) {
  mrt_decoder *d = MRT_NEW(&t->arena, mrt_decoder, 1), **at = &t->decoders;
  while (*at) at = &(*at)->next;
  return *at = d;
}

static mrt_status name_all(mrt_tokenizer *t, const int32_t *ids, size_t count,
                           bool skip_special, mrt_pieces *out) {
  size_t size;
  for (size_t i = 0; i < count; i++) {
    const char *name = mrt_tokenizer_token(t, ids[i], &size);
    if (!name)
      return mrt_fail(&t->ctx->error, MRT_EVALUE,
                      "decode: there is no token %d of %d", ids[i], t->count);
    if (t->said[ids[i]].at)
      name = t->said[ids[i]].at, size = t->said[ids[i]].size;
    if (skip_special && mrt_tokenizer_is_special(t, ids[i])) continue;
    if (!t->decoders && out->count)
      MRT_TRY(mrt_chars_put(t->ctx, &out->text, " ", 1));
    MRT_TRY(mrt_chars_put(t->ctx, &out->text, name, size));
    MRT_TRY(mrt_piece_end(t->ctx, out));
  }
  return MRT_OK;
}

MRT_API mrt_status mrt_tokenizer_decode(mrt_tokenizer *t, const int32_t *ids,
                                        size_t count, bool skip_special,
                                        const char **text, size_t *size) {
  mrt_pieces *in = &t->pieces[0], *out = &t->pieces[1];
  in->count = in->text.size = 0;
  MRT_TRY(mrt_chars_room(t->ctx, &in->text, 1));
  MRT_TRY(name_all(t, ids, count, skip_special, in));
  for (const mrt_decoder *d = t->decoders; d; d = d->next) {
    out->count = out->text.size = 0;
    MRT_TRY(mrt_chars_room(t->ctx, &out->text, 1));
    MRT_TRY(d->decode(t, d, in, out));
    mrt_pieces *made = out;
    out = in, in = made;
  }
  *text = in->text.at, *size = in->text.size;
  return MRT_OK;
}
