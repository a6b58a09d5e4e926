/* npz.c -- NumPy's archives: a zip file of .npy members, stored or deflated
 *
 * The directory at the end of the file says where each member is; zip64 fields
 * stand in for what does not fit in 32 bits.  Members may not take more bytes
 * together than the file has, so that none hides inside another.  A member's
 * checksum is compared when it is first read, stored ones included: opening
 * reads headers only.
 *
 *   from  PKWARE's APPNOTE.TXT 6.3.10; numpy/lib/npyio.py
 *
 * SPDX-License-Identifier: MIT */
#include "io/io.h"
#include "tensor/tensor.h"

#include <stdlib.h>
#include <string.h>

enum {
  LOCAL = 0x04034b50,
  ENTRY = 0x02014b50,
  END = 0x06054b50,
  LOCATOR = 0x07064b50,
  END64 = 0x06064b50
};

typedef struct member {
  char name[512];
  int method;
  uint32_t crc;
  uint64_t packed, unpacked, local;
} member;

static mrt_status damaged(mrt_source *s) {
  return mrt_source_fail(s, MRT_EDATA, "its zip directory is damaged");
}

/* Are there n bytes from `at` on? */
static bool has(const mrt_source *s, uint64_t at, uint64_t n) {
  return at <= s->bytes.size && n <= s->bytes.size - at;
}

/* Copy n bytes from `at` on, if there are so many and they begin so. */
static mrt_status take(mrt_source *s, uint64_t at, uint64_t n, uint32_t magic,
                       uint8_t *to) {
  if (!has(s, at, n)) return damaged(s);
  MRT_TRY(mrt_source_take(s, (size_t)at, to, (size_t)n));
  return mrt_little(to, 4) == magic ? MRT_OK : damaged(s);
}

/* ---- the end of the directory -------------------------------------------- */

enum { TAIL = 22 + 65535 };

/* Where the directory ends: 22 bytes and a comment end the file.  `tail` has
 * the file's last `size` bytes. */
static const uint8_t *find_end(const uint8_t *tail, size_t size) {
  for (size_t back = 22; back <= size; back++) {
    const uint8_t *p = tail + size - back;
    if (mrt_little(p, 4) == END && mrt_little(p + 20, 2) == back - 22) return p;
  }
  return NULL;
}

/* Fill where entries begin and how many there are. */
static mrt_status find_entries(mrt_source *s, uint64_t *at, uint64_t *count) {
  uint8_t tail[TAIL], wide[56];
  size_t size = s->bytes.size < TAIL ? s->bytes.size : TAIL;
  MRT_TRY(mrt_source_take(s, s->bytes.size - size, tail, size));
  const uint8_t *end = find_end(tail, size);
  if (!end) return mrt_source_fail(s, MRT_EDATA, "not a zip archive");
  *count = mrt_little(end + 10, 2);
  *at = mrt_little(end + 16, 4);
  uint64_t place = s->bytes.size - size + (uint64_t)(end - tail);
  if (place < 20) return MRT_OK;
  MRT_TRY(mrt_source_take(s, (size_t)place - 20, wide, 20));
  if (mrt_little(wide, 4) != LOCATOR) return MRT_OK;
  MRT_TRY(take(s, mrt_little(wide + 8, 8), 56, END64, wide));
  *count = mrt_little(wide + 32, 8);
  *at = mrt_little(wide + 48, 8);
  return MRT_OK;
}

/* ---- one entry ----------------------------------------------------------- */

/* Replace what is all ones by its zip64 field. */
static bool widen(const uint8_t *extra, size_t size, member *m) {
  uint64_t *fields[] = { &m->unpacked, &m->packed, &m->local };
  while (size >= 4) {
    size_t n = (size_t)mrt_little(extra + 2, 2), at = 4;
    if (n > size - 4) return false;
    for (int i = 0; mrt_little(extra, 2) == 1 && i < 3; i++) {
      if (*fields[i] != UINT32_MAX) continue;
      if (at + 8 > n + 4) return false;
      *fields[i] = mrt_little(extra + at, 8);
      at += 8;
    }
    extra += n + 4, size -= n + 4;
  }
  return true;
}

