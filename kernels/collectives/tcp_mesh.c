/* tcp_mesh.c -- ranks that have met connect each to each
 *
 * Every rank listens where it reached rank 0 from and says so by the bootstrap;
 * then each connects to those below it and takes those above.  Who does not
 * know the word that rank 0 made up for this is sent away.
 *
 * SPDX-License-Identifier: MIT */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include "bootstrap_inside.h"
#include "guests.h"
#include "tcp.h"
#include "transport.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

typedef struct door {
  char address[INET6_ADDRSTRLEN + 32];
  int32_t port, code; /* code: why there is none */
  char word[16];      /* of rank 0 */
} door;

/* What is said first on a connection. */
typedef struct knock {
  char magic[8], word[16];
  int32_t rank, channel;
} knock;

_Static_assert(sizeof(knock) <= MRT_GUEST_SAYS, "room for it");

typedef struct mesh {
  mrt_bootstrap *bootstrap;
  const mrt_allocator *allocator;
  int rank, size, listener;
  door *doors; /* [size] */
  int *fds;    /* [size * MRT_ENGINE_CHANNELS] */
  int missing; /* of those that others make */
} mesh;

/* The number of this side, or of the other, of a connection. */
static int address_of(int fd, bool other, char *text, size_t room) {
  struct sockaddr_storage a;
  socklen_t size = sizeof a;
  int (*const name)(int, struct sockaddr *, socklen_t *) =
      other ? getpeername : getsockname;
  if (name(fd, (struct sockaddr *)&a, &size)) return errno;
  return getnameinfo((struct sockaddr *)&a, size, text, (socklen_t)room, NULL,
                     0, NI_NUMERICHOST);
}

static int port_of(int fd) {
  struct sockaddr_storage a;
  socklen_t size = sizeof a;
  if (getsockname(fd, (struct sockaddr *)&a, &size)) return 0;
  return ntohs(a.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&a)->sin6_port
                                       : ((struct sockaddr_in *)&a)->sin_port);
}

static door open_door(mesh *m) {
  door d;
  memset(&d, 0, sizeof d);
  int any = m->rank == 0 ? 1 : 0; /* of the bootstrap's connections */
  d.code = address_of(m->bootstrap->sockets[any], false, d.address,
                      sizeof d.address);
  if (!d.code) d.code = mrt_socket_listen(d.address, 0, &m->listener);
  if (!d.code) d.port = port_of(m->listener);
  if (getrandom(d.word, sizeof d.word, 0) != sizeof d.word && !d.code)
    d.code = errno;
  return d;
}

static mrt_status lost(const mesh *m, int rank, int code, mrt_error *e) {
  if (code == EINTR) return mrt_fail(e, MRT_EINTERRUPT, "interrupted");
  return mrt_fail(e, MRT_ERANK, "rank %d at %s:%d (on %s): %s", rank,
                  m->doors[rank].address, m->doors[rank].port,
                  mrt_bootstrap_host(m->bootstrap, rank, NULL),
                  mrt_socket_why(code));
}

static mrt_status visit(mesh *m, int rank, int channel, mrt_error *e) {
  const door *d = &m->doors[rank];
  mrt_deadline until = mrt_bootstrap_deadline(m->bootstrap);
  knock k = { .magic = MRT_BOOTSTRAP_MAGIC,
              .rank = m->rank,
              .channel = channel };
  int *fd = &m->fds[rank * MRT_ENGINE_CHANNELS + channel];
  memcpy(k.word, m->doors[0].word, sizeof k.word);
  int code = mrt_socket_connect(d->address, d->port, &until, fd);
  if (!code) code = mrt_socket_send(*fd, &k, sizeof k, &until);
  return code ? lost(m, rank, code, e) : MRT_OK;
}

/* A place that waits for this connection; NULL: a stranger. */
static int *place_of(mesh *m, const knock *k) {
  bool ours = memcmp(k->magic, MRT_BOOTSTRAP_MAGIC, sizeof k->magic) == 0 &&
              memcmp(k->word, m->doors[0].word, sizeof k->word) == 0;
  if (!ours || k->rank <= m->rank || k->rank >= m->size || k->channel < 0 ||
      k->channel >= MRT_ENGINE_CHANNELS)
    return NULL;
  int *fd = &m->fds[k->rank * MRT_ENGINE_CHANNELS + k->channel];
  return *fd < 0 ? fd : NULL;
}

