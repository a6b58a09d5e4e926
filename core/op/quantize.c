/* quantize.c -- numbers in 8 or 4 bits, a scale for each block of them
 *
 *   quantize          code = the one whose value is nearest to w / scale,
 *                     scale = largest |w| of the block
 *   dequantize        w = value[code] * scale
 *   quantized_linear  y = x @ w^T + bias, or with `transposed` y = x @ w, for
 *                     w = dequantize(codes, scales), which is never stored
 *
 *   kind      int8  (code - 128) / 127, codes 1 to 255
 *             nf4   16 values as likely as each other among normal numbers
 *             fp4   0, 1/192, 1/6, 1/4, 1/3, 1/2, 2/3, 1, with sign
 *             q4_0  code - 8, q8_0  a signed code: GGUF's, with its rounding;
 *                   scale = the w of largest |w| / -8, largest |w| / 127
 *   block     runs along the last dimension; the last of a row may be shorter.
 *             0: 64 for 4 bits, the whole row for int8; q4_0 and q8_0 have 32
 *   w         [..., K], f32 | f64
 *   x bias    floats of any width, f64 where the scales are
 *   y         the wider dtype of x and bias; f32 of two equally wide
 *   rule      x and w are rounded to `compute`, where that is given; the sum and
 *             the bias are added in f32 (f64), and that is rounded once
 *   activations
 *             exact: x as it is.  int8: each row of x is rounded to blocks of 32
 *             along K, x ~ code * sx, sx = largest |x| of the block / 127, code =
 *             x * (127 / largest |x|) to the nearest, ties to even; a block
 *             without a number of 4e-37 is 0, one with a number that is not finite
 *             has NaN for sx.  Of w, by kind, the number that is multiplied and
 *             sw: q4_0 and q8_0 as above; int8 code - 128 and scale / 127; nf4 and
 *             fp4 127 * value to the nearest, halves away from 0, and scale / 127, so that these
 *             weights too are off, by 1/254 of the scale at most.  Then
 *               y = sum over blocks of f32(sum of code * number) * (sx * sw) + bias
 *             the inner sums exact, all else rounded to f32 one by one, blocks in
 *             their order: the same bits on any processor.  `compute` changes
 *             nothing.  Not of f64, nor of transposed; block is a multiple of 32,
 *             or K and more
 *   codes     [..., K], or for 4 bits [..., (K + 1) / 2], u8: two to a byte.
 *             q4_0: 16 bytes a block, whose byte j has numbers j and j + 16
 *   scales    [..., K / block rounded up], dtype of w; q4_0 and q8_0: f16, or
 *             f32 if given so, and f64 beside f64.  NaN where the block has a
 *             number that is not finite: so its values are NaN
 *   columns   K, where the codes do not tell; 0: as many as they hold
 *   cost      quantized_linear holds strips of w, in scratch; of int8 x
 *   grad      quantized_linear: dx, by the same operator, and dbias, each in the
 *             dtype of its input; codes and scales are constants.  dx is that of
 *             exact activations
 *   fails     EDTYPE, ESHAPE;  EVALUE  a negative or, for 4 bits, odd block; what
 *             int8 activations are not of
 *   from      Dettmers et al. 2022, arXiv:2110.02861 (blocks); Dettmers et al.
 *             2023, arXiv:2305.14314 (nf4); bitsandbytes (values of fp4)
 *
 * SPDX-License-Identifier: MIT */
#include "op/quantize.h"
#include "op/build.h"
#include "op/matmul.h"

static const char kinds[] = "int8 nf4 fp4 q4_0 q8_0";
static const char activations[] = "exact int8";
static const mrt_option options[] = {
  MRT_OPTION(mrt_quantize_options, kind, MRT_OPT_ENUM,
             .preset = MRT_QUANTIZE_INT8, .words = kinds),
  MRT_OPTION(mrt_quantize_options, block, MRT_OPT_INT),
  MRT_OPTION(mrt_quantize_options, columns, MRT_OPT_INT),
  MRT_OPTION(mrt_quantize_options, transposed, MRT_OPT_BOOL),
  MRT_OPTION(mrt_quantize_options, compute, MRT_OPT_DTYPE,
             .preset = MRT_DTYPE_COUNT),
  MRT_OPTION(mrt_quantize_options, activations, MRT_OPT_ENUM,
             .preset = MRT_ACTIVATIONS_EXACT, .words = activations),
};
/* How many of them each row has. */
enum { OF_QUANTIZE = 2, OF_DEQUANTIZE = 3, OF_LINEAR = 6 };

static int64_t ceil_div(int64_t a, int64_t b) { return a / b + (a % b != 0); }

