/* collective.c -- operators that all ranks of a communicator compute together
 *
 *   allreduce       y = x of all ranks reduced, on every rank
 *   reduce_scatter  y = piece r of that on rank r; pieces are cut along the
 *                   first dimension
 *   allgather       y = x of all ranks behind one another along the first
 *                   dimension
 *   all_to_all      y = piece r of x of each rank, one behind the other; pieces are
 *                   cut along the first dimension
 *   broadcast       y = x of the root
 *   shift           y = x of the rank `by` before this one, in a circle
 *   send, recv      y on one rank = x on another; a send returns nothing, as
 *                   u8[0], and a recv says what comes
 *   arrive          waits for a collective that began ahead (plan/ahead.c); of
 *                   its y and, unless y took its place, its x
 *
 *   x y     contiguous, any shape, on all ranks the same; any dtype where
 *           nothing is reduced; see device/communicator.c for what can be
 *   op      sum, mean, max, min, prod: in the order of the ranks, rounded once
 *   cost    bytes that this rank gives and gets, as the ring moves them:
 *           Patarasuk & Yuan, Bandwidth optimal all-reduce algorithms, 2009
 *   grad    of the sum of what all ranks make of their results: reductions by
 *           sum and mean, gathering and exchanging are linear, and their gradients
 *           are the transposed collectives, shift's that by -by.  All ranks must
 *           differentiate alike, for the gradient meets the others too.  None of
 *           max, min, prod, send, recv.
 *   fails   EDTYPE, ESHAPE, EVALUE; while it runs ERANK, EINTERRUPT
 *
 * SPDX-License-Identifier: MIT */
#include "op/collective.h"
#include "device/communicator.h"
#include "op/build.h"
#include "tensor/tensor.h"

static const mrt_collective_options *options_of(const mrt_infer *c) {
  return c->options;
}

/* ---- shapes -------------------------------------------------------------- */

static mrt_status want_reducible(mrt_infer *c) {
  mrt_error said;
  mrt_reduction op = (mrt_reduction)options_of(c)->op;
  mrt_status s = mrt_reduction_check(op, c->in[0]->dtype, &said);
  return s ? mrt_refuse(c, s, "%s", said.message) : MRT_OK;
}

static mrt_status want_rows(mrt_infer *c) {
  if (c->in[0]->rank > 0) return MRT_OK;
  return mrt_refuse(c, MRT_ESHAPE, "%s, at least 1 dimension wanted",
                    mrt_show(c->in[0]).s);
}

static mrt_status want_peer(mrt_infer *c, bool other) {
  const mrt_collective_options *o = options_of(c);
  if (o->peer < 0 || o->peer >= o->size)
    return mrt_refuse(c, MRT_EVALUE, "rank %lld, 0 to %lld wanted",
                      (long long)o->peer, (long long)o->size - 1);
  if (other && o->peer == o->rank)
    return mrt_refuse(c, MRT_EVALUE, "rank %lld is this rank, another wanted",
                      (long long)o->peer);
  return MRT_OK;
}

static mrt_status infer_allreduce(mrt_infer *c) {
  c->out[0] = *c->in[0];
  return want_reducible(c);
}

static mrt_status want_pieces(mrt_infer *c) {
  const mrt_collective_options *o = options_of(c);
  MRT_TRY(want_rows(c));
  if (c->in[0]->dims[0] % o->size == 0) return MRT_OK;
  return mrt_refuse(c, MRT_ESHAPE,
                    "the first dimension of %s cannot be shared among %lld "
                    "ranks; a multiple of %lld wanted",
                    mrt_show(c->in[0]).s, (long long)o->size,
                    (long long)o->size);
}

static mrt_status infer_reduce_scatter(mrt_infer *c) {
  MRT_TRY(want_reducible(c));
  MRT_TRY(want_pieces(c));
  c->out[0] = *c->in[0];
  c->out[0].dims[0] /= options_of(c)->size;
  return MRT_OK;
}

static mrt_status infer_all_to_all(mrt_infer *c) {
  c->out[0] = *c->in[0];
  return want_pieces(c);
}

static mrt_status infer_allgather(mrt_infer *c) {
  MRT_TRY(want_rows(c));
  c->out[0] = *c->in[0];
  if (__builtin_mul_overflow(c->in[0]->dims[0], options_of(c)->size,
                             &c->out[0].dims[0]))
    return mrt_refuse(c, MRT_ESHAPE, "%s of %lld ranks is too large",
                      mrt_show(c->in[0]).s, (long long)options_of(c)->size);
  return MRT_OK;
}

static mrt_status infer_broadcast(mrt_infer *c) {
  c->out[0] = *c->in[0];
  return want_peer(c, false);
}

static mrt_status infer_shift(mrt_infer *c) {
  mrt_collective_options *o = c->options;
  c->out[0] = *c->in[0];
  o->peer = (o->peer % o->size + o->size) % o->size;
  return MRT_OK;
}

