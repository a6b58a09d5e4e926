/* bootstrap.c -- ranks that find each other: a process each, strangers among them
 *
 * SPDX-License-Identifier: MIT */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include "bootstrap.h"
#include "sockets.h"

#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 8 };

/* A port that was free just now. */
static int free_port(void) {
  struct sockaddr_in a = { .sin_family = AF_INET };
  socklen_t size = sizeof a;
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  if (fd < 0 || bind(fd, (struct sockaddr *)&a, size) ||
      getsockname(fd, (struct sockaddr *)&a, &size))
    abort();
  close(fd);
  return ntohs(a.sin_port);
}

static mrt_bootstrap_options options_of(int rank, int size, int port) {
  return (mrt_bootstrap_options){ .rank = rank,
                                  .size = size,
                                  .address = "127.0.0.1",
                                  .port = port,
                                  .token = "secret",
                                  .build = "1",
                                  .timeout = 20 };
}

/* What one rank does: its text comes back; "" for all is well. */
typedef void rank_work(int rank, int size, int port, char text[512]);

static const char *meet(const mrt_bootstrap_options *o, mrt_bootstrap **w,
                        char text[512]) {
  mrt_error e = { 0 };
  *w = NULL;
  if (mrt_bootstrap_open(o, &mrt_malloc_allocator, w, &e))
    snprintf(text, 512, "%s", e.message);
  return text;
}

/* Numbers of every rank come to every rank, several times. */
static void talk(mrt_bootstrap *w, int rank, int size, char text[512]) {
  mrt_error e = { 0 };
  int64_t all[MOST * 100], mine[100];
  for (int round = 0; round < 50 && !text[0]; round++) {
    int n = round % 100;
    for (int i = 0; i < n; i++) mine[i] = 1000 * rank + i + round;
    if (mrt_bootstrap_allgather(w, mine, (size_t)n * sizeof *mine, all, &e)) {
      snprintf(text, 512, "%s", e.message);
      return;
    }
    for (int r = 0; r < size; r++)
      for (int i = 0; i < n; i++)
        if (all[r * n + i] != 1000 * r + i + round)
          snprintf(text, 512, "rank %d of %d has the wrong numbers", rank,
                   size);
  }
  int64_t pid;
  mrt_bootstrap_host(w, rank, &pid);
  if (pid != getpid()) snprintf(text, 512, "rank %d has another's pid", rank);
}

static void work_well(int rank, int size, int port, char text[512]) {
  mrt_bootstrap_options o = options_of(rank, size, port);
  mrt_bootstrap *w;
  if (rank % 2) usleep(50000);
  meet(&o, &w, text);
  if (!text[0]) talk(w, rank, size, text);
  mrt_bootstrap_close(w);
}

/* The last rank: wrong in one way. */
static void wrong_size(int rank, int size, int port, char text[512]) {
  mrt_bootstrap_options o = options_of(rank, size, port);
  mrt_bootstrap *w;
  o.timeout = 5;
  if (rank == size - 1) o.size++;
  mrt_bootstrap_close((meet(&o, &w, text), w));
}

static void wrong_build(int rank, int size, int port, char text[512]) {
  mrt_bootstrap_options o = options_of(rank, size, port);
  mrt_bootstrap *w;
  o.timeout = 5;
  if (rank == size - 1) o.build = "2";
  mrt_bootstrap_close((meet(&o, &w, text), w));
}

static void same_rank(int rank, int size, int port, char text[512]) {
  mrt_bootstrap_options o = options_of(rank, size, port);
  mrt_bootstrap *w;
  o.timeout = 5;
  if (rank == size - 1) o.rank--;
  mrt_bootstrap_close((meet(&o, &w, text), w));
}

static void wrong_token(int rank, int size, int port, char text[512]) {
  mrt_bootstrap_options o = options_of(rank, size, port);
  mrt_bootstrap *w;
  o.timeout = 1;
  if (rank == size - 1) o.token = "guess";
  mrt_bootstrap_close((meet(&o, &w, text), w));
}

static void no_token(int rank, int size, int port, char text[512]) {
  mrt_bootstrap_options o = options_of(rank, size, port);
  mrt_bootstrap *w;
  o.token = "";
  mrt_bootstrap_close((meet(&o, &w, text), w));
}

static void one_missing(int rank, int size, int port, char text[512]) {
  mrt_bootstrap_options o = options_of(rank, size, port);
  mrt_bootstrap *w;
  o.timeout = 1;
  if (rank == size - 1) return;
  mrt_bootstrap_close((meet(&o, &w, text), w));
}

