/* process.c -- other processes, for `mrt launch`: started, read, waited for
 *
 * A process started here has its two outputs in pipes and ends with us, however
 * we end.  The userdata owns it: collected, it is killed and reaped.
 *
 * SPDX-License-Identifier: MIT */
#if defined(__linux__)
#define _GNU_SOURCE
#endif
#include "binding.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/prctl.h>
#endif

#define PROCESS "mrt.Process"

enum { OUTPUTS = 2, PIECE = 65536, MOST = 4096 };

typedef struct process {
  pid_t pid;       /* 0: none */
  int fd[OUTPUTS]; /* -1: closed */
  bool ended;
  int status; /* of waitpid, once ended */
} process;

extern char **environ;

static process *check_process(lua_State *L, int arg) {
  return luaL_checkudata(L, arg, PROCESS);
}

/* Has it ended?  Reaps it. */
static bool has_ended(process *p) {
  int status;
  if (p->ended) return true;
  pid_t found = waitpid(p->pid, &status, WNOHANG);
  if (found == p->pid)
    p->ended = true, p->status = status;
  else if (found < 0 && errno == ECHILD)
    p->ended = true, p->status = 0;
  return p->ended;
}

static int collect(lua_State *L) {
  process *p = check_process(L, 1);
  for (int i = 0; i < OUTPUTS; i++) {
    if (p->fd[i] >= 0) close(p->fd[i]);
    p->fd[i] = -1;
  }
  if (p->pid > 0 && !has_ended(p)) {
    kill(p->pid, SIGKILL);
    while (waitpid(p->pid, &p->status, 0) < 0 && errno == EINTR) continue;
  }
  p->pid = 0, p->ended = true;
  return 0;
}

/* ---- starting ------------------------------------------------------------ */

/* The list of strings at `arg`, ended by NULL; they stay where they are. */
static char **list_of(lua_State *L, int arg, char **before, int room) {
  lua_Integer n = luaL_len(L, arg);
  luaL_argcheck(L, n < MOST, arg, "too many");
  char **list =
      lua_newuserdatauv(L, ((size_t)n + (size_t)room + 1) * sizeof *list, 0);
  int count = 0;
  for (int i = 0; i < room; i++) list[count++] = before[i];
  for (lua_Integer i = 1; i <= n; i++) {
    lua_rawgeti(L, arg, i);
    luaL_argcheck(L, lua_type(L, -1) == LUA_TSTRING, arg, "strings wanted");
    list[count++] = (char *)lua_tostring(L, -1);
    lua_pop(L, 1); /* the table keeps it */
  }
  list[count] = NULL;
  return list;
}

/* Is this entry of the environment set anew by one of `more`? */
static bool is_replaced(const char *entry, char **more) {
  size_t name = strcspn(entry, "=");
  for (; *more; more++)
    if (strncmp(entry, *more, name + 1) == 0) return true;
  return false;
}

static char **environment_of(lua_State *L, int arg) {
  char **more = list_of(L, arg, NULL, 0);
  int all = 0, n = 0;
  while (environ[all]) all++;
  char **kept = lua_newuserdatauv(L, ((size_t)all + 1) * sizeof *kept, 0);
  for (int i = 0; i < all; i++)
    if (!is_replaced(environ[i], more)) kept[n++] = environ[i];
  return list_of(L, arg, kept, n);
}

/* In the child, between fork and exec: async-signal-safe calls only.  What went
 * wrong goes back through `report`, which a good exec closes. */
static void become(pid_t parent, char **args, char **environment,
                   int pipes[OUTPUTS][2], int report) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  signal(SIGINT, SIG_DFL), signal(SIGPIPE, SIG_DFL), signal(SIGCHLD, SIG_DFL);
#if defined(__linux__)
  prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
  if (getppid() == parent && dup2(pipes[0][1], STDOUT_FILENO) >= 0 &&
      dup2(pipes[1][1], STDERR_FILENO) >= 0)
    execve(args[0], args, environment);
  int code = errno;
  ssize_t ignored = write(report, &code, sizeof code);
  (void)ignored;
  _exit(127);
}

