/* window.c -- what convolutions and pools check alike
 *
 * SPDX-License-Identifier: MIT */
#include "op/window.h"

/* With every figure below this, no sum or product here overflows. */
static const int64_t most = INT64_C(1) << 30;

mrt_status mrt_want_pair(mrt_infer *c, mrt_ints *pair, const char *name,
                         int64_t least, int64_t preset) {
  if (pair->count > 2)
    return mrt_refuse(c, MRT_EVALUE, "%s: %d integers, one or two wanted", name,
                      pair->count);
  if (pair->count == 0) pair->at[0] = preset;
  if (pair->count < 2) pair->at[1] = pair->at[0];
  pair->count = 2;
  for (int i = 0; i < 2; i++)
    if (pair->at[i] < least || pair->at[i] >= most)
      return mrt_refuse(c, MRT_EVALUE, "%s %lld, %lld to %lld wanted", name,
                        (long long)pair->at[i], (long long)least,
                        (long long)most - 1);
  return MRT_OK;
}

mrt_status mrt_want_image(mrt_infer *c, int i) {
  MRT_TRY(mrt_want_real(c, i));
  MRT_TRY(mrt_want_same_dtype(c, 0, i));
  if (c->in[i]->rank == 4) return MRT_OK;
  return mrt_refuse(c, MRT_ESHAPE,
                    "input %d is %s, [batch, height, width, channels] wanted",
                    i + 1, mrt_show(c->in[i]).s);
}

mrt_status mrt_want_places(mrt_infer *c, const mrt_slide *s, int64_t *places) {
  int64_t span = s->dilation * (s->kernel - 1) + 1;
  if (s->size >= most)
    return mrt_refuse(c, MRT_ESHAPE, "a side of %lld, less than %lld wanted",
                      (long long)s->size, (long long)most);
  int64_t room = s->size + 2 * s->padding;
  if (span > room)
    return mrt_refuse(c, MRT_ESHAPE,
                      "a kernel that spans %lld does not fit %lld with padding "
                      "%lld",
                      (long long)span, (long long)s->size,
                      (long long)s->padding);
  *places = (room - span) / s->stride + 1;
  /* One more where some of x is left, if it begins within x or before. */
  if (s->ceil_mode && (room - span) % s->stride != 0 &&
      *places * s->stride < s->size + s->padding)
    ++*places;
  return MRT_OK;
}
