/* inflate.c -- deflated bytes, through zlib
 *
 * Room is made before anything is unpacked, for as much as the file says; more
 * does not come out.  A file that says more than deflate can pack, than its
 * format's header wants or than the machine has is refused unread.
 *
 * SPDX-License-Identifier: MIT */
#include "io/io.h"
#include "tensor/tensor.h"

#include <limits.h>
#include <string.h>
#include <zlib.h>

/* zlib's memory comes from us, so that it is bounded where ours is; it does
 * not say sizes when it frees, so they stand in front. */
enum { FRONT = 16 };
static void *take(void *user, unsigned count, unsigned size) {
  if (size && count > (SIZE_MAX - FRONT) / size) return NULL;
  size_t n = (size_t)count * size + FRONT;
  uint8_t *block = mrt_calloc(user, n, 1);
  if (!block) return NULL;
  memcpy(block, &n, sizeof n);
  return block + FRONT;
}

static void give(void *user, void *address) {
  uint8_t *block = (uint8_t *)address - FRONT;
  size_t n;
  memcpy(&n, block, sizeof n);
  mrt_release(user, block, n);
}

static z_stream new_stream(const mrt_allocator *a) {
  return (z_stream){ .zalloc = take, .zfree = give, .opaque = (void *)a };
}

/* What is still to be handed to zlib, which counts in 32 bits: bytes of the
 * file, a piece at a time, and room for what comes out. */
typedef struct rest {
  const mrt_bytes *bytes;
  size_t at, in, out;
  mrt_status status; /* of reading */
  mrt_error *error;
  uint8_t piece[1 << 16];
} rest;

static mrt_status hand_over(z_stream *z, rest *r) {
  size_t in = r->in > sizeof r->piece ? sizeof r->piece : r->in;
  uInt out = r->out > UINT_MAX / 2 ? UINT_MAX / 2 : (uInt)r->out;
  if (!z->avail_out) z->avail_out = out, r->out -= out;
  if (z->avail_in || !in) return MRT_OK;
  MRT_TRY(mrt_bytes_read(r->bytes, r->at, r->piece, in, r->error));
  z->next_in = r->piece, z->avail_in = (uInt)in;
  r->at += in, r->in -= in;
  return MRT_OK;
}

/* Until the stream ends, or there is nothing left, or no room. */
static int run(z_stream *z, rest *r) {
  int code = Z_OK;
  while (code == Z_OK) {
    if ((r->status = hand_over(z, r))) return Z_ERRNO;
    if (!z->avail_in || !z->avail_out) break;
    code = inflate(z, Z_NO_FLUSH);
  }
  return code;
}

/* The stream must end where the room does, which can be full one step before
 * that end is seen. */
static int run_whole(z_stream *z, rest *r) {
  uint8_t extra;
  int code = run(z, r);
  if (code != Z_OK || z->avail_out) return code;
  z->next_out = &extra, z->avail_out = 1;
  code = inflate(z, Z_NO_FLUSH);
  return z->avail_out == 0 ? Z_DATA_ERROR : code;
}

mrt_status mrt_inflate(const mrt_allocator *a, const mrt_bytes *in, size_t at,
                       size_t size, uint8_t *out, size_t room, size_t *made,
                       const uint32_t *crc, mrt_error *e) {
  z_stream z = new_stream(a);
  if (inflateInit2(&z, -15) != Z_OK) return mrt_nomem(e);
  rest r = { in, at, size, room, MRT_OK, e, { 0 } };
  z.next_out = out;
  int code = (crc ? run_whole : run)(&z, &r);
  *made = z.total_out;
  inflateEnd(&z);
  if (r.status) return r.status;
  if (code == Z_MEM_ERROR) return mrt_nomem(e);
  bool bad = code != Z_OK && code != Z_STREAM_END;
  if (crc) bad = code != Z_STREAM_END || *made != room;
  if (bad) return mrt_fail(e, MRT_EDATA, "its deflated bytes are damaged");
  if (crc && crc32_z(0, out, room) != *crc)
    return mrt_fail(e, MRT_EDATA, "its checksum is wrong");
  return MRT_OK;
}

