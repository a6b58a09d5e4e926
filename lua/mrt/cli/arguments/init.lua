--- mrt.cli.arguments -- the words behind a command's or a script's name
---
---     local arguments = require "mrt.cli.arguments"
---     local flags = arguments.script {
---       about = "Train a network on a file.",
---       { "FILE", "what it learns" },
---       { "--epochs N", "times through it", default = 3, least = 1 },
---       { "--lr X", "learning rate", default = 1e-3 },
---       { "--loss NAME", "what is made small", choices = { "mse", "l1" } },
---       { "-v, --verbose", "say more" },
---     }
---     print(flags.file, flags.epochs, flags.verbose)
---
--- What a row begins with is what help shows: option and the words of its value.  The word
--- says what may be given: N an integer, X a number, BYTES 4GiB and the like, yes|no;
--- anything else is a text (FILE, FOLDER, NAME).  An option without a word is true or
--- absent.  Two words and more make a list of so many; "NAME..." takes all up to the next
--- option.  A row without a dash is a word at its place, "[FILE]" if it may be left out,
--- "FILE..." if there may be several.
---
--- A value is `--epochs 3`, `--epochs=3` or, of a letter, `-n 3`; `--` ends the options;
--- of an option given twice the last one holds, unless it has `many`.
---
--- SPDX-License-Identifier: MIT

local reading = require "mrt.cli.arguments.reading"
local values = require "mrt.cli.arguments.values"

local arguments = {}

---@class mrt.ArgumentRow
---@field [1] string         "-n, --ranks N", "FILE", "[FILE]", "FILE..."
---@field [2] string?        what it is, for help; nil: help does not show it
---@field default any        when it is not given
---@field required boolean?  an option that must be given
---@field many boolean?      may be given several times: a list
---@field choices string[]?  what may be given
---@field least number?      of N and X
---@field most number?
---@field read? fun(word: string): any, string?  the value, or nil and what is wrong
---@field as string?         its name in the result; default: "weight_decay" of --weight-decay

---@class mrt.Arguments  its rows are the list's elements
---@field name string?       "mrt plan"; default: the script's
---@field about string       a sentence
---@field more? string|fun(): string  what help says at its end
---@field commands mrt.Arguments[]?  the first word without a dash is the name of one of
---  these, `word`, which reads the others
---@field script string?     "script.lua [args]": the first word without a dash ends the
---  options; the result's `rest` is it and all behind it
---@field alone? fun(o: table): boolean  with these options there may be no script
---@field bare boolean?      without a word it prints help
---@field check? fun(o: table): string?  what is wrong with all of them together
---@field run? fun(o: table, words: string[]): integer?  of a command: its exit status
local Arguments = {}
Arguments.__index = Arguments

-- ---- what is declared ----------------------------------------------------------

-- "-n, --ranks N": { "-n", "--ranks" }, { "N" }.
local function split(text)
  local names, words = {}, {}
  for word in text:gmatch "[^%s,]+" do
    local list = word:find "^%-" and names or words
    list[#list + 1] = word
  end
  return names, words
end

local function field_of(row, names, words)
  if row.as then return row.as end
  local long = names[#names] or words[1]:lower()
  return (long:gsub("^%-+", ""):gsub("[%[%]%.]", ""):gsub("%-", "_"))
end

local function declare(row)
  local names, words = split(row[1])
  local one = { names = names, words = words, what = row[2], field = field_of(row, names, words) }
  for key, value in pairs(row) do
    if type(key) == "string" then one[key] = value end
  end
  local word = words[#words] or ""
  one.several = word:find "%.%.%.%]?$" ~= nil
  one.optional = word:find "^%[" ~= nil
  one.kind = values.kind(one, word:gsub("[%[%]%.]", ""))
  return one
end

local help = { names = { "-h", "--help" }, words = {}, what = "this page", field = "help",
  kind = "flag" }

--- Declare what a command takes.
---@param given mrt.Arguments
---@return mrt.Arguments
function arguments.new(given)
  local self = setmetatable({ options = {}, places = {}, by_name = {} }, Arguments)
  for key, value in pairs(given) do
    if type(key) == "string" then self[key] = value end
  end
  for _, row in ipairs(given) do
    local one = declare(row)
    local list = #one.names > 0 and self.options or self.places
    list[#list + 1] = one
  end
  if self.commands then
    local names = {}
    for i, one in ipairs(self.commands) do names[i] = one.word end
    self.places[1] = declare { "NAME", nil, choices = names }
  end
  self.options[#self.options + 1] = help
  for _, one in ipairs(self.options) do
    for _, name in ipairs(one.names) do self.by_name[name] = one end
  end
  return self
end

-- ---- reading, help, errors ----------------------------------------------------

--- Read words.  With --help among the options the result has `help`, and nothing else is
--- asked of it.
---@param words string[]
---@return table? options  by name
---@return string? problem
function Arguments:parse(words)
  return reading.all(self, words)
end

--- What --help prints.
---@param width integer?  columns; default: the terminal's, 40 to 96
---@return string
function Arguments:help(width) return require "mrt.cli.arguments.help".page(self, width) end

--- Read words; print help or what is wrong with them.
---@param words string[]
---@return table? options
---@return integer? status  0 or 2, for the program to end with
function Arguments:read(words)
  local o, problem = self:parse(words)
  if o and not o.help then return o end
  if o then
    io.stdout:write(self:help())
    return nil, 0
  end
  io.stderr:write(("%s: %s (see %s --help)\n"):format(self.name, problem, self.name))
  return nil, 2
end

-- The command that the first word without a dash names, and all other words.
local function choose(self, words)
  for i, word in ipairs(words) do
    for _, one in ipairs(word:sub(1, 1) ~= "-" and self.commands or {}) do
      if one.word == word then
        local rest = table.move(words, 1, #words, 1, {})
        table.remove(rest, i)
        return one, rest
      end
    end
  end
end

function Arguments:__call(...)
  local words = { ... }
  local command, rest = choose(self, words)
  if command then return command(table.unpack(rest)) end
  if self.bare and #words == 0 then words = { "--help" } end
  local o, status = self:read(words)
  if not o then return status end
  return self.run(o, words)
end

--- Read a script's own arguments, those of the global `arg`.  With --help, and where they
--- are wrong, the process ends.
---@param given mrt.Arguments
---@return table options
function arguments.script(given)
  local words = _G.arg or {}
  given.name = given.name or "mrt " .. (words[0] or "script.lua")
  local o, status = arguments.new(given):read(table.move(words, 1, #words, 1, {}))
  if not o then os.exit(status, true) end
  return o
end

--- A command of mrt on the script that runs, with the words that it was given, for a shell.
---
---     arguments.again "launch -n 2"  --> 'mrt' launch -n 2 'train.lua' '--steps' '5'
---@param command string
---@return string
function arguments.again(command)
  local words = {}
  for i = 0, #arg do words[i + 1] = "'" .. arg[i]:gsub("'", "'\\''") .. "'" end
  return ("'%s' %s %s"):format(arg[-1], command, table.concat(words, " "))
end

return arguments
