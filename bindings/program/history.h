/* history.h -- the file of the prompt's history
 *
 * One line per entry, newlines within one being the byte 31; appended to as
 * entries come, so sessions side by side, or killed, lose nothing.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_HISTORY_H
#define MRT_HISTORY_H

#include <stdio.h>

/* Call take(user, entry) for each entry in the file at `path`, the oldest
 * first, and open it to add to, making its folders.  NULL if it cannot be. */
FILE *mrt_edit_history_open(const char *path,
                            void (*take)(void *user, const char *entry),
                            void *user);

void mrt_edit_history_add(FILE *file, const char *entry);

#endif
