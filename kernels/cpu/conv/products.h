/* products.h -- convolutions that are products of matrices as they lie, or nearly
 *
 * A kernel of 1 x 1 multiplies the channels of each place, [places, C] by
 * [C, O].  With a stride the places that are read are copied side by side, some
 * at a time, which for dw pays for larger kernels too: places that are apart
 * are short runs for conv/dw.c.
 *
 * Narrow values are read, rounded and written as the product does it; where sums
 * go on from one product to the next, all are reals.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CONV_PRODUCTS_H
#define MRT_CONV_PRODUCTS_H

#include "conv/conv.h"

enum { PRODUCTS_CHANNELS = 16 }; /* of x and of y: fewer make poor tiles */

static inline bool may_be_products(const mrt_call *c) {
  const mrt_conv_options *o = c->options;
  bool narrow =
      o->accumulate != MRT_DTYPE_COUNT && mrt_is_narrow(o->accumulate);
  return !narrow && o->groups == 1;
}

static inline bool products_serve(const mrt_call *c, const mrt_type *w) {
  return may_be_products(c) && w->dims[0] >= PRODUCTS_CHANNELS &&
         w->dims[1] >= PRODUCTS_CHANNELS;
}

static inline bool are_reals(const mrt_call *c) {
  const mrt_conv_options *o = c->options;
  bool rounds = o->compute != MRT_DTYPE_COUNT && mrt_is_narrow(o->compute);
  return !rounds && c->in[0].type.dtype == MRT_REAL &&
         c->in[1].type.dtype == MRT_REAL && c->out[0].type.dtype == MRT_REAL;
}

static inline bool is_strided(const mrt_call *c) {
  const mrt_conv_options *o = c->options;
  return o->stride.at[0] > 1 || o->stride.at[1] > 1;
}

/* y or dx of a kernel of 1 x 1 without padding.  Few channels of y are few
 * columns, which a product of pairs has by lanes all the same. */
static inline bool is_point(const mrt_call *c) {
  const mrt_conv_options *o = c->options;
  const mrt_type *w = &c->in[1].type;
  bool few = c->dots && c->in[0].type.dtype == MRT_bf16 &&
             c->in[0].type.dims[3] == w->dims[1] && may_be_products(c) &&
             w->dims[1] >= PRODUCTS_CHANNELS;
  return (few || products_serve(c, w)) && w->dims[2] == 1 && w->dims[3] == 1 &&
         o->padding.at[0] == 0 && o->padding.at[1] == 0;
}

/* One product, of x where it lies, that is dw. */
static inline bool is_one_product(const mrt_call *c) {
  const mrt_conv_options *o = c->options;
  const mrt_type *w = &c->out[0].type;
  return w->dims[2] == 1 && w->dims[3] == 1 && !is_strided(c) &&
         o->padding.at[0] == 0 && o->padding.at[1] == 0;
}

static inline bool is_products_dw(const mrt_call *c) {
  enum { MOST_TAPS = 25 };
  const mrt_type *w = &c->out[0].type;
  int64_t taps = w->dims[2] * w->dims[3];
  bool several = are_reals(c) && taps > 0 && taps <= MOST_TAPS &&
                 (taps == 1 || is_strided(c));
  return products_serve(c, w) && (is_one_product(c) || several);
}

#define mrt_point_bytes       MRT_CPU(point_bytes)
#define mrt_point_run         MRT_CPU(point_run)
#define mrt_products_dw_bytes MRT_CPU(products_dw_bytes)
#define mrt_products_dw_run   MRT_CPU(products_dw_run)

/* conv2d, or with `back` its dx, in `scratch` of so many bytes; `bias`: of each
 * channel, or NULL. */
size_t mrt_point_bytes(const mrt_call *c, bool back);
void mrt_point_run(const mrt_call *c, bool back, const real *bias,
                   void *scratch);
size_t mrt_products_dw_bytes(const mrt_call *c);
void mrt_products_dw_run(const mrt_call *c);

#endif
