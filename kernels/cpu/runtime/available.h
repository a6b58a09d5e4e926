/* available.h -- what this process can get: memory, cores
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CPU_AVAILABLE_H
#define MRT_CPU_AVAILABLE_H

#include <stddef.h>

/* Bytes, without swapping: the least of what the machine has and what the
 * process's control groups allow; 0: unknown. */
size_t mrt_cpu_available(void);
/* Cores that it may use at a time: no more than it may run on, or than its
 * groups' quotas come to, the last one begun counted. */
int mrt_cpu_cores(void);

#endif