static mrt_status infer_send(mrt_infer *c) {
  c->out[0] = (mrt_type){ .dtype = MRT_u8, .rank = 1 };
  return want_peer(c, true);
}

static mrt_status infer_recv(mrt_infer *c) {
  const mrt_collective_options *o = options_of(c);
  c->out[0] = (mrt_type){ .dtype = o->dtype, .rank = o->shape.count };
  for (int i = 0; i < o->shape.count; i++) c->out[0].dims[i] = o->shape.at[i];
  return want_peer(c, true);
}

static mrt_status infer_arrive(mrt_infer *c) {
  c->nout = 0;
  return MRT_OK;
}

/* ---- costs --------------------------------------------------------------- */

/* `times` (p - 1) / p of the larger of input and output crosses the wire. */
static double ring(const mrt_signature *s, double times) {
  const mrt_collective_options *o = s->options;
  double in = (double)mrt_type_bytes(s->in[0]),
         out = (double)mrt_type_bytes(s->out[0]), ranks = (double)o->size;
  return times * (ranks - 1) / ranks * (in > out ? in : out);
}

static double bytes_twice(const mrt_signature *s) { return ring(s, 2); }
static double bytes_once(const mrt_signature *s) { return ring(s, 1); }
static double bytes_sent(const mrt_signature *s) {
  return (double)mrt_type_bytes(s->in[0]);
}
static double bytes_shifted(const mrt_signature *s) {
  const mrt_collective_options *o = s->options;
  return o->peer ? bytes_sent(s) : 0;
}
static double bytes_received(const mrt_signature *s) {
  return (double)mrt_type_bytes(s->out[0]);
}

/* ---- gradients ----------------------------------------------------------- */

static bool linear(mrt_build *b) {
  const mrt_collective_options *o = b->options;
  if (o->op == MRT_REDUCE_SUM || o->op == MRT_REDUCE_MEAN) return true;
  b->status = mrt_fail(&b->ctx->error, MRT_EGRAD,
                       "%s by %s has no gradient; sum and mean have",
                       b->op->name, mrt_reduction_name((mrt_reduction)o->op));
  return false;
}

/* The same collective of the gradients: sum -> sum, mean -> mean. */
static void grad_allreduce(mrt_build *b) {
  if (linear(b)) b->din[0] = MRT_MAKE(b, allreduce, b->options, b->dout[0]);
}

static void grad_reduce_scatter(mrt_build *b) {
  const mrt_collective_options *o = b->options;
  if (!linear(b)) return;
  mrt_tensor *all = MRT_MAKE(b, allgather, o, b->dout[0]);
  b->din[0] =
      o->op == MRT_REDUCE_SUM ? all : mrt_mul_k(b, all, 1 / (double)o->size);
}

static void grad_allgather(mrt_build *b) {
  mrt_collective_options o = *(const mrt_collective_options *)b->options;
  o.op = MRT_REDUCE_SUM;
  b->din[0] = MRT_MAKE(b, reduce_scatter, &o, b->dout[0]);
}

/* What came from a rank goes back to it. */
static void grad_all_to_all(mrt_build *b) {
  b->din[0] = MRT_MAKE(b, all_to_all, b->options, b->dout[0]);
}

static void grad_shift(mrt_build *b) {
  mrt_collective_options o = *(const mrt_collective_options *)b->options;
  o.peer = -o.peer;
  b->din[0] = MRT_MAKE(b, shift, &o, b->dout[0]);
}

/* To the root comes the sum; what the others gave was not read. */
static void grad_broadcast(mrt_build *b) {
  mrt_collective_options o = *(const mrt_collective_options *)b->options;
  o.op = MRT_REDUCE_SUM;
  b->din[0] = MRT_MAKE(b, allreduce, &o, b->dout[0]);
  if (o.rank != o.peer)
    b->din[0] =
        mrt_expand_to(b, mrt_const_like(b, b->dout[0], 0), mrt_of(b->dout[0]));
}

/* ---- rules --------------------------------------------------------------- */

/* Position by position of what the ranks have, whatever other ranks do. */
static int rule_each(const mrt_signature *s, int input, int dim) { return dim; }
/* The first dimension is what ranks share. */
static int rule_pieces(const mrt_signature *s, int input, int dim) {
  return dim > 0 ? dim : MRT_RULE_UNKNOWN;
}

/* ---- rows ---------------------------------------------------------------- */

#define OPTION(field, text, ...)                                               \
  {                                                                            \
    .name = text, .offset = offsetof(mrt_collective_options, field),           \
    .kind = __VA_ARGS__                                                        \
  }
#define MEETING                                                                \
  OPTION(sequence, "sequence", MRT_OPT_HIDDEN),                                \
      OPTION(rank, "rank", MRT_OPT_HIDDEN),                                    \
      OPTION(size, "size", MRT_OPT_HIDDEN),                                    \
      OPTION(comm, "comm", MRT_OPT_INT, .required = true)
