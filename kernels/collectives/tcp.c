/* tcp.c -- an engine over connections: two between each two ranks
 *
 * A channel is a stream of bytes without marks; the requests of one direction
 * stand in a line and the first of them moves.
 *
 * SPDX-License-Identifier: MIT */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include "tcp.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

typedef struct channel {
  int fd;               /* -1: to oneself */
  mrt_request *line[2]; /* receives, sends: the first */
  mrt_request *last[2];
  bool cut[2];
  int code; /* why; 0: the other side is gone */
} channel;

typedef struct connections {
  mrt_engine engine;
  const mrt_allocator *allocator;
  channel *channels; /* [size * MRT_ENGINE_CHANNELS] */
  struct pollfd *polls;
} connections;

static channel *channel_of(connections *n, const mrt_request *r) {
  return &n->channels[r->peer * MRT_ENGINE_CHANNELS + r->channel];
}

/* Bytes moved; 0: none just now. */
static size_t move_some(channel *l, mrt_request *r) {
  char *at = r->data + r->moved;
  size_t left = r->nbytes - r->moved;
  ssize_t n = r->is_send ? send(l->fd, at, left, MSG_NOSIGNAL)
                         : recv(l->fd, at, left, 0);
  if (n > 0) return (size_t)n;
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
  l->cut[r->is_send] = true;
  if (n < 0 && errno != ECONNRESET && errno != EPIPE) l->code = errno;
  return 0;
}

static void move(channel *l, bool is_send) {
  for (mrt_request *r; (r = l->line[is_send]) && !l->cut[is_send];) {
    size_t n = move_some(l, r);
    if (n == 0) return;
    r->moved += n;
    if (r->moved < r->nbytes) continue;
    l->line[is_send] = r->next;
    r->done = true;
  }
}

static void start(mrt_engine *engine, mrt_request *r) {
  channel *l = channel_of((connections *)engine, r);
  r->next = NULL;
  if (l->line[r->is_send])
    l->last[r->is_send]->next = r;
  else
    l->line[r->is_send] = r;
  l->last[r->is_send] = r;
  if (r->is_send) move(l, true);
}

static int test(mrt_engine *engine, mrt_request *r) {
  channel *l = channel_of((connections *)engine, r);
  if (!r->done) move(l, r->is_send);
  if (r->done) return 1;
  if (!l->cut[r->is_send]) return 0;
  snprintf(engine->why, sizeof engine->why, "%s",
           l->code ? strerror(l->code) : "");
  return -1;
}

/* Everything moves that can, also what nobody tests just now. */
static void rest(mrt_engine *engine, int turns) {
  const int spin = 10, most = 20; /* milliseconds */
  connections *n = (connections *)engine;
  int count = engine->size * MRT_ENGINE_CHANNELS,
      events[] = { POLLIN, POLLOUT };
  for (int i = 0; i < count; i++) {
    channel *l = &n->channels[i];
    n->polls[i] = (struct pollfd){ .fd = -1 };
    for (int is_send = 0; is_send < 2; is_send++)
      if (l->line[is_send] && !l->cut[is_send])
        n->polls[i].fd = l->fd, n->polls[i].events |= (short)events[is_send];
  }
  if (poll(n->polls, (nfds_t)count, turns < spin ? 0 : most) <= 0) return;
  for (int i = 0; i < count; i++)
    for (int is_send = 0; is_send < 2 && n->polls[i].revents; is_send++)
      move(&n->channels[i], is_send);
}

static void stop(mrt_engine *engine) {
  connections *n = (connections *)engine;
  for (int i = 0; i < engine->size * MRT_ENGINE_CHANNELS; i++)
    n->channels[i].line[0] = n->channels[i].line[1] = NULL;
}

/* The peers read what is on its way, and then that this was the end. */
static void close_all(mrt_engine *engine, bool well) {
  connections *n = (connections *)engine;
  size_t count = (size_t)engine->size * MRT_ENGINE_CHANNELS;
  char rest_of[256];
  (void)well;
  for (size_t i = 0; n->channels && i < count; i++) {
    int fd = n->channels[i].fd;
    if (fd < 0) continue;
    shutdown(fd, SHUT_WR);
    /* unread bytes would make the end look like a death */
    for (int k = 0; k < 64 && recv(fd, rest_of, sizeof rest_of, 0) > 0; k++) {
    }
    close(fd);
  }
  mrt_release(n->allocator, n->channels, count * sizeof *n->channels);
  mrt_release(n->allocator, n->polls, count * sizeof *n->polls);
  mrt_release(n->allocator, n, sizeof *n);
}

mrt_status mrt_tcp_new(const mrt_allocator *a, int rank, int size,
                       const int *fds, mrt_engine **out, mrt_error *e) {
  size_t count = (size_t)size * MRT_ENGINE_CHANNELS;
  connections *n = mrt_calloc(a, 1, sizeof *n);
  for (size_t i = 0; !n && i < count; i++)
    if (fds[i] >= 0) close(fds[i]);
  if (!n) return mrt_nomem(e);
  n->allocator = a;
  n->engine = (mrt_engine){ .name = "sockets",
                            .rank = rank,
                            .size = size,
                            .start = start,
                            .test = test,
                            .rest = rest,
                            .stop = stop,
                            .close = close_all };
  n->channels = mrt_calloc(a, count, sizeof *n->channels);
  n->polls = mrt_calloc(a, count, sizeof *n->polls);
  bool whole = n->channels && n->polls;
  for (size_t i = 0; i < count; i++) {
    if (n->channels) n->channels[i].fd = fds[i];
    if (fds[i] < 0) continue;
    fcntl(fds[i], F_SETFL, fcntl(fds[i], F_GETFL) | O_NONBLOCK);
    if (!n->channels) close(fds[i]);
  }
  if (!whole) return close_all(&n->engine, false), mrt_nomem(e);
  *out = &n->engine;
  return MRT_OK;
}
