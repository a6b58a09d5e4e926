-- scatter.lua -- samples of what writes by index, flat_index and permutation

local arrays = require "op.arrays"
local at, make, with, dim, float =
  arrays.at, arrays.make, arrays.with, arrays.dim, arrays.float

local function scattered(into)
  return function(ins, options)
    local x, ids, src = ins[1], ins[2], ins[3]
    local d = dim(x, options.dim)
    local y = { dims = x.dims, data = { table.unpack(x.data) } }
    make(ids.dims, function(index)
      local offset = 0
      local to = with(index, d, at(ids, index) + 1)
      for i = 1, #x.dims do
        offset = offset * x.dims[i] + to[i] - 1
      end
      y.data[offset + 1] = into(y.data[offset + 1], at(src, index), options.reduce)
    end)
    return { y }
  end
end

local function reduced(a, b, how)
  if how == "prod" then return a * b end
  return how == "amax" and math.max(a, b) or math.min(a, b)
end

local function flat_index(ins, options)
  return { make(ins[1].dims, function(index)
    local k = 0
    for i, ids in ipairs(ins) do k = k * options.dims[i] + at(ids, index) end
    return k
  end) }
end

local function permutation(ins)
  local y, n = {}, ins[1].dims[1]
  for i = 1, n do y[i] = i - 1 end
  for i = 1, n do
    local j = i + math.floor(ins[1].data[i] * (n - i + 1))
    y[i], y[j] = y[j], y[i]
  end
  return { { dims = { n }, data = y } }
end

local function write_part(ins, options)
  local x, part = ins[1], ins[2]
  return { make(x.dims, function(index)
    local from = {}
    for d, i in ipairs(index) do
      local k = i - 1 - options.first[d]
      local j = k // options.step[d]
      if k < 0 or k % options.step[d] ~= 0 or j >= part.dims[d] then return at(x, index) end
      from[d] = j + 1
    end
    return at(part, from)
  end) }
end

-- Ids below n.
local function ids(n, dims, dtype)
  return { dims = dims, dtype = dtype or "i64", integer = n }
end

local function typed(dtype, ...)
  return { dims = { ... }, dtype = dtype, integer = dtype == "bool" and 2 or 50 }
end

local function cases(options)
  local function given(d)
    local out = { dim = d }
    for name, value in pairs(options) do out[name] = value end
    return out
  end
  return {
    { inputs = { float(3), ids(3, { 8 }), float(8) }, options = given(1) },
    { inputs = { float(4, 3), ids(4, { 6, 3 }), float(6, 3) }, options = given(1) },
    { inputs = { float(4, 3), ids(3, { 2, 7 }, "i32"), float(2, 7) }, options = given(-1) },
    { inputs = { float(2, 4, 3), ids(4, { 1, 5, 2 }, "u8"), float(1, 5, 2) },
      options = given(2) },
    { inputs = { float(4, 3), ids(4, { 0, 3 }), float(0, 3) }, options = given(1) },
    { inputs = { float(0, 3), ids(4, { 0, 3 }), float(0, 3) }, options = given(1) },
  }
end

local function integers(...)
  local list = {}
  for i, dtype in ipairs { ... } do
    list[i] = { inputs = { typed(dtype, 3), ids(3, { 8 }), typed(dtype, 8) },
      options = { dim = 1 } }
  end
  return list
end

local misfits = {
  { inputs = { float(4), ids(4, { 3 }), float(2) }, options = { dim = 1 },
    code = "shape", match = "equal shapes" },
  { inputs = { float(4), ids(4, { 3 }), ids(4, { 3 }) }, options = { dim = 1 },
    code = "dtype", match = "equal dtypes" },
  { inputs = { float(4), float(3), float(3) }, options = { dim = 1 },
    code = "dtype", match = "i64, i32 or u8" },
  { inputs = { float(0), ids(1, { 3 }), float(3) }, options = { dim = 1 },
    code = "value", match = "empty" },
}

local function write(_, b) return b end
local function add(a, b) return a + b end
local function wrapped(a, b) return (a + b) % 256 end

