/* translate_class.c -- escapes and classes of characters in PCRE2's syntax
 *
 * SPDX-License-Identifier: MIT */
#include "text/translate.h"

#include <stdlib.h>
#include <string.h>

/* White_Space, and all else; \w as Unicode has it. */
#define SPACE                                                                  \
  "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}"    \
  "\\x{2029}\\x{202f}\\x{205f}\\x{3000}"
#define NO_SPACE                                                               \
  "\\x{0}-\\x{8}\\x{e}-\\x{1f}\\x{21}-\\x{84}\\x{86}-\\x{9f}\\x{a1}-"          \
  "\\x{167f}\\x{1681}-\\x{1fff}\\x{200b}-\\x{2027}\\x{202a}-\\x{202e}"         \
  "\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}\\x{3001}-\\x{10ffff}"
#define WORD          "A-Za-z0-9_\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"
#define LATIN_NUMBERS "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}"

/* \w as items of a class; Rust's has those that join, Oniguruma's some
 * fractions. */
static mrt_status put_word(mrt_translation *t) {
  static const char *const parts[] = { "L", "M", "Nd", "Pc" };
  MRT_TRY(mrt_translate_put(t, WORD));
  for (int i = 0; i < MRT_COUNT(parts); i++)
    MRT_TRY(mrt_put_newer(t->s->ctx, parts[i], t->out));
  return mrt_translate_put(t, t->rust ? "\\x{200c}\\x{200d}" : LATIN_NUMBERS);
}

static mrt_status put_class_of_word(mrt_translation *t, const char *before,
                                    const char *after) {
  MRT_TRY(mrt_translate_put(t, before));
  MRT_TRY(put_word(t));
  return mrt_translate_put(t, after);
}

/* Between a letter and none, or not: "(?:(?<!w)(?=w)|(?<=w)(?!w))". */
static mrt_status put_border(mrt_translation *t, bool is) {
  MRT_TRY(put_class_of_word(t, "(?:(?<![", "])"));
  MRT_TRY(put_class_of_word(t, is ? "(?=[" : "(?![", "])|"));
  MRT_TRY(put_class_of_word(t, "(?<=[", "])"));
  return put_class_of_word(t, is ? "(?![" : "(?=[", "]))");
}

/* ---- properties ---------------------------------------------------------- */

static const struct {
  const char *name, *ours;
} properties[] = {
  { "letter", "L" },
  { "mark", "M" },
  { "number", "N" },
  { "punctuation", "P" },
  { "symbol", "S" },
  { "separator", "Z" },
  { "other", "C" },
  { "digit", "Nd" },
  { "alpha", "Alphabetic" },
  { "alphabetic", "Alphabetic" },
  { "any", "Any" },
  { "uppercase", "Uppercase" },
  { "lowercase", "Lowercase" },
  { "ideographic", "Ideographic" },
  { "whitespace", "White_Space" },
};

/* The name between the braces as PCRE2 has it: a category, one of the above, or
 * a script.  As items of a class unless it is negated. */
static mrt_status put_property(mrt_translation *t, const char *name, size_t n,
                               bool negated, bool in_class) {
  char plain[40];
  size_t k = 0;
  if (n >= sizeof plain) return mrt_translate_refuse(t, name, n);
  for (size_t i = 0; i < n; i++) {
    char c = name[i];
    if (!((c | 32) >= 'a' && (c | 32) <= 'z') && !strchr(" _-", c))
      return mrt_translate_refuse(t, name, n);
    if (!strchr(" _-", c)) plain[k++] = (char)(c | 32);
  }
  plain[k] = 0;
  const char *ours = NULL;
  for (int i = 0; i < MRT_COUNT(properties); i++)
    if (strcmp(plain, properties[i].name) == 0) ours = properties[i].ours;
  if (!ours && k <= 2) plain[0] = (char)(plain[0] & ~32), ours = plain;
  bool open = !in_class, plainly = in_class && negated;
  if (open) MRT_TRY(mrt_translate_put(t, negated ? "[^" : "["));
  MRT_TRY(mrt_translate_put(t, plainly ? "\\P{" : "\\p{"));
  if (!ours) MRT_TRY(mrt_translate_put(t, "sc:"));
  MRT_TRY(mrt_translate_put(t, ours ? ours : plain));
  MRT_TRY(mrt_translate_put(t, "}"));
  if (!plainly) MRT_TRY(mrt_put_newer(t->s->ctx, ours ? ours : plain, t->out));
  return open ? mrt_translate_put(t, "]") : MRT_OK;
}

/* What follows \p or \P. */
static mrt_status property(mrt_translation *t, bool negated, bool in_class) {
  const char *name = t->p;
  if (t->p < t->end && *t->p != '{') {
    t->p++;
    return put_property(t, name, 1, negated, in_class);
  }
  const char *close =
      t->p < t->end ? memchr(t->p, '}', (size_t)(t->end - t->p)) : NULL;
  if (!close) return mrt_translate_refuse(t, name, 10);
  name++, t->p = close + 1;
  if (name < close && *name == '^') name++, negated = !negated;
  return put_property(t, name, (size_t)(close - name), negated, in_class);
}

