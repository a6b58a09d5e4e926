/* main.c -- the mrt program: lua's command line, and sub-commands
 *
 *     mrt [options] [script [args]]      as lua has them: -e -i -l -v -W -E - --
 *         --policy FILE                  options for every mrt.compile
 *     mrt name [args]                    runs lua/mrt/cli/command/name.lua
 *     mrt                                the prompt, or a script from a pipe
 *
 * A sub-command is a Lua file that returns what its arguments are given to, so
 * adding one touches no C.  Nothing is loaded before it is needed: an empty
 * script costs little more than it does in lua.
 *
 * SPDX-License-Identifier: MIT */
#include "program.h"

#include "mrt.h"
#include <fcntl.h>
#include <lauxlib.h>
#include <limits.h>
#include <lualib.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct command_line {
  char **argv;
  int script; /* index of the script's name; argc when there is none */
  int end;    /* one past the options */
  const char *policy;
  bool version, interactive, no_environment, has_code, twice, help;
} command_line;

enum { MISUSED = 2 }; /* the exit status after a wrong command line */

static void complain(const char *message) {
  fprintf(stderr, "mrt: %s\n", message);
  fflush(stderr);
}

/* Print the error on top of the stack, if `status` says there is one. */
static int report(lua_State *L, int status) {
  if (status != LUA_OK) {
    const char *message = luaL_tolstring(L, -1, NULL);
    mrt_program_tell(L, message);
    complain(message);
    lua_pop(L, 2);
  }
  return status;
}

static void print_version(void) {
  printf("mrt %s, %s\n", mrt_version(), LUA_RELEASE);
  fflush(stdout);
}

/* ---- options ------------------------------------------------------------- */

/* -e and -l: the argument, which may stand in the same word. */
static const char *argument(char **argv, int *i) {
  const char *rest = argv[*i] + 2;
  if (*rest) return rest;
  const char *next = argv[*i + 1];
  if (!next || (next[0] == '-' && next[1])) return NULL;
  ++*i;
  return next;
}

/* --policy FILE, --policy=FILE.  False if argv[*i] is neither. */
static bool read_policy(command_line *c, int *i) {
  static const char name[] = "--policy";
  const char *word = c->argv[*i];
  size_t n = sizeof name - 1;
  if (strncmp(word, name, n) || (word[n] && word[n] != '=')) return false;
  c->twice = c->policy != NULL;
  c->policy = word[n] ? word + n + 1 : c->argv[*i + 1];
  if (!word[n] && c->policy) ++*i;
  return c->policy && *c->policy && !c->twice;
}

/* Read the option at argv[*i].  False if it is none that we know. */
static bool read_option(command_line *c, int *i) {
  const char *word = c->argv[*i];
  char letter = word[1];
  bool version = !strcmp(word, "--version");
  c->help |= !strcmp(word, "--help") || !strcmp(word, "-h");
  c->version |= version;
  if (c->help || version) return true;
  if (letter == '-') return read_policy(c, i);
  if (strchr("eli", letter) && letter != 'i') {
    c->has_code |= letter == 'e';
    return argument(c->argv, i) != NULL;
  }
  if (word[2]) return false;
  switch (letter) {
  case 'E':
    c->no_environment = true;
    return true;
  case 'i':
    c->interactive = c->version = true;
    return true;
  case 'v':
    c->version = true;
    return true;
  case 'W':
    return true; /* warnings are on from the start */
  default:
    return false;
  }
}

/* False if some option is unknown or lacks its argument: argv[end]. */
static bool read_command_line(command_line *c, int argc, char **argv) {
  *c = (command_line){ .argv = argv, .script = argc };
  int i = 1;
  for (; i < argc && argv[i][0] == '-' && argv[i][1]; i++) {
    if (!strcmp(argv[i], "--")) {
      c->end = i;
      c->script = i + 1;
      return true;
    }
    c->end = i;
    if (!read_option(c, &i)) return false;
    if (c->help) return true;
  }
  c->end = c->script = i;
  return true;
}

/* ---- the Lua state ------------------------------------------------------- */

/* --help is the command of that name, whatever else there is. */
static void ask_for_help(command_line *c) {
  static char name[] = "help", *words[] = { name, name, NULL };
  *c = (command_line){
    .argv = words, .script = 1, .end = 1, .no_environment = true
  };
}

static void set_arguments(lua_State *L, const command_line *c, int argc) {
  int zero = c->script == argc ? 0 : c->script;
  lua_createtable(L, argc - zero, zero + 1);
  for (int i = 0; i < argc; i++) {
    lua_pushstring(L, c->argv[i]);
    lua_rawseti(L, -2, i - zero);
  }
  lua_setglobal(L, "arg");
}

/* Fill the folder of this program, without a slash at its end. */
static bool own_folder(char *folder, size_t size) {
  ssize_t length = readlink("/proc/self/exe", folder, size);
  if (length <= 0 || (size_t)length >= size) return false;
  folder[length] = 0;
  char *slash = strrchr(folder, '/');
  if (!slash) return false;
  *slash = 0;
  return true;
}

