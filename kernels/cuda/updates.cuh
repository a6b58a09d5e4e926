/* updates.cuh -- what kernels that write variables share
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_UPDATES_CUH
#define MRT_UPDATES_CUH

#include "cuda.cuh"
#include "jit/pointwise.cuh"
#include "op/random.h"
#include "op/update.h"

#include <string.h>

namespace {

enum { UPDATE_BLOCK = 256 };

/* So many that each block's numbers cost little beside its elements. */
static inline unsigned update_blocks(int64_t work, int64_t each) {
  unsigned n = mrt_blocks(work, each);
  return n < 2048 ? n : 2048;
}

/* Which inputs are the step count, the rate, the gradient's scale and the
 * predicate; -1: there is none. */
struct inputs {
  int t, lr, scale, when;
};

/* They lie on the device; an absent one is 1, or true. */
struct scalar {
  const void *data;
  int64_t wide; /* f64 */

  __device__ double get(void) const {
    if (!data) return 1;
    return wide ? *(const double *)data : (double)*(const float *)data;
  }
};
struct scalars {
  scalar t, lr, scale;
  const void *when;
  const mrt_run_words *words;
};

static inline const void *input_of(const mrt_call *c, int i) {
  return i >= 0 && i < c->nin ? c->in[i].data : NULL;
}
static inline scalar scalar_of(const mrt_call *c, int i) {
  const void *data = input_of(c, i);
  return { data, data && c->in[i].type.dtype == MRT_f64 };
}
static inline scalars scalars_of(const mrt_call *c, inputs i) {
  return { scalar_of(c, i.t), scalar_of(c, i.lr), scalar_of(c, i.scale),
           input_of(c, i.when), c->run->words };
}

/* ---- rounding bf16 at random --------------------------------------------- */

/* Places in pieces of 512, in which i, i + 64, i + 128 ... share a counter, a
 * function of them alone, as kernels/cpu has it. */
enum { LANES = 64, PIECE = 8 * LANES };

struct rounding {
  uint64_t key, seed;
  int64_t place;      /* of the first element, a multiple of 256 */
  unsigned at_random; /* bit k: variable k */
};

/* Of the first `written` variables; options start with a mrt_rounding. */
static inline rounding rounding_of(const mrt_call *c, int written) {
  const mrt_rounding *o = (const mrt_rounding *)c->options;
  rounding r = { o->key, o->seed, o->place, 0 };
  for (int k = 0; k < written; k++)
    if (c->out[k].type.dtype == MRT_bf16 && (k > 0 || o->stochastic))
      r.at_random |= 1u << k;
  return r;
}

/* The bits for places `lane`, `lane` + 64 ... of the piece that starts at
 * `first`. */
MRT_DEVICE m_four bits_of(const rounding &r, const mrt_run_words *w, int k,
                          int64_t first, int lane) {
  bool pinned = (r.key & MRT_DRAW_PINNED) != 0;
  uint64_t at = ((uint64_t)k << 56 | (uint64_t)first / 8) + (uint64_t)lane;
  return m_philox(at, (uint32_t)r.key, pinned ? 0 : (uint32_t)w->step,
                  pinned ? r.seed : w->seed);
}

/* x up or down; i: which of the eight. */
MRT_DEVICE mrt_bf16 round_at_random(float x, const m_four &bits, int i) {
  uint32_t u = __float_as_uint(x);
  uint32_t random = m_word(bits, i / 2) >> i % 2 * 16 & 0xffff;
  mrt_bf16 y = { (uint16_t)((u + random) >> 16) };
  if ((u & 0x7fffffff) >= 0x7f800000) mrt_round(x, &y);
  return y;
}

