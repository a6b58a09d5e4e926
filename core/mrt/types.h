/* types.h -- what all of mrt speaks of: statuses, element types, shapes
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_TYPES_H
#define MRT_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Which version these headers are of; mrt_version tells that of the library.
 * The number is for comparisons: 102 is 0.1.2, 10000 is 1.0.0. */
#define MRT_VERSION       "0.1.0"
#define MRT_VERSION_MAJOR 0
#define MRT_VERSION_MINOR 1
#define MRT_VERSION_PATCH 0
#define MRT_VERSION_NUMBER                                                     \
  (MRT_VERSION_MAJOR * 10000 + MRT_VERSION_MINOR * 100 + MRT_VERSION_PATCH)

#if defined(__GNUC__)
#define MRT_API __attribute__((visibility("default")))
#else
#define MRT_API
#endif

/* ---- status, element types, shapes --------------------------------------- */

typedef enum mrt_status {
  MRT_OK,
#define ERROR(name, text) MRT_##name,
#include "mrt/errors.def"
#undef ERROR
} mrt_status;

/* "shape", "dtype" ...; never NULL. */
MRT_API const char *mrt_status_name(mrt_status status);
/* MRT_VERSION of the library, which may be newer than the headers. */
MRT_API const char *mrt_version(void);

typedef enum mrt_dtype {
#define DTYPE(name, ...) MRT_##name,
#include "mrt/dtypes.def"
#undef DTYPE
  MRT_DTYPE_COUNT
} mrt_dtype;

enum { MRT_MAX_RANK = 8 };
/* The most that an order may be searched for, times the usual. */
enum { MRT_MOST_EFFORT = 1000 };

/* What a tensor is before it has elements.  The last dimension is contiguous.
 * dims of a checked type multiply to bytes that fit in 62 bits. */
typedef struct mrt_type {
  mrt_dtype dtype;
  int rank; /* 0 is a scalar */
  int64_t dims[MRT_MAX_RANK];
} mrt_type;

typedef struct mrt_dtype_info {
  const char *name;
  size_t bytes;
  bool floating, narrow;  /* narrow: a float of 16 or 8 bits */
  int exponent, fraction; /* bits of a float */
  double largest;         /* finite number */
} mrt_dtype_info;

MRT_API mrt_dtype_info mrt_dtype_get_info(mrt_dtype dtype);
MRT_API const char *mrt_dtype_name(mrt_dtype dtype);
/* MRT_DTYPE_COUNT when there is no such name. */
MRT_API mrt_dtype mrt_dtype_find(const char *name);
MRT_API int64_t mrt_type_count(const mrt_type *type);
MRT_API size_t mrt_type_bytes(const mrt_type *type);
/* "f32[2,3]" into `text`, cut to `size`. */
MRT_API void mrt_type_print(const mrt_type *type, char *text, size_t size);

typedef struct mrt_ints {
  int count;
  int64_t at[MRT_MAX_RANK];
} mrt_ints;

/* realloc in one function: new_size 0 frees and returns NULL; a NULL result
 * for new_size > 0 is a failure that leaves `block` as it was. */
typedef struct mrt_allocator {
  void *(*resize)(void *user, void *block, size_t old_size, size_t new_size);
  void *user;
} mrt_allocator;

typedef struct mrt_context mrt_context;
typedef struct mrt_tensor mrt_tensor;
typedef struct mrt_op mrt_op;
typedef struct mrt_plan mrt_plan;
typedef struct mrt_space mrt_space;

/* Fills dx[nx] with gradients, one handle each, taken; or NULL: mrt_custom. */
typedef mrt_status (*mrt_backward)(void *user, mrt_tensor *dy, mrt_tensor **dx);

#ifdef __cplusplus
}
#endif
#endif
