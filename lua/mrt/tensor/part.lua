--- part.lua -- x[...]: parts of a tensor, read and written
---
---     x[2]  x[-1]                 a position of the first dimension, from 1 or the end
---     x[{ 2, {1, 3} }]            one thing for each dimension:
---       2, -1                       a position; the dimension goes
---       {first, last, step}         positions, both ends included; {} is all of them,
---                                   {3} from 3 on; {-1, 1, -1} backwards
---       "all", or nothing           all of it; "..." as many "all" as fit
---       "new"                       a new dimension of size 1
---       a tensor of integers        0-based ids, as gather and embedding take them
---       a tensor of bool            where it is true; it stands for as many dimensions
---                                   as it has
---     x[mask]  x[ids]             x[{ mask }], x[{ ids }]
---
--- Several tensors broadcast against each other and are one choice.  Its dimensions stand
--- where the tensors do if these are side by side, else in front, as in PyTorch; positions
--- do not count among them.
---
--- Writing x[...] = v gives the *handle* x a new value, v being a number or a tensor that
--- broadcasts to the part: what was computed from the old value, and every other handle
--- of it, keep it.  A variable is assigned (Tensor.assign).  Gradients flow through both.
--- Where ids name a place twice, the last value stays.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local argument = require "mrt.util.argument"
local dims = require "mrt.tensor.dims"
local read = require "mrt.tensor.part_key"
local show = require "mrt.util.options".show

local op, refuse = core.op, argument.refuse
local infos = core.dtypes()
---@class mrt.Tensor
local Tensor = core.methods

local part = {}

--- Tensors that were written: their handles have another value than they had.
part.written = setmetatable({}, { __mode = "k" })

-- What x[...] has given: a value of its own, and no place of x.
local taken = setmetatable({}, { __mode = "k" })

--- Notes that y was read as x[...]; returns it.
---@param y mrt.Tensor
---@return mrt.Tensor y
function part.taken(y)
  taken[y] = true
  return y
end

-- Where PyTorch would write through, nothing would happen here.
local function want_own(who, x)
  if taken[x] then
    refuse(who, "what was read as x[...] is no place of x: x[{1, 2}] = v writes there, and "
      .. "x[1]:clone() is a tensor of its own")
  end
end

-- ---- positions and ranges: views -------------------------------------------

local function sliced(x, dim, e)
  if e.kind == "at" then return op.slice(x, dim, e.first, e.first) end
  if e.kind ~= "range" then return x end
  if e.last < e.first and e.step > 0 then
    return dims.none(x, dim)
  elseif e.step > 0 then
    return op.slice(x, dim, e.first, e.last, e.step)
  end
  local count = (e.first - e.last) // -e.step
  x = op.slice(x, dim, e.first + count * e.step, e.first, -e.step)
  return op.flip(x, { dims = { dim } })
end

-- x cut to what all but tensors choose, of x's rank.
local function cut(x, entries)
  for _, e in ipairs(entries) do
    if e.dim and e.kind ~= "ids" and e.kind ~= "mask" then x = sliced(x, e.dim, e) end
  end
  return x
end

