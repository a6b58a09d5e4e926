/* csv.c -- tables of text: fields, separators, lines
 *
 * Separators are found: of comma, semicolon, tab and bar the one that comes
 * most often in the first line.  A field in quotes may hold separators, line
 * ends, and quotes written twice.  Blank lines are skipped; all others have as
 * many fields as the first.  Nothing is built: fields are found again each time
 * they are read, in the text, which is held in memory.
 *
 *   from  RFC 4180
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* strtod_l */
#include "io/io.h"
#include "tensor/tensor.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST_NUMBER = 128, MOST_COLUMNS = 1 << 20 };

/* ---- fields -------------------------------------------------------------- */

static void skip_mark(const mrt_source *s, size_t *at) {
  if (s->bytes.size >= 3 && memcmp(s->bytes.data, "\xef\xbb\xbf", 3) == 0)
    *at = 3;
}

static void skip_blank_lines(const mrt_source *s, size_t *at) {
  const uint8_t *data = s->bytes.data;
  while (*at < s->bytes.size && (data[*at] == '\n' || data[*at] == '\r')) ++*at;
}

/* The end of the quoted field whose first quote is at `at`. */
static size_t end_of_quoted(const uint8_t *data, size_t size, size_t at) {
  for (at++; at < size; at++) {
    if (data[at] != '"') continue;
    if (at + 1 == size || data[at + 1] != '"') return at;
    at++;
  }
  return size;
}

static size_t end_of_plain(const uint8_t *data, size_t size, size_t at,
                           char separator) {
  while (at < size && data[at] != (uint8_t)separator && data[at] != '\n' &&
         data[at] != '\r')
    at++;
  return at;
}

MRT_API bool mrt_source_next_field(const mrt_source *s, size_t *at,
                                   mrt_field *f) {
  const uint8_t *data = s->bytes.data;
  size_t size = s->bytes.size;
  if (*at == 0) skip_mark(s, at);
  if (f->last || *at == 0) skip_blank_lines(s, at);
  if (*at >= size && (f->last || !f->text)) return false;
  f->column = f->last || !f->text ? 0 : f->column + 1;
  f->row = f->text && f->last ? f->row + 1 : f->row;
  f->quoted = *at < size && data[*at] == '"';
  size_t first = *at + f->quoted;
  size_t end = f->quoted ? end_of_quoted(data, size, *at)
                         : end_of_plain(data, size, *at, s->separator);
  f->text = (const char *)data + first, f->size = end - first;
  size_t next = f->quoted ? end_of_plain(data, size, end < size ? end + 1 : end,
                                         s->separator)
                          : end;
  f->good = !f->quoted || (end < size && next == end + 1);
  f->last = next >= size || data[next] != (uint8_t)s->separator;
  *at = next < size && !f->last ? next + 1 : next;
  return true;
}

/* ---- opening ------------------------------------------------------------- */

static char find_separator(const mrt_source *s) {
  static const char candidates[] = ",;\t|";
  size_t counts[4] = { 0 }, best = 0;
  const uint8_t *data = s->bytes.data;
  for (size_t i = 0; i < s->bytes.size && data[i] != '\n'; i++) {
    if (data[i] == '"') i = end_of_quoted(data, s->bytes.size, i);
    if (i >= s->bytes.size) break;
    const char *c = data[i] ? strchr(candidates, data[i]) : NULL;
    if (c) counts[c - candidates]++;
  }
  for (size_t i = 1; i < 4; i++)
    if (counts[i] > counts[best]) best = i;
  return candidates[best];
}

/* A field of the first line: a column, named by its text as far as it fits. */
static mrt_status add_column(mrt_source *s, const mrt_field *f) {
  char name[256];
  size_t n = 0;
  for (size_t i = 0; i < f->size && n + 1 < sizeof name; i++) {
    name[n++] = f->text[i];
    if (f->quoted && f->text[i] == '"') i++; /* written twice */
  }
  name[n] = 0;
  if (s->count == MOST_COLUMNS)
    return mrt_source_fail(s, MRT_EDATA, "more than %d columns", MOST_COLUMNS);
  mrt_array *a = mrt_source_add(s, name);
  if (!a) return mrt_nomem(&s->ctx->error);
  a->dtype = "text";
  a->type.dtype = MRT_DTYPE_COUNT;
  return MRT_OK;
}

static mrt_status check_field(mrt_source *s, const mrt_field *f) {
  if (!f->good)
    return mrt_source_fail(s, MRT_EDATA,
                           "row %lld, column %d: its quotes do not end",
                           (long long)f->row + 1, f->column + 1);
  if (f->row == 0) return add_column(s, f);
  if (f->column >= s->count || (f->last && f->column + 1 != s->count))
    return mrt_source_fail(s, MRT_EDATA,
                           "row %lld has %s than %d columns, as row 1 has",
                           (long long)f->row + 1,
                           f->column >= s->count ? "more" : "less", s->count);
  return MRT_OK;
}

