/* guests.h -- who has connected and not yet said who it is
 *
 * Each says so many bytes first.  They are heard as they come, from all at once:
 * one that says nothing holds up nobody, and is sent away in the end, or when
 * there are too many.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_GUESTS_H
#define MRT_GUESTS_H

#include "base/error.h"
#include "sockets.h"

enum { MRT_GUESTS = 64, MRT_GUEST_SAYS = 512 /* bytes at most */ };

typedef struct mrt_guests {
  size_t nbytes; /* that each says */
  int count, fd[MRT_GUESTS];
  size_t got[MRT_GUESTS];
  double until[MRT_GUESTS];
  _Alignas(8) char said[MRT_GUESTS][MRT_GUEST_SAYS];
} mrt_guests;

/* Heard whole; the connection is for the one who hears. */
typedef mrt_status mrt_guest_heard(void *user, void *said, int fd,
                                   mrt_error *e);

/* Waits for that long at most; takes one who knocks, and hears all. */
mrt_status mrt_guests_serve(mrt_guests *g, int listener, double seconds,
                            mrt_guest_heard *heard, void *user, mrt_error *e);
void mrt_guests_close(mrt_guests *g); /* sends all away */

#endif
