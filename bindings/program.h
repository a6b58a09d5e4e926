/* program.h -- what the files of the mrt program share
 *
 * main.c reads the command line, interrupt.c runs Lua code so that Ctrl-C can
 * stop it, repl.c gives the prompt in lua/mrt/repl.lua its terminal.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_PROGRAM_H
#define MRT_PROGRAM_H

#include <lua.h>

/* Make `require "mrt.core"` give the module linked into this program, and
 * let Ctrl-C reach its context. */
void mrt_program_preload(lua_State *L);

/* lua_pcall under a message handler that turns any error into text with a
 * traceback.  Ctrl-C raises "interrupted!" in the called code; a second one
 * ends the process.  Returns lua_pcall's status. */
int mrt_program_call(lua_State *L, int nargs, int nresults);

/* Run the prompt until its input ends; LUA_OK or the status of an error whose
 * message is on the stack. */
int mrt_program_repl(lua_State *L);

#endif
