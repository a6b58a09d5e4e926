/* lapack.h -- LAPACK: a library of the system, opened when it is first needed
 *
 * MRT_LAPACK in the environment names the file ("off": none); else it is
 * liblapack.so.3, which Debian's liblapack3 and OpenBLAS provide.  Once open it
 * stays.  Nothing is linked: without the library all else works.
 *
 * Called with one thread: OpenBLAS's own are told to be one, so that bits do not
 * depend on their number; kernels call it for several matrices at a time.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_BASE_LAPACK_H
#define MRT_BASE_LAPACK_H

#include "base/error.h"

/* The subroutines used, of either real: sgetrf_ and dgetrf_. */
#define MRT_LAPACK_NAMES(F)                                                    \
  F(getrf)                                                                     \
  F(getri) F(getrs) F(potrf) F(gelqf) F(orglq) F(gesdd) F(syevd) F(trsm) F(gemm)

typedef enum mrt_lapack_name {
#define F(name) MRT_LAPACK_##name,
  MRT_LAPACK_NAMES(F)
#undef F
      MRT_LAPACK_COUNT
} mrt_lapack_name;

/* EDEVICE with what to install, unless the library is open.  Any thread. */
mrt_status mrt_lapack_open(const char *who, mrt_error *e);
/* A subroutine of f32 (double_ false) or f64, to be cast; after opening. */
void (*mrt_lapack_find(mrt_lapack_name name, bool double_))(void);
/* Around each call: where the library cannot be called by several threads they
 * take turns. */
void mrt_lapack_enter(void);
void mrt_lapack_leave(void);
/* The file that is open; NULL: none. */
MRT_API const char *mrt_lapack_file(void);

#endif
