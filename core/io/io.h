/* io.h -- files of arrays: what formats share
 *
 * A source is the bytes of one file (read where they are wanted, or held in
 * memory) and the arrays in it.  A format is one function that reads what says
 * which arrays there are and lists them; it reads no numbers.  Numbers are read
 * by one function for all formats, which knows how they are stored.
 *
 * Bytes of a file are never trusted: a format checks every size against what
 * is there before anything is allocated for it or read from it.
 *
 *   array    stored numbers of one type and shape.  Row i begins at
 *            data + i * stride; within a row they lie side by side, in blocks
 *            of several where they are stored so
 *   row      one step of the first dimension; a scalar is one row
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_IO_IO_H
#define MRT_IO_IO_H

#include "base/memory.h"
#include "io/partial.h"
#include "tensor/tensor.h"

/* How numbers are stored: STORED(name, bytes of a unit, numbers in it, what they
 * are read as).  Those of several numbers are blocks (blocks.h). */
#define MRT_STORED_KINDS                                                       \
  STORED(bool, 1, 1, bool)                                                     \
  STORED(u8, 1, 1, u8)                                                         \
  STORED(i8, 1, 1, i32)                                                        \
  STORED(i16, 2, 1, i32)                                                       \
  STORED(u16, 2, 1, i32)                                                       \
  STORED(i32, 4, 1, i32)                                                       \
  STORED(u32, 4, 1, i64)                                                       \
  STORED(i64, 8, 1, i64)                                                       \
  STORED(f16, 2, 1, f16)                                                       \
  STORED(bf16, 2, 1, bf16)                                                     \
  STORED(f8_e4m3, 1, 1, f8_e4m3)                                               \
  STORED(f8_e5m2, 1, 1, f8_e5m2)                                               \
  STORED(f32, 4, 1, f32)                                                       \
  STORED(f64, 8, 1, f64)                                                       \
  STORED(q4_0, 18, 32, f32)                                                    \
  STORED(q4_1, 20, 32, f32)                                                    \
  STORED(q5_0, 22, 32, f32)                                                    \
  STORED(q5_1, 24, 32, f32)                                                    \
  STORED(q8_0, 34, 32, f32)                                                    \
  STORED(iq4_nl, 18, 32, f32)                                                  \
  STORED(mxfp4, 17, 32, f32)                                                   \
  STORED(q2_k, 84, 256, f32)                                                   \
  STORED(q3_k, 110, 256, f32)                                                  \
  STORED(q4_k, 144, 256, f32)                                                  \
  STORED(q5_k, 176, 256, f32)                                                  \
  STORED(q6_k, 210, 256, f32)                                                  \
  STORED(iq4_xs, 136, 256, f32)

typedef enum mrt_stored {
#define STORED(name, bytes, numbers, as) MRT_STORED_##name,
  MRT_STORED_KINDS
#undef STORED
      MRT_STORED_COUNT /* no tensor can have it */
} mrt_stored;

/* Bytes of a unit, numbers in it, bytes of n numbers: of whole units. */
size_t mrt_stored_bytes(mrt_stored stored);
int64_t mrt_stored_numbers(mrt_stored stored);
size_t mrt_stored_span(mrt_stored stored, int64_t n);
mrt_dtype mrt_stored_dtype(mrt_stored stored);

/* The bytes of a file, or bytes in memory. */
typedef struct mrt_bytes {
  const uint8_t *data; /* in memory; NULL: in the file */
  size_t size;         /* the file's when it was opened */
  int file;            /* -1: none */
  size_t owned;        /* bytes to release; 0: borrowed, or none */
} mrt_bytes;

typedef struct mrt_array {
  const char *name;
  const char *dtype; /* as the format calls it */
  mrt_stored stored; /* COUNT: can be listed, not read */
  bool big_endian, fortran;
  mrt_type type;    /* as it is read */
  size_t offset;    /* of row 0, in the file or in what is unpacked */
  size_t stride;    /* bytes from row to row */
  mrt_bytes *bytes; /* where the bytes are */
  size_t packed;    /* an archive's member: so many bytes, at `packed_at` */
  size_t packed_at;
  size_t unpacked; /* it is deflated, from so many; 0: stored */
  uint32_t crc;    /* of its bytes when they are not deflated */
  bool checked;    /* nothing is left to compare */
  bool late;       /* rows are read without comparing */
  mrt_bytes whole; /* unpacked, once somebody has read it */
} mrt_array;

typedef struct mrt_metadata {
  const char *key, *value;
} mrt_metadata;

struct mrt_source {
  mrt_context *ctx; /* held */
  mrt_arena arena;
  const char *path; /* for messages */
  mrt_bytes bytes;
  mrt_array *arrays;
  int count, room;
  mrt_metadata *pairs;
  int pair_count, pair_room;
  mrt_meta *metas; /* metadata with types */
  int meta_count, meta_room;
  char separator;    /* of a table of text */
  mrt_source *parts; /* of a sharded model, chained by `next` */
  mrt_source *next;
  struct mrt_ahead *ahead; /* reads rows that will be wanted, or NULL */
};

