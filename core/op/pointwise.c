/* pointwise.c -- checks, costs and gradients that pointwise rows share
 *
 * SPDX-License-Identifier: MIT */
#include "op/pointwise.h"

#include <stdio.h>
#include <string.h>

/* "f32, f64 or bool" */
static mrt_text list(unsigned dtypes) {
  mrt_text text = { "" };
  for (int d = 0; dtypes; d++) {
    if (!(dtypes >> d & 1)) continue;
    dtypes &= ~(1u << d);
    size_t used = strlen(text.s);
    bool last = dtypes == 0, penult = (dtypes & (dtypes - 1)) == 0;
    snprintf(text.s + used, sizeof text.s - used, "%s%s",
             mrt_dtype_name((mrt_dtype)d),
             last     ? ""
             : penult ? " or "
                      : ", ");
  }
  return text;
}

mrt_status mrt_want_among(mrt_infer *c, int i, unsigned dtypes) {
  if (dtypes >> c->in[i]->dtype & 1) return MRT_OK;
  return mrt_refuse(c, MRT_EDTYPE, "input %d is %s, %s wanted (cast first)",
                    i + 1, mrt_show(c->in[i]).s, list(dtypes).s);
}

mrt_status mrt_infer_among(mrt_infer *c, unsigned dtypes) {
  MRT_TRY(mrt_want_among(c, 0, dtypes));
  for (int i = 1; i < c->nin; i++) MRT_TRY(mrt_want_same(c, 0, i));
  c->out[0] = *c->in[0];
  return MRT_OK;
}

mrt_status mrt_infer_numbers(mrt_infer *c) {
  return mrt_infer_among(c, MRT_NUMBERS);
}
mrt_status mrt_infer_reals(mrt_infer *c) {
  return mrt_infer_among(c, MRT_REALS);
}
mrt_status mrt_infer_bools(mrt_infer *c) {
  return mrt_infer_among(c, 1 << MRT_bool);
}

double mrt_flops_one(const mrt_signature *s) {
  return (double)mrt_type_count(s->out[0]);
}
double mrt_flops_ten(const mrt_signature *s) { return 10 * mrt_flops_one(s); }

mrt_tensor *mrt_full_like(mrt_build *b, mrt_tensor *x, double k) {
  return mrt_expand_to(b, mrt_const_like(b, x, k), mrt_of(x));
}

void mrt_grad_zero(mrt_build *b) {
  for (int i = 0; i < b->nin; i++)
    if (b->wants[i]) b->din[i] = mrt_full_like(b, b->in[i], 0);
}
