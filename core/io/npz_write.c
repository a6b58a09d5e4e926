/* npz_write.c -- see npz.c
 *
 * Every member has zip64 fields, large or not, so there is one layout; sizes
 * and checksum are filled in once the member is written.
 *
 * SPDX-License-Identifier: MIT */
#include "io/io.h"
#include "tensor/tensor.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

typedef struct npz_new_member {
  const char *name;
  uint64_t local, packed, unpacked;
  uint32_t crc;
} npz_new_member;

/* Bytes of a record in the making: at most a name and what surrounds it. */
typedef struct record {
  uint8_t bytes[1024];
  size_t size;
} record;

enum { LONGEST_NAME = 500, PIECE = 1 << 16 };

static void add(record *r, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; i++)
    r->bytes[r->size++] = (uint8_t)(value >> 8 * i);
}

static void add_name(record *r, const char *name) {
  size_t n = strlen(name);
  memcpy(r->bytes + r->size, name, n);
  memcpy(r->bytes + r->size + n, ".npy", 4);
  r->size += n + 4;
}

/* What a member's two records share, from the version on. */
static void add_common(record *r, const npz_new_member *m, bool deflated,
                       int extra) {
  add(r, 45, 2);
  add(r, 1 << 11, 2); /* the name is UTF-8 */
  add(r, deflated ? 8 : 0, 2);
  add(r, 0, 2);
  add(r, 33, 2); /* 1 January 1980: the same input gives the same file */
  add(r, m->crc, 4);
  add(r, UINT32_MAX, 4);
  add(r, UINT32_MAX, 4);
  add(r, strlen(m->name) + 4, 2);
  add(r, (uint64_t)extra, 2);
}

static record local_record(const npz_new_member *m, bool deflated) {
  record r = { .size = 0 };
  add(&r, 0x04034b50, 4);
  add_common(&r, m, deflated, 20);
  add_name(&r, m->name);
  add(&r, 1, 2), add(&r, 16, 2);
  add(&r, m->unpacked, 8), add(&r, m->packed, 8);
  return r;
}

static record entry_record(const npz_new_member *m, bool deflated) {
  record r = { .size = 0 };
  add(&r, 0x02014b50, 4);
  add(&r, 45, 2);
  add_common(&r, m, deflated, 28);
  add(&r, 0, 2), add(&r, 0, 2), add(&r, 0, 2), add(&r, 0, 4);
  add(&r, UINT32_MAX, 4);
  add_name(&r, m->name);
  add(&r, 1, 2), add(&r, 24, 2);
  add(&r, m->unpacked, 8), add(&r, m->packed, 8), add(&r, m->local, 8);
  return r;
}

static record end_record(uint64_t count, uint64_t at, uint64_t end) {
  record r = { .size = 0 };
  add(&r, 0x06064b50, 4), add(&r, 44, 8), add(&r, 45, 2), add(&r, 45, 2);
  add(&r, 0, 4), add(&r, 0, 4), add(&r, count, 8), add(&r, count, 8);
  add(&r, end - at, 8), add(&r, at, 8);
  add(&r, 0x07064b50, 4), add(&r, 0, 4), add(&r, end, 8), add(&r, 1, 4);
  add(&r, 0x06054b50, 4), add(&r, 0, 4);
  add(&r, UINT16_MAX, 2), add(&r, UINT16_MAX, 2);
  add(&r, UINT32_MAX, 4), add(&r, UINT32_MAX, 4), add(&r, 0, 2);
  return r;
}

/* ---- a member's bytes ---------------------------------------------------- */

/* Deflate into the file; `last` ends the stream. */
static mrt_status pack(mrt_file_writer *w, z_stream *z, const uint8_t *data,
                       size_t size, bool last, mrt_error *e) {
  uint8_t out[PIECE];
  int code = Z_OK;
  z->next_in = (uint8_t *)data;
  do {
    z->avail_in = size > 1u << 30 ? 1u << 30 : (uInt)size;
    size -= z->avail_in;
    do {
      z->next_out = out, z->avail_out = sizeof out;
      code = deflate(z, last && !size ? Z_FINISH : Z_NO_FLUSH);
      if (code == Z_STREAM_ERROR) return mrt_nomem(e);
      MRT_TRY(mrt_writer_put(w, out, sizeof out - z->avail_out, e));
    } while (z->avail_out == 0);
  } while (size);
  return MRT_OK;
}

