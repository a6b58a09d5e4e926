--- search.lua -- methods of tensors that look for elements, and count them
---
--- Where the size of a result depends on what is in the tensor it is computed at once;
--- a compiled function has fixed sizes and refuses that, and names what it takes
--- instead.  Positions are i64 and count from 0.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local argument = require "mrt.util.argument"
local dims = require "mrt.tensor.dims"
local options = require "mrt.util.options"

local op = core.op
---@class mrt.Tensor
local Tensor = core.methods

local read, refuse = argument.read, argument.refuse
local dtypes = core.dtypes()

-- The size of the result is to be known now.
local function at_once(who, instead)
  if core.tracing() then
    core.fail("state", who, "the size of its result depends on the data, and a compiled " ..
      "function has fixed sizes: " .. instead)
  end
end

local function flag(who, o, name)
  local value = o[name]
  if value ~= nil and type(value) ~= "boolean" then
    refuse(who, "%s: true or false wanted, got %s", name, options.show(value))
  end
  return value or false
end

-- ---- what is not 0 -----------------------------------------------------------

--- Count what is not 0 (NaN is not), along dimensions or of all elements.
---
---     mrt.tensor{0, 5, 7}:count_nonzero()  --> 2
---
--- Raises: a dimension that x does not have.
---@param dim? integer|integer[]|{dim: integer|integer[]?}
---@return mrt.Tensor  i64
function Tensor.count_nonzero(x, dim)
  local o = read("count_nonzero", { "dim" }, dim)
  return op.count_nonzero(argument.tensor("count_nonzero", "x", x), { dim = o.dim })
end

-- Positions of what is not 0: `[count, rank]`, computed now.
local function positions(x)
  return op.nonzero_static(x, { size = op.count_nonzero(x):item() })
end

--- Where the elements are that are not 0, row by row: `[count, rank]`, i64.
---
--- Raises (state): in a compiled function, where `nonzero_static(size)` is known.
---
---     mrt.tensor{0, 5, 7}:nonzero()  --> [[1] [2]]
---@param as_tuple? boolean|{as_tuple: boolean?}  a result `[count]` for each dimension
---@return mrt.Tensor ...
function Tensor.nonzero(x, as_tuple)
  local o = read("nonzero", { "as_tuple" }, as_tuple)
  at_once("nonzero", "use x:nonzero_static(size)")
  if not flag("nonzero", o, "as_tuple") then return positions(x) end
  if x:dim() == 0 then x = op.reshape(x, { 1 }) end
  local at, list = positions(x), {}
  for d = 1, x:dim() do list[d] = Tensor.select(at, 2, d) end
  return table.unpack(list)
end

--- Where the elements are that are not 0: `nonzero`.
---
---     mrt.tensor{0, 5, 7}:argwhere()  --> [[1] [2]]
---
--- Raises: within a compiled function.
---@return mrt.Tensor  i64 `[count, rank]`
function Tensor.argwhere(x)
  at_once("argwhere", "use x:nonzero_static(size)")
  return positions(x)
end

-- x and mask of one shape.
local function stretched(x, mask)
  local a, b = x:get_shape(), mask:get_shape()
  local same = #a == #b
  for d = 1, #a do same = same and a[d] == b[d] end
  if same then return x, mask end
  local shape = op.where(mask, x, x):get_shape()
  return op.expand(x, shape), op.expand(mask, shape)
end

--- The elements where `mask` is true, in row-major order: `[count]`.  Gradients go to
--- where they stood.
---
--- Raises (state): in a compiled function, where `mask:where(x, 0)` keeps the shape.
---
---     mrt.tensor{1, 2, 3}:masked_select(mrt.tensor{true, false, true})  --> [1 3]
---@param mask mrt.Tensor  bool; both broadcast
---@return mrt.Tensor
function Tensor.masked_select(x, mask)
  if argument.tensor("masked_select", "mask", mask):get_dtype() ~= "bool" then
    core.fail("dtype", "masked_select", ("mask %s, bool wanted"):format(mask:type()))
  end
  at_once("masked_select", "use mask:where(x, 0), or x:gather with positions of " ..
    "mask:nonzero_static(size)")
  x, mask = stretched(x, mask)
  local at = positions(op.reshape(mask, { -1 }))
  return op.gather(op.reshape(x, { -1 }), op.reshape(at, { -1 }), { dim = 1 })
