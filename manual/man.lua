--- man.lua -- writes the page of the program for `man mrt`
---
---     build/mrt manual/man.lua FILE
---
--- SPDX-License-Identifier: MIT

local file <close> = assert(io.open(arg[1], "w"))
assert(file:write(require "mrt.cli.man"()))
