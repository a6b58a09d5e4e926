-- recurrence.lua -- samples of recurrences

local arrays = require "op.arrays"
local at, make, with, dim, float =
  arrays.at, arrays.make, arrays.with, arrays.dim, arrays.float

-- The position among x's elements of `index`.
local function place(x, index)
  local offset = 0
  for d = 1, #x.dims do offset = offset * x.dims[d] + index[d] - 1 end
  return offset + 1
end

-- Positions of dimension d in the order of the recurrence.
local function order(n, reverse)
  if reverse then return n, 1, -1 end
  return 1, n, 1
end

local function without(index, d)
  local out = {}
  for i, k in ipairs(index) do
    if i ~= d then out[#out + 1] = k end
  end
  return out
end

local function recurrence(ins, options)
  local a, b, initial = table.unpack(ins)
  local d = dim(a, options.dim)
  local h = make(a.dims, function() return 0.0 end)
  make(with(a.dims, d, a.dims[d] > 0 and 1 or 0), function(index)
    local now = initial and at(initial, without(index, d)) or 0
    local from, to, step = order(a.dims[d], options.reverse)
    for k = from, to, step do
      local i = place(a, with(index, d, k))
      now = a.data[i] * now + b.data[i]
      h.data[i] = now
    end
  end)
  return { h }
end

local function recurrence_grad(ins, options)
  local a, h, dh, initial = table.unpack(ins)
  local d = dim(a, options.dim)
  local n = a.dims[d]
  local da, db = make(a.dims, function() return 0.0 end), make(a.dims, function() return 0.0 end)
  local di = initial and make(initial.dims, function() return 0.0 end)
  make(with(a.dims, d, n > 0 and 1 or 0), function(index)
    local carry = 0
    local from, to, step = order(n, not options.reverse)
    for k = from, to, step do
      local i = place(a, with(index, d, k))
      local g = dh.data[i] + carry
      local before = initial and at(initial, without(index, d)) or 0
      if k ~= to then before = at(h, with(index, d, k + step)) end
      da.data[i], db.data[i] = g * before, g
      carry = a.data[i] * g
    end
    if di then di.data[place(di, without(index, d))] = carry end
  end)
  return { da, db, di }
end

-- dims, options, dims of initial
local shapes = {
  { { 7 }, { dim = 1 } },
  { { 7 }, { dim = -1, reverse = true } },
  { { 1 }, { dim = 1 } },
  { { 3, 5 }, { dim = 1 } },
  { { 11, 6 }, { dim = 2, reverse = true } },
  { { 2, 3, 70 }, { dim = -2 } },
  { { 2, 4, 19 }, { dim = 2, reverse = true } },
  { { 0, 3 }, { dim = 1 } },
  { { 3, 0 }, { dim = 1 } },
  { { 5 }, { dim = 1 }, {} },
  { { 3, 4 }, { dim = 1, reverse = true }, { 4 } },
  { { 2, 3, 5 }, { dim = 3 }, { 2, 3 } },
  { { 0, 3 }, { dim = 1 }, { 3 } },
}
-- Rows that are cut into blocks, whole ones and a rest.
local long = {
  { { 8192 }, { dim = 1 } },
  { { 2, 9001 }, { dim = 2, reverse = true } },
  { { 3, 12700 }, { dim = 2 }, { 3 } },
}

local function forward(dims, options, initial)
  local x = { dims = dims, low = -1.1, high = 1.1 }
  return { inputs = { x, float(table.unpack(dims)),
    initial and float(table.unpack(initial)) }, options = options }
end
local function back(dims, options, initial)
  local x = { dims = dims, low = -1.1, high = 1.1 }
  return { inputs = { x, float(table.unpack(dims)), float(table.unpack(dims)),
    initial and float(table.unpack(initial)) }, options = options }
end
local function cases(list, of)
  local out = {}
  for i, shape in ipairs(list) do out[i] = of(table.unpack(shape)) end
  return out
end

return {
  {
    op = "linear_recurrence", oracle = recurrence, grad = true, cases = cases(shapes, forward),
    bad = {
      { inputs = { float(3), float(4) }, options = { dim = 1 }, code = "shape" },
      { inputs = { float(3), float(3) }, options = { dim = 2 }, code = "value",
        match = "dim 2" },
      { inputs = { float(3, 4), float(3, 4), float(3) }, options = { dim = 1 },
        code = "shape", match = "without dim" },
      { inputs = { { dims = { 3 }, integer = 4 }, { dims = { 3 }, integer = 4 } },
        options = { dim = 1 }, code = "dtype", match = "f32 or f64" },
      { inputs = { float(3), { dims = { 3 }, integer = 4 } }, options = { dim = 1 },
        code = "dtype" },
    },
  },
  { op = "linear_recurrence", oracle = recurrence, grad = false, cases = cases(long, forward) },
  {
    op = "linear_recurrence_grad", oracle = recurrence_grad, grad = true,
    cases = cases(shapes, back),
    bad = {
      { inputs = { float(3), float(3), float(4) }, options = { dim = 1 }, code = "shape" },
    },
  },
  { op = "linear_recurrence_grad", oracle = recurrence_grad, grad = false,
    cases = cases(long, back) },
}
