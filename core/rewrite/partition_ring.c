/* partition_ring.c -- attention of a sequence in pieces: keys and values travel
 *
 * A rank has the queries and the block of keys and values of its own positions.
 * At step j it has the block of the rank j before it, from its neighbour; what
 * its queries make of the blocks is merged by their lse.
 *
 *     attention        o_j, lse_j = attention(q, k_j, v_j) at the offset of the
 *                      block; m = max(lse, lse_j), a = exp(lse - m),
 *                      b = exp(lse_j - m): lse = m + log(a + b),
 *                      o = (a o + b o_j) / (a + b)
 *     attention_grad   of all of o and lse: dq adds up over the blocks; dk and dv
 *                      of a block travel behind it, get each rank's share, and
 *                      come home, where its own rank adds the last
 *
 *   taken   where keys and values lie in pieces of the sequence as the queries
 *           do; else, or switched off (no_ring), keys are whole on each rank
 *           (partition_sequence.c)
 *   alike   All ranks have the same nodes, with other offsets: of a block that
 *           causality or the window hides from a rank the kernel computes
 *           nothing.  A step at which none would see its block is left out, and
 *           blocks go two ranks on.
 *   holds   own keys and values, and one or two blocks; gathered: all p
 *   wire    (p - 1) / p of keys and values forward, and of these and their
 *           gradients backward; gathered, where they are kept for the backward
 *           pass, of each once
 *   from    Liu, Zaharia, Abbeel, Ring Attention with Blockwise Transformers for
 *           Near-Infinite Context, 2023 (arXiv:2310.01889); merging: Milakov &
 *           Gimelshein, arXiv:1805.02867
 *
 * SPDX-License-Identifier: MIT */
#include "op/attention.h"
#include "op/collective.h"
#include "rewrite/partition_build.h"
#include "rewrite/partition_sequence.h"

#include <float.h>

/* What is asked of the blocks, for local types of q and k. */
typedef struct key_ring {
  building b;
  const mrt_attention_options *o;
  int64_t queries, keys; /* of a rank */
  int64_t at;            /* position of query 0 of rank 0 */
  mrt_dtype wide;        /* of sums over blocks */
} key_ring;

/* ---- lanes --------------------------------------------------------------- */

static bool is_ring(const mrt_partition *p, const mrt_node *n, int after) {
  if (!p->inputs || p->no_ring || !mrt_attention_divides(n, after))
    return false;
  for (int i = 0; i < 3; i++)
    if (!mrt_is_cut_along(p, n->in[i], 1)) return false;
  return true;
}

/* Bytes of all ranks' pieces of keys and values. */
static double travelling(const mrt_node *n) {
  return (double)mrt_type_bytes(&n->in[1]->type) +
         (double)mrt_type_bytes(&n->in[2]->type);
}

static bool attention_lane(const mrt_partition *p, const mrt_node *n,
                           mrt_lane *lane) {
  double share = ((double)p->size - 1) / (double)p->size;
  if (!is_ring(p, n, MRT_ATTENTION_AFTER)) return false;
  mrt_attention_lane(n, MRT_ATTENTION_AFTER, lane);
  for (int i = 1; i < 3; i++)
    lane->in[i] = mrt_in_pieces(n->in[i]->type.dims[0]);
  lane->moves = share * travelling(n);
  return true;
}

static bool attention_grad_lane(const mrt_partition *p, const mrt_node *n,
                                mrt_lane *lane) {
  double share = ((double)p->size - 1) / (double)p->size;
  if (!is_ring(p, n, MRT_ATTENTION_GRAD_AFTER)) return false;
  mrt_attention_lane(n, MRT_ATTENTION_GRAD_AFTER, lane);
  for (int i = 1; i < 3; i++)
    lane->in[i] = lane->out[i] = mrt_in_pieces(n->in[i]->type.dims[0]);
  lane->moves = 2 * share * travelling(n);
  return true;
}

/* ---- which blocks -------------------------------------------------------- */

static key_ring ring_of(mrt_partition *p, const mrt_node *n,
                        mrt_value *const *in) {
  key_ring r = { .b = { .p = p, .origin = n->origin }, .o = n->options };
  r.queries = in[0]->type.dims[1], r.keys = in[1]->type.dims[1];
  bool end = r.o->offset == MRT_ATTENTION_AT_END;
  r.at = end ? (r.keys - r.queries) * p->size : r.o->offset;
  return r;
}

