/* json.h -- JSON that has been read, value by value
 *
 *     mrt_document *d;
 *     mrt_document_parse(ctx, text, size, &(mrt_document_options){ 0 }, &d);
 *     mrt_item root = mrt_document_root(d), held;
 *     const char *key;
 *     mrt_cursor at = { 0 };
 *     while (mrt_item_next(&root, &at, &key, &held)) ...
 *     mrt_document_free(d);
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_JSON_H
#define MRT_JSON_H

#include "mrt/types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mrt_document mrt_document;
struct mrt_context;

/* 0: the default. */
typedef struct mrt_document_options {
  int deepest;  /* lists and objects in each other, 100 */
  int64_t most; /* values, 4 million */
  bool unique;  /* refuse a key that comes twice in an object: else the last
                    * one holds */
} mrt_document_options;

/* Read one value and nothing behind it.  Integers of 64 bits are exact, larger
 * ones are floats.  EDATA: it is no JSON in UTF-8, and where, or more than the
 * options allow. */
MRT_API mrt_status mrt_document_parse(struct mrt_context *ctx, const char *text,
                                      size_t size,
                                      const mrt_document_options *options,
                                      mrt_document **out);
MRT_API void mrt_document_free(mrt_document *d); /* NULL is fine */

typedef enum mrt_item_kind {
  MRT_ITEM_NULL,
  MRT_ITEM_TRUTH,
  MRT_ITEM_INTEGER,
  MRT_ITEM_NUMBER,
  MRT_ITEM_STRING,
  MRT_ITEM_LIST,
  MRT_ITEM_OBJECT
} mrt_item_kind;

/* A value, borrowed from the document. */
typedef struct mrt_item {
  mrt_item_kind kind;
  bool truth;
  int64_t integer;
  double number;
  const char *text; /* of a string; zero bytes are bytes of it */
  size_t size;      /* bytes of a string, members of a list or object */
  const void *in;
} mrt_item;

typedef struct mrt_cursor {
  size_t next;
  void *member;
} mrt_cursor;

MRT_API mrt_item mrt_document_root(const mrt_document *d);
/* The next member of a list (key: NULL) or object, in the text's order; false:
 * there is none. */
MRT_API bool mrt_item_next(const mrt_item *of, mrt_cursor *at, const char **key,
                           mrt_item *item);

#ifdef __cplusplus
}
#endif
#endif
