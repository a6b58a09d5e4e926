-- move.lua -- samples of copy, cat, pad, cumsum and divisor

local arrays = require "op.arrays"
local at, make, with, dim, float =
  arrays.at, arrays.make, arrays.with, arrays.dim, arrays.float

local function same(ins)
  return { ins[1] }
end

local function cat(ins, options)
  local d, dims = dim(ins[1], options.dim or 1), { table.unpack(ins[1].dims) }
  for i = 2, #ins do
    dims[d] = dims[d] + ins[i].dims[d]
  end
  return {
    make(dims, function(index)
      local i, k = 1, index[d]
      while k > ins[i].dims[d] do
        i, k = i + 1, k - ins[i].dims[d]
      end
      return at(ins[i], with(index, d, k))
    end),
  }
end

local function pad(ins, options)
  local x = ins[1]
  local d, before = dim(x, options.dim), options.before or 0
  local n = x.dims[d]
  return {
    make(with(x.dims, d, before + n + (options.after or 0)), function(index)
      local k = index[d] - before
      return k >= 1 and k <= n and at(x, with(index, d, k)) or 0
    end),
  }
end

local function cumsum(ins, options)
  local x = ins[1]
  local d = dim(x, options.dim)
  return {
    make(x.dims, function(index)
      local sum = 0
      local last = options.reverse and x.dims[d] or 1
      for k = index[d], last, options.reverse and 1 or -1 do
        sum = sum + at(x, with(index, d, k))
      end
      return sum
    end),
  }
end

local function divisors(dtype, ...)
  return { dims = { ... }, dtype = dtype, values = { 3, 1, 2, 7, 9, 5, 100, 4, 6, 8 } }
end

local function typed(dtype, ...)
  return { dims = { ... }, dtype = dtype, integer = 50 }
end

return {
  {
    op = "copy",
    cases = {
      { inputs = { float(3, 4) } },
      { inputs = { float(2, 17, 19) } },
      { inputs = { float() } },
      { inputs = { float(0, 3) } },
    },
    oracle = same,
    grad = true,
  },
  {
    op = "copy",
    cases = {
      { inputs = { typed("i64", 9, 8) } },
      { inputs = { typed("u8", 3, 5) } },
    },
    oracle = same,
    grad = false,
  },
  {
    op = "cat",
    cases = {
      { inputs = { float(2, 3), float(4, 3) } },
      { inputs = { float(2, 3), float(2, 1), float(2, 5) },
        options = { dim = 2 } },
      { inputs = { float(2, 3, 2), float(2, 0, 2) }, options = { dim = -2 } },
      { inputs = { float(3) } },
      { inputs = { float(0), float(0) } },
    },
    bad = {
      { inputs = { float(2, 3), float(2, 4) }, code = "shape",
        match = "other dims equal" },
      { inputs = { float(2, 3), float(2) }, code = "shape",
        match = "other dims equal" },
      { inputs = { float(2), typed("i64", 2) }, code = "dtype",
        match = "equal dtypes" },
      { inputs = { float(2) }, options = { dim = 2 }, code = "value",
        match = "dim 2" },
      { inputs = { float() }, code = "value", match = "no dimensions" },
    },
    oracle = cat,
    grad = true,
  },
  {
    op = "cat",
    cases = {
      { inputs = { typed("i32", 2, 2), typed("i32", 1, 2) } },
      { inputs = { typed("u8", 3, 2), typed("u8", 3, 1) },
        options = { dim = 2 } },
    },
    oracle = cat,
    grad = false,
  },
  {
    op = "pad",
    cases = {
      { inputs = { float(3, 2) }, options = { dim = 1, before = 2, after = 1 } },
      { inputs = { float(3, 2) }, options = { dim = -1, after = 3 } },
      { inputs = { float(2, 3, 2) }, options = { dim = 2, before = 1 } },
      { inputs = { float(2, 3) }, options = { dim = 2 } },
      { inputs = { float(2, 0) }, options = { dim = 2, before = 2 } },
    },
    bad = {
      { inputs = { float(3) }, options = { dim = 1, before = -1 },
        code = "value", match = "-1 before" },
      { inputs = { float(3) }, options = { dim = 2 },
        code = "value", match = "dim 2" },
    },
    oracle = pad,
    grad = true,
  },
  {
    op = "pad",
    cases = {
      { inputs = { typed("i64", 3) }, options = { dim = 1, before = 1 } },
    },
    oracle = pad,
    grad = false,
  },
  {
    op = "cumsum",
    cases = {
      { inputs = { float(7) }, options = { dim = 1 } },
      { inputs = { float(3, 5) }, options = { dim = 1 } },
      { inputs = { float(3, 5) }, options = { dim = 2, reverse = true } },
      { inputs = { float(2, 3, 70) }, options = { dim = -2 } },
      { inputs = { float(0, 3) }, options = { dim = 1, reverse = true } },
    },
    bad = {
      { inputs = { float(3) }, options = { dim = 2 },
        code = "value", match = "dim 2" },
    },
    oracle = cumsum,
    grad = true,
  },
  {
    op = "cumsum",
    cases = {
      { inputs = { typed("i64", 3, 4) }, options = { dim = 2 } },
      { inputs = { typed("i32", 3, 4) }, options = { dim = 1, reverse = true } },
      { inputs = { typed("u8", 2, 300) }, options = { dim = 2 } },
    },
    oracle = cumsum,
    grad = false,
  },
  {
    op = "divisor",
    cases = {
      { inputs = { divisors("i64", 2, 5) } }, { inputs = { divisors("i32", 10) } },
      { inputs = { divisors("u8", 1, 3) } }, { inputs = { divisors("i64", 0) } },
      { inputs = { divisors("i32") } },
    },
    bad = { { inputs = { float(3) }, code = "dtype", match = "an integer or bool wanted" } },
    oracle = same,
    grad = false,
  },
}
