/* npy.c -- one array of NumPy
 *
 *   "\x93NUMPY", version, header length | a Python dictionary | the numbers
 *
 * bf16 has no name there: it is written as V2, two bytes of anything, as
 * ml_dtypes does, and V2 is read as bf16.
 *
 *   from  numpy/lib/format.py
 *
 * SPDX-License-Identifier: MIT */
#include "io/io.h"
#include "tensor/tensor.h"

#include <stdio.h>
#include <string.h>

static const struct {
  const char *code; /* after the byte order */
  mrt_stored stored;
} codes[] = {
  { "b1", MRT_STORED_bool }, { "u1", MRT_STORED_u8 },
  { "i1", MRT_STORED_i8 },   { "i2", MRT_STORED_i16 },
  { "u2", MRT_STORED_u16 },  { "i4", MRT_STORED_i32 },
  { "u4", MRT_STORED_u32 },  { "i8", MRT_STORED_i64 },
  { "V2", MRT_STORED_bf16 }, { "f2", MRT_STORED_f16 },
  { "f4", MRT_STORED_f32 },  { "f8", MRT_STORED_f64 },
};

/* ---- the dictionary ------------------------------------------------------ */

typedef struct cursor {
  const char *at, *end;
} cursor;

static void skip_spaces(cursor *c) {
  while (c->at < c->end && strchr(" \t\r\n", *c->at) && *c->at) c->at++;
}

/* Step over `c` if it is next. */
static bool take(cursor *c, char wanted) {
  skip_spaces(c);
  if (c->at == c->end || *c->at != wanted) return false;
  c->at++;
  return true;
}

static bool take_word(cursor *c, const char *word) {
  size_t n = strlen(word);
  skip_spaces(c);
  if ((size_t)(c->end - c->at) < n || memcmp(c->at, word, n) != 0) return false;
  c->at += n;
  return true;
}

/* A string in quotes of either kind, without escapes. */
static bool take_text(cursor *c, char *text, size_t room) {
  size_t n = 0;
  skip_spaces(c);
  if (c->at == c->end || (*c->at != '\'' && *c->at != '"')) return false;
  char quote = *c->at++;
  for (; c->at < c->end && *c->at != quote && n + 1 < room; c->at++)
    text[n++] = *c->at;
  text[n] = 0;
  return take(c, quote);
}

static bool take_size(cursor *c, int64_t *size) {
  skip_spaces(c);
  const char *first = c->at;
  for (*size = 0; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++) {
    if (*size > (INT64_MAX - 9) / 10) return false;
    *size = *size * 10 + (*c->at - '0');
  }
  return c->at > first;
}

static bool take_shape(cursor *c, mrt_type *type) {
  int64_t size;
  if (!take(c, '(')) return false;
  for (type->rank = 0; !take(c, ')'); type->rank++) {
    if (type->rank == MRT_MAX_RANK || !take_size(c, &size)) return false;
    type->dims[type->rank] = size;
    if (!take(c, ',')) return type->rank++, take(c, ')');
  }
  return true;
}

static bool take_dtype(cursor *c, mrt_array *a, char descr[8]) {
  if (!take_text(c, descr, 8)) return false;
  if (!strchr("<>=|", descr[0]) || !descr[0]) return false;
  a->big_endian = descr[0] == '>';
  a->dtype = NULL;
  for (int i = 0; i < MRT_COUNT(codes); i++)
    if (strcmp(codes[i].code, descr + 1) == 0)
      a->stored = codes[i].stored, a->dtype = codes[i].code;
  return true;
}

enum { DESCR = 1, ORDER = 2, SHAPE = 4, ALL = 7 };

/* One value; returns which, 0: none of these, or it comes twice. */
static int take_value(cursor *c, mrt_array *a, char descr[8], int seen) {
  char key[16];
  int which = 0;
  if (!take_text(c, key, sizeof key) || !take(c, ':')) return 0;
  if (strcmp(key, "descr") == 0 && take_dtype(c, a, descr)) which = DESCR;
  if (strcmp(key, "shape") == 0 && take_shape(c, &a->type)) which = SHAPE;
  if (strcmp(key, "fortran_order") == 0) {
    a->fortran = take_word(c, "True");
    if (a->fortran || take_word(c, "False")) which = ORDER;
  }
  return which & ~seen;
}

static bool take_dictionary(cursor *c, mrt_array *a, char descr[8]) {
  int seen = 0;
  if (!take(c, '{')) return false;
  while (!take(c, '}')) {
    int which = take_value(c, a, descr, seen);
    if (!which) return false;
    seen |= which;
    if (!take(c, ',') && !(take(c, '}') && c->at--)) return false;
  }
  skip_spaces(c);
  return seen == ALL && c->at == c->end;
}

/* ---- the header ---------------------------------------------------------- */

