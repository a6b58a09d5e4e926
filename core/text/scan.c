/* scan.c -- the large parts of JSON, without a tree
 *
 * A vocabulary of a quarter of a million tokens and twice as many merges is
 * read in place: a tree of it would take thirty times its text.
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "text/text.h"

#include <locale.h>
#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 64 };

static void pass_space(mrt_scan *s) {
  while (s->at < s->end &&
         (*s->at == ' ' || *s->at == '\n' || *s->at == '\t' || *s->at == '\r'))
    s->at++;
}

bool mrt_scan_is(mrt_scan *s, char c) {
  pass_space(s);
  if (s->at == s->end || *s->at != c) return false;
  s->at++;
  return true;
}

/* ---- strings ------------------------------------------------------------- */

static bool hex4(mrt_scan *s, uint32_t *value) {
  if (s->end - s->at < 4) return false;
  *value = 0;
  for (int i = 0; i < 4; i++) {
    char c = *s->at++;
    uint32_t digit = c >= '0' && c <= '9'   ? (uint32_t)(c - '0')
                     : c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a') + 10
                     : c >= 'A' && c <= 'F' ? (uint32_t)(c - 'A') + 10
                                            : 16;
    if (digit == 16) return false;
    *value = *value << 4 | digit;
  }
  return true;
}

/* What follows "\u": a character, or half of one and then the other. */
static bool read_code(mrt_scan *s, uint32_t *c) {
  uint32_t low;
  if (!hex4(s, c)) return false;
  if (*c < 0xd800 || *c > 0xdfff) return true;
  if (*c > 0xdbff || s->end - s->at < 6 || s->at[0] != '\\' || s->at[1] != 'u')
    return false;
  s->at += 2;
  if (!hex4(s, &low) || low < 0xdc00 || low > 0xdfff) return false;
  *c = 0x10000 + ((*c & 0x3ff) << 10 | (low & 0x3ff));
  return true;
}

/* What follows a backslash, in UTF-8. */
static bool read_escape(mrt_scan *s, char out[4], size_t *n) {
  static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
  uint32_t c;
  if (s->at == s->end) return false;
  char e = *s->at++;
  const char *simple = e ? strchr(from, e) : NULL;
  if (simple) return out[0] = to[simple - from], *n = 1, true;
  if (e != 'u' || !read_code(s, &c)) return false;
  *n = mrt_utf8_put(c, out);
  return true;
}

bool mrt_scan_string(mrt_scan *s, char *out, size_t *size) {
  char few[4];
  size_t n = 0, more;
  if (!mrt_scan_is(s, '"')) return false;
  while (s->at < s->end && *s->at != '"') {
    if ((uint8_t)*s->at < 0x20) return false;
    if (*s->at == '\\') {
      s->at++;
      if (!read_escape(s, few, &more)) return false;
      if (out) memcpy(out + n, few, more);
      n += more;
    } else {
      if (out) out[n] = *s->at;
      n++, s->at++;
    }
  }
  if (size) *size = n;
  return s->at < s->end && *s->at++ == '"';
}

/* ---- numbers and whatever ------------------------------------------------ */

/* The digits are those of C's own locale, whatever the host has set. */
bool mrt_scan_number(mrt_scan *s, double *value) {
  char text[64], *end;
  size_t n = 0;
  pass_space(s);
  while (s->at < s->end && n < sizeof text - 1 && *s->at &&
         strchr("+-.0123456789eE", *s->at))
    text[n++] = *s->at++;
  text[n] = 0;
  locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  if (!plain) return false;
  *value = strtod_l(text, &end, plain);
  freelocale(plain);
  return n > 0 && *end == 0;
}

bool mrt_scan_skip(mrt_scan *s, size_t *values) {
  int deep = 0;
  do {
    pass_space(s);
    if (s->at == s->end) return false;
    switch (*s->at) {
    case '"':
      if (!mrt_scan_string(s, NULL, NULL)) return false;
      break;
    case '[':
    case '{':
      if (++deep > DEEPEST) return false;
      s->at++;
      break;
    case ']':
    case '}':
      if (--deep < 0) return false;
      s->at++;
      break;
    case ',':
      ++*values;
      s->at++;
      break;
    case ':':
      s->at++;
      break;
    default:
      if (!*s->at) return false;
      while (s->at < s->end && !strchr(" \n\t\r,:[]{}\"", *s->at)) s->at++;
    }
  } while (deep > 0);
  return true;
}
