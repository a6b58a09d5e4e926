--- join.lua -- functions that split a tensor into several and make one of several
---
--- Splits are methods; what takes several tensors is a function of the module:
--- mrt.hstack(list).
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local argument = require "mrt.util.argument"
local dims = require "mrt.tensor.dims"

local op = core.op
local show = require "mrt.util.options".show
local read, refuse, place = argument.read, argument.refuse, dims.place
---@class mrt.Tensor
local Tensor = core.methods

---@class mrt.join
local join = {}

-- ---- splits ----------------------------------------------------------------

-- x cut before these positions from 0; ends outside make empty parts, as in NumPy.
local function split_at(x, at, places)
  local n, parts, from = x:size(at), {}, 0
  for i = 1, #places + 1 do
    local to = places[i] or n
    to = math.min(math.max(to < 0 and to + n or to, 0), n)
    local count = math.max(0, to - from)
    parts[i] = x:narrow(at, count > 0 and from + 1 or 1, count)
    from = to
  end
  return table.unpack(parts)
end

local function split_evenly(who, x, at, count)
  local n, places = x:size(at), {}
  if dims.integer(who, "sections", count, 1) > 200 then
    refuse(who, "%d results, at most 200 wanted", count)
  end
  local each, more = n // count, n % count -- the first ones are larger
  for i = 1, count - 1 do places[i] = i * each + math.min(i, more) end
  return split_at(x, at, places)
end

--- Cut into so many parts, sizes of which differ by 1 at most, or before these positions
--- (how many elements come before each cut).
---
---     mrt.arange(5):tensor_split(2)  --> [0 1 2], [3 4]
---
--- Shapes: `[n, ...]` -> parts of n / count or one less.
--- Raises: a count below 1; a dimension that x does not have.
---@param indices_or_sections integer|integer[]
---@param dim? integer  default 1
---@return mrt.Tensor ...
function Tensor.tensor_split(x, indices_or_sections, dim, ...)
  local who <const> = "tensor_split"
  local o = read(who, { "indices_or_sections", "dim" }, indices_or_sections, dim, ...)
  local at, how = place(who, x, o.dim or 1), o.indices_or_sections
  if o.indices then how = o.indices elseif o.sections then how = o.sections end
  if type(how) ~= "table" then return split_evenly(who, x, at, how) end
  if #how > 199 then refuse(who, "%d results, at most 200 wanted", #how + 1) end
  for i, n in ipairs(how) do dims.integer(who, ("position %d"):format(i), n) end
  return split_at(x, at, how)
end

local function split_along(name, least, dim_of)
  Tensor[name] = function(x, indices_or_sections, ...)
    local o = read(name, { "indices_or_sections" }, indices_or_sections, ...)
    local how = o.indices_or_sections
    if x:dim() < least then
      refuse(name, "%s, at least %d dimension%s wanted", x:type(), least, least > 1 and "s" or "")
    end
    local at = dim_of(x)
    if type(how) ~= "table" and math.type(how) == "integer" and how > 0
      and x:size(at) % how ~= 0 then
      refuse(name, "dim %d of %s in %d equal parts (see tensor_split)", at, x:type(), how)
    end
    return x:tensor_split(how, at)
  end
end

split_along("hsplit", 1, function(x) return x:dim() == 1 and 1 or 2 end)
split_along("vsplit", 2, function() return 1 end)
split_along("dsplit", 3, function() return 3 end)

-- ---- joined ----------------------------------------------------------------

local tensors = dims.tensors

local function some(who, ...)
  local list = tensors(who, ...)
  if #list == 0 then refuse(who, "no tensors, one at least wanted") end
  return list
end

local function each(list, f)
  local out = {}
  for i, x in ipairs(list) do out[i] = f(x) end
  return out
end

-- One tensor or several, as atleast_1d and its kin take them and give them back.
local function at_least(name, f)
  join[name] = function(...)
    local first = (...)
    if core.is_tensor(first) and select("#", ...) == 1 then return f(first) end
    return table.unpack(each(tensors(name, ...), f))
  end