end

-- ---- different elements --------------------------------------------------------

-- The rows at `at`, 0-based.
local function rows_at(rows, at)
  if rows:dim() == 1 then return op.gather(rows, at, { dim = 1 }) end
  return op.embedding(rows, at)
end

-- The different ones of rows in order, which rows begin them, and where.
local function runs(rows)
  local n = rows:size(1)
  if n == 0 then
    return rows, op.run_starts(rows), op.full { shape = { 0 }, value = 0, dtype = "i64" }
  end
  local first = op.run_starts(rows)
  local at = op.reshape(positions(first), { -1 })
  return rows_at(rows, at), first, at
end

-- How many rows belong to each of those that begin at `at`, of n.
local function lengths(at, n)
  local stop = op.full { shape = { 1 }, value = n, dtype = "i64" }
  return op.sub(op.slice(op.cat({ at, stop }, { dim = 1 }), { dim = 1, first = 2 }), at)
end

-- The positions that put rows [n, m] in lexicographic order: by columns, from the last.
local function lexicographic(rows)
  local order = op.arange { stop = rows:size(1), dtype = "i64" }
  for column = rows:size(2), 1, -1 do
    local keys = op.gather(Tensor.select(rows, 2, column), order, { dim = 1 })
    local _, at = op.sort(keys, { dim = 1 })
    order = op.gather(order, at, { dim = 1 })
  end
  return order
end

