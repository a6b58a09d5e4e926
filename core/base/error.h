/* error.h -- a status and one precise message
 *
 * Every function that can fail returns mrt_status; the message is written
 * once, where the facts are known, into the mrt_error that travels with the
 * call.  Nothing prints, nothing exits.
 *
 * Invariants
 *   - a function that returns anything but MRT_OK has written the message, or
 *     says in its contract that it has not;
 *   - a message names what was given and what was wanted, and never ends in a
 *     newline; front ends add where it was called
 *     (spec/bindings/misuse_spec.lua);
 *   - MRT_TRY passes a failure on as it is.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_BASE_ERROR_H
#define MRT_BASE_ERROR_H

#include "mrt/types.h"

typedef struct mrt_error {
  mrt_status status;
  size_t needed; /* of EBUDGET: bytes that would do; 0: unknown */
  char message[512];
} mrt_error;

#if defined(__GNUC__)
#define MRT_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define MRT_PRINTF(fmt, args)
#endif

/* Write the message and return `status`.  `e` may be NULL. */
mrt_status mrt_fail(mrt_error *e, mrt_status status, const char *fmt, ...)
    MRT_PRINTF(3, 4);

/* The one message for a failed allocation. */
mrt_status mrt_nomem(mrt_error *e);

/* Bytes as people read them, "4.00 TiB"; the messages' own. */
typedef struct mrt_size_text {
  char s[24];
} mrt_size_text;
mrt_size_text mrt_size_show(size_t bytes);

#define MRT_TRY(call)                                                          \
  do {                                                                         \
    mrt_status status_ = (call);                                               \
    if (status_ != MRT_OK) return status_;                                     \
  } while (0)

#define MRT_COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

#endif
