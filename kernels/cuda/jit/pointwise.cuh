/* pointwise.cuh -- functions of one element, for generated pointwise kernels
 *
 * Put before every generated source, and fit to be included by .cu files.  It
 * includes nothing, for NVRTC has no headers.  Narrow floats are their bits.
 * The rules (rounding, saturation, NaN) are those of kernels/cpu; where the
 * processor has an instruction that follows them, it is used.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_POINTWISE_CUH
#define MRT_POINTWISE_CUH

#define M_FN __device__ __forceinline__

typedef unsigned char m_u8;
typedef unsigned short m_u16;
typedef unsigned int m_u32;
typedef unsigned long long m_u64;
typedef long long m_i64;

/* As mrt_run_words of device/kernel.h. */
struct m_words {
  m_u64 seed, step;
  m_i64 row, rows, all_rows, rank, ranks, first_row;
  int fault;
  m_i64 bad_id, bad_limit;
};

/* N elements that are loaded and stored as one, or as some of 16 bytes. */
template <class T, int N>
struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) m_vector {
  T v[N];
};
template <int N, class T> M_FN m_vector<T, N> m_load(const T *from) {
  return *(const m_vector<T, N> *)from;
}
template <int N, class T> M_FN void m_store(T *to, const m_vector<T, N> &x) {
  *(m_vector<T, N> *)to = x;
}

/* ---- bits ---------------------------------------------------------------- */

template <class To, class From> M_FN To m_bits(From x) {
  static_assert(sizeof(To) == sizeof(From), "one size");
  union {
    From from;
    To to;
  } u;
  u.from = x;
  return u.to;
}
M_FN m_u32 m_bits_of(float x) { return m_bits<m_u32>(x); }
M_FN float m_float_of(m_u32 u) { return m_bits<float>(u); }
M_FN double m_double_of(m_i64 u) { return m_bits<double>(u); }

M_FN m_u64 W(m_i64 x) { return (m_u64)x; }
M_FN m_u32 W(int x) { return (m_u32)x; }
M_FN m_u32 W(m_u8 x) { return x; }

/* ---- to and from narrow floats ------------------------------------------- */

#define M_SAME(name, T)                                                        \
  M_FN T m_of_##name(T x) { return x; }
M_SAME(f32, float)
M_SAME(f64, double)
M_SAME(i64, m_i64)
M_SAME(i32, int)
M_SAME(u8, m_u8)
M_SAME(bool, m_u8)
#undef M_SAME

M_FN float m_of_bf16(m_u16 h) { return m_float_of((m_u32)h << 16); }
M_FN float m_of_f16(m_u16 h) {
#ifdef __CUDA_ARCH__
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h));
  return x;
#else
  m_u32 sign = (m_u32)(h & 0x8000) << 16, u = (m_u32)(h & 0x7fff) << 13;
  m_u32 finite = m_bits_of(m_float_of(u) * 0x1p112f);
  return m_float_of(sign | (u >= 0x0f800000 ? u | 0x7f800000 : finite));
#endif
}
M_FN float m_of_f8_e5m2(m_u8 h) { return m_of_f16((m_u16)(h << 8)); }
M_FN float m_of_f8_e4m3(m_u8 h) {
  m_u32 sign = (m_u32)(h & 0x80) << 24, u = (m_u32)(h & 0x7f) << 20;
  m_u32 finite = m_bits_of(m_float_of(u) * 0x1p120f);
  return m_float_of(sign | (u == 0x07f00000 ? 0x7fc00000 : finite));
}

/* An inexact float gets an odd last bit, so that the second rounding sees what
 * the first cut off: together they round once. */
M_FN float m_to_odd(double x) {
  float f = (float)x;
  bool inexact = (double)f != x && x == x;
  bool away = x < 0 ? (double)f < x : (double)f > x;
  return inexact ? m_float_of((m_bits_of(f) - away) | 1) : f;
}

M_FN m_u16 m_to_bf16(float x) {
#ifdef __CUDA_ARCH__
  m_u16 h;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(x));
  return h;
#else
  m_u32 u = m_bits_of(x), nan = u >> 16 | 0x40;
  m_u32 even = (u + 0x7fff + (u >> 16 & 1)) >> 16;
  return (m_u16)((u & 0x7fffffff) > 0x7f800000 ? nan : even);
