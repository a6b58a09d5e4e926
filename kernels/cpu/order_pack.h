/* order_pack.h -- sorting and choosing packs; included once for each width
 *
 *   PACK       an unsigned integer: a key, and below it 32 bits of position
 *   PACK_(f)   the name of f for it
 *
 * Packs of a row are all different, so every correct sort is stable and gives
 * the same bits, whatever its method and however many threads share it.  Up to
 * LARGE packs are merged from chunks; more go through a radix sort by bytes,
 * least significant first, that skips bytes which are the same everywhere
 * (Knuth, The Art of Computer Programming 3, 5.2.4 and 5.2.5).  The k-th of n
 * is found by the same bytes from the other end.
 *
 * SPDX-License-Identifier: MIT */

/* to[rank of a[i]] = a[i]; n <= CHUNK, room for a whole CHUNK at `a`. */
static inline void PACK_(rank)(const PACK *a, int64_t n, PACK *to) {
#ifdef PACK_VECTOR
  typedef PACK_VECTOR packs __attribute__((aligned(8), may_alias));
  enum { WIDE = MRT_VECTOR_BYTES / (int)sizeof(PACK) };
  for (int64_t i = 0; i < n; i += WIDE) {
    PACK_VECTOR own = *(const packs *)(a + i), rank = { 0 };
    for (int64_t j = 0; j < n; j++)
      rank -= (PACK_VECTOR)(own > (own ^ own) + a[j]);
    for (int64_t k = 0; k < WIDE && i + k < n; k++) to[rank[k]] = own[k];
  }
#else
  for (int64_t i = 0; i < n; i++) {
    int64_t rank = 0;
    for (int64_t j = 0; j < n; j++) rank += a[j] < a[i];
    to[rank] = a[i];
  }
#endif
}

/* Rows a[0, m) and a[m, n), in order each, to one. */
static inline void PACK_(join)(const PACK *a, int64_t m, int64_t n, PACK *to) {
  int64_t i = 0, j = m, k = 0;
  while (i < m && j < n) {
    PACK x = a[i], y = a[j];
    bool second = y < x;
    to[k++] = second ? y : x;
    j += second, i += !second;
  }
  while (i < m) to[k++] = a[i++];
  while (j < n) to[k++] = a[j++];
}

/* Returns where they are in order: a or b, which have room for CHUNK more. */
static inline PACK *PACK_(merge_sort)(PACK *a, PACK *b, int64_t n) {
  enum { CHUNK = PACK_CHUNK };
  for (int64_t i = 0; i < n; i += CHUNK)
    PACK_(rank)(a + i, n - i < CHUNK ? n - i : CHUNK, b + i);
  for (int64_t half = CHUNK; half < n; half *= 2) {
    PACK *from = b;
    b = a, a = from;
    for (int64_t i = 0; i < n; i += 2 * half) {
      int64_t rest = n - i;
      PACK_(join)
      (from + i, half < rest ? half : rest, 2 * half < rest ? 2 * half : rest,
       b + i);
    }
  }
  return b;
}

/* ---- by bytes ------------------------------------------------------------ */

typedef struct PACK_(pass) {
  const PACK *from;
  PACK *to;
  int64_t n;
  int shift;
  int64_t (*counts)[256]; /* of each part; then where its next one goes */
} PACK_(pass);

static inline void PACK_(count)(const mrt_call *c, const void *shared, int part,
                                int parts) {
  const PACK_(pass) *s = shared;
  const PACK *a = s->from;
  int64_t *count = s->counts[part], i, end;
  int shift = s->shift;
  memset(count, 0, sizeof s->counts[part]);
  mrt_share(s->n, part, parts, &i, &end);
  for (; i < end; i++) count[(uint8_t)(a[i] >> shift)]++;
}

static inline void PACK_(move)(const mrt_call *c, const void *shared, int part,
                               int parts) {
  const PACK_(pass) *s = shared;
  const PACK *a = s->from;
  PACK *to = s->to;
  int64_t *next = s->counts[part], i, end;
  int shift = s->shift;
  mrt_share(s->n, part, parts, &i, &end);
  for (; i < end; i++) {
    PACK x = a[i];
    to[next[(uint8_t)(x >> shift)]++] = x;
  }
}

/* From counts to places; false where all packs have the same byte. */
static inline bool PACK_(places)(const PACK_(pass) * s, int parts) {
  int64_t at = 0;
  for (int d = 0; d < 256; d++) {
    int64_t before = at;
    for (int p = 0; p < parts; p++) {
      int64_t count = s->counts[p][d];
      s->counts[p][d] = at;
      at += count;
    }
    if (at - before == s->n) return false;
  }
  return true;
}

