/* attention.h -- options of the attention family, shared by rows and kernels
 *
 * What a query sees: with `at` the position of query 0 among the keys, query t
 * sees keys  t + at - left .. t + at + right  of those within the sample's
 * length, and of these what the mask does not hide.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_OP_ATTENTION_H
#define MRT_OP_ATTENTION_H

#include <stdbool.h>
#include <stdint.h>

/* Inputs that may be absent follow the others in this order. */
enum {
  MRT_ATTENTION_MASK = 1,    /* bool: what is seen; or floats that are added */
  MRT_ATTENTION_QUERIES = 2, /* [B]: how many queries each sample has */
  MRT_ATTENTION_KEYS = 4,    /* [B]: how many keys */
  MRT_ATTENTION_AT = 8,      /* [B]: the position of query 0 */
  MRT_ATTENTION_ALL = 15
};
/* Where the inputs that may be absent begin. */
enum {
  MRT_ATTENTION_AFTER = 3,       /* q, k, v */
  MRT_ATTENTION_PAGED_AFTER = 4, /* and the table of pages */
  MRT_ATTENTION_GRAD_AFTER = 6   /* q, k, v, o, lse, do */
};
/* `offset` that is not given: the last query stands at the last key. */
#define MRT_ATTENTION_AT_END INT64_MIN
/* Windows and offsets are no further: positions then cannot overflow. */
#define MRT_ATTENTION_FAR ((int64_t)1 << 40)

typedef struct mrt_attention_options {
  bool causal;         /* right is 0 */
  double scale;        /* of the scores; 0 becomes 1 / sqrt(D) */
  int64_t left, right; /* keys before and after its own position that a query
                          sees; -1: all */
  double softcap;      /* scores become cap tanh(score / cap); 0: they do not */
  int64_t offset;      /* position of query 0 among the keys */
  int64_t further;     /* costs are those of an offset so much larger: on ranks
                          that share a sequence alike, so that they plan alike */
  int64_t has;         /* MRT_ATTENTION_MASK .. */
  bool mask_grad;      /* of the gradient: also that of the mask */
} mrt_attention_options;

/* The place of an input that is there, behind `after` others. */
static inline int mrt_attention_input(const mrt_attention_options *o, int after,
                                      int which) {
  int at = after;
  for (int bit = 1; bit < which; bit *= 2) at += (o->has & bit) != 0;
  return at;
}
static inline int64_t mrt_attention_left(const mrt_attention_options *o) {
  return o->left < 0 ? MRT_ATTENTION_FAR : o->left;
}
static inline int64_t mrt_attention_right(const mrt_attention_options *o) {
  return o->causal ? 0 : o->right < 0 ? MRT_ATTENTION_FAR : o->right;
}
/* An offset that is far away shows nothing that a nearer one does not. */
static inline int64_t mrt_attention_near(int64_t at) {
  int64_t far = MRT_ATTENTION_FAR;
  return at < -far ? -far : at > far ? far : at;
}

#endif
