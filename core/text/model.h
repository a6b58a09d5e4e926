/* model.h -- models: a word as ids
 *
 * Each adds the ids of a word to t->ids.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_TEXT_MODEL_H
#define MRT_TEXT_MODEL_H

#include "text/base.h"

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

enum {
  MRT_CHARACTERS = 0x800, /* that have their token in a table */
  MRT_LONGEST_MARK = 100,
};

typedef struct mrt_bpe {
  mrt_merge_table merges;
  int32_t *character; /* token of each of the first; -1: none */
  int32_t byte[256];  /* "<0x00>" ...; -1: none */
  int32_t unknown;    /* -1: none */
  uint8_t *pairs; /* bits: neighbours within tokens; NULL: words stay whole */
  mrt_slice prefix, suffix; /* at most MRT_LONGEST_MARK bytes */
  const mrt_trie *kept;     /* symbols that are found first, and never merged */
  bool fuse_unknown, byte_fallback, whole_words;
  bool strict; /* what has no token is refused */
} mrt_bpe;

mrt_status mrt_bpe_word(mrt_tokenizer *t, const char *p, size_t n);
/* Fill in what follows from the vocabulary. */
mrt_status mrt_bpe_prepare(mrt_tokenizer *t);

/* ---- unigram.c ----------------------------------------------------------- */

/* A place in a text: the best way to it. */
typedef struct mrt_best {
  double score;
  int32_t from, token; /* from: -1: none yet */
} mrt_best;

typedef struct mrt_unigram {
  mrt_trie trie;
  double *scores; /* by id */
  double unknown_score, least;
  int32_t unknown; /* -1: none */
  bool byte_fallback;
  bool single;  /* sums in single precision, as sentencepiece */
  size_t reach; /* the last place that there is a way to */
  mrt_best *best;
  size_t room;
  int32_t byte[256];
} mrt_unigram;

mrt_status mrt_unigram_word(mrt_tokenizer *t, const char *p, size_t n);
/* Once there are scores. */
mrt_status mrt_unigram_prepare(mrt_tokenizer *t);
void mrt_unigram_free(mrt_context *ctx, mrt_unigram *u);

/* ---- wordpiece.c --------------------------------------------------------- */

typedef struct mrt_wordpiece {
  int32_t unknown; /* -1: none */
  mrt_slice prefix;
  int longest; /* word, in characters */
  mrt_trie first, other;
} mrt_wordpiece;

mrt_status mrt_wordpiece_word(mrt_tokenizer *t, const char *p, size_t n);
mrt_status mrt_wordpiece_prepare(mrt_tokenizer *t);
/* A vocabulary of whole words. */
mrt_status mrt_wordlevel_word(mrt_tokenizer *t, const char *p, size_t n);

#endif
