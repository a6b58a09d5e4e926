/* edit.h -- one line of input, edited where that is possible
 *
 * With libedit and a terminal: history, search, completion, what is pasted at
 * once.  Without either: plain lines.  One editor at a time.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_EDIT_H
#define MRT_EDIT_H

#include <stdbool.h>
#include <stddef.h>

typedef struct mrt_edit mrt_edit;

/* Complete the `size` bytes before the cursor.  Returns what to insert there
 * (NULL: nothing) and sets *choices to text to show below (NULL: none); both
 * are borrowed until the next call. */
typedef const char *(*mrt_edit_complete)(void *user, const char *line,
                                         size_t size, const char **choices);

typedef enum mrt_edit_result {
  MRT_EDIT_LINE,
  MRT_EDIT_END,
  MRT_EDIT_INTERRUPTED /* Ctrl-C */
} mrt_edit_result;

/* NULL when there is no memory.  `complete` may be NULL. */
mrt_edit *mrt_edit_open(mrt_edit_complete complete, void *user);
void mrt_edit_close(mrt_edit *e); /* NULL is fine */

/* Read the history in `path` and add to it from now on; folders are made.
 * False, and a history that ends with the session, if it cannot be written. */
bool mrt_edit_history(mrt_edit *e, const char *path);
/* An entry may have several lines. */
void mrt_edit_remember(mrt_edit *e, const char *entry);

/* Forget what was pasted and not yet read.  True if there was some. */
bool mrt_edit_drop(mrt_edit *e);

/* Show `prompt`, read a line; of the history one may come that has several.
 * MRT_EDIT_LINE sets *line, without its newline at the end, borrowed until the
 * next call. */
mrt_edit_result mrt_edit_read(mrt_edit *e, const char *prompt,
                              const char **line);

#endif
