/* partition_choose.c -- which weights are cut over the ranks, and how?
 *
 *   question  for each weight: after how many elements its pieces begin, or 0:
 *             every rank has all of it
 *   input     what a loss is computed from, as a graph
 *   method    One walk in order.  A product whose weight is not settled yet
 *             either reads what lies in pieces already, and its weight is cut
 *             to fit; or it begins: each way to cut its weight is tried on the
 *             nodes up to the next product that must begin, and the one that
 *             moves the fewest bytes is taken.  Other weights (a bias) are cut
 *             as what they meet.
 *   from      the pairs of Shoeybi et al., Megatron-LM, 2019 (arXiv:1909.08053)
 *             come out of it for transformers: columns of the first product,
 *             rows of the second
 *   cost      O(nodes + products * AHEAD)
 *   never     makes a node: it only looks
 *
 * SPDX-License-Identifier: MIT */
#include "mrt/ranks.h"
#include "rewrite/partition_walk.h"
#include "tensor/trace.h"

#include <string.h>

enum {
  AHEAD = 64,    /* nodes that a way to cut is tried on */
  MAX_RUNS = 8,  /* in a dimension, each in pieces: 3 of query, key, value */
  MAX_CHAIN = 16 /* views between a weight and what reads it */
};

static const mrt_placement replicated = { .kind = MRT_REPLICATE };

typedef struct settled {
  mrt_value *leaf; /* NULL: nothing reads it */
  int64_t outer;
  bool done;
} settled;

typedef struct cut_search {
  mrt_partition p;
  settled *weights;
  int count;
  mrt_located *kept; /* the values before a trial */
  settled *kept_weights;
} cut_search;

/* ---- weights ------------------------------------------------------------- */

static settled *weight_of(cut_search *c, const mrt_value *v) {
  int i = mrt_located_of(&c->p, v)->weighs;
  return i && !c->weights[i - 1].done ? &c->weights[i - 1] : NULL;
}

/* Where a weight that lies so puts what shows it. */
static bool follows(cut_search *c, const mrt_value *v, int64_t outer,
                    const mrt_placement *want) {
  const mrt_node *chain[MAX_CHAIN];
  int n = 0;
  mrt_placement at = mrt_in_pieces(outer), in, out[MRT_MAX_OUT];
  for (; v->node; v = v->node->in[0]) {
    if (n == MAX_CHAIN || v->node->nin != 1) return false;
    chain[n++] = v->node;
  }
  while (n-- > 0) {
    mrt_lane lane = { &in, out, 0, 0, NULL };
    if (!mrt_lane_from(chain[n], 0, &at, c->p.size, &c->p.scratch, &lane))
      return false;
    at = out[0];
  }
  return mrt_same_placement(&at, want);
}

/* Cut a weight so that `v`, which shows it, lies as wanted, if it can be. */
static void cut_to_fit(cut_search *c, const mrt_value *v,
                       const mrt_placement *want) {
  settled *w = weight_of(c, v);
  if (!w || want->kind != MRT_SHARD) return;
  const mrt_type *t = &w->leaf->type;
  for (int d = 0; d < t->rank; d++)
    for (int64_t runs = 1; runs <= MAX_RUNS; runs++) {
      if (t->dims[d] % (runs * c->p.size)) continue;
      int64_t outer = mrt_extent(t, 0, d) * runs;
      if (!follows(c, v, outer, want)) continue;
      w->outer = outer, w->done = true;
      mrt_located_of(&c->p, w->leaf)->at = mrt_in_pieces(outer);
      mrt_located_of(&c->p, v)->at = *want;
      return;
    }
}

/* ---- walking ------------------------------------------------------------- */

/* Note what the lane moves, so that it is moved once. */
static void note_moves(cut_search *c, const mrt_node *n, const mrt_lane *lane) {
  for (int i = 0; i < n->nin; i++) {
    mrt_located *v = mrt_located_of(&c->p, n->in[i]);
    const mrt_placement *want = lane ? &lane->in[i] : &replicated;
    if (mrt_same_placement(&v->at, want)) continue;
    if (lane) cut_to_fit(c, n->in[i], want);
    if (mrt_same_placement(&v->at, want)) continue;
    if (want->kind == MRT_REPLICATE || v->at.kind == MRT_SHARD)
      v->gathered = true;
    if (want->kind != MRT_REPLICATE) v->again = *want, v->repeated = true;
  }
}

static mrt_status new_lane(cut_search *c, const mrt_node *n, mrt_lane *lane) {
  mrt_arena_clear(&c->p.scratch);
  lane->in = MRT_NEW(&c->p.scratch, mrt_placement, n->nin);
  lane->out = MRT_NEW(&c->p.scratch, mrt_placement, n->nout);
  lane->block = 0, lane->form = NULL;
  return lane->in && lane->out ? MRT_OK : mrt_nomem(&c->p.g->ctx->error);
}

