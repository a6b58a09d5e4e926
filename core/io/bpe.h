/* bpe.h -- byte-pair encoding as GPT-2 does it
 *
 * A text is cut into words (a letter or number run with the space before it,
 * punctuation, spaces), each byte of a word becomes a token, and then the two
 * neighbours that come first in the list of merges become one, again and again.
 *
 *   from  Sennrich et al. 2016 (arXiv:1508.07909); Radford et al. 2019,
 *         github.com/openai/gpt-2, encoder.py
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_IO_BPE_H
#define MRT_IO_BPE_H

#include "io/io.h"

/* Two tokens that become one.  key 0: none here. */
typedef struct mrt_merge {
  uint64_t key; /* 1 + first << 32 | second */
  int32_t rank, token;
} mrt_merge;

typedef struct mrt_bpe_text {
  const char *bytes;
  size_t size;
} mrt_bpe_text;

/* Two neighbours at `at` that may become one. */
typedef struct mrt_bpe_candidate {
  int32_t rank, at, first, second;
} mrt_bpe_candidate;

/* A word in the making: tokens as a list within an array. */
typedef struct mrt_word {
  int32_t *token, *before, *after;
  size_t room; /* of each */
  mrt_bpe_candidate *heap;
  size_t heap_count, heap_room;
} mrt_word;

struct mrt_bpe {
  mrt_context *ctx; /* held */
  mrt_arena arena;
  mrt_bpe_text *tokens; /* by id */
  int count;
  int32_t bytes[256]; /* the token of each byte; -1: none */
  mrt_merge *merges;  /* open addressing */
  size_t mask;
  mrt_word word; /* scratch */
};

/* Open from two files that are in memory. */
mrt_status mrt_bpe_from(mrt_source *vocab, mrt_source *merges, mrt_bpe **out);
/* The code point that stands for a byte in the files. */
int mrt_bpe_code(uint8_t byte);
/* Is this, whole, one of the words that texts are cut into?  Of bytes that are
 * no UTF-8 nobody can tell: true. */
bool mrt_bpe_is_word(const char *text, size_t size);
const mrt_merge *mrt_bpe_find(const mrt_bpe *bpe, int32_t first,
                              int32_t second);

#endif
