-- group_norm.lua -- samples of group_norm and its gradient

local function count(dims)
  local n = 1
  for _, d in ipairs(dims) do
    n = n * d
  end
  return n
end

-- Call f(s, g, each, m) for each sample and group; each(h) calls h(i, j) for the
-- places i of its m elements, j their channel.
local function each_group(x, groups, f)
  local channels, samples = x.dims[#x.dims], x.dims[1]
  local rows = count { table.unpack(x.dims, 2, #x.dims - 1) }
  local own = channels // groups
  for s = 0, samples - 1 do
    for g = 0, groups - 1 do
      f(s, g, function(h)
        for r = 0, rows - 1 do
          for j = g * own + 1, (g + 1) * own do
            h((s * rows + r) * channels + j, j)
          end
        end
      end, rows * own)
    end
  end
end

local function mean(each, m, f)
  local sum = 0.0
  each(function(i, j) sum = sum + f(i, j) end)
  return m > 0 and sum / m or 0.0
end

local function group_norm(ins, o)
  local x, w, b = ins[1], ins[2], ins[3]
  local y, means, rstds = {}, {}, {}
  each_group(x, o.groups, function(s, g, each, m)
    local center = mean(each, m, function(i) return x.data[i] end)
    local var = mean(each, m, function(i) return (x.data[i] - center) ^ 2 end)
    local rstd = 1 / math.sqrt(var + (o.eps or 1e-5))
    means[s * o.groups + g + 1], rstds[s * o.groups + g + 1] = center, rstd
    each(function(i, j)
      y[i] = (x.data[i] - center) * rstd * (w and w.data[j] or 1) + (b and b.data[j] or 0)
    end)
  end)
  local dims = { x.dims[1], o.groups }
  return { { dims = x.dims, data = y }, { dims = dims, data = means },
    { dims = dims, data = rstds } }
end

local function group_norm_grad(ins, o)
  local x, means, rstds, dy, w = table.unpack(ins)
  local dx, dw, db, channels = {}, {}, {}, x.dims[#x.dims]
  for j = 1, channels do dw[j], db[j] = 0.0, 0.0 end
  each_group(x, o.groups, function(s, k, each, m)
    local center, rstd = means.data[s * o.groups + k + 1], rstds.data[s * o.groups + k + 1]
    local function norm(i) return (x.data[i] - center) * rstd end
    local function g(i, j) return dy.data[i] * (w and w.data[j] or 1) end
    local mean_g = mean(each, m, g)
    local along = mean(each, m, function(i, j) return g(i, j) * norm(i) end)
    each(function(i, j)
      dx[i] = rstd * (g(i, j) - mean_g - norm(i) * along)
      dw[j], db[j] = dw[j] + dy.data[i] * norm(i), db[j] + dy.data[i]
    end)
  end)
  local out = { { dims = x.dims, data = dx } }
  if w then
    out[2], out[3] = { dims = { channels }, data = dw }, { dims = { channels }, data = db }
  end
  return out
end

local shapes = { { { 2, 6, 4 }, 2 }, { { 2, 3, 2, 6 }, 3 }, { { 3, 4 }, 2 }, { { 2, 7, 1 }, 1 },
  { { 1, 2, 300 }, 4 }, { { 2, 3, 5 }, 5 }, { { 0, 2, 4 }, 2 }, { { 2, 0, 4 }, 2 },
  { { 2, 3, 0 }, 2 } }

local function cases(most, inputs)
  local list = {}
  for _, shape in ipairs(shapes) do
    local dims, groups = shape[1], shape[2]
    for params = 0, most do
      local ins = inputs(dims, groups)
      for _ = 1, params do
        ins[#ins + 1] = { dims = { dims[#dims] }, low = 0.5, high = 1.5 }
      end
      list[#list + 1] = { inputs = ins, options = { groups = groups, eps = 0.01 } }
    end
  end
  return list
end

local function forward_inputs(dims)
  return { { dims = dims, low = -1, high = 2 } }
end

local function backward_inputs(dims, groups)
  local stats = { dims[1], groups }
  return { { dims = dims }, { dims = stats }, { dims = stats, low = 0.5, high = 2 },
    { dims = dims } }
end

local forward, backward = cases(2, forward_inputs), cases(1, backward_inputs)
local large = { groups = 3, eps = 0.01 }
forward[#forward + 1] = { inputs = { { dims = { 2, 4099, 9 }, low = 9, high = 10 } },
  options = large }
backward[#backward + 1] = { inputs = backward_inputs({ 2, 4099, 9 }, 3), options = large }

local x, vector, c = { dims = { 3, 6 } }, { dims = { 3 } }, { dims = { 6 } }
local stats = { dims = { 3, 2 } }
local two = { groups = 2 }

return {
  { op = "group_norm", cases = forward, oracle = group_norm, grad = true,
    bad = {
      { inputs = { vector }, options = two, code = "shape", match = "at least two" },
      { inputs = { x }, options = { groups = 4 }, code = "shape", match = "4 groups of the 6" },
      { inputs = { x }, options = { groups = 0 }, code = "shape", match = "0 groups" },
      { inputs = { x, vector }, options = two, code = "shape", match = "the last dimension" },
      { inputs = { { dims = { 3, 6 }, dtype = "i32", integer = 9 } }, options = two,
        code = "dtype", match = "i32" },
    } },
  { op = "group_norm_grad", cases = backward, oracle = group_norm_grad, grad = true,
    bad = {
      { inputs = { x, c, stats, x }, options = two, code = "shape", match = "each group" },
      { inputs = { x, stats, stats, c }, options = two, code = "shape", match = "equal shapes" },
    } },
}
