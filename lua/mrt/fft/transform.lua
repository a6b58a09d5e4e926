--- transform.lua -- what mrt.fft makes of its arguments: lengths, dims, scales
---
--- SPDX-License-Identifier: MIT

local argument = require "mrt.util.argument"
local core = require "mrt.core"
local options = require "mrt.util.options"

local op = core.op
local refuse = argument.refuse

local transform = {}

local norms = { backward = true, ortho = true, forward = true }

--- Return a norm by its name; else raise.
---@param who string
---@param norm any
---@return string
function transform.norm(who, norm)
  if norm == nil then return "backward" end
  if norms[norm] then return norm end
  refuse(who, "norm %s, 'backward', 'ortho' or 'forward' wanted", tostring(norm))
end

--- Return a dimension as 1 to rank; else raise.
---@param who string
---@param x mrt.Tensor
---@param dim any
---@param rank integer
---@return integer
function transform.dim(who, x, dim, rank)
  local at = math.tointeger(dim)
  if at and at < 0 then at = at + rank + 1 end
  if at and at >= 1 and at <= rank then return at end
  refuse(who, "dim %s of %s, 1 to %d (or from the end: -1) wanted", tostring(dim), x:type(),
    rank)
end

--- Return x if its last dimension is the pair of a complex number; else raise.
---@param who string
---@param x any
---@return mrt.Tensor
function transform.want_complex(who, x)
  argument.tensor(who, "the first", x)
  if x:dim() >= 2 and x:size(-1) == 2 then return x end
  core.fail("shape", who, ("%s, complex numbers wanted: a last dimension of 2, the real and "
    .. "the imaginary part (rfft takes real ones)"):format(x:type()))
end

--- Change the sign of imaginary parts.
---@param x mrt.Tensor
---@return mrt.Tensor
function transform.conjugate(x)
  local i = op.arange { stop = 2, dtype = "i64" }
  return op.where(op.eq(i, 0), x, op.neg(x))
end

-- x as a float: integers become f32.
local function as_float(x)
  return x:get_dtype():find "^[fb][%df]" and x or op.cast(x, "f32")
end

-- n positions along dim: cut, or 0 after x's.
local function resized(x, dim, n)
  local has = x:size(dim)
  if n < has then return op.slice(x, dim, 1, n) end
  return n > has and op.pad(x, { dim = dim, after = n - has }) or x
end

local function length(who, x, n, default)
  if n == nil then n = default end
  local count = math.tointeger(n)
  if count and count >= 1 then return count end
  refuse(who, "n %s for %s, 1 or more wanted", tostring(n), x:type())
end

local function scale(norm, n, inverse)
  if norm == "ortho" then return 1 / math.sqrt(n) end
  return (norm == "backward") == inverse and 1 / n or 1
end

--- fft and ifft of one dimension.
---@param who string
---@param x mrt.Tensor
---@param inverse boolean
---@param o {n: integer?, dim: integer?, norm: string?}
---@return mrt.Tensor
function transform.complex(who, x, inverse, o)
  x = as_float(transform.want_complex(who, x))
  local norm = transform.norm(who, o.norm)
  local dim = transform.dim(who, x, o.dim or -1, x:dim() - 1)
  local n = length(who, x, o.n, x:size(dim))
  return op.dft(resized(x, dim, n), { dim = dim, inverse = inverse,
    scale = scale(norm, n, inverse) })
end

--- rfft of one dimension.
---@param who string
---@param x mrt.Tensor
---@param o {n: integer?, dim: integer?, norm: string?}
---@return mrt.Tensor
function transform.from_real(who, x, o)
  x = as_float(argument.tensor(who, "the first", x))
  local norm = transform.norm(who, o.norm)
  local dim = transform.dim(who, x, o.dim or -1, x:dim())
  local n = length(who, x, o.n, x:size(dim))
  return op.rdft(resized(x, dim, n), { dim = dim, scale = scale(norm, n, false) })
end

--- irfft of one dimension.
---@param who string
---@param x mrt.Tensor
---@param o {n: integer?, dim: integer?, norm: string?}
---@return mrt.Tensor
function transform.to_real(who, x, o)
  x = as_float(transform.want_complex(who, x))
  local norm = transform.norm(who, o.norm)
  local dim = transform.dim(who, x, o.dim or -1, x:dim() - 1)
  local n = length(who, x, o.n, 2 * (x:size(dim) - 1))
  return op.irdft(resized(x, dim, n // 2 + 1), { dim = dim, n = n,
    scale = scale(norm, n, true) })
end

-- Several numbers: one alone is a list of one.
local function listed(who, name, value)
  if value == nil or type(value) == "table" then return value end
  if type(value) == "number" then return { value } end
  refuse(who, "%s: a number or a list of them wanted, got %s", name, options.show(value))
end

-- The dims of o, or the last of s, or all, as 1 to rank.
local function dims_of(who, x, o, rank)
  local dims = listed(who, "dim", o.dim)
  if dims == nil then
    dims = {}
    local count = o.s and #o.s or rank
    for i = 1, count do dims[i] = rank - count + i end
  end
  local list, seen = {}, {}
  for i, d in ipairs(dims) do
    list[i] = transform.dim(who, x, d, rank)
    if seen[list[i]] then refuse(who, "dim %d is given twice", list[i]) end
    seen[list[i]] = true
  end
  if #list == 0 then refuse(who, "no dim of %s, one or more wanted", x:type()) end
  return list
end

--- Transforms of several dimensions: along each in turn, the last one of real numbers
--- where `kind` says so.
---@param who string
---@param x mrt.Tensor
---@param o {s: integer[]?, dim: integer[]?, norm: string?}
---@param kind "complex"|"from_real"|"to_real"
---@param inverse boolean
---@return mrt.Tensor
function transform.several(who, x, o, kind, inverse)
  argument.tensor(who, "the first", x)
  o.s = listed(who, "s", o.s)
  local rank = x:dim()
  if kind ~= "from_real" then rank = transform.want_complex(who, x):dim() - 1 end
  local dims = dims_of(who, x, o, rank)
  local s = o.s or {}
  if o.s and #s ~= #dims then
    refuse(who, "%d sizes for %d dims, as many wanted", #s, #dims)
  end
  local function one(i)
    return { n = s[i] ~= -1 and s[i] or nil, dim = dims[i], norm = o.norm }
  end
  local last = #dims
  if kind == "from_real" then x = transform.from_real(who, x, one(last)) end
  for i = 1, kind == "complex" and last or last - 1 do
    x = transform.complex(who, x, inverse, one(i))
  end
  return kind == "to_real" and transform.to_real(who, x, one(last)) or x
end

return transform
