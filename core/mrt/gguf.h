/* gguf.h -- GGUF files: metadata with types, packed tensors, writing
 *
 * They are opened, and tensors read as numbers, as any file of arrays is
 * (mrt.h, files).
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_GGUF_H
#define MRT_GGUF_H

#include "mrt/types.h"

#ifdef __cplusplus
extern "C" {
#endif

struct mrt_context;
struct mrt_source;

/* ---- reading ------------------------------------------------------------- */

/* A value of metadata with a type (mrt/metadata.def), or a list of such. */
typedef enum mrt_meta_type {
#define META(name, code, bytes) MRT_META_##name = code,
#include "mrt/metadata.def"
#undef META
} mrt_meta_type;
/* NULL: there is no such type; *bytes is 0 of a string. */
MRT_API const char *mrt_meta_type_name(mrt_meta_type type, size_t *bytes);

typedef struct mrt_meta {
  const char *key;
  mrt_meta_type type; /* of a list: of what is in it */
  bool list;
  uint64_t count; /* 1, of a list how many */
  /* Little-endian, one after the other; a string is its length in 8 bytes, then
   * its own. */
  const void *data;
  size_t size;
} mrt_meta;
/* The i-th of them, NULL past the last: those of GGUF; of the other formats
 * mrt_source_metadata. */
MRT_API const mrt_meta *mrt_source_meta(const struct mrt_source *source, int i);

/* Read array i, of type Q4_0 or Q8_0, as the operator quantized_linear has
 * codes and scales of these kinds: u8 [..., K / 2] or [..., K], and f16
 * [..., K / 32], bit for bit.  EVALUE: it is of another type. */
MRT_API mrt_status mrt_source_read_codes(struct mrt_source *source, int i,
                                         mrt_tensor **codes,
                                         mrt_tensor **scales);

/* ---- writing ------------------------------------------------------------- */

/* A GGUF file as it is written: version 3, tensors one after the other, each
 * packed while it is written.  Like the others it appears whole or not at all. */
typedef struct mrt_gguf mrt_gguf;
typedef struct mrt_gguf_entry {
  const char *name; /* of at most 63 bytes */
  const char *type; /* "f32", "q4_0" ... */
  int rank;         /* of at most 4 dimensions, row-major */
  int64_t dims[MRT_MAX_RANK];
} mrt_gguf_entry;
/* Bytes of a tensor of this type and shape; EVALUE: there is no such type, or
 * it cannot be written; ESHAPE: the last dimension is no multiple of a block. */
MRT_API mrt_status mrt_gguf_bytes(struct mrt_context *ctx,
                                  const mrt_gguf_entry *entry, uint64_t *bytes);
/* Write what is before the tensors.  `general.alignment` is heeded where it is
 * given as u32. */
MRT_API mrt_status mrt_gguf_new(struct mrt_context *ctx, const char *path,
                                const mrt_gguf_entry *entries, int n,
                                const mrt_meta *metas, int meta_count,
                                mrt_gguf **out);
/* Compute the next tensor and write it.  ESHAPE: it is not what its entry says;
 * EDTYPE: it is no float where one is packed; EVALUE: a number that is not
 * finite or too large for the type; ESTATE: no tensor is left to write.
 * After a failure other than ENOMEM the file cannot be finished. */
MRT_API mrt_status mrt_gguf_put(mrt_gguf *file, mrt_tensor *tensor);
/* All are written: the file appears.  ESTATE: one is missing. */
MRT_API mrt_status mrt_gguf_commit(mrt_gguf *file);
MRT_API void mrt_gguf_free(mrt_gguf *file); /* NULL is fine */

#ifdef __cplusplus
}
#endif
#endif
