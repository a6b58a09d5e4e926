/* error.c -- writing the message
 *
 * SPDX-License-Identifier: MIT */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>

mrt_status mrt_fail(mrt_error *e, mrt_status status, const char *fmt, ...) {
  if (e) {
    va_list args;
    va_start(args, fmt);
    vsnprintf(e->message, sizeof e->message, fmt, args);
    va_end(args);
    e->status = status, e->needed = 0;
  }
  return status;
}

mrt_status mrt_nomem(mrt_error *e) {
  return mrt_fail(e, MRT_ENOMEM, "out of memory");
}

MRT_API const char *mrt_status_name(mrt_status status) {
  static const char *const names[] = {
    "ok",
#define ERROR(name, text) text,
#include "mrt/errors.def"
#undef ERROR
  };
  return (unsigned)status < (unsigned)MRT_COUNT(names) ? names[status]
                                                       : "unknown";
}
