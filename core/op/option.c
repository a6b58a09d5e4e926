/* option.c -- an operator's options by name, as its row describes them
 *
 *     softmax   dim=-1
 *     sum       dim=[0,1], keepdim=true
 *     full      shape=[2,3], value=0.5, dtype=f64
 *
 * Text gives what a table gives in Lua, with the same complaints; only that
 * dimensions and positions count from 0 here, from the end when negative.
 *
 * SPDX-License-Identifier: MIT */
#include "base/rounding.h"
#include "mrt/frontend.h"
#include "op/op.h"
#include "tensor/tensor.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST = 63 }; /* bytes of a number or a word */

/* What is read: the key, and its value without blanks around it. */
typedef struct option_text {
  const mrt_op *op;
  const mrt_option *option;
  const char *value;
  size_t size;
  mrt_error *e;
} option_text;

MRT_API int mrt_option_find(const mrt_op *op, const char *name, size_t size) {
  for (int i = 0; i < op->option_count; i++) {
    const mrt_option *o = &op->options[i];
    if (o->kind != MRT_OPT_HIDDEN && strlen(o->name) == size &&
        memcmp(o->name, name, size) == 0)
      return i;
  }
  return -1;
}

MRT_API int mrt_option_word(const mrt_option *option, const char *word,
                            size_t size) {
  const char *at = option->words;
  for (int i = 0; at; i++) {
    size_t length = strcspn(at, " ");
    if (length == size && memcmp(at, word, size) == 0) return i;
    at = at[length] ? at + length + 1 : NULL;
  }
  return -1;
}

MRT_API void mrt_option_names(const mrt_op *op, char *text, size_t size) {
  size_t used = 0;
  if (size) text[0] = 0;
  for (int i = 0; i < op->option_count && used < size; i++) {
    if (op->options[i].kind == MRT_OPT_HIDDEN) continue;
    int n = snprintf(text + used, size - used, used ? ", %s" : "%s",
                     op->options[i].name);
    used += n > 0 ? (size_t)n : 0;
  }
}

/* ---- one value ----------------------------------------------------------- */

static mrt_status refuse(const option_text *t, const char *wanted) {
  return mrt_fail(t->e, MRT_EVALUE, "%s: option '%s': %s wanted, got '%.*s'",
                  t->op->name, t->option->name, wanted, (int)t->size, t->value);
}

/* A whole number at the start of what is there; *end: what follows. */
static bool scan_integer(const option_text *t, int64_t *v, size_t *end) {
  char copy[LONGEST + 1], *stop;
  size_t n = t->size < LONGEST ? t->size : LONGEST;
  memcpy(copy, t->value, n);
  copy[n] = 0;
  errno = 0;
  *v = strtoll(copy, &stop, 10);
  *end = (size_t)(stop - copy);
  return *end > 0 && errno == 0;
}

static mrt_status set_integer(const option_text *t, void *at) {
  int64_t v;
  size_t end;
  if (!scan_integer(t, &v, &end) || end != t->size)
    return refuse(t, t->option->kind == MRT_OPT_DIM     ? "a dimension"
                     : t->option->kind == MRT_OPT_INDEX ? "a position"
                                                        : "an integer");
  memcpy(at, &v, sizeof v);
  return MRT_OK;
}

static mrt_status set_number(const option_text *t, void *at) {
  char copy[LONGEST + 1], *stop;
  if (t->size == 0 || t->size > LONGEST) return refuse(t, "a number");
  memcpy(copy, t->value, t->size);
  copy[t->size] = 0;
  mrt_host_modes host;
  mrt_rounding_begin(&host);
  double v = strtod(copy, &stop);
  mrt_rounding_end(&host);
  if (*stop) return refuse(t, "a number");
  memcpy(at, &v, sizeof v);
  return MRT_OK;
}

static bool is_word(const option_text *t, const char *word) {
  return strlen(word) == t->size && memcmp(word, t->value, t->size) == 0;
}

static mrt_status set_bool(const option_text *t, void *at) {
  bool v = is_word(t, "true");
  if (!v && !is_word(t, "false")) return refuse(t, "true or false");
  memcpy(at, &v, sizeof v);
  return MRT_OK;
}

static mrt_status set_dtype(const option_text *t, void *at) {
  for (int i = 0; i < MRT_DTYPE_COUNT; i++) {
    mrt_dtype v = (mrt_dtype)i;
    if (!is_word(t, mrt_dtype_name(v))) continue;
    memcpy(at, &v, sizeof v);
    return MRT_OK;
  }
  return refuse(t, "a dtype");
}

