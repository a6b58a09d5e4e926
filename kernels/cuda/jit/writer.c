/* writer.c -- text that grows; names and sizes of elements; arguments
 *
 * SPDX-License-Identifier: MIT */
#include "jit/writer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool grow(mrt_jit_buffer *b, size_t more) {
  if (b->used + more < b->room) return true;
  size_t room = 2 * b->room + more + 1024;
  char *text = realloc(b->text, room);
  if (!text) return false;
  b->text = text, b->room = room;
  return true;
}

void mrt_jit_put(mrt_jit_buffer *b, const char *format, ...) {
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  int n = vsnprintf(NULL, 0, format, args);
  b->failed |= n < 0 || !grow(b, (size_t)n + 1);
  if (!b->failed)
    b->used +=
        (size_t)vsnprintf(b->text + b->used, (size_t)n + 1, format, again);
  va_end(again);
  va_end(args);
}

static const struct {
  const char *name, *type;
  int size;
} elements[MRT_DTYPE_COUNT] = {
#define M_float                    "float"
#define M_double                   "double"
#define M_int64_t                  "m_i64"
#define M_int32_t                  "int"
#define M_uint16_t                 "m_u16"
#define M_uint8_t                  "m_u8"
#define DTYPE(name, T, bytes, ...) [MRT_##name] = { #name, M_##T, bytes },
#include "mrt/dtypes.def"
#undef DTYPE
};
const char *mrt_jit_c_type(mrt_dtype d) { return elements[d].type; }
const char *mrt_jit_c_name(mrt_dtype d) { return elements[d].name; }
int mrt_jit_c_size(mrt_dtype d) { return elements[d].size; }

int mrt_jit_argument(mrt_jit_writer *w, int64_t value) {
  mrt_jit_text *s = w->source;
  if (s->args == MRT_ARG_MOST) {
    w->failed = true;
    return 0;
  }
  s->arg[s->args] = value;
  return s->args++;
}
int mrt_jit_argument_real(mrt_jit_writer *w, double value) {
  int64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return mrt_jit_argument(w, bits);
}
