/* faulty_disk.c -- a library to preload: a disk that fails at the n-th call
 *
 * Of the calls on files and folders whose path has MRT_FAULTY in it,
 * the MRT_FAULTY_AT-th fails, and all after it if MRT_FAULTY_ALL is set: no
 * space or an I/O error in turn, of a write every other time after half of its
 * bytes.  Each call adds a byte to the file MRT_FAULTY_COUNT.
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))(uintptr_t)dlsym(RTLD_NEXT, #name))

static bool within(const char *path) {
  const char *folder = getenv("MRT_FAULTY");
  return folder && path && strstr(path, folder);
}

static bool is_of(int fd) {
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, path, sizeof path - 1);
  path[n > 0 ? n : 0] = 0;
  return within(path);
}

/* Counts a call; whether it fails, with errno. */
static bool fails(bool counts) {
  static long calls;
  const char *at = getenv("MRT_FAULTY_AT"), *file = getenv("MRT_FAULTY_COUNT");
  if (!counts) return false;
  long n = __atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST);
  int log = file ? (int)syscall(SYS_openat, AT_FDCWD, file,
                                O_WRONLY | O_APPEND | O_CREAT, 0600)
                 : -1;
  if (log >= 0) {
    if (syscall(SYS_write, log, ".", 1) != 1) abort();
    syscall(SYS_close, log);
  }
  long first = at ? atol(at) : 0;
  bool now = getenv("MRT_FAULTY_ALL") ? n >= first : n == first;
  if (!first || !now) return false;
  errno = first % 2 ? ENOSPC : EIO;
  return true;
}

static size_t half(size_t size) {
  const char *at = getenv("MRT_FAULTY_AT");
  return at && atol(at) / 2 % 2 ? size / 2 : 0;
}

ssize_t write(int fd, const void *data, size_t size) {
  if (!fails(is_of(fd))) return REAL(write)(fd, data, size);
  size_t some = half(size);
  return some ? REAL(write)(fd, data, some) : -1;
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t at) {
  if (!fails(is_of(fd))) return REAL(pwrite)(fd, data, size, at);
  size_t some = half(size);
  return some ? REAL(pwrite)(fd, data, some, at) : -1;
}

/* Before the buffer takes it: as a full disk shows itself sooner or later. */
size_t fwrite(const void *data, size_t size, size_t n, FILE *file) {
  if (!fails(is_of(fileno(file)))) return REAL(fwrite)(data, size, n, file);
  return 0;
}

int fflush(FILE *file) {
  return fails(file && is_of(fileno(file))) ? EOF : REAL(fflush)(file);
}

int fclose(FILE *file) {
  bool failed = fails(is_of(fileno(file)));
  int error = errno, status = REAL(fclose)(file);
  if (failed) errno = error;
  return failed ? EOF : status;
}

FILE *fopen(const char *path, const char *mode) {
  return fails(within(path)) ? NULL : REAL(fopen)(path, mode);
}

int open(const char *path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(list, int) : 0;
  va_end(list);
  return fails(within(path)) ? -1 : REAL(open)(path, flags, mode);
}

int openat(int folder, const char *path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(list, int) : 0;
  va_end(list);
  bool ours = within(path) || (folder >= 0 && is_of(folder));
  return fails(ours) ? -1 : REAL(openat)(folder, path, flags, mode);
}

int fsync(int fd) { return fails(is_of(fd)) ? -1 : REAL(fsync)(fd); }

int ftruncate(int fd, off_t size) {
  return fails(is_of(fd)) ? -1 : REAL(ftruncate)(fd, size);
}

int rename(const char *from, const char *to) {
  return fails(within(to)) ? -1 : REAL(rename)(from, to);
}

int unlink(const char *path) {
  return fails(within(path)) ? -1 : REAL(unlink)(path);
}

int mkdir(const char *path, mode_t mode) {
  return fails(within(path)) ? -1 : REAL(mkdir)(path, mode);
}
ssize_t read(int fd, void *data, size_t size) {
  return fails(is_of(fd)) ? -1 : REAL(read)(fd, data, size);
}

ssize_t pread(int fd, void *data, size_t size, off_t at) {
  return fails(is_of(fd)) ? -1 : REAL(pread)(fd, data, size, at);
}