end

local function at_least_1d(x) return x:dim() == 0 and op.reshape(x, { 1 }) or x end
local function at_least_2d(x)
  if x:dim() >= 2 then return x end
  return op.reshape(x, { 1, x:numel() })
end
local function at_least_3d(x)
  if x:dim() >= 3 then return x end
  return at_least_2d(x):unsqueeze(-1)
end

at_least("atleast_1d", at_least_1d)
at_least("atleast_2d", at_least_2d)
at_least("atleast_3d", at_least_3d)

--- Join vectors along their dimension, others along the second.
---
---     mrt.hstack { mrt.tensor{1}, mrt.tensor{2, 3} }  --> [1 2 3]
---
--- Raises: shapes that do not fit.
---@param list mrt.Tensor[]
---@return mrt.Tensor
function join.hstack(list, ...)
  list = each(some("hstack", list, ...), at_least_1d)
  return op.cat(list, list[1]:dim() == 1 and 1 or 2)
end

--- Join along the first dimension; vectors are rows.
---
---     mrt.vstack { mrt.tensor{1, 2}, mrt.tensor{3, 4} }  --> [[1 2] [3 4]]
---
--- Raises: shapes that do not fit.
---@param list mrt.Tensor[]
---@return mrt.Tensor
function join.vstack(list, ...) return op.cat(each(some("vstack", list, ...), at_least_2d), 1) end

--- Join along the third dimension.
---
---     mrt.dstack { mrt.tensor{1, 2}, mrt.tensor{3, 4} }  --> [[[1 3] [2 4]]]
---
--- Raises: shapes that do not fit.
---@param list mrt.Tensor[]
---@return mrt.Tensor
function join.dstack(list, ...) return op.cat(each(some("dstack", list, ...), at_least_3d), 3) end

--- Join along the second dimension; vectors are columns.
---
---     mrt.column_stack { mrt.tensor{1, 2}, mrt.tensor{3, 4} }  --> [[1 3] [2 4]]
---
--- Raises: other counts of rows.
---@param list mrt.Tensor[]
---@return mrt.Tensor
function join.column_stack(list, ...)
  return op.cat(each(some("column_stack", list, ...), function(x)
    return x:dim() < 2 and op.reshape(x, { x:numel(), 1 }) or x
  end), 2)
end

--- All in the shape that they broadcast to: views.
---
---     mrt.broadcast_tensors(mrt.zeros(2, 1), mrt.zeros(3))
---
--- Raises: shapes that do not broadcast.
---@param ... mrt.Tensor|mrt.Tensor[]
---@return mrt.Tensor ...
function join.broadcast_tensors(...)
  local list = tensors("broadcast_tensors", ...)
  local shape = dims.broadcast("broadcast_tensors", each(list, Tensor.get_shape))
  return table.unpack(each(list, function(x) return dims.expand(x, shape) end))
end

--- A matrix of matrices along its diagonal, zeros elsewhere; a vector is a row.
---
---     mrt.block_diag(mrt.tensor{{1}}, mrt.tensor{{2, 3}})  --> [[1 0 0] [0 2 3]]
---
--- Shapes: `[a,b]`, `[c,d]` -> `[a + c, b + d]`.
--- Raises: more than two dimensions.
---@param ... mrt.Tensor|mrt.Tensor[]
---@return mrt.Tensor
function join.block_diag(...)
  local list = each(tensors("block_diag", ...), at_least_2d)
  local columns, at = 0, 0
  if #list == 0 then refuse("block_diag", "no tensors, one at least wanted") end
  for _, x in ipairs(list) do
    if x:dim() ~= 2 then
      refuse("block_diag", "%s, at most 2 dimensions wanted", x:type())
    end
    columns = columns + x:size(2)
  end
  return op.cat(each(list, function(x)
    local before, n = at, x:size(2)
    at = at + n
    return op.pad(x, { dim = 2, before = before, after = columns - at })
  end), 1)
end