/* The function of a format: lists the arrays in s->bytes. */
typedef mrt_status (*mrt_parse)(mrt_source *s);
#define FORMAT(name, ending, doc) mrt_status mrt_parse_##name(mrt_source *s);
#include "formats.def"
#undef FORMAT

/* "path: message" */
mrt_status mrt_source_fail(mrt_source *s, mrt_status status, const char *fmt,
                           ...) MRT_PRINTF(3, 4);
/* One more array, zeroed but for what reads the file as it is; NULL: no
 * memory.  Valid until the next is added. */
mrt_array *mrt_source_add(mrt_source *s, const char *name);
mrt_status mrt_source_add_pair(mrt_source *s, const char *key,
                               const char *value);
/* Fill in the type, what follows from it, and check that the rows lie within
 * `limit` bytes; stored, offset and the shape are set before. */
mrt_status mrt_array_check(mrt_source *s, mrt_array *a, size_t limit);
/* An evaluated tensor whose numbers are still to be filled in. */
mrt_status mrt_source_tensor(mrt_source *s, const mrt_type *type,
                             mrt_tensor **out);
/* The same of numbers that are there; takes the storage over. */
mrt_status mrt_source_wrap(mrt_source *s, const mrt_type *type,
                           mrt_storage *storage, mrt_tensor **out);
/* Hand `t` out, or, when reading failed, free it: its message gets the path in
 * front. */
mrt_status mrt_source_finish(mrt_source *s, mrt_tensor *t, mrt_status status,
                             mrt_tensor **out);
int64_t mrt_array_count(const mrt_array *a); /* rows */
int64_t mrt_array_width(const mrt_array *a); /* numbers in a row */
/* What row 0 is in, at the array's offset, after everything that can stand in
 * the way but a checksum. */
mrt_status mrt_source_find(mrt_source *s, mrt_array *a, const mrt_bytes **in);
/* EDATA for a dtype that no tensor has. */
mrt_status mrt_array_readable(mrt_source *s, const mrt_array *a);
/* Compare an array with its checksum, unless that has been done. */
mrt_status mrt_array_verify(mrt_source *s, mrt_array *a);
/* Copy bytes [at, at + n) of the file, which lie within it. */
mrt_status mrt_source_take(mrt_source *s, size_t at, void *to, size_t n);
/* Read the file into memory, where s->bytes.data has it from now on. */
mrt_status mrt_source_hold(mrt_source *s);
/* A file's bytes, in which nothing has been looked for. */
mrt_status mrt_source_of(mrt_context *ctx, const char *path, mrt_source **out);
/* As mrt_source_open, of bytes that the caller keeps. */
mrt_status mrt_source_from(mrt_context *ctx, const char *path,
                           const char *format, const uint8_t *data, size_t size,
                           mrt_source **out);

/* ---- bytes.c ------------------------------------------------------------- */

/* Open a file.  Fills `in`; EFILE, with the path, when it cannot be read or is
 * not a regular file. */
mrt_status mrt_bytes_open(const char *path, mrt_bytes *in, mrt_error *e);
void mrt_bytes_close(const mrt_allocator *a, mrt_bytes *in);
/* EFILE, without the path, when the file is shorter than when it was opened. */
mrt_status mrt_bytes_check(const mrt_bytes *in, mrt_error *e);
/* Copy bytes [at, at + n), which lie within `size`.  EFILE, without the path,
 * when the file does not have them any more.  Any thread may. */
mrt_status mrt_bytes_read(const mrt_bytes *in, size_t at, void *to, size_t n,
                          mrt_error *e);
/* Begin to read these bytes from the disk; does not wait. */
void mrt_bytes_advise(const mrt_bytes *in, size_t offset, size_t nbytes);

/* ---- ahead.c ------------------------------------------------------------- */

/* Rows that are wanted: those of an array from each of n places on. */
typedef struct mrt_wish {
  const mrt_array *array;
  const int64_t *rows;
  int64_t n, each;
  size_t step; /* bytes of one window as it is read */
} mrt_wish;

/* Begin to read them in the background; `in` has row 0.  Returns false where
 * that cannot be. */
bool mrt_ahead_begin(mrt_source *s, const mrt_wish *w, const mrt_bytes *in);
/* What was begun with the same wish, when it is there; NULL: nothing was, or it
 * failed. */
mrt_storage *mrt_ahead_take(mrt_source *s, const mrt_wish *w);
void mrt_ahead_stop(struct mrt_ahead *ahead, const mrt_allocator *a);

/* ---- convert.c ----------------------------------------------------------- */

/* Read n stored numbers into what the array is read as.  EDATA for a bool that
 * is neither 0 nor 1. */
mrt_status mrt_convert(const mrt_array *a, const uint8_t *from, int64_t n,
                       void *to, mrt_error *e);
/* Are its numbers in memory what they are in the file? */
bool mrt_stored_as_is(const mrt_array *a);
/* The same refusal, of numbers as they are stored. */
mrt_status mrt_check_numbers(const mrt_array *a, const uint8_t *from, int64_t n,
                             mrt_error *e);

