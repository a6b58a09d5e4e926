--- repl -- the prompt of the mrt program.
--
-- Reads a chunk, over several lines if it is not complete, runs it so that
-- Ctrl-C comes back here, and prints what an expression is worth. What Lua
-- cannot do itself (editing, signals, the clock) is in `terminal`, which the
-- program gives.
--
-- SPDX-License-Identifier: MIT

local pretty = require "mrt.cli.repl.pretty"

local intro = [[
An expression prints its value; a semicolon at the end keeps it quiet.
  _            the last value
  ?name        what an operator or function does, also help(value)
  :time on     say how long each line takes; :time off
  :quit        leave, also Ctrl-D
  Tab          completes names, Ctrl-R searches the history, Ctrl-C stops a run]]

---@class mrt.Repl
---@field terminal table  functions of the program, see bindings/program/repl.c
---@field time boolean    report the time of each line
---@field warned boolean  about `local`
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

--- Compile `source` as an expression, else as a statement.
---@return function? chunk
---@return string? message
local function compile(source)
  local expression, why = load("return " .. source, "=stdin", "t")
  if expression then -- a call in a `return` would leave no line for its errors
    return load("return select(1, " .. source .. "\n)", "=stdin", "t") or expression
  end
  local chunk, message = load(source, "=stdin", "t")
  if not chunk and why:find "<eof>$" then message = why end
  return chunk, message
end

--- Read on until the chunk that begins with `line` is complete.
---@return string? source  nil after Ctrl-C
function Repl:complete_source(line)
  while true do
    local chunk, message = compile(line)
    if chunk or not message:find "<eof>$" then return line end
    local more = self.terminal.read(_PROMPT2 or ">> ")
    if more == false then return nil end
    if more == nil then return line end
    self:remember(more)
    line = line .. "\n" .. more
  end
end

function Repl:remember(line)
  if line:find "%S" then self.terminal.remember(line) end
end

--- Print values as the prompt does: side by side where each is one line.
function Repl:show(values)
  local options = { colour = self.colour, width = 78 }
  local texts, lines = {}, false
  for i = 1, values.n do
    texts[i] = pretty.value(values[i], options)
    lines = lines or texts[i]:find "\n" ~= nil
  end
  print(table.concat(texts, lines and "\n" or "\t"))
end

local function warn_of_local(self, source)
  if self.warned or not source:find "^%s*local%f[^%w_]" then return end
  self.warned = true
  io.stderr:write("a local variable ends with its line: leave out 'local' to keep it\n")
end

local function status_and_values(ok, ...) return ok, table.pack(...) end

--- Keep and print what a chunk returned.
local function take_values(self, source, values)
  if values.n == 0 then return true end
  if values[1] ~= nil then _G._ = values[1] end
  if source:find ";%s*$" then return true end
  return self.terminal.call(function() self:show(values) end)
end

--- Run `source`, print its values. Printing may compute, so it is timed and can
--- be stopped as well.
function Repl:evaluate(source)
  local chunk, message = compile(source)
  if not chunk then return self:complain(message) end
  local begin = self.terminal.clock()
  local ok, values = status_and_values(self.terminal.call(chunk))
  local problem = values[1]
  if ok then ok, problem = take_values(self, source, values) end
  if not ok then self:complain(problem) end
  if ok then warn_of_local(self, source) end
  if self.time then
    print(string.format("%.3f ms", 1e3 * (self.terminal.clock() - begin)))
  end
end

--- A traceback ends where the prompt begins.
function Repl:complain(message)
  message = message:gsub("\n\t%[C%]: in %a+ 'call'\n[^\n]*repl%.lua.*$", "")
    :gsub("\nstack traceback:$", "")
  io.stdout:flush()
  io.stderr:write(self.colour and "\27[31m" or "", message,
    self.colour and "\27[0m" or "", "\n")
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

--- Take one line. True when the prompt should end.
function Repl:take(line)
  local name, argument = line:match "^%s*:(%a+)%s*(.-)%s*$"
  if name then return self:command(name, argument) end
  local topic = line:match "^%s*%?%s*(.-)%s*$"
  if topic then
    self:evaluate(string.format("help(%q);", topic))
    return
  end
  local source = self:complete_source((line:gsub("^%s*=", "")))
  if source and source:find "%S" then self:evaluate(source) end
end

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
      return print(require "mrt.cli.repl.help"(topic))
    end
  end
end

--- Load the part of mrt whose fields are being completed: our code, so it may
--- run.
local function load_module(text)
  local name = text:match "%f[%w_]mrt%.([%a_]+)[.:][%w_.:]*$"
  local mrt = package.loaded.mrt
  if name and mrt and rawget(_G, "mrt") == mrt then pcall(function() return mrt[name] end) end
end

--- Run the prompt until its input ends.
---@param terminal table
return function(terminal)
  local plain = os.getenv "NO_COLOR" or os.getenv "TERM" == "dumb"
  local self = setmetatable({
    terminal = terminal,
    colour = terminal.colour and not plain,
    time = false,
    warned = false,
  }, Repl)
  local path = history_path()
  if path then terminal.history(path) end
  terminal.complete = function(text)
    load_module(text)
    return require "mrt.cli.repl.complete"(text)
  end
  self:set_globals()
  while true do
    local line = terminal.read(_PROMPT or "> ")
    if line == nil then break end
    if line then
      self:remember(line)
      if self:take(line) then break end
    end
  end
end
