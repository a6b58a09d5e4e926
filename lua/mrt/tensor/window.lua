--- window.lua -- what convolutions and pools of one and three dimensions share
---
--- Signals are `[N,C,L]`, volumes `[N,C,D,H,W]`, as in PyTorch; without N they are
--- one.  The operators are those of images `[N,H,W,C]`: a signal is an image of one
--- row, and a volume is gone through in two passes, or with the planes that a kernel
--- reads side by side as channels.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local argument = require "mrt.util.argument"

local op = core.op
local refuse = argument.refuse

local window = {}

local MOST <const> = 1 << 30 -- what operators take

local layouts = { "[N,C,L]", "[N,C,H,W]", "[N,C,D,H,W]" }

--- Call f(x, ...) with x as a batch, of `sides` dimensions after N and C; drop the batch
--- again where x had none.
---@param who string
---@param x mrt.Tensor
---@param sides integer
---@param f fun(x: mrt.Tensor, ...: any): mrt.Tensor, mrt.Tensor?
---@param ... any
---@return mrt.Tensor, mrt.Tensor?
function window.batched(who, x, sides, f, ...)
  argument.tensor(who, "the input", x)
  if x:dim() == sides + 2 then return f(x, ...) end
  if x:dim() ~= sides + 1 then
    core.fail("shape", who, ("%s, %s wanted"):format(x:type(), layouts[sides]))
  end
  local y, more = f(x:unsqueeze(1), ...)
  if not more then return y:squeeze(1) end
  return y:squeeze(1), more:squeeze(1)
end

local function side(who, name, n, least)
  if math.type(n) == "integer" and n >= least and n < MOST then return n end
  refuse(who, "%s %s, an integer from %d wanted", name, tostring(n), least)
end

local function all_of(value, sides)
  local out = {}
  for i = 1, sides do out[i] = value end
  return out
end

--- One integer for each of `sides` sides, from one for all or a list.
---@param who string
---@param name string
---@param value any
---@param sides integer
---@param default integer|integer[]
---@param least? integer  default 0
---@return integer[]
function window.sides(who, name, value, sides, default, least)
  if value == nil then value = default end
  if value == nil then refuse(who, "%s: integers wanted, got none", name) end
  least = least or 0
  if type(value) ~= "table" then return all_of(side(who, name, value, least), sides) end
  local out = {}
  if #value ~= 1 and #value ~= sides then
    refuse(who, "%s: %d integers, one%s wanted", name, #value,
      sides > 1 and " or " .. sides or "")
  end
  for i = 1, sides do out[i] = side(who, name, value[i] or value[1], least) end
  return out
end

-- Has a table any of these names?
local function has(o, names)
  for name in pairs(names) do
    if o[name] ~= nil then return true end
  end
  return false
end

-- The same table under the first names.
local function renamed(given, same)
  local copy = {}
  for name, value in pairs(given) do copy[same[name] or name] = value end
  return copy
end

--- Read options, some of which have a second name: that of the operators.
---@param who string
---@param names string[]
---@param same table<string, string>  from a second name to the first
---@param ... any
---@return table<string, any>
function window.options(who, names, same, ...)
  local given, n, out = { ... }, select("#", ...), {}
  for i = 1, n do
    local value = given[i]
    if type(value) == "table" and #value == 0 then
      for k = i, n do
        local o = given[k]
        if type(o) == "table" and #o == 0 and has(o, same) then given[k] = renamed(o, same) end
      end
      return argument.read(who, names, table.unpack(given, 1, n))
    end
    if names[i] then out[names[i]] = value end
  end
  return out
end

--- Images last in memory, and as PyTorch has them.
---@param x mrt.Tensor  [N,C,H,W]
---@return mrt.Tensor
function window.last(x) return op.permute(x, { 1, 3, 4, 2 }) end

---@param x mrt.Tensor  [N,H,W,C]
---@return mrt.Tensor
function window.first(x) return op.permute(x, { 1, 4, 2, 3 }) end

--- Signals as images of one row, channels last, and back.
---@param x mrt.Tensor  [N,C,L]
---@return mrt.Tensor   [N,1,L,C]
function window.row(x)
  return op.permute(op.reshape(x, { x:size(1), x:size(2), 1, x:size(3) }), { 1, 3, 4, 2 })
end

---@param x mrt.Tensor  [N,1,L,C]
---@return mrt.Tensor   [N,C,L]
function window.from_row(x)
  return op.permute(op.reshape(x, { x:size(1), x:size(3), x:size(4) }), { 1, 3, 2 })
end

--- Volumes, channels last, and back.
---@param x mrt.Tensor  [N,C,D,H,W]
---@return mrt.Tensor   [N,D,H,W,C]
function window.volume(x) return op.permute(x, { 1, 3, 4, 5, 2 }) end

---@param x mrt.Tensor  [N,D,H,W,C]
---@return mrt.Tensor   [N,C,D,H,W]
function window.from_volume(x) return op.permute(x, { 1, 5, 2, 3, 4 }) end

return window
