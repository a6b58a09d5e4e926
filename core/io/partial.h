/* partial.h -- a file in the making, beside the one that it will be
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_IO_PARTIAL_H
#define MRT_IO_PARTIAL_H

#include "base/error.h"

#include <limits.h>

typedef struct mrt_partial {
  char target[PATH_MAX]; /* what it will be: links have been followed */
  char path[PATH_MAX];   /* what it is now */
  int file;              /* open for writing, under a lock; -1: none */
} mrt_partial;

/* Begin a file that is to be `path`; unlink it where it does not become that.
 * Fills `p`; EFILE, with the path, when there can be none, and then nothing is
 * left behind. */
mrt_status mrt_partial_open(mrt_partial *p, const char *path, mrt_error *e);

#endif