/* Where query 0 of a rank stands among the keys of a block. */
static int64_t offset_of(const key_ring *r, int64_t rank, int64_t block) {
  return r->at + rank * r->queries - block * r->keys;
}

static bool sees(const key_ring *r, int64_t rank, int64_t block) {
  int64_t first = offset_of(r, rank, block), last = first + r->queries - 1;
  return first - mrt_attention_left(r->o) < r->keys &&
         last + mrt_attention_right(r->o) >= 0;
}

static int64_t block_of(const mrt_partition *p, int64_t rank, int64_t step) {
  return (rank - step + p->size) % p->size;
}

/* The first step from `step` on at which a rank sees its block; the number of
 * ranks: there is none.  The first of all is always done. */
static int64_t next_step(const key_ring *r, int64_t step) {
  const mrt_partition *p = r->b.p;
  for (; step < p->size; step++)
    for (int64_t rank = 0; rank < p->size; rank++)
      if (sees(r, rank, block_of(p, rank, step))) return step;
  return step;
}

static int64_t offset_at(const key_ring *r, int64_t rank, int64_t step) {
  return offset_of(r, rank, block_of(r->b.p, rank, step));
}

/* Keys of a block that queries at this offset see, as far as they span. */
static int64_t span(const key_ring *r, int64_t offset) {
  int64_t first = offset - mrt_attention_left(r->o),
          last = offset + r->queries - 1 + mrt_attention_right(r->o);
  return (last < r->keys ? last : r->keys - 1) - (first > 0 ? first : 0);
}

/* All wait for the rank that sees most: its costs are everyone's. */
static mrt_attention_options options_at(const key_ring *r, int64_t step) {
  mrt_attention_options o = *r->o;
  int64_t most = offset_at(r, 0, step);
  for (int64_t rank = 1; rank < r->b.p->size; rank++) {
    int64_t at = offset_at(r, rank, step);
    if (span(r, at) > span(r, most)) most = at;
  }
  o.offset = mrt_attention_near(offset_at(r, r->b.p->rank, step));
  o.further = mrt_attention_near(most) - o.offset;
  /* the same in the word that some kernels look for */
  if (o.offset == r->keys - r->queries) o.offset = MRT_ATTENTION_AT_END;
  return o;
}

/* ---- building ------------------------------------------------------------ */

static mrt_value *shift(key_ring *r, mrt_value *x, int64_t by) {
  mrt_collective_options o = { .rank = r->b.p->rank,
                               .size = r->b.p->size,
                               .comm = r->b.p->comm,
                               .peer = by,
                               .lazy = true };
  return PUT(&r->b, shift, &o, x);
}

/* The columns of a mask that are about the block of this step. */
static mrt_value *mask_at(key_ring *r, mrt_value *mask, int64_t step) {
  int64_t first = block_of(r->b.p, r->b.p->rank, step) * r->keys;
  mrt_slice_options o = { 3, first, first + r->keys - 1, 1 };
  return mask->type.dims[3] == 1 ? mask : PUT(&r->b, slice, &o, mask);
}

/* The operator over the block of this step: in[1], in[2]; mask at `after`. */
static void over_block(key_ring *r, const mrt_node *n, int after, int64_t step,
                       mrt_value *const *in, mrt_value **out) {
  mrt_attention_options o = options_at(r, step);
  mrt_value *own[MRT_ATTENTION_GRAD_AFTER + 1];
  for (int i = 0; i < n->nin; i++) own[i] = in[i];
  if (n->nin > after) own[after] = mask_at(r, in[after], step);
  for (int i = 0; i < n->nin; i++)
    if (!own[i]) return;
  if (!r->b.status)
    r->b.status = mrt_partition_put_all(r->b.p, n->op->number, &o, n->nin, own,
                                        n->origin, out, n->nout);
}

/* w [B, H, T] for each element of o [B, T, H, D]. */
static mrt_value *spread(building *b, mrt_value *w, const mrt_type *o) {
  mrt_permute_options turn = { .dims = { .count = 3, .at = { 0, 2, 1 } } };
  mrt_type one = *o, all = *o;
  if (!w) return NULL;
  one.dims[3] = 1, all.dtype = one.dtype = w->type.dtype;
  w = shaped(b, MRT_OP_reshape, PUT(b, permute, &turn, w), &one);
  return shaped(b, MRT_OP_expand, w, &all);
}

/* o and lse of the keys of both.  Where neither has seen any, both lse are -inf:
 * the maximum then is the least number, a + b is 0, and so is o. */
