/* document.c -- JSON that has been read, value by value
 *
 * jansson parses.  A scan before it looks at what parsing would cost, since what
 * is built may take thirty times the text; and it finds integers beyond 64 bits,
 * which jansson refuses and files of published tokenizers have: a fraction of 0
 * makes them floats.
 *
 * SPDX-License-Identifier: MIT */
#include "mrt/json.h"
#include "tensor/tensor.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

enum { DEEPEST = 100, SURE = 18 }; /* so many digits fit in 64 bits */

struct mrt_document {
  mrt_context *ctx;
  json_t *root;
};

/* ---- before it is parsed ------------------------------------------------- */

typedef struct json_survey {
  int deepest;
  int64_t values;
  size_t large; /* integers beyond 64 bits */
} json_survey;

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* The end of the string whose first byte within is at `i`. */
static size_t skip_string(const char *text, size_t size, size_t i) {
  for (; i < size && text[i] != '"'; i++)
    if (text[i] == '\\') i++;
  return i;
}

static size_t skip_digits(const char *text, size_t size, size_t i) {
  while (i < size && is_digit(text[i])) i++;
  return i;
}

/* Is what stands at [from, to) an integer, and not a part of another number? */
static bool is_whole(const char *text, size_t size, size_t from, size_t to) {
  char before = from > 0 ? text[from - 1] : ' ';
  char after = to < size ? text[to] : ' ';
  if (before == '-') before = from > 1 ? text[from - 2] : ' ';
  return !strchr(".eE+", before) && !strchr(".eE", after);
}

/* Do so many digits fit in 64 bits?  Only 19 of them are in doubt. */
static bool fits(const char *digits, size_t count, bool negative) {
  const char *last = negative ? "9223372036854775808" : "9223372036854775807";
  return count <= SURE ||
         (count == SURE + 1 && memcmp(digits, last, SURE + 1) <= 0);
}

/* Walk over the text; `put`, if it is given, gets a copy in which integers that
 * do not fit are floats.  Returns its length. */
static size_t walk(const char *text, size_t size, json_survey *s, char *put) {
  int depth = 0;
  size_t n = 0, from = 0;
  for (size_t i = 0; i < size; i++) {
    char c = text[i];
    if (c == '"') {
      i = skip_string(text, size, i + 1);
    } else if (c == '[' || c == '{') {
      s->values++;
      if (++depth > s->deepest) s->deepest = depth;
    } else if (c == ']' || c == '}') {
      depth--;
    } else if (c == ',') {
      s->values++;
    } else if (is_digit(c)) {
      size_t to = skip_digits(text, size, i);
      bool negative = i > 0 && text[i - 1] == '-';
      if (!fits(text + i, to - i, negative) && is_whole(text, size, i, to)) {
        s->large++;
        if (put) {
          memcpy(put + n, text + from, to - from);
          n += to - from, from = to;
          put[n++] = '.', put[n++] = '0';
        }
      }
      i = to - 1;
    }
  }
  if (put) memcpy(put + n, text + from, size - from);
  return n + size - from;
}

/* ---- parsing ------------------------------------------------------------- */

/* "column 3", or "line 2, column 3"; characters count from 1. */
static void show_place(int line, int column, char *to, size_t room) {
  if (line > 1)
    snprintf(to, room, "line %d, column %d", line, column);
  else
    snprintf(to, room, "column %d", column);
}

/* `moved`: columns are of a copy that is longer, and so are not told. */
static mrt_status refuse(mrt_context *ctx, const json_error_t *why,
                         bool moved) {
  char place[64];
  if (json_error_code(why) == json_error_out_of_memory || !why->text[0])
    return mrt_nomem(&ctx->error); /* jansson has no words for it either */
  if (why->line <= 1 && (why->column < 1 || moved))
    return mrt_fail(&ctx->error, MRT_EDATA, "JSON: %s", why->text);
  if (moved)
    return mrt_fail(&ctx->error, MRT_EDATA, "JSON, line %d: %s", why->line,
                    why->text);
  show_place(why->line, why->column, place, sizeof place);
  return mrt_fail(&ctx->error, MRT_EDATA, "JSON, %s: %s", place, why->text);
}

/* Nothing but space behind the value's `end`? */
static mrt_status check_end(mrt_context *ctx, const char *text, size_t size,
                            size_t end, bool moved) {
  char place[64];
  size_t i = end;
  while (i < size && text[i] && strchr(" \t\r\n", text[i])) i++;
  if (i >= size) return MRT_OK;
  int line = 1, column = 1;
  if (moved) return mrt_fail(&ctx->error, MRT_EDATA, "JSON: something follows");
  for (size_t k = 0; k < i; k++) {
    if (text[k] == '\n') line++, column = 0;
    if ((text[k] & 0xc0) != 0x80) column++;
  }
  show_place(line, column, place, sizeof place);
  return mrt_fail(&ctx->error, MRT_EDATA, "JSON: something follows at %s",
                  place);
}

