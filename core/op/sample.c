/* sample.c -- poisson, binomial, standard_gamma: draw with given parameters
 *
 *   poisson         y = k with probability e^-rate rate^k / k!
 *   binomial        y = how many of n trials of probability p succeed
 *   standard_gamma  y has density y^(a - 1) e^-y / Gamma(a)
 *   standard_gamma_grad   dy/da at fixed probability: -(dP(a, y)/da) / density,
 *                   P the regularised incomplete gamma function
 *
 *   parameters  any shape, f32 | f64; drawn in f64 and rounded once, so that
 *               both dtypes draw the same
 *   y           their type; NaN where a parameter cannot be (rate < 0 or not
 *               finite, a <= 0, p outside [0, 1], n < 0 or no integer).
 *               standard_gamma: the smallest normal number in place of less
 *   devices     no pointwise rows, as loops of no known length fuse with nothing:
 *               the CPU computes them
 *   methods     exact, by rejection; element i takes words of Philox counters
 *               of its own, so its number depends on its index alone
 *   grad        standard_gamma: that of y as a function of a (implicit
 *               reparameterisation), once; poisson and binomial: none
 *   from        Hoermann, Insurance: Mathematics and Economics 12 (1993), PTRS;
 *               Hoermann, J. Statist. Comput. Simul. 46 (1993), BTRS; Devroye
 *               1986, X.4.3; Marsaglia & Tsang, ACM TOMS 26 (2000);
 *               Figurnov, Mohamed & Mnih, arXiv:1805.08498
 *
 * SPDX-License-Identifier: MIT */
#include "op/sample.h"
#include "op/pointwise.h"

static const mrt_option options[] = {
  MRT_OPTION(mrt_sample_options, key, MRT_OPT_HIDDEN),
  MRT_OPTION(mrt_sample_options, seed, MRT_OPT_HIDDEN),
  MRT_OPTION(mrt_sample_options, inner, MRT_OPT_HIDDEN),
};

static double flops(const mrt_signature *s) { return 100 * mrt_flops_one(s); }

static void gamma_gradient(mrt_build *b) {
  mrt_tensor *slope =
      MRT_MAKE(b, standard_gamma_grad, NULL, b->in[0], b->out[0]);
  b->din[0] = mrt_mul(b, b->dout[0], slope);
}

#define DRAWS(op, inputs, what, ...)                                           \
  const mrt_op mrt_op_##op = { .name = #op,                                    \
                               .number = MRT_OP_##op,                          \
                               .cost = MRT_COST_random,                        \
                               .doc = (what),                                  \
                               .min_inputs = (inputs),                         \
                               .max_inputs = (inputs),                         \
                               MRT_OPTIONS(options, mrt_sample_options),       \
                               .infer = mrt_infer_reals,                       \
                               .shard_rule = mrt_shard_rules_same,             \
                               .flops = flops,                                 \
                               .width = MRT_WIDE,                              \
                               __VA_ARGS__ }

DRAWS(poisson, 1, "y = a whole number with mean and variance x, at random",
      .traits = MRT_RANDOM);
DRAWS(binomial, 2, "y = how many of x trials of probability p succeed",
      .traits = MRT_RANDOM);
DRAWS(standard_gamma, 1, "y = a random number of density y^(x-1) e^-y / G(x)",
      .grad = gamma_gradient, .traits = MRT_RANDOM | MRT_LIBRARY);

const mrt_op mrt_op_standard_gamma_grad = {
  .name = "standard_gamma_grad",
  .number = MRT_OP_standard_gamma_grad,
  .cost = MRT_COST_activation,
  .doc = "dy/dx of y = standard_gamma(x), for x, y",
  .min_inputs = 2,
  .max_inputs = 2,
  .infer = mrt_infer_reals,
  .shard_rule = mrt_shard_rules_same,
  .flops = flops,
  .width = MRT_WIDE,
  .traits = MRT_LIBRARY,
};
