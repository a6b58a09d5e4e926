--- help.lua -- `mrt help [TOPIC]`: how to call the program, and what its names mean.
--
-- SPDX-License-Identifier: MIT

local arguments = require "mrt.cli.arguments"
local commands = require "mrt.cli.commands"
local closest = require "mrt.util.closest"
local page = require "mrt.cli.arguments.help"

local ways <const> = {
  { "mrt script.lua ...", "run a script; its arguments are in `arg` and `...`" },
  { "mrt COMMAND ...", "one of the commands below" },
  { "mrt", "the prompt: expressions print their value" },
}

local options <const> = {
  { "-e CODE", 'run this code, in which require "mrt" gives the library' },
  { "-l NAME", "require a library first, as a global of its name" },
  { "-i", "the prompt afterwards" },
  { "-v, --version", "the version" },
  { "-E", "ignore LUA_INIT, LUA_PATH and LUA_CPATH" },
  { "-W", "turn warnings on (they are)" },
  { "--policy FILE", "lay the options of mrt.compile that FILE returns over those of the script" },
  { "-h, --help", "this page" },
  { "-", "a script from standard input" },
  { "--", "ends the options" },
}

local topics <const> = {
  { "mrt help COMMAND", "what a command takes; so does mrt COMMAND --help" },
  { "mrt help NAME", "what is written of a name of the library: mrt help nn.Linear" },
  { "mrt help environment", "the environment variables that the program reads" },
}

local status <const> = "The exit status is 0 if all went well, 1 after an error, 2 where the "
  .. "command line cannot be understood, 130 after Ctrl-C; os.exit(N) of a script gives N."

local function write(...) io.stdout:write(...) end

local function overview()
  local rows = {}
  for i, name in ipairs(commands.list()) do
    rows[i] = { name, (commands.find(name).about:gsub("%.$", "")) }
  end
  write("usage: mrt [options] [script.lua or COMMAND] [arguments]\n\n", page.rows(ways), "\n",
    page.rows(options), "\nCommands\n", page.rows(rows), "\nMore\n", page.rows(topics), "\n",
    page.text(status))
  return 0
end

local function environment()
  for i, group in ipairs(require "mrt.cli.environment") do
    local rows = {}
    for _, row in ipairs(group[2]) do rows[#rows + 1] = row[2] and row or nil end
    write(i > 1 and "\n" or "", page.text(group[1]), page.rows(rows))
  end
  return 0
end

-- What the library's reference says of a name.
local function look_up(topic)
  local ok, reference = pcall(require, "mrt.reference")
  if not ok then return nil end
  local width = page.columns()
  return reference.describe(topic, width) or reference.apropos(topic, width)
end

local function describe(topic)
  local one = commands.find(topic)
  if one then return write(one:help()) end
  local text = look_up(topic)
  if text then return write(text, text:find "\n$" and "" or "\n") end
  local meant = closest(topic, commands.list())
  io.stderr:write(("mrt help: nothing is known of '%s'%s (see mrt help)\n"):format(topic,
    meant and "; did you mean mrt help " .. meant .. "?" or ""))
  return 1
end

local command = arguments.new {
  name = "mrt help",
  about = "How to call the program, and what the library's names mean.",
  { "[TOPIC...]", "a command, environment, or a name of the library" },
  run = function(o)
    if not o.topic then return overview() end
    local topic = table.concat(o.topic, " ")
    if topic == "environment" then return environment() end
    return describe(topic) or 0
  end,
}

--- Options of the program itself, and what it exits with: for man.lua.
command.program = { options = options, status = status }

return command
