/* translate.c -- patterns of tokenizers in PCRE2's syntax
 *
 * tokenizer.json's patterns are Oniguruma's, tiktoken's those of Rust's regex
 * crate.  They differ from PCRE2 in what letters, digits and white space are, in
 * ^ and $, in what X{1,3}+ means, in \h and \v, in scripts, and in classes that
 * are cut with others (&&).  What is said differently is written so; what PCRE2
 * does not have, or what we do not know, is refused by name.
 *
 * SPDX-License-Identifier: MIT */
#include "text/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 40 };

typedef struct mrt_translation {
  mrt_source *s;
  const char *from, *p, *end;
  mrt_chars *out;
  bool rust;
  size_t atom; /* where in `out` the last one begins */
  size_t groups[DEEPEST];
  int depth, sets;
} translation;

/* White_Space, and all else; \w as Unicode has it. */
#define SPACE                                                                  \
  "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}"    \
  "\\x{2029}\\x{202f}\\x{205f}\\x{3000}"
#define NO_SPACE                                                               \
  "\\x{0}-\\x{8}\\x{e}-\\x{1f}\\x{21}-\\x{84}\\x{86}-\\x{9f}\\x{a1}-"          \
  "\\x{167f}\\x{1681}-\\x{1fff}\\x{200b}-\\x{2027}\\x{202a}-\\x{202e}"         \
  "\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}\\x{3001}-\\x{10ffff}"
#define WORD "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"

static mrt_status put(translation *t, const char *text, size_t n) {
  return mrt_chars_put(t->s->ctx, t->out, text, n);
}

static mrt_status puts_(translation *t, const char *text) {
  return put(t, text, strlen(text));
}

static mrt_status refuse(translation *t, const char *at, size_t n) {
  size_t left = (size_t)(t->end - at), whole = (size_t)(t->end - t->from);
  return mrt_source_fail(t->s, MRT_EDATA,
                         "pattern '%.*s': '%.*s' is not understood",
                         (int)(whole < 100 ? whole : 100), t->from,
                         (int)(n < left ? n : left), at);
}

static bool next_is(const translation *t, const char *text) {
  size_t n = strlen(text);
  return (size_t)(t->end - t->p) >= n && memcmp(t->p, text, n) == 0;
}

