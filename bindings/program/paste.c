/* paste.c -- text that a terminal marks as pasted: see paste.h
 *
 * SPDX-License-Identifier: MIT */
#include "paste.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char end[] = "\033[201~";

/* Keep a byte; where there is no room for it, it is gone. */
static void keep(mrt_paste *p, char byte) {
  enum { MOST = 64 << 20 };
  if (p->size == p->room) {
    size_t room = p->room ? 2 * p->room : 4096;
    char *text = room <= MOST ? realloc(p->text, room) : NULL;
    if (!text) return;
    p->text = text;
    p->room = room;
  }
  p->text[p->size++] = byte;
}

/* Read a byte, whatever signals come. */
static bool read_byte(int fd, char *byte, bool (*stopped)(void)) {
  ssize_t n;
  do {
    n = read(fd, byte, 1);
  } while (n < 0 && errno == EINTR && !stopped());
  return n == 1;
}

bool mrt_edit_paste_read(mrt_paste *p, int fd, bool (*stopped)(void)) {
  size_t matched = 0;
  char byte = 0, before;
  p->size = p->at = 0;
  while (end[matched]) {
    before = byte;
    if (!read_byte(fd, &byte, stopped)) return p->size = 0, false;
    if (byte == end[matched]) {
      matched++;
      continue;
    }
    for (size_t i = 1; i < matched; i++)
      keep(p, end[i]); /* it was not the end */
    matched = byte == end[0];
    if (byte == '\r') keep(p, '\n');
    if (byte == '\n' && before != '\r') keep(p, '\n');
    if (byte == '\t' || ((unsigned char)byte >= ' ' && byte != 0x7f))
      keep(p, byte);
  }
  return true;
}

bool mrt_edit_paste_take(mrt_paste *p, char *byte) {
  if (p->at == p->size) return false;
  *byte = p->text[p->at++];
  return true;
}

bool mrt_edit_paste_drop(mrt_paste *p) {
  bool some = p->at < p->size;
  p->at = p->size = 0;
  return some;
}
