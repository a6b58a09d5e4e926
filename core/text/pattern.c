/* pattern.c -- what splits and is replaced: a text, or a regular expression
 *
 * Expressions run in PCRE2, compiled to machine code where it can, on text that
 * is known to be UTF-8.  A limit on its steps ends what would take for ever; the
 * limit is far above what the published patterns take.
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/text.h"

#include <pcre2.h>
#include <string.h>

struct mrt_pattern {
  mrt_context *ctx;
  mrt_slice text; /* found as it is, if there is no code */
  pcre2_general_context *memory;
  pcre2_code *code;
  pcre2_match_data *data;
  pcre2_match_context *limits;
  pcre2_jit_stack *stack;
};

enum {
  LONGEST = 1 << 14,
  MOST_STEPS = 1 << 26,
  MOST_DEPTH = 1 << 16,
  MOST_HEAP = 64 << 10, /* KiB */
  FIRST_STACK = 32 << 10,
  MOST_STACK = 4 << 20,
};

/* ---- memory: PCRE2 does not say how large what it frees is --------------- */

enum { HEAD = 16 };

static void *take(size_t size, void *user) {
  mrt_context *ctx = user;
  if (size > SIZE_MAX - HEAD) return NULL;
  char *p = mrt_resize(ctx->allocator, NULL, 0, size + HEAD);
  if (!p) return NULL;
  memcpy(p, &size, sizeof size);
  return p + HEAD;
}

static void give(void *block, void *user) {
  mrt_context *ctx = user;
  size_t size;
  if (!block) return;
  char *p = (char *)block - HEAD;
  memcpy(&size, p, sizeof size);
  mrt_release(ctx->allocator, p, size + HEAD);
}

/* ---- making -------------------------------------------------------------- */

static mrt_status refuse(mrt_context *ctx, mrt_source *s, int code,
                         size_t where, mrt_slice text) {
  PCRE2_UCHAR why[160];
  if (code == PCRE2_ERROR_NOMEMORY || code == PCRE2_ERROR_HEAP_FAILED)
    return mrt_nomem(&ctx->error);
  pcre2_get_error_message(code, why, sizeof why);
  return mrt_source_fail(s, MRT_EDATA,
                         "pattern '%.*s': %s (byte %zu of what "
                         "it becomes)",
                         (int)(text.size < 100 ? text.size : 100), text.at,
                         (const char *)why, where);
}

static mrt_status compile(mrt_pattern *p, mrt_source *s, const mrt_chars *text,
                          mrt_slice given) {
  int code;
  PCRE2_SIZE where;
  p->memory = pcre2_general_context_create(take, give, p->ctx);
  if (!p->memory) return mrt_nomem(&p->ctx->error);
  pcre2_compile_context *how = pcre2_compile_context_create(p->memory);
  if (!how) return mrt_nomem(&p->ctx->error);
  pcre2_set_newline(how, PCRE2_NEWLINE_LF);
  pcre2_set_parens_nest_limit(how, 50);
  p->code = pcre2_compile((PCRE2_SPTR)text->at, text->size,
                          PCRE2_UTF | PCRE2_UCP | PCRE2_NO_UTF_CHECK |
                              PCRE2_NEVER_BACKSLASH_C,
                          &code, &where, how);
  pcre2_compile_context_free(how);
  if (!p->code) return refuse(p->ctx, s, code, where, given);
  (void)pcre2_jit_compile(p->code, PCRE2_JIT_COMPLETE); /* or interpreted */
  p->data = pcre2_match_data_create(1, p->memory);
  p->limits = pcre2_match_context_create(p->memory);
  p->stack = pcre2_jit_stack_create(FIRST_STACK, MOST_STACK, p->memory);
  if (!p->data || !p->limits || !p->stack) return mrt_nomem(&p->ctx->error);
  pcre2_set_match_limit(p->limits, MOST_STEPS);
  pcre2_set_depth_limit(p->limits, MOST_DEPTH);
  pcre2_set_heap_limit(p->limits, MOST_HEAP);
  pcre2_jit_stack_assign(p->limits, NULL, p->stack);
  return MRT_OK;
}

