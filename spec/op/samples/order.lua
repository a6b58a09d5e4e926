-- order.lua -- samples of sort, topk, kthvalue, median, mode

local arrays = require "op.arrays"
local at, make, with, dim, float =
  arrays.at, arrays.make, arrays.with, arrays.dim, arrays.float

local nan = 0 / 0

-- NaN comes last; equal elements stay in their order.
local function before(a, b)
  if a.value < b.value then return true end
  if a.value > b.value then return false end
  if a.value ~= a.value or b.value ~= b.value then
    if a.value == a.value then return true end
    if b.value == b.value then return false end
  end
  return a.position < b.position
end

local function after(a, b)
  if a.value > b.value then return true end
  if a.value < b.value then return false end
  if a.value ~= a.value or b.value ~= b.value then
    if a.value ~= a.value and b.value == b.value then return true end
    if b.value ~= b.value and a.value == a.value then return false end
  end
  return a.position < b.position
end

-- choose(row) lists what becomes of a row, along dim; keepdim false drops dim.
local function along(ins, options, choose, keepdim, count)
  local x = ins[1]
  local d = #x.dims == 0 and 1 or dim(x, options.dim or -1)
  local n = #x.dims == 0 and 1 or x.dims[d]
  local dims, rows = {}, {}
  for i, size in ipairs(x.dims) do
    if i ~= d then dims[#dims + 1] = size
    elseif keepdim then dims[#dims + 1] = count or 1 end
  end
  local function row_of(index)
    local key = table.concat(#x.dims == 0 and {} or with(index, d, 0), ",")
    if rows[key] then return rows[key] end
    local row = {}
    for k = 1, n do
      row[k] = { value = at(x, #x.dims == 0 and {} or with(index, d, k)), position = k - 1 }
    end
    rows[key] = choose(row, n)
    return rows[key]
  end
  local function field(name)
    return make(dims, function(index)
      local full = { table.unpack(index) }
      if not keepdim and #x.dims > 0 then table.insert(full, d, 1) end
      return row_of(full)[keepdim and index[d] or 1][name]
    end)
  end
  return { field "value", field "position" }
end

local function sorted(row, order)
  local copy = { table.unpack(row) }
  table.sort(copy, order)
  return copy
end

local function sort(ins, options)
  local x = ins[1]
  return along(ins, options, function(row)
    return sorted(row, options.descending and after or before)
  end, true, x.dims[dim(x, options.dim or -1)])
end

local function topk(ins, options)
  local order = options.largest == false and before or after
  return along(ins, options, function(row)
    local list, all = {}, sorted(row, order)
    for i = 1, options.k do list[i] = all[i] end
    if options.sorted == false then
      table.sort(list, function(a, b) return a.position < b.position end)
    end
    return list
  end, true, options.k)
end

local function kthvalue(ins, options)
  return along(ins, options, function(row)
    return { sorted(row, before)[options.k] }
  end, options.keepdim)
end

local function median(ins, options)
  return along(ins, options, function(row)
    local numbers, first = {}, nil
    for _, e in ipairs(row) do
      if e.value == e.value then numbers[#numbers + 1] = e
      else first = first or e end
    end
    if first and (not options.skip_nan or #numbers == 0) then return { first } end
    return { sorted(numbers, before)[(#numbers + 1) // 2] }
  end, options.keepdim)
end

local function mode(ins, options)
  return along(ins, options, function(row)
    local list, best, most, run = sorted(row, before), 0, 0, 0
    for i, e in ipairs(list) do
      run = (i > 1 and list[i - 1].value == e.value) and run + 1 or 1
      if run > most then best, most = e, run end
    end
    return { best }
  end, options.keepdim)
end

local function typed(dtype, n, ...)
  return { dims = { ... }, dtype = dtype, integer = n }
end

local edges = { dims = { 9 }, values = { 1, nan, -0.0, 3, 0.0, nan, -math.huge, 3, -2 } }

-- Shapes along which rows are few, many, short, merged, by bytes, shared.
local function shapes(more)
  local list = {}
  local function case(input, d)
    local options = { dim = d }
    for k, v in pairs(more or {}) do options[k] = v end
    list[#list + 1] = { inputs = { input }, options = options }
  end
  case(float(7), 1)
  case(float(5, 40), -1)
  case(float(40, 3), 1)
  case(float(2, 11, 3), 2)
  case(float(), -1)
  case(float(4, 0, 3), 1)
  case(float(3, 70), 2)
  case(float(500), -1)
  case(float(300, 2), 1)
  case(typed("i64", 1000000, 400), 1)
  case(typed("i64", 5, 3, 60), 2)
  case(typed("i32", 50, 20, 9), 1)
  case(typed("u8", 250, 260), 1)
  case({ dims = { 3, 50 }, dtype = "bool" }, 2)
  return list
end

local function append(list, ...)
  for _, case in ipairs { ... } do list[#list + 1] = case end
  return list
end

local bad_dim = { inputs = { float(2, 3) }, options = { dim = 3, k = 1 }, code = "value",
  match = "dim 3" }
local no_elements = { inputs = { float(0, 3) }, options = { dim = 1 }, code = "value",
  match = "no elements" }

return {
  {
    op = "sort",
    cases = append(shapes(), { inputs = { float(0) } }, { inputs = { float(4, 0) } }),
    bad = { { inputs = { float(2, 3) }, options = { dim = 3 }, code = "value",
      match = "dim 3" } },
    oracle = sort,
    grad = true,
  },
  { op = "sort", cases = shapes { descending = true }, oracle = sort, grad = true },
  { op = "sort", cases = { { inputs = { edges } },
    { inputs = { edges }, options = { descending = true } },
    { inputs = { float(20000) } }, { inputs = { typed("i64", 30, 17000) } } },
    oracle = sort, grad = false },
  { op = "topk", cases = append(shapes { k = 1 },
      { inputs = { float(30) }, options = { k = 7 } },
      { inputs = { float(2, 30, 2) }, options = { k = 5, dim = 2, largest = false } },
      { inputs = { float(3, 400) }, options = { k = 100 } },
      { inputs = { float(3, 400) }, options = { k = 40, sorted = false } },
      { inputs = { float(3, 40) }, options = { k = 40 } },
      { inputs = { float(3, 40) }, options = { k = 0 } },
      { inputs = { typed("i64", 7, 300) }, options = { k = 50 } },
      { inputs = { typed("u8", 2, 300) }, options = { k = 290, largest = false } }),
    bad = { bad_dim,
      { inputs = { float(2, 3) }, options = { k = 4 }, code = "value", match = "k = 4" },
      { inputs = { float(2, 3) }, options = { k = -1 }, code = "value", match = "k = -1" } },
    oracle = topk, grad = true },
  { op = "topk", cases = { { inputs = { edges }, options = { k = 4 } },
      { inputs = { edges }, options = { k = 4, largest = false } } },
    oracle = topk, grad = false },
  { op = "kthvalue", cases = append(shapes { k = 1 },
      { inputs = { float(2, 30, 2) }, options = { k = 5, dim = 2 } },
      { inputs = { float(3, 400) }, options = { k = 200, keepdim = true } },
      { inputs = { typed("i64", 7, 300) }, options = { k = 150 } },
      { inputs = { typed("u8", 2, 300) }, options = { k = 299 } }),
    bad = { bad_dim,
      { inputs = { float(2, 3) }, options = { k = 4 }, code = "value", match = "k = 4" },
      { inputs = { float(2, 3) }, options = { k = 0 }, code = "value", match = "k = 0" } },
    oracle = kthvalue, grad = true },
  { op = "kthvalue", cases = { { inputs = { edges }, options = { k = 3 } },
      { inputs = { edges }, options = { k = 9 } } },
    oracle = kthvalue, grad = false },
  { op = "median", cases = append(shapes(),
      { inputs = { float(3, 8) }, options = { keepdim = true } }),
    bad = { { inputs = { float(2, 3) }, options = { dim = -3 }, code = "value",
      match = "dim -3" }, no_elements },
    oracle = median, grad = true },
  { op = "median", cases = { { inputs = { edges } },
      { inputs = { edges }, options = { skip_nan = true } },
      { inputs = { { dims = { 3 }, values = { nan, nan, nan } } },
        options = { skip_nan = true } } },
    oracle = median, grad = false },
  { op = "mode", cases = append(shapes(),
      { inputs = { typed("i32", 3, 4, 30) }, options = { keepdim = true } }),
    bad = { { inputs = { float(2, 3) }, options = { dim = -3 }, code = "value",
      match = "dim -3" }, no_elements },
    oracle = mode, grad = true },
  { op = "mode", cases = { { inputs = { edges } },
      { inputs = { { dims = { 5 }, values = { nan, 2, nan, nan, 1 } } } } },
    oracle = mode, grad = false },
}
