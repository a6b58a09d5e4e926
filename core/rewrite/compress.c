/* compress.c -- what the backward pass reads of the forward pass, kept smaller
 *
 *   needs   dtypes final, program order
 *   gives   for each value that the policy names a format for, nodes that pack
 *           it where it is made and unpack it before the first node of the
 *           backward pass that reads it; all others read it as it was
 *   method  Two walks: one lists what is kept and asks, one puts the nodes in.
 *           A reader of a view reads the view of what is unpacked.  Blocks run
 *           along trailing dimensions, so rows of a batch do not share scales.
 *   never   packs variables and what comes of them alone, integers, statistics,
 *           what is drawn again, what would not get smaller, nor inputs, unless
 *           other plans of the step have made them of the batch (`handed_on`)
 *   why     The choice is part of the program, as a precision is: recomputing,
 *           swapping, order and sharing see nodes like all others, and change
 *           no bit of the result.
 *
 * SPDX-License-Identifier: MIT */
#include "op/apply.h"
#include "op/cast.h"
#include "op/quantize.h"
#include "op/views.h"
#include "rewrite/precision.h"

typedef struct compressing {
  const mrt_rewrite *rewrite;
  mrt_graph *g;
  mrt_error *e;
  int values;        /* of the graph before the pass */
  const bool *small; /* by value: a statistic */
  bool *data;        /* by value: more than variables lead to it */
  bool *read;        /* by value: a root that the backward pass reads */
  mrt_compress_format *format; /* by value: of roots */
  mrt_value **codes;           /* by value: what a root was packed to */
  mrt_value **scales;          /* ditto; NULL: a cast has none */
  mrt_value **shown; /* by value: what the backward pass reads instead */
} compressing;

static const char *const names[MRT_COMPRESS_COUNT] = {
  [MRT_COMPRESS_NONE] = "none", [MRT_COMPRESS_BF16] = "bf16",
  [MRT_COMPRESS_F16] = "f16",   [MRT_COMPRESS_F8] = "f8",
  [MRT_COMPRESS_INT8] = "int8", [MRT_COMPRESS_NF4] = "nf4",
};

MRT_API const char *mrt_compress_format_name(mrt_compress_format format) {
  bool known = format >= MRT_COMPRESS_NONE && format < MRT_COMPRESS_COUNT;
  return known ? names[format] : NULL;
}

/* ---- what is kept -------------------------------------------------------- */

static bool reads_kept(const mrt_node *n) {
  return n->origin.backward && !mrt_node_is_view(n) && !mrt_node_is_update(n);
}

/* An input that another plan of the step has made, and named. */
static bool came(const compressing *c, const mrt_value *v) {
  return c->rewrite->options->handed_on && v->leaf == MRT_LEAF_INPUT && v->name;
}

/* What a value shows: views and widenings take nothing that is not read. */
static mrt_value *root_of(mrt_value *v) {
  mrt_value *root = mrt_value_root(v);
  while (root->node && root->node->op->number == MRT_OP_cast &&
         !root->node->origin.backward && root->type.dtype == MRT_f32 &&
         mrt_is_narrow(root->node->in[0]->type.dtype))
    root = mrt_value_root(root->node->in[0]);
  return root;
}

/* What input k of a node of the backward pass shows of the forward pass; NULL:
 * something else. */
static mrt_value *kept(const compressing *c, const mrt_node *n, int k) {
  mrt_value *root = root_of(n->in[k]);
  const mrt_node *maker = root->node;
  bool yes = maker ? !maker->origin.backward && !mrt_node_is_update(maker)
                   : came(c, root);
  return yes ? root : NULL;
}

static void find_data(compressing *c) {
  double constant;
  for (int i = 0; i < c->values; i++) {
    mrt_value *v = c->g->values[i];
    c->data[i] = v->leaf && v->leaf != MRT_LEAF_VARIABLE &&
                 !mrt_value_uniform(v, &constant);
  }
  for (int i = 0; i < c->g->node_count; i++) {
    const mrt_node *n = c->g->nodes[i];
    bool any = n->op->traits & MRT_UNIFORM;
    for (int k = 0; k < n->nin; k++) any |= c->data[n->in[k]->id];
    for (int k = 0; k < n->nout; k++) c->data[n->out[k]->id] = any;
  }
}

