/* kinds.c -- what kind of character a character is
 *
 * For what Hugging Face's tokenizers decide by tables of their own, by those;
 * for the rest by utf8proc's.
 *
 * SPDX-License-Identifier: MIT */
#include "text/normal.h"

#include <utf8proc.h>

static int category(uint32_t c) {
  return utf8proc_category((utf8proc_int32_t)c);
}

/* Words of Unicode 15.1 and 16, which utf8proc may not know. */
static bool is_newer_word(uint32_t c) {
  static const uint32_t words[][2] = {
    { 0x897, 0x897 },     { 0x1c89, 0x1c8a },   { 0xa7cb, 0xa7cd },
    { 0xa7da, 0xa7dc },   { 0x105c0, 0x105f3 }, { 0x10d40, 0x10d65 },
    { 0x10d69, 0x10d6d }, { 0x10d6f, 0x10d85 }, { 0x10ec2, 0x10ec4 },
    { 0x10efc, 0x10efc }, { 0x11380, 0x11389 }, { 0x1138b, 0x1138b },
    { 0x1138e, 0x1138e }, { 0x11390, 0x113b5 }, { 0x113b7, 0x113c0 },
    { 0x113c2, 0x113c2 }, { 0x113c5, 0x113c5 }, { 0x113c7, 0x113ca },
    { 0x113cc, 0x113d3 }, { 0x113e1, 0x113e2 }, { 0x116d0, 0x116e3 },
    { 0x11bc0, 0x11be0 }, { 0x11bf0, 0x11bf9 }, { 0x11f5a, 0x11f5a },
    { 0x13460, 0x143fa }, { 0x16100, 0x16139 }, { 0x16d40, 0x16d6c },
    { 0x16d70, 0x16d79 }, { 0x18cff, 0x18cff }, { 0x1ccf0, 0x1ccf9 },
    { 0x1e5d0, 0x1e5fa }, { 0x2ebf0, 0x2ee5d },
  };
  for (int i = 0; c >= 0x897 && i < MRT_COUNT(words); i++)
    if (c >= words[i][0] && c <= words[i][1]) return true;
  return false;
}

bool mrt_is_word(uint32_t c) {
  switch (category(c)) {
  case UTF8PROC_CATEGORY_LU:
  case UTF8PROC_CATEGORY_LL:
  case UTF8PROC_CATEGORY_LT:
  case UTF8PROC_CATEGORY_LM:
  case UTF8PROC_CATEGORY_LO:
  case UTF8PROC_CATEGORY_MN:
  case UTF8PROC_CATEGORY_MC:
  case UTF8PROC_CATEGORY_ME:
  case UTF8PROC_CATEGORY_ND:
  case UTF8PROC_CATEGORY_NL:
  case UTF8PROC_CATEGORY_PC:
    return true;
  default: /* circled letters; those that join */
    return (c >= 0x24b6 && c <= 0x24e9) || (c >= 0x1f130 && c <= 0x1f149) ||
           (c >= 0x1f150 && c <= 0x1f169) || (c >= 0x1f170 && c <= 0x1f189) ||
           c == 0x200c || c == 0x200d || is_newer_word(c);
  }
}

/* ---- by tables ----------------------------------------------------------- */

typedef struct mrt_code_range {
  uint32_t first, last;
} range;

#define R(first, last)                                                         \
  { first, last }
#define KIND(name, ...) static const range name[] = { __VA_ARGS__ };
#include "text/kinds.def"
#undef KIND
#undef R

static const struct {
  uint32_t first, last, script;
} scripts[] = {
#define S(first, last, script) { first, last, script },
#include "text/scripts.def"
#undef S
};

static bool is_in(const range *r, int count, uint32_t c) {
  int low = 0, high = count;
  while (low < high) {
    int middle = (low + high) / 2;
    if (r[middle].last < c)
      low = middle + 1;
    else
      high = middle;
  }
  return low < count && r[low].first <= c;
}

uint32_t mrt_script_of(uint32_t c) {
  int low = 0, high = MRT_COUNT(scripts);
  while (low < high) {
    int middle = (low + high) / 2;
    if (scripts[middle].last < c)
      low = middle + 1;
    else
      high = middle;
  }
  bool is = low < MRT_COUNT(scripts) && scripts[low].first <= c;
  return is ? scripts[low].script : 0;
}

bool mrt_is_nonspacing(uint32_t c) {
  return is_in(nonspacing, MRT_COUNT(nonspacing), c);
}

bool mrt_is_mark(uint32_t c) { return is_in(mark, MRT_COUNT(mark), c); }

bool mrt_is_numeric(uint32_t c) {
  if (c < 0x80) return c >= '0' && c <= '9';
  return is_in(numeric, MRT_COUNT(numeric), c);
}

bool mrt_is_punctuation(uint32_t c) {
  if (c < 0x80)
    return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') ||
           (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
  return is_in(punctuation, MRT_COUNT(punctuation), c);
}

/* Controls, but not those that are spaces. */
bool mrt_is_other(uint32_t c) { return is_in(other, MRT_COUNT(other), c); }

bool mrt_is_chinese(uint32_t c) {
  return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) ||
         (c >= 0x20000 && c <= 0x2a6df) || (c >= 0x2a700 && c <= 0x2b73f) ||
         (c >= 0x2b740 && c <= 0x2b81f) || (c >= 0x2b920 && c <= 0x2ceaf) ||
         (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
}

/* Capitals of Unicode 16 and 17, which utf8proc may not know. */
static uint32_t newer_lower(uint32_t c) {
  static const uint32_t pairs[][2] = {
    { 0x1c89, 0x1c8a }, { 0xa7cb, 0x264 },  { 0xa7cc, 0xa7cd },
    { 0xa7ce, 0xa7cf }, { 0xa7d2, 0xa7d3 }, { 0xa7d4, 0xa7d5 },
    { 0xa7da, 0xa7db }, { 0xa7dc, 0x19b },
  };
  for (int i = 0; i < MRT_COUNT(pairs); i++)
    if (pairs[i][0] == c) return pairs[i][1];
  if (c >= 0x10d50 && c <= 0x10d65) return c + 0x20;
  if (c >= 0x16ea0 && c <= 0x16eb8) return c + 0x1b;
  return c;
}

size_t mrt_to_lower(uint32_t c, uint32_t out[2]) {
  if (c == 0x130) return out[0] = 'i', out[1] = 0x307, 2;
  out[0] = (uint32_t)utf8proc_tolower((utf8proc_int32_t)c);
  if (out[0] == c && c >= 0x1c89) out[0] = newer_lower(c);
  return 1;
}
