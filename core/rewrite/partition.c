/* partition.c -- which values lie in pieces on the ranks that share weights?
 *
 *   needs   a captured graph that computes the same on all ranks of a group;
 *           variables of it may be cut (mrt_variable_cut)
 *   gives   the part of it that this rank computes, with the collectives between
 *   method  One walk in order.  A node is computed as its inputs lie, in the way
 *           that moves the fewest bytes (partition_lane.c says which ways there
 *           are); what must lie otherwise is moved before it (partition_move.c).
 *   from    Xu et al., GSPMD, 2021 (arXiv:2105.04663): placements and their
 *           propagation; Shoeybi et al., Megatron-LM, 2019 (arXiv:1909.08053):
 *           weights cut by columns, then rows; Korthikanti et al. 2022
 *           (arXiv:2205.05198): sums taken in pieces of the sequence
 *   bits    sums over the ranks are in another order than on one; all else is
 *           the same
 *
 * SPDX-License-Identifier: MIT */
#include "op/collective.h"
#include "op/views.h"
#include "rewrite/partition_walk.h"

#include <string.h>

/* Moving a byte takes at least as long as so many flops, on any device: what
 * computing a node whole costs, in bytes. */
enum { FLOPS = 10 };

static const mrt_placement replicated = { .kind = MRT_REPLICATE };

/* ---- forms --------------------------------------------------------------- */

static const mrt_form *form_of(const mrt_form *list, int op) {
  for (; list->op >= 0; list++)
    if (list->op == op) return list;
  return NULL;
}

static const mrt_form *const forms[] = { mrt_table_forms, mrt_ring_forms,
                                         mrt_sequence_forms };

bool mrt_partition_has_form(const mrt_node *n) {
  for (int i = 0; i < MRT_COUNT(forms); i++)
    if (form_of(forms[i], n->op->number)) return true;
  return false;
}

bool mrt_partition_form_lane(const mrt_partition *p, const mrt_node *n,
                             mrt_lane *lane) {
  lane->block = 0, lane->moves = 0;
  for (int i = 0; i < MRT_COUNT(forms); i++) {
    lane->form = form_of(forms[i], n->op->number);
    if (lane->form && lane->form->lane(p, n, lane)) return true;
  }
  return lane->form = NULL, false;
}

/* ---- the lane of a node -------------------------------------------------- */

typedef struct lane_choice {
  mrt_partition *p;
  const mrt_node *n;
  mrt_lane *best, trial;
  double bytes; /* of the best so far; below 0: there is none */
  void *options;
  mrt_type *types;
} lane_choice;

double mrt_partition_sums(const mrt_partition *p, const mrt_node *n,
                          const mrt_lane *lane) {
  double share = ((double)p->size - 1) / (double)p->size, sum = 0;
  if (n->nin == 1 && lane->in[0].kind == MRT_PARTIAL && !mrt_node_is_view(n))
    return 0; /* zeros around it (pad) meet others' numbers later */
  for (int k = 0; k < n->nout; k++)
    if (lane->out[k].kind == MRT_PARTIAL)
      sum += share * (double)mrt_type_bytes(&n->out[k]->type);
  for (int i = 0; i < n->nin; i++) /* one passed on counts once */
    if (lane->in[i].kind == MRT_PARTIAL &&
        mrt_located_of(p, n->in[i])->at.kind == MRT_PARTIAL)
      sum -= share * (double)mrt_type_bytes(&n->in[i]->type);
  return sum > 0 ? sum : 0;
}

static double lane_bytes(const lane_choice *c, const mrt_lane *lane) {
  double sum = 0;
  for (int i = 0; i < c->n->nin; i++) {
    const mrt_value *v = c->n->in[i];
    bool again = false; /* moved for an input before */
    for (int k = 0; k < i; k++)
      again |=
          c->n->in[k] == v && mrt_same_placement(&lane->in[k], &lane->in[i]);
    if (!again) sum += mrt_partition_bytes(c->p, v, &lane->in[i]);
  }
  return sum + lane->moves + mrt_partition_sums(c->p, c->n, lane);
}

