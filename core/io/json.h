/* json.h -- JSON from files nobody vouches for
 *
 * jansson parses: it refuses keys that come twice, NUL in strings, and text
 * that is no UTF-8, and says when memory is out.  What it builds may take
 * thirty times the text, so text that cannot be one of our documents is turned
 * away before: ours are flat, and of at most a million values (150,000
 * tensors), which take a second or two.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_IO_JSON_H
#define MRT_IO_JSON_H

#include "io/io.h"

#include <jansson.h>

/* Parse an object no deeper than `depth`, no list longer than `longest`.
 * json_decref what is returned; NULL: refused, with the message set. */
json_t *mrt_json_parse(mrt_source *s, const uint8_t *text, size_t size,
                       int depth, int longest, mrt_status *status);

#endif