/* The input that is a weight not settled, of a product or of a lookup in what
 * nothing else reads; -1: there is none. */
static int unsettled(cut_search *c, const mrt_node *n) {
  bool lookup = mrt_partition_has_form(n);
  for (int i = 0; (n->op->product || lookup) && i < n->nin; i++) {
    const settled *w = weight_of(c, n->in[i]);
    if (w && w->leaf->type.rank > 1 && (!lookup || w->leaf->uses == 1))
      return i;
  }
  return -1;
}

static mrt_status settle(cut_search *c, const mrt_node *n, double *bytes) {
  mrt_lane lane;
  bool failed;
  MRT_TRY(new_lane(c, n, &lane));
  bool divided = mrt_partition_lane(&c->p, n, &lane, bytes, &failed);
  if (failed) return mrt_nomem(&c->p.g->ctx->error);
  note_moves(c, n, divided ? &lane : NULL);
  mrt_partition_place(&c->p, n, divided ? &lane : NULL);
  return MRT_OK;
}

/* Must the weight of this product be chosen, for none fits what it reads? */
static mrt_status begins(cut_search *c, const mrt_node *n, int *weight) {
  mrt_lane lane;
  bool failed;
  double bytes;
  *weight = unsettled(c, n);
  if (*weight < 0) return MRT_OK;
  MRT_TRY(new_lane(c, n, &lane));
  bool divided = mrt_partition_lane(&c->p, n, &lane, &bytes, &failed);
  if (failed) return mrt_nomem(&c->p.g->ctx->error);
  if (!divided || lane.in[*weight].kind != MRT_SHARD) return MRT_OK;
  for (int i = 0; i < n->nin; i++)
    if (mrt_partition_bytes(&c->p, n->in[i], &lane.in[i]) > 0) return MRT_OK;
  *weight = -1;
  return MRT_OK;
}

/* ---- trying -------------------------------------------------------------- */

typedef struct cut_way {
  int64_t outer; /* of what the product reads; 0: there is none */
  double bytes;
} cut_way;

static void keep(cut_search *c) {
  memcpy(c->kept, c->p.values, (size_t)c->p.count * sizeof *c->kept);
  memcpy(c->kept_weights, c->weights, (size_t)c->count * sizeof *c->weights);
}
static void restore(cut_search *c) {
  memcpy(c->p.values, c->kept, (size_t)c->p.count * sizeof *c->kept);
  memcpy(c->weights, c->kept_weights, (size_t)c->count * sizeof *c->weights);
}

/* Compute a product with its weight in pieces, and note what that moves; *done
 * false: it cannot be, and what has been noted is worth nothing. */
static mrt_status begin(cut_search *c, const mrt_node *n, int weight,
                        int64_t outer, double *bytes, bool *done) {
  mrt_lane lane;
  mrt_placement at = mrt_in_pieces(outer);
  mrt_arena *a = &c->p.scratch;
  MRT_TRY(new_lane(c, n, &lane));
  void *options = mrt_arena_alloc(a, 1, n->op->options_size);
  mrt_type *types = MRT_NEW(a, mrt_type, MRT_MAX_OUT);
  if (!options || !types) return mrt_nomem(&c->p.g->ctx->error);
  mrt_located *w = mrt_located_of(&c->p, n->in[weight]);
  *done = mrt_lane_from(n, weight, &at, c->p.size, a, &lane) &&
          mrt_lane_local(n, &lane, c->p.size, a, options, types);
  if (!*done) {
    w->at = at;
    *done = mrt_partition_form_lane(&c->p, n, &lane);
    w->at = replicated;
  }
  if (!*done) return MRT_OK;
  *bytes = 0;
  for (int i = 0; i < n->nin; i++)
    *bytes += mrt_partition_bytes(&c->p, n->in[i], &lane.in[i]);
  *bytes += mrt_partition_sums(&c->p, n, &lane);
  cut_to_fit(c, n->in[weight], &at);
  *done = c->weights[w->weighs - 1].done;
  note_moves(c, n, &lane);
  mrt_partition_place(&c->p, n, &lane);
  return MRT_OK;
}

/* What moves up to the next product that begins. */
static mrt_status look_ahead(cut_search *c, int at, double *bytes) {
  const mrt_graph *g = c->p.g;
  for (int i = at; i < g->node_count && i < at + AHEAD; i++) {
    int weight;
    double more;
    MRT_TRY(begins(c, g->nodes[i], &weight));
    if (weight < 0) {
      MRT_TRY(settle(c, g->nodes[i], &more));
      *bytes += more;
      continue;
    }
    for (int k = 0; k < g->nodes[i]->nin; k++)
      *bytes += mrt_partition_bytes(&c->p, g->nodes[i]->in[k], &replicated);
    return MRT_OK;
  }
  return MRT_OK;
}