/* The block of rows of `columns`. */
static mrt_status set_block(mrt_infer *c, int64_t columns) {
  mrt_quantize_options *o = c->options;
  bool bytes = o->kind == MRT_QUANTIZE_INT8;
  if (mrt_quantize_is_gguf(o->kind)) {
    if (o->block != 0 && o->block != MRT_QUANTIZE_BLOCK)
      return mrt_refuse(c, MRT_EVALUE, "block %lld, %d wanted",
                        (long long)o->block, MRT_QUANTIZE_BLOCK);
    o->block = MRT_QUANTIZE_BLOCK;
  }
  if (o->block < 0 || (!bytes && o->block % 2))
    return mrt_refuse(c, MRT_EVALUE, "block %lld, %s wanted",
                      (long long)o->block,
                      bytes ? "a positive number" : "a positive, even number");
  if (o->block == 0) o->block = bytes ? columns + (columns == 0) : 64;
  return MRT_OK;
}

static mrt_status infer_quantize(mrt_infer *c) {
  const mrt_quantize_options *o = c->options;
  const mrt_type *w = c->in[0];
  MRT_TRY(mrt_want_real(c, 0));
  if (w->rank == 0)
    return mrt_refuse(c, MRT_ESHAPE, "%s, at least one dimension wanted",
                      mrt_show(w).s);
  int last = w->rank - 1;
  MRT_TRY(set_block(c, w->dims[last]));
  c->nout = 2;
  c->out[0] = c->out[1] = *w;
  c->out[0].dtype = MRT_u8;
  c->out[0].dims[last] = mrt_quantize_bytes(o->kind, w->dims[last]);
  if (mrt_quantize_is_gguf(o->kind) && w->dtype != MRT_f64)
    c->out[1].dtype = MRT_f16;
  c->out[1].dims[last] = ceil_div(w->dims[last], o->block);
  return MRT_OK;
}

static mrt_status want_scales(mrt_infer *c, int i) {
  const mrt_quantize_options *o = c->options;
  bool gguf = mrt_quantize_is_gguf(o->kind);
  return gguf && c->in[i]->dtype == MRT_f16 ? MRT_OK : mrt_want_real(c, i);
}

/* Codes and scales are inputs i and i + 1: set and check columns and block. */
static mrt_status want_codes(mrt_infer *c, int i) {
  mrt_quantize_options *o = c->options;
  const mrt_type *codes = c->in[i];
  int pack = mrt_quantize_pack(o->kind), last = codes->rank - 1;
  MRT_TRY(mrt_want_dtype(c, i, MRT_u8));
  MRT_TRY(want_scales(c, i + 1));
  if (codes->rank == 0)
    return mrt_refuse(c, MRT_ESHAPE, "codes %s, at least one dimension wanted",
                      mrt_show(codes).s);
  if (o->columns == 0) o->columns = pack * codes->dims[last];
  if (o->columns < 0 ||
      mrt_quantize_bytes(o->kind, o->columns) != codes->dims[last])
    return mrt_refuse(c, MRT_ESHAPE, "codes %s for %lld columns, %d to a byte",
                      mrt_show(codes).s, (long long)o->columns, pack);
  MRT_TRY(set_block(c, o->columns));
  mrt_type wanted = *codes;
  wanted.dims[last] = ceil_div(o->columns, o->block);
  return mrt_want_shape(c, i + 1, wanted.rank, wanted.dims,
                        "one scale for each block of codes");
}

static mrt_status infer_dequantize(mrt_infer *c) {
  const mrt_quantize_options *o = c->options;
  MRT_TRY(want_codes(c, 0));
  c->out[0] = *c->in[0];
  c->out[0].dtype = c->in[1]->dtype == MRT_f64 ? MRT_f64 : MRT_f32;
  c->out[0].dims[c->out[0].rank - 1] = o->columns;
  return MRT_OK;
}

/* Input i is a float, f64 where the scales are. */
static mrt_status want_beside_scales(mrt_infer *c, int i) {
  MRT_TRY(mrt_want_float(c, i));
  if ((c->in[i]->dtype == MRT_f64) == (c->in[2]->dtype == MRT_f64))
    return MRT_OK;
  return mrt_want_same_dtype(c, i, 2);
}

/* What rows in int8 are multiplied with; `columns` of w are known. */
static mrt_status want_exact_sums(mrt_infer *c) {
  const mrt_quantize_options *o = c->options;
  if (o->activations == MRT_ACTIVATIONS_EXACT) return MRT_OK;
  if (c->in[0]->dtype == MRT_f64)
    return mrt_refuse(c, MRT_EDTYPE,
                      "activations int8 of x %s, f32 or narrower wanted",
                      mrt_show(c->in[0]).s);
  if (o->transposed)
    return mrt_refuse(c, MRT_EVALUE, "activations int8 with transposed");
  if (o->block % MRT_QUANTIZE_BLOCK && o->block < o->columns)
    return mrt_refuse(
        c, MRT_EVALUE,
        "block %lld, a multiple of %d wanted for activations int8",
        (long long)o->block, MRT_QUANTIZE_BLOCK);
  return MRT_OK;
}

