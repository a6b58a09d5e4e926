/* bytes.c -- bytes as characters, as GPT-2 writes them
 *
 * Bytes that print stand for themselves, the rest for what follows 255, so that
 * a vocabulary of bytes is a text.
 *
 *   from  Radford et al. 2019, github.com/openai/gpt-2, encoder.py
 *
 * SPDX-License-Identifier: MIT */
#include "text/text.h"

const char mrt_gpt2_pattern[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|"
    "\\s+(?!\\S)|\\s+";

enum { FIRST_MOVED = 256, MOVED = 68 };

static bool is_itself(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte != 0xad);
}

/* Those that are moved: 0..32, 127..160, 173. */
static int name_of(int byte) {
  if (is_itself(byte)) return byte;
  if (byte <= 32) return FIRST_MOVED + byte;
  return byte == 0xad ? FIRST_MOVED + MOVED - 1 : FIRST_MOVED + 33 + byte - 127;
}

size_t mrt_byte_name(uint8_t byte, char out[2]) {
  char name[4];
  size_t n = mrt_utf8_put((uint32_t)name_of(byte), name);
  out[0] = name[0], out[1] = name[1];
  return n;
}

int mrt_byte_of_name(uint32_t c) {
  if (c < FIRST_MOVED) return is_itself((int)c) ? (int)c : -1;
  if (c >= FIRST_MOVED + MOVED) return -1;
  int i = (int)c - FIRST_MOVED;
  return i <= 32 ? i : i == MOVED - 1 ? 0xad : 127 + i - 33;
}

mrt_status mrt_bytes_name(mrt_context *ctx, mrt_chars *out, const char *p,
                          size_t n) {
  if (n > SIZE_MAX / 4) return mrt_nomem(&ctx->error);
  MRT_TRY(mrt_chars_room(ctx, out, 2 * n + 2));
  char *to = out->at + out->size;
  for (size_t i = 0; i < n; i++) {
    uint8_t b = (uint8_t)p[i];
    if (b > ' ' && b < 0x7f) {
      *to++ = p[i];
    } else {
      int c = name_of(b);
      *to++ = (char)(0xc0 | c >> 6);
      *to++ = (char)(0x80 | (c & 63));
    }
  }
  out->size = (size_t)(to - out->at);
  return MRT_OK;
}
