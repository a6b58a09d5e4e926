/* divisor.c -- integers are copied, a 0 is reported
 *
 * SPDX-License-Identifier: MIT */
#include "walk.h"

/* Each part looks at its share first, then copies it where it is asked to. */
static void divisor_part(const mrt_call *c, const void *unused, int part,
                         int parts) {
  const mrt_operand *x = &c->in[0];
  size_t size = mrt_size(x);
  int64_t from, to;
  bool zero = false;
  (void)unused;
  mrt_share(mrt_rows(x) * mrt_cols(x), part, parts, &from, &to);
  for (int64_t i = from; i < to; i++)
    zero |= mrt_id(x->data, x->type.dtype, i) == 0;
  if (zero) mrt_bad_id(c, 0, 0);
  if (to > from && x->data != c->out[0].data)
    memcpy((char *)c->out[0].data + from * size,
           (const char *)x->data + from * size, (size_t)(to - from) * size);
}

static void divisor(const mrt_call *c) {
  double n = (double)(mrt_rows(&c->in[0]) * mrt_cols(&c->in[0]));
  mrt_parallel(c, mrt_team(c, n), divisor_part, NULL);
}
MRT_KERNEL(divisor, .run = divisor);