/* Where the dictionary is, of `size` bytes that begin the file. */
static bool find_header(const uint8_t *data, size_t size, cursor *c) {
  if (size < 10 || memcmp(data, "\x93NUMPY", 6) != 0) return false;
  int width = data[6] == 1 ? 2 : data[6] <= 3 ? 4 : 0;
  if (!width || data[6] == 0 || size < 8u + (unsigned)width) return false;
  uint64_t n = mrt_little(data + 8, width);
  if (n > size - 8 - (unsigned)width) return false;
  c->at = (const char *)data + 8 + width;
  c->end = c->at + n;
  return true;
}

mrt_status mrt_npy_read(mrt_source *s, mrt_array *a, const uint8_t *data,
                        size_t size, size_t limit) {
  cursor c;
  char descr[8] = "";
  if (!find_header(data, size, &c))
    return mrt_source_fail(s, MRT_EDATA, "'%.80s': no npy header", a->name);
  a->offset = (size_t)(c.end - (const char *)data);
  bool ok = take_dictionary(&c, a, descr);
  if (descr[0] && strchr(descr, 'O'))
    return mrt_source_fail(s, MRT_EDATA,
                           "'%.80s' holds Python objects (dtype %s), numbers "
                           "wanted",
                           a->name, descr);
  if (!ok)
    return mrt_source_fail(
        s, MRT_EDATA, "'%.80s': an npy header that cannot be read", a->name);
  if (!a->dtype)
    return mrt_source_fail(
        s, MRT_EDATA, "'%.80s' is %s, which no tensor can be", a->name, descr);
  return mrt_array_check(s, a, limit);
}

mrt_status mrt_npy_find(mrt_source *s, mrt_array *a, size_t at, size_t limit) {
  uint8_t head[MRT_NPY_LONGEST_HEADER];
  size_t size = limit < sizeof head ? limit : sizeof head;
  MRT_TRY(mrt_source_take(s, at, head, size));
  return mrt_npy_read(s, a, head, size, limit);
}

mrt_status mrt_parse_npy(mrt_source *s) {
  mrt_array *a = mrt_source_add(s, "array");
  if (!a) return mrt_nomem(&s->ctx->error);
  return mrt_npy_find(s, a, 0, s->bytes.size);
}

/* ---- writing ------------------------------------------------------------- */

static const char *code_of(mrt_dtype dtype) {
  for (int i = 0; i < MRT_COUNT(codes); i++)
    if (mrt_stored_dtype(codes[i].stored) == dtype &&
        codes[i].stored != MRT_STORED_i8 && codes[i].stored != MRT_STORED_i16 &&
        codes[i].stored != MRT_STORED_u16 && codes[i].stored != MRT_STORED_u32)
      return codes[i].code;
  return NULL;
}

mrt_status mrt_npy_header(const mrt_type *type, char text[MRT_NPY_HEADER],
                          size_t *size, mrt_error *e) {
  const char *code = code_of(type->dtype);
  if (!code)
    return mrt_fail(e, MRT_EDTYPE,
                    "save: npy has no name for %s, safetensors has",
                    mrt_dtype_name(type->dtype));
  char shape[192] = "";
  int n = 0;
  for (int d = 0; d < type->rank; d++)
    n += snprintf(shape + n, sizeof shape - (size_t)n, "%lld,%s",
                  (long long)type->dims[d], d + 1 < type->rank ? " " : "");
  if (type->rank > 1) shape[n - 1] = 0; /* (3, 4), but (3,) */
  memcpy(text, "\x93NUMPY\x01\x00\x00\x00", 10);
  n = snprintf(text + 10, MRT_NPY_HEADER - 10,
               "{'descr': '%c%s', 'fortran_order': False, 'shape': (%s), }",
               code[1] == '1' ? '|' : '<', code, shape);
  size_t whole = (10 + (size_t)n + 1 + 63) / 64 * 64;
  memset(text + 10 + n, ' ', whole - 10 - (size_t)n);
  text[whole - 1] = '\n';
  text[8] = (char)((whole - 10) & 255);
  text[9] = (char)((whole - 10) >> 8);
  *size = whole;
  return MRT_OK;
}

MRT_API mrt_status mrt_save_npy(mrt_context *ctx, const char *path,
                                mrt_tensor *t) {
  char header[MRT_NPY_HEADER];
  size_t size;
  mrt_file_writer w;
  mrt_error *e = &ctx->error;
  MRT_TRY(mrt_npy_header(mrt_tensor_type(t), header, &size, e));
  mrt_status status = mrt_writer_open(&w, path, e);
  if (!status) status = mrt_writer_put(&w, header, size, e);
  if (!status) status = mrt_writer_put_tensor(&w, t, NULL, e);
  if (!status) status = mrt_writer_commit(&w, e);
  mrt_writer_close(&w);
  return status;
}
