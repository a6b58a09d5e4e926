/* mpi.c -- an engine over MPI: libmrt_mpi.so, loaded when it is wanted
 *
 * Only MPI_Isend, MPI_Irecv and MPI_Test of bytes, so that deadlines, order
 * and rounding of sums are mrt's own; a channel is a tag.  What MPI's launcher
 * says is compared with what MPI says itself: without its launcher's help MPI
 * takes every process for alone.
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "mpi_open.h"

#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

typedef struct over_mpi {
  mrt_engine engine;
  const mrt_allocator *allocator;
  MPI_Comm comm;
  bool began; /* MPI is this engine's to end */
  bool stopped;
} over_mpi;

/* A handle is a pointer or a number. */
_Static_assert(sizeof(MPI_Request) <= sizeof(void *), "a handle of MPI");

static MPI_Request *handle_of(mrt_request *r) {
  return (MPI_Request *)(void *)&r->handle;
}

static int failed(mrt_engine *engine, int code) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  snprintf(engine->why, sizeof engine->why, "%.150s", text);
  return -1;
}

/* An error at the start is told by `test`. */
static void start(mrt_engine *engine, mrt_request *r) {
  over_mpi *m = (over_mpi *)engine;
  MPI_Request *handle = handle_of(r);
  int n = (int)r->nbytes;
  int code = r->is_send ? MPI_Isend(r->data, n, MPI_BYTE, r->peer, r->channel,
                                    m->comm, handle)
                        : MPI_Irecv(r->data, n, MPI_BYTE, r->peer, r->channel,
                                    m->comm, handle);
  if (code != MPI_SUCCESS) *handle = MPI_REQUEST_NULL, r->moved = (size_t)code;
}

static int test(mrt_engine *engine, mrt_request *r) {
  MPI_Request *handle = handle_of(r);
  int done = 0, code;
  if (r->done) return 1;
  if (*handle == MPI_REQUEST_NULL) return failed(engine, (int)r->moved);
  code = MPI_Test(handle, &done, MPI_STATUS_IGNORE);
  if (code != MPI_SUCCESS) {
    *handle = MPI_REQUEST_NULL, r->moved = (size_t)code;
    return failed(engine, code);
  }
  r->done = done;
  return done;
}

/* MPI has nothing to sleep on: test, let others run, then sleep longer and
 * longer, a millisecond at most. */
static void rest(mrt_engine *engine, int turns) {
  const int spin = 1000, yield = 1200;
  (void)engine;
  if (turns < spin) return;
  if (turns < yield) {
    sched_yield();
    return;
  }
  long ns = 20000L * (1 + (turns - yield) / 16);
  nanosleep(&(struct timespec){ .tv_nsec = ns < 1000000 ? ns : 1000000 }, NULL);
}

/* MPI moves nothing while nobody calls it. */
static void stop(mrt_engine *engine) { ((over_mpi *)engine)->stopped = true; }

/* MPI_Finalize waits for all ranks; where one has failed it might for ever,
 * and the launcher ends them. */
static void close_engine(mrt_engine *engine, bool well) {
  over_mpi *m = (over_mpi *)engine;
  if (well && !m->stopped) {
    MPI_Comm_free(&m->comm);
    if (m->began) MPI_Finalize();
  }
  mrt_release(m->allocator, m, sizeof *m);
}

/* ---- the beginning ------------------------------------------------------- */

/* "Open MPI v4.1.4, package: ..", "MPICH Version:\t4.0.2\n..": without the
 * rest. */
__attribute__((visibility("default"))) const char *mrt_mpi_name(void) {
  static char name[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  if (MPI_Get_library_version(name, &length) != MPI_SUCCESS) return "MPI";
  name[strcspn(name, ",\n")] = 0;
  for (char *c = name; *c; c++)
    if (*c == '\t') *c = ' ';
  return name;
}

static mrt_status begin(over_mpi *m, mrt_error *e) {
  int on = 0, over = 0, level = 0, code = MPI_SUCCESS;
  MPI_Initialized(&on);
  MPI_Finalized(&over);
  if (over) return mrt_fail(e, MRT_ESTATE, "MPI has been ended before");
  if (!on) code = MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level);
  m->began = !on;
  if (!code) code = MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  if (!code) code = MPI_Comm_dup(MPI_COMM_WORLD, &m->comm);
  if (!code) code = MPI_Comm_set_errhandler(m->comm, MPI_ERRORS_RETURN);
  if (code) failed(&m->engine, code);
  return code ? mrt_fail(e, MRT_ERANK, "MPI: %s", m->engine.why) : MRT_OK;
}

static mrt_status check(over_mpi *m, int rank, int size, mrt_error *e) {
  MPI_Comm_rank(m->comm, &m->engine.rank);
  MPI_Comm_size(m->comm, &m->engine.size);
  if (m->engine.size == size && m->engine.rank == rank) return MRT_OK;
  return mrt_fail(e, MRT_ERANK,
                  "%sMPI says rank %d of %d, the environment rank %d of %d: "
                  "%.60s cannot talk to what started this; "
                  "MRT_TRANSPORT=sockets and MASTER_ADDR do without it",
                  m->engine.size == 1 ? "MPI takes each for alone: " : "",
                  m->engine.rank, m->engine.size, rank, size, mrt_mpi_name());
}

__attribute__((visibility("default"))) mrt_status
mrt_mpi_engine(const mrt_allocator *a, int rank, int size, mrt_engine **out,
               mrt_error *e) {
  over_mpi *m = mrt_calloc(a, 1, sizeof *m);
  if (!m) return mrt_nomem(e);
  m->allocator = a, m->comm = MPI_COMM_NULL;
  m->engine = (mrt_engine){ .name = "mpi",
                            .ends_together = true,
                            .start = start,
                            .test = test,
                            .rest = rest,
                            .stop = stop,
                            .close = close_engine };
  mrt_status s = begin(m, e);
  if (!s) s = check(m, rank, size, e);
  if (s)
    close_engine(&m->engine, m->comm != MPI_COMM_NULL);
  else
    *out = &m->engine;
  return s;
}