static void copy_lane(const mrt_node *n, mrt_lane *to, const mrt_lane *from) {
  memcpy(to->in, from->in, (size_t)n->nin * sizeof *to->in);
  memcpy(to->out, from->out, (size_t)n->nout * sizeof *to->out);
  to->block = from->block, to->form = from->form, to->moves = from->moves;
}

/* Pieces are no sums. */
static bool can_move(const lane_choice *c) {
  for (int i = 0; i < c->n->nin; i++)
    if (c->trial.in[i].kind == MRT_PARTIAL &&
        mrt_located_of(c->p, c->n->in[i])->at.kind == MRT_SHARD)
      return false;
  return true;
}

static void offer(lane_choice *c) {
  if (!can_move(c)) return;
  double bytes = lane_bytes(c, &c->trial);
  if (c->bytes >= 0 && bytes >= c->bytes) return;
  if (!c->trial.form && !mrt_lane_local(c->n, &c->trial, c->p->size,
                                        &c->p->scratch, c->options, c->types))
    return;
  c->bytes = bytes;
  copy_lane(c->n, c->best, &c->trial);
}

static bool lane_from(lane_choice *c, int input, const mrt_placement *at) {
  c->trial.form = NULL, c->trial.moves = 0;
  return mrt_lane_from(c->n, input, at, c->p->size, &c->p->scratch, &c->trial);
}

/* A sum taken in pieces of its first leading dimension that divides. */
static void offer_sequence(lane_choice *c, int input) {
  const mrt_type *t = &c->n->in[input]->type;
  for (int d = 0; d + 1 < t->rank; d++) {
    if (t->dims[d] == 0 || t->dims[d] % c->p->size) continue;
    mrt_placement at = mrt_in_pieces(mrt_extent(t, 0, d));
    if (lane_from(c, input, &at)) offer(c);
    return;
  }
}

/* A collective of these ranks themselves. */
static bool meets_group(const mrt_partition *p, const mrt_node *n) {
  return (n->op->traits & MRT_COLLECTIVE) &&
         ((const mrt_meeting *)n->options)->comm == p->comm;
}

static void offer_lanes(lane_choice *c, bool *partial) {
  mrt_partition *p = c->p;
  const mrt_node *n = c->n;
  if (meets_group(p, n)) return;
  for (int i = 0; i < n->nin; i++) {
    const mrt_located *v = mrt_located_of(p, n->in[i]);
    partial[i] = v->at.kind == MRT_PARTIAL;
    if (v->at.kind == MRT_SHARD && lane_from(c, i, &v->at)) offer(c);
    if (v->repeated && v->again.kind == MRT_SHARD && lane_from(c, i, &v->again))
      offer(c);
  }
  c->trial.form = NULL, c->trial.moves = 0;
  if (mrt_lane_of_sums(n, partial, &c->trial)) offer(c);
  for (int i = 0; p->sequence && i < n->nin; i++)
    if (partial[i]) offer_sequence(c, i);
  if (mrt_partition_form_lane(p, n, &c->trial)) offer(c);
}

/* Does it read what is each rank's own? */
static bool is_apart(const mrt_partition *p, const mrt_node *n) {
  for (int i = 0; i < n->nin; i++)
    if (mrt_located_of(p, n->in[i])->apart) return true;
  return false;
}

static bool may_gain(const mrt_partition *p, const mrt_node *n) {
  if (is_apart(p, n)) return false;
  if (mrt_partition_has_form(n)) return true;
  for (int i = 0; i < n->nin; i++)
    if (mrt_located_of(p, n->in[i])->at.kind != MRT_REPLICATE) return true;
  return false;
}

