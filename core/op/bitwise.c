/* bitwise.c -- bits of integers, and their common divisors and multiples
 *
 *   x, y   one dtype and one shape: i64 | i32 | u8; bool too for not, and, or
 *          and xor, where they are those of logic
 *   z      type of x; may take x's or y's storage
 *   note   a shift by less than 0, or by the dtype's bits and more, leaves 0,
 *          or -1 of a negative number shifted right; gcd(0, 0) is 0; both
 *          gcd and lcm are >= 0 unless the least integer is given, which has
 *          no opposite, and lcm wraps
 *   grad   none
 *   fails  EDTYPE, ESHAPE
 *
 * SPDX-License-Identifier: MIT */
#include "op/pointwise.h"

enum {
  INTEGERS = 1 << MRT_i64 | 1 << MRT_i32 | 1 << MRT_u8,
  BITS = INTEGERS | 1 << MRT_bool
};

static mrt_status infer_integers(mrt_infer *c) {
  return mrt_infer_among(c, INTEGERS);
}
static mrt_status infer_bits(mrt_infer *c) { return mrt_infer_among(c, BITS); }

#define BITWISE(op, inputs, text, types, flops_of, more)                       \
  const mrt_op mrt_op_##op = {                                                 \
    .name = #op,                                                               \
    .number = MRT_OP_##op,                                                     \
    .cost = MRT_COST_pointwise,                                                \
    .doc = text,                                                               \
    .min_inputs = inputs,                                                      \
    .max_inputs = inputs,                                                      \
    .infer = types,                                                            \
    .flops = flops_of,                                                         \
    .inplace = (1 << inputs) - 1,                                              \
    .strided = (1 << inputs) - 1,                                              \
    .width = MRT_FOLLOW,                                                       \
    .traits = MRT_POINTWISE | more,                                            \
  }

/* clang-format off */
BITWISE(bitwise_not, 1, "y = the bits of x, each inverted", infer_bits,
        mrt_flops_one, MRT_INVOLUTION);
BITWISE(bitwise_and, 2, "z = the bits that x and y both have", infer_bits,
        mrt_flops_one, MRT_COMMUTES);
BITWISE(bitwise_or, 2, "z = the bits that x or y has", infer_bits,
        mrt_flops_one, MRT_COMMUTES);
BITWISE(bitwise_xor, 2, "z = the bits that one of x and y has", infer_bits,
        mrt_flops_one, MRT_COMMUTES);
BITWISE(bitwise_left_shift, 2, "z = the bits of x, y places up",
        infer_integers, mrt_flops_one, 0);
BITWISE(bitwise_right_shift, 2, "z = the bits of x, y places down",
        infer_integers, mrt_flops_one, 0);
BITWISE(gcd, 2, "z = the greatest common divisor of x and y", infer_integers,
        mrt_flops_ten, MRT_COMMUTES);
BITWISE(lcm, 2, "z = the least common multiple of x and y", infer_integers,
        mrt_flops_ten, MRT_COMMUTES);
/* clang-format on */