#endif
}
M_FN m_u16 m_to_f16(float x) {
#ifdef __CUDA_ARCH__
  m_u16 h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
  return h;
#else
  m_u32 u = m_bits_of(x), sign = u >> 16 & 0x8000, m = u & 0x7fffffff;
  m_u32 tiny = m_bits_of(m_float_of(m) + 0.5f) - m_bits_of(0.5f);
  m_u32 normal = (m + 0xfff + (m >> 13 & 1) - 0x38000000) >> 13;
  m_u32 nan = 0x7e00 | (m >> 13 & 0x1ff);
  m_u32 h = m < 0x38800000 ? tiny : normal;
  h = m >= 0x477ff000 ? 0x7c00 : h;
  return (m_u16)(sign | (m > 0x7f800000 ? nan : h));
#endif
}
/* `least`: the smallest normal number's bits; adding `step` rounds what is
 * below; `cut` bits of the fraction go; `shift` moves the exponent; `most`:
 * the largest number's pattern. */
M_FN m_u8 m_to_f8(float x, m_u32 least, float step, int cut, m_u32 shift,
                  m_u32 most) {
  m_u32 u = m_bits_of(x), sign = u >> 24 & 0x80, m = u & 0x7fffffff;
  m_u32 tiny = m_bits_of(m_float_of(m) + step) - m_bits_of(step);
  m_u32 half = (1u << (cut - 1)) - 1;
  m_u32 normal = (m + half + (m >> cut & 1) - shift) >> cut;
  m_u32 h = m < least ? tiny : normal;
  h = m >= 0x47800000 || h > most ? most : h;
  return (m_u8)(sign | (m > 0x7f800000 ? 0x7f : h));
}
M_FN m_u8 m_to_f8_e4m3(float x) {
  return m_to_f8(x, 0x3c800000, 0x1p14f, 20, 120u << 23, 0x7e);
}
M_FN m_u8 m_to_f8_e5m2(float x) {
  return m_to_f8(x, 0x38800000, 0x1p7f, 21, 112u << 23, 0x7b);
}
#define M_NARROW(name, T)                                                      \
  M_FN T m_to_##name(double x) { return m_to_##name(m_to_odd(x)); }            \
  M_FN T m_to_##name(m_i64 x) { return m_to_##name((double)x); }               \
  M_FN T m_to_##name(int x) { return m_to_##name((double)x); }                 \
  M_FN T m_to_##name(m_u8 x) { return m_to_##name((float)x); }
M_NARROW(bf16, m_u16)
M_NARROW(f16, m_u16)
M_NARROW(f8_e4m3, m_u8)
M_NARROW(f8_e5m2, m_u8)
#undef M_NARROW

/* ---- to reals, integers, bool -------------------------------------------- */

template <class T> M_FN float m_to_f32(T x) { return (float)x; }
template <class T> M_FN double m_to_f64(T x) { return (double)x; }
template <class T> M_FN m_u8 m_to_bool(T x) { return x != 0; }

/* Integers modulo 2^bits; reals towards zero, what does not fit goes to the
 * ends, NaN to 0. */
template <class T> M_FN m_i64 m_to_i64(T x) { return (m_i64)x; }
template <class T> M_FN int m_to_i32(T x) { return (int)x; }
template <class T> M_FN m_u8 m_to_u8(T x) { return (m_u8)x; }
template <class T> M_FN m_i64 m_real_to_i64(T x) {
  const m_i64 least = -0x7fffffffffffffffLL - 1;
  if (x != x) return 0;
  return x >= (T)0x1p63   ? 0x7fffffffffffffffLL
         : x < (T)-0x1p63 ? least
                          : (m_i64)x;
}
template <class T> M_FN int m_real_to_i32(T x) {
  if (x != x) return 0;
  return x >= (T)0x1p31   ? 0x7fffffff
         : x < (T)-0x1p31 ? -0x7fffffff - 1
                          : (int)x;
}
template <class T> M_FN m_u8 m_real_to_u8(T x) {
  return (m_u8)(int)(x >= 0 ? (x < 255 ? x : 255) : 0);
}
M_FN m_i64 m_to_i64(float x) { return m_real_to_i64(x); }
M_FN m_i64 m_to_i64(double x) { return m_real_to_i64(x); }
M_FN int m_to_i32(float x) { return m_real_to_i32(x); }
M_FN int m_to_i32(double x) { return m_real_to_i32(x); }
M_FN m_u8 m_to_u8(float x) { return m_real_to_u8(x); }
M_FN m_u8 m_to_u8(double x) { return m_real_to_u8(x); }

/* ---- functions of reals -------------------------------------------------- */

#define M_REAL(name, of)                                                       \
  M_FN float m_##name(float x) { return of##f(x); }                            \
  M_FN double m_##name(double x) { return of(x); }