static void find_read(compressing *c) {
  for (int i = 0; i < c->g->node_count; i++) {
    const mrt_node *n = c->g->nodes[i];
    for (int k = 0; k < n->nin && reads_kept(n); k++) {
      const mrt_value *v = kept(c, n, k);
      if (v) c->read[v->id] = true;
    }
  }
}

static bool is_kept_float(mrt_dtype d) {
  return d == MRT_f32 || d == MRT_bf16 || d == MRT_f16;
}

static const char *why_not(const compressing *c, const mrt_value *v) {
  if (!is_kept_float(v->type.dtype)) return "it is not f32, bf16 or f16";
  if (v->node && v->node->op->traits & MRT_UNIFORM) return "it is drawn again";
  if (mrt_type_count(&v->type) == 0) return "it has no elements";
  if (c->small[v->id]) return "it is a statistic";
  return NULL;
}

/* ---- asking -------------------------------------------------------------- */

static mrt_origin origin_of(const mrt_value *v) {
  return v->node ? v->node->origin : (mrt_origin){ 0 };
}

static mrt_compressible describe(const compressing *c, const mrt_value *v) {
  mrt_origin origin = origin_of(v);
  return (mrt_compressible){ .op = v->node ? v->node->label : "input",
                             .name = v->name,
                             .file = origin.file,
                             .module = origin.module,
                             .line = origin.line,
                             .layer = origin.layer,
                             .type = v->type,
                             .bytes = mrt_type_bytes(&v->type),
                             .refused = why_not(c, v) };
}

/* Values to ask about, in order: those of weights alone are none of them. */
static mrt_value **list(const compressing *c, int *count) {
  const mrt_graph *g = c->g;
  mrt_value **all = MRT_NEW(&c->g->temporary, mrt_value *, c->values);
  *count = 0;
  for (int i = 0; all && i < c->values; i++)
    if (!g->values[i]->node && c->read[i]) all[(*count)++] = g->values[i];
  for (int i = 0; all && i < g->node_count; i++)
    for (int k = 0; k < g->nodes[i]->nout; k++) {
      mrt_value *v = g->nodes[i]->out[k];
      if (c->read[v->id] && c->data[v->id]) all[(*count)++] = v;
    }
  return all;
}

/* What is narrow already gets smaller in bytes and codes alone. */
static mrt_compress_format answer_of(const mrt_compressible *v) {
  bool wide = v->type.dtype == MRT_f32 || v->format > MRT_COMPRESS_F16;
  return v->refused || !wide ? MRT_COMPRESS_NONE : v->format;
}

static mrt_status ask(compressing *c, mrt_value *const *all, int count) {
  const mrt_rewrite *r = c->rewrite;
  mrt_compression asked = { MRT_NEW(&c->g->temporary, mrt_compressible, count),
                            count };
  mrt_compress_format *formats =
      MRT_NEW(r->memo_arena, mrt_compress_format, count);
  if (!asked.values || !formats) return mrt_nomem(c->e);
  for (int i = 0; i < count; i++) asked.values[i] = describe(c, all[i]);
  MRT_TRY(r->options->compress(r->options->compress_user, &asked));
  for (int i = 0; i < count; i++) formats[i] = answer_of(&asked.values[i]);
  r->compress->formats = formats;
  return MRT_OK;
}

/* ---- packing ------------------------------------------------------------- */

/* Append a node and give back its first result. */
static mrt_status put(compressing *c, int op, mrt_value *const *in, int nin,
                      void *options, mrt_origin origin, mrt_value **out) {
  const mrt_type *types[2] = { &in[0]->type, nin > 1 ? &in[1]->type : NULL };
  mrt_type made[MRT_MAX_OUT];
  int nout;
  MRT_TRY(mrt_infer_types(mrt_ops[op], nin, types, options, made, &nout, c->e));
  mrt_node *n =
      mrt_graph_node(c->g, mrt_ops[op], nin, in, options, nout, made, origin);
  if (!n) return mrt_nomem(c->e);
  *out = n->out[0];
  return mrt_graph_append(c->g, n);
}