/* Put the folder of mrt's own Lua files first in package.path: lua/ in a
 * build folder, MRT_LUA_FOLDER (from the folder of the program) once
 * installed.  So a program never runs another version's modules. */
static void set_path(lua_State *L) {
  static const char *const places[] = { "lua", MRT_LUA_FOLDER };
  char folder[PATH_MAX];
  if (!own_folder(folder, sizeof folder)) return;
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    int top = lua_gettop(L);
    const char *lua = lua_pushfstring(L, "%s/%s", folder, places[i]);
    if (!access(lua_pushfstring(L, "%s/mrt/init.lua", lua), R_OK)) {
      lua_getglobal(L, "package");
      lua_getfield(L, -1, "path");
      lua_pushfstring(L, "%s/?.lua;%s/?/init.lua;%s", lua, lua,
                      lua_tostring(L, -1));
      lua_setfield(L, -3, "path");
      lua_pushfstring(L, "@%s/mrt/", lua); /* so chunks of mrt begin */
      lua_setfield(L, LUA_REGISTRYINDEX, "mrt.lua");
      lua_settop(L, top);
      return;
    }
    lua_settop(L, top);
  }
}

static void open_state(lua_State *L, const command_line *c, int argc) {
  if (c->no_environment) {
    lua_pushboolean(L, 1);
    lua_setfield(L, LUA_REGISTRYINDEX, "LUA_NOENV");
  }
  luaL_openlibs(L);
  lua_gc(L, LUA_GCGEN, 0, 0); /* as Lua's own program has it */
  lua_warning(L, "@on", 0);
  mrt_program_preload(L);
  set_path(L);
  set_arguments(L, c, argc);
}

/* ---- running ------------------------------------------------------------- */

/* Run what luaL_load* left: a function, or a message and its status. */
static int run_loaded(lua_State *L, int status) {
  if (status == LUA_OK) status = mrt_program_call(L, 0, 0);
  return report(L, status);
}

static int run_text(lua_State *L, const char *text, const char *name) {
  return run_loaded(L, luaL_loadbuffer(L, text, strlen(text), name));
}

static int run_init(lua_State *L) {
  const char *name = "LUA_INIT" LUA_VERSUFFIX;
  const char *init = getenv(name);
  if (!init) init = getenv(name = "LUA_INIT");
  if (!init) return LUA_OK;
  if (init[0] == '@') return run_loaded(L, luaL_loadfile(L, init + 1));
  return run_text(L, init, lua_pushfstring(L, "=%s", name));
}

/* -l name: a global of that name. */
static int run_require(lua_State *L, const char *name) {
  lua_getglobal(L, "require");
  lua_pushstring(L, name);
  int status = mrt_program_call(L, 1, 1);
  if (status == LUA_OK) lua_setglobal(L, name);
  return report(L, status);
}

static int run_options(lua_State *L, const command_line *c) {
  for (int i = 1; i < c->end; i++) {
    char letter = c->argv[i][1];
    if (!strcmp(c->argv[i], "--policy")) i++;
    if (letter != 'e' && letter != 'l') continue;
    const char *text = argument(c->argv, &i);
    int status = letter == 'e' ? run_text(L, text, "=(command line)")
                               : run_require(L, text);
    if (status != LUA_OK) return status;
  }
  return LUA_OK;
}

/* --policy: before the script, which then knows nothing of it.  A policy that
 * will not do comes back as a message. */
static int apply_policy(lua_State *L, const char *path) {
  if (!path) return LUA_OK;
  lua_getglobal(L, "require");
  lua_pushliteral(L, "mrt.policy.script");
  int status = mrt_program_call(L, 1, 1);
  if (status == LUA_OK) {
    lua_getfield(L, -1, "apply");
    lua_pushstring(L, path);
    status = mrt_program_call(L, 1, 1);
    if (status == LUA_OK && lua_isstring(L, -1)) status = LUA_ERRRUN;
  }
  return report(L, status);
}

/* Find the file of sub-command `name` and load it; false if there is none.
 * Only a bare word can be one, so `mrt ./info` is always a script. */
static bool load_command(lua_State *L, const char *name, int *status) {
  if (!*name || name[strspn(name, "abcdefghijklmnopqrstuvwxyz")]) return false;
  lua_getglobal(L, "package");
  lua_getfield(L, -1, "searchpath");
  lua_pushfstring(L, "mrt.cli.command.%s", name);
  lua_getfield(L, -3, "path");
  if (lua_pcall(L, 2, 1, 0) != LUA_OK || !lua_isstring(L, -1)) {
    lua_pop(L, 2);
    return false;
  }
  *status = luaL_loadfile(L, lua_tostring(L, -1));
  if (*status == LUA_OK) *status = mrt_program_call(L, 0, 1);
  return true;
}

static int push_script_arguments(lua_State *L, char **argv) {
  int n = 0;
  for (; argv[n]; n++) {
    luaL_checkstack(L, 4, "too many arguments to script");
    lua_pushstring(L, argv[n]);
  }
  return n;
}