M_REAL(exp, exp)
M_REAL(log, log)
M_REAL(sqrt, sqrt)
M_REAL(sin, sin)
M_REAL(cos, cos)
M_REAL(tanh, tanh)
M_REAL(erf, erf)
M_REAL(floor, floor)
M_REAL(ceil, ceil)
M_REAL(round, rint) /* half to even */
M_REAL(abs, fabs)
M_REAL(trunc, trunc)
M_REAL(log1p, log1p)
M_REAL(expm1, expm1)
M_REAL(exp2, exp2)
M_REAL(log2, log2)
M_REAL(log10, log10)
M_REAL(tan, tan)
M_REAL(asin, asin)
M_REAL(acos, acos)
M_REAL(atan, atan)
M_REAL(sinh, sinh)
M_REAL(cosh, cosh)
M_REAL(asinh, asinh)
M_REAL(acosh, acosh)
M_REAL(atanh, atanh)
M_REAL(erfc, erfc)
M_REAL(lgamma, lgamma)
#undef M_REAL
#define M_REAL(name, of)                                                       \
  M_FN float m_##name(float x, float y) { return of##f(x, y); }                \
  M_FN double m_##name(double x, double y) { return of(x, y); }
M_REAL(pow, pow)
M_REAL(fmod, fmod)
M_REAL(atan2, atan2)
M_REAL(hypot, hypot)
M_REAL(copysign, copysign)
M_REAL(nextafter, nextafter)
#undef M_REAL
M_FN float m_inf() { return m_float_of(0x7f800000); }

/* Swapping x and y changes no bit: 0 and -0 are ordered, NaN is one NaN. */
template <class T> M_FN T m_larger(T x, T y) {
  T same = x == y ? (x == 0 ? x + y : x) : (T)m_float_of(0x7fc00000);
  return x > y ? x : x < y ? y : same;
}

/* The sign of the divisor.  Never traps: x % 0 and least % -1 are 0. */
template <class T> M_FN T m_signed(T r, T y) {
  return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}
M_FN float m_remainder(float x, float y) { return m_signed(m_fmod(x, y), y); }
M_FN double m_remainder(double x, double y) {
  return m_signed(m_fmod(x, y), y);
}
template <class T> M_FN T m_whole_remainder(T x, T y) {
  return y == 0 || y == -1 ? 0 : m_signed(x % y, y);
}
M_FN m_i64 m_remainder(m_i64 x, m_i64 y) { return m_whole_remainder(x, y); }
M_FN int m_remainder(int x, int y) { return m_whole_remainder(x, y); }
M_FN m_u8 m_remainder(m_u8 x, m_u8 y) { return y == 0 ? 0 : x % y; }

/* The sign of the dividend. */
template <class T> M_FN T m_whole_fmod(T x, T y) {
  return y == 0 || y == -1 ? 0 : x % y;
}
M_FN m_i64 m_fmod(m_i64 x, m_i64 y) { return m_whole_fmod(x, y); }
M_FN int m_fmod(int x, int y) { return m_whole_fmod(x, y); }
M_FN m_u8 m_fmod(m_u8 x, m_u8 y) { return y == 0 ? 0 : x % y; }

/* Shifts by less than 0 or by all bits and more shift all away. */
template <class T> M_FN T m_left(T x, T y) {
  const int most = 8 * (int)sizeof(T) - 1;
  return y < 0 || y > most ? 0 : (T)(W(x) << (int)y);
}
template <class T> M_FN T m_right(T x, T y) {
  const int most = 8 * (int)sizeof(T) - 1;
  return y < 0 || y > most ? (T)(x >> most >> (most == 7)) : (T)(x >> (int)y);
}

/* Euclid's algorithm on sizes. */
M_FN m_u64 m_size(m_i64 x) { return x < 0 ? 0 - (m_u64)x : (m_u64)x; }
M_FN m_u64 m_gcd(m_i64 x, m_i64 y) {
  m_u64 a = m_size(x), b = m_size(y);
  while (b) {
    m_u64 rest = a % b;
    a = b, b = rest;
  }
  return a;
}
M_FN m_u64 m_lcm(m_i64 x, m_i64 y) {
  m_u64 divisor = m_gcd(x, y);
  return divisor ? m_size(x) / divisor * m_size(y) : 0;
}

template <class T> M_FN T m_between(T x, T low, T high) {
  x = x < low ? low : x;
  return x > high ? high : x;
}
M_FN float m_between(float x, int low, int high) {
  return m_between(x, (float)low, (float)high);
}
M_FN double m_between(double x, int low, int high) {
  return m_between(x, (double)low, (double)high);
}

