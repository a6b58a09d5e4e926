/* fp8_delayed.c -- scales that are known before a run
 *
 *   needs   the program's variables, f32[sites]: `scale` and `amax`
 *   gives   the i-th value to be scaled, in the traced order, scaled by
 *           scale[i]; what reads `amax` reads the largest magnitudes instead, 0
 *           where it has room for more
 *   never   decides what comes of them: the program does, in nodes it traced
 *           after all products
 *
 * SPDX-License-Identifier: MIT */
#include "op/make.h"
#include "op/move.h"
#include "op/views.h"
#include "rewrite/precision.h"

mrt_value *mrt_narrow_make(mrt_making *b, int op, const void *options,
                           mrt_type type, int nin, mrt_value *const *in) {
  for (int k = 0; k < nin; k++)
    if (!in[k]) return NULL;
  if (b->status) return NULL;
  mrt_node *n = mrt_graph_node(b->w->g, mrt_ops[op], nin, in, options, 1, &type,
                               b->origin);
  b->status = n ? mrt_graph_append(b->w->g, n) : mrt_nomem(b->w->e);
  return b->status ? NULL : n->out[0];
}

static mrt_type vector(int64_t length) {
  return (mrt_type){ .dtype = MRT_f32, .rank = 1, .dims = { length } };
}

/* ---- what is read -------------------------------------------------------- */

static mrt_value *element(mrt_making *b, mrt_value *of, int i) {
  mrt_slice_options at = { .dim = 0, .first = i, .last = i, .step = 1 };
  mrt_shape_options scalar = { 0 };
  mrt_value *one = MRT_MAKE(b, slice, &at, vector(1), of);
  return MRT_MAKE(b, reshape, &scalar, mrt_type_scalar(MRT_f32), one);
}

/* ---- sites --------------------------------------------------------------- */

static const char *maker_of(const mrt_value *v) {
  const mrt_value *root = mrt_value_root((mrt_value *)v);
  return root->node                        ? root->node->op->name
         : root->leaf == MRT_LEAF_INPUT    ? "input"
         : root->leaf == MRT_LEAF_CONSTANT ? "constant"
                                           : "variable";
}

static mrt_status note(mrt_making *b, const mrt_value *v, mrt_dtype dtype,
                       mrt_value *largest) {
  mrt_narrowing *w = b->w;
  mrt_arena *a = &w->g->arena;
  if (!MRT_PUSH_ROOM(a, w->sites, w->site_count, w->site_room) ||
      !MRT_PUSH_ROOM(a, w->largest, w->site_count, w->largest_room))
    return mrt_nomem(w->e);
  w->largest[w->site_count] = largest;
  w->sites[w->site_count++] = (mrt_site){ .op = maker_of(v),
                                          .name = v->name,
                                          .file = v->origin.file,
                                          .module = v->origin.module,
                                          .line = v->origin.line,
                                          .layer = v->origin.layer,
                                          .backward = v->origin.backward,
                                          .type = v->type,
                                          .dtype = dtype };
  return MRT_OK;
}

mrt_status mrt_narrow_site(mrt_making *b, const mrt_value *v, mrt_dtype dtype,
                           mrt_value *largest, mrt_value **scale,
                           mrt_value **inverse) {
  mrt_narrowing *w = b->w;
  mrt_tensor *t = w->rewrite->memo->scale;
  int i = w->site_count;
  MRT_TRY(b->status);
  MRT_TRY(note(b, v, dtype, largest));
  *scale = *inverse = largest;
  if (!t || i >= t->type.dims[0]) return MRT_OK; /* the plan will fail */
  if (!w->scales) MRT_TRY(mrt_graph_variable(w->g, t, &w->scales));
  if (!w->inverses)
    w->inverses = MRT_MAKE(b, reciprocal, NULL, t->type, w->scales);
  *scale = element(b, w->scales, i);
  *inverse = element(b, w->inverses, i);
  return b->status;
}

/* ---- what is found ------------------------------------------------------- */

static mrt_value *zeros(mrt_making *b, int64_t length) {
  mrt_full_options o = { .shape = { .count = 1, .at = { length } },
                         .dtype = MRT_f32 };
  return mrt_narrow_make(b, MRT_OP_full, &o, vector(length), 0, NULL);
}

static mrt_status find(mrt_narrowing *w, int64_t room, mrt_origin origin) {
  mrt_making b = { .w = w, .origin = origin };
  int n = w->site_count, more = room > n;
  mrt_value **one = MRT_NEW(&w->g->arena, mrt_value *, n + more);
  mrt_shape_options length = { .shape = { .count = 1, .at = { 1 } } };
  mrt_dim_options first = { .dim = 0 };
  if (!one) return mrt_nomem(w->e);
  for (int i = 0; i < n; i++)
    one[i] = MRT_MAKE(&b, reshape, &length, vector(1), w->largest[i]);
  if (more) one[n] = zeros(&b, room - n);
  w->found =
      mrt_narrow_make(&b, MRT_OP_cat, &first, vector(room), n + more, one);
  return b.status;
}

mrt_status mrt_narrow_found(mrt_narrowing *w, mrt_node *n) {
  const mrt_tensor *amax = w->rewrite->memo->amax;
  int written = mrt_node_is_update(n) ? n->op->updates : 0;
  if (!amax || !w->site_count || w->site_count > amax->type.dims[0])
    return MRT_OK;
  for (int k = written; k < n->nin; k++) {
    if (n->in[k]->leaf != MRT_LEAF_VARIABLE || n->in[k]->tensor != amax)
      continue;
    if (!w->found) MRT_TRY(find(w, amax->type.dims[0], n->origin));
    n->in[k] = w->found;
  }
  return MRT_OK;
}

mrt_status mrt_narrow_tell(mrt_narrowing *w) {
  return w->tell ? w->tell->sites(w->tell->user, w->sites, w->site_count)
                 : MRT_OK;
}