/* ---- escapes ------------------------------------------------------------- */

static mrt_status hex(mrt_translation *t, size_t digits, uint32_t *c) {
  char text[9] = { 0 }, *stop;
  bool braces = mrt_translate_is(t, "{");
  const char *at = t->p + braces;
  size_t n = 0;
  const char *close = braces ? memchr(at, '}', (size_t)(t->end - at)) : NULL;
  if (braces) digits = close ? (size_t)(close - at) : 0;
  if (digits == 0 || digits > 8 || (size_t)(t->end - at) < digits)
    return mrt_translate_refuse(t, t->p - 2, 8);
  for (; n < digits; n++) text[n] = at[n];
  *c = (uint32_t)strtoul(text, &stop, 16);
  bool bad = *stop || *c > 0x10ffff || (*c >= 0xd800 && *c <= 0xdfff);
  /* Two digits are a byte in Oniguruma. */
  if (bad || (digits == 2 && !braces && !t->rust && *c > 0x7f))
    return mrt_translate_refuse(t, t->p - 2, digits + 2);
  t->p = at + digits + braces;
  return MRT_OK;
}

/* An escape that is one character; *c. False: it is something else. */
static mrt_status character(mrt_translation *t, char e, uint32_t *c, bool *is) {
  static const char names[] = "tnrfave0", codes[] = "\t\n\r\f\a\v\033";
  const char *at = strchr(names, e);
  *is = true;
  if (e == 'x') return hex(t, 2, c);
  if (e == 'u') return hex(t, 4, c);
  if (at && e) {
    *c = (uint8_t)codes[at - names];
    if (e == '0' && t->p < t->end && *t->p >= '0' && *t->p <= '7')
      return mrt_translate_refuse(t, t->p - 2, 3);
    return MRT_OK;
  }
  if ((e >= '0' && e <= '9') || ((e | 32) >= 'a' && (e | 32) <= 'z'))
    *is = false;
  size_t n;
  if (*is) *c = mrt_utf8_get(t->p - 1, &n), t->p += n - 1;
  return MRT_OK;
}

/* An escape outside of classes; t->p is behind the letter. */
mrt_status mrt_translate_escape(mrt_translation *t, char e) {
  uint32_t c;
  bool is;
  MRT_TRY(character(t, e, &c, &is));
  if (is) return mrt_translate_code(t, c);
  switch (e) {
  case 's':
    return mrt_translate_put(t, "[" SPACE "]");
  case 'S':
    return mrt_translate_put(t, "[^" SPACE "]");
  case 'd':
  case 'D':
    return put_property(t, "Nd", 2, e == 'D', false);
  case 'w':
    return put_class_of_word(t, "[", "]");
  case 'W':
    return put_class_of_word(t, "[^", "]");
  case 'h':
  case 'H':
    if (t->rust) break;
    return mrt_translate_put(t, e == 'h' ? "[0-9A-Fa-f]" : "[^0-9A-Fa-f]");
  case 'p':
  case 'P':
    return property(t, e == 'P', false);
  case 'b':
  case 'B':
    return put_border(t, e == 'b');
  case 'A':
    return mrt_translate_put(t, "\\A");
  case 'z':
    return mrt_translate_put(t, "\\z");
  case 'Z':
    if (t->rust) break;
    return mrt_translate_put(t, "\\Z");
  }
  return mrt_translate_refuse(t, t->p - 2, 2);
}

/* ---- classes ------------------------------------------------------------- */

/* An escape in a class; *single: it is one character, which may begin a
 * range. */
static mrt_status class_escape(mrt_translation *t, char e, bool *single) {
  uint32_t c = 8;
  bool is = e == 'b';
  if (!is) MRT_TRY(character(t, e, &c, &is));
  *single = is;
  if (is) return mrt_translate_code(t, c);
  switch (e) {
  case 's':
    return mrt_translate_put(t, SPACE);
  case 'S':
    return mrt_translate_put(t, NO_SPACE);
  case 'd':
  case 'D':
    return put_property(t, "Nd", 2, e == 'D', true);
  case 'w':
    return put_word(t);
  case 'h':
    if (t->rust) break;
    return mrt_translate_put(t, "0-9A-Fa-f");
  case 'p':
  case 'P':
    return property(t, e == 'P', true);
  }
  return mrt_translate_refuse(t, t->p - 2, 2);
}

static const struct {
  const char *name, *ours;
} brackets[] = {
  { "[:alpha:]", "\\p{Alphabetic}" },
  { "[:digit:]", "\\p{Nd}" },
  { "[:space:]", SPACE },
  { "[:upper:]", "\\p{Uppercase}" },
  { "[:lower:]", "\\p{Lowercase}" },
  { "[:word:]", WORD LATIN_NUMBERS },
  { "[:alnum:]", "\\p{Alphabetic}\\p{Nd}" },
};

