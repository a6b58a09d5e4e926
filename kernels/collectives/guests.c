/* guests.c -- who has connected and not yet said who it is
 *
 * SPDX-License-Identifier: MIT */
#include "guests.h"

#include <string.h>
#include <unistd.h>

static const double patience = 10; /* seconds */

static void drop(mrt_guests *g, int i) {
  int last = --g->count;
  g->fd[i] = g->fd[last], g->got[i] = g->got[last];
  g->until[i] = g->until[last];
  memcpy(g->said[i], g->said[last], g->nbytes);
}

static void greet(mrt_guests *g, int listener) {
  int fd = mrt_socket_accept(listener);
  if (fd < 0) return;
  if (g->count == MRT_GUESTS) { /* the one that has been silent longest */
    int oldest = 0;
    for (int i = 1; i < MRT_GUESTS; i++)
      if (g->until[i] < g->until[oldest]) oldest = i;
    close(g->fd[oldest]);
    drop(g, oldest);
  }
  int i = g->count++;
  g->fd[i] = fd, g->got[i] = 0, g->until[i] = mrt_socket_clock() + patience;
}

/* Those who have said all leave the list. */
static mrt_status hear(mrt_guests *g, mrt_guest_heard *heard, void *user,
                       mrt_error *e) {
  for (int i = g->count; i-- > 0;) {
    long n = mrt_socket_read(g->fd[i], g->said[i] + g->got[i],
                             g->nbytes - g->got[i]);
    if (n > 0) g->got[i] += (size_t)n;
    int fd = g->fd[i];
    if (g->got[i] == g->nbytes) {
      _Alignas(8) char said[MRT_GUEST_SAYS];
      memcpy(said, g->said[i], g->nbytes);
      drop(g, i);
      MRT_TRY(heard(user, said, fd, e));
    } else if (n < 0 || mrt_socket_clock() > g->until[i]) {
      close(fd);
      drop(g, i);
    }
  }
  return MRT_OK;
}

mrt_status mrt_guests_serve(mrt_guests *g, int listener, double seconds,
                            mrt_guest_heard *heard, void *user, mrt_error *e) {
  if (mrt_socket_poll(listener, g->fd, g->count, seconds)) greet(g, listener);
  return hear(g, heard, user, e);
}

void mrt_guests_close(mrt_guests *g) {
  for (int i = 0; i < g->count; i++) close(g->fd[i]);
  g->count = 0;
}
