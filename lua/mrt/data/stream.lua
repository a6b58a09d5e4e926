--- stream.lua -- mini-batches from any Lua iterator
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local mrt = require "mrt"
local argument = require "mrt.util.argument"
local options = require "mrt.util.options"

-- One column of samples as a tensor with a dimension in front.
local function stack(column, dtype)
  if not core.is_tensor(column[1]) then return mrt.tensor(column, dtype) end
  local rows = {}
  for i, t in ipairs(column) do rows[i] = t:unsqueeze(1) end
  return mrt.cat(rows, 1)
end

local function stack_all(columns, dtypes)
  local out = {}
  for i, column in ipairs(columns) do out[i] = stack(column, dtypes[i]) end
  return table.unpack(out)
end

---@class mrt.data.Stream
local Stream = {}
Stream.__index = Stream

--- Return the next mini-batch, or nothing when the iterator has ended.
---@return mrt.Tensor ...
function Stream:next()
  local columns, count = {}, 0
  while count < self.batch do
    local sample = table.pack(self.iterator())
    if sample[1] == nil then break end
    count = count + 1
    for i = 1, sample.n do
      columns[i] = columns[i] or {}
      columns[i][count] = sample[i]
    end
  end
  if count == 0 or (count < self.batch and self.drop_last) then return end
  return stack_all(columns, self.dtypes)
end

--- Iterate over what is left.
---@return fun(): mrt.Tensor ...
function Stream:epoch()
  return function() return self:next() end
end

---@class mrt.data.StreamOptions
---@field batch integer
---@field drop_last? boolean  default false
---@field dtypes? string[]    of a sample's values, where they are numbers

--- Gather the samples of an iterator into mini-batches.  A sample is one or
--- more values: numbers, nested lists or tensors, of one shape.
---
---     local lines = coroutine.wrap(function()
---       for line in io.lines "points.csv" do
---         local x, y = line:match "(%S+),(%S+)"
---         coroutine.yield({tonumber(x)}, tonumber(y))
---       end
---     end)
---     for x, y in data.stream(lines, {batch = 32}):epoch() do step(x, y) end
---@param iterator fun(): ...  nil at the end
---@param given mrt.data.StreamOptions
---@return mrt.data.Stream
return function(iterator, given)
  local o = options.read("stream", given, { batch = options.want "size",
    drop_last = false, dtypes = {} })
  argument.callable("stream", iterator)
  return setmetatable({ iterator = iterator, batch = o.batch,
    drop_last = o.drop_last, dtypes = o.dtypes }, Stream)
end
