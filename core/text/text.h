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

#include "base/memory.h"
#include "io/io.h"
#include "mrt/text.h"

typedef struct mrt_slice {
  const char *at;
  size_t size;
} mrt_slice;

/* Bytes that grow. */
typedef struct mrt_chars {
  char *at;
  size_t size, room;
} mrt_chars;

/* Ids that grow. */
typedef struct mrt_id_list {
  int32_t *at;
  size_t count, room;
} mrt_id_list;

/* ---- buffer.c ------------------------------------------------------------ */

/* Room for `more` bytes after c->size; they are not counted yet. */
mrt_status mrt_chars_room(mrt_context *ctx, mrt_chars *c, size_t more);
mrt_status mrt_chars_put(mrt_context *ctx, mrt_chars *c, const void *bytes,
                         size_t n);
void mrt_chars_free(mrt_context *ctx, mrt_chars *c);
mrt_status mrt_ids_room(mrt_context *ctx, mrt_id_list *l, size_t more);
mrt_status mrt_ids_put(mrt_context *ctx, mrt_id_list *l, int32_t id);
void mrt_ids_free(mrt_context *ctx, mrt_id_list *l);
uint64_t mrt_hash_bytes(const char *p, size_t n);
/* A copy in the arena, a zero byte behind it; at NULL: no memory. */
mrt_slice mrt_slice_copy(mrt_arena *arena, const char *p, size_t n);

/* ---- utf8.c -------------------------------------------------------------- */

/* How many bytes from `p` on are UTF-8. */
size_t mrt_utf8_valid(const char *p, size_t n);
/* Bytes of the broken sequence at `p`, as one U+FFFD replaces them. */
size_t mrt_utf8_broken(const char *p, size_t n);
/* Bytes of the character whose first byte this is. */
static inline size_t mrt_utf8_length(char first) {
  uint8_t b = (uint8_t)first;
  return b < 0x80 ? 1 : b < 0xe0 ? 2 : b < 0xf0 ? 3 : 4;
}
/* The character at `p`, of text that is UTF-8. */
static inline uint32_t mrt_utf8_get(const char *text, size_t *n) {
  const uint8_t *p = (const uint8_t *)text;
  *n = mrt_utf8_length(*text);
  switch (*n) {
  case 1:
    return p[0];
  case 2:
    return (p[0] & 31u) << 6 | (p[1] & 63u);
  case 3:
    return (p[0] & 15u) << 12 | (p[1] & 63u) << 6 | (p[2] & 63u);
  default:
    return (p[0] & 7u) << 18 | (p[1] & 63u) << 12 | (p[2] & 63u) << 6 |
           (p[3] & 63u);
  }
}
size_t mrt_utf8_put(uint32_t c, char out[4]);
/* White_Space, as Unicode has it. */
bool mrt_is_space(uint32_t c);
/* \\w: letters, marks, digits, connectors. */
bool mrt_is_word(uint32_t c);

/* ---- vocab.c ------------------------------------------------------------- */

/* Tokens by id, and ids by token. */
typedef struct mrt_vocab {
  mrt_slice *tokens; /* by id; at NULL: there is none */
  int count;         /* one more than the largest id */
  int32_t *slots;    /* open addressing; -1: free */
  size_t mask;
  size_t longest; /* token, in bytes */
} mrt_vocab;

enum { MRT_MOST_TOKENS = 1 << 24, MRT_LONGEST_TOKEN = 1 << 16 };

/* Room for `entries` tokens with ids below `count`.  ENOMEM without message. */
mrt_status mrt_vocab_make(mrt_vocab *v, mrt_arena *arena, int entries,
                          int count);
typedef enum mrt_vocab_how { MRT_TOKEN_ONCE, MRT_TOKEN_AGAIN } mrt_vocab_how;
/* Add a token that stays where it is.  NULL, or what is wrong with it; AGAIN:
 * one that comes twice has its last id. */
const char *mrt_vocab_put(mrt_vocab *v, mrt_slice token, int64_t id,
                          mrt_vocab_how how);
