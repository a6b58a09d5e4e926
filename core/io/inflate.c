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

/* What is still to be handed to zlib, which counts in 32 bits. */
typedef struct rest {
  size_t in, out;
} rest;

static void hand_over(z_stream *z, rest *r) {
  uInt in = r->in > UINT_MAX / 2 ? UINT_MAX / 2 : (uInt)r->in;
  uInt out = r->out > UINT_MAX / 2 ? UINT_MAX / 2 : (uInt)r->out;
  if (!z->avail_in) z->avail_in = in, r->in -= in;
  if (!z->avail_out) z->avail_out = out, r->out -= out;
}

/* Until the stream ends, or there is nothing left, or no room. */
static int run(z_stream *z, rest *r) {
  int code = Z_OK;
  for (hand_over(z, r); code == Z_OK && z->avail_in && z->avail_out;
       hand_over(z, r))
    code = inflate(z, Z_NO_FLUSH);
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

mrt_status mrt_check_crc(const uint8_t *data, size_t size, uint32_t crc,
                         mrt_error *e) {
  if (crc32_z(0, data, size) == crc) return MRT_OK;
  return mrt_fail(e, MRT_EDATA, "its checksum is wrong");
}

mrt_status mrt_inflate(const mrt_allocator *a, const uint8_t *data, size_t size,
                       uint8_t *out, size_t room, size_t *made,
                       const uint32_t *crc, mrt_error *e) {
  z_stream z = new_stream(a);
  if (inflateInit2(&z, -15) != Z_OK) return mrt_nomem(e);
  rest r = { size, room };
  z.next_in = (uint8_t *)data, z.next_out = out;
  int code = (crc ? run_whole : run)(&z, &r);
  *made = z.total_out;
  inflateEnd(&z);
  if (code == Z_MEM_ERROR) return mrt_nomem(e);
  bool bad = code != Z_OK && code != Z_STREAM_END;
  if (crc) bad = code != Z_STREAM_END || *made != room;
  if (bad) return mrt_fail(e, MRT_EDATA, "its deflated bytes are damaged");
  return crc ? mrt_check_crc(out, room, *crc, e) : MRT_OK;
}

static mrt_status unzip_into(mrt_source *s, uint8_t *out, size_t room) {
  z_stream z = new_stream(s->ctx->allocator);
  if (inflateInit2(&z, 15 + 16) != Z_OK) return mrt_nomem(&s->ctx->error);
  rest r = { s->map.size, room };
  z.next_in = (uint8_t *)s->map.data, z.next_out = out;
  int code = run_whole(&z, &r);
  bool whole =
      code == Z_STREAM_END && z.total_out == room && !z.avail_in && !r.in;
  inflateEnd(&z);
  if (code == Z_MEM_ERROR) return mrt_nomem(&s->ctx->error);
  if (whole) return MRT_OK;
  return mrt_source_fail(s, MRT_EDATA, "its gzip stream is damaged");
}

static bool is_gzip(const mrt_source *s) {
  return s->map.size >= 2 && s->map.data[0] == 0x1f && s->map.data[1] == 0x8b;
}

mrt_status mrt_gunzip_head(mrt_source *s, uint8_t *head, size_t room,
                           size_t *made) {
  if (is_gzip(s)) {
    z_stream z = new_stream(s->ctx->allocator);
    if (inflateInit2(&z, 15 + 16) != Z_OK) return mrt_nomem(&s->ctx->error);
    rest r = { s->map.size, room };
    z.next_in = (uint8_t *)s->map.data, z.next_out = head;
    int code = run(&z, &r);
    *made = z.total_out;
    inflateEnd(&z);
    if (code == Z_MEM_ERROR) return mrt_nomem(&s->ctx->error);
    if (code == Z_OK || code == Z_STREAM_END) return MRT_OK;
    return mrt_source_fail(s, MRT_EDATA, "its gzip stream is damaged");
  }
  *made = s->map.size < room ? s->map.size : room;
  if (*made) memcpy(head, s->map.data, *made);
  return MRT_OK;
}

mrt_status mrt_gunzip(mrt_source *s, size_t most) {
  const uint8_t *data = s->map.data;
  size_t size = s->map.size;
  if (!is_gzip(s)) return MRT_OK;
  size_t room = size < 18 ? 0 : (size_t)mrt_little(data + size - 4, 4);
  if (size < 18 || !mrt_inflate_plausible(size, room))
    return mrt_source_fail(s, MRT_EDATA, "%zu bytes of gzip cannot hold %zu",
                           size, room);
  if (room > most)
    return mrt_source_fail(s, MRT_EDATA, "unpacked it is %zu bytes, %zu wanted",
                           room, most);
  uint8_t *block;
  MRT_TRY(mrt_source_block(s, room, &block));
  mrt_status status = unzip_into(s, block, room);
  if (status) {
    mrt_release(s->ctx->allocator, block, room);
    return status;
  }
  mrt_map_close(s->ctx->allocator, &s->map);
  s->map = (mrt_map){ block, room, -1, room ? room : 1 };
  return MRT_OK;
}