bool mrt_partition_lane(mrt_partition *p, const mrt_node *n, mrt_lane *lane,
                        double *bytes, bool *failed) {
  lane_choice c = { .p = p, .n = n, .best = lane, .bytes = -1 };
  *bytes = 0, *failed = false;
  if (!may_gain(p, n)) return false;
  mrt_arena *a = &p->scratch;
  c.trial.in = MRT_NEW(a, mrt_placement, n->nin);
  c.trial.out = MRT_NEW(a, mrt_placement, n->nout);
  c.options = mrt_arena_alloc(a, 1, n->op->options_size);
  c.types = MRT_NEW(a, mrt_type, MRT_MAX_OUT);
  bool *partial = MRT_NEW(a, bool, n->nin);
  if (!c.trial.in || !c.trial.out || !c.options || !c.types || !partial)
    return *failed = true, false;
  offer_lanes(&c, partial);
  for (int i = 0; i < n->nin; i++)
    *bytes += mrt_partition_bytes(p, n->in[i], &replicated);
  *bytes += mrt_node_flops(n) / FLOPS * (1 - 1 / (double)p->size);
  if (c.bytes < 0 || c.bytes > *bytes) return false;
  *bytes = c.bytes;
  return true;
}

/* Pieces, and what is computed of them, until the ranks meet. */
static bool stays_apart(const mrt_partition *p, const mrt_node *n) {
  int op = n->op->number;
  if (op == MRT_OP_own_piece)
    return ((const mrt_piece_options *)n->options)->comm == p->comm;
  bool alike = meets_group(p, n) && op != MRT_OP_reduce_scatter;
  return !alike && is_apart(p, n);
}

void mrt_partition_place(mrt_partition *p, const mrt_node *n,
                         const mrt_lane *lane) {
  bool passes = mrt_node_is_view(n) || n->op->number == MRT_OP_cast;
  bool apart = stays_apart(p, n);
  for (int k = 0; k < n->nout; k++) {
    mrt_located *v = mrt_located_of(p, n->out[k]);
    *v =
        (mrt_located){ .at = lane ? lane->out[k] : replicated, .apart = apart };
    if (!passes) continue;
    v->weight = mrt_located_of(p, n->in[0])->weight;
    v->weighs = mrt_located_of(p, n->in[0])->weighs;
  }
}

/* ---- the pass ------------------------------------------------------------ */

static mrt_status keep(mrt_partition *p, mrt_node *n) {
  mrt_partition_place(p, n, NULL); /* while it reads what the walk knows */
  for (int i = 0; i < n->nin; i++)
    MRT_TRY(mrt_partition_move(p, n->in[i], &replicated, &n->in[i]));
  for (int k = 0; k < n->nout; k++)
    mrt_located_of(p, n->out[k])->local = n->out[k];
  return mrt_graph_append(p->g, n);
}

static int64_t piece_of(const mrt_placement *at) {
  return at->kind == MRT_SHARD ? at->outer : 0;
}

/* The form that stands for a node. */
static mrt_status build(mrt_partition *p, mrt_node *n, const mrt_lane *lane,
                        mrt_value *const *in) {
  mrt_value **out = MRT_NEW(&p->scratch, mrt_value *, n->nout);
  if (!out) return mrt_nomem(&p->g->ctx->error);
  MRT_TRY(lane->form->build(p, n, in, out));
  mrt_partition_place(p, n, lane);
  for (int k = 0; k < n->nout; k++) {
    out[k]->name = n->out[k]->name;
    out[k]->outer = piece_of(&lane->out[k]);
    mrt_located_of(p, n->out[k])->local = out[k];
  }
  return MRT_OK;
}

