/* sentencepiece.h -- what is in a model of sentencepiece
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_TEXT_SENTENCEPIECE_H
#define MRT_TEXT_SENTENCEPIECE_H

#include "text/normal.h"

enum {
  MRT_SPM_NORMAL = 1,
  MRT_SPM_UNKNOWN,
  MRT_SPM_CONTROL,
  MRT_SPM_USER,
  MRT_SPM_UNUSED,
  MRT_SPM_BYTE,
};

typedef struct mrt_spm_piece {
  mrt_slice text;
  float score;
  int type;
} mrt_spm_piece;

typedef struct mrt_spm {
  mrt_spm_piece *pieces;
  int count, kind; /* 1: unigram, 2: BPE */
  bool byte_fallback;
  mrt_slice charsmap;
  bool dummy;   /* a space is put in front of a text */
  bool squeeze; /* spaces at its ends, and side by side, are taken away */
  bool escape;  /* a space is U+2581 */
  bool suffix;  /* spaces end words */
} mrt_spm;

/* spm_model.c: how the pieces become words' ids. */
mrt_status mrt_spm_unigram(mrt_tokenizer *t, const mrt_spm *m, int32_t unknown);
mrt_status mrt_spm_bpe(mrt_tokenizer *t, mrt_source *s, const mrt_spm *m,
                       int32_t unknown);
/* spm_text.c: what becomes of a text before, and of pieces after. */
mrt_status mrt_spm_normalizer(mrt_tokenizer *t, mrt_source *s,
                              const mrt_spm *m);
mrt_status mrt_spm_decoder(mrt_tokenizer *t, const mrt_spm *m, int32_t unknown);

#endif
