/* matrices.h -- LAPACK for a batch of matrices
 *
 * Tensors are row-major and LAPACK's matrices column-major: what it sees is the
 * transpose, and each kernel says how it gets what it wants from that.  One call
 * works on one matrix, in one thread; threads share the batch, each with a room
 * of its own in the scratch, so no bit depends on their number.
 *
 * LAPACK ends the process where an argument is illegal (xerbla): sizes are those
 * that infer lets through, a leading dimension is at least 1, and an empty
 * matrix is never handed on.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CPU_MATRICES_H
#define MRT_CPU_MATRICES_H

#include "base/lapack.h"
#include "cpu.h"
#include "op/linalg.h"

/* The Fortran interfaces; the length of each character argument comes last. */
typedef void getrf_fn(const int *m, const int *n, real *a, const int *lda,
                      int *swaps, int *info);
typedef void getrs_fn(const char *trans, const int *n, const int *k,
                      const real *a, const int *lda, const int *swaps, real *b,
                      const int *ldb, int *info, size_t);
typedef void getri_fn(const int *n, real *a, const int *lda, const int *swaps,
                      real *work, const int *lwork, int *info);
typedef void potrf_fn(const char *uplo, const int *n, real *a, const int *lda,
                      int *info, size_t);
typedef void gelqf_fn(const int *m, const int *n, real *a, const int *lda,
                      real *tau, real *work, const int *lwork, int *info);
typedef void orglq_fn(const int *m, const int *n, const int *k, real *a,
                      const int *lda, const real *tau, real *work,
                      const int *lwork, int *info);
typedef void gesdd_fn(const char *job, const int *m, const int *n, real *a,
                      const int *lda, real *s, real *u, const int *ldu,
                      real *vt, const int *ldvt, real *work, const int *lwork,
                      int *iwork, int *info, size_t);
typedef void syevd_fn(const char *job, const char *uplo, const int *n, real *a,
                      const int *lda, real *w, real *work, const int *lwork,
                      int *iwork, const int *liwork, int *info, size_t, size_t);
typedef void trsm_fn(const char *side, const char *uplo, const char *trans,
                     const char *diag, const int *m, const int *n,
                     const real *alpha, const real *a, const int *lda, real *b,
                     const int *ldb, size_t, size_t, size_t, size_t);
typedef void gemm_fn(const char *transa, const char *transb, const int *m,
                     const int *n, const int *k, const real *alpha,
                     const real *a, const int *lda, const real *b,
                     const int *ldb, const real *beta, real *c, const int *ldc,
                     size_t, size_t);

#ifdef MRT_F64
#define LAPACK(name) ((name##_fn *)mrt_lapack_find(MRT_LAPACK_##name, true))
#else
#define LAPACK(name) ((name##_fn *)mrt_lapack_find(MRT_LAPACK_##name, false))
#endif
#define mrt_getrf LAPACK(getrf)
#define mrt_getri LAPACK(getri)
#define mrt_getrs LAPACK(getrs)
#define mrt_potrf LAPACK(potrf)
#define mrt_gelqf LAPACK(gelqf)
#define mrt_orglq LAPACK(orglq)
#define mrt_gesdd LAPACK(gesdd)
#define mrt_syevd LAPACK(syevd)
#define mrt_trsm  LAPACK(trsm)
#define mrt_gemm  LAPACK(gemm)

/* ---- a batch ------------------------------------------------------------- */

/* Compute matrix `i` of the call with `room` for its own; false: it is bad. */
typedef bool mrt_matrix_fn(const mrt_call *c, int64_t i, char *room);

typedef struct mrt_matrix_batch {
  mrt_matrix_fn *each;
  int64_t count;
  size_t room;
  int64_t *bad; /* the first */
} mrt_matrix_batch;

static inline int64_t mrt_batch_count(const mrt_call *c) {
  const mrt_type *t = &c->in[0].type;
  int64_t n = 1;
  for (int i = 0; i + 2 < t->rank; i++) n *= t->dims[i];
  return n;
}

/* The most parts a batch is divided into. */
static inline int mrt_batch_parts(const mrt_call *c) {
  int64_t n = mrt_batch_count(c);
  return n < c->threads ? n > 0 ? (int)n : 1 : c->threads;
}