static mrt_status parse(mrt_document *d, const char *text, size_t size,
                        bool unique, bool moved) {
  json_error_t why;
  size_t flags = JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_DISABLE_EOF_CHECK |
                 (unique ? JSON_REJECT_DUPLICATES : 0);
  d->root = json_loadb(text, size, flags, &why);
  if (!d->root) return refuse(d->ctx, &why, moved);
  return check_end(d->ctx, text, size, (size_t)why.position, moved);
}

/* The same of a copy whose large integers are floats. */
static mrt_status parse_copy(mrt_document *d, const char *text, size_t size,
                             const json_survey *s, bool unique) {
  size_t room = size + 2 * s->large;
  char *copy = mrt_resize(d->ctx->allocator, NULL, 0, room);
  json_survey again = { 0 };
  if (!copy) return mrt_nomem(&d->ctx->error);
  size_t n = walk(text, size, &again, copy);
  mrt_status status = parse(d, copy, n, unique, true);
  mrt_release(d->ctx->allocator, copy, room);
  return status;
}

static mrt_status check_survey(mrt_context *ctx, const json_survey *s,
                               const mrt_document_options *o) {
  int deepest = o->deepest ? o->deepest : DEEPEST;
  int64_t most = o->most ? o->most : (int64_t)1 << 22;
  if (s->deepest > deepest)
    return mrt_fail(&ctx->error, MRT_EDATA,
                    "JSON of too many levels, %d at most", deepest);
  if (s->values > most)
    return mrt_fail(&ctx->error, MRT_EDATA, "JSON of more than %lld values",
                    (long long)most);
  return MRT_OK;
}

mrt_status mrt_document_parse(mrt_context *ctx, const char *text, size_t size,
                              const mrt_document_options *options,
                              mrt_document **out) {
  json_survey s = { 0 };
  if (size > INT32_MAX)
    return mrt_fail(&ctx->error, MRT_EDATA, "JSON of 2 GiB or more");
  walk(text, size, &s, NULL);
  MRT_TRY(check_survey(ctx, &s, options));
  mrt_document *d = mrt_calloc(ctx->allocator, 1, sizeof *d);
  if (!d) return mrt_nomem(&ctx->error);
  d->ctx = ctx;
  mrt_context_ref(ctx);
  mrt_status status = s.large ? parse_copy(d, text, size, &s, options->unique)
                              : parse(d, text, size, options->unique, false);
  if (status) return mrt_document_free(d), status;
  *out = d;
  return MRT_OK;
}

void mrt_document_free(mrt_document *d) {
  if (!d) return;
  mrt_context *ctx = d->ctx;
  json_decref(d->root);
  mrt_release(ctx->allocator, d, sizeof *d);
  mrt_context_unref(ctx);
}

/* ---- values -------------------------------------------------------------- */

static mrt_item item_of(json_t *v) {
  mrt_item item = { .kind = MRT_ITEM_NULL, .in = v };
  switch (json_typeof(v)) {
  case JSON_NULL:
    break;
  case JSON_TRUE:
  case JSON_FALSE:
    item.kind = MRT_ITEM_TRUTH, item.truth = json_is_true(v);
    break;
  case JSON_INTEGER:
    item.kind = MRT_ITEM_INTEGER, item.integer = json_integer_value(v);
    break;
  case JSON_REAL:
    item.kind = MRT_ITEM_NUMBER, item.number = json_real_value(v);
    break;
  case JSON_STRING:
    item.kind = MRT_ITEM_STRING, item.text = json_string_value(v);
    item.size = json_string_length(v);
    break;
  case JSON_ARRAY:
    item.kind = MRT_ITEM_LIST, item.size = json_array_size(v);
    break;
  case JSON_OBJECT:
    item.kind = MRT_ITEM_OBJECT, item.size = json_object_size(v);
    break;
  }
  return item;
}

mrt_item mrt_document_root(const mrt_document *d) { return item_of(d->root); }

bool mrt_item_next(const mrt_item *of, mrt_cursor *at, const char **key,
                   mrt_item *item) {
  json_t *v = (json_t *)of->in;
  if (at->next >= of->size) return false;
  *key = NULL;
  if (of->kind == MRT_ITEM_LIST) {
    *item = item_of(json_array_get(v, at->next++));
    return true;
  }
  at->member =
      at->next++ ? json_object_iter_next(v, at->member) : json_object_iter(v);
  *key = json_object_iter_key(at->member);
  *item = item_of(json_object_iter_value(at->member));
  return true;
}
