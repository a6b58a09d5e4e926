/* collective_time.c -- how long do ranks take to do something together?
 *
 *   question  seconds of a collective of so many bytes, over links of levels
 *   input     the profile's links, innermost first: how many ranks each joins,
 *             what a rank gives to others a second, seconds of a step, and what
 *             medium sizes lose besides
 *   method    A ring on each level, the piece of the level below on the next:
 *             reduce_scatter of n bytes over p ranks takes p - 1 steps and gives
 *             (p - 1) / p of n; allgather takes as much; allreduce both, or a
 *             tree's 2 log2 p steps with all of n in each direction.  Ranks of a
 *             communicator stand next to each other.
 *   never     guesses: without a link that joins so many ranks it is unknown
 *   from      Thakur, Rabenseifner, Gropp, "Optimization of collective
 *             communication operations in MPICH", IJHPCA 19(1), 2005
 *
 * SPDX-License-Identifier: MIT */
#include "op/collective.h"
#include "plan/cost.h"

#include <math.h>

typedef struct journey {
  const mrt_device_profile *d;
  int64_t ranks; /* of the communicator */
} journey;

/* How many groups of the level below does level i join, of so many ranks? */
static double joined(const journey *j, int i) {
  double below = i > 0 ? j->d->links[i - 1].ranks : 1;
  double all = (double)j->ranks, own = j->d->links[i].ranks;
  if (i == j->d->link_count - 1 || own > all) own = all;
  return own > below ? ceil(own / below) : 1;
}

static double moving(const mrt_link *l, double steps, double bytes) {
  return steps * l->latency + bytes / l->bandwidth + l->ramp * sqrt(bytes);
}

/* Each rank's bytes become 1 / p of them, or the other way. */
static double half(const journey *j, double bytes) {
  double seconds = 0;
  for (int i = 0; i < j->d->link_count; i++) {
    double p = joined(j, i);
    if (p > 1) seconds += moving(&j->d->links[i], p - 1, bytes * (p - 1) / p);
    bytes /= p;
  }
  return seconds;
}

static double tree(const journey *j, double bytes, double ways) {
  double seconds = 0;
  for (int i = 0; i < j->d->link_count; i++) {
    double steps = ceil(log2(joined(j, i)));
    if (steps > 0)
      seconds += moving(&j->d->links[i], ways * steps, ways * bytes);
  }
  return seconds;
}

static double reduce_all(const journey *j, double bytes, const void *o) {
  (void)o;
  return fmin(2 * half(j, bytes), tree(j, bytes, 2));
}

static double by_halves(const journey *j, double bytes, const void *o) {
  (void)o;
  return half(j, bytes);
}

/* A piece to each rank, by the links of their level. */
static double exchange(const journey *j, double bytes, const void *o) {
  double seconds = 0, met = 1, all = (double)j->ranks;
  (void)o;
  for (int i = 0; i < j->d->link_count; i++) {
    double p = joined(j, i), others = met * (p - 1);
    if (p > 1) seconds += moving(&j->d->links[i], others, bytes * others / all);
    met *= p;
  }
  return seconds;
}

static double from_one(const journey *j, double bytes, const void *o) {
  (void)o;
  return tree(j, bytes, 1);
}

/* To the peer, over the innermost link that joins both. */
static double to_peer(const journey *j, double bytes, const void *o) {
  const mrt_collective_options *c = o;
  int i = 0;
  while (i < j->d->link_count - 1 &&
         c->rank / (int64_t)j->d->links[i].ranks !=
             c->peer / (int64_t)j->d->links[i].ranks)
    i++;
  return moving(&j->d->links[i], 1, bytes);
}

/* All at once, so as long as over the slowest of the links. */
static double around(const journey *j, double bytes, const void *o) {
  const mrt_collective_options *c = o;
  double seconds = 0;
  for (int i = 0; c->peer && i < j->d->link_count; i++)
    if (joined(j, i) > 1)
      seconds = fmax(seconds, moving(&j->d->links[i], 1, bytes));
  return seconds;
}

static const struct {
  int op;
  double (*seconds)(const journey *j, double bytes, const void *options);
} rows[] = {
  { MRT_OP_allreduce, reduce_all }, { MRT_OP_reduce_scatter, by_halves },
  { MRT_OP_allgather, by_halves },  { MRT_OP_all_to_all, exchange },
  { MRT_OP_broadcast, from_one },   { MRT_OP_shift, around },
  { MRT_OP_send, to_peer },         { MRT_OP_recv, to_peer },
};

double mrt_collective_seconds(const mrt_device_profile *d, const mrt_node *n) {
  const mrt_collective_options *o = n->options;
  journey j = { d, o->size };
  double bytes = 0;
  if (o->size < 2) return 0;
  if (!d->link_count) return -1;
  double most = d->links[d->link_count - 1].ranks;
  if (most > 0 && (double)o->size > most) return -1;
  for (int k = 0; k < n->nin; k++)
    bytes = fmax(bytes, (double)mrt_type_bytes(&n->in[k]->type));
  for (int k = 0; k < n->nout; k++)
    bytes = fmax(bytes, (double)mrt_type_bytes(&n->out[k]->type));
  for (int i = 0; i < MRT_COUNT(rows); i++)
    if (rows[i].op == n->op->number) return rows[i].seconds(&j, bytes, o);
  return 0;
}