int32_t mrt_vocab_find(const mrt_vocab *v, const char *p, size_t n);

/* ---- scan.c: the large parts of JSON, without a tree --------------------- */

typedef struct mrt_scan {
  const char *at, *end;
} mrt_scan;

/* Is this the next character but white space?  Then it is passed. */
bool mrt_scan_is(mrt_scan *s, char c);
/* Pass a string; decoded into `out` (which has room for the rest of the text)
 * unless that is NULL. */
bool mrt_scan_string(mrt_scan *s, char *out, size_t *size);
bool mrt_scan_number(mrt_scan *s, double *value);
/* Pass any value; counts values; false: it does not end, or is too deep. */
bool mrt_scan_skip(mrt_scan *s, size_t *values);

/* ---- trie.c -------------------------------------------------------------- */

/* Strings by their bytes.  Nodes are numbered breadth first, so the children
 * of node i are [first[i], first[i + 1]), in the order of their bytes. */
typedef struct mrt_trie {
  uint8_t *byte;
  int32_t *first, *value; /* value: -1 where no string ends */
  int32_t count;
  int32_t root[256]; /* children of the root; -1: none */
} mrt_trie;

typedef struct mrt_trie_entry {
  mrt_slice key; /* not empty */
  int32_t value;
} mrt_trie_entry;

/* Sorts `entries`.  Of equal keys the one with the largest value stays. */
mrt_status mrt_trie_make(mrt_trie *t, mrt_arena *arena, mrt_error *e,
                         mrt_trie_entry *entries, size_t n);
/* The child of a node (0 is the root) by a byte; -1: none. */
int32_t mrt_trie_next(const mrt_trie *t, int32_t node, uint8_t byte);
/* The value of the longest string that begins at `p`, and its bytes; -1: none
 * does. */
int32_t mrt_trie_longest(const mrt_trie *t, const char *p, size_t n,
                         size_t *size);

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
/* The same in PCRE2's syntax. */
mrt_status mrt_pattern_translate(mrt_source *s, mrt_slice text,
                                 mrt_pattern_kind kind, mrt_chars *out);

/* ---- words.c: splitters -------------------------------------------------- */

/* A part of a text between added tokens. */
typedef struct mrt_word_text {
  const char *at;
  size_t size;
  bool first; /* begins where the text begins */
  bool bare;  /* gets no space or other mark in front */
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
  bool invert, individual;
  mrt_prepend prepend; /* Metaspace */
  mrt_slice mark;      /* its replacement */
  mrt_pattern *pattern;
  uint32_t delimiter;
  mrt_chars room;
};

/* Hand words to this splitter, or NULL: to the model. */
mrt_status mrt_split(mrt_tokenizer *t, mrt_splitter *s, const mrt_word_text *w);
mrt_status mrt_split_pattern(mrt_tokenizer *t, mrt_splitter *self,
                             const mrt_word_text *w);
mrt_status mrt_split_bytes(mrt_tokenizer *t, mrt_splitter *self,
                           const mrt_word_text *w);