static mrt_status cast(compressing *c, mrt_value *v, mrt_dtype dtype,
                       mrt_origin origin, mrt_value **out) {
  mrt_cast_options o = { .dtype = dtype };
  *out = v;
  if (v->type.dtype == dtype) return MRT_OK;
  return put(c, MRT_OP_cast, &v, 1, &o, origin, out);
}

static mrt_status reshape(compressing *c, mrt_value *v, const mrt_ints *shape,
                          mrt_origin origin, mrt_value **out) {
  mrt_shape_options o = { *shape };
  return put(c, MRT_OP_reshape, &v, 1, &o, origin, out);
}

enum { BLOCK = 64 };

/* Rows of at least a block, if there are as many elements: trailing dimensions,
 * the first not among them unless it is the only one. */
static mrt_ints rows_of(const mrt_type *t) {
  int64_t columns = 1;
  int k = t->rank;
  while (k > 1 && columns < BLOCK) columns *= t->dims[--k];
  if (t->rank == 1) columns = t->dims[0];
  int64_t rows = columns > 0 ? mrt_type_count(t) / columns : 0;
  return (mrt_ints){ .count = 2, .at = { rows, columns } };
}

static mrt_dtype cast_to(mrt_compress_format format) {
  static const mrt_dtype dtypes[MRT_COMPRESS_COUNT] = {
    [MRT_COMPRESS_NONE] = MRT_DTYPE_COUNT, [MRT_COMPRESS_BF16] = MRT_bf16,
    [MRT_COMPRESS_F16] = MRT_f16,          [MRT_COMPRESS_F8] = MRT_f8_e4m3,
    [MRT_COMPRESS_INT8] = MRT_DTYPE_COUNT, [MRT_COMPRESS_NF4] = MRT_DTYPE_COUNT,
  };
  return dtypes[format];
}

static mrt_quantize_options quantizing(mrt_compress_format format,
                                       int64_t columns) {
  return (mrt_quantize_options){ .kind = format == MRT_COMPRESS_INT8
                                             ? MRT_QUANTIZE_INT8
                                             : MRT_QUANTIZE_NF4,
                                 .block = BLOCK,
                                 .columns = columns,
                                 .compute = MRT_DTYPE_COUNT };
}

static mrt_status pack_one(compressing *c, mrt_value *v) {
  mrt_compress_format format = c->format[v->id];
  mrt_dtype dtype = cast_to(format);
  mrt_origin origin = origin_of(v);
  if (dtype != MRT_DTYPE_COUNT)
    return cast(c, v, dtype, origin, &c->codes[v->id]);
  mrt_ints rows = rows_of(&v->type);
  mrt_quantize_options o = quantizing(format, 0);
  mrt_value *flat;
  MRT_TRY(reshape(c, v, &rows, origin, &flat));
  MRT_TRY(cast(c, flat, MRT_f32, origin, &flat));
  MRT_TRY(put(c, MRT_OP_quantize, &flat, 1, &o, origin, &c->codes[v->id]));
  c->scales[v->id] = c->codes[v->id]->node->out[1];
  return MRT_OK;
}

static mrt_status pack(compressing *c, mrt_value *v) {
  mrt_compress_memo *memo = c->rewrite->compress;
  MRT_TRY(pack_one(c, v));
  const mrt_value *scales = c->scales[v->id];
  memo->values++, memo->from += mrt_type_bytes(&v->type);
  memo->to += mrt_type_bytes(&c->codes[v->id]->type);
  if (scales) memo->to += mrt_type_bytes(&scales->type);
  return MRT_OK;
}

static mrt_status unpack(compressing *c, const mrt_value *v, mrt_origin origin,
                         mrt_value **out) {
  mrt_value *packed[2] = { c->codes[v->id], c->scales[v->id] };
  if (!packed[1]) return cast(c, packed[0], v->type.dtype, origin, out);
  mrt_ints rows = rows_of(&v->type), shape = { .count = v->type.rank };
  mrt_quantize_options o = quantizing(c->format[v->id], rows.at[1]);
  for (int i = 0; i < shape.count; i++) shape.at[i] = v->type.dims[i];
  MRT_TRY(put(c, MRT_OP_dequantize, packed, 2, &o, origin, out));
  MRT_TRY(cast(c, *out, v->type.dtype, origin, out));
  return reshape(c, *out, &shape, origin, out);
}

