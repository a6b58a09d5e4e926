/* utf8.c -- characters in bytes
 *
 * SPDX-License-Identifier: MIT */
#include "text/text.h"

#include <string.h>

/* The bytes of the character at `p`; 0: it is no UTF-8, and *seen bytes are a
 * beginning of one (at least 1), as Unicode wants them replaced together. */
static size_t look(const uint8_t *p, size_t n, size_t *seen) {
  uint8_t low = 0x80, high = 0xbf;
  size_t length = p[0] < 0x80   ? 1
                  : p[0] < 0xc2 ? 0
                  : p[0] < 0xe0 ? 2
                  : p[0] < 0xf0 ? 3
                  : p[0] < 0xf5 ? 4
                                : 0;
  if (p[0] == 0xe0) low = 0xa0;
  if (p[0] == 0xed) high = 0x9f;
  if (p[0] == 0xf0) low = 0x90;
  if (p[0] == 0xf4) high = 0x8f;
  for (*seen = 1; *seen < length; ++*seen, low = 0x80, high = 0xbf)
    if (*seen == n || p[*seen] < low || p[*seen] > high) return 0;
  return length;
}

size_t mrt_utf8_valid(const char *text, size_t n) {
  const uint8_t *p = (const uint8_t *)text;
  size_t i = 0, seen, word;
  while (i < n) {
    if (n - i >= 8) {
      memcpy(&word, p + i, 8);
      if (!(word & 0x8080808080808080)) {
        i += 8;
        continue;
      }
    }
    size_t length = p[i] < 0x80 ? 1 : look(p + i, n - i, &seen);
    if (!length) break;
    i += length;
  }
  return i;
}

size_t mrt_utf8_broken(const char *p, size_t n) {
  size_t seen;
  (void)look((const uint8_t *)p, n, &seen);
  return seen;
}

size_t mrt_utf8_put(uint32_t c, char out[4]) {
  if (c < 0x80) return out[0] = (char)c, 1;
  size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
  static const uint8_t lead[] = { 0, 0, 0xc0, 0xe0, 0xf0 };
  for (size_t i = n; i-- > 1; c >>= 6) out[i] = (char)(0x80 | (c & 63));
  out[0] = (char)(lead[n] | c);
  return n;
}

bool mrt_is_space(uint32_t c) {
  return (c >= 9 && c <= 13) || c == 32 || c == 0x85 || c == 0xa0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
         c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}
