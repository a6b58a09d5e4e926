#include "plan/schedule.h"
mrt_status mrt_schedule_solve(mrt_arena *arena, mrt_error *e,
                              const mrt_problem *p, const uint8_t *may,
                              int64_t budget, mrt_schedule *out) {
  (void)arena;
  (void)p;
  (void)may;
  (void)budget;
  (void)out;
  return mrt_fail(e, MRT_EBUDGET, "no solver");
}