static inline void mrt_batch_part(const mrt_call *c, const void *shared,
                                  int part, int parts) {
  const mrt_matrix_batch *b = shared;
  char *room = (char *)c->scratch + (size_t)part * b->room;
  int64_t i, end;
  mrt_share(b->count, part, parts, &i, &end);
  for (; i < end; i++) {
    mrt_lapack_enter();
    bool good = b->each(c, i, room);
    mrt_lapack_leave();
    if (good) continue;
    int64_t first = __atomic_load_n(b->bad, __ATOMIC_RELAXED);
    while (i < first &&
           !__atomic_compare_exchange_n(b->bad, &first, i, true,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED))
      ;
  }
}

/* `each` for all matrices, of `flops` each; the first bad one is reported. */
static inline void mrt_each_matrix(const mrt_call *c, double flops, size_t room,
                                   mrt_matrix_fn *each) {
  int64_t count = mrt_batch_count(c), bad = INT64_MAX;
  double ns = (double)count * (flops / 4 + 200);
  int parts = mrt_team(c, ns), most = mrt_batch_parts(c);
  if (parts > most) parts = most;
  mrt_parallel(c, parts, mrt_batch_part,
               &(mrt_matrix_batch){ each, count, room, &bad });
  if (bad < count) mrt_bad_id(c, bad + 1, count);
}

/* ---- rooms --------------------------------------------------------------- */

/* Bytes of so many reals or ints, to the next cache line. */
static inline size_t mrt_room(int64_t n, size_t size) {
  return ((size_t)n * size + 63) / 64 * 64;
}

/* Take the next piece of a room. */
static inline void *mrt_take(char **room, int64_t n, size_t size) {
  char *at = *room;
  *room += mrt_room(n, size);
  return at;
}

/* The workspace that LAPACK asks for by `w`: a real, which for large numbers is
 * rounded, perhaps down. */
static inline int mrt_asked(real w) {
  double n = (double)w * (1 + 1e-6) + 1;
  return n < (double)INT32_MAX ? (int)n : INT32_MAX;
}

/* ---- matrices ------------------------------------------------------------ */

static inline int mrt_rows_int(const mrt_operand *x) {
  return (int)x->type.dims[x->type.rank - 2];
}
static inline int mrt_cols_int(const mrt_operand *x) {
  return (int)x->type.dims[x->type.rank - 1];
}
/* Matrix i of an operand whose last `dims` dimensions are one of the batch. */
static inline real *mrt_matrix(const mrt_operand *x, int64_t i, int dims) {
  const mrt_type *t = &x->type;
  int64_t n = 1;
  for (int d = t->rank - dims; d < t->rank; d++) n *= t->dims[d];
  return (real *)x->data + i * n;
}

/* y[n,m] = x[m,n]^T in blocks that the first cache holds. */
static inline void mrt_transpose_to(const real *x, real *y, int64_t m,
                                    int64_t n) {
  enum { BLOCK = 32 };
  for (int64_t i0 = 0; i0 < m; i0 += BLOCK)
    for (int64_t j0 = 0; j0 < n; j0 += BLOCK) {
      int64_t i1 = i0 + BLOCK < m ? i0 + BLOCK : m;
      int64_t j1 = j0 + BLOCK < n ? j0 + BLOCK : n;
      for (int64_t i = i0; i < i1; i++)
        for (int64_t j = j0; j < j1; j++) y[j * m + i] = x[i * n + j];
    }
}

static inline void mrt_transpose_square(real *x, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < i; j++) {
      real was = x[i * n + j];
      x[i * n + j] = x[j * n + i], x[j * n + i] = was;
    }
}

static inline void mrt_fill(real *x, int64_t n, real value) {
  for (int64_t i = 0; i < n; i++) x[i] = value;
}

static inline void mrt_identity(real *x, int64_t n) {
  mrt_fill(x, n * n, 0);
  for (int64_t i = 0; i < n; i++) x[i * n + i] = 1;
}

/* x - x is 0 of a finite number, NaN of all others. */
static inline bool mrt_finite(const real *x, int64_t n) {
  real sum = 0;
  for (int64_t i = 0; i < n; i++) sum += x[i] - x[i];
  return sum == 0;
}

static inline void mrt_swap_rows(real *x, int64_t n, int64_t i, int64_t j) {
  if (i == j) return;
  for (int64_t k = 0; k < n; k++) {
    real was = x[i * n + k];
    x[i * n + k] = x[j * n + k], x[j * n + k] = was;
  }
}

#endif
