--- describe.lua -- values of ours in a line of text, for `__tostring` and the prompt
---
---     adamw { lr = 0.001, weight_decay = 0.1 } of 26 tensors, 809,600 numbers, 3.09 MiB
---
--- Functions are all of one kind to Lua: those that have been told are remembered here.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local format = require "mrt.util.format"

local describe = {}

local functions = setmetatable({}, { __mode = "k" })

--- Remember what a function of ours is; returns it.
---@generic F
---@param f F
---@param text fun(): string
---@return F
function describe.name(f, text)
  functions[f] = text
  return f
end

--- What was remembered of a function.
---@param f function
---@return string?
function describe.of(f) return functions[f] and functions[f]() end

local writers = { string = function(s) return ("%q"):format(s) end,
  float = function(v) return ("%.7g"):format(v) end,
  ["function"] = function(f) return describe.of(f) or "a function" end }

function writers.table(t)
  local meta = getmetatable(t)
  if type(meta) == "table" and meta.__tostring then return (tostring(t):gsub("\n.*", "")) end
  local parts = {}
  for i = 1, math.min(#t, 4) do parts[i] = describe.value(t[i]) end
  if #t > 4 then parts[5] = "..." end
  return #parts > 0 and "{ " .. table.concat(parts, ", ") .. " }" or "a table"
end

--- A number as it was written, a tensor by its type, others by their kind.
---@param value any
---@return string
function describe.value(value)
  local write = writers[math.type(value) or type(value)]
  if core.is_tensor(value) then return require "mrt.tensor.print".short(value) end
  return write and write(value) or tostring(value)
end

--- Options in the order of their names: `cosine { lr = 0.001, steps = 100 }`.
---@param name string
---@param o table<string, any>
---@param common? table<string, any>  not told where they are so
---@return string
function describe.options(name, o, common)
  local parts = {}
  for key, value in pairs(o) do
    if not common or common[key] ~= value then
      parts[#parts + 1] = ("%s = %s"):format(key, describe.value(value))
    end
  end
  table.sort(parts)
  return parts[1] and ("%s { %s }"):format(name, table.concat(parts, ", ")) or name
end

--- "3.09 MiB": what tensors take together.
---@param list mrt.Tensor[]
---@return string
function describe.bytes(list)
  local bytes = 0
  for _, x in ipairs(list) do bytes = bytes + x:nbytes() end
  return format.bytes(bytes)
end

--- "26 tensors, 809,600 numbers, 3.09 MiB".
---@param list mrt.Tensor[]
---@return string
function describe.tensors(list)
  local numbers = 0
  for _, x in ipairs(list) do numbers = numbers + x:numel() end
  return ("%s, %s, %s"):format(describe.count(#list, "tensor"), describe.count(numbers, "number"),
    describe.bytes(list))
end

--- "1 tensor", "2 tensors".
---@param n integer
---@param word string
---@param ending? string  of several; default "s"
---@return string
function describe.count(n, word, ending)
  return ("%s %s%s"):format(format.count(n), word, n == 1 and "" or ending or "s")
end

return describe
