/* table.c -- all operators, by number
 *
 * The table names every row, so no row may name the table: what a gradient rule
 * makes by number it looks up in its context (mrt_context.ops), where
 * core/context.c puts this table.
 *
 * SPDX-License-Identifier: MIT */
#include "op/op.h"

#include <string.h>

#define OP(name)   extern const mrt_op mrt_op_##name;
#define VIEW(name) extern const mrt_op mrt_op_##name;
#include "ops.def"
#undef OP
#undef VIEW

const mrt_op *const mrt_ops[MRT_OP_COUNT] = {
#define OP(name)   [MRT_OP_##name] = &mrt_op_##name,
#define VIEW(name) [MRT_OP_##name] = &mrt_op_##name,
#include "ops.def"
#undef OP
#undef VIEW
};

MRT_API int mrt_op_count(void) { return MRT_OP_COUNT; }

MRT_API const mrt_op *mrt_op_at(int i) {
  return i >= 0 && i < MRT_OP_COUNT ? mrt_ops[i] : NULL;
}

MRT_API const mrt_op *mrt_op_find(const char *name) {
  for (int i = 0; i < MRT_OP_COUNT; i++)
    if (strcmp(mrt_ops[i]->name, name) == 0) return mrt_ops[i];
  return NULL;
}
