/* program.h -- what the files of the mrt program share
 *
 * main.c reads the command line, interrupt.c runs Lua code so that Ctrl-C can
 * stop it, traceback.c says where an error came from, ended.c tells other ranks of its end, repl.c gives the prompt in
 * lua/mrt/cli/repl/ its terminal.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_PROGRAM_H
#define MRT_PROGRAM_H

#include <lua.h>
#include <stdbool.h>

/* Make `require "mrt.core"` give the module linked into this program, and
 * let Ctrl-C reach its context. */
void mrt_program_preload(lua_State *L);

/* lua_pcall under a message handler that turns any error into text with a
 * traceback.  Ctrl-C raises "interrupted!" in the called code; a second one
 * ends the process.  Returns lua_pcall's status. */
int mrt_program_call(lua_State *L, int nargs, int nresults);

/* How many functions are running. */
int mrt_program_depth(lua_State *L);

/* Append to the message on top of the stack what is known of a name in it, and
 * the functions that led to it, but for the outermost `depth` and those of
 * mrt's own: of a row of these the one that the program called is named. */
void mrt_program_traceback(lua_State *L, int depth);

/* The module "mrt.terminal": what repl.c gives the prompt, for commands that
 * talk. */
int mrt_program_terminal(lua_State *L);

/* Tell the other ranks, if there are any, the first line of the message that this
 * program ends with: they are not to wait for it. */
void mrt_program_tell(lua_State *L, const char *message);

/* The exit status of a program that ended with the last error: 75, EX_TEMPFAIL,
 * where another rank ended, so that launchers know whom to blame; 130 after
 * Ctrl-C, as shells have it; else `status`. */
int mrt_program_status(lua_State *L, int status);

/* Run the prompt until its input ends; LUA_OK or the status of an error whose
 * message is on the stack. */
int mrt_program_repl(lua_State *L);

#endif