static mrt_status divide(mrt_partition *p, mrt_node *n, const mrt_lane *lane) {
  mrt_arena *a = &p->scratch;
  void *options = mrt_arena_alloc(a, 1, n->op->options_size);
  mrt_type *types = MRT_NEW(a, mrt_type, MRT_MAX_OUT);
  mrt_value **in = MRT_NEW(a, mrt_value *, n->nin);
  if (!options || !types || !in) return mrt_nomem(&p->g->ctx->error);
  for (int i = 0; i < n->nin; i++)
    MRT_TRY(mrt_partition_move(p, n->in[i], &lane->in[i], &in[i]));
  if (lane->form) return build(p, n, lane, in);
  if (!mrt_lane_local(n, lane, p->size, a, options, types))
    return mrt_nomem(&p->g->ctx->error); /* it has been tried: no memory now */
  mrt_node *own = mrt_graph_node(p->g, n->op, n->nin, in, options, n->nout,
                                 types, n->origin);
  if (!own) return mrt_nomem(&p->g->ctx->error);
  mrt_partition_place(p, n, lane);
  for (int k = 0; k < n->nout; k++) {
    own->out[k]->name = n->out[k]->name;
    own->out[k]->outer = piece_of(&lane->out[k]);
    mrt_located_of(p, n->out[k])->local = own->out[k];
  }
  return mrt_graph_append(p->g, own);
}

/* A value that is read as [outer, ranks, inner] and in such pieces: the rank has
 * its own already. */
static mrt_status own_piece(mrt_partition *p, mrt_node *n, bool *done) {
  *done = false;
  if (n->op->number != MRT_OP_own_piece) return MRT_OK;
  const mrt_piece_options *o = n->options;
  mrt_placement want = mrt_in_pieces(o->outer);
  mrt_value *piece;
  int64_t before;
  *done = mrt_located_of(p, n->in[0])->at.kind != MRT_REPLICATE &&
          o->comm == p->comm && o->rank == p->rank && o->size == p->size &&
          mrt_piece_dim(&n->in[0]->type, o->outer, p->size, &before) >= 0;
  if (!*done) return MRT_OK;
  MRT_TRY(mrt_partition_move(p, n->in[0], &want, &piece));
  MRT_TRY(mrt_partition_reshape(p, piece, n->out[0]->type, &piece));
  mrt_partition_place(p, n, NULL);
  mrt_located_of(p, n->out[0])->local = piece;
  return MRT_OK;
}

/* All of an input of which each rank has a piece: it lies in these. */
static bool of_pieces(mrt_partition *p, const mrt_node *n) {
  const mrt_value *piece = n->nin ? n->in[0] : NULL;
  if (n->op->number != MRT_OP_allgather || !meets_group(p, n) ||
      piece->leaf != MRT_LEAF_INPUT)
    return false;
  *mrt_located_of(p, n->out[0]) =
      (mrt_located){ .at = mrt_in_pieces(1), .local = n->in[0] };
  return true;
}

static mrt_status rewrite(mrt_partition *p, mrt_node *n) {
  mrt_arena_clear(&p->scratch);
  mrt_lane lane = { MRT_NEW(&p->scratch, mrt_placement, n->nin),
                    MRT_NEW(&p->scratch, mrt_placement, n->nout), 0, 0, NULL };
  if (!lane.in || !lane.out) return mrt_nomem(&p->g->ctx->error);
  bool failed, done;
  double bytes;
  MRT_TRY(own_piece(p, n, &done));
  if (done || of_pieces(p, n)) return MRT_OK;
  bool divided = mrt_partition_lane(p, n, &lane, &bytes, &failed);
  if (failed) return mrt_nomem(&p->g->ctx->error);
  return divided ? divide(p, n, &lane) : keep(p, n);
}

/* What ranks with rows of their own have in pieces is for experts.c. */
static const mrt_variable *cut_of(const mrt_value *v) {
  const mrt_variable *own =
      v->leaf == MRT_LEAF_VARIABLE ? v->tensor->variable : NULL;
  return own && own->bucket && own->outer && !own->own_rows ? own : NULL;
}