M_FN float m_most(float) { return m_float_of(0x7f7fffff); }
M_FN double m_most(double) { return m_double_of(0x7fefffffffffffffLL); }
template <class T> M_FN T m_nan_to_num(T x, T nan, T high, T low) {
  T most = m_most(x);
  if (x != x) return nan;
  x = x == m_inf() ? high : x == -m_inf() ? low : x;
  return m_between(x, -most, most);
}

/* log(1 + u), 0 <= u <= 1: what rounding 1 + u lost is put back (Kahan). */
template <class T> M_FN T m_log_one_and(T u) {
  T w = 1 + u;
  return w == 1 ? u : m_log(w) * (u / (w - 1));
}
template <class T> M_FN T m_softplus(T x) {
  return (x > 0 ? x : 0) + m_log_one_and(m_exp(-m_abs(x)));
}
/* The larger plus what the smaller adds; of equal infinities it is that. */
template <class T> M_FN T m_log_add(T x, T y) {
  T apart = x == y ? 0 : m_abs(x - y);
  return (x > y ? x : y) + m_log_one_and(m_exp(-apart));
}
template <class T> M_FN T m_log_add2(T x, T y) {
  T apart = x == y ? 0 : m_abs(x - y);
  return (x > y ? x : y) +
         (T)1.44269504088896340736 * m_log_one_and(m_exp2(-apart));
}
template <class T> M_FN T m_mish(T x) {
  T e = m_exp(x > 40 ? 40 : x), n = e * (e + 2);
  return x * (n / (n + 2));
}
/* Past some x these are 0 or x, and slopes 0 or 1, to 35 digits: there they are
 * those of that x, as on a CPU. */
template <class T> M_FN T m_above(T x, double past) {
  return x < (T)-past ? (T)-past : x;
}
template <class T> M_FN T m_within(T x, double past) {
  x = m_above(x, past);
  return x > (T)past ? (T)past : x;
}
#define M_PAST(T, single, twice) (sizeof(T) == 8 ? (twice) : (single))

template <class T> M_FN T m_silu(T x) {
  double past = M_PAST(T, 87., 700.);
  return m_above(x, past) / (1 + m_exp(-m_within(x, past)));
}
template <class T> M_FN T m_silu_slope(T x) {
  x = m_within(x, M_PAST(T, 87., 700.));
  T s = 1 / (1 + m_exp(-x));
  return s * (1 + x * (1 - s));
}

#define M_RATE  1.59576912160573071176 /* 2 sqrt(2 / pi) */
#define M_CUBIC 0.044715
template <class T> M_FN T m_gelu_erf(T x) {
  return (T)0.5 * x * (1 + m_erf(x * (T)0.70710678118654752440));
}
/* (1 + tanh u) / 2 is 1 / (1 + e^-2u). */
template <class T> M_FN T m_gelu_tanh(T x) {
  double past = M_PAST(T, 9.9, 20.);
  T near = m_within(x, past);
  T e = m_exp(-(T)M_RATE * near * (1 + (T)M_CUBIC * (near * near)));
  return m_above(x, past) / (1 + e);
}
template <class T> M_FN T m_gelu_erf_slope(T x) {
  T p = (T)0.5 * (1 + m_erf(x * (T)0.70710678118654752440));
  return p + x * ((T)0.39894228040143267794 * m_exp((T)-0.5 * x * x));
}
template <class T> M_FN T m_gelu_tanh_slope(T x) {
  x = m_within(x, M_PAST(T, 9.9, 20.));
  T xx = x * x;
  T s = 1 / (1 + m_exp(-(T)M_RATE * x * (1 + (T)M_CUBIC * xx)));
  return s + s * (1 - s) * x * ((T)M_RATE * (1 + 3 * (T)M_CUBIC * xx));
}

/* ---- random numbers: Philox4x32-10, as base/philox.h --------------------- */

struct m_four {
  m_u32 w[4];
};
M_FN m_four m_philox(m_u64 at, m_u32 node, m_u32 step, m_u64 key) {
  m_u32 a = (m_u32)at, b = (m_u32)(at >> 32), c = node, d = step;
  m_u32 k0 = (m_u32)key, k1 = (m_u32)(key >> 32);
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
  for (int i = 0; i < 10; i++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
    m_u64 p0 = (m_u64)a * 0xD2511F53u, p1 = (m_u64)c * 0xCD9E8D57u;
    a = (m_u32)(p1 >> 32) ^ b ^ k0, b = (m_u32)p1;
    c = (m_u32)(p0 >> 32) ^ d ^ k1, d = (m_u32)p0;
  }
  m_four r = { { a, b, c, d } };
  return r;
}

