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

-- A value that is `nil` where the word is none; `what` it should be.
local function in_range(one, value, word, what)
  local least, most = one.least, one.most
  if value and (not least or value >= least) and (not most or value <= most) then return value end
  if least and most then return nil, ("'%s', %s to %s wanted"):format(word, least, most) end
  if least then return nil, ("'%s', a %s from %s wanted"):format(word, what, least) end
  if most then return nil, ("'%s', a %s up to %s wanted"):format(word, what, most) end
  return nil, ("'%s' is no %s"):format(word, what)
end

local read = {}

function read.own(one, word) return one.read(word) end

function read.text(_, word) return word end

-- 1000 or 1e3.
function read.integer(one, word)
  return in_range(one, math.tointeger(tonumber(word)), word, "whole number")
end

function read.number(one, word)
  local value = tonumber(word)
  return in_range(one, value == value and value or nil, word, "number")
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