/* ---- numbers.c ----------------------------------------------------------- */

/* Reading an array; any thread may.  What goes wrong is told without the
 * path. */
typedef struct mrt_array_reader {
  const mrt_array *array;
  const mrt_bytes *bytes; /* has row 0, at the array's offset */
  uint32_t *crc;          /* of the bytes that pass; NULL: nobody asks */
  mrt_error *error;
} mrt_array_reader;

/* Read n rows from row `first` on. */
mrt_status mrt_read_rows(const mrt_array_reader *r, int64_t first, int64_t n,
                         uint8_t *to);
/* Read n numbers that lie side by side from byte `at` on. */
mrt_status mrt_read_numbers(const mrt_array_reader *r, size_t at, int64_t n,
                            void *to);
/* Read n bytes for their checksum alone. */
mrt_status mrt_read_past(const mrt_array_reader *r, size_t at, size_t n);
/* How many windows of a wish, from the k-th on, follow each other in the file:
 * they are read as one. */
int64_t mrt_wish_run(const mrt_wish *w, int64_t k);

/* ---- inflate.c ----------------------------------------------------------- */

/* Unpack raw deflate, `size` bytes from `at` on: up to `room` bytes into `out`;
 * *made tells how many.
 * With `crc`, the stream must be `room` bytes in all and have this checksum.
 * EDATA otherwise. */
mrt_status mrt_inflate(const mrt_allocator *a, const mrt_bytes *in, size_t at,
                       size_t size, uint8_t *out, size_t room, size_t *made,
                       const uint32_t *crc, mrt_error *e);
/* Copy a file's first bytes, of a gzip file what is packed in it: `room` or
 * fewer, *made tells how many. */
mrt_status mrt_gunzip_head(mrt_source *s, uint8_t *head, size_t room,
                           size_t *made);
/* Replace a gzip file's bytes by what is packed in them; another's stay.
 * Refused unread when that is more than `most`. */
mrt_status mrt_gunzip(mrt_source *s, size_t most);
/* No more than this comes out of so many deflated bytes. */
static inline bool mrt_inflate_plausible(size_t packed, uint64_t unpacked) {
  return unpacked / 1032 <= packed;
}
/* A block of bytes that the machine has room for: ENOMEM otherwise. */
mrt_status mrt_source_block(mrt_source *s, size_t nbytes, uint8_t **out);

/* ---- writer.c ------------------------------------------------------------ */

/* A file that appears whole or not at all: written beside its place, brought
 * to the disk, then renamed. */
typedef struct mrt_file_writer {
  mrt_partial partial;
  uint64_t written;
} mrt_file_writer;

/* EFILE, with the path, where what is there is not a regular file. */
mrt_status mrt_writer_open(mrt_file_writer *w, const char *path, mrt_error *e);
mrt_status mrt_writer_put(mrt_file_writer *w, const void *data, size_t nbytes,
                          mrt_error *e);
/* Write over what was put at byte `at`. */
mrt_status mrt_writer_patch(mrt_file_writer *w, uint64_t at, const void *data,
                            size_t nbytes, mrt_error *e);
mrt_status mrt_writer_commit(mrt_file_writer *w, mrt_error *e);
/* Does nothing after commit. */
void mrt_writer_close(mrt_file_writer *w);
/* Compute a tensor and put its numbers; *crc is their checksum, if that is not
 * NULL. */
mrt_status mrt_writer_put_tensor(mrt_file_writer *w, mrt_tensor *t,
                                 uint32_t *crc, mrt_error *e);

/* ---- npy.c --------------------------------------------------------------- */

/* Read an npy header, of which there are `size` bytes, of an array of `limit`
 * bytes in all. */
mrt_status mrt_npy_read(mrt_source *s, mrt_array *a, const uint8_t *data,
                        size_t size, size_t limit);
enum { MRT_NPY_HEADER = 384, MRT_NPY_LONGEST_HEADER = 16384 };
/* The same of a header in the file, at byte `at`; the offset is from there. */
mrt_status mrt_npy_find(mrt_source *s, mrt_array *a, size_t at, size_t limit);
/* The header that numpy would write into `text`, and its size.  EDTYPE where
 * the format has no name for the dtype. */
mrt_status mrt_npy_header(const mrt_type *type, char text[MRT_NPY_HEADER],
                          size_t *size, mrt_error *e);

/* ---- safetensors.c ------------------------------------------------------- */

/* "BF16", or NULL; rank: where the reference's writer sorts it. */
const char *mrt_safetensors_dtype(mrt_dtype dtype, int *rank);

/* Read little-endian and big-endian numbers. */
static inline uint64_t mrt_little(const uint8_t *p, int bytes) {
  uint64_t v = 0;
  for (int i = bytes; i-- > 0;) v = v << 8 | p[i];
  return v;
}
static inline uint64_t mrt_big(const uint8_t *p, int bytes) {
  uint64_t v = 0;
  for (int i = 0; i < bytes; i++) v = v << 8 | p[i];
  return v;
}

#endif
