/* bytes.c -- the bytes of a file, read where they are wanted
 *
 * Files are not mapped: one that somebody cuts or writes anew while it is read
 * would end the process (SIGBUS).  What is read is copied into memory of ours,
 * and a file that ends too early is told.
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "io/io.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static mrt_status refuse(const char *path, int code, mrt_error *e) {
  return mrt_fail(e, MRT_EFILE, "%s: %s", path, strerror(code));
}

static mrt_status look_at(const char *path, mrt_bytes *in, mrt_error *e) {
  struct stat st;
  if (fstat(in->file, &st)) return refuse(path, errno, e);
  if (!S_ISREG(st.st_mode))
    return mrt_fail(e, MRT_EFILE, "%s: not a regular file", path);
  in->size = (size_t)st.st_size;
  return MRT_OK;
}

/* O_NONBLOCK: a pipe that nobody writes to is refused, not waited for. */
mrt_status mrt_bytes_open(const char *path, mrt_bytes *in, mrt_error *e) {
  *in = (mrt_bytes){ .file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK |
                                            O_NOCTTY) };
  if (in->file < 0) return refuse(path, errno, e);
  mrt_status status = look_at(path, in, e);
  if (status) mrt_bytes_close(NULL, in);
  return status;
}

void mrt_bytes_close(const mrt_allocator *a, mrt_bytes *in) {
  if (in->owned) mrt_release(a, (void *)in->data, in->owned);
  if (in->file >= 0) close(in->file);
  *in = (mrt_bytes){ .file = -1 };
}

static mrt_status shorter(mrt_error *e) {
  return mrt_fail(e, MRT_EFILE, "has become shorter while it was read");
}

mrt_status mrt_bytes_check(const mrt_bytes *in, mrt_error *e) {
  struct stat st;
  if (in->file < 0) return MRT_OK;
  if (fstat(in->file, &st))
    return mrt_fail(e, MRT_EFILE, "%s", strerror(errno));
  return (uint64_t)st.st_size < in->size ? shorter(e) : MRT_OK;
}

mrt_status mrt_bytes_read(const mrt_bytes *in, size_t at, void *to, size_t n,
                          mrt_error *e) {
  uint8_t *p = to;
  if (in->data) {
    if (n) memcpy(p, in->data + at, n);
    return MRT_OK;
  }
  while (n) {
    ssize_t got = pread(in->file, p, n, (off_t)at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return mrt_fail(e, MRT_EFILE, "%s", strerror(errno));
    if (got == 0) return shorter(e);
    p += got, n -= (size_t)got, at += (size_t)got;
  }
  return MRT_OK;
}

void mrt_bytes_advise(const mrt_bytes *in, size_t offset, size_t nbytes) {
  if (in->file < 0) return;
  (void)posix_fadvise(in->file, (off_t)offset, (off_t)nbytes,
                      POSIX_FADV_WILLNEED);
}
