/* normal.h -- normalizers: texts into other texts, before they are cut
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_TEXT_NORMAL_H
#define MRT_TEXT_NORMAL_H

#include "text/text.h"

/* sentencepiece's rules: strings by a double array, as darts-clone has it. */
typedef struct mrt_charsmap {
  const uint32_t *units;
  size_t count;
  const char *texts; /* each ends with a zero byte */
  size_t size;
} mrt_charsmap;

struct mrt_normalizer {
  /* Write what becomes of a text, or set *same. */
  mrt_status (*apply)(mrt_tokenizer *t, const mrt_normalizer *self,
                      mrt_slice text, mrt_chars *out, bool *same);
  /* The head of what `text` has become; NULL: each character for itself. */
  mrt_status (*head)(mrt_tokenizer *t, const mrt_normalizer *self,
                     mrt_slice text, size_t *head);
  mrt_normalizer *next;
  bool compatible, compose;            /* a form */
  bool clean, chinese, accents, lower; /* BERT's; accents: are taken away */
  bool left, right;                    /* white space that is taken away */
  mrt_slice text;                      /* prepended, or what replaces */
  mrt_pattern *pattern;
  mrt_charsmap map;
  bool dummy, squeeze, escape, suffix; /* sentencepiece's (sentencepiece.h) */
  const mrt_trie *kept;                /* symbols of the user; or NULL */
  bool plain[128];                     /* stands for itself, whatever follows */
};

/* Adds one at the end of the list; NULL: no memory. */
mrt_normalizer *mrt_tokenizer_normalizer(mrt_tokenizer *t);
/* All of them; *out is borrowed until the next call.  *head (of `text`) becomes
 * that of *out. */
mrt_status mrt_normalise(mrt_tokenizer *t, mrt_slice text, mrt_slice *out,
                         size_t *head);

typedef mrt_status mrt_normalise_text(mrt_tokenizer *t,
                                      const mrt_normalizer *self,
                                      mrt_slice text, mrt_chars *out,
                                      bool *same);
mrt_normalise_text mrt_normalise_form, mrt_normalise_lower,
    mrt_normalise_accents, mrt_normalise_strip, mrt_normalise_prepend,
    mrt_normalise_replace, mrt_normalise_nmt, mrt_normalise_bert,
    mrt_normalise_bytes, mrt_normalise_charsmap;

typedef mrt_status mrt_normal_head(mrt_tokenizer *t, const mrt_normalizer *self,
                                   mrt_slice text, size_t *head);
mrt_normal_head mrt_head_strip, mrt_head_prepend, mrt_head_replace,
    mrt_head_charsmap, mrt_head_form;

/* ---- charsmap.c ---------------------------------------------------------- */

/* Look at the blob, which stays; false: it is none. */
bool mrt_charsmap_read(mrt_charsmap *m, const char *blob, size_t size);
/* What a string that begins at `p` becomes; at NULL: nothing is said of it.
 * Of several the longest or the shortest; *size: its bytes. */
mrt_slice mrt_charsmap_find(const mrt_charsmap *m, const char *p, size_t n,
                            bool longest, size_t *size);

/* Does anything begin with this byte? */
bool mrt_charsmap_begins(const mrt_charsmap *m, char byte);

/* ---- kinds.c ------------------------------------------------------------- */

/* Lower case, one or two characters. */
size_t mrt_to_lower(uint32_t c, uint32_t out[2]);
bool mrt_is_mark(uint32_t c);       /* M */
bool mrt_is_nonspacing(uint32_t c); /* Mn */
bool mrt_is_other(uint32_t c);      /* what BERT takes away */
bool mrt_is_chinese(uint32_t c);    /* as BERT has it */

#endif
