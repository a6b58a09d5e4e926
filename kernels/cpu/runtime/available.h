/* available.h -- how much memory can this process still get?
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CPU_AVAILABLE_H
#define MRT_CPU_AVAILABLE_H

#include <stddef.h>

/* Bytes, without swapping: the least of what the machine has and what the
 * process's control groups allow; 0: unknown. */
size_t mrt_cpu_available(void);

#endif
