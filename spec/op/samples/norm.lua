-- norm.lua -- samples of layer_norm, rms_norm, their gradients, global_norm and row_norm

local function count(dims)
  local n = 1
  for _, d in ipairs(dims) do
    n = n * d
  end
  return n
end

local function zeros(n)
  local t = {}
  for i = 1, n do
    t[i] = 0.0
  end
  return t
end

-- Call f(r, at, n) for each row: row number, place before its first element.
local function each_row(dims, f)
  local n, rows = dims[#dims], count({ table.unpack(dims, 1, #dims - 1) })
  for r = 1, rows do
    f(r, (r - 1) * n, n)
  end
end

-- Sum of f(i) over a row, divided by its length.
local function mean(n, f)
  local s = 0.0
  for i = 1, n do
    s = s + f(i)
  end
  return n > 0 and s / n or 0.0
end

local function lead(dims)
  return { table.unpack(dims, 1, #dims - 1) }
end

-- y, center and rstd of rows normalised about `center_of(x, at, n)`.
local function normalise(ins, options, center_of)
  local x, w, b = ins[1], ins[2], ins[3]
  local y, centers, rstds = {}, {}, {}
  each_row(x.dims, function(r, at, n)
    local center = center_of(x.data, at, n)
    local var = mean(n, function(i)
      return (x.data[at + i] - center) ^ 2
    end)
    local rstd = 1 / math.sqrt(var + (options.eps or 1e-5))
    for i = 1, n do
      local v = (x.data[at + i] - center) * rstd
      y[at + i] = v * (w and w.data[i] or 1) + (b and b.data[i] or 0)
    end
    centers[r], rstds[r] = center, rstd
  end)
  return { dims = x.dims, data = y }, { dims = lead(x.dims), data = centers },
    { dims = lead(x.dims), data = rstds }
end

local function layer_norm(ins, options)
  return { normalise(ins, options, function(x, at, n)
    return mean(n, function(i)
      return x[at + i]
    end)
  end) }
end

local function rms_norm(ins, options)
  local y, _, rstd = normalise(ins, options, function()
    return 0.0
  end)
  return { y, rstd }
end

-- dx, dw, db; `centers` is nil for rms_norm.
local function backward(x, centers, rstds, dy, w)
  local dx, dw, db = {}, zeros(x.dims[#x.dims]), zeros(x.dims[#x.dims])
  each_row(x.dims, function(r, at, n)
    local center, rstd = centers and centers.data[r] or 0.0, rstds.data[r]
    local function norm(i)
      return (x.data[at + i] - center) * rstd
    end
    local function g(i)
      return dy.data[at + i] * (w and w.data[i] or 1)
    end
    local mean_g = centers and mean(n, g) or 0.0
    local mean_gn = mean(n, function(i)
      return g(i) * norm(i)
    end)
    for i = 1, n do
      dx[at + i] = rstd * (g(i) - mean_g - norm(i) * mean_gn)
      dw[i] = dw[i] + dy.data[at + i] * norm(i)
      db[i] = db[i] + dy.data[at + i]
    end
  end)
  local columns = { x.dims[#x.dims] }
  return { dims = x.dims, data = dx }, { dims = columns, data = dw },
    { dims = columns, data = db }
end

local function layer_norm_grad(ins)
  local x, means, rstds, dy, w = table.unpack(ins)
  local dx, dw, db = backward(x, means, rstds, dy, w)
  return w and { dx, dw, db } or { dx }
end

local function rms_norm_grad(ins)
  local x, rstds, dy, w = table.unpack(ins)
  local dx, dw = backward(x, nil, rstds, dy, w)
  return w and { dx, dw } or { dx }
end

-- Of c and a gradient's inputs: c + dx, the others, and the sum that is rounded.
local function added_to(gradient)
  return function(ins, options)
    local c, outs = ins[1], gradient(table.move(ins, 2, #ins, 1, {}))
    for i, v in ipairs(c.data) do outs[1].data[i] = outs[1].data[i] + v end
    if options.round then outs[#outs + 1] = outs[1] end
    return outs
  end
end

local function global_norm(ins)
  local s = 0.0
  for _, x in ipairs(ins) do
    for i = 1, count(x.dims) do
      s = s + x.data[i] ^ 2
    end
  end
  return { { dims = {}, data = { math.sqrt(s) } } }
end

local function row_norm(ins)
  local x, y = ins[1], { dims = lead(ins[1].dims), data = {} }
  local n = x.dims[#x.dims]
  for row = 1, count(y.dims) do
    local s = 0.0
    for i = (row - 1) * n + 1, row * n do s = s + x.data[i] ^ 2 end
    y.data[row] = math.sqrt(s)
  end
  return { y }
end

local shapes = { { 3, 5 }, { 2, 3, 4 }, { 7 }, { 2, 67 }, { 3, 1 }, { 0, 4 }, { 3, 0 } }

-- One case for each shape and number of parameters; inputs(dims, params)
-- makes the list before the parameters.
local function cases(most, inputs, options)
  local list = {}
  for _, dims in ipairs(shapes) do
    for params = 0, most do
      local ins = inputs(dims)
      for _ = 1, params do
        ins[#ins + 1] = { dims = { dims[#dims] }, low = 0.5, high = 1.5 }
      end
      list[#list + 1] = { inputs = ins, options = options }
    end
  end
  return list
end

local function only_x(dims)
  return { { dims = dims, low = -1, high = 2 } }
end

local function layer_inputs(dims)
  return { { dims = dims }, { dims = lead(dims) },
    { dims = lead(dims), low = 0.5, high = 2 }, { dims = dims } }
end

local function rms_inputs(dims)
  return { { dims = dims }, { dims = lead(dims), low = 0.5, high = 2 }, { dims = dims } }
end

-- The same cases with c before them, and each with the sum rounded, too.
local function added_cases(plain)
  local list = {}
  for _, case in ipairs(plain) do
    local ins = table.move(case.inputs, 1, #case.inputs, 2, { { dims = case.inputs[1].dims } })
    list[#list + 1] = { inputs = ins }
    list[#list + 1] = { inputs = ins, options = { round = "bf16" }, grad = false,
      tolerance = 2 ^ -8 }
  end
  list[#list + 1] = { inputs = list[1].inputs, options = { round = "f16" }, grad = false,
    tolerance = 2 ^ -11 }
  list[#list + 1] = { inputs = list[3].inputs, options = { first = "bf16", round = "bf16" },
    grad = false, tolerance = 2 ^ -8 }
  return list
end

local x, scalar, rows = { dims = { 3, 5 } }, { dims = {} }, { dims = { 3 } }
local ids = { dims = { 3, 5 }, dtype = "i32", integer = 9 }
local bad = {
  { inputs = { scalar }, code = "shape", match = "at least one dimension" },
  { inputs = { ids }, code = "dtype", match = "i32" },
  { inputs = { x, rows }, code = "shape", match = "the last dimension" },
}
local bad_layer_grad = {
  { inputs = { x, rows, x, x }, code = "shape", match = "one number for each row" },
  { inputs = { x, rows, rows, { dims = { 5, 3 } } }, code = "shape", match = "5,3" },
  { inputs = { x, rows, rows, x, rows }, code = "shape", match = "the last dimension" },
}
local bad_layer_grad_add = {
  { inputs = { { dims = { 5, 3 } }, x, rows, rows, x }, code = "shape", match = "5,3" },
  { inputs = { x, x, rows, x, x }, code = "shape", match = "one number for each row" },
  { inputs = { x, x, rows, rows, x }, options = { round = "f32" }, code = "value",
    match = "a narrow float wanted" },
  { inputs = { x, x, rows, rows, x }, options = { first = "i32" }, code = "value",
    match = "first is i32" },
}
local bad_rms_grad_add = {
  { inputs = { x, x, x, x }, code = "shape", match = "one number for each row" },
  { inputs = { rows, x, rows, x }, code = "shape", match = "equal shapes" },
}
local bad_rms_grad = {
  { inputs = { x, x, x }, code = "shape", match = "one number for each row" },
  { inputs = { x, rows, rows }, code = "shape", match = "equal shapes" },
}

return {
  { op = "layer_norm", cases = cases(2, only_x, { eps = 0.01 }), bad = bad,
    oracle = layer_norm, grad = true },
  { op = "rms_norm", cases = cases(1, only_x, { eps = 0.01 }), bad = bad,
    oracle = rms_norm, grad = true },
  { op = "layer_norm_grad", cases = cases(1, layer_inputs), bad = bad_layer_grad,
    oracle = layer_norm_grad, grad = true },
  { op = "rms_norm_grad", cases = cases(1, rms_inputs), bad = bad_rms_grad,
    oracle = rms_norm_grad, grad = true },
  { op = "layer_norm_grad_add", cases = added_cases(cases(1, layer_inputs)),
    bad = bad_layer_grad_add, oracle = added_to(layer_norm_grad), grad = true },
  { op = "rms_norm_grad_add", cases = added_cases(cases(1, rms_inputs)),
    bad = bad_rms_grad_add, oracle = added_to(rms_norm_grad), grad = true },
  { op = "global_norm",
    cases = {
      { inputs = { { dims = { 3, 4 } } } },
      { inputs = { { dims = { 2, 37 } }, { dims = {} }, { dims = { 0, 3 } }, { dims = { 5 } } } },
      { inputs = { { dims = { 3 }, values = { 3e-30, 0, 4e-30 } } }, grad = false },
    },
    bad = {
      { inputs = { x, ids }, code = "dtype", match = "i32" },
      { inputs = { { dims = { 2 }, dtype = "f32" }, { dims = { 2 }, dtype = "f64" } },
        code = "dtype", match = "equal dtypes" },
    },
    oracle = global_norm, grad = true },
  { op = "row_norm",
    cases = {
      { inputs = { { dims = { 3, 5 } } } }, { inputs = { { dims = { 2, 3, 67 } } } },
      { inputs = { { dims = { 7 } } } }, { inputs = { { dims = { 2, 2100 } } } },
      { inputs = { { dims = { 0, 4 } } } }, { inputs = { { dims = { 3, 0 } } } },
      { inputs = { { dims = { 2, 2 }, values = { 3e-30, 4e-30, 3e30, 4e30 } } }, grad = false },
    },
    bad = {
      { inputs = { ids }, code = "dtype", match = "i32" },
      { inputs = { scalar }, code = "shape", match = "at least one dimension" },
    },
    oracle = row_norm, grad = true },
}
