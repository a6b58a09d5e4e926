/* assign.cu -- assign: bytes that move, or narrow floats that become f32
 *
 * SPDX-License-Identifier: MIT */
#include "updates.cuh"

namespace {

struct __align__(16) sixteen {
  uint32_t word[4];
};

/* `n` bytes. */
__global__ void assign_bytes(uint8_t *var, const uint8_t *x, int64_t n,
                             scalars in) {
  if (!mrt_is_due(in.words, in.when)) return;
  int64_t packs = ((uintptr_t)var | (uintptr_t)x) % 16 ? 0 : n / 16;
  for (int64_t i = mrt_first(); i < packs; i += mrt_stride())
    ((sixteen *)var)[i] = ((const sixteen *)x)[i];
  for (int64_t i = packs * 16 + mrt_first(); i < n; i += mrt_stride())
    var[i] = x[i];
}

__global__ void assign_wider(mrt_any<float> var, mrt_any<float> x, int64_t n,
                             scalars in) {
  enum { V = 4 };
  if (!mrt_is_due(in.words, in.when)) return;
  for (int64_t i = mrt_first() * V; i < n; i += mrt_stride() * V) {
    float v[V];
    mrt_get_pack<V>(x, i, n, 0.0f, v);
    mrt_put_pack<V>(var, i, n, v);
  }
}

} // namespace

extern "C" void mrt_cuda_assign(const mrt_call *c) {
  const mrt_operand *var = &c->out[0], *x = &c->in[1];
  int dtype = var->type.dtype;
  int64_t n = mrt_elements(var), bytes = n * mrt_bytes_of(dtype);
  scalars in = scalars_of(c, { -1, -1, -1, 2 });
  unsigned grid = mrt_blocks(bytes, UPDATE_BLOCK * 16);
  if (n == 0) return;
  if (x->type.dtype == var->type.dtype)
    MRT_LAUNCH(grid, UPDATE_BLOCK, 0, c->run->queue, assign_bytes)
  ((uint8_t *)var->data, (const uint8_t *)x->data, bytes, in);
  else MRT_LAUNCH(grid, UPDATE_BLOCK, 0, c->run->queue, assign_wider)(
      mrt_at_any<float>(var, 0, 1), mrt_at_any<float>(x, 0, 1), n, in);
}
