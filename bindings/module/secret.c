/* secret.c -- what a user's processes know and nobody else: a file of theirs
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* O_NOFOLLOW */
#include "binding.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BYTES = 16, DIGITS = 2 * BYTES, PATH_ROOM = 4096 };

static int say(lua_State *L, const char *path, const char *why) {
  lua_pushnil(L);
  lua_pushfstring(L, "%s: %s", path, why);
  return 2;
}

static bool write_digits(int file) {
  unsigned char bytes[BYTES];
  char digits[DIGITS + 1];
  if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes) return false;
  for (int i = 0; i < BYTES; i++)
    snprintf(digits + 2 * i, 3, "%02x", (unsigned)bytes[i]);
  return write(file, digits, DIGITS) == DIGITS && fsync(file) == 0;
}

/* Appears whole, and only if there is none: of several that make one at a time
 * all take the first.  0 or errno. */
static int make(const char *path) {
  char beside[PATH_ROOM];
  int n = snprintf(beside, sizeof beside, "%s.%ld", path, (long)getpid());
  if (n >= (int)sizeof beside) return ENAMETOOLONG;
  int file =
      open(beside, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file < 0) return errno;
  int code = write_digits(file) ? 0 : errno ? errno : EIO;
  close(file);
  if (!code && link(beside, path) && errno != EEXIST) code = errno;
  unlink(beside);
  return code;
}

/* secret(path) -> the text of that file, which is made if there is none; or nil
 * and why: others can read it. */
static int secret(lua_State *L) {
  const char *path = luaL_checkstring(L, 1);
  char digits[DIGITS];
  struct stat about;
  int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  int file = open(path, flags), code = 0;
  if (file < 0 && errno == ENOENT && !(code = make(path)))
    file = open(path, flags);
  if (file < 0) return say(L, path, strerror(code ? code : errno));
  const char *wrong = NULL;
  if (fstat(file, &about) || !S_ISREG(about.st_mode))
    wrong = "no regular file";
  else if (about.st_uid != geteuid() || about.st_mode & 077)
    wrong = "others may read it (chmod 600)";
  else if (read(file, digits, DIGITS) != DIGITS)
    wrong = "too short";
  close(file);
  if (wrong) return say(L, path, wrong);
  lua_pushlstring(L, digits, DIGITS);
  return 1;
}

void mrt_lua_secret_open(lua_State *L, mrt_binding *m) {
  static const luaL_Reg functions[] = { { "secret", secret }, { NULL, NULL } };
  mrt_lua_register(L, m, functions);
}
