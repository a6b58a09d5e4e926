/* update.h -- options of the operators that write variables
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_OP_UPDATE_H
#define MRT_OP_UPDATE_H

#include "op/op.h"

/* `lazy`: where a row of the gradient, what is at one position of its first
 * dimension, is 0 everywhere, p and what is averaged stay as they are there. */

/* How what is stored in bf16 is rounded; the draw is that of op/random.h.  First
 * of the options of descend, adamw, sgd, rmsprop and lion, of those in 8 bits, and
 * of those by rows.
 *
 * Updates with one `draw` are parts of one: an element's random bits depend on
 * its place among all their elements, so they are the same however these are
 * cut, at multiples of MRT_BLOCK8. */
typedef struct mrt_rounding {
  uint64_t key, seed; /* option `draw`; 0: one of its own */
  int64_t place;      /* of the first element */
  bool stochastic;    /* p too, not what is averaged alone */
} mrt_rounding;

#define MRT_ROUNDING_OPTION(type, field, word, what)                           \
  { .name = word, .offset = offsetof(type, rounding.field), .kind = what }
#define MRT_ROUNDING_OPTIONS(type)                                             \
  MRT_ROUNDING_OPTION(type, key, "draw", MRT_OPT_INT),                         \
      MRT_ROUNDING_OPTION(type, seed, "seed", MRT_OPT_HIDDEN),                 \
      MRT_ROUNDING_OPTION(type, place, "place", MRT_OPT_INT),                  \
      MRT_ROUNDING_OPTION(type, stochastic, "stochastic", MRT_OPT_BOOL)

typedef struct mrt_adamw_options {
  mrt_rounding rounding;
  double beta1, beta2, eps, weight_decay;
  bool coupled; /* decay enters the gradient (Adam), not the weight (AdamW) */
  bool lazy;
} mrt_adamw_options;

#define MRT_ADAMW_OPTIONS                                                      \
  MRT_ROUNDING_OPTIONS(mrt_adamw_options),                                     \
      MRT_OPTION(mrt_adamw_options, beta1, MRT_OPT_NUM, .preset = 0.9),        \
      MRT_OPTION(mrt_adamw_options, beta2, MRT_OPT_NUM, .preset = 0.999),      \
      MRT_OPTION(mrt_adamw_options, eps, MRT_OPT_NUM, .preset = 1e-8),         \
      MRT_OPTION(mrt_adamw_options, weight_decay, MRT_OPT_NUM),                \
      MRT_OPTION(mrt_adamw_options, coupled, MRT_OPT_BOOL),                    \
      MRT_OPTION(mrt_adamw_options, lazy, MRT_OPT_BOOL)

typedef struct mrt_descend_options {
  mrt_rounding rounding;
  double weight_decay;
  bool lazy;
} mrt_descend_options;

#define MRT_DESCEND_OPTIONS                                                    \
  MRT_ROUNDING_OPTIONS(mrt_descend_options),                                   \
      MRT_OPTION(mrt_descend_options, weight_decay, MRT_OPT_NUM),              \
      MRT_OPTION(mrt_descend_options, lazy, MRT_OPT_BOOL)

typedef struct mrt_sgd_options {
  mrt_rounding rounding;
  double momentum, dampening, weight_decay;
  bool nesterov, lazy;
} mrt_sgd_options;

#define MRT_SGD_OPTIONS                                                        \
  MRT_ROUNDING_OPTIONS(mrt_sgd_options),                                       \
      MRT_OPTION(mrt_sgd_options, momentum, MRT_OPT_NUM),                      \
      MRT_OPTION(mrt_sgd_options, dampening, MRT_OPT_NUM),                     \
      MRT_OPTION(mrt_sgd_options, weight_decay, MRT_OPT_NUM),                  \
      MRT_OPTION(mrt_sgd_options, nesterov, MRT_OPT_BOOL),                     \
      MRT_OPTION(mrt_sgd_options, lazy, MRT_OPT_BOOL)

typedef struct mrt_rmsprop_options {
  mrt_rounding rounding;
  double keep, add, eps, weight_decay;
  bool lazy;
} mrt_rmsprop_options;

#define MRT_RMSPROP_OPTIONS                                                    \
  MRT_ROUNDING_OPTIONS(mrt_rmsprop_options),                                   \
      MRT_OPTION(mrt_rmsprop_options, keep, MRT_OPT_NUM, .preset = 0.99),      \
      MRT_OPTION(mrt_rmsprop_options, add, MRT_OPT_NUM, .preset = 0.01),       \
      MRT_OPTION(mrt_rmsprop_options, eps, MRT_OPT_NUM, .preset = 1e-8),       \
      MRT_OPTION(mrt_rmsprop_options, weight_decay, MRT_OPT_NUM),              \
      MRT_OPTION(mrt_rmsprop_options, lazy, MRT_OPT_BOOL)

