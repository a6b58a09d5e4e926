/* vocab.c -- tokens by id, ids by token
 *
 * A table with open addressing.  Files can be made so that all their tokens
 * fall on one place; then a search that takes too long is what is wrong with
 * them.
 *
 * SPDX-License-Identifier: MIT */
#include "text/text.h"

#include <string.h>

enum { LONGEST_SEARCH = 1024 };

mrt_status mrt_vocab_make(mrt_vocab *v, mrt_arena *arena, int entries,
                          int count) {
  size_t room = 16;
  while (room < 2 * (size_t)entries) room *= 2;
  *v = (mrt_vocab){ .count = count, .mask = room - 1 };
  v->tokens = MRT_NEW(arena, mrt_slice, count + 1);
  v->slots = mrt_arena_alloc(arena, room, sizeof *v->slots);
  if (!v->tokens || !v->slots) return MRT_ENOMEM;
  memset(v->slots, 0xff, room * sizeof *v->slots);
  return MRT_OK;
}

/* Where the token is or would be. */
static size_t slot_of(const mrt_vocab *v, const char *p, size_t n,
                      int *searched) {
  size_t i = (size_t)(mrt_hash_bytes(p, n) >> 16) & v->mask;
  for (*searched = 0; v->slots[i] >= 0; i = (i + 1) & v->mask) {
    const mrt_slice *t = &v->tokens[v->slots[i]];
    if ((t->size == n && memcmp(t->at, p, n) == 0) ||
        ++*searched > LONGEST_SEARCH)
      break;
  }
  return i;
}

const char *mrt_vocab_put(mrt_vocab *v, mrt_slice token, int64_t id,
                          mrt_vocab_how how) {
  int searched;
  if (id < 0 || id >= v->count) return "its id is not a number below all ids";
  if (token.size > MRT_LONGEST_TOKEN) return "it is longer than any token";
  if (v->tokens[id].at) return "another token has its id";
  size_t i = slot_of(v, token.at, token.size, &searched);
  if (searched > LONGEST_SEARCH) return "tokens are made to slow the search";
  if (v->slots[i] >= 0 && how == MRT_TOKEN_ONCE) return "it comes twice";
  v->slots[i] = (int32_t)id;
  v->tokens[id] = token;
  if (token.size > v->longest) v->longest = token.size;
  return NULL;
}

int32_t mrt_vocab_find(const mrt_vocab *v, const char *p, size_t n) {
  int searched;
  if (n > v->longest || !v->slots) return -1;
  int32_t id = v->slots[slot_of(v, p, n, &searched)];
  return searched > LONGEST_SEARCH ? -1 : id;
}
