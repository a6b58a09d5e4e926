--- scan.lua -- running results of any associative function
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local argument = require "mrt.util.argument"
local options = require "mrt.util.options"

local op = core.op
local read, refuse = argument.read, argument.refuse

---@class mrt.scans
local scans = {}

-- What is scanned may be a tensor, or a table of some that f takes and returns.
local function each(x, f)
  if core.is_tensor(x) then return f(x) end
  if type(x) ~= "table" then
    core.fail("value", "associative_scan", "a tensor or a table of tensors wanted, got " .. type(x))
  end
  local out = {}
  for key, t in pairs(x) do out[key] = f(t) end
  return out
end
local function both(x, y, f)
  if core.is_tensor(x) then return f(x, y) end
  local out = {}
  for key, t in pairs(x) do out[key] = f(t, y[key]) end
  return out
end

-- Every other one of positions first, first + 1 ..., `count` of them.
local function every_other(x, dim, first, count)
  local shape = x:get_shape()
  if first + 2 * count - 2 == shape[dim] then -- the last pair is half there
    if count == 1 then return op.slice(x, dim, first, first) end
    return op.cat({ every_other(x, dim, first, count - 1),
      op.slice(x, dim, shape[dim], shape[dim]) }, dim)
  end
  local pairs_of = op.slice(x, dim, first, first + 2 * count - 1)
  shape[dim] = count
  table.insert(shape, dim + 1, 2)
  return op.slice(op.reshape(pairs_of, shape), dim + 1, 1, 1):squeeze(dim + 1)
end

-- x[1], y[1], x[2], y[2] ...; x may have one more.
local function woven(x, y, dim)
  local n, m = x:size(dim), y:size(dim)
  local shape = x:get_shape()
  shape[dim] = 2 * m
  local out = op.reshape(op.cat({ op.slice(x, dim, 1, m):unsqueeze(dim + 1),
    y:unsqueeze(dim + 1) }, dim + 1), shape)
  if n == m then return out end
  return op.cat({ out, op.slice(x, dim, n, n) }, dim)
end

local function scan(f, x, dim, n)
  if n < 2 then return x end
  local half = n // 2
  local odd = each(x, function(t) return every_other(t, dim, 1, half) end)
  local even = each(x, function(t) return every_other(t, dim, 2, half) end)
  local second = scan(f, f(odd, even), dim, half)
  local first = each(x, function(t) return op.slice(t, dim, 1, 1) end)
  local rest = (n - 1) // 2 -- of positions 3, 5 ...
  if rest > 0 then
    local before = each(second, function(t) return op.slice(t, dim, 1, rest) end)
    local own = each(x, function(t) return every_other(t, dim, 3, rest) end)
    first = both(first, f(before, own), function(a, b) return op.cat({ a, b }, dim) end)
  end
  return both(first, second, function(a, b) return woven(a, b, dim) end)
end

-- The dimension as 1..rank, and how many positions all have along it.
local function length(who, x, dim)
  local at, n, first
  local function look(t)
    argument.tensor(who, "what is scanned", t)
    local d = math.type(dim) == "integer" and (dim < 0 and dim + t:dim() + 1 or dim)
    if not d or d < 1 or d > t:dim() then
      refuse(who, "dim %s of %s, 1 to %d (or from the end: -1) wanted", tostring(dim),
        t:type(), t:dim())
    end
    if n and (t:size(d) ~= n or at ~= d) then
      core.fail("shape", who, ("%s and %s along dim %s, as many positions wanted")
        :format(first:type(), t:type(), tostring(dim)))
    end
    at, n, first = d, t:size(d), first or t
  end
  if core.is_tensor(x) then
    look(x)
  elseif type(x) == "table" and next(x) ~= nil then
    for _, t in pairs(x) do look(t) end
  else
    refuse(who, "a tensor or a table of tensors wanted, got %s", options.show(x))
  end
  return at, n
end

--- Combine along a dimension with any associative function: y[1] = x[1], y[t] =
--- f(y[t-1], x[t]), in about 2 log2 n calls of f on halves, quarters ... of all
--- positions, 2 n of them together.
---
---     local most = mrt.associative_scan(mrt.maximum, x, 1)
---     local h = mrt.associative_scan(function(p, q)       -- h[t] = a[t] h[t-1] + b[t]
---       return { a = p.a * q.a, b = q.a * p.b + q.b }
---     end, { a = a, b = b }, 1).b
---
--- From: Blelloch, Prefix sums and their applications (1990).
---
--- Raises: no dim like that, tensors that differ along it.
---@param f fun(before: any, after: any): any  of tensors, or of tables of tensors as x is
---@param x mrt.Tensor|table<any, mrt.Tensor>
---@param dim? integer      default 1
---@param reverse? boolean  from the last position to the first
---@return any y            as x
function scans.associative_scan(f, x, dim, reverse)
  local who = "associative_scan"
  argument.callable(who, f)
  local o = read(who, { "dim", "reverse" }, dim, reverse)
  local at, n = length(who, x, o.dim or 1)
  local function turned(t) return o.reverse and op.flip(t, { dims = { at } }) or t end
  return each(scan(f, each(x, turned), at, n), turned)
end

return scans
