-- batch_norm.lua -- samples of batch_norm, its gradient and running statistics

local function count(dims)
  local n = 1
  for _, d in ipairs(dims) do
    n = n * d
  end
  return n
end

-- Rows, and channels: the last dimension.
local function sizes(x)
  local n = x.dims[#x.dims]
  return n > 0 and count(x.dims) // n or 0, n
end

-- The mean over the rows of f(i), i the place of an element of channel j.
local function mean(rows, n, j, f)
  local s = 0.0
  for r = 0, rows - 1 do
    s = s + f(r * n + j)
  end
  return rows > 0 and s / rows or 0.0
end

local function batch_norm(ins, options)
  local x, w, b = ins[1], ins[2], ins[3]
  local rows, n = sizes(x)
  local y, means, rstds = {}, {}, {}
  for j = 1, n do
    local m = mean(rows, n, j, function(i) return x.data[i] end)
    local var = mean(rows, n, j, function(i) return (x.data[i] - m) ^ 2 end)
    means[j], rstds[j] = m, 1 / math.sqrt(var + (options.eps or 1e-5))
  end
  for i = 1, rows * n do
    local j = (i - 1) % n + 1
    y[i] = (x.data[i] - means[j]) * rstds[j] * (w and w.data[j] or 1) + (b and b.data[j] or 0)
  end
  return { { dims = x.dims, data = y }, { dims = { n }, data = means },
    { dims = { n }, data = rstds } }
end

local function batch_stats(ins, options)
  local all = batch_norm(ins, options)
  return { all[2], all[3] }
end

local function batch_norm_grad(ins)
  local x, means, rstds, dy, w = table.unpack(ins)
  local rows, n = sizes(x)
  local dx, dw, db = {}, {}, {}
  for j = 1, n do
    local function norm(i) return (x.data[i] - means.data[j]) * rstds.data[j] end
    local mean_dy = mean(rows, n, j, function(i) return dy.data[i] end)
    local along = mean(rows, n, j, function(i) return dy.data[i] * norm(i) end)
    dw[j], db[j] = along * rows, mean_dy * rows
    for r = 0, rows - 1 do
      local i = r * n + j
      dx[i] = (w and w.data[j] or 1) * rstds.data[j]
        * (dy.data[i] - mean_dy - norm(i) * along)
    end
  end
  local out = { { dims = x.dims, data = dx } }
  if w then
    out[2], out[3] = { dims = { n }, data = dw }, { dims = { n }, data = db }
  end
  return out
end

-- dy counts where the norm's result is between bounds.
local function batch_norm_grad_within(ins, o)
  local x, means, rstds, dy, w, b = table.unpack(ins)
  local _, n = sizes(x)
  local within = {}
  for i = 1, #x.data do
    local j = (i - 1) % n + 1
    local y = (x.data[i] - means.data[j]) * (rstds.data[j] * w.data[j]) + b.data[j]
    within[i] = y > o.low and y < (o.high or math.huge) and dy.data[i] or 0.0
  end
  return batch_norm_grad { x, means, rstds, { dims = x.dims, data = within }, w }
end

local function running(ins, o)
  local mean_was, var_was, batch_mean, rstd, when = table.unpack(ins)
  local m, v, share = {}, {}, o.momentum or 0.1
  for j = 1, count(mean_was.dims) do
    local var = (1 / rstd.data[j] ^ 2 - (o.eps or 1e-5)) * o.count / (o.count - 1)
    m[j] = (1 - share) * mean_was.data[j] + share * batch_mean.data[j]
    v[j] = (1 - share) * var_was.data[j] + share * var
  end
  if when and when.data[1] == 0 then
    m, v = mean_was.data, var_was.data
  end
  return { { dims = mean_was.dims, data = m }, { dims = var_was.dims, data = v } }
end

-- Wide rows with and without a rest, blocks, channels past a vector, none.
local shapes = { { 6, 5 }, { 2, 3, 4 }, { 2, 3, 2, 7 }, { 7, 1 }, { 1, 3 }, { 3 }, { 5, 300 },
  { 0, 4 }, { 3, 0 } }

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

local function grad_inputs(dims)
  local n = { dims[#dims] }
  return { { dims = dims }, { dims = n }, { dims = n, low = 0.5, high = 2 }, { dims = dims } }
end

local function within_cases()
  local list = {}
  for i, dims in ipairs(shapes) do
    local ins = grad_inputs(dims)
    ins[5] = { dims = { dims[#dims] }, low = 0.5, high = 1.5 }
    ins[6] = { dims = { dims[#dims] } }
    list[i] = { inputs = ins, options = { low = 0, high = i % 2 == 0 and 1.5 or nil } }
  end
  return list
end

local forward, backward = cases(2, only_x, { eps = 0.01 }), cases(1, grad_inputs)
forward[#forward + 1] = { inputs = { { dims = { 4099, 9 }, low = 9, high = 10 } } }
backward[#backward + 1] = { inputs = grad_inputs { 4099, 9 } }

local x, scalar, rows = { dims = { 3, 5 } }, { dims = {} }, { dims = { 3 } }
local c, yes = { dims = { 5 } }, { dims = {}, dtype = "bool", values = { true } }
local positive = { dims = { 5 }, low = 0.5, high = 2 }
local no = { dims = {}, dtype = "bool", values = { false } }
local ids = { dims = { 3, 5 }, dtype = "i32", integer = 9 }
local bad = {
  { inputs = { scalar }, code = "shape", match = "at least one dimension" },
  { inputs = { ids }, code = "dtype", match = "i32" },
  { inputs = { x, rows }, code = "shape", match = "the last dimension" },
}

return {
  { op = "batch_norm", cases = forward, bad = bad, oracle = batch_norm, grad = true },
  { op = "batch_stats", cases = cases(0, only_x, { eps = 0.01 }), bad = { bad[1], bad[2] },
    oracle = batch_stats, grad = true },
  { op = "batch_norm_grad", cases = backward, oracle = batch_norm_grad, grad = true,
    bad = {
      { inputs = { x, rows, c, x }, code = "shape", match = "the last dimension" },
      { inputs = { x, c, c, { dims = { 5, 3 } } }, code = "shape", match = "5,3" },
      { inputs = { x, c, c, x, rows }, code = "shape", match = "the last dimension" },
    } },
  { op = "batch_norm_grad_within", cases = within_cases(), oracle = batch_norm_grad_within,
    bad = {
      { inputs = { x, c, c, x, c, rows }, options = { low = 0 }, code = "shape",
        match = "the last dimension" },
      { inputs = { x, c, c, x, c, c }, options = { low = 0, dtype = "i32" }, code = "dtype",
        match = "a float wanted" },
      { inputs = { x, c, c, x, c, c }, options = {}, code = "value", match = "low" },
    } },
  { op = "running", updates = true, grad = false, oracle = running,
    cases = {
      { inputs = { c, c, c, positive }, options = { count = 7 } },
      { inputs = { c, c, c, positive, yes }, options = { count = 2, momentum = 0.5, eps = 0.1 } },
      { inputs = { c, c, c, positive, no }, options = { count = 9 } },
    },
    bad = {
      { inputs = { c, c, c, rows }, options = { count = 7 }, code = "shape", match = "equal" },
      { inputs = { c, c, c, c }, options = { count = 1 }, code = "value", match = "2 or more" },
    } },
}
