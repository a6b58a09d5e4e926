/* partial.c -- a file in the making, beside the one that it will be
 *
 * It lies in the same folder as NAME.partial-0123456789abcdef, a name that
 * nobody can guess and nothing has, so that nothing that stands there, links
 * and pipes included, is ever opened.  It is under a lock that the kernel lifts
 * when the writer dies: of those of the same NAME, what is under none was left
 * behind, and goes.
 *
 * A path that is a symbolic link stays one: what it names is replaced.  Who may
 * read and write the file that is replaced may the new one.
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "io/partial.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DIGITS = 16, LONGEST_NAME = 200, MOST_LINKS = 40 };
static const char middle[] = ".partial-";

static mrt_status refuse(const char *path, int code, mrt_error *e) {
  return mrt_fail(e, MRT_EFILE, "%s: %s", path, strerror(code));
}

/* Where the name begins in a path. */
static size_t folder_of(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? (size_t)(slash - path) + 1 : 0;
}

/* ---- what it will be ----------------------------------------------------- */

/* Put what a link at `target` names in its place; false where it is no link. */
static bool follow(char target[PATH_MAX], int *code) {
  char link[PATH_MAX];
  ssize_t n = readlink(target, link, sizeof link);
  if (n < 0) return false;
  size_t folder = n && link[0] == '/' ? 0 : folder_of(target);
  if (folder + (size_t)n >= PATH_MAX) return *code = ENAMETOOLONG, false;
  memcpy(target + folder, link, (size_t)n);
  target[folder + (size_t)n] = 0;
  return true;
}

static mrt_status find_target(mrt_partial *p, const char *path, mrt_error *e) {
  int links = 0, code = 0;
  if (strlen(path) >= PATH_MAX) return refuse(path, ENAMETOOLONG, e);
  strcpy(p->target, path);
  while (follow(p->target, &code))
    if (++links > MOST_LINKS) code = ELOOP, p->target[0] = 0;
  return code ? refuse(path, code, e) : MRT_OK;
}

/* What is there now; st_mode 0: nothing. */
static mrt_status look(const mrt_partial *p, const char *path, struct stat *st,
                       mrt_error *e) {
  memset(st, 0, sizeof *st);
  if (lstat(p->target, st)) {
    memset(st, 0, sizeof *st);
    return errno == ENOENT ? MRT_OK : refuse(path, errno, e);
  }
  return S_ISREG(st->st_mode)
             ? MRT_OK
             : mrt_fail(e, MRT_EFILE, "%s: not a regular file", path);
}

/* ---- what was left behind ------------------------------------------------ */

/* The bytes of a partial's name before its digits. */
static size_t write_front(const char *target, char front[PATH_MAX]) {
  size_t folder = folder_of(target), n = strlen(target);
  if (n > folder + LONGEST_NAME) n = folder + LONGEST_NAME;
  memcpy(front, target, n);
  memcpy(front + n, middle, sizeof middle);
  return n + sizeof middle - 1;
}

static bool is_partial(const char *name, const char *front) {
  size_t n = strlen(front);
  return strncmp(name, front, n) == 0 && strlen(name) == n + DIGITS &&
         strspn(name + n, "0123456789abcdef") == DIGITS;
}

/* Does the open file stand under this name? */
static bool is_named(int file, int folder, const char *name) {
  struct stat a, b;
  return fstat(file, &a) == 0 &&
         fstatat(folder, name, &b, AT_SYMLINK_NOFOLLOW) == 0 &&
         a.st_ino == b.st_ino && a.st_dev == b.st_dev;
}

/* Can it be one of ours? */
static bool is_ours(int file) {
  struct stat st;
  return fstat(file, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink == 1 &&
         (st.st_uid == geteuid() || geteuid() == 0);
}

static void remove_if_dead(int folder, const char *name) {
  int file = openat(folder, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) return;
  if (is_ours(file) && flock(file, LOCK_EX | LOCK_NB) == 0 &&
      is_named(file, folder, name))
    unlinkat(folder, name, 0);
  close(file);
}

static void remove_dead(const mrt_partial *p) {
  char front[PATH_MAX], path[PATH_MAX];
  size_t folder = folder_of(p->target);
  write_front(p->target, front);
  memcpy(path, p->target, folder);
  strcpy(path + folder, folder ? "" : ".");
  DIR *dir = opendir(path);
  if (!dir) return;
  for (struct dirent *d; (d = readdir(dir));)
    if (is_partial(d->d_name, front + folder))
      remove_if_dead(dirfd(dir), d->d_name);
  closedir(dir);
}

/* ---- a new one ----------------------------------------------------------- */

static int write_path(mrt_partial *p) {
  uint64_t bits;
  if (getrandom(&bits, sizeof bits, 0) != sizeof bits) return errno;
  size_t n = write_front(p->target, p->path);
  if (n + DIGITS >= PATH_MAX) return ENAMETOOLONG;
  snprintf(p->path + n, DIGITS + 1, "%016llx", (unsigned long long)bits);
  return 0;
}

/* Before it has its lock, which comes a moment later, another may take it for
 * one that was left behind, and remove it: then it is made anew.  Where files
 * cannot be locked nobody removes them. */
static int make(mrt_partial *p, mode_t mode) {
  int code = 0;
  for (int tries = 0; tries < 100; tries++) {
    if ((code = write_path(p))) return code;
    p->file = open(p->path,
                   O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    if (p->file < 0 && errno != EEXIST) return errno;
    if (p->file < 0) continue;
    int locked = flock(p->file, LOCK_EX | LOCK_NB);
    if ((locked == 0 || errno != EWOULDBLOCK) &&
        is_named(p->file, AT_FDCWD, p->path))
      return 0;
    close(p->file), p->file = -1;
  }
  return EAGAIN;
}

/* Whose the old file is and who may do what with it.  Where its group cannot be
 * kept, ours gets no more than all have. */
static void take_after(int file, const struct stat *old) {
  struct stat st;
  mode_t mode = old->st_mode & 0777;
  if (fstat(file, &st) == 0 && st.st_uid != old->st_uid)
    (void)!fchown(file, old->st_uid, (gid_t)-1);
  if (fstat(file, &st) == 0 && st.st_gid != old->st_gid &&
      fchown(file, (uid_t)-1, old->st_gid))
    mode = (mode & ~(mode_t)070) | ((mode & 07) << 3 & mode);
  (void)!fchmod(file, mode);
}

mrt_status mrt_partial_open(mrt_partial *p, const char *path, mrt_error *e) {
  struct stat old;
  p->file = -1;
  MRT_TRY(find_target(p, path, e));
  MRT_TRY(look(p, path, &old, e));
  remove_dead(p);
  int code = make(p, old.st_mode ? 0600 : 0666);
  if (code) return refuse(path, code, e);
  if (old.st_mode) take_after(p->file, &old);
  return MRT_OK;
}
