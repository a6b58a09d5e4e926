/* sanitizers.h -- is this built with one?
 *
 * GCC says so by a macro of its own for each, Clang by a question.  Who keeps
 * memory for later gives it up then, so that a use after its end is seen; specs
 * do less, for all is slower.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_BASE_SANITIZERS_H
#define MRT_BASE_SANITIZERS_H

#ifdef __has_feature
#if __has_feature(address_sanitizer)
#define MRT_SANITIZES_ADDRESSES
#endif
#if __has_feature(thread_sanitizer)
#define MRT_SANITIZES_THREADS
#endif
#endif

#ifdef __SANITIZE_ADDRESS__
#define MRT_SANITIZES_ADDRESSES
#endif
#ifdef __SANITIZE_THREAD__
#define MRT_SANITIZES_THREADS
#endif

#endif
