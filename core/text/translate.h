/* translate.h -- a pattern on its way into PCRE2's syntax
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_TEXT_TRANSLATE_H
#define MRT_TEXT_TRANSLATE_H

#include "text/text.h"

enum { MRT_PATTERN_DEEPEST = 40 };

typedef struct mrt_translation {
  mrt_source *s;
  const char *from, *p, *end;
  mrt_chars *out;
  bool rust;
  size_t atom; /* where in `out` the last one begins */
  size_t groups[MRT_PATTERN_DEEPEST];
  int depth, sets;
} mrt_translation;

mrt_status mrt_translate_put(mrt_translation *t, const char *text);
/* EDATA: the `n` bytes at `at` are not understood. */
mrt_status mrt_translate_refuse(mrt_translation *t, const char *at, size_t n);
bool mrt_translate_is(const mrt_translation *t, const char *text);
mrt_status mrt_translate_code(mrt_translation *t, uint32_t c);
/* An escape outside of classes; t->p is behind its letter. */
mrt_status mrt_translate_escape(mrt_translation *t, char e);
/* A class; t->p is behind its bracket. */
mrt_status mrt_translate_class(mrt_translation *t);

#endif
