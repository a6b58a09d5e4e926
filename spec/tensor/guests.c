/* guests.c -- a context that uses another's communicators, and its interrupts
 *
 * SPDX-License-Identifier: MIT */
#include "device/communicator.h"
#include "tensor/tensor.h"

#include <stdio.h>
#include <stdlib.h>

static int wrong;

static void want(bool right, const char *what) {
  if (!right) printf("wrong: %s\n", what), wrong++;
}

static mrt_status get(mrt_context *ctx, int number) {
  mrt_communicator_info info;
  return mrt_communicator_get(ctx, number, &info);
}

/* Whoever makes, splits or closes one: all see it. */
static void share(mrt_context *home, mrt_context *guest) {
  int first = -1, second = -1, part = -1;
  mrt_communicator *threads;
  want(!mrt_communicator_alone(home, 0, 1, &first) && first == 0 &&
           !mrt_communicator_alone(guest, 0, 1, &second) && second == 1,
       "a guest counts by itself");
  want(!get(home, second) && !get(guest, first), "one is not seen");
  want(!mrt_communicator_split(guest, first, 0, 0, &part) && part == 2 &&
           !get(home, part),
       "a guest's part is its own");
  want(!mrt_communicator_threads(guest, 1, 0, &threads) &&
           !mrt_communicator_add(guest, threads, &part) && part == 3 &&
           !get(home, part),
       "what a guest adds is its own");
  want(!mrt_communicator_close(guest, first) &&
           get(home, first) == MRT_ESTATE && get(guest, first) == MRT_ESTATE,
       "a guest does not close it for all");
  want(!mrt_communicator_close(home, second) &&
           get(guest, second) == MRT_ESTATE,
       "closed at home, open for a guest");
  want(mrt_communicator_close(guest, 9) == MRT_EVALUE, "there is no ninth");
  want(!mrt_checked_room(guest), "there is no room");
  mrt_checked_add(guest, 3, 7);
  want(mrt_checked_find(home, 3, 7) && !mrt_checked_find(home, 3, 8),
       "a guest agrees alone");
}

/* A run and what waits beside it take an interrupt alike. */
static void interrupt(mrt_context *home, mrt_context *guest) {
  const mrt_communicator *comm = mrt_communicator_find(guest, 3);
  mrt_interrupt(guest);
  want(comm && mrt_is_interrupted(comm) && !mrt_interrupts_mask(guest) &&
           mrt_is_interrupted(comm),
       "one that was raised is passed by");
  want(mrt_interrupt_clear(home) && !mrt_interrupt_clear(guest),
       "it is not the same for all");
  want(mrt_interrupts_mask(guest) && mrt_interrupts_mask(home),
       "nobody goes on");
  mrt_interrupt(home);
  want(!mrt_is_interrupted(comm), "a deaf one hears");
  mrt_interrupts_unmask(guest);
  want(mrt_is_interrupted(comm) && mrt_interrupt_clear(home),
       "what came meanwhile is lost");
}

int main(void) {
  mrt_context *home, *guest;
  mrt_context_options options = { .threads = 1 };
  if (mrt_context_new(&options, &home)) return EXIT_FAILURE;
  options.ranks = home;
  if (mrt_context_new(&options, &guest)) return EXIT_FAILURE;
  share(home, guest);
  interrupt(home, guest);
  mrt_context_free(guest);
  mrt_context_free(home);
  printf("guests: %d wrong\n", wrong);
  return wrong ? EXIT_FAILURE : EXIT_SUCCESS;
}
