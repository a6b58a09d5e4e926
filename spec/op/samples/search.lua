-- search.lua -- samples of searchsorted, bincount, nonzero_static

local arrays = require "op.arrays"
local at, make, with, float = arrays.at, arrays.make, arrays.with, arrays.float

local nan = 0 / 0

local function searchsorted(ins, options)
  local row, values = ins[1], ins[2]
  local n = row.dims[#row.dims]
  return { make(values.dims, function(index)
    local v, count = at(values, index), 0
    for k = 1, n do
      local x = at(row, #row.dims == 1 and { k } or with(index, #index, k))
      local passed = x < v
      if options.right then passed = x <= v end
      if v ~= v or passed then count = count + 1 end
    end
    return count
  end) }
end

local function bincount(ins, options)
  local y = make({ options.size }, function() return 0 end)
  for i, id in ipairs(ins[1].data) do
    y.data[id + 1] = y.data[id + 1] + (ins[2] and ins[2].data[i] or 1)
  end
  return { y }
end

local function nonzero(ins, options)
  local x, found = ins[1], {}
  make(x.dims, function(index)
    if at(x, index) ~= 0 then
      local place = {}
      for d, k in ipairs(index) do place[d] = k - 1 end
      found[#found + 1] = place
    end
  end)
  return { make({ options.size, #x.dims }, function(index)
    local place = found[index[1]]
    return place and place[index[2]] or options.fill_value or -1
  end) }
end

local function histc(ins, options)
  local x, bins = ins[1], options.bins or 100
  local low, high = options.min or 0, options.max or 0
  if low == 0 and high == 0 and #x.data > 0 then
    low, high = math.huge, -math.huge
    for _, v in ipairs(x.data) do low, high = math.min(low, v), math.max(high, v) end
  end
  if low == high then low, high = low - 1, high + 1 end
  local y = make({ bins }, function() return high - low < math.huge and 0 or nan end)
  for _, v in ipairs(x.data) do
    if v >= low and v <= high then
      local bin = math.min(bins, math.floor((v - low) * bins / (high - low)) + 1)
      y.data[bin] = y.data[bin] + 1
    end
  end
  return { y }
end

local function run_starts(ins)
  local x = ins[1]
  return { make({ x.dims[1] }, function(index)
    local i, differs = index[1], index[1] == 1
    for k = 1, x.dims[2] or 1 do
      if i > 1 and at(x, { i, k }) ~= at(x, { i - 1, k }) then differs = true end
    end
    return differs and 1 or 0
  end) }
end

local function row(...) return { dims = { select("#", ...) }, values = { ... } } end
local function typed(dtype, n, ...)
  return { dims = { ... }, dtype = dtype, integer = n }
end
-- Numbers that bins of 1/8 hold exactly.
local function eighths(n)
  local list = {}
  for i = 1, n do list[i] = i * 37 % 129 / 8 end
  return list
end
local table_of = { dims = { 2, 4 }, values = { -1, 0, 0.25, 0.5, -0.5, -0.5, 0.75, 0.9 } }
local integers = { dims = { 5 }, dtype = "i64", values = { 1, 1, 3, 5, 5 } }

local function searches(right)
  return {
    { inputs = { row(-0.5, 0, 0.25, 0.25, 0.5), float(40) }, options = { right = right } },
    { inputs = { row(-0.5, 0, 0.25, 0.25, 0.5), row(0.25, nan, -0.5, math.huge, 0.5) },
      options = { right = right } },
    { inputs = { row(0.1), float(3, 3) }, options = { right = right } },
    { inputs = { table_of, float(2, 37) }, options = { right = right } },
    { inputs = { table_of, float(2, 0) }, options = { right = right } },
    { inputs = { float(0), float(4) }, options = { right = right } },
    { inputs = { row(0.1, 0.2), float() }, options = { right = right } },
    { inputs = { integers, typed("i64", 7, 20) }, options = { right = right } },
    { inputs = { { dims = { 3 }, dtype = "i32", values = { 1, 4, 4 } },
      typed("i32", 7, 20) }, options = { right = right } },
    { inputs = { { dims = { 3 }, dtype = "u8", values = { 1, 4, 200 } },
      typed("u8", 250, 20) }, options = { right = right } },
  }
end

return {
  { op = "searchsorted", cases = searches(false), bad = {
      { inputs = { float(2, 4), float(3, 4) }, code = "shape", match = "leading" },
      { inputs = { float(), float(3, 4) }, code = "shape", match = "leading" },
      { inputs = { float(4), typed("i64", 3, 4) }, code = "dtype", match = "equal dtypes" },
      { inputs = { { dims = { 3 }, dtype = "bool" }, { dims = { 3 }, dtype = "bool" } },
        code = "dtype", match = "an integer wanted" } },
    oracle = searchsorted, grad = false },
  { op = "searchsorted", cases = searches(true), oracle = searchsorted, grad = false },
  { op = "bincount", cases = {
      { inputs = { typed("i64", 6, 40) }, options = { size = 6 } },
      { inputs = { typed("i64", 6, 30000) }, options = { size = 9 } },
      { inputs = { typed("i32", 6, 40) }, options = { size = 20000 } },
      { inputs = { typed("u8", 6, 0) }, options = { size = 3 } },
      { inputs = { typed("u8", 6, 0) }, options = { size = 0 } },
      { inputs = { typed("i64", 6, 40), float(40) }, options = { size = 7 } },
      { inputs = { typed("i64", 6, 0), float(0) }, options = { size = 2 } },
    }, bad = {
      { inputs = { typed("i64", 6, 2, 2) }, options = { size = 7 }, code = "shape",
        match = "one dimension" },
      { inputs = { float(4) }, options = { size = 7 }, code = "dtype",
        match = "i64, i32 or u8" },
      { inputs = { typed("i64", 6, 4), float(3) }, options = { size = 7 }, code = "shape",
        match = "equal shapes" },
      { inputs = { typed("i64", 6, 4) }, options = { size = 0 }, code = "value",
        match = "size 0" },
    }, oracle = bincount, grad = { 2 } },
  { op = "histc", cases = {
      { inputs = { row(0.5, 1, 1.75, 2, 3, 4, -1) }, options = { bins = 4 } },
      { inputs = { row(0.5, 1, 1.75, 2, 3, 4, -1) }, options = { bins = 4, min = 0, max = 4 } },
      { inputs = { row(0.5, nan, 2, math.huge) }, options = { bins = 2, min = 0, max = 4 } },
      { inputs = { row(0.5, -math.huge, 2) }, options = { bins = 2 } },
      { inputs = { row(3, 3, 3) }, options = { bins = 3 } },
      { inputs = { row(3, 3, 3) }, options = { bins = 4, min = 3, max = 3 } },
      { inputs = { { dims = { 8, 4000 }, values = eighths(32000) } }, options = { bins = 16 } },
      { inputs = { float(0) }, options = { bins = 2 } },
      { inputs = { { dims = {}, values = { 2 } } } },
    }, bad = {
      { inputs = { float(3) }, options = { bins = 0 }, code = "value", match = "0 bins" },
      { inputs = { float(3) }, options = { min = 2, max = 1 }, code = "value",
        match = "the smaller first" },
      { inputs = { float(3) }, options = { max = math.huge }, code = "value", match = "finite" },
      { inputs = { typed("i64", 3, 3) }, code = "dtype", match = "f32 or f64" },
    }, oracle = histc, grad = false },
  { op = "run_starts", cases = {
      { inputs = { row(1, 1, nan, nan, 2, -0.0, 0, 3) } },
      { inputs = { typed("i64", 2, 300000) } },
      { inputs = { typed("i32", 2, 30, 2) } },
      { inputs = { typed("u8", 2, 30) } },
      { inputs = { { dims = { 20 }, dtype = "bool" } } },
      { inputs = { float(0) } },
      { inputs = { float(3, 0) } },
      { inputs = { float(1, 2) } },
    }, bad = {
      { inputs = { float() }, code = "shape", match = "one or two" },
      { inputs = { float(2, 2, 2) }, code = "shape", match = "one or two" },
    }, oracle = run_starts, grad = false },
  { op = "nonzero_static", cases = {
      { inputs = { { dims = { 40 }, dtype = "bool" } }, options = { size = 40 } },
      { inputs = { { dims = { 3, 7, 2 }, dtype = "bool" } }, options = { size = 25 } },
      { inputs = { { dims = { 30000 }, dtype = "bool" } }, options = { size = 20000 } },
      { inputs = { { dims = { 200, 150 }, dtype = "bool" } }, options = { size = 9000 } },
      { inputs = { typed("i64", 3, 4, 9) }, options = { size = 10, fill_value = 0 } },
      { inputs = { typed("i32", 3, 4, 9) }, options = { size = 100, fill_value = 7 } },
      { inputs = { typed("u8", 3, 4, 9) }, options = { size = 0 } },
      { inputs = { row(1, 0, nan, -0.0, 2) }, options = { size = 5 } },
      { inputs = { { dims = {}, dtype = "bool" } }, options = { size = 1 } },
      { inputs = { float(0, 3) }, options = { size = 2 } },
    }, bad = {
      { inputs = { float(4) }, options = { size = -1 }, code = "value", match = "size -1" },
    }, oracle = nonzero, grad = false },
}
