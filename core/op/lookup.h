/* lookup.h -- what was looked up in a table with fewer rows than results
 *
 * Its gradients are added up row by row of the table first: products with them
 * then have as many rows as the table.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_OP_LOOKUP_H
#define MRT_OP_LOOKUP_H

#include "op/build.h"

/* The table that the rows of x, of its dtype, were looked up in, NULL if there
 * is none with fewer rows; its ids, [rows of x], in *ids.  Borrowed. */
mrt_tensor *mrt_lookup_table(mrt_build *b, mrt_tensor *x, mrt_tensor **ids);

/* The gradient of a table whose results have the gradient `g`, if that is a
 * product dy @ w: dy's rows added up first, then the product.  Else NULL. */
mrt_tensor *mrt_lookup_product(mrt_build *b, mrt_tensor *table, mrt_tensor *ids,
                               mrt_tensor *g);

/* dy [rows of ids, N] added up by rows of `table`. */
mrt_tensor *mrt_lookup_sum(mrt_build *b, mrt_tensor *table, mrt_tensor *ids,
                           mrt_tensor *dy);

#endif
