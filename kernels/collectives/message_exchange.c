/* message_exchange.c -- each rank gives each other a piece of what it has
 *
 * All pieces are on their way at once, none by way of another rank: a rank gives
 * (p - 1) / p of its bytes and has p - 1 of them to wait for.
 *
 * SPDX-License-Identifier: MIT */
#include "message.h"

#include <string.h>

mrt_status mrt_message_exchange(mrt_message_comm *m, const mrt_collective *c,
                                mrt_error *e) {
  int rank = m->comm.rank, size = m->comm.size, n = 0;
  size_t piece = mrt_collective_piece_bytes(c, size), room = 2 * (size_t)size;
  const char *in = c->in;
  char *out = c->out;
  mrt_request *all = mrt_calloc(m->endpoint->allocator, room, sizeof *all);
  if (!all) return m->comm.abort(&m->comm, "out of memory"), mrt_nomem(e);
  for (int i = 1; i < size; i++) { /* not all give to one rank */
    size_t to = (size_t)((rank + i) % size),
           from = (size_t)((rank + size - i) % size);
    mrt_message_start(m, &all[n++], (int)from, false, out + from * piece,
                      piece);
    mrt_message_start(m, &all[n++], (int)to, true, (char *)in + to * piece,
                      piece);
  }
  size_t own = (size_t)rank * piece;
  if (piece) memcpy(out + own, in + own, piece);
  mrt_status s = mrt_message_finish(m, c, all, n, e);
  mrt_release(m->endpoint->allocator, all, room * sizeof *all);
  return s;
}
