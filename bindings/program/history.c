/* history.c -- the file of the prompt's history: see history.h
 *
 * SPDX-License-Identifier: MIT */
#include "history.h"

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NEWLINE = 31 }; /* within an entry */

static void replace(char *text, char from, char to) {
  while ((text = strchr(text, from))) *text++ = to;
}

/* A regular file, or NULL: a pipe would keep us waiting. */
static FILE *open_regular(const char *path, int flags, const char *mode) {
  struct stat st;
  int fd = open(path, flags | O_CLOEXEC | O_NONBLOCK, 0600);
  if (fd < 0) return NULL;
  bool good = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
  FILE *file = good ? fdopen(fd, mode) : NULL;
  if (!file) close(fd);
  return file;
}

static void make_folders(char *path) {
  if (!*path) return;
  for (char *slash = path + 1; (slash = strchr(slash, '/')); slash++) {
    *slash = 0;
    mkdir(path, 0700);
    *slash = '/';
  }
}

static void load(const char *path, void (*take)(void *user, const char *entry),
                 void *user) {
  FILE *file = open_regular(path, O_RDONLY, "r");
  char *line = NULL;
  size_t room = 0;
  if (!file) return;
  for (ssize_t n; (n = getline(&line, &room, file)) > 0;) {
    if (line[n - 1] == '\n') line[n - 1] = 0;
    replace(line, NEWLINE, '\n');
    take(user, line);
  }
  free(line);
  fclose(file);
}

FILE *mrt_edit_history_open(const char *path,
                            void (*take)(void *user, const char *entry),
                            void *user) {
  char copy[PATH_MAX];
  size_t length = strlen(path);
  if (length >= sizeof copy) return NULL;
  memcpy(copy, path, length + 1);
  make_folders(copy);
  load(path, take, user);
  return open_regular(path, O_WRONLY | O_CREAT | O_APPEND, "a");
}

void mrt_edit_history_add(FILE *file, const char *entry) {
  char *line = strdup(entry);
  if (!line) return;
  replace(line, '\n', NEWLINE);
  fprintf(file, "%s\n", line);
  fflush(file);
  free(line);
}
