--- repl -- the prompt of the mrt program.
--
-- Reads a chunk, over several lines if it is not complete, runs it so that
-- Ctrl-C comes back here, and prints what an expression is worth. What Lua
-- cannot do itself (editing, signals, the clock) is in `terminal`, which the
-- program gives; what a chunk is, in chunk.lua.
--
-- SPDX-License-Identifier: MIT

local new_chunks = require "mrt.cli.repl.chunk"
local pretty = require "mrt.cli.repl.pretty"

local intro = [[
An expression prints its value; a semicolon at the end keeps it quiet.
A local variable lasts, as if all that is typed were one file.
  _            the last value
  ?name        what a name is, of mrt or yours; also help(value)
  ?two words   the names whose description has these words
  :time on     say how long each line takes; :time off
  :quit        leave, also Ctrl-D
  Tab          completes names, options in a call's table, files in a string
  Up, Ctrl-R   the line or function before; search for one
  Ctrl-C       stops what is running]]

---@class mrt.Repl
---@field terminal table   functions of the program, see bindings/program/repl.c
---@field time boolean     report the time of each line
---@field chunks mrt.repl.Chunks
---@field before string    the lines before the one being typed, of its chunk
---@field pending string[]  lines that came with the last one, not yet taken
local Repl = {}
Repl.__index = Repl

--- Where the history is kept; nil when there is no home.
local function history_path()
  local state = os.getenv "XDG_STATE_HOME"
  local home = os.getenv "HOME"
  if not state or state == "" then
    state = home and home .. "/.local/state"
  end
  return state and state .. "/mrt/history"
end

-- ---- reading ---------------------------------------------------------------

