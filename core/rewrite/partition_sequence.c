/* partition_sequence.c -- operators over a sequence of which ranks have pieces
 *
 * A rank has the positions first .. first + own - 1.  Queries are its own, keys
 * and values those of all ranks, where they are no ring's (partition_ring.c):
 * what lies in pieces is gathered, and gradients of keys and values are sums
 * over the ranks.  Positions are told by an offset, a mask by its rows.
 *
 *     attention        o, lse of own queries
 *     attention_grad   dq of own queries; dk, dv: sums over the ranks
 *     rope             own positions
 *
 * Gathering keys and values: Llama Team, The Llama 3 Herd of Models, 2024
 * (arXiv:2407.21783), section 3.3.2, of context parallelism.
 *
 * SPDX-License-Identifier: MIT */
#include "rewrite/partition_sequence.h"
#include "op/attention.h"
#include "op/rope.h"

#include <string.h>

static const mrt_placement whole = { .kind = MRT_REPLICATE },
                           sums = { .kind = MRT_PARTIAL };

bool mrt_is_cut_along(const mrt_partition *p, const mrt_value *v, int dim) {
  const mrt_placement *at = &mrt_located_of(p, v)->at;
  return at->kind == MRT_SHARD && at->outer == mrt_extent(&v->type, 0, dim) &&
         v->type.dims[dim] % p->size == 0;
}

static mrt_placement along(const mrt_value *v, int dim) {
  return mrt_in_pieces(mrt_extent(&v->type, 0, dim));
}

/* Append the node over its pieces with these options. */
static mrt_status again(mrt_partition *p, const mrt_node *n,
                        const void *options, mrt_value *const *in,
                        mrt_value **out) {
  return mrt_partition_put_all(p, n->op->number, options, n->nin, in, n->origin,
                               out, n->nout);
}

/* ---- attention ----------------------------------------------------------- */

bool mrt_attention_divides(const mrt_node *n, int after) {
  const mrt_attention_options *o = n->options;
  bool plain = o->has == 0 || o->has == MRT_ATTENTION_MASK;
  return plain && !o->mask_grad && n->nin <= after + 1;
}

/* o and its gradient are [B, T, H, D], lse is [B, H, T], a mask [B, H, T, S]. */
void mrt_attention_lane(const mrt_node *n, int after, mrt_lane *lane) {
  for (int i = 0; i < after; i++)
    lane->in[i] = i == 1 || i == 2 ? whole : along(n->in[i], i == 4 ? 2 : 1);
  if (n->nin > after)
    lane->in[after] =
        n->in[after]->type.dims[2] == 1 ? whole : along(n->in[after], 2);
  lane->out[0] = along(n->out[0], 1);
  for (int k = 1; k < n->nout; k++)
    lane->out[k] = after == MRT_ATTENTION_AFTER ? along(n->out[k], 2) : sums;
}

static bool attention_lane(const mrt_partition *p, const mrt_node *n,
                           mrt_lane *lane) {
  bool fits = mrt_attention_divides(n, MRT_ATTENTION_AFTER) &&
              mrt_is_cut_along(p, n->in[0], 1);
  if (fits) mrt_attention_lane(n, MRT_ATTENTION_AFTER, lane);
  return fits;
}

static bool attention_grad_lane(const mrt_partition *p, const mrt_node *n,
                                mrt_lane *lane) {
  bool fits = mrt_attention_divides(n, MRT_ATTENTION_GRAD_AFTER) &&
              mrt_is_cut_along(p, n->in[0], 1);
  if (fits) mrt_attention_lane(n, MRT_ATTENTION_GRAD_AFTER, lane);
  return fits;
}

/* Query 0 of this rank stands as far behind the first as it has before it. */
static mrt_status attention(mrt_partition *p, const mrt_node *n,
                            mrt_value *const *in, mrt_value **out) {
  mrt_attention_options o = *(const mrt_attention_options *)n->options;
  int64_t own = in[0]->type.dims[1], keys = in[1]->type.dims[1];
  if (o.offset == MRT_ATTENTION_AT_END) o.offset = keys - own * p->size;
  o.offset += own * p->rank;
  o.further = own * (p->size - 1 - p->rank); /* that of the last rank */
  return again(p, n, &o, in, out);
}

/* ---- rope ---------------------------------------------------------------- */

static bool rope_lane(const mrt_partition *p, const mrt_node *n,
                      mrt_lane *lane) {
  int time = n->in[0]->type.rank - 3;
  if (time < 0 || !mrt_is_cut_along(p, n->in[0], time)) return false;
  lane->in[0] = lane->out[0] = along(n->in[0], time);
  bool plain =
      n->nin == 1 || (n->nin == 2 && mrt_is_float(n->in[1]->type.dtype));
  if (n->nin == 2) lane->in[1] = whole;
  return plain;
}

static mrt_status rope(mrt_partition *p, const mrt_node *n,
                       mrt_value *const *in, mrt_value **out) {
  mrt_rope_options o = *(const mrt_rope_options *)n->options;
  o.offset += in[0]->type.dims[in[0]->type.rank - 3] * p->rank;
  return again(p, n, &o, in, out);
}

const mrt_form mrt_sequence_forms[] = {
  { MRT_OP_attention, attention_lane, attention },
  { MRT_OP_attention_grad, attention_grad_lane, attention },
  { MRT_OP_rope, rope_lane, rope },
  { -1, NULL, NULL },
};
