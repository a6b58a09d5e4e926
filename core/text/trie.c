/* trie.c -- strings by their bytes
 *
 * Made level by level from the sorted strings: the node of a level is a range
 * of them that begin alike.  Nine bytes a node.
 *
 * SPDX-License-Identifier: MIT */
#include "text/text.h"

#include <stdlib.h>
#include <string.h>

static int by_key(const void *p, const void *q) {
  const mrt_trie_entry *a = p, *b = q;
  size_t n = a->key.size < b->key.size ? a->key.size : b->key.size;
  int order = memcmp(a->key.at, b->key.at, n);
  if (order) return order;
  if (a->key.size != b->key.size) return a->key.size < b->key.size ? -1 : 1;
  return (a->value > b->value) - (a->value < b->value);
}

/* How many nodes: one for each byte that differs from the string before. */
static size_t count_nodes(const mrt_trie_entry *e, size_t n) {
  size_t nodes = 1;
  for (size_t i = 0; i < n; i++) {
    size_t same = 0, most = i ? e[i - 1].key.size : 0;
    if (most > e[i].key.size) most = e[i].key.size;
    while (same < most && e[i].key.at[same] == e[i - 1].key.at[same]) same++;
    nodes += e[i].key.size - same;
  }
  return nodes;
}

/* Add the children of the node whose strings are [low, high), which begin alike
 * for `depth` bytes. */
static void add_children(mrt_trie *t, uint32_t (*range)[2], int32_t node,
                         const mrt_trie_entry *e, size_t depth) {
  uint32_t i = range[node][0], high = range[node][1];
  for (; i < high && e[i].key.size == depth; i++) t->value[node] = e[i].value;
  t->first[node] = t->count;
  while (i < high) {
    uint32_t from = i;
    char byte = e[i].key.at[depth];
    while (i < high && e[i].key.at[depth] == byte) i++;
    t->byte[t->count] = (uint8_t)byte;
    t->value[t->count] = -1;
    range[t->count][0] = from, range[t->count][1] = i;
    t->count++;
  }
}

mrt_status mrt_trie_make(mrt_trie *t, mrt_arena *arena, mrt_error *error,
                         mrt_trie_entry *e, size_t n) {
  *t = (mrt_trie){ .count = 1 };
  qsort(e, n, sizeof *e, by_key);
  size_t nodes = count_nodes(e, n);
  if (nodes > INT32_MAX / 2 || n > INT32_MAX / 2) return mrt_nomem(error);
  t->byte = MRT_NEW(arena, uint8_t, nodes);
  t->first = MRT_NEW(arena, int32_t, nodes + 1);
  t->value = MRT_NEW(arena, int32_t, nodes);
  uint32_t(*range)[2] = mrt_calloc(arena->allocator, nodes, sizeof *range);
  if (!t->byte || !t->first || !t->value || !range) {
    mrt_release(arena->allocator, range, nodes * sizeof *range);
    return mrt_nomem(error);
  }
  t->value[0] = -1;
  range[0][1] = (uint32_t)n;
  size_t depth = 0;
  for (int32_t node = 0, level = 1; node < t->count; node++) {
    if (node == level) depth++, level = t->count;
    add_children(t, range, node, e, depth);
  }
  t->first[t->count] = t->count;
  mrt_release(arena->allocator, range, nodes * sizeof *range);
  memset(t->root, 0xff, sizeof t->root);
  for (int32_t i = t->first[0]; i < t->first[1]; i++) t->root[t->byte[i]] = i;
  return MRT_OK;
}

int32_t mrt_trie_next(const mrt_trie *t, int32_t node, uint8_t byte) {
  if (node == 0) return t->root[byte];
  int32_t i = t->first[node], end = t->first[node + 1];
  if (end - i > 8) {
    const uint8_t *at = memchr(t->byte + i, byte, (size_t)(end - i));
    return at ? (int32_t)(at - t->byte) : -1;
  }
  while (i < end && t->byte[i] != byte) i++;
  return i < end ? i : -1;
}

int32_t mrt_trie_longest(const mrt_trie *t, const char *p, size_t n,
                         size_t *size) {
  int32_t node = 0, value = -1;
  for (size_t i = 0; i < n; i++) {
    node = mrt_trie_next(t, node, (uint8_t)p[i]);
    if (node < 0) break;
    if (t->value[node] >= 0) value = t->value[node], *size = i + 1;
  }
  return value;
}