mrt_status mrt_parse_csv(mrt_source *s) {
  MRT_TRY(mrt_gunzip(s, SIZE_MAX));
  MRT_TRY(mrt_source_hold(s));
  s->separator = find_separator(s);
  mrt_field f = { .text = NULL };
  for (size_t at = 0; mrt_source_next_field(s, &at, &f);)
    MRT_TRY(check_field(s, &f));
  int64_t rows = f.text ? f.row + 1 : 0;
  for (int i = 0; i < s->count; i++)
    s->arrays[i].type.rank = 1, s->arrays[i].type.dims[0] = rows;
  return MRT_OK;
}

/* ---- numbers ------------------------------------------------------------- */

/* The number in a field; false when it is none. */
static bool read_number(const mrt_field *f, locale_t c, double *value) {
  char text[LONGEST_NUMBER];
  const char *p = f->text, *end = p + f->size;
  while (p < end && (*p == ' ' || *p == '\t')) p++;
  while (end > p && (end[-1] == ' ' || end[-1] == '\t')) end--;
  size_t n = (size_t)(end - p);
  if (n == 0 || n >= sizeof text || memchr(p, 0, n)) return false;
  memcpy(text, p, n);
  text[n] = 0;
  char *stop;
  *value = strtod_l(text, &stop, c);
  return *stop == 0;
}

static bool is_empty(const mrt_field *f) {
  for (size_t i = 0; i < f->size; i++)
    if (f->text[i] != ' ' && f->text[i] != '\t') return false;
  return true;
}

typedef struct reading {
  mrt_source *s;
  const int *place; /* by column: where in a row of the tensor; -1: nowhere */
  int width;
  int64_t first;
  const double *missing;
  locale_t locale;
} reading;

static mrt_status read_field(const reading *r, const mrt_field *f, float *to) {
  double value = NAN;
  if (f->row < r->first || r->place[f->column] < 0) return MRT_OK;
  if (r->missing && is_empty(f))
    value = *r->missing;
  else if (!read_number(f, r->locale, &value))
    return mrt_source_fail(r->s, MRT_EDATA,
                           "row %lld, column %d: '%.*s' is no number",
                           (long long)f->row + 1, f->column + 1,
                           (int)(f->size < 40 ? f->size : 40), f->text);
  to[(f->row - r->first) * r->width + r->place[f->column]] = (float)value;
  return MRT_OK;
}

static mrt_status read_all(const reading *r, float *to) {
  mrt_field f = { .text = NULL };
  mrt_source *s = r->s;
  for (size_t at = 0; mrt_source_next_field(s, &at, &f);)
    if (f.column < s->count) MRT_TRY(read_field(r, &f, to));
  return MRT_OK;
}

/* Where each column goes, in the arena: few and small. */
static mrt_status place_columns(mrt_source *s, const int *columns, int n,
                                int **place) {
  *place = MRT_NEW(&s->arena, int, s->count + 1);
  if (!*place) return mrt_nomem(&s->ctx->error);
  for (int i = 0; i < s->count; i++) (*place)[i] = -1;
  for (int i = 0; i < n; i++) {
    if (columns[i] < 0 || columns[i] >= s->count || (*place)[columns[i]] >= 0)
      return mrt_source_fail(
          s, MRT_EVALUE, "column %d of %d%s", columns[i] + 1, s->count,
          columns[i] >= 0 && columns[i] < s->count ? " is wanted twice" : "");
    (*place)[columns[i]] = i;
  }
  return MRT_OK;
}

MRT_API mrt_status mrt_source_numbers(mrt_source *s, const int *columns, int n,
                                      int64_t first, const double *missing,
                                      mrt_tensor **out) {
  int *place;
  int64_t rows = s->count ? s->arrays[0].type.dims[0] : 0;
  mrt_type type = { .dtype = MRT_f32,
                    .rank = 2,
                    .dims = { rows > first ? rows - first : 0, n } };
  mrt_tensor *t = NULL;
  MRT_TRY(place_columns(s, columns, n, &place));
  MRT_TRY(mrt_source_tensor(s, &type, &t));
  reading r = { s, place, n, first, missing, newlocale(LC_ALL_MASK, "C", 0) };
  mrt_status status =
      r.locale ? read_all(&r, t->storage->host) : mrt_nomem(&s->ctx->error);
  if (r.locale) freelocale(r.locale);
  if (!status) status = mrt_storage_fill_end(t->storage);
  if (status) return mrt_tensor_unref(t), status;
  *out = t;
  return MRT_OK;
}
