/* tiles.h -- has the processor tile registers that can be used?
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CPU_TILES_H
#define MRT_CPU_TILES_H

#include <stdbool.h>

/* It has them for bf16, the system lets this process use them, and a small
 * product in them is right.  Asks once. */
bool mrt_cpu_has_tiles(void);

#endif
