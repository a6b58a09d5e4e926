/* text.h -- what the files of tokenizers share
 *
 *   text    added tokens are found in it, what lies between is normalised, cut
 *           into words by the splitters, and each word becomes ids by the model
 *   ids     the post-processor adds to them; decoders make them text again
 *
 * A tokenizer is data: lists of normalizers, splitters and decoders, each with
 * a function, and one model.  Readers (tokenizer.json, sentencepiece, tiktoken)
 * fill in the same structures.
 *
 * Bytes that are no UTF-8: a byte-level vocabulary has each as a word of its
 * own, every other has U+FFFD in its place.  So all that normalizers, splitters
 * and patterns see is UTF-8.
 *
 * Invariants
 *   - what is read is in the arena and does not change afterwards; what encoding
 *     writes are buffers that grow and the cache;
 *   - work is bounded: no step takes more than size * log(size) of a text, but
 *     for patterns, which have a limit (pattern.c), and texts that normalizers
 *     let grow too much are refused.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_TEXT_TEXT_H
#define MRT_TEXT_TEXT_H

#include "text/base.h"
#include "text/model.h"

/* ---- pattern.c, translate.c ---------------------------------------------- */

typedef enum mrt_pattern_kind {
  MRT_PATTERN_TEXT, /* found as it is */
  MRT_PATTERN_ONIG, /* Oniguruma's syntax, which tokenizer.json uses */
  MRT_PATTERN_RUST, /* that of Rust's regex crate, which tiktoken uses */
} mrt_pattern_kind;

typedef struct mrt_pattern mrt_pattern;

/* EDATA, with the path: not understood. */
mrt_status mrt_pattern_make(mrt_tokenizer *t, mrt_source *s, mrt_slice text,
                            mrt_pattern_kind kind, mrt_pattern **out);
void mrt_pattern_free(mrt_pattern *p);
/* Matches one after the other; zero it before the first. */
typedef struct mrt_matching {
  size_t from, last; /* last: 1 + where the last match ended */
  size_t begin, end; /* of this match */
  bool found;
} mrt_matching;
mrt_status mrt_pattern_next(mrt_tokenizer *t, mrt_pattern *p, mrt_slice text,
                            mrt_matching *m);
/* Write the characters of a category ("L", "Lu") or script ("han") that PCRE2
 * may not know, as items of a class. */
mrt_status mrt_put_newer(mrt_context *ctx, const char *name, mrt_chars *out);
/* The same in PCRE2's syntax. */
mrt_status mrt_pattern_translate(mrt_source *s, mrt_slice text,
                                 mrt_pattern_kind kind, mrt_chars *out);

/* ---- words.c: splitters -------------------------------------------------- */

/* A part of a text between added tokens.  Of characters some bytes may count as
 * head: what begins there does. */
typedef struct mrt_word_text {
  const char *at;
  size_t size;
  size_t head; /* bytes that come from the whole text's first character */
  bool bare;   /* gets no space or other mark in front */
} mrt_word_text;

typedef enum mrt_behavior {
  MRT_SPLIT_REMOVED,
  MRT_SPLIT_ISOLATED,
  MRT_SPLIT_PREVIOUS,
  MRT_SPLIT_NEXT,
  MRT_SPLIT_CONTIGUOUS,
} mrt_behavior;

typedef enum mrt_prepend {
  MRT_PREPEND_NEVER,
  MRT_PREPEND_FIRST,
  MRT_PREPEND_ALWAYS,
} mrt_prepend;

typedef struct mrt_splitter mrt_splitter;
struct mrt_splitter {
  /* Hand the words of `w` to the next. */
  mrt_status (*split)(mrt_tokenizer *t, mrt_splitter *self,
                      const mrt_word_text *w);
  mrt_splitter *next; /* NULL: the model */
  mrt_behavior behavior;
  bool invert;
  bool (*is)(const mrt_splitter *self, uint32_t c); /* kind of character */
  bool cut;            /* Metaspace: words begin with the mark */
  mrt_prepend prepend; /* Metaspace */
  mrt_slice mark;      /* its replacement */
  mrt_pattern *pattern;
  uint32_t delimiter;
  int length; /* in characters */
  mrt_chars room;
};

/* The head of what lies from `from` on. */
static inline size_t mrt_head_from(size_t head, size_t from) {
  return head > from ? head - from : 0;
}
/* Hand words to this splitter, or NULL: to the model. */
mrt_status mrt_split(mrt_tokenizer *t, mrt_splitter *s, const mrt_word_text *w);
mrt_status mrt_split_pattern(mrt_tokenizer *t, mrt_splitter *self,
                             const mrt_word_text *w);
mrt_status mrt_split_bytes(mrt_tokenizer *t, mrt_splitter *self,
                           const mrt_word_text *w);
mrt_status mrt_split_spaced(mrt_tokenizer *t, mrt_splitter *self,
                            const mrt_word_text *w);
mrt_status mrt_split_length(mrt_tokenizer *t, mrt_splitter *self,
                            const mrt_word_text *w);
mrt_status mrt_split_scripts(mrt_tokenizer *t, mrt_splitter *self,
                             const mrt_word_text *w);
mrt_status mrt_split_kind(mrt_tokenizer *t, mrt_splitter *self,
                          const mrt_word_text *w);
mrt_status mrt_split_metaspace(mrt_tokenizer *t, mrt_splitter *self,
                               const mrt_word_text *w);
/* Adds a splitter at the end of the list; NULL: no memory. */
mrt_splitter *mrt_tokenizer_splitter(mrt_tokenizer *t);

/* ---- bytes.c: bytes as characters ---------------------------------------- */

