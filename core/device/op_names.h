/* op_names.h -- the operators of this tree, in order, as one string
 *
 * For plug-ins, which know operators by number: one that was built of another
 * tree is told by it.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_DEVICE_OP_NAMES_H
#define MRT_DEVICE_OP_NAMES_H

static const char mrt_op_names[] =
#define OP(name)   #name " "
#define VIEW(name) #name " "
#include "ops.def"
#undef OP
#undef VIEW
    ;

#endif