/* Read the entry at *at and step over it. */
static mrt_status read_entry(mrt_source *s, uint64_t *at, member *m) {
  uint8_t p[46 + sizeof m->name + UINT16_MAX];
  MRT_TRY(take(s, *at, 46, ENTRY, p));
  size_t name = (size_t)mrt_little(p + 28, 2);
  size_t extra = (size_t)mrt_little(p + 30, 2);
  size_t whole = 46 + name + extra + (size_t)mrt_little(p + 32, 2);
  if (!has(s, *at, whole) || name >= sizeof m->name) return damaged(s);
  MRT_TRY(mrt_source_take(s, (size_t)*at + 46, p + 46, name + extra));
  if (memchr(p + 46, 0, name)) return damaged(s);
  memcpy(m->name, p + 46, name);
  m->name[name] = 0;
  m->method = (int)mrt_little(p + 10, 2);
  m->crc = (uint32_t)mrt_little(p + 16, 4);
  m->packed = mrt_little(p + 20, 4);
  m->unpacked = mrt_little(p + 24, 4);
  m->local = mrt_little(p + 42, 4);
  *at += whole;
  if (!widen(p + 46 + name, extra, m)) return damaged(s);
  if (mrt_little(p + 8, 2) & 1)
    return mrt_source_fail(s, MRT_EDATA, "'%.80s' is encrypted", m->name);
  if (m->method != 0 && m->method != 8)
    return mrt_source_fail(s, MRT_EDATA,
                           "'%.80s' is packed by method %d, 0 or 8 wanted",
                           m->name, m->method);
  return MRT_OK;
}

/* Where the member's bytes begin. */
static mrt_status find_bytes(mrt_source *s, const member *m, uint64_t *at) {
  uint8_t p[30];
  MRT_TRY(take(s, m->local, 30, LOCAL, p));
  *at = m->local + 30 + mrt_little(p + 26, 2) + mrt_little(p + 28, 2);
  if (!has(s, *at, m->packed)) return damaged(s);
  if (m->method == 0 && m->packed != m->unpacked) return damaged(s);
  if (!mrt_inflate_plausible((size_t)m->packed, m->unpacked))
    return mrt_source_fail(
        s, MRT_EDATA, "'%.80s': %llu deflated bytes cannot hold %llu", m->name,
        (unsigned long long)m->packed, (unsigned long long)m->unpacked);
  return MRT_OK;
}

static mrt_status read_deflated(mrt_source *s, mrt_array *a, const member *m,
                                uint64_t at) {
  uint8_t head[MRT_NPY_LONGEST_HEADER];
  size_t most = m->unpacked < sizeof head ? (size_t)m->unpacked : sizeof head;
  size_t made;
  a->unpacked = (size_t)m->unpacked;
  if (mrt_inflate(s->ctx->allocator, a->bytes, (size_t)at, a->packed, head,
                  most, &made, NULL, &s->ctx->error))
    return mrt_source_fail(s, s->ctx->error.status, "'%.80s': %s", a->name,
                           mrt_message(s->ctx));
  return mrt_npy_read(s, a, head, made, a->unpacked);
}

/* ---- the archive --------------------------------------------------------- */

static mrt_status add_member(mrt_source *s, member *m) {
  uint64_t at = 0;
  size_t n = strlen(m->name);
  MRT_TRY(find_bytes(s, m, &at));
  if (n < 4 || strcmp(m->name + n - 4, ".npy") != 0) return MRT_OK;
  m->name[n - 4] = 0;
  mrt_array *a = mrt_source_add(s, m->name);
  if (!a) return mrt_nomem(&s->ctx->error);
  a->packed_at = (size_t)at, a->packed = (size_t)m->packed;
  a->crc = m->crc, a->checked = false;
  if (m->method == 8) return read_deflated(s, a, m, at);
  MRT_TRY(mrt_npy_find(s, a, (size_t)at, (size_t)m->packed));
  a->offset += (size_t)at;
  return MRT_OK;
}

static int by_name(const void *p, const void *q) {
  return strcmp(*(const char *const *)p, *(const char *const *)q);
}

static mrt_status check_names(mrt_source *s) {
  const char **names = MRT_NEW(&s->arena, const char *, s->count + 1);
  if (!names) return mrt_nomem(&s->ctx->error);
  for (int i = 0; i < s->count; i++) names[i] = s->arrays[i].name;
  qsort(names, (size_t)s->count, sizeof *names, by_name);
  for (int i = 1; i < s->count; i++)
    if (strcmp(names[i - 1], names[i]) == 0)
      return mrt_source_fail(s, MRT_EDATA, "'%.80s' is there twice", names[i]);
  return MRT_OK;
}

mrt_status mrt_parse_npz(mrt_source *s) {
  uint64_t at, count, bytes = 0;
  MRT_TRY(find_entries(s, &at, &count));
  for (uint64_t i = 0; i < count; i++) {
    member m;
    MRT_TRY(read_entry(s, &at, &m));
    bytes += m.packed; /* no overflow: each is at most the file's size */
    if (!has(s, 0, m.packed) || bytes > s->bytes.size) return damaged(s);
    MRT_TRY(add_member(s, &m));
  }
  return check_names(s);
}