static void close_pair(int fd[2]) {
  for (int i = 0; i < 2; i++) {
    if (fd[i] >= 0) close(fd[i]);
    fd[i] = -1;
  }
}

/* 0, or an errno value. */
static int start(process *p, char **args, char **environment) {
  int pipes[OUTPUTS + 1][2] = { { -1, -1 }, { -1, -1 }, { -1, -1 } };
  int code = 0, *report = pipes[OUTPUTS];
  for (int i = 0; i <= OUTPUTS && !code; i++)
    if (pipe2(pipes[i], O_CLOEXEC) < 0) code = errno;
  struct sigaction child;
  if (sigaction(SIGCHLD, NULL, &child) == 0 && child.sa_handler == SIG_IGN)
    signal(SIGCHLD, SIG_DFL); /* ignored, it would take their statuses away */
  pid_t parent = getpid(), pid = code ? -1 : fork();
  if (pid == 0) become(parent, args, environment, pipes, report[1]);
  if (pid < 0 && !code) code = errno;
  if (!code) {
    close(report[1]), report[1] = -1;
    ssize_t got;
    do got = read(report[0], &code, sizeof code);
    while (got < 0 && errno == EINTR);
    if (got != (ssize_t)sizeof code) code = 0;
    p->pid = pid;
    for (int i = 0; i < OUTPUTS; i++) {
      p->fd[i] = pipes[i][0], pipes[i][0] = -1;
      fcntl(p->fd[i], F_SETFL, O_NONBLOCK);
    }
  }
  for (int i = 0; i <= OUTPUTS; i++) close_pair(pipes[i]);
  return code;
}

/* spawn(args, environment) -> process, or nil and why: args[1] is the program's
 * path; environment: "NAME=value" entries that are added to ours. */
static int spawn(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  luaL_checktype(L, 2, LUA_TTABLE);
  luaL_argcheck(L, luaL_len(L, 1) > 0, 1, "a program wanted");
  char **args = list_of(L, 1, NULL, 0), **environment = environment_of(L, 2);
  process *p = lua_newuserdatauv(L, sizeof *p, 0);
  *p = (process){ .fd = { -1, -1 } };
  luaL_setmetatable(L, PROCESS);
  int code = start(p, args, environment);
  if (!code) return 1;
  lua_pushnil(L);
  lua_pushfstring(L, "%s: %s", args[0], strerror(code));
  return 2;
}

/* ---- looking ------------------------------------------------------------- */

/* wait(processes, seconds): until one has said something or has ended, or the
 * time is over. */
static int wait_for_any(lua_State *L) {
  nfds_t n = 0;
  luaL_checktype(L, 1, LUA_TTABLE);
  double seconds = luaL_checknumber(L, 2);
  lua_Integer count = luaL_len(L, 1);
  luaL_argcheck(L, count < MOST, 1, "too many at a time");
  struct pollfd *fds =
      lua_newuserdatauv(L, OUTPUTS * (size_t)(count + 1) * sizeof *fds, 0);
  for (lua_Integer k = 1; k <= count; k++) {
    lua_rawgeti(L, 1, k);
    process *p = check_process(L, -1);
    lua_pop(L, 1);
    for (int i = 0; i < OUTPUTS; i++)
      if (p->fd[i] >= 0)
        fds[n++] = (struct pollfd){ .fd = p->fd[i], .events = POLLIN };
  }
  poll(fds, n, (int)(1e3 * seconds));
  return 0;
}

/* p:read(which) -> what output 1 or 2 has said since, "" if nothing; nil: it is
 * closed. */
