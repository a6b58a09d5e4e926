/* main.c -- collectives of ranks of one host, by memory and by messages
 *
 *     collectives [cases | agreement | beside | heap | faults | lost | bench]
 *
 * Without an argument all but the bench.  Built with SPEC_THREADS_ONLY, for the
 * thread sanitizer, nothing forks.
 *
 * SPDX-License-Identifier: MIT */
#include "team.h"

#include <stdlib.h>
#include <string.h>

#ifdef SPEC_THREADS_ONLY
static int agree(void) {
  return agreement(team_threads) + agreement(team_pairwise);
}
static int aside(void) { return beside(team_threads) + beside(team_pairwise); }
#else
static int agree(void) {
  return agreement(team_threads) + agreement(team_processes) +
         agreement(team_pairwise);
}
static int aside(void) {
  return beside(team_threads) + beside(team_processes) + beside(team_pairwise);
}
#endif

static const struct part {
  const char *name;
  int (*run)(void);
} parts[] = {
  { "cases", cases }, { "agreement", agree }, { "beside", aside },
#ifndef SPEC_THREADS_ONLY
  { "heap", heap },   { "faults", faults },   { "lost", faults_of_messages },
  { "bench", bench }
#endif
};

int main(int argc, char **argv) {
  int wrong = 0;
  for (int i = 0; i < MRT_COUNT(parts); i++) {
    bool all = argc < 2 && strcmp(parts[i].name, "bench") != 0;
    if (!all && (argc < 2 || strcmp(argv[1], parts[i].name) != 0)) continue;
    int found = parts[i].run();
    printf("%s: %d wrong\n", parts[i].name, found);
    wrong += found;
  }
  return wrong ? EXIT_FAILURE : EXIT_SUCCESS;
}
