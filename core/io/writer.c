/* writer.c -- a file that appears whole or not at all
 *
 * What is written lies beside its place as PATH.partial, under a lock that the
 * kernel lifts when the writer dies; what a dead one left is written over.
 * After rename the folder is brought to the disk as well, so the file outlives
 * a loss of power.
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
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

static mrt_status refuse(const char *path, int code, mrt_error *e) {
  return mrt_fail(e, MRT_EFILE, "%s: %s", path, strerror(code));
}

/* Is the file that is open still the one of that name? */
static bool is_named(int file, const char *path) {
  struct stat a, b;
  return fstat(file, &a) == 0 && stat(path, &b) == 0 && a.st_ino == b.st_ino &&
         a.st_dev == b.st_dev;
}

static mrt_status lock(mrt_file_writer *w, mrt_error *e) {
  for (int tries = 0; tries < 100; tries++) {
    w->file = open(w->partial, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (w->file < 0) return refuse(w->partial, errno, e);
    if (flock(w->file, LOCK_EX | LOCK_NB)) {
      int code = errno;
      close(w->file), w->file = -1;
      if (code != EWOULDBLOCK) return refuse(w->partial, code, e);
      return mrt_fail(e, MRT_EFILE, "%s: somebody else is writing it", w->path);
    }
    if (is_named(w->file, w->partial)) {
      if (ftruncate(w->file, 0) == 0) return MRT_OK;
      return refuse(w->partial, errno, e);
    }
    close(w->file), w->file = -1; /* another has renamed it: begin anew */
  }
  return refuse(w->partial, EAGAIN, e);
}

mrt_status mrt_writer_open(mrt_file_writer *w, const mrt_allocator *a,
                           const char *path, mrt_error *e) {
  size_t n = strlen(path) + 1;
  *w = (mrt_file_writer){ .allocator = a, .file = -1 };
  w->path_size = n, w->partial_size = n + 8;
  w->path = mrt_calloc(a, w->path_size, 1);
  w->partial = mrt_calloc(a, w->partial_size, 1);
  if (!w->path || !w->partial) return mrt_nomem(e);
  memcpy(w->path, path, n);
  snprintf(w->partial, w->partial_size, "%s.partial", path);
  return lock(w, e);
}

mrt_status mrt_writer_put(mrt_file_writer *w, const void *data, size_t nbytes,
                          mrt_error *e) {
  const uint8_t *p = data;
  while (nbytes) {
    ssize_t n = write(w->file, p, nbytes);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return refuse(w->partial, errno, e);
    p += n, nbytes -= (size_t)n, w->written += (uint64_t)n;
  }
  return MRT_OK;
}

mrt_status mrt_writer_patch(mrt_file_writer *w, uint64_t at, const void *data,
                            size_t nbytes, mrt_error *e) {
  const uint8_t *p = data;
  while (nbytes) {
    ssize_t n = pwrite(w->file, p, nbytes, (off_t)at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return refuse(w->partial, errno, e);
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
static void sync_folder(mrt_file_writer *w) {
  char *slash = strrchr(w->partial, '/');
  const char *folder = slash == w->partial ? "/" : slash ? w->partial : ".";
  if (slash) *slash = 0; /* the name is not needed any more */
  int file = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) return;
  fsync(file);
  close(file);
}

mrt_status mrt_writer_commit(mrt_file_writer *w, mrt_error *e) {
  if (fsync(w->file)) return refuse(w->partial, errno, e);
  if (rename(w->partial, w->path)) return refuse(w->path, errno, e);
  int code = close(w->file) ? errno : 0; /* a late error of the disk */
  w->file = -1;
  sync_folder(w);
  return code ? refuse(w->path, code, e) : MRT_OK;
}

void mrt_writer_close(mrt_file_writer *w) {
  if (w->file >= 0) {
    unlink(w->partial);
    close(w->file);
  }
  mrt_release(w->allocator, w->path, w->path_size);
  mrt_release(w->allocator, w->partial, w->partial_size);
  *w = (mrt_file_writer){ .file = -1 };
}