/* x, codes, scales[, bias] */
static mrt_status infer_linear(mrt_infer *c) {
  mrt_quantize_options *o = c->options;
  const mrt_type *x = c->in[0], *codes = c->in[1];
  MRT_TRY(want_beside_scales(c, 0));
  MRT_TRY(mrt_want_compute(c, o->compute));
  if (x->rank == 0 || codes->rank != 2)
    return mrt_refuse(
        c, MRT_ESHAPE,
        "x %s and codes %s, at least one dimension and two wanted",
        mrt_show(x).s, mrt_show(codes).s);
  int last = x->rank - 1;
  if (!o->transposed && o->columns == 0) o->columns = x->dims[last];
  MRT_TRY(want_codes(c, 1));
  MRT_TRY(want_exact_sums(c));
  int64_t rows = codes->dims[0], inner = o->transposed ? rows : o->columns;
  int64_t outer = o->transposed ? o->columns : rows;
  if (x->dims[last] != inner)
    return mrt_refuse(c, MRT_ESHAPE, "x %s, %lld columns wanted", mrt_show(x).s,
                      (long long)inner);
  c->out[0] = *x;
  if (c->nin == 4) {
    MRT_TRY(want_beside_scales(c, 3));
    MRT_TRY(mrt_want_shape(c, 3, 1, &outer, "one bias for each result"));
    c->out[0].dtype = mrt_wider_float(x->dtype, c->in[3]->dtype);
  }
  c->out[0].dims[last] = outer;
  return MRT_OK;
}

static void linear_gradient(mrt_build *b) {
  mrt_quantize_options o = *(const mrt_quantize_options *)b->options;
  mrt_tensor *dy = b->dout[0];
  o.transposed = !o.transposed;
  o.activations = MRT_ACTIVATIONS_EXACT;
  if (b->wants[0])
    b->din[0] = mrt_cast_to(
        b, MRT_MAKE(b, quantized_linear, &o, dy, b->in[1], b->in[2]),
        mrt_of(b->in[0])->dtype);
  if (b->nin < 4 || !b->wants[3]) return;
  mrt_ints rows = { .count = mrt_of(dy)->rank - 1 };
  for (int i = 0; i < rows.count; i++) rows.at[i] = i;
  if (rows.count) dy = mrt_sum_dims(b, dy, &rows, false);
  b->din[3] = mrt_cast_to(b, dy, mrt_of(b->in[3])->dtype);
}

static int linear_shard_rule(const mrt_signature *s, int input, int dim) {
  int last = s->in[0]->rank - 1;
  if (input == 0 && dim < last) return dim;
  return MRT_RULE_UNKNOWN;
}
static int quantize_shard_rule(const mrt_signature *s, int input, int dim) {
  return dim < s->in[0]->rank - 1 ? dim : MRT_RULE_UNKNOWN;
}

static mrt_product product(const mrt_signature *s) {
  const mrt_type *x = s->in[0], *y = s->out[0];
  int last = x->rank - 1;
  return (mrt_product){ .count = 1,
                        .m = (double)mrt_extent(x, 0, last),
                        .n = (double)y->dims[last],
                        .k = (double)x->dims[last] };
}
/* The product, the bias, and each weight looked up and scaled. */
static double linear_flops(const mrt_signature *s) {
  mrt_product p = product(s);
  return 2 * p.m * p.n * p.k + (s->nin == 4 ? p.m * p.n : 0) + p.n * p.k;
}
static double quantize_flops(const mrt_signature *s) {
  return 4 * (double)mrt_type_count(s->in[0]);
}
static double dequantize_flops(const mrt_signature *s) {
  return (double)mrt_type_count(s->out[0]);
}

const mrt_op mrt_op_quantize = {
  .name = "quantize",
  .number = MRT_OP_quantize,
  .cost = MRT_COST_pointwise,
  .doc = "codes nearest to w / scale; scales = max |w| of each block",
  .min_inputs = 1,
  .max_inputs = 1,
  .options = options,
  .option_count = OF_QUANTIZE,
  .options_size = sizeof(mrt_quantize_options),
  .infer = infer_quantize,
  .shard_rule = quantize_shard_rule,
  .flops = quantize_flops,
  .width = MRT_WIDE,
};
const mrt_op mrt_op_dequantize = {
  .name = "dequantize",
  .number = MRT_OP_dequantize,
  .cost = MRT_COST_pointwise,
  .doc = "w = value[code] * scale of the block",
  .min_inputs = 2,
  .max_inputs = 2,
  .options = options,
  .option_count = OF_DEQUANTIZE,
  .options_size = sizeof(mrt_quantize_options),
  .infer = infer_dequantize,
  .shard_rule = quantize_shard_rule,
  .flops = dequantize_flops,
  .width = MRT_WIDE,
};
const mrt_op mrt_op_quantized_linear = {
  .name = "quantized_linear",
  .number = MRT_OP_quantized_linear,
  .cost = MRT_COST_matmul,
  .doc =
      "y = x @ w^T + bias for w = dequantize(codes, scales); transposed: x @ w",
  .min_inputs = 3,
  .max_inputs = 4,
  .options = options,
  .option_count = OF_LINEAR,
  .options_size = sizeof(mrt_quantize_options),
  .infer = infer_linear,
  .shard_rule = linear_shard_rule,
  .grad = linear_gradient,
  .flops = linear_flops,
  .product = product,
  .width = MRT_NARROW,
  .narrow_outputs = 1,
  .wide_inputs = 4,
};
