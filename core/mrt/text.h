/* text.h -- tokenizers: texts as ids and back
 *
 *     mrt_tokenizer *t;
 *     const int32_t *ids;
 *     size_t count;
 *     mrt_tokenizer_open(ctx, "model/tokenizer.json", NULL, &t);
 *     mrt_tokenizer_encode(t, text, size, MRT_ENCODE_SPECIAL, &ids, &count);
 *     mrt_tokenizer_free(t);
 *
 * One tokenizer serves one thread at a time.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_TEXT_H
#define MRT_TEXT_H

#include "mrt/types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mrt_tokenizer mrt_tokenizer;
struct mrt_context;

/* Open a file: tokenizer.json of Hugging Face, a sentencepiece model, or ranks
 * in tiktoken's form; what it is shows in its first bytes.  Ranks do not say how
 * texts are cut: `pattern` does (in the syntax of Rust's regex crate), which is
 * NULL for the others.  EFILE: it cannot be read; EDATA: it is none of them, contradicts itself, or asks for what is not
 * there (which the message names). */
MRT_API mrt_status mrt_tokenizer_open(struct mrt_context *ctx, const char *path,
                                      const char *pattern, mrt_tokenizer **out);
/* The same of bytes in memory, which need not stay; `path` is for messages. */
MRT_API mrt_status mrt_tokenizer_from(struct mrt_context *ctx, const char *path,
                                      const void *data, size_t size,
                                      const char *pattern, mrt_tokenizer **out);
/* GPT-2's two files: token -> id, and a pair of tokens a line.  They do not say
 * how texts are cut into words: `pattern` (Oniguruma's syntax; NULL: GPT-2's)
 * does.  EDATA also when the merges were made with other words. */
MRT_API mrt_status mrt_tokenizer_open_merges(struct mrt_context *ctx,
                                             const char *vocab,
                                             const char *merges,
                                             const char *pattern,
                                             mrt_tokenizer **out);
MRT_API void mrt_tokenizer_free(mrt_tokenizer *t); /* NULL is fine */

enum {
  MRT_ENCODE_SPECIAL = 1, /* what the post-processor adds (bos, eos ...) */
  MRT_ENCODE_PLAIN = 2,   /* special tokens in the text are text */
};
/* The ids of a text, borrowed until the next call.  EVALUE: the text cannot be
 * encoded (a byte or character that the vocabulary lacks, without a token for
 * what is unknown; a pattern that takes too long on it). */
MRT_API mrt_status mrt_tokenizer_encode(mrt_tokenizer *t, const char *text,
                                        size_t size, int flags,
                                        const int32_t **ids, size_t *count);
/* The text of ids, borrowed until the next call.  EVALUE: there is no such id. */
MRT_API mrt_status mrt_tokenizer_decode(mrt_tokenizer *t, const int32_t *ids,
                                        size_t count, bool skip_special,
                                        const char **text, size_t *size);

/* One more than the largest id. */
MRT_API int mrt_tokenizer_count(const mrt_tokenizer *t);
/* What the file calls a token, borrowed; NULL: there is no such. */
MRT_API const char *mrt_tokenizer_token(const mrt_tokenizer *t, int id,
                                        size_t *size);
/* -1: there is no such. */
MRT_API int mrt_tokenizer_id(const mrt_tokenizer *t, const char *token,
                             size_t size);
/* Are its tokens bytes, so that any text has its ids? */
MRT_API bool mrt_tokenizer_is_bytes(const mrt_tokenizer *t);
MRT_API bool mrt_tokenizer_is_special(const mrt_tokenizer *t, int id);

/* A token beside the vocabulary, found in texts as it is; or one that is there,
 * which gets these flags instead. */
typedef struct mrt_extra_token {
  const char *content;
  size_t size;
  int id;
  bool special;
  bool lstrip, rstrip; /* takes the white space beside it */
  bool single_word;    /* only where no letter is beside it */
  bool normalized;     /* found in what normalizers make of the text */
} mrt_extra_token;
/* EVALUE: an id that is another token's, or beyond all; nothing is added. */
MRT_API mrt_status mrt_tokenizer_add(mrt_tokenizer *t,
                                     const mrt_extra_token *tokens, int count);
/* Texts are put in Unicode's form C first, behind what the file says. */
MRT_API mrt_status mrt_tokenizer_compose(mrt_tokenizer *t);
/* Ids that begin and end every text that is encoded with MRT_ENCODE_SPECIAL; -1:
 * none.  In place of what the file says. */
MRT_API mrt_status mrt_tokenizer_enclose(mrt_tokenizer *t, int first, int last);

/* One part of what a pair of texts becomes: an id, or all ids of a text. */
typedef struct mrt_pair_part {
  int id;   /* MRT_PAIR_FIRST, MRT_PAIR_SECOND: those of that text */
  int type; /* of its ids, for models that tell the texts apart */
} mrt_pair_part;
enum { MRT_PAIR_FIRST = -1, MRT_PAIR_SECOND = -2 };
/* What the file makes of a pair, borrowed; 0: it does not say. */
MRT_API size_t mrt_tokenizer_pair(const mrt_tokenizer *t,
                                  const mrt_pair_part **parts);

/* How the file shortens texts of more than `most` ids; 0: it does not. */
typedef struct mrt_truncation {
  int most;
  bool left;            /* the last ids stay */
  const char *strategy; /* "LongestFirst", "OnlyFirst", "OnlySecond" */
} mrt_truncation;
MRT_API mrt_truncation mrt_tokenizer_truncation(const mrt_tokenizer *t);

/* What the file says of texts side by side; nothing is padded here. */
typedef struct mrt_padding {
  bool given, left;
  int id, length, multiple; /* length: of all, multiple: of that; 0: none */
} mrt_padding;
MRT_API mrt_padding mrt_tokenizer_padding(const mrt_tokenizer *t);

#ifdef __cplusplus
}
#endif
#endif
