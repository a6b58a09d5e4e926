/* order.c -- when does each node run?
 *
 *   needs   layout; program order with old values saved
 *   gives   the executing order
 *   method  Program order, with every update, and what is computed for it
 *           alone, moved up to where everything else that this needs exists,
 *           everybody has read the old version, and all index checks that do
 *           not depend on an update have been made: a parameter's gradient then
 *           dies right after it is born.  Scalars that only updates read (a
 *           count of steps) are computed as soon as they can be, to hold up
 *           none.  An update that stands before such a check waits for it, and
 *           so does what reads it.
 *   never   changes what a node reads
 *
 * SPDX-License-Identifier: MIT */
#include "plan/plan.h"

/* For whom a node computes: an update, by its position, or one of these. */
enum { NOBODY = -1, UPDATES = -2, OTHERS = -3 };

/* Who reads a variable, of those seen so far. */
typedef struct reads {
  int last, party; /* the last position; for whom it computes */
  int before;      /* the last position that computes for someone else */
} reads;

typedef struct ordering {
  mrt_graph *g;
  int *made_at;   /* by value id: position of its node; -1 for leaves */
  reads *reads;   /* by value id of a variable */
  bool *tainted;  /* by value id: depends on an update */
  int last_check; /* the last index check that does not; -1: none */
  int *needed;    /* by value id: for whom */
  int *party;     /* by position: for whom */
  int *next;      /* by position: the next that computes for the same update;
                     of an update, the first; -1: none */
  int *key;       /* by position: see sort */
} ordering;

static void note_reads(ordering *o, const mrt_node *n, int i) {
  for (int k = 0; k < n->nin; k++) {
    if (n->in[k]->base->leaf != MRT_LEAF_VARIABLE) continue;
    reads *r = &o->reads[n->in[k]->base->id];
    if (r->party != o->party[i]) r->before = r->last, r->party = o->party[i];
    r->last = i;
  }
}

static bool depends_on_update(const ordering *o, const mrt_node *n) {
  bool any = mrt_node_is_update(n);
  for (int k = 0; k < n->nin; k++)
    any |= o->tainted[mrt_value_root(n->in[k])->id];
  return any;
}

static void find_tainted(ordering *o) {
  o->last_check = -1;
  for (int i = 0; i < o->g->node_count; i++) {
    const mrt_node *n = o->g->nodes[i];
    bool tainted = depends_on_update(o, n);
    if ((n->op->traits & MRT_FAULTS) && !tainted) o->last_check = i;
    for (int k = 0; k < n->nout; k++) o->tainted[n->out[k]->id] = tainted;
  }
}

/* ---- for whom a node computes ---------------------------------------------- */

static int join(int a, int b) {
  if (a == b || b == NOBODY) return a;
  if (a == NOBODY) return b;
  return a == OTHERS || b == OTHERS ? OTHERS : UPDATES;
}

static int party_of(const ordering *o, const mrt_node *n, int i) {
  int party = NOBODY;
  if (i <= o->last_check || (n->op->traits & MRT_FAULTS)) return OTHERS;
  if (mrt_node_is_update(n)) return i;
  for (int k = 0; k < n->nout; k++)
    party = join(party, o->needed[n->out[k]->id]);
  bool scalar = n->nout == 1 && mrt_type_count(&n->out[0]->type) == 1;
  return party >= 0 || (party == UPDATES && scalar) ? party : OTHERS;
}

static void find_parties(ordering *o) {
  mrt_graph *g = o->g;
  for (int i = 0; i < g->value_count; i++) o->needed[i] = NOBODY;
  for (int i = 0; i < g->output_count; i++)
    o->needed[mrt_value_root(g->outputs[i])->id] = OTHERS;
  for (int i = g->node_count - 1; i >= 0; i--) {
    const mrt_node *n = g->nodes[i];
    int party = o->party[i] = party_of(o, n, i);
    o->next[i] = -1;
    for (int k = 0; k < n->nin; k++) {
      int *needed = &o->needed[mrt_value_root(n->in[k])->id];
      *needed = join(*needed, party);
    }
    if (party < 0 || party == i) continue;
    o->next[i] = o->next[party], o->next[party] = i;
  }
}

