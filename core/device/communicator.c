/* communicator.c -- calls checked; the communicator of one rank
 *
 * SPDX-License-Identifier: MIT */
#include "device/communicator.h"

#include <string.h>

enum { NONE, PIECE, WHOLE };

static const struct row {
  const char *name;
  int in, out;
} rows[] = {
#define COLLECTIVE(name, in, out, doc) { #name, in, out },
#include "device/collectives.def"
#undef COLLECTIVE
};

enum { FLOAT, INT, BOOL };

static const struct {
  size_t bytes;
  int class;
} dtypes[] = {
#define DTYPE(name, ctype, bytes, class, ...) { bytes, class },
#include "mrt/dtypes.def"
#undef DTYPE
};

static const char *const reductions[] = { "sum", "mean", "max", "min", "prod" };

const char *mrt_collective_name(mrt_collective_kind kind) {
  return rows[kind].name;
}

const char *mrt_reduction_name(mrt_reduction reduction) {
  return reductions[reduction];
}

static size_t bytes_of(const mrt_collective *c, int part, int size) {
  size_t whole = (size_t)c->count * dtypes[c->dtype].bytes;
  return part == WHOLE ? whole : part == PIECE ? whole / (size_t)size : 0;
}

size_t mrt_collective_in_bytes(const mrt_collective *c, int size) {
  return bytes_of(c, rows[c->kind].in, size);
}

size_t mrt_collective_out_bytes(const mrt_collective *c, int size) {
  return bytes_of(c, rows[c->kind].out, size);
}

/* ---- checks -------------------------------------------------------------- */

static bool reduces(const mrt_collective *c) {
  return c->kind == MRT_COLLECT_allreduce ||
         c->kind == MRT_COLLECT_reduce_scatter;
}

static bool has_peer(const mrt_collective *c) {
  return c->kind == MRT_COLLECT_broadcast || c->kind == MRT_COLLECT_send ||
         c->kind == MRT_COLLECT_recv || c->kind == MRT_COLLECT_shift;
}

static bool overlaps(const mrt_communicator *comm, const mrt_collective *c) {
  uintptr_t in = (uintptr_t)c->in, out = (uintptr_t)c->out;
  return in < out + mrt_collective_out_bytes(c, comm->size) &&
         out < in + mrt_collective_in_bytes(c, comm->size);
}

/* 8-bit floats are stored and sent, not added. */
mrt_status mrt_reduction_check(mrt_reduction r, mrt_dtype dtype, mrt_error *e) {
  const char *name = mrt_dtype_name(dtype);
  bool real = dtypes[dtype].class == FLOAT,
       order = r == MRT_REDUCE_MAX || r == MRT_REDUCE_MIN;
  if (real && dtypes[dtype].bytes == 1)
    return mrt_fail(e, MRT_EDTYPE, "%s is not reduced; cast it", name);
  if (r == MRT_REDUCE_MEAN && !real)
    return mrt_fail(e, MRT_EDTYPE, "mean of %s, floats wanted", name);
  if (dtype == MRT_bool && !order)
    return mrt_fail(e, MRT_EDTYPE, "%s of bool, max or min wanted",
                    reductions[r]);
  return MRT_OK;
}

static mrt_status check(const mrt_communicator *comm, const mrt_collective *c,
                        mrt_error *e) {
  const struct row *row = &rows[c->kind];
  bool pieces = row->in == PIECE || row->out == PIECE ||
                c->kind == MRT_COLLECT_all_to_all;
  if (pieces && c->count % comm->size)
    return mrt_fail(e, MRT_ESHAPE,
                    "%lld elements cannot be shared among %d ranks",
                    (long long)c->count, comm->size);
  if (has_peer(c) && (c->peer < 0 || c->peer >= comm->size))
    return mrt_fail(e, MRT_EVALUE, "rank %d, 0 to %d wanted", c->peer,
                    comm->size - 1);
  if ((c->kind == MRT_COLLECT_send || c->kind == MRT_COLLECT_recv) &&
      c->peer == comm->rank)
    return mrt_fail(e, MRT_EVALUE, "rank %d cannot %s itself", c->peer,
                    c->kind == MRT_COLLECT_send ? "send to" : "receive from");
  if (mrt_collective_apart(c->kind) && overlaps(comm, c))
    return mrt_fail(e, MRT_EVALUE, "%s in place, memory apart wanted",
                    row->name);
  return reduces(c) ? mrt_reduction_check(c->reduction, c->dtype, e) : MRT_OK;
}

mrt_status mrt_collect(mrt_communicator *comm, const mrt_collective *c,
                       mrt_error *e) {
  MRT_TRY(check(comm, c, e));
  return comm->run(comm, c, e);
}

/* ---- one rank, by itself ------------------------------------------------- */

typedef struct self {
  mrt_communicator comm;
  const mrt_allocator *allocator;
} self;

/* Of a single rank whole and piece are one.  A sum over others that hold the same
 * is not computed: nobody looks at the data of a run that is planned only. */
static mrt_status run(mrt_communicator *comm, const mrt_collective *c,
                      mrt_error *e) {
  size_t in = mrt_collective_in_bytes(c, comm->size),
         out = mrt_collective_out_bytes(c, comm->size), done = 0;
  const char *from = c->in;
  (void)e;
  if (in > out && from) from += (size_t)comm->rank * out;
  if (!from && out) memset(c->out, 0, out);
  while (from && done < out) {
    size_t n = in < out ? in : out;
    if ((char *)c->out + done != from) memmove((char *)c->out + done, from, n);
    done += n;
  }
  return MRT_OK;
}

static mrt_status split(mrt_communicator *comm, int color, int key,
                        mrt_communicator **out, mrt_error *e) {
  (void)key;
  *out = NULL;
  if (color < 0) return MRT_OK;
  return mrt_self_communicator(((self *)comm)->allocator, comm->rank,
                               comm->size, out, e);
}

static void abort_nobody(mrt_communicator *comm, const char *why) {
  (void)comm, (void)why;
}

static void close_self(mrt_communicator *comm) {
  mrt_release(((self *)comm)->allocator, comm, sizeof(self));
}

mrt_status mrt_self_communicator(const mrt_allocator *a, int rank, int size,
                                 mrt_communicator **out, mrt_error *e) {
  self *s = mrt_calloc(a, 1, sizeof *s);
  if (!s) return mrt_nomem(e);
  s->allocator = a;
  s->comm = (mrt_communicator){ .rank = rank,
                                .size = size,
                                .transport = "self",
                                .timeout = 30,
                                .run = run,
                                .split = split,
                                .abort = abort_nobody,
                                .close = close_self };
  *out = &s->comm;
  return MRT_OK;
}
