/* text.c -- a file as one text
 *
 * Only regular files: a pipe that nobody writes to would keep us for ever, and
 * some devices never end.  A file may grow while it is read, but not without
 * end.
 *
 * SPDX-License-Identifier: MIT */
#include "io/io.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum { GROWTH = 1 << 20 };

/* Up to `room` bytes, to the end of the file; more is refused. */
static mrt_status read_all(int file, char *text, size_t room, size_t *size,
                           mrt_error *e) {
  for (*size = 0; *size < room;) {
    ssize_t n = read(file, text + *size, room - *size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return mrt_fail(e, MRT_EFILE, "%s", strerror(errno));
    if (n == 0) return MRT_OK;
    *size += (size_t)n;
  }
  return mrt_fail(e, MRT_EFILE, "grows while it is read");
}

static mrt_status read_open(const mrt_bytes *in, char *text, size_t room,
                            size_t *size, mrt_error *e) {
  if (!text) return *size = in->size + GROWTH, MRT_OK;
  MRT_TRY(read_all(in->file, text, room, size, e));
  if (*size >= in->size) return MRT_OK;
  return mrt_fail(e, MRT_EFILE, "has become shorter while it was read");
}

MRT_API mrt_status mrt_file_read(mrt_context *ctx, const char *path, char *text,
                                 size_t room, size_t *size) {
  mrt_bytes in;
  mrt_error why;
  MRT_TRY(mrt_bytes_open(path, &in, &ctx->error));
  mrt_status status = read_open(&in, text, room, size, &why);
  mrt_bytes_close(NULL, &in);
  return status ? mrt_fail(&ctx->error, status, "%s: %s", path, why.message)
                : MRT_OK;
}
