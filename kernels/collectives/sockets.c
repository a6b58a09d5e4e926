/* sockets.c -- TCP with deadlines
 *
 * Sockets never block: whoever waits does so in poll, a little at a time, and
 * looks up.
 *
 * SPDX-License-Identifier: MIT */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* accept4, SOCK_CLOEXEC */
#endif
#include "sockets.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

double mrt_socket_clock(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

const char *mrt_socket_why(int code) {
  return code < 0             ? gai_strerror(code)
         : code == ETIMEDOUT  ? "nothing came in time"
         : code == ECONNRESET ? "the connection is closed"
                              : strerror(code);
}

/* ---- addresses ----------------------------------------------------------- */

static int resolve(const char *address, int port, int flags,
                   struct addrinfo **list) {
  struct addrinfo hints;
  char text[16];
  memset(&hints, 0, sizeof hints);
  hints.ai_socktype = SOCK_STREAM, hints.ai_flags = flags;
  snprintf(text, sizeof text, "%d", port);
  int code = getaddrinfo(address, text, &hints, list);
  return code == EAI_SYSTEM ? errno : code;
}

static int new_socket(const struct addrinfo *a) {
  return socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK,
                a->ai_protocol);
}

static void send_at_once(int fd) {
  int yes = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

static int listen_at(const struct addrinfo *a, int *listener) {
  int yes = 1, fd = new_socket(a);
  if (fd < 0) return errno;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, 1024) == 0) {
    *listener = fd;
    return 0;
  }
  int code = errno;
  close(fd);
  return code;
}

int mrt_socket_listen(const char *address, int port, int *listener) {
  struct addrinfo *list;
  int code = resolve(address, port, AI_PASSIVE, &list);
  if (code) return code;
  code = EADDRNOTAVAIL;
  for (struct addrinfo *a = list; a && code; a = a->ai_next)
    code = listen_at(a, listener);
  freeaddrinfo(list);
  return code;
}

int mrt_socket_inherited(int port) {
  struct sockaddr_in at;
  socklen_t size = sizeof at, room = sizeof(int);
  const char *text = getenv("MRT_LISTENER");
  int fd = text ? atoi(text) : -1, listens = 0;
  memset(&at, 0, sizeof at);
  if (fd <= STDERR_FILENO || getsockname(fd, (struct sockaddr *)&at, &size) < 0)
    return -1;
  if (at.sin_family != AF_INET || ntohs(at.sin_port) != port) return -1;
  if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &room) || !listens)
    return -1;
  fcntl(fd, F_SETFD, FD_CLOEXEC);
  return fd;
}

int mrt_socket_accept(int listener) {
  int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd >= 0) send_at_once(fd);
  return fd;
}

/* ---- waiting ------------------------------------------------------------- */

/* Until `fd` is ready for `events`; the deadline and Ctrl-C are looked at
 * several times a second. */
static int wait_for(int fd, short events, const mrt_deadline *until) {
  for (;;) {
    struct pollfd p = { .fd = fd, .events = events };
    int found = poll(&p, 1, 50);
    if (found > 0) return 0;
    if (found < 0 && errno != EINTR) return errno;
    if (until->interrupted && *until->interrupted) return EINTR;
    if (mrt_socket_clock() > until->deadline) return ETIMEDOUT;
  }
}

bool mrt_socket_poll(int listener, const int *fds, int count, double seconds) {
  struct pollfd p[65];
  nfds_t n = 0;
  p[n++] = (struct pollfd){ .fd = listener, .events = POLLIN };
  for (int i = 0; i < count && n < 65; i++)
    p[n++] = (struct pollfd){ .fd = fds[i], .events = POLLIN };
  return poll(p, n, (int)(1e3 * seconds)) > 0 && (p[0].revents & POLLIN);
}

/* ---- connecting ---------------------------------------------------------- */

static int connect_to(const struct addrinfo *a, const mrt_deadline *until,
                      int *to) {
  int fd = new_socket(a), code = 0;
  socklen_t size = sizeof code;
  if (fd < 0) return errno;
  if (connect(fd, a->ai_addr, a->ai_addrlen) < 0) {
    code = errno;
    if (code == EINPROGRESS) {
      code = wait_for(fd, POLLOUT, until);
      if (!code) getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &size);
    }
  }
  if (code)
    close(fd);
  else
    send_at_once(fd), *to = fd;
  return code;
}

static int try_all(const char *address, int port, const mrt_deadline *until,
                   int *fd) {
  struct addrinfo *list;
  int code = resolve(address, port, 0, &list);
  if (code) return code;
  code = EADDRNOTAVAIL;
  for (struct addrinfo *a = list; a && code && code != EINTR; a = a->ai_next)
    code = connect_to(a, until, fd);
  freeaddrinfo(list);
  return code;
}

int mrt_socket_connect(const char *address, int port, const mrt_deadline *until,
                       int *fd) {
  for (double pause = 0.05;; pause = pause < 1 ? 2 * pause : 2) {
    int code = try_all(address, port, until, fd);
    if (!code || code == EINTR) return code;
    double now = mrt_socket_clock(), left = until->deadline - now;
    if (left <= 0 || code == EAI_NONAME) return code;
    mrt_deadline rest = { now + (pause < left ? pause : left),
                          until->interrupted };
    if (wait_for(-1, 0, &rest) == EINTR) return EINTR; /* no socket: sleeps */
  }
}

/* ---- bytes --------------------------------------------------------------- */

long mrt_socket_read(int fd, void *to, size_t nbytes) {
  ssize_t n = recv(fd, to, nbytes, 0);
  if (n > 0) return (long)n;
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
  return -1;
}

int mrt_socket_send(int fd, const void *from, size_t nbytes,
                    const mrt_deadline *until) {
  const char *at = from;
  while (nbytes > 0) {
    ssize_t n = send(fd, at, nbytes, MSG_NOSIGNAL);
    if (n > 0) {
      at += n, nbytes -= (size_t)n;
      continue;
    }
    if (n < 0 && errno != EAGAIN && errno != EINTR)
      return errno == EPIPE ? ECONNRESET : errno;
    int code = wait_for(fd, POLLOUT, until);
    if (code) return code;
  }
  return 0;
}

int mrt_socket_receive(int fd, void *to, size_t nbytes,
                       const mrt_deadline *until) {
  char *at = to;
  while (nbytes > 0) {
    ssize_t n = recv(fd, at, nbytes, 0);
    if (n > 0) {
      at += n, nbytes -= (size_t)n;
      continue;
    }
    if (n == 0) return ECONNRESET;
    if (errno != EAGAIN && errno != EINTR) return errno;
    int code = wait_for(fd, POLLIN, until);
    if (code) return code;
  }
  return 0;
}
