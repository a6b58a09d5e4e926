-- softmax.lua -- samples of softmax, log_softmax and their gradients
--
-- Widths cross the edges of vectors; dimensions are the last (contiguous rows)
-- and others (columns side by side).

local function extent(dims, from, to)
  local n = 1
  for i = from, to do
    n = n * dims[i]
  end
  return n
end

-- Call f(index) for each line of the inputs along `dim`; index(i) is the place
-- of its i-th element in the flat lists, i = 1..n.
local function each_line(dims, dim, f)
  dim = dim or -1
  dim = dim < 0 and dim + #dims + 1 or dim
  local outer, n = extent(dims, 1, dim - 1), dims[dim]
  local inner = extent(dims, dim + 1, #dims)
  for o = 0, outer - 1 do
    for j = 1, inner do
      f(function(i)
        return (o * n + i - 1) * inner + j
      end, n)
    end
  end
end

-- An oracle from `line(get, n)`, which returns a list of n results; get(k, i)
-- is the i-th element of the line in input k.
local function along(line)
  return function(ins, options)
    local data = {}
    each_line(ins[1].dims, options.dim, function(index, n)
      local y = line(function(k, i)
        return ins[k].data[index(i)]
      end, n)
      for i = 1, n do
        data[index(i)] = y[i]
      end
    end)
    return { { dims = ins[1].dims, data = data } }
  end
end

local function list(n, f)
  local t = {}
  for i = 1, n do
    t[i] = f(i)
  end
  return t
end

local function sum(n, f)
  local s = 0.0
  for i = 1, n do
    s = s + f(i)
  end
  return s
end

local softmax = along(function(x, n)
  local max = -math.huge
  for i = 1, n do
    max = math.max(max, x(1, i))
  end
  local e = list(n, function(i)
    return math.exp(x(1, i) - max)
  end)
  local total = sum(n, function(i)
    return e[i]
  end)
  return list(n, function(i)
    return e[i] / total
  end)
end)

local log_softmax = along(function(x, n)
  local max = -math.huge
  for i = 1, n do
    max = math.max(max, x(1, i))
  end
  local log_sum = math.log(sum(n, function(i)
    return math.exp(x(1, i) - max)
  end))
  return list(n, function(i)
    return x(1, i) - max - log_sum
  end)
end)

local softmax_grad = along(function(x, n)
  local dot = sum(n, function(i)
    return x(1, i) * x(2, i)
  end)
  return list(n, function(i)
    return x(1, i) * (x(2, i) - dot)
  end)
end)

local log_softmax_grad = along(function(x, n)
  local total = sum(n, function(i)
    return x(2, i)
  end)
  return list(n, function(i)
    return x(2, i) - math.exp(x(1, i)) * total
  end)
end)

local shapes = {
  { dims = { 3, 4 } },
  { dims = { 3, 4 }, dim = 1 },
  { dims = { 5 }, dim = -1 },
  { dims = { 2, 67 }, dim = 2 },
  { dims = { 2, 3, 5 }, dim = 2 },
  { dims = { 2, 3, 131 }, dim = -2 },
  { dims = { 4, 1 }, dim = 2 },
  { dims = { 1, 4, 1, 3 }, dim = 1 },
  { dims = { 0, 3 }, dim = 2 },
  { dims = { 3, 0 }, dim = 2 },
  { dims = { 3, 2, 0 }, dim = 2 },
}

local function cases(ninputs)
  return list(#shapes, function(i)
    local shape = shapes[i]
    local inputs = list(ninputs, function()
      return { dims = shape.dims, low = -2, high = 2 }
    end)
    return { inputs = inputs, options = { dim = shape.dim } }
  end)
end

local one, two = cases(1), cases(2)
one[#one + 1] = { inputs = { { dims = { 4 }, values = { -80, 0, 1, 80 } } } }

local x, scalar = { dims = { 3, 4 } }, { dims = {} }
local ids = { dims = { 3, 4 }, dtype = "i64", integer = 9 }
local bad_one = {
  { inputs = { x }, options = { dim = 3 }, code = "value", match = "dim 3" },
  { inputs = { x }, options = { dim = -3 }, code = "value", match = "dim -3" },
  { inputs = { scalar }, code = "value", match = "no dimensions" },
  { inputs = { ids }, code = "dtype", match = "i64" },
}
local bad_two = {
  { inputs = { x, { dims = { 4, 3 } } }, code = "shape", match = "4,3" },
  { inputs = { x, x }, options = { dim = 3 }, code = "value", match = "dim 3" },
}

return {
  { op = "softmax", cases = one, bad = bad_one, oracle = softmax, grad = true },
  { op = "log_softmax", cases = one, bad = bad_one, oracle = log_softmax, grad = true },
  { op = "softmax_grad", cases = two, bad = bad_two, oracle = softmax_grad, grad = true },
  { op = "log_softmax_grad", cases = two, bad = bad_two, oracle = log_softmax_grad, grad = true },
}