/* Elements i, i + LANES ..., eight of them. */
MRT_FAR void get_eight(mrt_any<float> x, int64_t i, int64_t n, float *v) {
  MRT_BY_DTYPE(x.dtype, T, {
    MRT_UNROLL
    for (int j = 0; j < 8; j++)
      v[j] = i + j * LANES >= 0 && i + j * LANES < n
                 ? (float)mrt_widen(((const T *)x.data)[i + j * LANES])
                 : 0;
  });
}
MRT_FAR
void put_eight(mrt_any<float> y, int64_t i, int64_t n, const float *v) {
  MRT_BY_DTYPE(y.dtype, T, {
    MRT_UNROLL
    for (int j = 0; j < 8; j++)
      if (i + j * LANES >= 0 && i + j * LANES < n)
        mrt_round(v[j], &((T *)y.data)[i + j * LANES]);
  });
}
MRT_DEVICE void put_randomly(mrt_any<float> y, int64_t i, int64_t n,
                             const float *v, const m_four &bits) {
  MRT_UNROLL
  for (int j = 0; j < 8; j++)
    if (i + j * LANES >= 0 && i + j * LANES < n)
      ((mrt_bf16 *)y.data)[i + j * LANES] = round_at_random(v[j], bits, j);
}

/* ---- many calls in one launch -------------------------------------------- */

/* Calls that a launch makes at once, in 4 KiB of parameters: A is what one
 * works on, O its options.  Each has blocks of its own. */
template <typename A, typename O> struct update_batch {
  struct kind {
    O options; /* of its rounding's key the pinned bit only, no place */
    scalars in;
  };
  struct share {
    A a;
    uint32_t key, place; /* of its rounding; in blocks of MRT_BLOCK8 */
    unsigned first;
    uint16_t blocks;
    uint8_t which, at_random; /* of the kinds; bit k: variable k */

    /* for (int64_t i = start(); i < n; i += stride()) */
    __device__ int64_t start(void) const {
      return (int64_t)(blockIdx.x - first) * UPDATE_BLOCK + threadIdx.x;
    }
    __device__ int64_t stride(void) const {
      return (int64_t)blocks * UPDATE_BLOCK;
    }
    __device__ rounding round(const kind &k) const {
      const mrt_rounding *o = (const mrt_rounding *)&k.options;
      return { o->key | key, o->seed, (int64_t)place * MRT_BLOCK8, at_random };
    }
  };
  enum {
    KINDS = 4,
    MOST =
        (4096 - 16 - KINDS * (int)sizeof(kind) - A::beside) / (int)sizeof(share)
  };
  kind kinds[KINDS];
  share at[MOST];
  unsigned blocks;
  int count, kind_count;

  /* The share of this block. */
  __device__ const share &mine(void) const {
    int low = 0, high = count - 1;
    while (low < high) {
      int middle = (low + high + 1) / 2;
      if (at[middle].first <= blockIdx.x)
        low = middle;
      else
        high = middle - 1;
    }
    return at[low];
  }

  void clear(void) { blocks = 0, count = kind_count = 0; }

  /* The number of this kind, perhaps a new one; KINDS: no room. */
  int kind_of(const O &o, const scalars &in) {
    kind k;
    memset((void *)&k, 0, sizeof k);
    memcpy((void *)&k.options, (const void *)&o, sizeof o);
    k.in = in;
    int i = 0;
    while (i < kind_count && memcmp(&kinds[i], &k, sizeof k) != 0) i++;
    if (i == kind_count && i < KINDS)
      memcpy((void *)&kinds[kind_count++], (const void *)&k, sizeof k);
    return i;
  }

  /* A call of which a block does `each` elements at a time; false: full. */
  bool add(const A &a, const O &o, const scalars &in, const rounding &r,
           int64_t each) {
    if (count == MOST) return false;
    int k = kind_of(o, in);
    if (k == KINDS) return false;
    unsigned n = update_blocks(a.n, each);
    at[count++] = { a,
                    (uint32_t)r.key,
                    (uint32_t)(r.place / MRT_BLOCK8),
                    blocks,
                    (uint16_t)n,
                    (uint8_t)k,
                    (uint8_t)r.at_random };
    blocks += n;
    return true;
  }
};

} // namespace

#endif