/* What came of unpacking a gzip file. */
static mrt_status end_gunzip(mrt_source *s, z_stream *z, const rest *r,
                             bool good, int code) {
  inflateEnd(z);
  if (r->status)
    return mrt_source_fail(s, r->status, "%s", mrt_message(s->ctx));
  if (code == Z_MEM_ERROR) return mrt_nomem(&s->ctx->error);
  if (good) return MRT_OK;
  return mrt_source_fail(s, MRT_EDATA, "its gzip stream is damaged");
}

static mrt_status unzip_into(mrt_source *s, uint8_t *out, size_t room) {
  mrt_error *e = &s->ctx->error;
  z_stream z = new_stream(s->ctx->allocator);
  if (inflateInit2(&z, 15 + 16) != Z_OK) return mrt_nomem(e);
  rest r = { &s->bytes, 0, s->bytes.size, room, MRT_OK, e, { 0 } };
  z.next_out = out;
  int code = run_whole(&z, &r);
  bool whole =
      code == Z_STREAM_END && z.total_out == room && !z.avail_in && !r.in;
  return end_gunzip(s, &z, &r, whole, code);
}

static mrt_status unzip_head(mrt_source *s, uint8_t *head, size_t room,
                             size_t *made) {
  mrt_error *e = &s->ctx->error;
  z_stream z = new_stream(s->ctx->allocator);
  if (inflateInit2(&z, 15 + 16) != Z_OK) return mrt_nomem(e);
  rest r = { &s->bytes, 0, s->bytes.size, room, MRT_OK, e, { 0 } };
  z.next_out = head;
  int code = run(&z, &r);
  *made = z.total_out;
  return end_gunzip(s, &z, &r, code == Z_OK || code == Z_STREAM_END, code);
}

static mrt_status is_gzip(mrt_source *s, bool *yes) {
  uint8_t magic[2] = { 0 };
  if (s->bytes.size >= 2) MRT_TRY(mrt_source_take(s, 0, magic, 2));
  *yes = magic[0] == 0x1f && magic[1] == 0x8b;
  return MRT_OK;
}

mrt_status mrt_gunzip_head(mrt_source *s, uint8_t *head, size_t room,
                           size_t *made) {
  bool packed = false;
  MRT_TRY(is_gzip(s, &packed));
  if (packed) return unzip_head(s, head, room, made);
  *made = s->bytes.size < room ? s->bytes.size : room;
  return mrt_source_take(s, 0, head, *made);
}

/* How much a gzip file says is in it. */
static mrt_status read_room(mrt_source *s, size_t most, size_t *room) {
  uint8_t last[4] = { 0 };
  size_t size = s->bytes.size;
  if (size >= 18) MRT_TRY(mrt_source_take(s, size - 4, last, 4));
  *room = (size_t)mrt_little(last, 4);
  if (size < 18 || !mrt_inflate_plausible(size, *room))
    return mrt_source_fail(s, MRT_EDATA, "%zu bytes of gzip cannot hold %zu",
                           size, *room);
  if (*room > most)
    return mrt_source_fail(s, MRT_EDATA, "unpacked it is %zu bytes, %zu wanted",
                           *room, most);
  return MRT_OK;
}

mrt_status mrt_gunzip(mrt_source *s, size_t most) {
  size_t room = 0;
  bool packed = false;
  uint8_t *block;
  MRT_TRY(is_gzip(s, &packed));
  if (!packed) return MRT_OK;
  MRT_TRY(read_room(s, most, &room));
  MRT_TRY(mrt_source_block(s, room + !room, &block));
  mrt_status status = unzip_into(s, block, room);
  if (status) {
    mrt_release(s->ctx->allocator, block, room + !room);
    return status;
  }
  mrt_bytes_close(s->ctx->allocator, &s->bytes);
  s->bytes = (mrt_bytes){ block, room, -1, room + !room };
  return MRT_OK;
}