static void merge(building *b, mrt_value **o, mrt_value **lse, mrt_value *o2,
                  mrt_value *lse2) {
  if (!*o || !*lse || !o2 || !lse2) return;
  const mrt_type *t = &lse2->type;
  double least = t->dtype == MRT_f64 ? -DBL_MAX : -FLT_MAX;
  mrt_value *m = PUT(b, maximum, NULL, PUT(b, maximum, NULL, *lse, lse2),
                     constant(b, least, t));
  mrt_value *one = PUT(b, exp, NULL, PUT(b, sub, NULL, *lse, m)),
            *two = PUT(b, exp, NULL, PUT(b, sub, NULL, lse2, m));
  mrt_value *sum = PUT(b, add, NULL, one, two);
  mrt_value *by = PUT(b, maximum, NULL, sum, constant(b, 1, t));
  one = spread(b, PUT(b, div, NULL, one, by), &o2->type);
  two = spread(b, PUT(b, div, NULL, two, by), &o2->type);
  *o = PUT(b, add, NULL, PUT(b, mul, NULL, *o, one),
           PUT(b, mul, NULL, cast(b, o2, t->dtype), two));
  *lse = PUT(b, add, NULL, m, PUT(b, log, NULL, sum));
}

static mrt_status attention(mrt_partition *p, const mrt_node *n,
                            mrt_value *const *in, mrt_value **out) {
  key_ring r = ring_of(p, n, in);
  mrt_value *own[] = { in[0], in[1], in[2], n->nin > 3 ? in[3] : NULL };
  mrt_value *got[2] = { NULL, NULL }, *o, *lse;
  over_block(&r, n, MRT_ATTENTION_AFTER, 0, own, got);
  if (r.b.status) return r.b.status;
  mrt_dtype dtype = got[0]->type.dtype;
  o = got[0], lse = got[1];
  for (int64_t at = 0, step; (step = next_step(&r, at + 1)) < p->size;
       at = step) {
    if (at == 0) o = cast(&r.b, o, lse->type.dtype);
    own[1] = shift(&r, own[1], step - at);
    own[2] = shift(&r, own[2], step - at);
    over_block(&r, n, MRT_ATTENTION_AFTER, step, own, got);
    if (r.b.status) return r.b.status;
    merge(&r.b, &o, &lse, got[0], got[1]);
  }
  out[0] = cast(&r.b, o, dtype), out[1] = lse;
  return r.b.status;
}

/* What is added to a sum; NULL: to none yet. */
static mrt_value *plus(key_ring *r, mrt_value *sum, mrt_value *more) {
  more = cast(&r->b, more, r->wide);
  return sum ? PUT(&r->b, add, NULL, sum, more) : more;
}

/* Own keys come last: their gradients need not travel, and those that come home
 * meanwhile are added to them. */
static mrt_status attention_grad(mrt_partition *p, const mrt_node *n,
                                 mrt_value *const *in, mrt_value **out) {
  key_ring r = ring_of(p, n, in);
  mrt_value *own[MRT_ATTENTION_GRAD_AFTER + 1], *got[3], *sums[3] = { NULL };
  int64_t at = 0, step;
  r.wide = in[4]->type.dtype;
  for (int i = 0; i < n->nin; i++) own[i] = in[i];
  for (; (step = next_step(&r, at + 1)) < p->size; at = step) {
    for (int i = 1; i < 3; i++) own[i] = shift(&r, own[i], step - at);
    for (int k = 1; k < 3 && sums[k]; k++)
      sums[k] = shift(&r, sums[k], step - at);
    over_block(&r, n, MRT_ATTENTION_GRAD_AFTER, step, own, got);
    if (r.b.status) return r.b.status;
    for (int k = 0; k < 3; k++) sums[k] = plus(&r, sums[k], got[k]);
    if (r.b.status) return r.b.status;
  }
  for (int k = 1; k < 3 && at; k++) sums[k] = shift(&r, sums[k], p->size - at);
  over_block(&r, n, MRT_ATTENTION_GRAD_AFTER, 0, in, got);
  for (int k = 0; k < 3 && !r.b.status; k++)
    out[k] = at ? cast(&r.b, plus(&r, sums[k], got[k]), n->in[k]->type.dtype)
                : got[k];
  return r.b.status;
}

const mrt_form mrt_ring_forms[] = {
  { MRT_OP_attention, attention_lane, attention },
  { MRT_OP_attention_grad, attention_grad_lane, attention_grad },
  { -1, NULL, NULL },
};