-- x as rows [n] or, along dim, [n, m]; what makes rows of that kind x again.
local function as_rows(x, dim)
  if dim == nil then return op.reshape(x, { -1 }), function(rows) return rows end end
  local there, back = { dim }, {}
  for d = 1, x:dim() do
    if d ~= dim then there[#there + 1] = d end
  end
  for d, from in ipairs(there) do back[from] = d end
  local first = op.permute(x, there)
  local shape, n = first:get_shape(), x:size(dim)
  local each = n > 0 and first:numel() // n or 0
  return op.reshape(first, { n, each }), function(rows)
    shape[1] = rows:size(1)
    return op.permute(op.reshape(rows, shape), back)
  end
end

-- What is asked for.  `order`: where the rows stood before they were put in order.
local function results(o, x, rows, back, order)
  local n = rows:size(1)
  local values, first, at = runs(rows)
  local list = { back(values) }
  if o.return_inverse then
    local inverse = op.sub(op.cumsum(first, { dim = 1 }), 1)
    if order and n > 0 then
      local none = op.full { shape = { n }, value = 0, dtype = "i64" }
      inverse = op.scatter_add(none, order, inverse, { dim = 1 })
    end
    list[#list + 1] = o.dim and inverse or op.reshape(inverse, x:get_shape())
  end
  if o.return_counts then list[#list + 1] = n > 0 and lengths(at, n) or at end
  return table.unpack(list)
end

local function read_unique(who, names, x, ...)
  local o = read(who, names, ...)
  argument.tensor(who, "x", x)
  for _, name in ipairs { "sorted", "return_inverse", "return_counts" } do flag(who, o, name) end
  if o.dim ~= nil then
    o.dim = dims.place(who, x, o.dim)
  end
  at_once(who, "use x:sort(), whose size is fixed")
  return o
end

local unique_names = { "sorted", "return_inverse", "return_counts", "dim" }

--- The different elements, in order; with `dim` the different slices along it, in
--- lexicographic order.  Each NaN is different.
---
--- Raises (state): in a compiled function.
---
---     mrt.tensor{3, 1, 3}:unique()  --> [1 3]
---
--- Shapes: `[...]` -> `[k]`; with dim `[..., k, ...]`.
---@param sorted? boolean|table  always so
---@param return_inverse? boolean  also: to which value each element belongs, i64
---@param return_counts? boolean   also: how many belong to each value, i64
---@param dim? integer
---@return mrt.Tensor values
---@return mrt.Tensor? inverse
---@return mrt.Tensor? counts
function Tensor.unique(x, sorted, return_inverse, return_counts, dim)
  local o = read_unique("unique", unique_names, x, sorted, return_inverse, return_counts, dim)
  local rows, back = as_rows(x, o.dim)
  local ordered, order
  if rows:dim() == 1 then
    ordered, order = op.sort(rows, { dim = 1 })
  else
    order = lexicographic(rows)
    ordered = rows_at(rows, order)
  end
  if o.return_inverse then core.eval { ordered, order } end
  return results(o, x, ordered, back, order)
end

--- The elements that differ from the one before; with `dim` the slices along it.
---
--- Raises (state): in a compiled function.
---
---     mrt.tensor{1, 1, 2, 1}:unique_consecutive()  --> [1 2 1]
---
--- Shapes: `[...]` -> `[k]`; with dim `[..., k, ...]`.
---@param return_inverse? boolean|table  also: to which value each element belongs, i64
---@param return_counts? boolean         also: how many belong to each value, i64
---@param dim? integer  default: of all elements in row-major order
---@return mrt.Tensor values
---@return mrt.Tensor? inverse
---@return mrt.Tensor? counts
function Tensor.unique_consecutive(x, return_inverse, return_counts, dim)
  local o = read_unique("unique_consecutive", { "return_inverse", "return_counts", "dim" }, x,
    return_inverse, return_counts, dim)
  local rows, back = as_rows(x, o.dim)
  return results(o, x, rows, back)
end

-- ---- among sorted rows ---------------------------------------------------------

-- Both in the dtype that both have in arithmetic.
local function alike(row, values)
  if not core.is_tensor(values) then
    if type(values) ~= "number" then return row, values end
    values = op.full { shape = {}, value = values, dtype = math.type(values) == "integer"
      and not dtypes[row:get_dtype()].floating and "i64" or "f64" }
  end
  if row:get_dtype() == values:get_dtype() then return row, values end
  local like = op.add(op.full { shape = {}, value = 0, dtype = row:get_dtype() },
    op.full { shape = {}, value = 0, dtype = values:get_dtype() }):get_dtype()
  return op.cast(row, like), op.cast(values, like)
end

local function search(who, row, values, o)
  argument.tensor(who, "the sorted row", row)
  if o.side ~= nil and o.side ~= "left" and o.side ~= "right" then
    refuse(who, "side: left or right wanted, got %s", options.show(o.side))
  end
  if o.side == "left" and flag(who, o, "right") then
    refuse(who, "side: left, and right = true, which are two things")
  end
  if o.sorter ~= nil then
    argument.tensor(who, "sorter", o.sorter)
    row = op.gather(row, o.sorter, { dim = -1 })
  end
  row, values = alike(row, values)
  argument.tensor(who, "what is looked for", values)
  local y = op.searchsorted(row, values, { right = flag(who, o, "right") or o.side == "right" })
  return flag(who, o, "out_int32") and op.cast(y, "i32") or y
end

--- How many elements of this sorted row lie before each value: where it would go.
---
---     mrt.tensor{1, 3, 5}:searchsorted(mrt.tensor{4})  --> [2]
---
--- Raises: rows of other counts.
---@param values mrt.Tensor|number  any shape; of rows `[..., n]` `[..., m]`
---@param o? {out_int32: boolean?, right: boolean?, side: "left"|"right"?, sorter: mrt.Tensor?}
---  right: equal elements lie before; sorter: positions that put the row in order
---@return mrt.Tensor  i64, of the shape of values
function Tensor.searchsorted(sorted, values, ...)
  return search("searchsorted", sorted, values,
    read("searchsorted", { "out_int32", "right", "side", "sorter" }, ...))
end

--- In which bucket each element lies: how many boundaries are below it.
---
---     mrt.tensor{1, 5}:bucketize(mrt.tensor{0, 2, 4})  --> [1 3]
---
--- Raises: boundaries that are no row.
---@param boundaries mrt.Tensor  `[n]`, in order
---@param o? {out_int32: boolean?, right: boolean?}  right: a boundary belongs to the bucket
---  above it
---@return mrt.Tensor  i64, of the shape of x
function Tensor.bucketize(x, boundaries, ...)
  local o = read("bucketize", { "out_int32", "right" }, ...)
  if argument.tensor("bucketize", "boundaries", boundaries):dim() ~= 1 then
    core.fail("shape", "bucketize", ("boundaries %s, one dimension wanted")
      :format(boundaries:type()))
  end
  return search("bucketize", boundaries, x, o)
end

-- ---- counts --------------------------------------------------------------------

local function read_size(who, o, name)
  local n = o[name]
  if n ~= nil and (math.type(n) ~= "integer" or n < 0) then
    refuse(who, "%s: an integer of 0 or more wanted, got %s", name, options.show(n))
  end
  return n
end

--- How often each id occurs, or the sum of its weights: `[largest id + 1]`, or `[size]`.
---
--- Raises (state): in a compiled function without `size`; (value): a negative id.
---
---     mrt.tensor{0, 2, 2}:bincount()  --> [1 0 2]
---@param weights? mrt.Tensor|table  `[n]`, as the ids; f32, else computed in f64
---@param minlength? integer  of the result at least
---@param size? integer       of the result: then nothing depends on the data
---@return mrt.Tensor  i64, or the dtype of the weights
function Tensor.bincount(ids, weights, minlength, size)
  local o = read("bincount", { "weights", "minlength", "size" }, weights, minlength, size)
  local least = read_size("bincount", o, "minlength") or 0
  local n = read_size("bincount", o, "size")
  argument.tensor("bincount", "ids", ids)
  local function count(many)
    if o.weights == nil then return op.bincount(ids, { size = many }) end
    local w = argument.tensor("bincount", "weights", o.weights)
    if w:get_dtype() ~= "f32" then w = w:to "f64" end
    return op.bincount(ids, w, { size = many })
  end
  if n then return count(math.max(n, least)) end
  at_once("bincount", "give the option size, as in ids:bincount{size = n}")
  if ids:dim() ~= 1 or ids:numel() == 0 or ids:get_dtype() == "bool"
    or dtypes[ids:get_dtype()].floating then
    return count(least)
  end
  local low, high = op.aminmax(ids)
  if low:item() < 0 then refuse("bincount", "id %d, 0 or more wanted", low:item()) end
  return count(math.max(least, high:item() + 1))
end

local function read_bound(who, name, value)
  if value ~= nil and (type(value) ~= "number" or value ~= value or math.abs(value) == math.huge)
  then
    refuse(who, "%s: a finite number wanted, got %s", name, options.show(value))
  end
  return value or 0
end

--- How many elements lie in each of `bins` bins of one width; what lies outside, and
--- NaN, in none.
---
---     mrt.tensor{1.0, 2.0, 2.0}:histc(2, 0, 4)  --> [1.0 2.0]
---
--- Raises: bins below 1, min above max.
---@param bins? integer|table  default 100
---@param min? number  with max equal (default, 0): the bounds of the data
---@param max? number
---@return mrt.Tensor  `[bins]`, of x's dtype
function Tensor.histc(x, bins, min, max)
  local o = read("histc", { "bins", "min", "max" }, bins, min, max)
  return op.histc(argument.tensor("histc", "x", x), { bins = o.bins,
    min = read_bound("histc", "min", o.min), max = read_bound("histc", "max", o.max) })
end

return Tensor