static mrt_status put_packed(mrt_file_writer *w, const char *head,
                             size_t head_size, const void *data, size_t size,
                             mrt_error *e) {
  z_stream z = { .zalloc = NULL };
  if (deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -15, 8,
                   Z_DEFAULT_STRATEGY) != Z_OK)
    return mrt_nomem(e);
  mrt_status status = pack(w, &z, (const uint8_t *)head, head_size, false, e);
  if (!status) status = pack(w, &z, data, size, true, e);
  deflateEnd(&z);
  return status;
}

static mrt_status put_bytes(mrt_file_writer *w, npz_new_member *m,
                            mrt_tensor *t, bool deflated, mrt_error *e) {
  char head[MRT_NPY_HEADER];
  size_t head_size, size = mrt_type_bytes(mrt_tensor_type(t));
  MRT_TRY(mrt_npy_header(mrt_tensor_type(t), head, &head_size, e));
  const void *data = mrt_tensor_data(t);
  m->crc = (uint32_t)crc32_z(0, (const Bytef *)head, head_size);
  if (size) m->crc = (uint32_t)crc32_z(m->crc, data, size);
  m->unpacked = head_size + size;
  uint64_t before = w->written;
  mrt_status status = MRT_OK;
  if (deflated)
    status = put_packed(w, head, head_size, data, size, e);
  else if (!(status = mrt_writer_put(w, head, head_size, e)))
    status = mrt_writer_put(w, data, size, e);
  m->packed = w->written - before;
  return status;
}

static mrt_status put_member(mrt_file_writer *w, npz_new_member *m,
                             mrt_tensor *t, bool deflated, mrt_error *e) {
  m->local = w->written;
  record r = local_record(m, deflated);
  MRT_TRY(mrt_writer_put(w, r.bytes, r.size, e));
  MRT_TRY(mrt_tensors_read(mrt_tensor_context(t), &t, 1));
  mrt_status status = put_bytes(w, m, t, deflated, e);
  mrt_tensor_leave(t);
  if (status) return status;
  r = local_record(m, deflated);
  return mrt_writer_patch(w, m->local, r.bytes, r.size, e);
}

/* ---- the archive --------------------------------------------------------- */

static mrt_status write_all(mrt_file_writer *w, const mrt_named *tensors, int n,
                            bool deflated, npz_new_member *members,
                            mrt_error *e) {
  for (int i = 0; i < n; i++) {
    members[i].name = tensors[i].name;
    if (strlen(tensors[i].name) > LONGEST_NAME)
      return mrt_fail(e, MRT_EVALUE, "save: '%.40s...' is too long a name",
                      tensors[i].name);
    MRT_TRY(put_member(w, &members[i], tensors[i].tensor, deflated, e));
  }
  uint64_t at = w->written;
  for (int i = 0; i < n; i++) {
    record r = entry_record(&members[i], deflated);
    MRT_TRY(mrt_writer_put(w, r.bytes, r.size, e));
  }
  record r = end_record((uint64_t)n, at, w->written);
  MRT_TRY(mrt_writer_put(w, r.bytes, r.size, e));
  return mrt_writer_commit(w, e);
}

MRT_API mrt_status mrt_save_npz(mrt_context *ctx, const char *path,
                                const mrt_named *tensors, int n, bool deflate) {
  const mrt_allocator *a = ctx->allocator;
  mrt_file_writer w;
  npz_new_member *members = mrt_calloc(a, (size_t)n, sizeof *members);
  if (!members) return mrt_nomem(&ctx->error);
  mrt_status status = mrt_writer_open(&w, path, &ctx->error);
  if (!status)
    status = write_all(&w, tensors, n, deflate, members, &ctx->error);
  mrt_writer_close(&w);
  mrt_release(a, members, (size_t)n * sizeof *members);
  return status;
}