static mrt_status set_word(const option_text *t, void *at) {
  int v = mrt_option_word(t->option, t->value, t->size);
  if (v < 0) {
    char wanted[128];
    snprintf(wanted, sizeof wanted, "one of %s", t->option->words);
    return refuse(t, wanted);
  }
  memcpy(at, &v, sizeof v);
  return MRT_OK;
}

/* "[2, 3]", or a number as a list of one. */
static mrt_status set_list(const option_text *t, void *at) {
  mrt_ints v = { 0 };
  option_text rest = *t;
  bool list = t->size >= 2 && t->value[0] == '[';
  if (list) {
    if (t->value[t->size - 1] != ']') return refuse(t, "a list as [2,3]");
    rest.value++, rest.size -= 2;
  }
  for (;;) {
    size_t end;
    while (rest.size && isspace((unsigned char)*rest.value))
      rest.value++, rest.size--;
    if (!rest.size && v.count == 0 && list) break; /* [] */
    if (v.count == MRT_MAX_RANK) return refuse(t, "at most 8 integers");
    if (!scan_integer(&rest, &v.at[v.count], &end))
      return refuse(t, "integers");
    v.count++;
    rest.value += end, rest.size -= end;
    while (rest.size && isspace((unsigned char)*rest.value))
      rest.value++, rest.size--;
    if (!rest.size) break;
    if (*rest.value != ',' || !list) return refuse(t, "integers");
    rest.value++, rest.size--;
  }
  memcpy(at, &v, sizeof v);
  return MRT_OK;
}

static mrt_status set_value(const option_text *t, char *options) {
  static mrt_status (*const setters[])(const option_text *, void *) = {
    [MRT_OPT_INT] = set_integer,   [MRT_OPT_NUM] = set_number,
    [MRT_OPT_BOOL] = set_bool,     [MRT_OPT_DIM] = set_integer,
    [MRT_OPT_INDEX] = set_integer, [MRT_OPT_DTYPE] = set_dtype,
    [MRT_OPT_ENUM] = set_word,     [MRT_OPT_INTS] = set_list,
    [MRT_OPT_DIMS] = set_list,
  };
  return setters[t->option->kind](t, options + t->option->offset);
}

/* ---- all of them --------------------------------------------------------- */

static mrt_status unknown(const mrt_op *op, const char *name, size_t size,
                          mrt_error *e) {
  char names[256];
  mrt_option_names(op, names, sizeof names);
  if (!names[0])
    return mrt_fail(e, MRT_EVALUE, "%s: no option '%.*s' (there are none)",
                    op->name, (int)size, name);
  return mrt_fail(e, MRT_EVALUE, "%s: no option '%.*s' (options: %s)", op->name,
                  (int)size, name, names);
}

/* [*text, end) without blanks around it. */
static size_t trim(const char **text, const char *end) {
  while (*text < end && isspace((unsigned char)**text)) (*text)++;
  while (end > *text && isspace((unsigned char)end[-1])) end--;
  return (size_t)(end - *text);
}

/* Where the value at `text` ends: a comma outside brackets, or the text's. */
static const char *value_end(const char *text) {
  int depth = 0;
  for (; *text && (*text != ',' || depth > 0); text++)
    depth += (*text == '[') - (*text == ']');
  return text;
}

static mrt_status want_required(const mrt_op *op, uint64_t given,
                                mrt_error *e) {
  for (int i = 0; i < op->option_count; i++)
    if (op->options[i].required && !(given & UINT64_C(1) << i))
      return mrt_fail(e, MRT_EVALUE, "%s: option '%s' is missing", op->name,
                      op->options[i].name);
  return MRT_OK;
}

MRT_API mrt_status mrt_options_parse(mrt_context *ctx, const mrt_op *op,
                                     const char *text, void *options) {
  mrt_error *e = &ctx->error;
  uint64_t given = 0;
  mrt_options_init(op, options);
  while (text && text[strspn(text, " \t\n")]) {
    const char *end = value_end(text), *key = text;
    const char *equal = memchr(text, '=', (size_t)(end - text));
    size_t size = trim(&key, equal ? equal : end);
    if (!equal)
      return mrt_fail(e, MRT_EVALUE, "%s: '%.*s', option=value wanted",
                      op->name, (int)size, key);
    int i = mrt_option_find(op, key, size);
    if (i < 0) return unknown(op, key, size, e);
    option_text t = { .op = op, .option = &op->options[i], .e = e };
    t.value = equal + 1, t.size = trim(&t.value, end);
    if (given & UINT64_C(1) << i)
      return mrt_fail(e, MRT_EVALUE, "%s: option '%s' is given twice", op->name,
                      op->options[i].name);
    given |= UINT64_C(1) << i;
    MRT_TRY(set_value(&t, options));
    text = *end ? end + 1 : end;
  }
  return want_required(op, given, e);
}
