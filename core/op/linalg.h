/* linalg.h -- options of linear algebra, and what its rows share
 *
 * Matrices are the last two dimensions; all others are a batch.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_OP_LINALG_H
#define MRT_OP_LINALG_H

#include "op/build.h"

typedef struct mrt_lu_solve_options {
  bool adjoint; /* A^T x = b */
} mrt_lu_solve_options;

typedef struct mrt_triangular_options {
  bool upper, left, unitriangular;
  bool transposed; /* A^T stands for A, whose triangle is `upper` */
} mrt_triangular_options;

typedef struct mrt_cholesky_options {
  bool upper;
} mrt_cholesky_options;

typedef struct mrt_qr_options {
  bool complete;
} mrt_qr_options;

typedef struct mrt_svd_options {
  bool full_matrices;
} mrt_svd_options;

typedef struct mrt_eigh_options {
  bool upper;
} mrt_eigh_options;

/* Rows and columns of the matrices of a type. */
static inline int64_t mrt_matrix_rows(const mrt_type *t) {
  return t->dims[t->rank - 2];
}
static inline int64_t mrt_matrix_cols(const mrt_type *t) {
  return t->dims[t->rank - 1];
}
static inline double mrt_matrix_count(const mrt_type *t) {
  double n = 1;
  for (int i = 0; i + 2 < t->rank; i++) n *= (double)t->dims[i];
  return n;
}

/* Input `input` is f32 or f64 matrices, which LAPACK can count: it counts with
 * 32 bits, elements and workspace too (`times` the elements).  Opens it. */
mrt_status mrt_want_matrix(mrt_infer *c, int input, int times);
mrt_status mrt_want_square(mrt_infer *c, int input, int times);
/* Inputs a and b have one dtype and the same batch. */
mrt_status mrt_want_same_batch(mrt_infer *c, int a, int b);
/* The type of `t` with matrices of [rows, cols], or vectors of [n]. */
mrt_type mrt_matrix_type(const mrt_type *t, int64_t rows, int64_t cols);
mrt_type mrt_vector_type(const mrt_type *t, int64_t n);

/* Lanes: each matrix by itself; inputs and outputs have the same batch. */
int mrt_shard_rules_batch(const mrt_signature *s, int input, int dim);

/* x + y, where either may be NULL: no gradient. */
mrt_tensor *mrt_add_some(mrt_build *b, mrt_tensor *x, mrt_tensor *y);
/* The triangle of matrices: elements [i, j] with j - i <= k (lower), or
 * j - i >= k; 0 elsewhere, even where x is NaN. */
mrt_tensor *mrt_lower(mrt_build *b, mrt_tensor *x, int64_t k);
mrt_tensor *mrt_upper(mrt_build *b, mrt_tensor *x, int64_t k);
/* Matrices with these vectors on the diagonal. */
mrt_tensor *mrt_diagonal_of(mrt_build *b, mrt_tensor *v);
/* x with column j, or row i, multiplied by s[j], s[i]. */
mrt_tensor *mrt_scale_cols(mrt_build *b, mrt_tensor *x, mrt_tensor *s);
mrt_tensor *mrt_scale_rows(mrt_build *b, mrt_tensor *x, mrt_tensor *s);
/* v as matrices of one row, or of one column. */
mrt_tensor *mrt_as_row(mrt_build *b, mrt_tensor *v);
mrt_tensor *mrt_as_col(mrt_build *b, mrt_tensor *v);
/* Columns [first, first + n) of matrices, or rows. */
mrt_tensor *mrt_cols_of(mrt_build *b, mrt_tensor *x, int64_t first, int64_t n);
mrt_tensor *mrt_rows_of(mrt_build *b, mrt_tensor *x, int64_t first, int64_t n);
/* Joined along dimension -1 or -2. */
mrt_tensor *mrt_beside(mrt_build *b, mrt_tensor *x, mrt_tensor *y, int64_t dim);
mrt_tensor *mrt_zeros_of(mrt_build *b, mrt_tensor *like, const mrt_type *type);
/* op(A) X = B, or X op(A) = B. */
mrt_tensor *mrt_triangular(mrt_build *b, mrt_tensor *a, mrt_tensor *y,
                           mrt_triangular_options o);

#endif
