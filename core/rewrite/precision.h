/* precision.h -- what the precision pass knows of a graph
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_REWRITE_PRECISION_H
#define MRT_REWRITE_PRECISION_H

#include "mrt/frontend.h"
#include "rewrite/rewrite.h"

/* A value times a scale, and the inverse of that. */
typedef struct mrt_scaled {
  mrt_value *value, *inverse;
} mrt_scaled;

/* Values and positions are those of the graph before the pass. */
typedef struct mrt_narrowing {
  const mrt_rewrite *rewrite;
  mrt_graph *g;
  mrt_error *e;
  mrt_computation *answers;
  mrt_dtype keep;      /* MRT_DTYPE_COUNT: as it is */
  int values;          /* how many there were */
  int *asked;          /* by position: which answer; -1: not asked */
  bool *leads;         /* by value: something narrow comes of it */
  bool *small;         /* by value: a statistic, or what comes of such alone */
  uint32_t *wants;     /* by value: dtypes that readers want, a bit each */
  mrt_value **source;  /* by value: what it is the widening of, or NULL */
  mrt_value **rounded; /* by value and dtype, where made */
  mrt_scaled *scaled;  /* ditto */
  /* scales that are known before a run (fp8_delayed.c) */
  const mrt_delayed *tell; /* whom to tell of the sites; NULL: nobody */
  mrt_site *sites;
  mrt_value **largest; /* of each */
  int site_count, site_room, largest_room;
  mrt_value *scales, *inverses; /* of all sites, once one is made */
  mrt_value *found;             /* what is largest in each, once it is read */
} mrt_narrowing;

/* Ask the policy, unless that has been done for this trace. */
mrt_status mrt_narrow_ask(mrt_narrowing *w);
/* Fill `small`. */
mrt_status mrt_narrow_small(mrt_narrowing *w);
/* Fill what is by value. */
mrt_status mrt_narrow_look(mrt_narrowing *w);

/* The option that says what inputs are rounded to; NULL: there is none. */
const mrt_option *mrt_narrow_option(const mrt_op *op);
/* Does it copy elements and compute none? */
bool mrt_narrow_moves(const mrt_node *n);
/* Must `v` stay in f32? */
bool mrt_narrow_never(const mrt_narrowing *w, const mrt_value *v);
/* Does reader `n` read `v` as it was kept for the backward pass? */
bool mrt_narrow_kept(const mrt_narrowing *w, const mrt_node *n,
                     const mrt_value *v);
/* The one narrow dtype that all readers of `v` want, or MRT_DTYPE_COUNT. */
mrt_dtype mrt_narrow_only(const mrt_narrowing *w, const mrt_value *v);
/* The narrow dtype that all want the result of n in, which only moves elements,
 * no fewer than it reads: then these are rounded before.  Else
 * MRT_DTYPE_COUNT. */
mrt_dtype mrt_narrow_moved(const mrt_narrowing *w, const mrt_node *n);
/* What a narrow node makes `v` in, asked for `output`. */
mrt_dtype mrt_narrow_output(const mrt_narrowing *w, const mrt_value *v,
                            mrt_dtype output);

/* What `v` is the widening of; NULL: nothing, as of all that the pass makes. */
static inline mrt_value *mrt_narrow_source(const mrt_narrowing *w,
                                           const mrt_value *v) {
  return v->id < w->values ? w->source[v->id] : NULL;
}
/* Does the kernel read its input k, write its result k, in any float dtype?
 * The last bit of inputs stands for all further ones.  Or in f32 alone? */
static inline bool mrt_reads_narrow(const mrt_op *op, int k) {
  return op->narrow_inputs >> (k < 31 ? k : 31) & 1;
}
static inline bool mrt_reads_wide(const mrt_op *op, int k) {
  return k < 32 && op->wide_inputs >> k & 1;
}
static inline bool mrt_writes_narrow(const mrt_op *op, int k) {
  return k < 32 && op->narrow_outputs >> k & 1;
}

/* ---- making nodes (precision_cast.c) ------------------------------------- */

/* Append; NULL: no memory. */
mrt_status mrt_narrow_put(mrt_narrowing *w, mrt_node *n);
mrt_status mrt_narrow_cast(mrt_narrowing *w, mrt_value *v, mrt_dtype dtype,
                           mrt_origin origin, mrt_value **out);
/* `v` rounded; of a view, the view of what it shows rounded. */
mrt_status mrt_narrow_round(mrt_narrowing *w, mrt_value *v, mrt_dtype dtype,
                            mrt_value **out);
/* The same view of `in`, which has another dtype. */
mrt_status mrt_narrow_view(mrt_narrowing *w, const mrt_node *n, mrt_value *in,
                           mrt_node **out);
/* What `n`, which computes in f32, reads as its input k. */
mrt_status mrt_narrow_wide_input(mrt_narrowing *w, const mrt_node *n, int k,
                                 mrt_value **out);

/* ---- products (precision.c, fp8_scale.c) --------------------------- */

/* n's operator on its first two inputs, which are `in`; *out is f32. */
mrt_status mrt_narrow_product(mrt_narrowing *w, const mrt_node *n,
                              mrt_value *const *in, mrt_value **out);
/* `v` is from now on `made`, which is f32, rounded to `output` where that is
 * narrow and may be. */
mrt_status mrt_narrow_becomes(mrt_narrowing *w, mrt_value *v, mrt_value *made,
                              mrt_dtype output);
/* A product of scaled inputs. */
mrt_status mrt_narrow_scaled(mrt_narrowing *w, mrt_node *n,
                             const mrt_computation *asked);

/* ---- scales known before a run (fp8_delayed.c) -------------------- */

/* Nodes for one value; the first error sticks, and gives NULLs. */
typedef struct mrt_making {
  mrt_narrowing *w;
  mrt_origin origin;
  mrt_status status;
} mrt_making;

mrt_value *mrt_narrow_make(mrt_making *b, int op, const void *options,
                           mrt_type type, int nin, mrt_value *const *in);
#define MRT_MAKE(b, op, options, type, ...)                                    \
  mrt_narrow_make(                                                             \
      b, MRT_OP_##op, options, type,                                           \
      (int)(sizeof((mrt_value *[]){ __VA_ARGS__ }) / sizeof(mrt_value *)),     \
      (mrt_value *[]){ __VA_ARGS__ })

/* A new site: `v`, in which `largest` is largest, scaled to fit `dtype`. */
mrt_status mrt_narrow_site(mrt_making *b, const mrt_value *v, mrt_dtype dtype,
                           mrt_value *largest, mrt_value **scale,
                           mrt_value **inverse);
/* Have `n` read what was found where it reads amax. */
mrt_status mrt_narrow_found(mrt_narrowing *w, mrt_node *n);
/* All nodes are made: tell of the sites. */
mrt_status mrt_narrow_tell(mrt_narrowing *w);

#endif
