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

mrt_size_text mrt_size_show(size_t bytes) {
  static const char *const units[] = { "KiB", "MiB", "GiB", "TiB", "PiB" };
  mrt_size_text text;
  double n = (double)bytes;
  int unit = -1;
  while (n >= 1024 && unit < MRT_COUNT(units) - 1) n /= 1024, unit++;
  if (unit < 0)
    snprintf(text.s, sizeof text.s, "%zu B", bytes);
  else
    snprintf(text.s, sizeof text.s, "%.*f %s", n < 10 ? 2 : 1, n, units[unit]);
  return text;
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
