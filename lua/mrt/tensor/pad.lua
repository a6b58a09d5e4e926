--- pad.lua -- a method of tensors: more positions around them
---
--- Each dimension is one cat of views: of a constant, of the first or last position
--- repeated, of what lies at the other end, or of a part in the other order.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local argument = require "mrt.util.argument"
local dims = require "mrt.tensor.dims"
local show = require "mrt.util.options".show

local op = core.op
local refuse = argument.refuse
---@class mrt.Tensor
local Tensor = core.methods
local WHO <const> = "pad"

local function part(x, d, first, last) return op.slice(x, d, first, last) end

local function sized(x, d, n)
  local shape = x:get_shape()
  shape[d] = n
  return shape
end

-- What comes before and after x along d, by mode; nil where there is nothing.
local around = {}

function around.constant(x, d, before, after, value)
  local function block(n) return n > 0 and dims.constant(x, value, sized(x, d, n)) or nil end
  return block(before), block(after)
end

function around.replicate(x, d, before, after)
  local n = x:size(d)
  if n == 0 then refuse(WHO, "dim %d of %s is empty", d, x:type()) end
  local function block(at, count)
    return count > 0 and op.expand(part(x, d, at, at), sized(x, d, count)) or nil
  end
  return block(1, before), block(n, after)
end

function around.reflect(x, d, before, after)
  local n = x:size(d)
  if before >= n or after >= n then
    refuse(WHO, "%d and %d around dim %d of %s, less than its size wanted for reflect", before,
      after, d, x:type())
  end
  local function block(first, count)
    if count <= 1 then return count == 1 and part(x, d, first, first) or nil end
    return op.flip(part(x, d, first, first + count - 1), { dims = { d } })
  end
  return block(2, before), block(n - after, after)
end

function around.circular(x, d, before, after)
  local n = x:size(d)
  if before > n or after > n then
    refuse(WHO, "%d and %d around dim %d of %s, at most its size wanted for circular", before,
      after, d, x:type())
  end
  return before > 0 and part(x, d, n - before + 1, n) or nil,
    after > 0 and part(x, d, 1, after) or nil
end

-- x without positions that a negative count takes away.
local function cropped(x, d, before, after)
  local first, last = 1 + math.max(0, -before), x:size(d) - math.max(0, -after)
  if first == 1 and last == x:size(d) then return x end
  if last - first + 1 < 0 then
    refuse(WHO, "%d and %d around dim %d of %s", before, after, d, x:type())
  end
  return last < first and dims.none(x, d) or part(x, d, first, last)
end

local function padded(x, d, before, after, mode, value)
  x = cropped(x, d, before, after)
  before, after = math.max(before, 0), math.max(after, 0)
  if before == 0 and after == 0 then return x end
  if mode == "constant" and value == 0 then
    return op.pad(x, { dim = d, before = before, after = after })
  end
  local list = {}
  list[1], list[2] = around[mode](x, d, before, after, value)
  local first, second = list[1], list[2]
  list = { first or x, first and x or second, first and second or nil }
  return op.cat(list, d)
end

-- All dimensions at once: x written into a tensor of one number.
local function surrounded(x, list, value)
  local shape, first, step, more, rank = x:get_shape(), {}, {}, false, x:dim()
  for d = 1, rank do first[d], step[d] = 0, 1 end
  for i = 1, #list // 2 do
    local d, before, after = rank + 1 - i, list[2 * i - 1], list[2 * i]
    x = cropped(x, d, before, after)
    first[d] = math.max(before, 0)
    shape[d] = x:size(d) + first[d] + math.max(after, 0)
    more = more or before > 0 or after > 0
  end
  if not more then return x end
  return op.write_part(dims.constant(x, value, shape), x, { first = first, step = step })
end

local function check(x, o)
  local list = type(o.pad) == "table" and o.pad or { o.pad }
  if #list % 2 ~= 0 or #list > 2 * x:dim() then
    refuse(WHO, "%d numbers for %s, two for each of the last dimensions wanted", #list, x:type())
  end
  for i, n in ipairs(list) do dims.integer(WHO, ("number %d"):format(i), n) end
  if not around[o.mode] then
    refuse(WHO, "mode %s, one of constant, reflect, replicate, circular wanted", show(o.mode))
  elseif o.mode ~= "constant" and o.value ~= nil and o.value ~= 0 then
    refuse(WHO, "a value and mode %s", o.mode)
  end
  return list
end

local function pads(x, list, mode, value)
  local one = #list == 2 and value == 0 -- op.pad does it
  if mode == "constant" and not one then return surrounded(x, list, value) end
  for i = 1, #list // 2 do
    x = padded(x, x:dim() + 1 - i, list[2 * i - 1], list[2 * i], mode, value)
  end
  return x
end

local names = { "pad", "mode", "value" }

--- More positions around x: `x:pad({left, right, top, bottom})`, two numbers for each of
--- the last dimensions, the last first; below 0 they take positions away.
---
---     mrt.tensor{1, 2}:pad({1, 1})  --> [0 1 2 0]
---
--- Raises: an odd list, a mode that there is not.
---@param pad integer[]
---@param mode? "constant"|"reflect"|"replicate"|"circular"  default "constant"
---@param value? number  of the constant; default 0
---@return mrt.Tensor
function Tensor.pad(x, pad, mode, value, ...)
  -- The row's own options, one dimension at a time, are taken too.
  local by_row = type(pad) == "table" and (pad.dim or pad.before or pad.after)
  if by_row or math.type(pad) == "integer" then return op.pad(x, pad, mode, value, ...) end
  local o = argument.read(WHO, names, pad, mode, value, ...)
  o.mode = o.mode or "constant"
  local list = check(x, o)
  return pads(x, list, o.mode, o.value or 0)
end

return Tensor