/* n packs whose keys have `bits`; counts: 256 for each of `parts`. */
static inline PACK *PACK_(radix_sort)(const mrt_call *c, int parts, PACK *a,
                                      PACK *b, int64_t n, int bits,
                                      int64_t (*counts)[256]) {
  for (int shift = 32; shift < 32 + bits; shift += 8) {
    PACK_(pass) s = { a, b, n, shift, counts };
    mrt_parallel(c, parts, PACK_(count), &s);
    if (!PACK_(places)(&s, parts)) continue;
    mrt_parallel(c, parts, PACK_(move), &s);
    PACK *sorted = b;
    b = a, a = sorted;
  }
  return a;
}

static inline void *PACK_(sort)(const mrt_call *c, int parts, void *a, void *b,
                                int64_t n, int bits, int64_t (*counts)[256]) {
  if (n <= ORDER_LARGE) return PACK_(merge_sort)(a, b, n);
  return PACK_(radix_sort)(c, parts, a, b, n, bits, counts);
}

/* The k-th smallest (from 0) of n packs, which stand in the order of their
 * positions; they are lost. */
static inline PACK PACK_(kth)(PACK *a, int64_t n, int64_t k, int bits) {
  PACK chunk[PACK_CHUNK];
  int shift = 32 + bits - 8;
  for (; n > PACK_CHUNK && shift >= 32; shift -= 8) {
    int64_t count[256] = { 0 }, m = 0;
    int digit = 0;
    for (int64_t i = 0; i < n; i++) count[(uint8_t)(a[i] >> shift)]++;
    while (k >= count[digit]) k -= count[digit++];
    if (count[digit] == n) continue;
    for (int64_t i = 0; i < n; i++) {
      PACK x = a[i];
      a[m] = x;
      m += (uint8_t)(x >> shift) == digit;
    }
    n = m;
  }
  if (n > PACK_CHUNK) return a[k]; /* their keys are equal */
  PACK_(rank)(a, n, chunk);
  return chunk[k];
}

/* ---- rows ---------------------------------------------------------------- */

/* The k smallest of a row in order, k <= ORDER_FEW: most packs are only compared
 * with the last of the best so far. */
static inline void PACK_(few)(const order_lane *l, order_load *load, int64_t k,
                              PACK *best) {
  PACK block[ORDER_BLOCK];
  int64_t have = 0;
  for (int64_t i = 0; i < l->n; i += ORDER_BLOCK) {
    int64_t m = l->n - i < ORDER_BLOCK ? l->n - i : ORDER_BLOCK;
    load(l, i, m, block);
    for (int64_t j = 0; j < m; j++) {
      PACK x = block[j];
      if (have == k && x > best[k - 1]) continue;
      int64_t at = have < k ? have++ : k - 1;
      for (; at > 0 && best[at - 1] > x; at--) best[at] = best[at - 1];
      best[at] = x;
    }
  }
}

/* The packs of a row that are `last` or before it, in the order of their
 * positions; room for one more. */
static inline void PACK_(until)(const order_lane *l, order_load *load,
                                PACK last, PACK *to) {
  PACK block[ORDER_BLOCK];
  int64_t have = 0;
  for (int64_t i = 0; i < l->n; i += ORDER_BLOCK) {
    int64_t m = l->n - i < ORDER_BLOCK ? l->n - i : ORDER_BLOCK;
    load(l, i, m, block);
    for (int64_t j = 0; j < m; j++) {
      to[have] = block[j];
      have += block[j] <= last;
    }
  }
}

/* The k smallest of a row to where they are returned: a or b. */
static inline void *PACK_(smallest)(const mrt_call *c, const order_lane *l,
                                    const order_type *t, int64_t k, bool sorted,
                                    void *a, void *b, int64_t (*counts)[256]) {
  if (k <= ORDER_FEW) {
    PACK_(few)(l, t->load, k, b);
    return b;
  }
  t->load(l, 0, l->n, a);
  PACK last = PACK_(kth)(a, l->n, k - 1, t->bits);
  PACK_(until)(l, t->load, last, b);
  return sorted ? PACK_(sort)(c, 1, b, a, k, t->bits, counts) : b;
}

/* The k-th of a row (from 0), whose packs are at `packs`. */
static inline int64_t PACK_(position)(void *packs, int64_t n, int64_t k,
                                      int bits) {
  return (uint32_t)PACK_(kth)(packs, n, k, bits);
}

/* Of n packs in order the last of the longest run of equal keys.  A key above
 * `most` is a NaN, which equals nothing. */
static inline int64_t PACK_(longest_run)(const void *packs, int64_t n,
                                         uint64_t most) {
  const PACK *a = packs;
  int64_t best = 0, length = 0, run = 0;
  for (int64_t i = 0; i < n; i++) {
    uint64_t key = (uint64_t)(a[i] >> 32);
    bool goes_on = i && key == (uint64_t)(a[i - 1] >> 32) && key <= most;
    run = goes_on ? run + 1 : 1;
    if (run > length) length = run, best = i;
  }
  return (uint32_t)a[best];
}
