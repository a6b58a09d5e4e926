/* codes_int8_any.h -- panels in plain C, for codes_int8.c
 *
 * SPDX-License-Identifier: MIT */

/* Nothing is transposed here at once. */
static int64_t turn_scales(const mrt_codes *m, int64_t rows, int64_t row,
                           int64_t from, int64_t n, float to[][COLUMNS]) {
  return 0;
}

/* The numbers of a block of a column, in the order of x. */
static void take_numbers(const int8_panel *p, const uint8_t *codes,
                         int8_t w[BLOCK]) {
  enum { HALF = BLOCK / 2 };
  if (p->kind == MRT_QUANTIZE_INT8) {
    for (int i = 0; i < BLOCK; i++) w[i] = (int8_t)(codes[i] - 128);
  } else if (p->kind == MRT_QUANTIZE_Q8_0) {
    memcpy(w, codes, BLOCK);
  } else if (p->kind == MRT_QUANTIZE_Q4_0) {
    for (int i = 0; i < HALF; i++) w[i] = (int8_t)((codes[i] & 15) - 8);
    for (int i = 0; i < HALF; i++) w[i + HALF] = (int8_t)((codes[i] >> 4) - 8);
  } else {
    for (int i = 0; i < HALF; i++) w[i] = p->values[codes[i] & 15];
    for (int i = 0; i < HALF; i++) w[i + HALF] = p->values[codes[i] >> 4];
  }
}

/* sum[row][column] += m rows, `x_row` blocks apart, times a panel. */
static void add_panel(const int8_panel *p, int64_t m, const int8_block *x,
                      int64_t x_row, float sum[][COLUMNS]) {
  int64_t bytes = int8_bytes(p->kind);
  for (int64_t b = 0; b < p->blocks; b++)
    for (int c = 0; c < COLUMNS; c++) {
      int8_t w[BLOCK];
      take_numbers(p, p->codes + c * p->stride + b * bytes, w);
      for (int64_t r = 0; r < m; r++) {
        const int8_block *at = x + r * x_row + b;
        int32_t dot = 0;
        for (int i = 0; i < BLOCK; i++) dot += (int)w[i] * at->codes[i];
        sum[r][c] += (float)dot * (at->scale * p->scales[b][c]);
      }
    }
}