/* A variable that is a piece of one of the group's. */
static bool is_piece(const mrt_partition *p, const mrt_value *v) {
  if (v->leaf != MRT_LEAF_VARIABLE || !v->tensor->variable->shard_count)
    return false;
  const mrt_variable *of = v->tensor->variable->shards[0]->variable;
  return of->outer && of->comm == p->comm;
}

/* An input whose second dimension, the sequence, divides lies in pieces of it; all
 * of it is there, too. */
static mrt_status place_input(mrt_partition *p, mrt_value *v) {
  mrt_located *own = mrt_located_of(p, v);
  const mrt_type *t = &v->type;
  if (v->leaf != MRT_LEAF_INPUT || t->rank < 2 || !t->dims[0] || !t->dims[1] ||
      t->dims[1] % p->size)
    return MRT_OK;
  mrt_placement at = mrt_in_pieces(t->dims[0]);
  MRT_TRY(mrt_partition_move(p, v, &at, &own->local));
  own->at = at, own->gathered = true, own->whole = v;
  return MRT_OK;
}

static mrt_status place_leaf(mrt_partition *p, mrt_value *v) {
  const mrt_variable *cut = p->inputs ? NULL : cut_of(v);
  mrt_located *own = mrt_located_of(p, v);
  *own = (mrt_located){ .at = replicated,
                        .local = v,
                        .apart = is_piece(p, v),
                        .weight = v->leaf == MRT_LEAF_VARIABLE };
  if (p->inputs) return place_input(p, v);
  if (!cut) return MRT_OK;
  own->at = mrt_in_pieces(cut->outer);
  mrt_type type = mrt_piece_type(&v->type, &own->at, p->size);
  mrt_value *piece;
  MRT_TRY(mrt_graph_variable(p->g, cut->bucket, &piece));
  return mrt_partition_reshape(p, piece, type, &own->local);
}

static mrt_status walk(mrt_partition *p, mrt_node **nodes, int count) {
  mrt_graph *g = p->g;
  for (int i = 0; i < p->count; i++)
    if (!g->values[i]->node) MRT_TRY(place_leaf(p, g->values[i]));
  for (int i = 0; i < count; i++) MRT_TRY(rewrite(p, nodes[i]));
  for (int i = 0; i < g->output_count; i++)
    MRT_TRY(mrt_partition_move(p, g->outputs[i], &replicated, &g->outputs[i]));
  return MRT_OK;
}

/* The group of ranks whose pieces variables are; false: there is none. */
static bool find_group(mrt_partition *p) {
  for (int i = 0; i < p->g->value_count; i++) {
    const mrt_variable *cut = cut_of(p->g->values[i]);
    if (!cut) continue;
    p->comm = cut->comm;
    return true;
  }
  return false;
}

static mrt_status partition(mrt_partition *p) {
  mrt_graph *g = p->g;
  const mrt_communicator *c = mrt_communicator_find(g->ctx, p->comm);
  if (!c) return g->ctx->error.status;
  p->rank = c->rank, p->size = c->size;
  p->count = g->value_count;
  p->values = MRT_NEW(&g->temporary, mrt_located, p->count);
  int count = g->node_count;
  mrt_node **nodes = mrt_graph_take_order(g);
  if (!nodes || !p->values) return mrt_nomem(&g->ctx->error);
  mrt_arena_init(&p->scratch, g->ctx->allocator);
  mrt_status s = walk(p, nodes, count);
  mrt_arena_free(&p->scratch);
  return s;
}

mrt_status mrt_pass_partition(mrt_rewrite *r) {
  mrt_partition weights = { .g = r->graph,
                            .sequence = !r->options->no_sequence },
                inputs = { .g = r->graph,
                           .inputs = true,
                           .no_ring = r->options->no_ring,
                           .comm = r->options->context - 1 };
  if (find_group(&weights)) MRT_TRY(partition(&weights));
  return inputs.comm >= 0 ? partition(&inputs) : MRT_OK;
}