/* Rank 1 dies after they have met. */
static void one_dies(int rank, int size, int port, char text[512]) {
  mrt_bootstrap_options o = options_of(rank, size, port);
  mrt_bootstrap *w;
  char mine = 0, all[MOST];
  mrt_error e = { 0 };
  meet(&o, &w, text);
  if (text[0]) return;
  if (rank == 1) kill(getpid(), SIGKILL);
  if (mrt_bootstrap_allgather(w, &mine, 1, all, &e))
    snprintf(text, 512, "%s", e.message);
  mrt_bootstrap_close(w);
}

/* The last "rank" is a stranger: garbage, silence, far too much. */
static void strangers(int rank, int size, int port, char text[512]) {
  if (rank < size - 1) {
    usleep(300000);
    work_well(rank, size - 1, port, text);
    return;
  }
  char junk[4096];
  mrt_deadline until = { mrt_socket_clock() + 10, NULL };
  for (size_t i = 0; i < sizeof junk; i++) junk[i] = (char)(i * 31);
  for (int k = 0; k < 100; k++) {
    int fd;
    if (mrt_socket_connect("127.0.0.1", port, &until, &fd)) continue;
    if (k % 3) mrt_socket_send(fd, junk, sizeof junk / (size_t)(1 + k), &until);
    if (k % 2) close(fd); /* the others stay, silent */
  }
}

/* ---- running them -------------------------------------------------------- */

typedef struct outcome {
  char text[MOST][512];
} outcome;

static outcome run(rank_work *work, int size) {
  outcome o;
  int pipes[MOST][2], port = free_port();
  memset(&o, 0, sizeof o);
  for (int r = 0; r < size; r++) {
    if (pipe(pipes[r])) abort();
    pid_t pid = fork();
    if (pid < 0) abort();
    if (pid > 0) continue;
    char text[512] = "";
    alarm(60); /* a hang is a failure */
    work(r, size, port, text);
    if (write(pipes[r][1], text, sizeof text) != sizeof text) _exit(1);
    _exit(0);
  }
  for (int r = 0; r < size; r++) {
    close(pipes[r][1]);
    if (read(pipes[r][0], o.text[r], sizeof o.text[r]) <= 0)
      snprintf(o.text[r], sizeof o.text[r], "died");
    close(pipes[r][0]);
  }
  while (wait(NULL) > 0) continue;
  return o;
}

static int failures, checks;

static void expect(const outcome *o, int rank, const char *wanted) {
  const char *text = o->text[rank];
  checks++;
  if (*wanted ? strstr(text, wanted) != NULL : !*text) return;
  failures++;
  printf("rank %d: '%s', '%s' wanted\n", rank, text, wanted);
}

int main(void) {
  outcome o;
  for (int size = 1; size <= 5; size++) {
    o = run(work_well, size);
    for (int r = 0; r < size; r++) expect(&o, r, "");
  }
  o = run(wrong_size, 3);
  expect(&o, 0, "rank 2 (process ");
  expect(&o, 0, "expects 4 ranks, rank 0 expects 3");
  expect(&o, 2, "expects 4 ranks, rank 0 expects 3");
  expect(&o, 1, "expects 4 ranks, rank 0 expects 3");
  o = run(wrong_build, 2);
  expect(&o, 0, "is of build '2', rank 0 of '1'");
  expect(&o, 1, "is of build '2', rank 0 of '1'");
  o = run(same_rank, 3);
  expect(&o, 0, "two have one rank");
  o = run(wrong_token, 3);
  expect(&o, 0, "1 of 3 ranks did not come");
  expect(&o, 0, "within 1 s: 2");
  expect(&o, 2, "another token");
  o = run(no_token, 2);
  for (int r = 0; r < 2; r++) expect(&o, r, "the run has no token");
  o = run(one_missing, 4);
  expect(&o, 0, "1 of 4 ranks did not come");
  expect(&o, 0, ": 3");
  expect(&o, 1, "1 of 4 ranks did not come");
  o = run(one_dies, 3);
  expect(&o, 0, "rank 1 (process ");
  expect(&o, 1, "died");
  expect(&o, 2, "rank 0 (process ");
  o = run(strangers, 4);
  for (int r = 0; r < 4; r++) expect(&o, r, "");
  printf("%d checks, %d failures\n", checks, failures);
  return failures != 0;
}