/* ---- where it goes ----------------------------------------------------------- */

/* The first position where everything exists that `n` reads.  What computes
 * for the same update has no position yet and does not count. */
static int inputs_made(const ordering *o, const mrt_node *n) {
  int at = o->last_check + 1;
  for (int k = 0; k < n->nin; k++) {
    int made = o->made_at[mrt_value_root(n->in[k])->id];
    if (made + 1 > at) at = made + 1;
  }
  return at;
}

/* The first position where the update at `i` may stand. */
static int ready(const ordering *o, int i) {
  const mrt_node *n = o->g->nodes[i];
  int at = inputs_made(o, n);
  for (int k = o->next[i]; k >= 0; k = o->next[k]) {
    int made = inputs_made(o, o->g->nodes[k]);
    if (made > at) at = made;
  }
  for (int k = 0; k < n->op->updates; k++) {
    const reads *r = &o->reads[n->in[k]->base->id];
    int read = r->party == i ? r->before : r->last;
    if (read + 1 > at) at = read + 1;
  }
  return at;
}

/* Before which position the node at `i` goes; `i` when it stays. */
static int target(const ordering *o, int i) {
  const mrt_node *n = o->g->nodes[i];
  if (i <= o->last_check)
    return o->tainted[n->out[0]->id] ? o->last_check + 1 : i;
  int at = o->party[i] == i         ? ready(o, i)
           : o->party[i] == UPDATES ? inputs_made(o, n)
                                    : i;
  return at < i ? at : i;
}

static void put(ordering *o, int i, bool moves, int at) {
  const mrt_node *n = o->g->nodes[i];
  /* even keys: moved here, before the node with the odd key */
  o->key[i] = moves ? 2 * at : 2 * i + 1;
  for (int k = 0; k < n->nout; k++)
    o->made_at[n->out[k]->id] = moves ? at - 1 : i;
}

static void place(ordering *o) {
  for (int i = 0; i < o->g->node_count; i++) {
    if (o->party[i] < 0 || o->party[i] == i) {
      int at = target(o, i);
      for (int k = o->next[i]; k >= 0; k = o->next[k]) put(o, k, k >= at, at);
      put(o, i, at != i, at);
    }
    note_reads(o, o->g->nodes[i], i);
  }
}

static mrt_status sort(mrt_graph *g, const int *key) {
  /* Counting sort by key, stable; what is moved goes before the node whose
   * position it takes. */
  int n = g->node_count;
  mrt_node **order = MRT_NEW(&g->arena, mrt_node *, n);
  int *start = MRT_NEW(&g->arena, int, 2 * n + 2);
  if (!order || !start) return mrt_nomem(&g->ctx->error);
  for (int i = 0; i < n; i++) start[key[i] + 1]++;
  for (int k = 0; k <= 2 * n; k++) start[k + 1] += start[k];
  for (int i = 0; i < n; i++) order[start[key[i]]++] = g->nodes[i];
  mrt_graph_set_order(g, order, n);
  return MRT_OK;
}

mrt_status mrt_pass_order(mrt_plan *plan) {
  mrt_graph *g = &plan->graph;
  int nodes = g->node_count, values = g->value_count;
  ordering o = { .g = g,
                 .made_at = MRT_NEW(&g->arena, int, values),
                 .reads = MRT_NEW(&g->arena, reads, values),
                 .tainted = MRT_NEW(&g->arena, bool, values),
                 .needed = MRT_NEW(&g->arena, int, values),
                 .party = MRT_NEW(&g->arena, int, nodes),
                 .next = MRT_NEW(&g->arena, int, nodes),
                 .key = MRT_NEW(&g->arena, int, nodes) };
  if (!o.made_at || !o.reads || !o.tainted || !o.needed || !o.party ||
      !o.next || !o.key)
    return mrt_nomem(&plan->ctx->error);
  if (plan->options.keep_order) return MRT_OK;
  for (int i = 0; i < values; i++) {
    o.made_at[i] = -1;
    o.reads[i] = (reads){ -1, NOBODY, -1 };
  }
  find_tainted(&o);
  find_parties(&o);
  place(&o);
  return sort(g, o.key);
}