static mrt_status put_code(translation *t, uint32_t c) {
  char text[16];
  snprintf(text, sizeof text, "\\x{%x}", (unsigned)c);
  return puts_(t, text);
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
 * a script. */
static mrt_status put_property(translation *t, const char *name, size_t n,
                               bool negated) {
  char plain[40];
  size_t k = 0;
  for (size_t i = 0; i < n && k < sizeof plain - 1; i++)
    if (!strchr(" _-", name[i])) plain[k++] = (char)(name[i] | 32);
  plain[k] = 0;
  if (n >= sizeof plain) return refuse(t, name, n);
  for (size_t i = 0; i < n; i++)
    if (!(((name[i] | 32) >= 'a' && (name[i] | 32) <= 'z') || name[i] == '_'))
      return refuse(t, name, n);
  const char *ours = NULL;
  for (int i = 0; i < MRT_COUNT(properties); i++)
    if (strcmp(plain, properties[i].name) == 0) ours = properties[i].ours;
  MRT_TRY(puts_(t, negated ? "\\P{" : "\\p{"));
  if (ours) {
    MRT_TRY(puts_(t, ours));
  } else if (k <= 2) {
    char category[3] = { (char)(plain[0] & ~32), plain[1], 0 };
    MRT_TRY(puts_(t, category));
  } else {
    MRT_TRY(puts_(t, "sc:"));
    MRT_TRY(put(t, name, n));
  }
  return puts_(t, "}");
}

/* What follows \p or \P. */
static mrt_status property(translation *t, bool negated) {
  const char *name = t->p;
  if (t->p < t->end && *t->p != '{') {
    t->p++;
    return put_property(t, name, 1, negated);
  }
  const char *close =
      t->p < t->end ? memchr(t->p, '}', (size_t)(t->end - t->p)) : NULL;
  if (!close) return refuse(t, name, 10);
  name++, t->p = close + 1;
  if (name < close && *name == '^') name++, negated = !negated;
  return put_property(t, name, (size_t)(close - name), negated);
}

/* ---- escapes ------------------------------------------------------------- */

static mrt_status hex(translation *t, size_t digits, uint32_t *c) {
  char text[9] = { 0 }, *stop;
  bool braces = next_is(t, "{");
  const char *at = t->p + braces;
  size_t n = 0;
  const char *close = braces ? memchr(at, '}', (size_t)(t->end - at)) : NULL;
  if (braces) digits = close ? (size_t)(close - at) : 0;
  if (digits == 0 || digits > 8 || (size_t)(t->end - at) < digits)
    return refuse(t, t->p - 2, 8);
  for (; n < digits; n++) text[n] = at[n];
  *c = (uint32_t)strtoul(text, &stop, 16);
  bool bad = *stop || *c > 0x10ffff || (*c >= 0xd800 && *c <= 0xdfff);
  /* Two digits are a byte in Oniguruma. */
  if (bad || (digits == 2 && !braces && !t->rust && *c > 0x7f))
    return refuse(t, t->p - 2, digits + 2);
  t->p = at + digits + braces;
  return MRT_OK;
}

/* An escape that is one character; *c. False: it is something else. */
static mrt_status character(translation *t, char e, uint32_t *c, bool *is) {
  static const char names[] = "tnrfave0", codes[] = "\t\n\r\f\a\v\033";
  const char *at = strchr(names, e);
  *is = true;
  if (e == 'x') return hex(t, 2, c);
  if (e == 'u') return hex(t, 4, c);
  if (at && e) {
    *c = (uint8_t)codes[at - names];
    if (e == '0' && t->p < t->end && *t->p >= '0' && *t->p <= '7')
      return refuse(t, t->p - 2, 3);
    return MRT_OK;
  }
  if ((e >= '0' && e <= '9') || ((e | 32) >= 'a' && (e | 32) <= 'z'))
    *is = false;
  size_t n;
  if (*is) *c = mrt_utf8_get(t->p - 1, &n), t->p += n - 1;
  return MRT_OK;
}

/* An escape outside of classes; t->p is behind the letter. */
static mrt_status escape(translation *t, char e) {
  uint32_t c;
  bool is;
  MRT_TRY(character(t, e, &c, &is));
  if (is) return put_code(t, c);
  switch (e) {
  case 's':
    return puts_(t, "[" SPACE "]");
  case 'S':
    return puts_(t, "[^" SPACE "]");
  case 'd':
    return puts_(t, "\\p{Nd}");
  case 'D':
    return puts_(t, "\\P{Nd}");
  case 'w':
    return puts_(t, "[" WORD "]");
  case 'W':
    return puts_(t, "[^" WORD "]");
  case 'h':
  case 'H':
    if (t->rust) break;
    return puts_(t, e == 'h' ? "[0-9A-Fa-f]" : "[^0-9A-Fa-f]");
  case 'p':
  case 'P':
    return property(t, e == 'P');
  case 'b':
    return puts_(t, "(?:(?<![" WORD "])(?=[" WORD "])|(?<=[" WORD "])(?![" WORD
                    "]))");
  case 'B':
    return puts_(t, "(?:(?<![" WORD "])(?![" WORD "])|(?<=[" WORD "])(?=[" WORD
                    "]))");
  case 'A':
    return puts_(t, "\\A");
  case 'z':
    return puts_(t, "\\z");
  case 'Z':
    if (t->rust) break;
    return puts_(t, "\\Z");
  }
  return refuse(t, t->p - 2, 2);
}

/* ---- classes ------------------------------------------------------------- */

/* An escape in a class; *single: it is one character, which may begin a
 * range. */
static mrt_status class_escape(translation *t, char e, bool *single) {
  uint32_t c = 8;
  bool is = e == 'b';
  if (!is) MRT_TRY(character(t, e, &c, &is));
  *single = is;
  if (is) return put_code(t, c);
  switch (e) {
  case 's':
    return puts_(t, SPACE);
  case 'S':
    return puts_(t, NO_SPACE);
  case 'd':
    return puts_(t, "\\p{Nd}");
  case 'D':
    return puts_(t, "\\P{Nd}");
  case 'w':
    return puts_(t, WORD);
  case 'h':
    if (t->rust) break;
    return puts_(t, "0-9A-Fa-f");
  case 'p':
  case 'P':
    return property(t, e == 'P');
  }
  return refuse(t, t->p - 2, 2);
}

static const struct {
  const char *name, *ours;
} brackets[] = {
  { "[:alpha:]", "\\p{Alphabetic}" },
  { "[:digit:]", "\\p{Nd}" },
  { "[:space:]", SPACE },
  { "[:upper:]", "\\p{Uppercase}" },
  { "[:lower:]", "\\p{Lowercase}" },
  { "[:word:]", WORD },
  { "[:alnum:]", "\\p{Alphabetic}\\p{Nd}" },
};

/* One item of a class. */
static mrt_status item(translation *t, bool *single) {
  size_t n;
  *single = false;
  if (next_is(t, "[:")) {
    for (int i = 0; !t->rust && i < MRT_COUNT(brackets); i++) {
      if (!next_is(t, brackets[i].name)) continue;
      t->p += strlen(brackets[i].name);
      return puts_(t, brackets[i].ours);
    }
    return refuse(t, t->p, 10);
  }
  if (*t->p == '[') { /* a class in it: its items are ours */
    const char *at = t->p++;
    if (next_is(t, "^") || ++t->sets > DEEPEST) return refuse(t, at, 10);
    while (t->p < t->end && *t->p != ']') {
      if (next_is(t, "&&")) return refuse(t, at, 10);
      MRT_TRY(item(t, single));
    }
    if (t->p == t->end) return refuse(t, at, 10);
    t->p++, t->sets--, *single = false;
    return MRT_OK;
  }
  if (*t->p == '\\') {
    if (t->end - t->p < 2) return refuse(t, t->p, 1);
    t->p += 2;
    return class_escape(t, t->p[-1], single);
  }
  uint32_t c = mrt_utf8_get(t->p, &n);
  t->p += n, *single = true;
  return put_code(t, c);
}

/* Items up to && or the end of the class, ranges among them. */
static mrt_status items(translation *t) {
  bool single = false;
  const char *from = t->p;
  while (t->p < t->end && *t->p != ']' && !next_is(t, "&&")) {
    bool ends = t->end - t->p > 1 && t->p[1] == ']';
    if (*t->p == '-' && single && !ends) {
      t->p++;
      MRT_TRY(puts_(t, "-"));
      if (t->p == t->end) break;
      MRT_TRY(item(t, &single));
      if (!single) return refuse(t, from, (size_t)(t->p - from));
      single = false;
    } else if (*t->p == '-') {
      t->p++;
      MRT_TRY(puts_(t, "\\x{2d}"));
      single = false;
    } else {
      MRT_TRY(item(t, &single));
    }
  }
  if (t->p == t->end) return refuse(t, from, 20);
  if (t->p == from) return refuse(t, from - 1, 2);
  return MRT_OK;
}

/* What stands left or right of &&: items, or one class with its own sign. */
static mrt_status operand(translation *t) {
  if (*t->p == '[' && !next_is(t, "[:")) {
    const char *from = t->p;
    t->p++;
    MRT_TRY(puts_(t, next_is(t, "^") ? "[^" : "["));
    t->p += next_is(t, "^");
    MRT_TRY(items(t));
    if (next_is(t, "&&")) return refuse(t, from, 20);
    t->p++;
    MRT_TRY(puts_(t, "]"));
    if (t->p < t->end && (*t->p == ']' || next_is(t, "&&"))) return MRT_OK;
    return refuse(t, from, (size_t)(t->p - from) + 1);
  }
  MRT_TRY(puts_(t, "["));
  MRT_TRY(items(t));
  return puts_(t, "]");
}

/* Does the class that begins behind t->p have a && of its own? */
static bool is_cut(const translation *t) {
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
static mrt_status class_of(translation *t) {
  const char *from = t->p - 1;
  bool negated = next_is(t, "^");
  t->p += negated;
  if (t->p == t->end || *t->p == ']') return refuse(t, from, 3);
  if (is_cut(t)) {
    MRT_TRY(puts_(t, negated ? "(?:(?!" : "(?:"));
    for (;;) {
      MRT_TRY(puts_(t, "(?="));
      MRT_TRY(operand(t));
      MRT_TRY(puts_(t, ")"));
      if (!next_is(t, "&&")) break;
      t->p += 2;
      if (t->p == t->end) return refuse(t, from, 20);
    }
    MRT_TRY(puts_(t, negated ? ")\\p{Any})" : "\\p{Any})"));
  } else {
    MRT_TRY(puts_(t, negated ? "[^" : "["));
    MRT_TRY(items(t));
    MRT_TRY(puts_(t, "]"));
  }
  if (t->p == t->end || *t->p != ']') return refuse(t, from, 20);
  t->p++;
  return MRT_OK;
}

/* ---- groups and repeats -------------------------------------------------- */

static mrt_status group(translation *t) {
  static const char *const known[] = { "?:",  "?=", "?!", "?<=",
                                       "?<!", "?>", "?i:" };
  if (t->depth == DEEPEST) return refuse(t, t->p - 1, 4);
  t->groups[t->depth++] = t->out->size;
  if (!next_is(t, "?")) return puts_(t, "(?:");
  for (int i = 0; i < MRT_COUNT(known); i++) {
    if (!next_is(t, known[i])) continue;
    t->p += strlen(known[i]);
    MRT_TRY(puts_(t, "("));
    return puts_(t, known[i]);
  }
  return refuse(t, t->p - 1, 4);
}

/* {n}, {n,}, {n,m} or {,m}: its bytes; 0: it is none. */
static size_t repeat(const translation *t, char text[32], bool *exact) {
  size_t n = 0, commas = 0, digits = 0;
  const char *p = t->p + 1;
  for (; p < t->end && n < 20 && ((*p >= '0' && *p <= '9') || *p == ','); p++) {
    if (*p == ',' && n == 0) text[n++] = '0';
    commas += *p == ',', digits += *p != ',';
    text[n++] = *p;
  }
  text[n] = 0;
  *exact = commas == 0;
  if (!digits || commas > 1 || p == t->end || *p != '}') return 0;
  return (size_t)(p + 1 - t->p);
}

/* X{1,3}+ is (?:X{1,3})+ in Oniguruma; in the others nothing is given back. */
static mrt_status braces(translation *t) {
  char text[32];
  bool exact;
  size_t n = repeat(t, text, &exact);
  if (n == 0) {
    t->atom = t->out->size, t->p++;
    return puts_(t, "\\{");
  }
  const char *from = t->p;
  t->p += n;
  MRT_TRY(puts_(t, "{"));
  MRT_TRY(puts_(t, text));
  MRT_TRY(puts_(t, "}"));
  if (next_is(t, "?") && exact && !t->rust) return refuse(t, from, n + 1);
  if (!next_is(t, "+") || t->rust) return MRT_OK;
  MRT_TRY(puts_(t, "   )"));
  char *at = t->out->at + t->atom;
  memmove(at + 3, at, t->out->size - t->atom - 4);
  memcpy(at, "(?:", 3);
  t->out->at[t->out->size - 1] = ')';
  return MRT_OK;
}

static mrt_status one(translation *t) {
  size_t n;
  char c = *t->p;
  switch (c) {
  case '*':
  case '+':
  case '?':
  case '|':
    t->p++;
    return put(t, &c, 1);
  case '{':
    return braces(t);
  case '(':
    t->p++;
    return group(t);
  case ')':
    if (t->depth == 0) return refuse(t, t->p, 1);
    t->p++, t->atom = t->groups[--t->depth];
    return puts_(t, ")");
  }
  t->atom = t->out->size;
  t->p++;
  switch (c) {
  case '[':
    return class_of(t);
  case '^':
    return puts_(t, t->rust ? "\\A" : "(?m:^)");
  case '$':
    return puts_(t, t->rust ? "\\z" : "(?m:$)");
  case '.':
    return puts_(t, ".");
  case '\\':
    if (t->p == t->end) return refuse(t, t->p - 1, 1);
    t->p++;
    return escape(t, t->p[-1]);
  }
  uint32_t code = mrt_utf8_get(t->p - 1, &n);
  t->p += n - 1;
  return code < 0x80 && code > ' ' ? put(t, &c, 1) : put_code(t, code);
}

mrt_status mrt_pattern_translate(mrt_source *s, mrt_slice text,
                                 mrt_pattern_kind kind, mrt_chars *out) {
  translation t = { .s = s,
                    .from = text.at,
                    .p = text.at,
                    .end = text.at + text.size,
                    .out = out,
                    .rust = kind == MRT_PATTERN_RUST };
  out->size = 0;
  bool folded = next_is(&t, "(?i)");
  MRT_TRY(puts_(&t, folded ? "(?i:" : "(?:"));
  if (folded) t.p += 4;
  while (t.p < t.end) MRT_TRY(one(&t));
  if (t.depth) return refuse(&t, t.end - 1, 1);
  return puts_(&t, ")");
}
