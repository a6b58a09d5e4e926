/* scan.c -- the large parts of JSON, without a tree
 *
 * A vocabulary of a quarter of a million tokens and twice as many merges is
 * read in place: a tree of it would take thirty times its text.
 *
 * SPDX-License-Identifier: MIT */
#include "text/text.h"

#include <float.h>
#include <math.h>
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

/* Digits, after which `scale` is what their number is still to be multiplied by,
 * as a power of ten; those that no longer fit into 64 bits count for nothing. */
static size_t digits(mrt_scan *s, uint64_t *number, int *scale, bool fraction) {
  size_t n = 0;
  for (; s->at < s->end && *s->at >= '0' && *s->at <= '9'; s->at++, n++) {
    uint64_t digit = (uint64_t)(*s->at - '0');
    bool fits = *number <= (UINT64_MAX - digit) / 10;
    if (fits) *number = *number * 10 + digit;
    *scale += fraction ? -fits : !fits;
    if (*scale > 100000 || *scale < -100000) return 0;
  }
  return n;
}

/* All digits as one number, then one product or quotient: not always the nearest
 * double, but the one that Hugging Face's tokenizers read. */
bool mrt_scan_number(mrt_scan *s, double *value) {
  uint64_t number = 0, power = 0;
  int scale = 0, none = 0;
  pass_space(s);
  bool negative = mrt_scan_is(s, '-');
  if (!digits(s, &number, &scale, false)) return false;
  if (s->at < s->end && *s->at == '.') {
    s->at++;
    if (!digits(s, &number, &scale, true)) return false;
  }
  if (s->at < s->end && (*s->at == 'e' || *s->at == 'E')) {
    s->at++;
    bool down = s->at < s->end && *s->at == '-';
    s->at += s->at < s->end && (*s->at == '-' || *s->at == '+');
    if (!digits(s, &power, &none, false) || power > 1000) return false;
    scale += down ? -(int)power : (int)power;
  }
  double v = (double)number;
  for (; scale < -308 && v != 0; scale += 308) v /= 1e308;
  if (scale < -308) scale = 0;
  if (scale > 308) return false;
  double ten = pow(10, abs(scale));
  v = scale < 0 ? v / ten : v * ten;
  *value = negative ? -v : v;
  return v <= DBL_MAX;
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