--- The next line: of a function that was recalled whole, or from the terminal.
---@return string|false|nil line  false after Ctrl-C, nil at the end
function Repl:read(prompt)
  if self.pending[1] then return table.remove(self.pending, 1) end
  local text = self.terminal.read(prompt)
  if not text or not text:find "\n" then return text end
  for line in (text .. "\n"):gmatch "(.-)\r?\n" do self.pending[#self.pending + 1] = line end
  return table.remove(self.pending, 1)
end

--- Read on until the chunk that begins with `line` is complete.
---@return string? source  nil after Ctrl-C
function Repl:complete_source(line)
  while true do
    local chunk, message = self.chunks:compile(line)
    if chunk or not message:find "<eof>$" or self.hints.is_block(line) then break end
    self.before = line .. "\n"
    local more = self:read(_PROMPT2 or ">> ")
    self.before = ""
    if not more then
      if more == false then self:remember(line) return nil end
      break
    end
    line = line .. "\n" .. more
  end
  self:remember(line)
  return line
end

--- A chunk is one entry of the history, however many lines it has.
function Repl:remember(text)
  if text:find "%S" then self.terminal.remember(text) end
end

-- ---- printing --------------------------------------------------------------

--- Columns of the window.
function Repl:width() return math.max(self.terminal.width() or 80, 20) end

--- Print values as the prompt does: side by side where each is one line.
function Repl:show(values)
  local options = { colour = self.colour, width = self:width() }
  local texts, lines = {}, false
  for i = 1, values.n do
    texts[i] = pretty.value(values[i], options)
    lines = lines or texts[i]:find "\n" ~= nil
  end
  print(table.concat(texts, lines and "\n" or "\t"))
end

--- Say what is wrong; a traceback of the line typed alone says nothing.
function Repl:complain(message)
  message = message:gsub("\nstack traceback:$", "")
    :gsub("\nstack traceback:\n\tstdin:%d+: in main chunk$", "")
    :gsub("\nstack traceback:\n\t[%[Cmrt%]]+: in [^\n]*\n\tstdin:%d+: in main chunk$", "")
  io.stdout:flush()
  io.stderr:write(self.colour and "\27[31m" or "", message,
    self.colour and "\27[0m" or "", "\n")
end

--- Something to note, no error.
function Repl:remark(message)
  io.stdout:flush()
  io.stderr:write(self.colour and "\27[33m" or "", message,
    self.colour and "\27[0m" or "", "\n")
end

-- An error of printing, which computes, without what it says of the prompt's own files:
-- the message names the line that made the value, and functions of the user's come first
-- in the traceback.
local function without_prompt(problem)
  local message, trace = problem:match "^(.-)\nstack traceback:\n(.*)$"
  if not message then return problem end
  local kept = {}
  for frame in trace:gmatch "[^\n]+" do
    if frame:find("/cli/repl/", 1, true) or frame:find("mrt/tensor/print.lua", 1, true) then
      break
    end
    kept[#kept + 1] = frame
  end
  message = message:gsub("^%S*mrt/[%w_/]+%.lua:%d+: ", "")
  if #kept == 0 or #kept == 1 and kept[1]:find "^\t%[" then return message end
  return ("%s\nstack traceback:\n%s"):format(message, table.concat(kept, "\n"))
end

-- ---- running ---------------------------------------------------------------

local function status_and_values(ok, ...) return ok, table.pack(...) end

--- Keep and print what a chunk returned.
local function take_values(self, source, values)
  if values.n == 0 or values.n == 1 and values[1] == nil and source:find "[%)}\"']%s*$" then
    return true -- a call that returns nothing, or nil
  end
  if values[1] ~= nil then _G._ = values[1] end
  if source:find ";%s*$" then return true end
  local ok, problem = self.terminal.call(function() self:show(values) end)
  return ok, not ok and without_prompt(problem) or nil
end

-- Globals that are not there: with the error that follows from one, or alone.
local function tell_of_globals(self, problem)
  local globals = require "mrt.cli.repl.globals"
  for _, name in ipairs(globals.take()) do
    local meant = globals.meant(name, self.chunks.variables)
    if problem and problem:find(("(global '%s')"):format(name), 1, true) then
      if meant then problem = problem:gsub("\n", ": " .. meant:gsub("%%", "%%%%") .. "\n", 1) end
    else
      self:remark(("%s is not defined, so nil%s"):format(name, meant and ": " .. meant or ""))
    end
  end
  return problem
end

-- Text that does not compile, perhaps of another language.
local function with_sentence(hints, source, message)
  local meant = hints.sentence(source)
  return meant and ("%s: %s"):format(message, meant) or message
end

--- Run `source`, print its values. Printing may compute, so it is timed and can
--- be stopped as well.
---@return boolean ok
function Repl:evaluate(source)
  local chunk, message, words = self.chunks:compile(source)
  if not chunk then
    self:complain(with_sentence(self.hints, source, message))
    return false
  end
  require "mrt.cli.repl.globals".learn(words or {})
  self.hints.again()
  if package.loaded.mrt then require "mrt.tensor.print".limits.width = self:width() end
  local begin = self.terminal.clock()
  local ok, values = status_and_values(self.terminal.call(chunk))
  local problem = values[1]
  if ok then ok, problem = take_values(self, source, values) end
  problem = tell_of_globals(self, not ok and problem .. "\n" or nil)
  if not ok then self:complain((problem:gsub("\n$", ""))) end
  if self.time then
    print(string.format("%.3f ms", 1e3 * (self.terminal.clock() - begin)))
  end
  return ok
end

--- `:name argument`. True when the prompt should end.
function Repl:command(name, argument)
  if name == "quit" or name == "q" then return true end
  if name == "time" and (argument == "on" or argument == "off") then
    self.time = argument == "on"
  elseif name == "help" then
    print(intro)
  else
    self:complain(":" .. name .. " " .. argument .. ": want :time on, :time off, :help or :quit")
  end
end

-- `?x`: of a local its value, by its public name if it has one; else what has the name.
local function describe(self, topic)
  local name, rest = topic:match "^([%a_][%w_]*)([%w_.:]*)$"
  local exists, value = false, nil
  if name then exists, value = self.chunks:get(name) end
  local public = exists and require "mrt.cli.repl.library".name(value)
  if exists and not public and not rest:find ":" then
    return self:evaluate(("help(%s);"):format(topic))
  end
  return self:evaluate(("help(%q);"):format(public and public .. rest or topic))
end

--- Take one line, and those that belong to it. True when the prompt should end.
function Repl:take(line)
  local name, argument = line:match "^%s*:(%a+)%s*(.-)%s*$"
  local topic = line:match "^%s*%?%s*(.-)%s*$"
  if name or topic then self:remember(line) end
  if name then return self:command(name, argument) end
  if topic then return describe(self, topic) and nil end
  local source = self:complete_source((line:gsub("^%s*=", "")))
  if not source or not source:find "%S" or self:evaluate(source) then return end
  self.pending = {} -- of what came at once, nothing is run behind an error
  if self.terminal.drop() then self:remark "the rest of what was pasted is left out" end
end

-- ---- the prompt ------------------------------------------------------------

--- What the prompt adds to the globals, where the name is free.
function Repl:set_globals()
  local ok, mrt = self.terminal.call(function() return require "mrt" end)
  if not ok then
    self:complain(mrt)
  elseif rawget(_G, "mrt") == nil then
    _G.mrt = mrt
  end
  if rawget(_G, "help") == nil then
    _G.help = function(topic)
      if topic == nil then return print(intro) end
      return print(require "mrt.cli.repl.help"(topic, self:width()))
    end
  end
  require "mrt.cli.repl.globals".watch()
end

--- Run the prompt until its input ends.
---@param terminal table
return function(terminal)
  local plain = os.getenv "NO_COLOR" or os.getenv "TERM" == "dumb"
  local self = setmetatable({
    terminal = terminal,
    colour = terminal.colour and not plain,
    time = false,
    chunks = new_chunks(),
    before = "",
    pending = {},
    hints = require "mrt.util.hints",
  }, Repl)
  local path = history_path()
  if path then terminal.history(path) end
  terminal.complete = function(text)
    return require "mrt.cli.repl.complete"(self.before .. text, self.chunks, self:width())
  end
  self:set_globals()
  if terminal.typed then print ":help tells about this prompt, ?name about a name" end
  while true do
    local line = self:read(_PROMPT or "> ")
    if line == nil or line and self:take(line) then break end
  end
  self.chunks:close(function(message) self:complain(message) end)
end
