/* fuzz_main.c -- a fuzz target without a fuzzer
 *
 *     fuzz_npy RUNS FOLDER [SEED]
 *
 * Hands every file of the folder to LLVMFuzzerTestOneInput, then RUNS inputs
 * made of them: bits turned, numbers replaced by those that overflow, pieces
 * cut out, doubled, moved from one file to another.  The same arguments give
 * the same inputs.  With clang, -DMRT_LIBFUZZER=ON links libFuzzer's own main
 * instead, which takes the folder alone.
 *
 * SPDX-License-Identifier: MIT */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct input {
  uint8_t *data;
  size_t size;
} input;

enum { MOST_FILES = 256, ROOM = 1 << 20, LARGEST_MUTATED = 1 << 16 };

/* splitmix64 */
static uint64_t draw(uint64_t *state) {
  uint64_t z = *state += 0x9e3779b97f4a7c15;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return z ^ z >> 31;
}
static size_t below(uint64_t *state, size_t n) {
  return n ? (size_t)(draw(state) % n) : 0;
}

/* ---- mutations ----------------------------------------------------------- */

static void turn_bit(input *in, uint64_t *r) {
  size_t bit = below(r, in->size * 8);
  if (in->size) in->data[bit / 8] ^= (uint8_t)(1 << bit % 8);
}

static void set_byte(input *in, uint64_t *r) {
  static const char bytes[] = "\0\xff\x7f\x80{}[]\",:0123456789-'()<>O \n\\eE.";
  if (in->size)
    in->data[below(r, in->size)] = (uint8_t)bytes[below(r, sizeof bytes - 1)];
}

static void set_number(input *in, uint64_t *r) {
  static const uint64_t numbers[] = { 0,
                                      1,
                                      0x7f,
                                      0xff,
                                      0x7fff,
                                      0xffff,
                                      0x7fffffff,
                                      0xffffffff,
                                      0x100000000,
                                      0x7fffffffffffffff,
                                      0x8000000000000000,
                                      0xffffffffffffffff,
                                      100000001 };
  uint64_t v = numbers[below(r, sizeof numbers / sizeof *numbers)];
  size_t width = (size_t)1 << below(r, 4), big = draw(r) & 1;
  if (in->size < width) return;
  uint8_t *p = in->data + below(r, in->size - width + 1);
  for (size_t i = 0; i < width; i++)
    p[i] = (uint8_t)(v >> 8 * (big ? width - 1 - i : i));
}

static void cut_out(input *in, uint64_t *r) {
  size_t at = below(r, in->size), n = below(r, in->size - at + 1);
  memmove(in->data + at, in->data + at + n, in->size - at - n);
  in->size -= n;
}

static void truncate(input *in, uint64_t *r) { in->size = below(r, in->size); }

/* Insert a piece of `from`, which may be the input itself. */
static void insert(input *in, const input *from, uint64_t *r) {
  size_t n = below(r, from->size < 64 ? from->size + 1 : 64);
  size_t first = below(r, from->size - n + 1), at = below(r, in->size + 1);
  uint8_t piece[64];
  if (in->size + n > ROOM) return;
  memcpy(piece, from->data + first, n);
  memmove(in->data + at + n, in->data + at, in->size - at);
  memcpy(in->data + at, piece, n);
  in->size += n;
}

static void mutate(input *in, const input *other, uint64_t *r) {
  switch (below(r, 8)) {
  case 0:
    turn_bit(in, r);
    break;
  case 1:
    cut_out(in, r);
    break;
  case 2:
    truncate(in, r);
    break;
  case 3:
    insert(in, in, r);
    break;
  case 4:
    insert(in, other, r);
    break;
  case 5:
    set_number(in, r);
    break;
  default:
    set_byte(in, r);
    break;
  }
}

/* ---- the corpus ---------------------------------------------------------- */

static int by_name(const void *p, const void *q) {
  return strcmp(*(char *const *)p, *(char *const *)q);
}

static input read_file(const char *folder, const char *name) {
  char path[4096];
  input in = { malloc(1), 0 };
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "rb");
  if (!file || fseek(file, 0, SEEK_END)) exit(2);
  in.size = (size_t)ftell(file);
  rewind(file);
  in.data = realloc(in.data, in.size + 1);
  if (!in.data || fread(in.data, 1, in.size, file) != in.size) exit(2);
  fclose(file);
  return in;
}

static int read_corpus(const char *folder, input *corpus) {
  char *names[MOST_FILES];
  int n = 0;
  DIR *dir = opendir(folder);
  for (struct dirent *d; dir && n < MOST_FILES && (d = readdir(dir));)
    if (d->d_name[0] != '.') names[n++] = strdup(d->d_name);
  if (dir) closedir(dir);
  qsort(names, (size_t)n, sizeof *names, by_name);
  for (int i = 0; i < n; i++) {
    corpus[i] = read_file(folder, names[i]);
    free(names[i]);
  }
  return n;
}

/* A copy that is exactly as large, so that reading beyond it shows. */
static void hand_over(const input *in) {
  uint8_t *copy = malloc(in->size ? in->size : 1);
  if (!copy) exit(2);
  memcpy(copy, in->data, in->size);
  LLVMFuzzerTestOneInput(copy, in->size);
  free(copy);
}

int main(int argc, char **argv) {
  static input corpus[MOST_FILES];
  static uint8_t room[ROOM];
  uint64_t state = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
  int n = argc == 3 || argc == 4 ? read_corpus(argv[2], corpus) : 0;
  if (n == 0) return fprintf(stderr, "fuzz: RUNS FOLDER [SEED] wanted\n"), 2;
  for (int i = 0; i < n; i++) hand_over(&corpus[i]);
  for (long run = atol(argv[1]); run > 0; run--) {
    const input *from = &corpus[below(&state, (size_t)n)];
    if (from->size > LARGEST_MUTATED) continue;
    input in = { room, from->size };
    memcpy(room, from->data, from->size);
    for (size_t k = 1 + below(&state, 6); k > 0; k--)
      mutate(&in, &corpus[below(&state, (size_t)n)], &state);
    hand_over(&in);
  }
  for (int i = 0; i < n; i++) free(corpus[i].data);
  return 0;
}
