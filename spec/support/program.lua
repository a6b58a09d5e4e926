-- program.lua -- the mrt program, run from a shell
local files = require "support.files"

local program = { path = os.getenv "MRT" or "build/mrt" }

--- Exit status and all output of a shell command.
function program.shell(command)
  local pipe = assert(io.popen(command .. " 2>&1"))
  local output = pipe:read "a"
  local _, _, code = pipe:close()
  return code, output
end

--- The same of the program with these arguments.
function program.run(arguments)
  return program.shell(("'%s' %s"):format(program.path, arguments))
end

--- What a script prints in a process of its own; `before`: words before the
--- command, as an environment.
function program.script(script, before)
  local path = files.temporary(script)
  local _, output = program.shell(("%s '%s' '%s'"):format(before or "", program.path, path))
  return output
end

--- Can a terminal be made?  Not where /dev/pts is missing.
function program.has_terminal()
  return (program.shell "script -qec true /dev/null < /dev/null") == 0
end

return program
