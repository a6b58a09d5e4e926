/* json.h -- what the readers of tokenizer.json share
 *
 * The vocabulary and the merges, which are nearly all of the file, are read in
 * place (scan.c); the rest is a small tree.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_TEXT_JSON_H
#define MRT_TEXT_JSON_H

#include "text/text.h"

#include <jansson.h>

/* One part of the file being read: `where` is for messages. */
typedef struct mrt_json {
  mrt_tokenizer *t;
  mrt_source *s;
  const json_t *at;
  const char *where;
} mrt_json;

/* EDATA: "path: where: ..." */
mrt_status mrt_json_fail(const mrt_json *j, const char *fmt, ...)
    MRT_PRINTF(2, 3);
/* The object's "type"; NULL: it has none. */
const char *mrt_json_type(const json_t *at);
/* Refuse a field that is none of `known`, names between spaces. */
mrt_status mrt_json_only(const mrt_json *j, const char *known);
/* A field, or the default where it is missing or null. */
mrt_status mrt_json_bool(const mrt_json *j, const char *name, bool *value);
mrt_status mrt_json_int(const mrt_json *j, const char *name, int *value);
/* Borrowed from the tree; at NULL: missing or null. */
mrt_status mrt_json_text(const mrt_json *j, const char *name, mrt_slice *value);
/* The same, copied. */
mrt_status mrt_json_copy(const mrt_json *j, const char *name, mrt_slice *value);
/* A character. */
mrt_status mrt_json_character(const mrt_json *j, const char *name, uint32_t *c);
/* {"String": ...} or {"Regex": ...} of "pattern". */
mrt_status mrt_json_pattern(const mrt_json *j, mrt_pattern **out);
/* "prepend_scheme", or the older "add_prefix_space". */
mrt_status mrt_json_prepend(const mrt_json *j, mrt_prepend *out);

/* A kind of part and its reader. */
typedef struct mrt_json_kind {
  const char *name, *fields; /* fields: besides "type" */
  mrt_status (*read)(const mrt_json *j);
} mrt_json_kind;

/* Read a part; a Sequence, whose list is `list`, is read one by one. */
mrt_status mrt_json_read(const mrt_json *j, const mrt_json_kind *kinds,
                         const char *list);

mrt_status mrt_json_normalizers(const mrt_json *j);
mrt_status mrt_json_splitters(const mrt_json *j);
mrt_status mrt_json_decoders(const mrt_json *j);
mrt_status mrt_json_post(const mrt_json *j);
mrt_status mrt_json_truncation(const mrt_json *j);
mrt_status mrt_json_padding(const mrt_json *j);

/* Decode; false: it is no base64.  `out` has room for n bytes. */
bool mrt_base64(const char *text, size_t n, char *out, size_t *size);

/* ---- model.c ------------------------------------------------------------- */

/* What is read in place: "vocab" and "merges" of "model". */
typedef struct mrt_model_text {
  mrt_slice vocab, merges;
} mrt_model_text;

/* Token -> id. */
mrt_status mrt_read_vocab(mrt_tokenizer *t, mrt_source *s, mrt_slice text);
/* Pairs, as lists of two or as "first second". */
mrt_status mrt_read_merges(mrt_tokenizer *t, mrt_source *s, mrt_slice text);
/* tiktoken.c: does the file begin so; read it. */
bool mrt_is_tiktoken(const mrt_source *s);
mrt_status mrt_read_tiktoken(mrt_tokenizer *t, mrt_source *s,
                             const char *pattern);
/* mrt_tokenizer_open_merges of files that are open. */
mrt_status mrt_tokenizer_from_merges(mrt_source *vocab, mrt_source *merges,
                                     const char *pattern, mrt_tokenizer **out);
/* The same as mrt_read_merges, a pair a line. */
mrt_status mrt_read_merge_lines(mrt_tokenizer *t, mrt_source *s,
                                mrt_slice text);
/* Tokens with scores. */
mrt_status mrt_read_scores(mrt_tokenizer *t, mrt_source *s, mrt_slice text);
/* Room for so many; then, once they are there, the trie of those whose score is
 * a number. */
mrt_status mrt_scores_make(mrt_tokenizer *t, int count);
mrt_status mrt_scores_trie(mrt_tokenizer *t);
mrt_status mrt_json_model(const mrt_json *j, const mrt_model_text *text);

#endif
