-- reduce.lua -- samples of the reductions

local arrays = require "op.arrays"
local at, make, dim, float =
  arrays.at, arrays.make, arrays.dim, arrays.float

-- The set of dimensions that options name: none is all of them.
local function chosen(x, options)
  local dims, set = options.dim, {}
  if type(dims) == "number" then
    dims = { dims }
  end
  if not dims or #dims == 0 then
    dims = {}
    for i = 1, #x.dims do
      dims[i] = i
    end
  end
  for _, d in ipairs(dims) do
    set[dim(x, d)] = true
  end
  return set
end

-- The dims of a result, and for an index of x the key of its result.
local function shape(x, set, keepdim)
  local dims = {}
  for d, n in ipairs(x.dims) do
    if not set[d] or keepdim then
      dims[#dims + 1] = set[d] and 1 or n
    end
  end
  local function key(index)
    local offset = 0
    for d, n in ipairs(x.dims) do
      if not set[d] then
        offset = offset * n + index[d] - 1
      end
    end
    return offset + 1
  end
  return dims, key
end

-- y = start, then y = join(y, x) over the chosen dims.
local function reduction(start, join)
  return function(ins, options)
    local x = ins[1]
    local dims, key = shape(x, chosen(x, options), options.keepdim)
    local y = make(dims, function()
      return start
    end)
    make(x.dims, function(index)
      local k = key(index)
      y.data[k] = join(y.data[k], at(x, index))
    end)
    return { y }
  end
end

local function bit(v)
  return (v == true or v == 1) and 1 or 0
end

-- beats(a, b): a stands before an earlier b.
local function position(beats)
  return function(ins, options)
    local x, best = ins[1], {}
    local d = options.dim and dim(x, options.dim)
    local dims, key = shape(x, chosen(x, options), options.keepdim)
    local y = make(dims, function()
      return 0
    end)
    local flat = -1
    make(x.dims, function(index)
      local k, v = key(index), at(x, index)
      flat = flat + 1
      if best[k] == nil or beats(v, best[k]) then
        best[k], y.data[k] = v, d and index[d] - 1 or flat
      end
    end)
    return { y }
  end
end

local function larger(a, b)
  return a > b or (a ~= a and b == b)
end
local function smaller(a, b)
  return a < b or (a ~= a and b == b)
end
local function pick(before)
  return function(a, b)
    return before(b, a) and b or a
  end
end

local function sum(a, b)
  return a + b
end
local function product(a, b)
  return a * b
end

local function typed(dtype, n, ...)
  return { dims = { ... }, dtype = dtype, integer = n }
end

-- Shapes and dims for every reduction; sizes cross vectors, blocks and parts.
local function shapes(input)
  return {
    { inputs = { input(3, 4) } },
    { inputs = { input(3, 4) }, options = { dim = 1 } },
    { inputs = { input(3, 4) }, options = { dim = { 2 }, keepdim = true } },
    { inputs = { input(2, 3, 4) }, options = { dim = { 1, -1 } } },
    { inputs = { input(2, 3, 4) }, options = { dim = 2 } },
    { inputs = { input(3, 2, 2, 3) }, options = { dim = { 2, 4 } } },
    { inputs = { input(11, 37) }, options = { dim = 1 } },
    { inputs = { input(3, 75) }, options = { dim = 2 } },
    { inputs = { input(1, 5) }, options = { dim = 1 } },
    { inputs = { input() } },
    { inputs = { input(0, 3) }, options = { dim = 2 } },
  }
end

-- ... and those over nothing, where that has a meaning.
local function all_shapes(input)
  local cases = shapes(input)
  cases[#cases + 1] = { inputs = { input(0, 3) }, options = { dim = 1 } }
  cases[#cases + 1] = { inputs = { input(2, 0) } }
  return cases
end

-- For argmax and argmin, which take one dimension or none.
local function one_dim(input)
  return {
    { inputs = { input(3, 4) } },
    { inputs = { input(3, 4) }, options = { keepdim = true } },
    { inputs = { input(3, 4) }, options = { dim = 1 } },
    { inputs = { input(2, 9, 3) }, options = { dim = 2, keepdim = true } },
    { inputs = { input(5, 70) }, options = { dim = -2 } },
    { inputs = { input(5, 70) }, options = { dim = -1 } },
    { inputs = { input() } },
    { inputs = { input(0, 3) }, options = { dim = 2 } },
  }
end

local function of(dtype, n)
  return function(...)
    return typed(dtype, n, ...)
  end
end

local no_dim = {
  { inputs = { float(2, 3) }, options = { dim = 3 }, code = "value",
    match = "dim 3" },
  { inputs = { float(2, 3) }, options = { dim = { 1, -2 } }, code = "value",
    match = "twice" },
  { inputs = { typed("bool", 2, 2) }, code = "dtype", match = "wanted" },
}
local over_nothing = {
  { inputs = { float(0, 3) }, options = { dim = 1 }, code = "value",
    match = "no elements" },
  { inputs = { float(0) }, code = "value", match = "no elements" },
}
local not_bool = {
  { inputs = { float(2, 3) }, code = "dtype", match = "bool wanted" },
}

local nan = 0 / 0
local sum_of, product_of = reduction(0, sum), reduction(1, product)
local counted = reduction(0, function(a, b)
  return a + ((b ~= 0 and b ~= false) and 1 or 0)
end)
-- NaN, zeros of both signs, infinities of both signs in rows of their own.
local gaps = { 1, nan, 0, -0.0, nan, 3, math.huge, nan, 2, -math.huge, 1, nan }
local with_nan = {
  { inputs = { { dims = { 9 }, values = gaps } } },
  { inputs = { { dims = { 3, 4 }, values = gaps } }, options = { dim = 1 } },
  { inputs = { { dims = { 6, 2 }, values = gaps } }, options = { dim = 2 } },
  { inputs = { { dims = { 12 }, values = gaps } } },
}
local max_of = reduction(-math.huge, pick(larger))
local min_of = reduction(math.huge, pick(smaller))
local function pair(least, most)
  return function(...)
    return { least(...)[1], most(...)[1] }
  end
end
local both = pair(min_of, max_of)
local max_int = reduction(math.mininteger, pick(larger))
local min_int = reduction(math.maxinteger, pick(smaller))
local both_int = pair(min_int, max_int)

return {
  { op = "sum", cases = all_shapes(float), bad = { no_dim[1], no_dim[2] },
    oracle = sum_of, grad = true },
  {
    op = "sum", -- long enough for several blocks and parts
    cases = {
      { inputs = { float(40000) } },
      { inputs = { float(300, 130) }, options = { dim = 1 } },
      { inputs = { float(2, 20000) }, options = { dim = 2 } },
    },
    oracle = sum_of,
    tolerance = 1e-3, -- of a sum whose terms nearly cancel
    grad = false,
  },
  { op = "sum", cases = all_shapes(of("i64", 50)), oracle = sum_of,
    grad = false },
  { op = "sum", cases = all_shapes(of("i32", 50)), oracle = sum_of,
    grad = false },
  { op = "sum", cases = all_shapes(of("u8", 250)), oracle = sum_of,
    grad = false },
  { op = "sum", cases = all_shapes(of("bool", 2)),
    oracle = reduction(0, function(a, b)
      return a + bit(b)
    end),
    grad = false },
  { op = "nansum", cases = all_shapes(float), bad = { no_dim[1], no_dim[2],
    { inputs = { typed("i64", 3, 2) }, code = "dtype", match = "f32 or f64" } },
    oracle = sum_of, grad = true },
  { op = "nansum", cases = with_nan, grad = false, oracle = reduction(0, function(a, b)
    return b == b and a + b or a
  end) },
  { op = "count_nonzero", cases = all_shapes(float), bad = { no_dim[1], no_dim[2] },
    oracle = counted, grad = false },
  { op = "count_nonzero", cases = with_nan, oracle = counted, grad = false },
  { op = "count_nonzero", cases = all_shapes(of("i64", 3)), oracle = counted,
    grad = false },
  { op = "count_nonzero", cases = all_shapes(of("i32", 3)), oracle = counted,
    grad = false },
  { op = "count_nonzero", cases = all_shapes(of("u8", 3)), oracle = counted,
    grad = false },
  { op = "count_nonzero", cases = all_shapes(of("bool", 2)), oracle = counted,
    grad = false },
  { op = "prod", cases = all_shapes(float), bad = no_dim, oracle = product_of,
    grad = true },
  {
    op = "prod", -- the gradient at one zero, at two
    cases = {
      { inputs = { { dims = { 4 }, values = { 2, 0, -3, 0.5 } } } },
      { inputs = { { dims = { 5 }, values = { 2, 0, -3, 0, 0.5 } } } },
      { inputs = { { dims = { 2, 3 }, values = { 1, 0, 2, 3, 4, 5 } } },
        options = { dim = 2 } },
    },
    oracle = product_of,
    grad = true,
  },
  { op = "prod", cases = all_shapes(of("i64", 4)), oracle = product_of,
    grad = false },
  { op = "prod", cases = all_shapes(of("u8", 4)), oracle = product_of,
    grad = false },
  { op = "amax", cases = shapes(float), bad = { no_dim[1], no_dim[3],
    table.unpack(over_nothing) }, oracle = max_of, grad = true },
  { op = "amin", cases = shapes(float), bad = { no_dim[1], no_dim[3],
    table.unpack(over_nothing) }, oracle = min_of, grad = true },
  { op = "aminmax", cases = shapes(float), bad = { no_dim[1], no_dim[3],
    table.unpack(over_nothing) }, oracle = both, grad = true },
  { op = "aminmax", cases = shapes(of("i32", 9)), oracle = both_int, grad = false },
  { op = "amax", cases = shapes(of("i64", 9)), oracle = max_int, grad = false },
  { op = "amin", cases = shapes(of("i32", 9)), oracle = min_int, grad = false },
  { op = "amin", cases = shapes(of("u8", 9)), oracle = min_int, grad = false },
  {
    op = "amax",
    cases = { { inputs = { { dims = { 5 }, values = { 1, nan, 3, 0, 2 } } } } },
    oracle = max_of,
    grad = false,
  },
  { op = "any", cases = all_shapes(of("bool", 2)), bad = not_bool,
    oracle = reduction(0, function(a, b)
      return a | bit(b)
    end),
    grad = false },
  { op = "all", cases = all_shapes(of("bool", 2)), bad = not_bool,
    oracle = reduction(1, function(a, b)
      return a & bit(b)
    end),
    grad = false },
  { op = "argmax", cases = one_dim(float), bad = { no_dim[1], no_dim[3],
    table.unpack(over_nothing) }, oracle = position(larger), grad = false },
  { op = "argmin", cases = one_dim(float), bad = { no_dim[1], no_dim[3],
    table.unpack(over_nothing) }, oracle = position(smaller), grad = false },
  { op = "argmax", cases = one_dim(of("i64", 4)), oracle = position(larger),
    grad = false }, -- ties
  { op = "argmin", cases = one_dim(of("i32", 4)), oracle = position(smaller),
    grad = false },
  { op = "argmax", cases = one_dim(of("u8", 4)), oracle = position(larger),
    grad = false },
  {
    op = "argmin",
    cases = { { inputs = { { dims = { 5 }, values = { 1, nan, 0, nan, 2 } } } } },
    oracle = position(smaller),
    grad = false,
  },
}