static int read_output(lua_State *L) {
  process *p = check_process(L, 1);
  lua_Integer which = luaL_checkinteger(L, 2);
  luaL_argcheck(L, which >= 1 && which <= OUTPUTS, 2, "1 or 2 wanted");
  int *fd = &p->fd[which - 1];
  if (*fd < 0) return lua_pushnil(L), 1;
  luaL_Buffer b;
  char *room = luaL_buffinitsize(L, &b, PIECE);
  ssize_t got = read(*fd, room, PIECE);
  if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
    close(*fd), *fd = -1;
    return lua_pushnil(L), 1;
  }
  luaL_pushresultsize(&b, got > 0 ? (size_t)got : 0);
  return 1;
}

/* p:status() -> nil while it runs; or "exit", its code; or "signal", its
 * number. */
static int read_status(lua_State *L) {
  process *p = check_process(L, 1);
  if (!has_ended(p)) return 0;
  bool killed = WIFSIGNALED(p->status);
  lua_pushstring(L, killed ? "signal" : "exit");
  lua_pushinteger(L, killed ? WTERMSIG(p->status) : WEXITSTATUS(p->status));
  return 2;
}

/* p:kill(hard): SIGTERM, or SIGKILL. */
static int end_process(lua_State *L) {
  process *p = check_process(L, 1);
  if (p->pid > 0 && !has_ended(p))
    kill(p->pid, lua_toboolean(L, 2) ? SIGKILL : SIGTERM);
  return 0;
}

static int read_pid(lua_State *L) {
  lua_pushinteger(L, check_process(L, 1)->pid);
  return 1;
}

/* program() -> the path of the running program */
static int program(lua_State *L) {
  char path[4096];
  ssize_t n = readlink("/proc/self/exe", path, sizeof path);
  if (n <= 0 || n == (ssize_t)sizeof path) return 0;
  lua_pushlstring(L, path, (size_t)n);
  return 1;
}

/* free_port() -> a TCP port of this host that was free just now, or nil */
static int free_port(lua_State *L) {
  struct sockaddr_in a = { .sin_family = AF_INET };
  socklen_t size = sizeof a;
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  bool found = fd >= 0 && bind(fd, (struct sockaddr *)&a, size) == 0 &&
               getsockname(fd, (struct sockaddr *)&a, &size) == 0;
  if (fd >= 0) close(fd);
  if (!found) return 0;
  lua_pushinteger(L, ntohs(a.sin_port));
  return 1;
}

/* listen_here() -> a descriptor that listens at this host alone and that programs
 * started from now on inherit, and its port; or nil */
static int listen_here(lua_State *L) {
  struct sockaddr_in a = { .sin_family = AF_INET };
  socklen_t size = sizeof a;
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  if (fd < 0) return 0;
  if (bind(fd, (struct sockaddr *)&a, size) < 0 || listen(fd, 1024) < 0 ||
      getsockname(fd, (struct sockaddr *)&a, &size) < 0)
    return close(fd), 0;
  lua_pushinteger(L, fd);
  lua_pushinteger(L, ntohs(a.sin_port));
  return 2;
}

/* close_listener(fd): what listen_here gave; nothing else is closed */
static int close_listener(lua_State *L) {
  int fd = (int)luaL_checkinteger(L, 1), listens = 0;
  socklen_t size = sizeof listens;
  if (!getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) && listens)
    close(fd);
  return 0;
}

void mrt_lua_process_open(lua_State *L, mrt_binding *m) {
  static const luaL_Reg methods[] = {
    { "read", read_output }, { "status", read_status },
    { "kill", end_process }, { "pid", read_pid },
    { NULL, NULL },
  };
  static const luaL_Reg functions[] = {
    { "spawn", spawn },
    { "wait_for_any", wait_for_any },
    { "program", program },
    { "free_port", free_port },
    { "listen_here", listen_here },
    { "close_listener", close_listener },
    { NULL, NULL },
  };
  luaL_newmetatable(L, PROCESS);
  lua_pushcfunction(L, collect);
  lua_setfield(L, -2, "__gc");
  luaL_newlib(L, methods);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
  mrt_lua_register(L, m, functions);
}