static mrt_status try_way(cut_search *c, int at, int weight, int64_t outer,
                          cut_way *best) {
  bool done;
  double bytes;
  keep(c);
  mrt_status s = begin(c, c->p.g->nodes[at], weight, outer, &bytes, &done);
  if (!s && done) s = look_ahead(c, at + 1, &bytes);
  restore(c);
  if (s || !done) return s;
  if (!best->outer || bytes < best->bytes) *best = (cut_way){ outer, bytes };
  return MRT_OK;
}

/* A result much larger than what it is computed from, that would only be put
 * together again: better computed whole. */
static bool is_worth(const mrt_node *n, const cut_way *w) {
  double y = (double)mrt_type_bytes(&n->out[0]->type),
         x = (double)mrt_type_bytes(&n->in[0]->type);
  return w->outer && !(y > 4 * x && w->bytes >= y / 2);
}

static mrt_status choose(cut_search *c, int at, int weight) {
  const mrt_node *n = c->p.g->nodes[at];
  const mrt_type *t = &n->in[weight]->type;
  cut_way best = { 0 };
  for (int d = 0; d < t->rank; d++)
    for (int64_t runs = 1; runs <= MAX_RUNS; runs++)
      if (t->dims[d] && t->dims[d] % (runs * c->p.size) == 0)
        MRT_TRY(try_way(c, at, weight, mrt_extent(t, 0, d) * runs, &best));
  double bytes;
  bool done = false;
  if (is_worth(n, &best))
    MRT_TRY(begin(c, n, weight, best.outer, &bytes, &done));
  if (done) return MRT_OK;
  weight_of(c, n->in[weight])->done = true; /* every rank has all of it */
  return settle(c, n, &bytes);
}

static mrt_status walk(cut_search *c) {
  const mrt_graph *g = c->p.g;
  for (int i = 0; i < g->node_count; i++) {
    int weight;
    double bytes;
    MRT_TRY(begins(c, g->nodes[i], &weight));
    MRT_TRY(weight < 0 ? settle(c, g->nodes[i], &bytes) : choose(c, i, weight));
  }
  return MRT_OK;
}

static mrt_status prepare(cut_search *c, mrt_tensor *const *weights) {
  mrt_graph *g = c->p.g;
  mrt_arena *a = &g->arena;
  c->p.count = g->value_count;
  c->p.values = MRT_NEW(a, mrt_located, c->p.count);
  c->kept = MRT_NEW(a, mrt_located, c->p.count);
  c->weights = MRT_NEW(a, settled, c->count);
  c->kept_weights = MRT_NEW(a, settled, c->count);
  if (!c->p.values || !c->kept || !c->weights || !c->kept_weights)
    return mrt_nomem(&g->ctx->error);
  for (int i = 0; i < g->value_count; i++) {
    mrt_value *v = g->values[i];
    mrt_located *own = &c->p.values[i];
    own->weight = v->leaf == MRT_LEAF_VARIABLE;
    for (int k = 0; own->weight && k < c->count; k++)
      if (v->tensor == weights[k]) c->weights[k].leaf = v, own->weighs = k + 1;
  }
  return MRT_OK;
}

MRT_API mrt_status mrt_weights_to_cut(mrt_context *ctx, mrt_tensor *loss,
                                      mrt_tensor *const *weights, int count,
                                      int ranks, bool sequence,
                                      int64_t *outer) {
  mrt_graph g = { 0 };
  if (!ctx->trace)
    return mrt_fail(&ctx->error, MRT_ESTATE, "cut: there is no trace");
  if (ranks < 1)
    return mrt_fail(&ctx->error, MRT_EVALUE, "cut: %d ranks", ranks);
  loss = mrt_tensor_current(loss);
  mrt_status s = mrt_graph_capture(&g, ctx, &loss, 1, NULL, 0, 0);
  cut_search c = { .p = { .g = &g, .size = ranks, .sequence = sequence },
                   .count = count };
  mrt_arena_init(&c.p.scratch, ctx->allocator);
  if (!s) mrt_graph_count_uses(&g), s = prepare(&c, weights);
  if (!s) s = walk(&c);
  for (int i = 0; i < count && !s; i++)
    outer[i] = c.weights[i].done ? c.weights[i].outer : 0;
  mrt_arena_free(&c.p.scratch);
  mrt_graph_free(&g);
  return s;
}
