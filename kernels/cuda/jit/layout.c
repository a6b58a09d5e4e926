/* layout.c -- how a pointwise kernel finds the elements of its inputs
 *
 * Outputs are contiguous, and so are most inputs; what is not is walked in
 * row-major order over dimensions that all strided inputs share, neighbours
 * joined where every one of them is evenly spaced.
 *
 * SPDX-License-Identifier: MIT */
#include "jit/writer.h"

static int64_t count_of(const mrt_type *t) {
  int64_t n = 1;
  for (int i = 0; i < t->rank; i++) n *= t->dims[i];
  return n;
}

static enum mrt_layout simple(const mrt_operand *x) {
  bool dense = true, same = true;
  int64_t n = 1;
  for (int i = x->type.rank - 1; i >= 0; i--) {
    if (x->type.dims[i] == 1) continue;
    dense &= x->strides[i] == n;
    same &= x->strides[i] == 0;
    n *= x->type.dims[i];
  }
  /* A single element is both; dense may be written in place. */
  return dense || n == 0 ? MRT_AT_DENSE : same ? MRT_AT_SAME : MRT_AT_EACH;
}

static void join(const mrt_call *c, mrt_jit_layouts *l) {
  const mrt_type *t = &c->out[0].type;
  for (int i = 0; i < t->rank; i++) {
    int64_t n = t->dims[i];
    if (n == 1) continue;
    int last = l->rank - 1;
    bool joins = l->rank > 0;
    for (int k = 0; joins && k < c->nin; k++)
      if (l->of[k] == MRT_AT_EACH)
        joins = l->strides[k][last] == n * c->in[k].strides[i];
    if (!joins) l->dims[l->rank++] = 1, last++;
    l->dims[last] *= n;
    for (int k = 0; k < c->nin; k++) l->strides[k][last] = c->in[k].strides[i];
  }
}

/* Vectors of 16 bytes of the smallest elements, of 32 of the largest, and not
 * more than fit in registers. */
static int widest(const mrt_call *c, const mrt_jit_layouts *l) {
  int least = 8, most = 1, vectors = c->nout;
  for (int i = 0; i < c->nin + c->nout; i++) {
    const mrt_operand *x = i < c->nin ? &c->in[i] : &c->out[i - c->nin];
    int size = mrt_jit_c_size(x->type.dtype);
    if (i < c->nin && l->of[i] == MRT_AT_SAME) continue;
    vectors += i < c->nin;
    least = size < least ? size : least;
    most = size > most ? size : most;
  }
  int width = 16 / least;
  while (width * most > 32) width /= 2;
  while (width > 2 && width * vectors * (most > 4 ? 2 : 1) > 64) width /= 2;
  return width;
}

static bool fits(const mrt_call *c, const mrt_jit_layouts *l) {
  const int64_t most = (int64_t)1 << 30;
  if (l->count > most) return false;
  for (int k = 0; k < c->nin; k++) {
    int64_t reach = 0;
    for (int i = 0; l->of[k] == MRT_AT_EACH && i < l->rank; i++) {
      int64_t s = l->strides[k][i];
      s = s < 0 ? -s : s;
      if (s > most) return false;
      reach += s * (l->dims[i] - 1); /* each below 2^60; checked as it grows */
      if (reach > most) return false;
    }
  }
  return true;
}

static enum mrt_layout strided(const mrt_jit_layouts *l, int k) {
  const int64_t *s = l->strides[k];
  int last = l->rank - 1;
  if (s[last] == 0) return MRT_AT_ONE;
  if (s[last] != 1) return MRT_AT_STEP;
  for (int i = 0; i < last; i++)
    if (s[i] % l->width) return MRT_AT_STEP;
  return MRT_AT_WIDE;
}

void mrt_jit_layouts_find(const mrt_call *c, mrt_jit_layouts *l) {
  bool any = false;
  l->rank = 0, l->count = count_of(&c->out[0].type);
  for (int k = 0; k < c->nin; k++) {
    l->of[k] = simple(&c->in[k]);
    any |= l->of[k] == MRT_AT_EACH;
  }
  int full = l->width = widest(c, l);
  if (any) join(c, l);
  l->narrow = fits(c, l);
  if (!any) return;
  int64_t row = l->dims[l->rank - 1];
  while (l->width > 1 && row % l->width) l->width /= 2;
  if (l->width == 1) {
    l->width = full;
    return;
  }
  for (int k = 0; k < c->nin; k++)
    if (l->of[k] == MRT_AT_EACH) l->of[k] = strided(l, k);
}