mrt_status mrt_split_spaced(mrt_tokenizer *t, mrt_splitter *self,
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

/* ---- cache.c ------------------------------------------------------------- */

/* Words and their ids; all are forgotten when it is full. */
typedef struct mrt_word_entry {
  uint64_t hash; /* 0: free */
  uint32_t at, size, ids, count;
} mrt_word_entry;

typedef struct mrt_word_cache {
  mrt_word_entry *entries;
  uint32_t used;
  char *text;
  int32_t *ids;
  uint32_t text_used, ids_used;
} mrt_word_cache;

/* The ids of a word; false: not known, and *hash is for putting it. */
bool mrt_cache_get(const mrt_word_cache *c, const char *p, size_t n,
                   uint64_t *hash, const int32_t **ids, size_t *count);
/* Does nothing where there is no memory. */
void mrt_cache_put(mrt_context *ctx, mrt_word_cache *c, const char *p, size_t n,
                   uint64_t hash, const int32_t *ids, size_t count);
void mrt_cache_free(mrt_context *ctx, mrt_word_cache *c);

/* ---- merge.c, bpe.c ------------------------------------------------------ */

/* Two tokens that become one.  key 0: none here. */
typedef struct mrt_merge {
  uint64_t key; /* 1 + first << 32 | second */
  int32_t rank, token;
} mrt_merge;

typedef struct mrt_merge_table {
  mrt_merge *slots; /* open addressing */
  size_t mask;
} mrt_merge_table;

/* Two neighbours at `at` that may become one. */
typedef struct mrt_merge_candidate {
  int32_t rank, at, first, second;
} mrt_merge_candidate;

/* A word in the making: tokens as a list within arrays. */
typedef struct mrt_merging {
  int32_t *token, *before, *after;
  size_t count, room; /* of each */
  mrt_merge_candidate *heap;
  size_t heap_count, heap_room;
} mrt_merging;

mrt_status mrt_merges_make(mrt_merge_table *m, mrt_arena *arena, size_t most);
/* NULL, or what is wrong.  Of equal pairs the last stays. */
const char *mrt_merges_put(mrt_merge_table *m, int32_t first, int32_t second,
                           int32_t rank, int32_t token);
const mrt_merge *mrt_merges_find(const mrt_merge_table *m, int32_t first,
                                 int32_t second);
/* Merge the m->count tokens in m->token until nothing can be, and add what is
 * left to `out`. */
mrt_status mrt_merge_all(mrt_context *ctx, const mrt_merge_table *table,
                         mrt_merging *m, mrt_id_list *out);
mrt_status mrt_merging_room(mrt_context *ctx, mrt_merging *m, size_t n);
void mrt_merging_free(mrt_context *ctx, mrt_merging *m);

enum { MRT_CHARACTERS = 0x800 }; /* that have their token in a table */

typedef struct mrt_bpe {
  mrt_merge_table merges;
  int32_t *character; /* token of each of the first; -1: none */
  int32_t byte[256];  /* "<0x00>" ...; -1: none */
  int32_t unknown;    /* -1: none */
  mrt_slice prefix, suffix;
  bool fuse_unknown, byte_fallback, whole_words;
  bool strict; /* what has no token is refused */
} mrt_bpe;

mrt_status mrt_bpe_word(mrt_tokenizer *t, const char *p, size_t n);
/* Fill in what follows from the vocabulary. */
mrt_status mrt_bpe_prepare(mrt_tokenizer *t);

/* ---- added.c ------------------------------------------------------------- */

typedef struct mrt_added_token {
  mrt_slice content;
  int32_t id;
  bool single_word, lstrip, rstrip, normalized, special;
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
mrt_status mrt_decode_bytes(mrt_tokenizer *t, const mrt_decoder *self,
                            const mrt_pieces *in, mrt_pieces *out);

/* ---- the tokenizer ------------------------------------------------------- */

struct mrt_tokenizer {
  mrt_context *ctx; /* held */
  mrt_arena arena;
  mrt_vocab vocab;
  mrt_status (*word)(mrt_tokenizer *t, const char *p, size_t n); /* the model */
  mrt_bpe bpe;
  mrt_added added;
  mrt_splitter *splitters;
  mrt_decoder *decoders;
  bool byte_level; /* bytes that are no UTF-8 have tokens */

  int count;        /* one more than the largest id, added ones too */
  mrt_slice *names; /* of added tokens, by id; at NULL: the vocabulary's */
  bool *special;    /* by id */

  mrt_word_cache cache;
  mrt_merging merging;
  mrt_id_list ids;      /* what encoding has made so far */
  mrt_chars repaired;   /* a text with U+FFFD in it */
  mrt_pieces pieces[2]; /* what is decoded */
};

/* ---- readers ------------------------------------------------------------- */

mrt_status mrt_read_tokenizer_json(mrt_tokenizer *t, mrt_source *s);
/* The model's words have become known by their names: pieces of bytes. */
mrt_status mrt_tokenizer_new(mrt_context *ctx, mrt_tokenizer **out);
/* After reading: tables by id. */
mrt_status mrt_tokenizer_prepare(mrt_tokenizer *t);

#endif
