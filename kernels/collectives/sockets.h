/* sockets.h -- TCP with deadlines
 *
 * Functions that return int return 0 or a code that mrt_socket_why explains:
 * an errno value (ETIMEDOUT: the deadline; ECONNRESET: the other side is gone;
 * EINTR: interrupted) or, negative, one of getaddrinfo.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_COLLECTIVES_SOCKETS_H
#define MRT_COLLECTIVES_SOCKETS_H

#include <stdbool.h>
#include <stddef.h>

typedef struct mrt_deadline {
  double deadline; /* on mrt_socket_clock */
  const volatile int *interrupted;
} mrt_deadline;

double mrt_socket_clock(void); /* seconds; only goes forward */
const char *mrt_socket_why(int code);

int mrt_socket_listen(const char *address, int port, int *listener);
/* The listener that whoever started this process has left it (its descriptor in
 * MRT_LISTENER), if it is at this port; or -1. */
int mrt_socket_inherited(int port);
/* A connection that waits, or -1. */
int mrt_socket_accept(int listener);
/* Tries again, less and less often, until the deadline. */
int mrt_socket_connect(const char *address, int port, const mrt_deadline *until,
                       int *fd);
/* Until something is to be read, at most so long: does somebody wish to
 * connect? */
bool mrt_socket_poll(int listener, const int *fds, int count, double seconds);
/* Bytes read, 0 when none are there, -1 when the other side is gone. */
long mrt_socket_read(int fd, void *to, size_t nbytes);
/* All of it. */
int mrt_socket_send(int fd, const void *from, size_t nbytes,
                    const mrt_deadline *until);
int mrt_socket_receive(int fd, void *to, size_t nbytes,
                       const mrt_deadline *until);

#endif