-- The shape of a part once positions are dropped and new dimensions there, of `y` that
-- is cut; and the tensors, each with its place in that shape.
local function shaped(y, entries)
  local shape, chosen = {}, {}
  for _, e in ipairs(entries) do
    if e.kind == "new" then
      shape[#shape + 1] = 1
    elseif e.kind == "mask" then
      chosen[#chosen + 1] = { place = #shape + 1, mask = e.index }
      for d = e.dim, e.dim + e.index:dim() - 1 do shape[#shape + 1] = y:size(d) end
    elseif e.kind ~= "at" then
      shape[#shape + 1] = y:size(e.dim)
      if e.kind == "ids" then chosen[#chosen + 1] = { place = #shape, index = e.index } end
    end
  end
  return shape, chosen
end

-- ---- tensors ---------------------------------------------------------------

-- Ids by place: a mask as one column of ids for each of its dimensions.
local function columns(who, chosen)
  local list = {}
  for _, c in ipairs(chosen) do
    if c.index then
      list[#list + 1] = c
    else
      if core.tracing() then
        refuse(who, "in a compiled function a mask has no part: its shape would depend on data; "
          .. "where(mask, a, b), masked_fill and masked_scatter take one there")
      end
      local rows = c.mask:nonzero()
      for d = 1, c.mask:dim() do
        list[#list + 1] = { place = c.place + d - 1,
          index = op.reshape(op.slice(rows, 2, d, d), -1) }
      end
    end
  end
  return list
end

---@class mrt.part.Choice
---@field places integer[]   dimensions of the part that are chosen from
---@field shape integer[]    of the choice
---@field ids mrt.Tensor     one for each, among all that those dimensions have
---@field to integer         where its dimensions stand
---@field order integer[]    which brings the places there, side by side
---@field merged integer[]   the part's shape then, the places being one dimension

-- One id for each element of the choice, of columns of ids for sizes.
local function flat_ids(list, shape, sizes)
  local flat = {}
  for i, c in ipairs(list) do
    flat[i] = op.reshape(dims.expand(c.index, shape), -1)
  end
  return #flat == 1 and flat[1] or op.flat_index(flat, { dims = sizes })
end

-- Where the choice stands among `count` dimensions: the places are side by side there.
local function gather_places(out, shape)
  local is_chosen, sizes = {}, {}
  for i, p in ipairs(out.places) do is_chosen[p], sizes[i] = true, shape[p] end
  for d, n in ipairs(shape) do
    if not is_chosen[d] then
      out.order[#out.order + 1] = d
      out.merged[#out.merged + 1] = n
    end
  end
  table.insert(out.merged, out.to, dims.count(sizes))
  for i = #out.places, 1, -1 do table.insert(out.order, out.to, out.places[i]) end
  return sizes
end

---@return mrt.part.Choice
local function choice(who, shape, chosen)
  local list = columns(who, chosen)
  local places, shapes, side = {}, {}, true
  for i, c in ipairs(list) do
    places[i], shapes[i] = c.place, c.index:get_shape()
    side = side and (i == 1 or c.place == places[i - 1] + 1)
  end
  local out = { places = places, shape = dims.broadcast(who, shapes),
    to = side and places[1] or 1, order = {}, merged = {} }
  out.ids = flat_ids(list, out.shape, gather_places(out, shape))
  return out
end

local function merge(y, c)
  return op.reshape(op.permute(y, c.order), c.merged)
end

-- The shape of what is chosen.
local function chosen_shape(c)
  local shape = { table.unpack(c.merged) }
  table.remove(shape, c.to)
  for i = #c.shape, 1, -1 do table.insert(shape, c.to, c.shape[i]) end
  return shape
end

local function reshape(x, shape)
  return dims.same(x:get_shape(), shape) and x or op.reshape(x, shape)
end

-- A mask for all dimensions of x and nothing else.
local function only_mask(x, entries)
  local e = entries[1]
  return #entries == 1 and e.kind == "mask" and e.index:dim() == x:dim() and e.index or nil
end

-- ---- read ------------------------------------------------------------------

-- A vector of integers.
local function is_id_list(key)
  if not core.is_tensor(key) or key:dim() ~= 1 then return false end
  local dtype = key:get_dtype()
  return dtype ~= "bool" and not infos[dtype].floating
end

--- x[key].
---@param x mrt.Tensor
---@param key integer|mrt.Tensor|table
---@return mrt.Tensor
function part.get(x, key)
  local who <const> = "index"
  if is_id_list(key) and x:dim() > 0 then return x:index_select(1, key) end
  local entries = read(who, x, key)
  local mask = only_mask(x, entries)
  if mask and not core.tracing() then return x:masked_select(mask) end
  local y = cut(x, entries)
  local shape, chosen = shaped(y, entries)
  y = reshape(y, shape)
  if #chosen == 0 then return y end
  local c = choice(who, shape, chosen)
  return reshape(merge(y, c):index_select(c.to, c.ids), chosen_shape(c))
end

-- ---- write -----------------------------------------------------------------

-- v without leading dimensions of size 1 that `shape` has not; nil where it does not fit.
local function fitted(v, shape)
  local given = v:get_shape()
  while #given > #shape and given[1] == 1 do table.remove(given, 1) end
  if #given > #shape then return nil end
  for i, n in ipairs(given) do
    if n ~= 1 and n ~= shape[#shape - #given + i] then return nil end
  end
  return reshape(v, given)
end

-- v as a tensor of x's dtype and of this shape.
local function value_like(who, x, v, shape)
  if type(v) == "number" or type(v) == "boolean" then return dims.constant(x, v, shape) end
  if not core.is_tensor(v) then
    refuse(who, "a number or a tensor wanted, got %s", show(v))
  end
  local from, to = v:get_dtype(), x:get_dtype()
  if infos[from].floating and not infos[to].floating or to == "bool" and from ~= "bool" then
    core.fail("dtype", who, ("%s into %s; v:to %q says that it is to be rounded"):format(
      v:type(), x:type(), to))
  end
  local part_v = fitted(v, shape)
  if not part_v then
    core.fail("shape", who, ("%s into a part of shape %s"):format(v:type(), dims.text(shape)))
  end
  return dims.expand(part_v:to(to), shape)
end

-- The first of the positions of an entry in rising order, from 0, and their step.
local function rising(e)
  if e.kind == "at" then return e.first - 1, 1 end
  if e.step > 0 then return e.last < e.first and 0 or e.first - 1, e.step end
  return e.first - (e.first - e.last) // -e.step * -e.step - 1, -e.step
end

-- Where the part lies in x; ranges that go backwards are written forwards, and `turned`
-- lists them.
local function layout(x, entries)
  local first, step, turned, whole_x = {}, {}, {}, true
  for d = 1, x:dim() do first[d], step[d] = 0, 1 end
  for _, e in ipairs(entries) do
    if e.kind == "at" or e.kind == "range" then
      whole_x = false
      first[e.dim], step[e.dim] = rising(e)
      if (e.step or 1) < 0 then turned[#turned + 1] = e.dim end
    end
  end
  return { first = first, step = step }, turned, whole_x
end

-- y, a part with tensors in its index, where what they choose is v.
local function write_chosen(who, x, y, shape, chosen, v, add)
  local c = choice(who, shape, chosen)
  v = value_like(who, x, v, chosen_shape(c))
  local slices = { table.unpack(c.merged) }
  slices[c.to] = dims.count(c.shape)
  local flat, wanted = merge(y, c), slices
  flat = flat[add and "index_add" or "index_copy"](flat, c.to, c.ids, reshape(v, wanted))
  local spread, back = {}, {}
  for i, d in ipairs(c.order) do spread[i], back[d] = shape[d], i end
  return op.permute(reshape(flat, spread), back)
end

-- What a mask for all of x can do without a look at how often it is true.
local function write_masked(who, x, mask, v)
  if not core.is_tensor(v) or v:numel() == 1 then
    return op.where(mask, value_like(who, x, v, {}), x)
  end
  return core.tracing() and x:masked_scatter(mask, v) or nil
end

local function write_part(who, x, entries, v, add)
  local y = cut(x, entries)
  local size = y:get_shape()
  local shape, chosen = shaped(y, entries)
  y = reshape(y, shape)
  if #chosen > 0 then
    y = write_chosen(who, x, y, shape, chosen, v, add)
  else
    v = value_like(who, x, v, shape)
    y = add and op.add(y, v) or v
  end
  local at, turned, is_whole = layout(x, entries)
  y = reshape(y, size)
  if is_whole then return y end
  if #turned > 0 then y = op.flip(y, { dims = turned }) end
  return op.write_part(x, y, at)
end

-- Whole rows of x for a list of ids: nothing to turn or to fit.
local function has_rows(x, key, v)
  local ids = type(key) == "table" and #key == 1 and key[1] or key
  if not is_id_list(ids) or not core.is_tensor(v) or v:get_dtype() ~= x:get_dtype() then
    return nil
  end
  local shape = x:get_shape()
  shape[1] = ids:numel()
  return dims.same(v:get_shape(), shape) and ids
end

local function written(who, x, key, v, add)
  local ids = has_rows(x, key, v)
  if ids then return x[add and "index_add" or "index_copy"](x, 1, ids, v) end
  local entries = read(who, x, key)
  local mask = only_mask(x, entries)
  return mask and not add and write_masked(who, x, mask, v)
    or write_part(who, x, entries, v, add)
end

-- Ids are looked at where they are used: what they name may not be there.
local function has_ids(key)
  if core.is_tensor(key) then return key:get_dtype() ~= "bool" end
  for _, one in ipairs(type(key) == "table" and key or {}) do
    if core.is_tensor(one) and one:get_dtype() ~= "bool" then return true end
  end
  return false
end

--- x[key] = v: x is a variable that is assigned, or a handle that gets another value.
---@param x mrt.Tensor
---@param key integer|mrt.Tensor|table
---@param v mrt.Operand
function part.set(x, key, v)
  want_own("write", x)
  local y = written("write", x, key, v)
  if core.is_variable(x) then
    x:assign(y)
    return
  end
  if core.is_variable(y) or rawequal(y, v) then y = op.reshape(y, y:get_shape()) end
  if has_ids(key) and not core.tracing() then core.eval { y } end -- a bad id leaves x as it was
  core.rebind(x, y)
  part.written[x] = true
end

part.get, part.set = core.front(part.get), core.front(part.set)

--- A tensor like x in which the part that the list of indices chooses is `values`, or has
--- them added: `x:index_put({rows, columns}, v)`.
---
---     mrt.zeros(3):index_put({ mrt.tensor{0, 2} }, mrt.tensor{1.0, 5.0})  --> [1.0 0.0 5.0]
---
--- Shapes: `[...]` of x's shape.
--- Raises: indices that do not broadcast; at the run, one outside.
---@param indices table     as of x[{...}]
---@param values mrt.Operand
---@param accumulate? boolean  default false
---@return mrt.Tensor
function Tensor.index_put(x, indices, values, accumulate, ...)
  local who <const> = "index_put"
  local o = argument.read(who, { "indices", "values", "accumulate" }, indices, values,
    accumulate, ...)
  if type(o.indices) ~= "table" or core.is_tensor(o.indices) then
    refuse(who, "a list of indices wanted, got %s", show(o.indices))
  end
  return written(who, x, o.indices, o.values, o.accumulate)
end

return part