#define REDUCTION                                                              \
  OPTION(op, "op", MRT_OPT_ENUM, .words = "sum mean max min prod")

static const mrt_option reduces[] = { MEETING, REDUCTION,
                                      OPTION(lazy, "lazy", MRT_OPT_BOOL) };
static const mrt_option gathers[] = {
  MEETING, OPTION(lazy, "lazy", MRT_OPT_BOOL),
  OPTION(reshard_after_forward, "reshard_after_forward", MRT_OPT_BOOL)
};
static const mrt_option exchanges[] = { MEETING,
                                        OPTION(lazy, "lazy", MRT_OPT_BOOL) };
static const mrt_option broadcasts[] = { MEETING,
                                         OPTION(peer, "root", MRT_OPT_INT) };
static const mrt_option shifts[] = {
  MEETING, OPTION(peer, "by", MRT_OPT_INT, .preset = 1),
  OPTION(lazy, "lazy", MRT_OPT_BOOL)
};
static const mrt_option sends[] = { MEETING, OPTION(peer, "to", MRT_OPT_INT,
                                                    .required = true) };
static const mrt_option recvs[] = {
  MEETING, OPTION(peer, "from", MRT_OPT_INT, .required = true),
  OPTION(shape, "shape", MRT_OPT_INTS, .required = true),
  OPTION(dtype, "dtype", MRT_OPT_DTYPE, .preset = MRT_f32)
};

#define ROW_OF(op, in, table, follows)                                         \
  .name = #op, .number = MRT_OP_##op, .min_inputs = in, .max_inputs = in,      \
  MRT_OPTIONS(table, mrt_collective_options), .infer = infer_##op,             \
  .cost = MRT_COST_move, .width = follows
#define ROW(op, in, table) ROW_OF(op, in, table, MRT_WIDE)

const mrt_op mrt_op_allreduce = {
  ROW(allreduce, 1, reduces),
  .doc = "y = the reduction of x of all ranks",
  .shard_rule = rule_each, /* of groups beside it */
  .grad = grad_allreduce,
  .bytes = bytes_twice,
  .inplace = 1,
  .traits = MRT_COLLECTIVE,
};
const mrt_op mrt_op_reduce_scatter = {
  ROW(reduce_scatter, 1, reduces),
  .doc = "y = piece r of the reduction of x of all ranks, on rank r",
  .shard_rule = rule_pieces,
  .grad = grad_reduce_scatter,
  .bytes = bytes_once,
  .traits = MRT_COLLECTIVE,
};
const mrt_op mrt_op_allgather = {
  ROW(allgather, 1, gathers),
  .doc = "y = x of all ranks, one behind the other",
  .shard_rule = rule_pieces, /* of groups beside it */
  .grad = grad_allgather,
  .bytes = bytes_once,
  .traits = MRT_COLLECTIVE | MRT_REPEATS,
};
const mrt_op mrt_op_all_to_all = {
  ROW(all_to_all, 1, exchanges),
  .doc = "y = this rank's piece of x of all ranks, one behind the other",
  .shard_rule = rule_pieces, /* of groups beside it */
  .grad = grad_all_to_all,
  .bytes = bytes_once,
  .traits = MRT_COLLECTIVE,
};
const mrt_op mrt_op_broadcast = {
  ROW(broadcast, 1, broadcasts),
  .doc = "y = x of the root",
  .grad = grad_broadcast,
  .bytes = bytes_once,
  .inplace = 1,
  .traits = MRT_COLLECTIVE,
};
const mrt_op mrt_op_shift = {
  ROW_OF(shift, 1, shifts, MRT_FOLLOW), /* narrow where its readers are */
  .doc = "y = x of the rank `by` before this one, in a circle",
  .shard_rule = rule_each, /* of groups beside it */
  .grad = grad_shift,
  .bytes = bytes_shifted,
  .traits = MRT_COLLECTIVE | MRT_REPEATS,
};
const mrt_op mrt_op_send = {
  ROW(send, 1, sends),
  .doc = "gives x to another rank, which receives it",
  .bytes = bytes_sent,
  .traits = MRT_COLLECTIVE | MRT_PAIR,
};
const mrt_op mrt_op_recv = {
  ROW(recv, 0, recvs),
  .doc = "y = what another rank sends",
  .bytes = bytes_received,
  .traits = MRT_COLLECTIVE | MRT_PAIR,
};
const mrt_op mrt_op_arrive = {
  .name = "arrive",
  .number = MRT_OP_arrive,
  .doc = "waits for the collective that makes y of x",
  .min_inputs = 1,
  .max_inputs = 2,
  .infer = infer_arrive,
  .width = MRT_FOLLOW,
  .cost = MRT_COST_move,
  .traits = MRT_INTERNAL | MRT_FIXED | MRT_WAITS,
};
