/* dag.h -- a planned graph as the solvers see it
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_PLAN_DAG_H
#define MRT_PLAN_DAG_H

#include "plan/plan.h"
#include "solve/order/dag.h"

/* Fill `dag`, all of it in `arena`, and value[buffer], the value that lives
 * there; `value` may be NULL.  With `barrier` one more node stands between all
 * index checks and all updates. */
mrt_status mrt_plan_dag(mrt_dag *dag, mrt_value ***value, const mrt_plan *plan,
                        mrt_arena *arena, bool barrier);

#endif
