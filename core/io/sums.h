/* sums.h -- checksums of a safetensors file, in its metadata
 *
 *     {"__metadata__":{"mrt.crc32":"5d1f00e2c0ffee11...", ...
 *
 * Eight hexadecimal digits for each CRC-32: the header's, taken with zeros in
 * this place, then that of each tensor in the order of the file.  The header
 * vouches for the tensors' sums and for all that it says; its own are first in
 * it, at a place that is known.
 *
 * Other readers see a string more.  As transformers refuses metadata that has
 * no "format", "pt" is written where the caller gives none: names and layouts
 * are PyTorch's.  Files without sums are read as they are.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_IO_SUMS_H
#define MRT_IO_SUMS_H

#include "io/io.h"

#define MRT_SUMS_KEY "mrt.crc32"

/* Where the digits begin in the header, and how many there are for n tensors. */
size_t mrt_sums_place(void);
size_t mrt_sums_size(int n);
/* Write the digits of `crcs` into a header that has zeros there, and its own. */
void mrt_sums_fill(char *header, size_t size, const uint32_t *crcs, int n);
/* Compare a header with its own sum, and tell the arrays of `s`, in the order of
 * the file, theirs.  EDATA otherwise. */
mrt_status mrt_sums_read(mrt_source *s, const uint8_t *header, size_t size,
                         const char *digits);

#endif