static mrt_status take(void *user, void *said, int fd, mrt_error *e) {
  mesh *m = user;
  int *place = place_of(m, said);
  (void)e;
  if (place)
    *place = fd, m->missing--;
  else
    close(fd);
  return MRT_OK;
}

static mrt_status take_from(mesh *m, mrt_guests *g, mrt_error *e) {
  mrt_deadline until = mrt_bootstrap_deadline(m->bootstrap);
  m->missing = (m->size - 1 - m->rank) * MRT_ENGINE_CHANNELS;
  while (m->missing > 0) {
    MRT_TRY(mrt_guests_serve(g, m->listener, 0.05, take, m, e));
    if (m->missing == 0) break;
    if (until.interrupted && *until.interrupted)
      return mrt_fail(e, MRT_EINTERRUPT, "interrupted");
    if (mrt_socket_clock() < until.deadline) continue;
    int i = (m->rank + 1) * MRT_ENGINE_CHANNELS;
    while (m->fds[i] >= 0) i++;
    return lost(m, i / MRT_ENGINE_CHANNELS, ETIMEDOUT, e);
  }
  return MRT_OK;
}

static mrt_status take_all(mesh *m, mrt_error *e) {
  mrt_guests *g = mrt_calloc(m->allocator, 1, sizeof *g);
  if (!g) return mrt_nomem(e);
  g->nbytes = sizeof(knock);
  mrt_status s = take_from(m, g, e);
  mrt_guests_close(g);
  mrt_release(m->allocator, g, sizeof *g);
  return s;
}

/* Rank 0 is where this rank has reached it, whatever it calls itself. */
static mrt_status connect_all(mesh *m, mrt_error *e) {
  door mine = open_door(m);
  MRT_TRY(
      mrt_bootstrap_allgather(m->bootstrap, &mine, sizeof mine, m->doors, e));
  for (int r = 0; r < m->size; r++)
    if (m->doors[r].code) return lost(m, r, m->doors[r].code, e);
  if (m->rank > 0)
    address_of(m->bootstrap->sockets[0], true, m->doors[0].address,
               sizeof m->doors[0].address);
  for (int r = 0; r < m->rank; r++)
    for (int channel = 0; channel < MRT_ENGINE_CHANNELS; channel++)
      MRT_TRY(visit(m, r, channel, e));
  return take_all(m, e);
}

/* All who have met call it. */
static mrt_status connect_mesh(const mrt_joining *j, mrt_bootstrap *bootstrap,
                               mrt_engine **out, mrt_error *e) {
  const mrt_allocator *a = j->allocator;
  size_t size = (size_t)bootstrap->options.size,
         count = size * MRT_ENGINE_CHANNELS;
  mesh m = { .bootstrap = bootstrap,
             .allocator = a,
             .rank = bootstrap->options.rank,
             .size = (int)size,
             .listener = -1,
             .doors = mrt_calloc(a, size, sizeof *m.doors),
             .fds = mrt_calloc(a, count, sizeof *m.fds) };
  mrt_status s = m.doors && m.fds ? MRT_OK : mrt_nomem(e);
  for (size_t i = 0; m.fds && i < count; i++) m.fds[i] = -1;
  if (!s) s = connect_all(&m, e);
  if (m.listener >= 0) close(m.listener);
  if (!s)
    s = mrt_tcp_new(a, m.rank, m.size, m.fds, out, e);
  else
    for (size_t i = 0; m.fds && i < count; i++)
      if (m.fds[i] >= 0) close(m.fds[i]);
  mrt_release(a, m.doors, size * sizeof *m.doors);
  mrt_release(a, m.fds, count * sizeof *m.fds);
  return s;
}

const mrt_transport mrt_transport_sockets = { .name = "sockets",
                                              .bootstraps = true,
                                              .connect = connect_mesh };