/* What one operator draws.  Element i of the whole batch's tensor takes word
 * i % 4 of counter i / 4; elements that follow each other share a draw. */
struct m_draw {
  m_u64 seed, at; /* the counter of `first` and `second` */
  m_u32 node, step;
  m_i64 part, whole, before;
  m_four first, second;
};
M_FN m_draw m_draw_make(const m_words *run, m_i64 key, m_i64 seed,
                        m_i64 inner) {
  bool pinned = (key >> 32 & 1) != 0;
  m_draw d;
  d.seed = pinned ? (m_u64)seed : run->seed;
  d.node = (m_u32)key, d.step = pinned ? 0 : (m_u32)run->step;
  d.part = run->rows * inner, d.whole = run->all_rows * run->ranks * inner;
  d.before = (run->rank * run->all_rows + run->row) * inner;
  d.at = ~(m_u64)0;
  return d;
}
/* Draws for element i; its word's number.  `wide`: the second one too. */
M_FN int m_draw_to(m_draw &d, m_i64 i, bool wide) {
  m_i64 index = i;
  if (d.part) index = i / d.part * d.whole + d.before + i % d.part;
  m_u64 at = (m_u64)index / 4;
  if (at != d.at) {
    d.at = at;
    d.first = m_philox(at, d.node, d.step, d.seed);
    if (wide) d.second = m_philox(at | 1ull << 63, d.node, d.step, d.seed);
  }
  return (int)((m_u64)index % 4);
}
/* No index into registers. */
M_FN m_u32 m_word(const m_four &f, int k) {
  return k < 2 ? (k ? f.w[1] : f.w[0]) : (k == 3 ? f.w[3] : f.w[2]);
}
M_FN void m_uniform(const m_draw &d, int k, float *u) {
  *u = (float)(int)(m_word(d.first, k) >> 8) * 0x1p-24f;
}
M_FN void m_uniform(const m_draw &d, int k, double *u) {
  m_u64 high = m_word(d.first, k), low = m_word(d.second, k);
  *u = (double)(high << 21 | low >> 11) * 0x1p-53;
}
template <class T> M_FN T m_rand(m_draw &d, m_i64 i) {
  T u;
  m_uniform(d, m_draw_to(d, i, sizeof(T) == 8), &u);
  return u;
}
/* Box & Muller: words 2p and 2p + 1 make elements 2p and 2p + 1. */
template <class T> M_FN T m_randn(m_draw &d, m_i64 i) {
  int k = m_draw_to(d, i, sizeof(T) == 8);
  T u, v;
  m_uniform(d, k & 2, &u), m_uniform(d, k | 1, &v);
  T radius = m_sqrt(-2 * m_log(1 - u));
  T angle = (T)6.28318530717958647693 * v;
  return radius * (k & 1 ? m_sin(angle) : m_cos(angle));
}
/* low + floor(64 random bits / 2^64 * range) */
M_FN m_u64 m_randint(m_draw &d, m_i64 i, m_i64 least, m_i64 width) {
  int k = m_draw_to(d, i, true);
  m_u64 high = m_word(d.first, k), low = m_word(d.second, k);
  m_u64 r0 = (m_u32)width, r1 = (m_u64)width >> 32;
  m_u64 mid = r0 * high + (r0 * low >> 32), mid2 = r1 * low;
  m_u64 carry = ((m_u32)mid + (m_u64)(m_u32)mid2) >> 32;
  return (m_u64)least + r1 * high + (mid >> 32) + (mid2 >> 32) + carry;
}
template <class T>
M_FN T m_dropout(m_draw &d, m_i64 i, T x, m_i64 drop, double scale) {
  int k = m_draw_to(d, i, false);
  return x * (m_word(d.first, k) >= (m_u32)drop ? (T)scale : 0);
}

/* ---- places -------------------------------------------------------------- */

/* n / d for 0 <= n < 2^31, by a product (Granlund & Montgomery 1994); the host
 * has made `times` and `shift` of d. */
M_FN int m_quotient(int n, m_i64 d, m_i64 times, m_i64 shift) {
  return (int)((__umulhi((m_u32)n, (m_u32)times) + (m_u32)n) >> (m_u32)shift);
}
M_FN m_i64 m_quotient(m_i64 n, m_i64 d, m_i64 times, m_i64 shift) {
  return n / d;
}

#endif
