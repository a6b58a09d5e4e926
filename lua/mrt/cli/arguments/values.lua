--- values.lua -- a word of the command line as a value
---
--- SPDX-License-Identifier: MIT

local closest = require "mrt.util.closest"

local values = {}

local kinds = { N = "integer", X = "number", BYTES = "bytes", ["yes|no"] = "truth" }

--- What an option or place takes.
---@param one table    it, as declared
---@param word string  of its value; "": it has none
---@return string
function values.kind(one, word)
  if one.read then return "own" end
  if one.choices then return "choice" end
  if word == "" then return "flag" end
  return kinds[word] or "text"
end

local function in_range(one, value, word)
  local least, most = one.least, one.most
  if (not least or value >= least) and (not most or value <= most) then return value end
  if not most then return nil, ("'%s', from %s wanted"):format(word, least) end
  return nil, ("'%s', %s to %s wanted"):format(word, least or "up", most)
end

local read = {}

function read.own(one, word) return one.read(word) end

function read.text(_, word) return word end

-- 1000, 1e3; a number that is none of them is none.
function read.integer(one, word)
  local value = math.tointeger(tonumber(word))
  if not value then return nil, ("'%s' is no whole number"):format(word) end
  return in_range(one, value, word)
end

function read.number(one, word)
  local value = tonumber(word)
  if not value or value ~= value then return nil, ("'%s' is no number"):format(word) end
  return in_range(one, value, word)
end

function read.bytes(_, word) return require "mrt.util.format".read_bytes(word) end

function read.truth(_, word)
  if word == "yes" or word == "no" then return word == "yes" end
  return nil, ("'%s' is neither yes nor no"):format(word)
end

function read.choice(one, word)
  for _, name in ipairs(one.choices) do
    if name == word then return word end
  end
  local meant = closest(word, one.choices)
  return nil, ("'%s', one of %s wanted%s"):format(word, table.concat(one.choices, ", "),
    meant and "; did you mean " .. meant .. "?" or "")
end

--- What it is where it is not given: of bytes the text "4GiB" will do.
---@param one table
---@return any
function values.default(one)
  if one.kind ~= "bytes" or type(one.default) ~= "string" then return one.default end
  return (read.bytes(one, one.default))
end

--- Read a word.
---@param one table
---@param word string
---@return any value
---@return string? problem
function values.read(one, word) return read[one.kind](one, word) end

return values
