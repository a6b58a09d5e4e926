/* special.cuh -- special functions of one element, for generated kernels
 *
 * Put before every generated source, after pointwise.cuh.  In double; methods
 * and sources are those of kernels/cpu/special.h, where a loop is as good as
 * branch-free code: recurrence instead of a quotient of polynomials, series
 * instead of interpolation.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_SPECIAL_CUH
#define MRT_SPECIAL_CUH

#define M_PI_ 3.14159265358979323846

/* Of x from the nearest whole number n: sin(pi x) = +-sin(pi (x - n)). */
template <class T> M_FN T m_sinc(T x) {
  T n = m_round(x), half = n * (T)0.5, pi = (T)M_PI_;
  T y = m_sin(pi * (x - n)) / (pi * x);
  return x == 0 ? 1 : m_floor(half) != half ? -y : y;
}

/* Winitzki's approximation, and Halley's iteration on the tail. */
M_FN double m_erfinv(double x) {
  const double a = 0.147, slope = 0.88622692545275801365; /* sqrt(pi) / 2 */
  double z = m_abs(x), l = m_log1p(-z * z);
  double t = 2 / (M_PI_ * a) + l / 2;
  double y = m_sqrt(m_sqrt(t * t - l / a) - t);
  for (int k = 0; k < 3; k++) {
    double rest = z > 0.5 ? m_erfc(y) - (1 - z) : z - m_erf(y);
    double e = slope * m_exp(y * y) * rest;
    y += e / (1 - y * e);
  }
  y = z < 1 ? y : z == 1 ? m_inf() : m_float_of(0x7fc00000);
  return x == 0 ? x : m_copysign(y, x);
}
M_FN float m_erfinv(float x) { return (float)m_erfinv((double)x); }

/* ln x - 1 / 2x - the series of 1 / x^2 from 10 on, below it by recurrence and
 * reflection. */
M_FN double m_digamma(double x) {
  double y = 0, r = x - m_round(x);
  if (x == 0) return -1 / x;
  if (x < 0) {
    if (r == 0) return m_float_of(0x7fc00000);
    y = -M_PI_ / m_tan(M_PI_ * r), x = 1 - x;
  }
  if (x == m_inf()) return y + x;
  for (; x < 10; x += 1) y -= 1 / x;
  double w = 1 / (x * x), p = 1 / 12.0;
  p = p * w - 691 / 32760.0;
  p = p * w + 1 / 132.0;
  p = p * w - 1 / 240.0;
  p = p * w + 1 / 252.0;
  p = p * w - 1 / 120.0;
  p = p * w + 1 / 12.0;
  return y + m_log(x) - 0.5 / x - p * w;
}
M_FN float m_digamma(float x) { return (float)m_digamma((double)x); }

/* The derivatives of digamma: zeta_above and cot_derivative of the CPU. */
M_FN double m_zeta(int n, double x) {
  const double bernoulli[] = {
    0.083333333333333329,    -0.0013888888888888889,  3.3068783068783071e-05,
    -8.2671957671957675e-07, 2.08767569878681e-08,    -5.2841901386874932e-10,
    1.3382536530684679e-11,  -3.3896802963225827e-13, 8.5860620562778452e-15,
    -2.1748686985580619e-16
  };
  double sum = 0, factorial = 1;
  for (int k = 2; k <= n; k++) factorial *= k;
  for (; x < n + 10; x += 1) sum += m_pow(x, (double)(-n - 1));
  double term = m_pow(x, (double)(-n - 1)), rise = n + 1;
  sum += term * x / n + term / 2;
  for (int k = 0; k < 10; k++) {
    term /= x;
    sum += bernoulli[k] * rise * term;
    term /= x;
    rise *= (n + 2 * k + 2) * (double)(n + 2 * k + 3);
  }
  return factorial * sum;
}
M_FN double m_cot_derivative(int n, double x) {
  double c = 1 / m_tan(M_PI_ * (x - m_round(x))), y = 0;
  double p[23] = { 0, M_PI_ }, q[23];
  for (int k = 0; k < n; k++) {
    for (int i = 0; i < 23; i++) q[i] = 0;
    for (int i = 1; i <= k + 1; i++) {
      q[i - 1] -= M_PI_ * i * p[i];
      q[i + 1] -= M_PI_ * i * p[i];
    }
    for (int i = 0; i < 23; i++) p[i] = q[i];
  }
  for (int i = n + 1; i >= 0; i--) y = y * c + p[i];
  return y;
}
M_FN double m_polygamma(int n, double x) {
  double sign = n % 2 ? 1 : -1;
  if (n == 0) return m_digamma(x);
  if (x == m_inf()) return 0;
  if (!(x > -m_inf())) return m_float_of(0x7fc00000);
  if (x <= 0 && m_floor(x) == x) return sign * m_inf();
  if (x > 0) return sign * m_zeta(n, x);
  return -m_cot_derivative(n, x) - m_zeta(n, 1 - x);
}
M_FN float m_polygamma(int n, float x) {
  return (float)m_polygamma(n, (double)x);
}

/* I_order: the power series, from 25 on the asymptotic one. */
M_FN double m_bessel(int order, double x) {
  double a = m_abs(x), sum, term;
  if (!(a < m_inf())) return order ? x : a;
  if (a < 25) {
    term = sum = order ? a / 2 : 1;
    for (int k = 1; term > sum * 1e-17; k++)
      sum += term *= a * a / 4 / (k * (double)(k + order));
  } else {
    double h = m_exp(a / 2);
    term = sum = 1;
    for (int k = 1; k < 30; k++) {
      int odd = 2 * k - 1;
      term *= (odd * odd - 4 * order) / (8 * k * a);
      sum += term;
    }
    sum = h * (sum / m_sqrt(2 * M_PI_ * a)) * h;
  }
  return order && x < 0 ? -sum : sum;
}

#endif
