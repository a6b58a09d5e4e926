/* writer.c -- a file that appears whole or not at all
 *
 * What is written lies beside its place (partial.h) until it is on the disk;
 * then it is renamed.  After that the folder is brought to the disk as well, so
 * the file outlives a loss of power.
 *
 *   from  Pillai et al., All File Systems Are Not Created Equal, OSDI 2014
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "io/io.h"
#include "tensor/tensor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

static mrt_status refuse(const mrt_file_writer *w, int code, mrt_error *e) {
  return mrt_fail(e, MRT_EFILE, "%s: %s", w->partial.target, strerror(code));
}

mrt_status mrt_writer_open(mrt_file_writer *w, const char *path, mrt_error *e) {
  *w = (mrt_file_writer){ .written = 0 };
  return mrt_partial_open(&w->partial, path, e);
}

mrt_status mrt_writer_put(mrt_file_writer *w, const void *data, size_t nbytes,
                          mrt_error *e) {
  const uint8_t *p = data;
  while (nbytes) {
    ssize_t n = write(w->partial.file, p, nbytes);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return refuse(w, errno, e);
    p += n, nbytes -= (size_t)n, w->written += (uint64_t)n;
  }
  return MRT_OK;
}

mrt_status mrt_writer_patch(mrt_file_writer *w, uint64_t at, const void *data,
                            size_t nbytes, mrt_error *e) {
  const uint8_t *p = data;
  while (nbytes) {
    ssize_t n = pwrite(w->partial.file, p, nbytes, (off_t)at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return refuse(w, errno, e);
    p += n, nbytes -= (size_t)n, at += (uint64_t)n;
  }
  return MRT_OK;
}

mrt_status mrt_writer_put_tensor(mrt_file_writer *w, mrt_tensor *t,
                                 uint32_t *crc, mrt_error *e) {
  MRT_TRY(mrt_tensors_read(mrt_tensor_context(t), &t, 1));
  const void *data = mrt_tensor_data(t);
  size_t size = mrt_type_bytes(mrt_tensor_type(t));
  if (crc) *crc = size ? (uint32_t)crc32_z(0, data, size) : 0;
  mrt_status status = mrt_writer_put(w, data, size, e);
  mrt_tensor_leave(t);
  return status;
}

/* Bring the folder to the disk; some file systems cannot. */
static void sync_folder(char *path) {
  char *slash = strrchr(path, '/');
  const char *folder = slash == path ? "/" : slash ? path : ".";
  if (slash) *slash = 0; /* the name is not needed any more */
  int file = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) return;
  fsync(file);
  close(file);
}

mrt_status mrt_writer_commit(mrt_file_writer *w, mrt_error *e) {
  mrt_partial *p = &w->partial;
  if (fsync(p->file)) return refuse(w, errno, e);
  if (rename(p->path, p->target)) return refuse(w, errno, e);
  int code = close(p->file) ? errno : 0; /* a late error of the disk */
  p->file = -1;
  sync_folder(p->path);
  return code ? refuse(w, code, e) : MRT_OK;
}

void mrt_writer_close(mrt_file_writer *w) {
  if (w->partial.file < 0) return;
  unlink(w->partial.path);
  close(w->partial.file);
  w->partial.file = -1;
}

MRT_API mrt_status mrt_file_write(mrt_context *ctx, const char *path,
                                  const char *text, size_t size) {
  mrt_file_writer w;
  mrt_error *e = &ctx->error;
  mrt_status status = mrt_writer_open(&w, path, e);
  if (!status) status = mrt_writer_put(&w, text, size, e);
  if (!status) status = mrt_writer_commit(&w, e);
  mrt_writer_close(&w);
  return status;
}