/* The character that stands for a byte, in UTF-8: one or two bytes. */
size_t mrt_byte_name(uint8_t byte, char out[2]);
/* The byte that a character stands for; -1: none. */
int mrt_byte_of_name(uint32_t c);
/* Add the names of bytes. */
mrt_status mrt_bytes_name(mrt_context *ctx, mrt_chars *out, const char *p,
                          size_t n);
/* GPT-2's pattern. */
extern const char mrt_gpt2_pattern[];

/* ---- added.c ------------------------------------------------------------- */

typedef struct mrt_added_token {
  mrt_slice content;
  int32_t id;
  bool single_word, lstrip, rstrip, normalized, special;
  mrt_slice normal; /* what normalizers make of it, if it is normalized */
  int replaced;     /* by so manieth of the list, from 1; 0: by none */
} mrt_added_token;

typedef struct mrt_added {
  mrt_added_token *list;
  int count, room;
  mrt_trie raw, normal; /* of indices of the list */
  bool any_raw, any_normal;
  mrt_trie raw_plain, normal_plain; /* without the special ones */
  bool any_raw_plain, any_normal_plain;
} mrt_added;

mrt_status mrt_added_put(mrt_tokenizer *t, const mrt_added_token *token);
/* Once all are there. */
mrt_status mrt_added_prepare(mrt_tokenizer *t);
/* Encode a text that is UTF-8: added tokens, and what lies between. */
mrt_status mrt_added_encode(mrt_tokenizer *t, const mrt_word_text *w,
                            bool plain);

/* ---- decode.c ------------------------------------------------------------ */

typedef struct mrt_decoder mrt_decoder;
typedef struct mrt_normalizer mrt_normalizer; /* normal.h */
/* Tokens on their way to text: `ends[i]` is where the i-th ends. */
typedef struct mrt_pieces {
  mrt_chars text;
  size_t *ends;
  size_t count, room;
} mrt_pieces;

struct mrt_decoder {
  mrt_status (*decode)(mrt_tokenizer *t, const mrt_decoder *self,
                       const mrt_pieces *in, mrt_pieces *out);
  mrt_decoder *next;
  mrt_slice text, with; /* what is replaced or removed, by what */
  mrt_pattern *pattern;
  int start, stop;
  bool cleanup;
  mrt_prepend prepend;
};

mrt_decoder *mrt_tokenizer_decoder(mrt_tokenizer *t);
mrt_status mrt_piece_end(mrt_context *ctx, mrt_pieces *p);
void mrt_pieces_free(mrt_context *ctx, mrt_pieces *p);
/* The byte that a name like "<0xE4>" stands for; -1: none. */
int mrt_byte_piece(mrt_slice name);
/* The last `n` bytes, each that is no UTF-8 replaced by U+FFFD. */
mrt_status mrt_mend_bytes(mrt_tokenizer *t, mrt_chars *out, size_t n);
/* A text with each `what` replaced. */
mrt_status mrt_put_replaced(mrt_tokenizer *t, mrt_chars *out, mrt_slice text,
                            mrt_slice what, mrt_slice with);

typedef mrt_status mrt_decode_pieces(mrt_tokenizer *t, const mrt_decoder *self,
                                     const mrt_pieces *in, mrt_pieces *out);
mrt_decode_pieces mrt_decode_bytes, mrt_decode_wordpiece, mrt_decode_metaspace,
    mrt_decode_suffix, mrt_decode_fallback, mrt_decode_fuse, mrt_decode_strip,
    mrt_decode_replace, mrt_decode_ctc;

/* ---- the tokenizer ------------------------------------------------------- */

struct mrt_tokenizer {
  mrt_context *ctx; /* held */
  mrt_arena arena;
  mrt_vocab vocab;
  mrt_status (*word)(mrt_tokenizer *t, const char *p, size_t n); /* the model */
  mrt_bpe bpe;
  mrt_unigram unigram;
  mrt_wordpiece wordpiece;
  mrt_added added;
  mrt_normalizer *normalizers;
  mrt_splitter *splitters;
  mrt_decoder *decoders;
  bool byte_level;           /* bytes that are no UTF-8 have tokens */
  mrt_id_list before, after; /* what is added to a text's ids; in the arena */
  mrt_pair_part *pair;       /* what a pair of texts becomes; in the arena */
  size_t pair_count;
  const char *strategy; /* of texts that are too long; NULL: none given */
  int most_ids;         /* of a text; 0: any number */
  bool keep_last;       /* of too many, the last stay */
  bool heads;           /* splitters ask for the head */
  mrt_padding padding;

  int count;        /* one more than the largest id, added ones too */
  mrt_slice *names; /* of added tokens, by id; at NULL: the vocabulary's */
  mrt_slice *said;  /* what they are decoded to */
  bool *special;    /* by id */

  mrt_word_cache cache;
  mrt_merging merging;
  mrt_id_list ids;                    /* what encoding has made so far */
  mrt_chars repaired;                 /* a text with U+FFFD in it */
  mrt_chars normal[2], bert, accents; /* of normalizers */
  mrt_id_list characters, head_characters;
  size_t original;      /* bytes, before they were normalised */
  mrt_pieces pieces[2]; /* what is decoded */
};

/* ---- readers ------------------------------------------------------------- */

mrt_status mrt_read_tokenizer_json(mrt_tokenizer *t, mrt_source *s);
mrt_status mrt_read_sentencepiece(mrt_tokenizer *t, mrt_source *s);
mrt_status mrt_tokenizer_new(mrt_context *ctx, mrt_tokenizer **out);
/* After reading: tables by id. */
mrt_status mrt_tokenizer_prepare(mrt_tokenizer *t);

#endif