typedef struct mrt_lion_options {
  mrt_rounding rounding;
  double beta1, beta2, weight_decay;
} mrt_lion_options;

#define MRT_LION_OPTIONS                                                       \
  MRT_ROUNDING_OPTIONS(mrt_lion_options),                                      \
      MRT_OPTION(mrt_lion_options, beta1, MRT_OPT_NUM, .preset = 0.9),         \
      MRT_OPTION(mrt_lion_options, beta2, MRT_OPT_NUM, .preset = 0.99),        \
      MRT_OPTION(mrt_lion_options, weight_decay, MRT_OPT_NUM)

enum { MRT_BLOCK8 = 256 }; /* elements in 8 bits that share a scale */

typedef struct mrt_accumulate_options {
  double scale;
  bool largest; /* the larger of both, NaN if any is, instead of the sum */
} mrt_accumulate_options;

/* ---- gradients by rows (update_rows.c) ----------------------------------- */

/* How a list of ids says which rows of dy are added up for a row of p: each id
 * has its own, or a bag of ids has one, divided by their number where it was a
 * mean.  Bags are rows of ids, or ("at") begin at offsets. */
enum {
  MRT_ROWS_EACH,
  MRT_ROWS_SUM,
  MRT_ROWS_MEAN,
  MRT_ROWS_SUM_AT,
  MRT_ROWS_MEAN_AT,
  MRT_ROWS_KINDS
};

typedef struct mrt_row_lists {
  mrt_ints kinds;    /* of each list */
  mrt_dtype rounded; /* what sums are rounded to: of a list, and so far of all;
                        MRT_DTYPE_COUNT: nothing */
} mrt_row_lists;

/* Options of an update by rows: those of the update, and these after them. */
typedef struct mrt_descend_rows_options {
  mrt_descend_options step;
  mrt_row_lists lists;
} mrt_descend_rows_options;
typedef struct mrt_sgd_rows_options {
  mrt_sgd_options step;
  mrt_row_lists lists;
} mrt_sgd_rows_options;
typedef struct mrt_rmsprop_rows_options {
  mrt_rmsprop_options step;
  mrt_row_lists lists;
} mrt_rmsprop_rows_options;
typedef struct mrt_adamw_rows_options {
  mrt_adamw_options step;
  mrt_row_lists lists;
} mrt_adamw_rows_options;

enum { MRT_ROW_LISTS = 4 }; /* at most */

/* Inputs of a list: ids, dy, and offsets perhaps. */
static inline int mrt_row_list_inputs(int64_t kind) {
  return kind == MRT_ROWS_SUM_AT || kind == MRT_ROWS_MEAN_AT ? 3 : 2;
}

/* ---- gradients by a product (update_product.c) --------------------------- */

typedef struct mrt_product_gradient {
  mrt_dtype compute; /* as of matmul */
  bool rows;         /* and rows of a table are added: ids, dy */
} mrt_product_gradient;

typedef struct mrt_descend_product_options {
  mrt_descend_options step;
  mrt_product_gradient gradient;
} mrt_descend_product_options;
typedef struct mrt_sgd_product_options {
  mrt_sgd_options step;
  mrt_product_gradient gradient;
} mrt_sgd_product_options;
typedef struct mrt_rmsprop_product_options {
  mrt_rmsprop_options step;
  mrt_product_gradient gradient;
} mrt_rmsprop_product_options;
typedef struct mrt_adamw_product_options {
  mrt_adamw_options step;
  mrt_product_gradient gradient;
} mrt_adamw_product_options;

/* ---- checks that rows share (update.c) ----------------------------------- */

/* p may be stored in bf16, what is averaged in f16 or bf16. */
mrt_status mrt_want_weight(mrt_infer *c);
/* p and what is averaged beside it, `written` in all: they are the outputs. */
mrt_status mrt_want_state(mrt_infer *c, int written);
/* The gradient: of p's shape, in any float dtype, f64 where p is. */
mrt_status mrt_want_gradient(mrt_infer *c, int i);
/* Inputs from i on: the step count; the learning rate, perhaps the gradient's
 * scale and when to update, of what rounds. */
mrt_status mrt_want_count(mrt_infer *c, int i);
mrt_status mrt_want_rate(mrt_infer *c, int i);

#endif