mrt_status mrt_pattern_make(mrt_tokenizer *t, mrt_source *s, mrt_slice text,
                            mrt_pattern_kind kind, mrt_pattern **out) {
  mrt_chars ours = { 0 };
  if (text.size > LONGEST)
    return mrt_source_fail(s, MRT_EDATA, "a pattern of %zu bytes", text.size);
  mrt_pattern *p = mrt_calloc(t->ctx->allocator, 1, sizeof *p);
  if (!p) return mrt_nomem(&t->ctx->error);
  *out = p; /* freed with its owner, whatever happens */
  p->ctx = t->ctx;
  p->text = mrt_slice_copy(&t->arena, text.at, text.size);
  if (!p->text.at) return mrt_nomem(&t->ctx->error);
  if (kind == MRT_PATTERN_TEXT) return MRT_OK;
  mrt_status status = mrt_pattern_translate(s, text, kind, &ours);
  if (!status) status = compile(p, s, &ours, text);
  mrt_chars_free(t->ctx, &ours);
  return status;
}

void mrt_pattern_free(mrt_pattern *p) {
  if (!p) return;
  mrt_context *ctx = p->ctx;
  if (p->stack) pcre2_jit_stack_free(p->stack);
  pcre2_match_context_free(p->limits);
  pcre2_match_data_free(p->data);
  pcre2_code_free(p->code);
  pcre2_general_context_free(p->memory);
  mrt_release(ctx->allocator, p, sizeof *p);
}

/* ---- finding ------------------------------------------------------------- */

static void find_text(const mrt_pattern *p, mrt_slice text, mrt_matching *m) {
  size_t n = p->text.size;
  const char *at =
      n && text.size - m->from >= n
          ? memmem(text.at + m->from, text.size - m->from, p->text.at, n)
          : NULL;
  m->found = at != NULL;
  if (at) m->begin = (size_t)(at - text.at), m->end = m->begin + n;
}

static mrt_status find_code(mrt_tokenizer *t, mrt_pattern *p, mrt_slice text,
                            mrt_matching *m) {
  int n = pcre2_match(p->code, (PCRE2_SPTR)text.at, text.size, m->from,
                      PCRE2_NO_UTF_CHECK, p->data, p->limits);
  m->found = n >= 0;
  if (n >= 0) {
    const PCRE2_SIZE *at = pcre2_get_ovector_pointer(p->data);
    m->begin = at[0], m->end = at[1];
    if (m->begin <= m->end && m->begin >= m->from) return MRT_OK;
    return mrt_fail(&t->ctx->error, MRT_EVALUE,
                    "encode: a pattern matches backwards");
  }
  if (n == PCRE2_ERROR_NOMATCH) return MRT_OK;
  if (n == PCRE2_ERROR_NOMEMORY) return mrt_nomem(&t->ctx->error);
  return mrt_fail(&t->ctx->error, MRT_EVALUE,
                  "encode: the pattern '%.100s' takes too long on this text",
                  p->text.at);
}

/* An empty match right behind the last one is none, nor is one in an empty
 * text. */
mrt_status mrt_pattern_next(mrt_tokenizer *t, mrt_pattern *p, mrt_slice text,
                            mrt_matching *m) {
  for (;;) {
    m->found = false;
    if (m->from > text.size || !text.size) return MRT_OK;
    if (p->code)
      MRT_TRY(find_code(t, p, text, m));
    else
      find_text(p, text, m);
    if (!m->found) return MRT_OK;
    if (m->begin != m->end || m->last != m->end + 1) break;
    m->from =
        m->end + (m->end < text.size ? mrt_utf8_length(text.at[m->end]) : 1);
  }
  m->from = m->end, m->last = m->end + 1;
  return MRT_OK;
}