local function reduce_rows(how)
  return {
    op = "scatter_reduce",
    cases = cases { reduce = how },
    bad = {
      { inputs = { float(4), ids(4, { 3 }), float(2) }, options = { dim = 1, reduce = how },
        code = "shape", match = "equal shapes" },
      { inputs = { typed("bool", 4), ids(4, { 3 }), typed("bool", 3) },
        options = { dim = 1, reduce = how }, code = "dtype", match = "i32 or u8" },
    },
    oracle = scattered(reduced),
    grad = { 1, 3 },
  }
end

return {
  { op = "scatter", cases = cases {}, bad = misfits, oracle = scattered(write), grad = { 1, 3 } },
  { op = "scatter", cases = integers("i64", "i32", "u8", "bool"), oracle = scattered(write),
    grad = false },
  { op = "scatter_add", cases = cases {}, bad = misfits, oracle = scattered(add),
    grad = { 1, 3 } },
  { op = "scatter_add", cases = integers("i64", "i32"), oracle = scattered(add), grad = false },
  { op = "scatter_add", cases = integers "u8", oracle = scattered(wrapped), grad = false },
  reduce_rows "prod",
  reduce_rows "amax",
  reduce_rows "amin",
  {
    op = "write_part",
    cases = {
      { inputs = { float(5), float(2) }, options = { first = { 1 }, step = { 2 } } },
      { inputs = { float(4, 6), float(4, 2) }, options = { first = { 0, 3 }, step = { 1, 1 } } },
      { inputs = { float(3, 20), float(2, 17) }, options = { first = { 0, 2 }, step = { 2, 1 } } },
      { inputs = { float(4, 6), float(0, 2) }, options = { first = { 4, 3 }, step = { 1, 1 } } },
      { inputs = { float(), float() }, options = { first = {}, step = {} } },
    },
    bad = {
      { inputs = { float(5), float(3) }, options = { first = { 1 }, step = { 2 } },
        code = "value", match = "along dim 1" },
      { inputs = { float(5), float(1) }, options = { first = { -1 }, step = { 1 } },
        code = "value", match = "from -1" },
      { inputs = { float(5), float(1, 1) }, options = { first = { 0 }, step = { 1 } },
        code = "shape", match = "one rank" },
      { inputs = { float(5), ids(4, { 1 }) }, options = { first = { 0 }, step = { 1 } },
        code = "dtype", match = "equal dtypes" },
    },
    oracle = write_part,
    grad = true,
  },
  {
    op = "flat_index",
    cases = {
      { inputs = { ids(3, { 4 }), ids(5, { 4 }, "i32") }, options = { dims = { 3, 5 } } },
      { inputs = { ids(2, { 2, 3 }), ids(3, { 2, 3 }), ids(4, { 2, 3 }, "u8") },
        options = { dims = { 2, 3, 4 } } },
      { inputs = { ids(7, {}) }, options = { dims = { 7 } } },
      { inputs = { ids(7, { 0 }), ids(7, { 0 }) }, options = { dims = { 0, 7 } } },
    },
    bad = {
      { inputs = { ids(3, { 4 }), ids(3, { 5 }) }, options = { dims = { 3, 3 } },
        code = "shape", match = "equal shapes" },
      { inputs = { ids(3, { 4 }) }, options = { dims = { 3, 3 } },
        code = "value", match = "one each" },
      { inputs = { ids(3, { 4 }) }, options = { dims = { 2 ^ 62 // 1 | 0 } },
        code = "shape", match = "flat_index" },
      { inputs = { ids(3, { 4 }) }, options = { dims = { 0 } }, code = "value",
        match = "empty" },
      { inputs = { float(4) }, options = { dims = { 3 } }, code = "dtype",
        match = "i64, i32 or u8" },
    },
    oracle = flat_index,
    grad = false,
  },
  {
    op = "permutation",
    cases = {
      { inputs = { { dims = { 50 }, dtype = "f64", low = 0, high = 0.999 } } },
      { inputs = { { dims = { 1 }, dtype = "f64", low = 0, high = 0.999 } } },
      { inputs = { { dims = { 0 }, dtype = "f64" } } },
    },
    bad = {
      { inputs = { { dims = { 5 }, dtype = "f32" } }, code = "dtype", match = "f64" },
      { inputs = { { dims = { 5, 2 }, dtype = "f64" } }, code = "shape",
        match = "one dimension" },
    },
    oracle = permutation,
    grad = false,
  },
}