/* ---- the walk ------------------------------------------------------------ */

/* What a node of the backward pass reads in place of `v`; *out = v: itself. */
static mrt_status show(compressing *c, mrt_value *v, mrt_origin origin,
                       mrt_value **out) {
  mrt_value *root = root_of(v);
  *out = v;
  if (v->id >= c->values || !c->codes[root->id]) return MRT_OK;
  mrt_value **memo = &c->shown[v->id];
  if (!*memo && v == root) {
    MRT_TRY(unpack(c, v, origin, memo));
    (*memo)->name = v->name;
  } else if (!*memo) {
    const mrt_node *view = v->node;
    mrt_value *in;
    MRT_TRY(show(c, view->in[0], origin, &in));
    mrt_type types[MRT_MAX_OUT];
    for (int k = 0; k < view->nout; k++) types[k] = view->out[k]->type;
    mrt_node *n = mrt_graph_node(c->g, view->op, 1, &in, view->options,
                                 view->nout, types, origin);
    if (!n) return mrt_nomem(c->e);
    MRT_TRY(mrt_graph_append(c->g, n));
    for (int k = 0; k < view->nout; k++) c->shown[view->out[k]->id] = n->out[k];
  }
  return *out = *memo, MRT_OK;
}

static mrt_status walk(compressing *c) {
  mrt_graph *g = c->g;
  int count = g->node_count;
  mrt_node **nodes = mrt_graph_take_order(g);
  if (!nodes) return mrt_nomem(c->e);
  for (int i = 0; i < c->values; i++)
    if (!g->values[i]->node && c->format[i]) MRT_TRY(pack(c, g->values[i]));
  for (int i = 0; i < count; i++) {
    mrt_node *n = nodes[i];
    for (int k = 0; k < n->nin && reads_kept(n); k++)
      if (kept(c, n, k)) MRT_TRY(show(c, n->in[k], n->origin, &n->in[k]));
    MRT_TRY(mrt_graph_append(g, n));
    for (int k = 0; k < n->nout; k++)
      if (n->out[k]->id < c->values && c->format[n->out[k]->id])
        MRT_TRY(pack(c, n->out[k]));
  }
  return MRT_OK;
}

static mrt_status begin(compressing *c) {
  mrt_arena *a = &c->g->temporary;
  mrt_narrowing w = { .rewrite = c->rewrite, .g = c->g, .e = c->e };
  int n = c->values = c->g->value_count;
  MRT_TRY(mrt_narrow_small(&w));
  c->small = w.small;
  c->data = MRT_NEW(a, bool, n), c->read = MRT_NEW(a, bool, n);
  c->format = MRT_NEW(a, mrt_compress_format, n);
  c->codes = MRT_NEW(a, mrt_value *, n), c->scales = MRT_NEW(a, mrt_value *, n);
  c->shown = MRT_NEW(a, mrt_value *, n);
  if (!c->data || !c->read || !c->format || !c->codes || !c->scales ||
      !c->shown)
    return mrt_nomem(c->e);
  find_data(c);
  find_read(c);
  return MRT_OK;
}

mrt_status mrt_pass_compress(mrt_rewrite *r) {
  compressing c = { .rewrite = r, .g = r->graph, .e = &r->graph->ctx->error };
  int count;
  if (!r->options->compress && !r->compress->formats) return MRT_OK;
  MRT_TRY(begin(&c));
  mrt_value **all = list(&c, &count);
  if (!all) return mrt_nomem(c.e);
  if (!r->compress->formats) MRT_TRY(ask(&c, all, count));
  r->compress->values = 0, r->compress->from = r->compress->to = 0;
  for (int i = 0; i < count; i++)
    c.format[all[i]->id] = r->compress->formats[i];
  MRT_TRY(walk(&c));
  return mrt_pass_dce(r);
}