/* One item of a class. */
static mrt_status item(mrt_translation *t, bool *single) {
  size_t n;
  *single = false;
  if (mrt_translate_is(t, "[:")) {
    for (int i = 0; !t->rust && i < MRT_COUNT(brackets); i++) {
      if (!mrt_translate_is(t, brackets[i].name)) continue;
      t->p += strlen(brackets[i].name);
      return mrt_translate_put(t, brackets[i].ours);
    }
    return mrt_translate_refuse(t, t->p, 10);
  }
  if (*t->p == '[') { /* a class in it: its items are ours */
    const char *at = t->p++;
    if (mrt_translate_is(t, "^") || ++t->sets > MRT_PATTERN_DEEPEST)
      return mrt_translate_refuse(t, at, 10);
    while (t->p < t->end && *t->p != ']') {
      if (mrt_translate_is(t, "&&")) return mrt_translate_refuse(t, at, 10);
      MRT_TRY(item(t, single));
    }
    if (t->p == t->end) return mrt_translate_refuse(t, at, 10);
    t->p++, t->sets--, *single = false;
    return MRT_OK;
  }
  if (*t->p == '\\') {
    if (t->end - t->p < 2) return mrt_translate_refuse(t, t->p, 1);
    t->p += 2;
    return class_escape(t, t->p[-1], single);
  }
  uint32_t c = mrt_utf8_get(t->p, &n);
  t->p += n, *single = true;
  return mrt_translate_code(t, c);
}

/* Items up to && or the end of the class, ranges among them. */
static mrt_status items(mrt_translation *t) {
  bool single = false;
  const char *from = t->p;
  while (t->p < t->end && *t->p != ']' && !mrt_translate_is(t, "&&")) {
    bool ends = t->end - t->p > 1 && t->p[1] == ']';
    if (*t->p == '-' && single && !ends) {
      t->p++;
      MRT_TRY(mrt_translate_put(t, "-"));
      if (t->p == t->end) break;
      MRT_TRY(item(t, &single));
      if (!single) return mrt_translate_refuse(t, from, (size_t)(t->p - from));
      single = false;
    } else if (*t->p == '-') {
      t->p++;
      MRT_TRY(mrt_translate_put(t, "\\x{2d}"));
      single = false;
    } else {
      MRT_TRY(item(t, &single));
    }
  }
  if (t->p == t->end) return mrt_translate_refuse(t, from, 20);
  if (t->p == from) return mrt_translate_refuse(t, from - 1, 2);
  return MRT_OK;
}

/* What stands left or right of &&: items, or one class with its own sign. */
static mrt_status operand(mrt_translation *t) {
  if (*t->p == '[' && !mrt_translate_is(t, "[:")) {
    const char *from = t->p;
    t->p++;
    MRT_TRY(mrt_translate_put(t, mrt_translate_is(t, "^") ? "[^" : "["));
    t->p += mrt_translate_is(t, "^");
    MRT_TRY(items(t));
    if (mrt_translate_is(t, "&&")) return mrt_translate_refuse(t, from, 20);
    t->p++;
    MRT_TRY(mrt_translate_put(t, "]"));
    if (t->p < t->end && (*t->p == ']' || mrt_translate_is(t, "&&")))
      return MRT_OK;
    return mrt_translate_refuse(t, from, (size_t)(t->p - from) + 1);
  }
  MRT_TRY(mrt_translate_put(t, "["));
  MRT_TRY(items(t));
  return mrt_translate_put(t, "]");
}

/* Does the class that begins behind t->p have a && of its own? */
static bool is_cut(const mrt_translation *t) {
  int deep = 0;
  for (const char *p = t->p; p < t->end; p++) {
    if (*p == '\\') {
      p++;
    } else if (*p == '[') {
      deep++;
    } else if (*p == ']') {
      if (deep-- == 0) return false;
    } else if (*p == '&' && p + 1 < t->end && p[1] == '&' && deep == 0) {
      return true;
    }
  }
  return false;
}

/* A class; t->p is behind its bracket. */
mrt_status mrt_translate_class(mrt_translation *t) {
  const char *from = t->p - 1;
  bool negated = mrt_translate_is(t, "^");
  t->p += negated;
  if (t->p == t->end || *t->p == ']') return mrt_translate_refuse(t, from, 3);
  if (is_cut(t)) {
    MRT_TRY(mrt_translate_put(t, negated ? "(?:(?!" : "(?:"));
    for (;;) {
      MRT_TRY(mrt_translate_put(t, "(?="));
      MRT_TRY(operand(t));
      MRT_TRY(mrt_translate_put(t, ")"));
      if (!mrt_translate_is(t, "&&")) break;
      t->p += 2;
      if (t->p == t->end) return mrt_translate_refuse(t, from, 20);
    }
    MRT_TRY(mrt_translate_put(t, negated ? ")\\p{Any})" : "\\p{Any})"));
  } else {
    MRT_TRY(mrt_translate_put(t, negated ? "[^" : "["));
    MRT_TRY(items(t));
    MRT_TRY(mrt_translate_put(t, "]"));
  }
  if (t->p == t->end || *t->p != ']') return mrt_translate_refuse(t, from, 20);
  t->p++;
  return MRT_OK;
}
