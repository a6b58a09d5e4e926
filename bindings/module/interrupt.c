/* interrupt.c -- Ctrl-C that waits until the library has come to a good place
 *
 * Whoever holds interrupts is only told of the first SIGINT, when he asks; a
 * second one does what it did before: in the mrt program it raises
 * "interrupted!" at once.  Several states of the process may hold them at the
 * same time, and all are told.  Where SIGINT is ignored it stays so.
 *
 * SPDX-License-Identifier: MIT */
#include "binding.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#define HELD "mrt.Held"

/* A signal handler has no argument of ours. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int holders;
static bool installed;
static struct sigaction before;
static volatile sig_atomic_t raised;
static char words[160];

/* What was there before takes the next one; calls that a handler may make. */
static void note(int signal_number) {
  int code = errno;
  if (!raised && words[0] && write(STDERR_FILENO, words, strlen(words)) < 0)
    words[0] = 0;
  raised = 1;
  sigaction(signal_number, &before, NULL);
  errno = code;
}

static void hold(const char *text) {
  pthread_mutex_lock(&lock);
  if (holders++ == 0) {
    struct sigaction ours = { .sa_handler = note, .sa_flags = SA_RESTART };
    sigemptyset(&ours.sa_mask);
    raised = 0;
    strncpy(words, text, sizeof words - 1);
    sigaction(SIGINT, NULL, &before);
    installed = before.sa_handler != SIG_IGN;
    if (installed) sigaction(SIGINT, &ours, NULL);
  }
  pthread_mutex_unlock(&lock);
}

/* Put back what was there, unless the handler has, or somebody else has set
 * another since. */
static void release(void) {
  struct sigaction now;
  pthread_mutex_lock(&lock);
  if (--holders == 0 && installed && !sigaction(SIGINT, NULL, &now) &&
      now.sa_handler == note)
    sigaction(SIGINT, &before, NULL);
  pthread_mutex_unlock(&lock);
}

static int close_held(lua_State *L) {
  bool *held = luaL_checkudata(L, 1, HELD);
  if (*held) release();
  *held = false;
  return 0;
}

/* hold_interrupts(text) -> until it is closed, the first Ctrl-C only writes
 * `text` to standard error, and interrupted() says so */
static int hold_interrupts(lua_State *L) {
  const char *text = luaL_optstring(L, 1, "");
  bool *held = lua_newuserdatauv(L, sizeof *held, 0);
  *held = false;
  if (luaL_newmetatable(L, HELD)) {
    lua_pushcfunction(L, close_held);
    lua_setfield(L, -2, "__close");
    lua_pushcfunction(L, close_held);
    lua_setfield(L, -2, "__gc");
  }
  lua_setmetatable(L, -2);
  hold(text);
  *held = true;
  return 1;
}

/* interrupted(): has a Ctrl-C come since somebody began to hold them? */
static int interrupted(lua_State *L) {
  lua_pushboolean(L, raised);
  return 1;
}

void mrt_lua_interrupt_open(lua_State *L, mrt_binding *m) {
  static const luaL_Reg functions[] = {
    { "hold_interrupts", hold_interrupts },
    { "interrupted", interrupted },
    { NULL, NULL },
  };
  mrt_lua_register(L, m, functions);
}
