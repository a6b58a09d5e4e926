/* triangle.c -- tril and triu: a row of y is a part of x's row among zeros
 *
 * SPDX-License-Identifier: MIT */
#include "op/move.h"
#include "walk.h"

typedef struct triangle {
  walk rows; /* of x, by all dimensions but the last */
  int64_t m, n, step, diagonal;
  bool upper;
} triangle;

static void take(char *y, const char *x, int64_t step, int64_t n,
                 int64_t size) {
  if (step == 1)
    memcpy(y, x, (size_t)(n * size));
  else
    for (int64_t i = 0; i < n; i++)
      walk_copy(y + i * size, x + i * step * size, size);
}

static void rows_part(const mrt_call *c, const void *shared, int part,
                      int parts) {
  const triangle *t = shared;
  int64_t size = (int64_t)mrt_size(&c->out[0]), row = t->n * size, from, to;
  walk w = t->rows;
  mrt_share(w.count, part, parts, &from, &to);
  for (; from < to; from++) {
    char *y = (char *)c->out[0].data + from * row;
    int64_t edge = from % t->m + t->diagonal + !t->upper;
    edge = edge < 0 ? 0 : edge > t->n ? t->n : edge;
    int64_t first = t->upper ? edge : 0, n = t->upper ? t->n - edge : edge;
    walk_seek(&w, from);
    memset(y + (t->upper ? 0 : edge) * size, 0, (size_t)(row - n * size));
    take(y + first * size,
         (const char *)c->in[0].data + (w.place[0] + first * t->step) * size,
         t->step, n, size);
  }
}

static void run(const mrt_call *c, bool upper) {
  const mrt_triangle_options *o = c->options;
  const mrt_operand *x = &c->in[0];
  int last = x->type.rank - 1;
  const int64_t *dims = x->type.dims;
  int64_t most = dims[last] + dims[last - 1]; /* and sums do not overflow */
  triangle t = { .rows.rank = last,
                 .m = dims[last - 1],
                 .n = dims[last],
                 .step = x->strides[last],
                 .diagonal = o->diagonal < -most  ? -most
                             : o->diagonal > most ? most
                                                  : o->diagonal,
                 .upper = upper };
  t.rows.count = mrt_rows(x);
  if (mrt_type_count(&x->type) == 0) return;
  for (int i = 0; i < last; i++)
    t.rows.dims[i] = dims[i], t.rows.step[0][i] = x->strides[i];
  double ns = (double)mrt_type_count(&x->type) * (double)mrt_size(x) * 0.1;
  mrt_parallel(c, mrt_team(c, ns), rows_part, &t);
}

static void tril(const mrt_call *c) { run(c, false); }
static void triu(const mrt_call *c) { run(c, true); }
MRT_KERNEL(tril, .run = tril);
MRT_KERNEL(triu, .run = triu);
