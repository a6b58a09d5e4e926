--- pad.lua -- layers that put something around signals, images and volumes
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local Module = require "mrt.nn.module"
local options = require "mrt.util.options"

local op = core.op
local pads = {}

-- ---- along one dimension ---------------------------------------------------

-- The parts given, one after the other; nil where there is none.
local function joined(dim, before, x, after)
  local list = { x }
  if before then table.insert(list, 1, before) end
  if after then list[#list + 1] = after end
  return #list > 1 and op.cat(list, { dim = dim }) or x
end

-- What stands `before` and `after` x along a dimension of n places, by kind.
local ways = {}

function ways.Reflection(x, dim, before, after)
  local n = x:size(dim)
  local function mirrored(first, last)
    return op.flip(op.slice(x, dim, first, last), { dims = { dim } })
  end
  return joined(dim, before > 0 and mirrored(2, 1 + before), x,
    after > 0 and mirrored(n - after, n - 1))
end

function ways.Replication(x, dim, before, after)
  local n, shape = x:size(dim), x:get_shape()
  local function repeated(at, count)
    shape[dim] = count
    return op.expand(op.slice(x, dim, at, at), shape)
  end
  return joined(dim, before > 0 and repeated(1, before), x, after > 0 and repeated(n, after))
end

function ways.Circular(x, dim, before, after)
  local n = x:size(dim)
  return joined(dim, before > 0 and op.slice(x, dim, n - before + 1, n), x,
    after > 0 and op.slice(x, dim, 1, after))
end

function ways.Zero(x, dim, before, after)
  return op.pad(x, { dim = dim, before = before, after = after })
end

-- How far each kind can go beyond n places.
local most = {
  Reflection = function(n) return n - 1 end,
  Replication = function(n) return n > 0 and math.huge or 0 end,
  Circular = function(n) return n end,
  Zero = function() return math.huge end,
}

-- ---- layers ----------------------------------------------------------------

-- Two integers for each of n sides: the last side's first, as PyTorch has them.
local function read(name, padding, n)
  local list = type(padding) == "table" and padding or nil
  local out = {}
  if list and #list ~= 2 * n then
    core.fail("value", name, ("%d integers, one or %d wanted"):format(#list, 2 * n))
  end
  for i = 1, 2 * n do
    out[i] = list and list[i] or padding
    if math.type(out[i]) ~= "integer" or out[i] < 0 then
      core.fail("value", name, ("padding %s, an integer from 0 wanted")
        :format(options.show(out[i])))
    end
  end
  return out
end

local function layer(kind, n)
  local name = ("%sPad%dd"):format(kind, n)
  local class = Module(name, "tensor")
  function class:init(padding) rawset(self, "padding", read(name, padding, n)) end
  function class:forward(x)
    local rank, p = x:dim(), self.padding
    if rank ~= n + 1 and rank ~= n + 2 then
      core.fail("shape", name, ("%s, %d or %d dimensions wanted"):format(x:type(), n + 1, n + 2))
    end
    for i = 1, n do
      local dim, before, after = rank + 1 - i, p[2 * i - 1], p[2 * i]
      if math.max(before, after) > most[kind](x:size(dim)) then
        core.fail("shape", name, ("padding %d beside %d places of %s"):format(
          math.max(before, after), x:size(dim), x:type()))
      end
      if before + after > 0 then x = ways[kind](x, dim, before, after) end
    end
    return x
  end
  function class:describe() return table.concat(self.padding, ", ") end
  pads[name] = class
end

-- ReflectionPad2d({ left, right, top, bottom }), or one integer for all: of [N,C,H,W].
for n = 1, 3 do
  layer("Zero", n)
  layer("Reflection", n)
  layer("Replication", n)
  layer("Circular", n)
end

return pads