-- Vectors and perhaps "xy", by place or by name, after them.
local function read_grid(who, ...)
  local given = { ... }
  local last, how = given[#given], "ij"
  if type(last) == "table" and not core.is_tensor(last) and last[1] == nil then
    how = read(who, { "indexing" }, table.remove(given)).indexing or how
  elseif #given > 1 and not core.is_tensor(last) then
    how = table.remove(given)
  end
  if how ~= "ij" and how ~= "xy" then
    refuse(who, "indexing %s, ij or xy wanted", show(how))
  end
  return tensors(who, table.unpack(given)), how
end

--- Coordinates: of vectors of n1, n2 ... elements tensors `[n1, n2 ...]`, each of which
--- varies along one dimension; views.
---
---     mrt.meshgrid(mrt.tensor{1, 2}, mrt.tensor{3, 4})  --> [[1 1] [2 2]], [[3 4] [3 4]]
---
--- Raises: what is no vector.
---@param ... any  vectors, or a list of them; {indexing = "ij"|"xy"}, default "ij": with
---  "xy" the first two dimensions are exchanged
---@return mrt.Tensor ...
function join.meshgrid(...)
  local list, how = read_grid("meshgrid", ...)
  local shape, out = {}, {}
  for i, x in ipairs(list) do
    if x:dim() > 1 then refuse("meshgrid", "%s, vectors wanted", x:type()) end
    shape[i] = x:numel()
  end
  for i, x in ipairs(list) do
    local ones = {}
    for d in ipairs(list) do ones[d] = d == i and shape[d] or 1 end
    out[i] = op.expand(op.reshape(x, ones), shape)
    if how == "xy" and #list > 1 then out[i] = op.transpose(out[i], 1, 2) end
  end
  return table.unpack(out)
end

--- All ways to take one element of each vector, as rows.
---
---     mrt.cartesian_prod(mrt.tensor{1, 2}, mrt.tensor{3, 4})  --> [[1 3] [1 4] [2 3] [2 4]]
---
--- Raises: what is no tensor; of several what is no vector.
---@param ... mrt.Tensor|mrt.Tensor[]
---@return mrt.Tensor  `[n1 n2 ..., k]`
function join.cartesian_prod(...)
  local list = some("cartesian_prod", ...)
  if #list == 1 then return list[1] end
  local grids = { join.meshgrid(list) }
  return op.cat(each(grids, function(x) return op.reshape(x, { x:numel(), 1 }) end), 2)
end

-- Rows of `r` positions below n, rising, or with repeats: as flat ids.
local function choices(n, r, with_replacement)
  local rows, at = {}, {}
  local function fill(k, from)
    if k > r then
      table.move(at, 1, r, #rows + 1, rows)
      return
    end
    for i = from, n - 1 do
      at[k] = i
      fill(k + 1, with_replacement and i or i + 1)
    end
  end
  fill(1, 0)
  return rows
end

--- All ways to take `r` elements of a vector, in their order, as rows.
---
---     mrt.combinations(mrt.tensor{1, 2, 3})  --> [[1 2] [1 3] [2 3]]
---
--- Raises: what is no vector, r below 0.
---@param x mrt.Tensor
---@param r? integer  default 2
---@param with_replacement? boolean
---@return mrt.Tensor  `[how many, r]`
function join.combinations(x, r, with_replacement, ...)
  local who <const> = "combinations"
  argument.tensor(who, "input", x)
  local o = read(who, { "r", "with_replacement" }, r, with_replacement, ...)
  local count = dims.integer(who, "r", o.r or 2, 0)
  if x:dim() ~= 1 then refuse(who, "%s, a vector wanted", x:type()) end
  local ids = choices(x:numel(), count, o.with_replacement)
  local rows = count > 0 and #ids // count or 0
  if rows == 0 then
    return op.full { shape = { 0, count > 0 and count or 0 }, value = 0, dtype = x:get_dtype() }
  end
  return op.reshape(op.gather(x, core.tensor(ids, "i64"), 1), { rows, count })
end

return join
