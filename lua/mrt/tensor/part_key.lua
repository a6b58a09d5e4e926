--- part_key.lua -- what stands between the brackets of x[...]
---
--- One entry for each dimension of x, and new ones among them; part.lua has the notation.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local dims = require "mrt.tensor.dims"
local show = require "mrt.util.options".show

local refuse = require "mrt.util.argument".refuse
local infos = core.dtypes()

-- One entry for each dimension of x, new ones beside: {kind, dim = of x, ...}.
---@class mrt.part.Entry
---@field kind "at"|"range"|"all"|"new"|"ids"|"mask"
---@field dim integer?   of x; of a mask the first
---@field first integer?
---@field last integer?
---@field step integer?  negative: backwards
---@field index mrt.Tensor?

local function position(who, x, dim, i)
  local n = x:size(dim)
  local at = i < 0 and i + n + 1 or i
  if at >= 1 and at <= n then return at end
  refuse(who, "position %d of dim %d of %s, %s", i, dim, x:type(),
    n == 0 and "which is empty" or i == 0 and "positions count from 1 (or from the end: -1)"
    or ("1 to %d (or from the end: -%d to -1) wanted"):format(n, n))
end

local function whole(who, what, value)
  if value == nil then return nil end
  return dims.integer(who, what, value)
end

-- The ends of a range as positions, where nothing is said the ends of the dimension.
local function ends(who, list, n, step)
  local first = whole(who, "first", list[1]) or (step > 0 and 1 or n)
  local last = whole(who, "last", list[2]) or (step > 0 and n or 1)
  return first, last, first < 0 and first + n + 1 or first, last < 0 and last + n + 1 or last
end

local function read_step(who, list)
  for key in pairs(list) do
    if key ~= 1 and key ~= 2 and key ~= 3 then
      refuse(who, "%s of a range, {first, last, step} wanted", show(key))
    end
  end
  local step = whole(who, "step", list[3]) or 1
  if step == 0 then refuse(who, "step 0 of a range") end
  return step
end

-- Positions between `from` and `to`, of n: "some", "none", or nil where they are outside.
local function extent(from, to, step, n)
  local ahead = step > 0 and to - from or from - to
  local low, high = math.min(from, to), math.max(from, to)
  if ahead == -1 and low >= 0 and high <= n + 1 then return "none" end
  return ahead >= 0 and low >= 1 and high <= n and "some" or nil
end

-- {first, last, step}
local function range(who, x, dim, list)
  local step, n = read_step(who, list), x:size(dim)
  local first, last, from, to = ends(who, list, n, step)
  local has = extent(from, to, step, n)
  if not has then
    refuse(who, "%d to %d%s of dim %d of %s, 1 to %d wanted", first, last,
      step ~= 1 and (" by %d"):format(step) or "", dim, x:type(), n)
  elseif n == 0 or from == 1 and to == n and step == 1 then
    return { kind = "all", dim = dim }
  elseif has == "none" then
    return { kind = "range", dim = dim, first = 1, last = 0, step = 1 }
  end
  return { kind = "range", dim = dim, first = from, last = to, step = step }
end

local function by_tensor(who, x, dim, index)
  local dtype = index:get_dtype()
  if dtype ~= "bool" then
    if infos[dtype].floating then
      core.fail("dtype", who, ("index %s, integers or bool wanted"):format(index:type()))
    end
    return { kind = "ids", dim = dim, index = index }
  end
  for d = 1, index:dim() do
    if dim + d - 1 > x:dim() or index:size(d) ~= x:size(dim + d - 1) then
      core.fail("shape", who, ("mask %s at dim %d of %s, its sizes wanted"):format(index:type(),
        dim, x:type()))
    end
  end
  if index:dim() == 0 then
    core.fail("shape", who, "a mask with no dimensions; x:where(...) takes one")
  end
  return { kind = "mask", dim = dim, index = index }
end

-- How many dimensions of x an item of the list stands for.
local function width(item)
  if item == "new" or item == "..." then return 0 end
  if core.is_tensor(item) and item:get_dtype() == "bool" then return item:dim() end
  return 1
end

local function entry(who, x, dim, item)
  if item == nil or item == "all" then return { kind = "all", dim = dim } end
  if core.is_tensor(item) then return by_tensor(who, x, dim, item) end
  if type(item) == "table" then return range(who, x, dim, item) end
  if math.type(item) == "integer" then
    return { kind = "at", dim = dim, first = position(who, x, dim, item) }
  end
  refuse(who, "%s for dim %d, a position, a range {first, last, step}, a tensor, \"all\", "
    .. "\"...\" or \"new\" wanted", show(item), dim)
end

-- The last key of a list with holes, and how many dimensions its items are for.
local function measure(who, list)
  local last, total, dots = 0, 0, nil
  for key in pairs(list) do
    if math.type(key) ~= "integer" or key < 1 then
      refuse(who, "[%s] in the list of an index, one thing for each dimension wanted", show(key))
    end
    last = math.max(last, key)
  end
  for i = 1, last do
    if list[i] == "..." then
      if dots then refuse(who, "\"...\" is given twice") end
      dots = i
    end
    total = total + width(list[i])
  end
  return last, total, dots
end

---@return mrt.part.Entry[]
local function read(who, x, key)
  if core.is_tensor(key) or type(key) == "number" then key = { key } end
  local last, total, dots = measure(who, key)
  local rank, out, dim = x:dim(), {}, 1
  if total > rank then
    refuse(who, "an index of %d dimensions for %s", total, x:type())
  end
  local function all(upto)
    while dim <= upto do
      out[#out + 1] = { kind = "all", dim = dim }
      dim = dim + 1
    end
  end
  for i = 1, last do
    if i == dots then
      all(dim + rank - total - 1)
    elseif key[i] == "new" then
      out[#out + 1] = { kind = "new" }
    else
      out[#out + 1] = entry(who, x, dim, key[i])
      dim = dim + width(key[i])
    end
  end
  all(rank)
  return out
end

return read