/* What mrt.cli.commands says of a word that is none that we know: pushed. */
static const char *push_meant(lua_State *L, const char *function,
                              const char *word) {
  lua_getglobal(L, "require");
  lua_pushliteral(L, "mrt.cli.commands");
  if (mrt_program_call(L, 1, 1) == LUA_OK) {
    lua_getfield(L, -1, function);
    lua_pushstring(L, word);
    if (mrt_program_call(L, 1, 1) == LUA_OK && lua_isstring(L, -1))
      return lua_tostring(L, -1);
  }
  return "";
}

/* Run the script or sub-command; fills *code with the exit status. */
static int run_script(lua_State *L, const command_line *c, int *code) {
  char **argv = c->argv + c->script;
  bool from_stdin = !strcmp(argv[0], "-") && strcmp(argv[-1], "--");
  int status = LUA_OK;
  bool command = load_command(L, argv[0], &status);
  if (!command) {
    status = luaL_loadfile(L, from_stdin ? NULL : argv[0]);
    if (status == LUA_ERRFILE && !strpbrk(argv[0], "./")) {
      const char *missing = lua_tostring(L, -1);
      lua_pushfstring(L, "%s, nor is it a command%s (see mrt --help)", missing,
                      push_meant(L, "meant", argv[0]));
    }
  }
  if (status == LUA_OK)
    status = mrt_program_call(L, push_script_arguments(L, argv + 1), 1);
  if (status == LUA_OK && command && lua_isinteger(L, -1))
    *code = (int)lua_tointeger(L, -1);
  return report(L, status);
}

/* Say what is wrong with the command line. */
static void refuse(lua_State *L, const command_line *c) {
  const char *bad = c->argv[c->end];
  bool known = !strcmp(bad, "-e") || !strcmp(bad, "-l") ||
               !strcmp(bad, "--policy") || !strncmp(bad, "--policy=", 9);
  if (c->twice)
    complain("one --policy wanted; mrt plan compares several");
  else if (known)
    complain(lua_pushfstring(L, "%s wants a value (see mrt --help)", bad));
  else
    complain(lua_pushfstring(L, "no option '%s'%s (see mrt --help)", bad,
                             push_meant(L, "meant_option", bad)));
}

/* The exit status of a command line that was understood. */
static int run(lua_State *L, const command_line *c, int argc) {
  int code = EXIT_SUCCESS;
  bool script = c->script < argc;
  bool idle = !script && !c->has_code && !c->version;
  if (!c->no_environment && run_init(L) != LUA_OK) return EXIT_FAILURE;
  if (apply_policy(L, c->policy) != LUA_OK) return EXIT_FAILURE;
  if (run_options(L, c) != LUA_OK) return EXIT_FAILURE;
  if (script && run_script(L, c, &code) != LUA_OK) return EXIT_FAILURE;
  if (c->interactive || (idle && isatty(STDIN_FILENO))) {
    if (!c->version) print_version();
    if (report(L, mrt_program_repl(L)) != LUA_OK) return EXIT_FAILURE;
  } else if (idle && run_loaded(L, luaL_loadfile(L, NULL)) != LUA_OK) {
    return EXIT_FAILURE;
  }
  return code;
}

/* All of the program, in protected mode: argc, argv -> exit status. */
static int start(lua_State *L) {
  int argc = (int)lua_tointeger(L, 1), code = MISUSED;
  char **argv = lua_touserdata(L, 2);
  command_line c;
  luaL_checkversion(L);
  bool understood = read_command_line(&c, argc, argv);
  if (understood && c.help) ask_for_help(&c), argc = 2;
  if (understood && c.version) print_version();
  open_state(L, &c, argc);
  if (understood)
    code = run(L, &c, argc);
  else
    refuse(L, &c);
  lua_pushinteger(L, code);
  return 1;
}

/* A daemon may start us with standard streams closed.  The next file that is
 * opened would take such a number, and what is printed would go into it. */
static void fill_streams(void) {
  int fd = open("/dev/null", O_RDWR);
  while (fd >= 0 && fd <= STDERR_FILENO) fd = dup(fd);
  if (fd >= 0) close(fd);
}

int main(int argc, char **argv) {
  fill_streams();
  signal(SIGXFSZ, SIG_IGN); /* what is too large for a file is a failed write */
  lua_State *L = luaL_newstate();
  /* One rank of several: its lines come whole, and at once. */
  if (getenv("LOCAL_RANK")) setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
  if (!L) {
    complain("not enough memory for a Lua state");
    return EXIT_FAILURE;
  }
  lua_pushcfunction(L, start);
  lua_pushinteger(L, argc);
  lua_pushlightuserdata(L, argv);
  int code = EXIT_FAILURE;
  if (report(L, lua_pcall(L, 2, 1, 0)) == LUA_OK)
    code = (int)lua_tointeger(L, -1);
  if (code == EXIT_FAILURE) code = mrt_program_status(L, code);
  lua_close(L);
  return code;
}
