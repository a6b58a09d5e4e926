/* paste.h -- text that a terminal marks as pasted
 *
 * Asked by ESC [?2004h, a terminal sends ESC [200~ before what is pasted and
 * ESC [201~ behind it (xterm's bracketed paste).
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_PASTE_H
#define MRT_PASTE_H

#include <stdbool.h>
#include <stddef.h>

typedef struct mrt_paste {
  char *text; /* free() it; all zero to begin with */
  size_t size, at, room;
} mrt_paste;

/* Read from `fd` what follows ESC [200~, up to ESC [201~.  What is kept are
 * lines that end in '\n', without control characters but tabs.  False at the
 * end of the file, or after a signal if `stopped` says so; what came before is
 * dropped then, and what is beyond 64 MiB in any case. */
bool mrt_edit_paste_read(mrt_paste *p, int fd, bool (*stopped)(void));

/* The next byte, if there is one. */
bool mrt_edit_paste_take(mrt_paste *p, char *byte);

/* Forget the rest.  True if there was one. */
bool mrt_edit_paste_drop(mrt_paste *p);

#endif
