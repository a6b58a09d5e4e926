/* base.h -- what texts are made of: bytes, characters, tokens by their strings
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_TEXT_BASE_H
#define MRT_TEXT_BASE_H

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
bool mrt_is_numeric(uint32_t c);     /* N */
bool mrt_is_punctuation(uint32_t c); /* P, and ASCII's symbols */
uint32_t mrt_script_of(uint32_t c);  /* a number; 0: it is in any */

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

#endif
