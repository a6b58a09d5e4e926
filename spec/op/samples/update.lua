-- update.lua -- samples of the operators that write variables
--
-- The outputs of an oracle are the variables afterwards.

-- The optional input: absent counts as true.
local function is_due(when)
  return not when or (when.data[1] ~= 0 and when.data[1] ~= false)
end

local function scalar(x)
  return x and x.data[1] or 1
end

-- New values of `ins[1..n]`: each(i) returns those of element i, in order.
local function update(ins, n, when, each)
  local outs = {}
  for k = 1, n do
    outs[k] = { dims = ins[k].dims, data = { table.unpack(ins[k].data) } }
  end
  for i = 1, is_due(when) and #ins[1].data or 0 do
    for k, value in ipairs({ each(i) }) do
      outs[k].data[i] = value
    end
  end
  return outs
end

local function assign(ins)
  return update(ins, 1, ins[3], function(i)
    return ins[2].data[i]
  end)
end

-- Rows of zeros keep what they have.
local function lazily(ins, n, g, o, outs)
  local rows = ins[1].dims[1] or 1
  local width = o.lazy and #g.data // math.max(rows, 1) or 0
  for row = 0, o.lazy and rows - 1 or -1 do
    local any = false
    for j = 1, width do any = any or g.data[row * width + j] ~= 0 end
    for k = 1, any and 0 or n do
      table.move(ins[k].data, row * width + 1, (row + 1) * width, row * width + 1, outs[k].data)
    end
  end
  return outs
end

local function descend(ins, o)
  local lr, scale = ins[3].data[1], scalar(ins[4])
  return lazily(ins, 1, ins[2], o, update(ins, 1, ins[5], function(i)
    local p = ins[1].data[i]
    return p - lr * (ins[2].data[i] * scale + (o.weight_decay or 0) * p)
  end))
end

-- Kingma & Ba, arXiv:1412.6980, with the decay of arXiv:1711.05101.
local function adamw(ins, o)
  local beta1, beta2 = o.beta1 or 0.9, o.beta2 or 0.999
  local decay, eps = o.weight_decay or 0, o.eps or 1e-8
  local t, lr, scale = ins[5].data[1], ins[6].data[1], scalar(ins[7])
  return lazily(ins, 3, ins[4], o, update(ins, 3, ins[8], function(i)
    local p, m, v, g = ins[1].data[i], ins[2].data[i], ins[3].data[i], ins[4].data[i]
    g = g * scale
    if o.coupled then
      g = g + decay * p
    end
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g * g
    local mhat, vhat = m / (1 - beta1 ^ t), v / (1 - beta2 ^ t)
    if not o.coupled then
      p = p - lr * decay * p
    end
    return p - lr * mhat / (math.sqrt(vhat) + eps), m, v
  end))
end

-- The rest beside p is looked at in spec/optim/master_spec.lua.
local function adamw_master(ins, o)
  local w = { dims = ins[1].dims, data = {} }
  for i, p in ipairs(ins[1].data) do
    local bits = (("<I4"):unpack(("<f"):pack(p)) + 0x8000) >> 16 -- as the input is rounded
    local rest = ("<i2"):unpack(string.char(ins[5].data[i], ins[4].data[i]))
    w.data[i] = ("<f"):unpack(("<I4"):pack((bits << 16) + rest))
  end
  return adamw({ w, ins[2], ins[3], table.unpack(ins, 6) }, o)
end

-- PyTorch's SGD, its buffer starting at zero.
local function sgd(ins, o)
  local momentum, decay = o.momentum or 0, o.weight_decay or 0
  local lr, scale = ins[4].data[1], scalar(ins[5])
  return lazily(ins, 2, ins[3], o, update(ins, 2, ins[6], function(i)
    local p, buf = ins[1].data[i], ins[2].data[i]
    local g = ins[3].data[i] * scale + decay * p
    buf = momentum * buf + (1 - (o.dampening or 0)) * g
    return p - lr * (o.nesterov and g + momentum * buf or buf), buf
  end))
end

local function rmsprop(ins, o)
  local lr = ins[4].data[1]
  local scale = ins[5] and ins[5].data[1] or 1
  return lazily(ins, 2, ins[3], o, update(ins, 2, ins[6], function(i)
    local p, v = ins[1].data[i], ins[2].data[i]
    local g = ins[3].data[i] * scale + (o.weight_decay or 0) * p
    v = (o.keep or 0.99) * v + (o.add or 0.01) * g * g
    return p - lr * g / (math.sqrt(v) + (o.eps or 1e-8)), v
  end))
end

-- Chen et al., arXiv:2302.06675, algorithm 2.
local function lion(ins, o)
  local beta1, beta2, lr = o.beta1 or 0.9, o.beta2 or 0.99, ins[4].data[1]
  local scale = ins[5] and ins[5].data[1] or 1
  return update(ins, 2, ins[6], function(i)
    local p, m, g = ins[1].data[i], ins[2].data[i], ins[3].data[i] * scale
    local c = beta1 * m + (1 - beta1) * g
    local sign = c > 0 and 1 or c < 0 and -1 or c
    return p - lr * (sign + (o.weight_decay or 0) * p), beta2 * m + (1 - beta2) * g
  end)
end

local function average(ins)
  return update(ins, 1, ins[4], function(i)
    return ins[1].data[i] + ins[3].data[1] * (ins[2].data[i] - ins[1].data[i])
  end)
end

local function accumulate(ins, o)
  return update(ins, 1, nil, function(i)
    local x = (o.scale or 1) * ins[2].data[i]
    return o.largest and math.max(ins[1].data[i], x) or ins[1].data[i] + x
  end)
end

-- var[b][start[b] + t] = x[b][t], or along another dimension than the second.
local function write_rows(ins, o)
  local var, x, start = ins[1], ins[2], ins[3]
  local out, dim = { dims = var.dims, data = { table.unpack(var.data) } }, o.dim or 2
  if dim < 0 then dim = #var.dims + 1 + dim end
  for i = 0, #x.data - 1 do
    local rest, to, step, b, inside = i, 0, 1, 0, true
    for d = #x.dims, 1, -1 do
      local at = rest % x.dims[d]
      rest, b = rest // x.dims[d], at
      if d == dim then
        at = at + start.data[i // (#x.data // x.dims[1]) + 1]
        inside = at >= 0 and at < var.dims[d]
      end
      to, step = to + at * step, step * var.dims[d]
    end
    assert(b == i // (#x.data // x.dims[1]))
    if inside then out.data[to + 1] = x.data[i + 1] end
  end
  return { out }
end

local function number(x)
  return { dims = {}, values = { x } }
end

local yes = { dims = {}, dtype = "bool", values = { true } }
local no = { dims = {}, dtype = "bool", values = { false } }

local function adamw_inputs(dims, t, ...)
  return { { dims = dims }, { dims = dims }, { dims = dims, low = 0.1, high = 1 },
    { dims = dims }, number(t), number(0.01), ... }
end

local function half(dims) return { dims = dims, dtype = "bf16" } end
local function byte(dims) return { dims = dims, dtype = "u8", integer = 256 } end
local function master_inputs(dims, ...)
  local ins = adamw_inputs(dims, ...)
  ins[1] = half(dims)
  table.insert(ins, 4, byte(dims))
  table.insert(ins, 5, byte(dims))
  return ins
end

local function sgd_inputs(dims, ...)
  return { { dims = dims }, { dims = dims }, { dims = dims }, number(0.1), ... }
end

local function rmsprop_inputs(dims, ...)
  return { { dims = dims }, { dims = dims, low = 0.1, high = 1 }, { dims = dims },
    number(0.1), ... }
end

-- A gradient of which row 1 and, where there are that many, rows 3 to 5 are 0.
local function holes(rows, width)
  local values = {}
  for i = 1, rows * width do
    local row = (i - 1) // width
    values[i] = (row == 1 or row >= 3 and row <= 5) and 0 or (i * 37 % 19 - 9) / 10
  end
  return { dims = { rows, width }, values = values }
end

local x, y = { dims = { 3, 5 } }, { dims = { 5, 3 } }
local one, scale, ids = number(1), number(0.5), { dims = { 3, 5 }, dtype = "i32", integer = 9 }

return {
  { op = "assign", updates = true,
    cases = {
      { inputs = { x, x } },
      { inputs = { { dims = { 3000 } }, { dims = { 3000 } }, yes } },
      { inputs = { x, x, no } },
      { inputs = { ids, ids } },
      { inputs = { one, one } },
      { inputs = { { dims = { 0, 2 } }, { dims = { 0, 2 } } } },
    },
    bad = {
      { inputs = { x, y }, code = "shape", match = "equal shapes" },
      { inputs = { x, x, one }, code = "dtype", match = "bool" },
    },
    oracle = assign, grad = false },
  { op = "descend", updates = true,
    cases = {
      { inputs = { x, x, number(0.1) } },
      { inputs = { { dims = { 1037 } }, { dims = { 1037 } }, number(0.1), scale },
        options = { weight_decay = 0.1 } },
      { inputs = { { dims = {} }, { dims = {} }, number(0.1), scale, yes } },
      { inputs = { x, x, number(0.1), scale, no } },
      { inputs = { { dims = { 2, 0 } }, { dims = { 2, 0 } }, number(0.1) } },
      { inputs = { { dims = { 8, 70 } }, holes(8, 70), number(0.1) },
        options = { lazy = true, weight_decay = 0.1 } },
      { inputs = { { dims = {} }, number(0), number(0.1) },
        options = { lazy = true, weight_decay = 0.1 } },
      { inputs = { { dims = { 0, 3 } }, { dims = { 0, 3 } }, number(0.1) },
        options = { lazy = true } },
    },
    bad = {
      { inputs = { x, y, one }, code = "shape", match = "equal shapes" },
      { inputs = { x, x, x }, code = "shape", match = "learning rate" },
      { inputs = { x, x, one, one, one }, code = "dtype", match = "bool" },
    },
    oracle = descend, grad = false },
  { op = "adamw", updates = true,
    cases = {
      { inputs = { { dims = { 8, 600 } }, { dims = { 8, 600 } },
        { dims = { 8, 600 }, low = 0.1, high = 1 }, holes(8, 600), number(3), number(0.01) },
        options = { lazy = true, weight_decay = 0.1 } },
      { inputs = adamw_inputs({ 3, 5 }, 1) },
      { inputs = adamw_inputs({ 1037 }, 7, scale), options = { weight_decay = 0.1 } },
      { inputs = adamw_inputs({ 5 }, 2, scale, yes),
        options = { weight_decay = 0.1, coupled = true, beta1 = 0.5, beta2 = 0.8, eps = 1e-3 } },
      { inputs = adamw_inputs({ 3, 5 }, 7, scale, no) },
      { inputs = adamw_inputs({}, 1000) },
      { inputs = adamw_inputs({ 2, 0 }, 3) },
    },
    bad = {
      { inputs = { x, x, y, x, one, one }, code = "shape", match = "equal shapes" },
      { inputs = { x, x, x, x, x, one }, code = "shape", match = "step count" },
      { inputs = { x, x, x, x, one, x }, code = "shape", match = "learning rate" },
      { inputs = { x, x, x, x, one, one, x }, code = "shape", match = "scale" },
      { inputs = { x, x, x, x, one, one, one, one }, code = "dtype", match = "bool" },
    },
    oracle = adamw, grad = false },
  { op = "adamw_master", updates = true, variables = 5, dtypes = { "f32" }, tolerance = 2 ^ -8,
    cases = {
      { inputs = master_inputs({ 3, 5 }, 1) },
      { inputs = master_inputs({ 1037 }, 7, scale), options = { weight_decay = 0.1 } },
      { inputs = master_inputs({ 5 }, 2, scale, yes),
        options = { weight_decay = 0.1, coupled = true, beta1 = 0.5, beta2 = 0.8, eps = 1e-3 } },
      { inputs = master_inputs({ 3, 5 }, 7, scale, no) },
      { inputs = master_inputs({}, 1000) },
      { inputs = master_inputs({ 2, 0 }, 3) },
    },
    bad = {
      { inputs = master_inputs({ 3, 5 }, 1, x), code = "shape", match = "scale" },
      { inputs = { x, x, x, byte({ 3, 5 }), byte({ 3, 5 }), x, one, one }, code = "dtype",
        match = "bf16" },
      { inputs = { half({ 3, 5 }), x, x, byte({ 3, 5 }), byte({ 5 }), x, one, one },
        code = "shape", match = "a byte for each element" },
    },
    oracle = adamw_master, grad = false },
  { op = "sgd", updates = true,
    cases = {
      { inputs = { { dims = { 8, 7 } }, { dims = { 8, 7 } }, holes(8, 7), number(0.1) },
        options = { lazy = true, momentum = 0.9 } },
      { inputs = sgd_inputs({ 3, 5 }), options = { momentum = 0.9 } },
      { inputs = sgd_inputs({ 1037 }, scale),
        options = { momentum = 0.9, nesterov = true, weight_decay = 0.1 } },
      { inputs = sgd_inputs({ 5 }, scale, yes),
        options = { momentum = 0.5, dampening = 0.2, weight_decay = 0.1 } },
      { inputs = sgd_inputs({ 3, 5 }, scale, no), options = { momentum = 0.9 } },
      { inputs = sgd_inputs({ 2, 0 }) },
    },
    bad = {
      { inputs = { x, y, x, one }, code = "shape", match = "equal shapes" },
      { inputs = { x, x, x, x }, code = "shape", match = "learning rate" },
    },
    oracle = sgd, grad = false },
  { op = "rmsprop", updates = true,
    cases = {
      { inputs = { { dims = { 8, 7 } }, { dims = { 8, 7 }, low = 0.1, high = 1 }, holes(8, 7),
        number(0.1) }, options = { lazy = true } },
      { inputs = rmsprop_inputs { 3, 5 } },
      { inputs = rmsprop_inputs({ 1037 }, scale), options = { keep = 1, add = 1, eps = 1e-10 } },
      { inputs = rmsprop_inputs({ 5 }, scale, yes),
        options = { keep = 0.5, add = 0.5, weight_decay = 0.1, eps = 0.01 } },
      { inputs = rmsprop_inputs({ 3, 5 }, scale, no) },
      { inputs = rmsprop_inputs { 2, 0 } },
    },
    oracle = rmsprop, grad = false },
  { op = "lion", updates = true,
    cases = {
      { inputs = sgd_inputs { 3, 5 } },
      { inputs = sgd_inputs({ 1037 }, scale), options = { beta1 = 0.95, beta2 = 0.98 } },
      { inputs = sgd_inputs({ 5 }, scale, yes), options = { weight_decay = 0.1 } },
      { inputs = sgd_inputs({ 3, 5 }, scale, no) },
      { inputs = { { dims = { 3 } }, { dims = { 3 }, values = { 0, 1, 0 } },
        { dims = { 3 }, values = { 0, -8, 0 / 0 } }, number(0.1) } },
      { inputs = sgd_inputs { 2, 0 } },
    },
    bad = { { inputs = { x, y, x, one }, code = "shape", match = "equal shapes" } },
    oracle = lion, grad = false },
  { op = "average", updates = true,
    cases = {
      { inputs = { x, x, scale } },
      { inputs = { { dims = { 3000 } }, { dims = { 3000 } }, number(0.001), yes } },
      { inputs = { x, x, scale, no } },
      { inputs = { { dims = { 0, 2 } }, { dims = { 0, 2 } }, scale } },
    },
    oracle = average, grad = false },
  { op = "accumulate", updates = true,
    cases = {
      { inputs = { x, x } },
      { inputs = { { dims = { 2049 } }, { dims = { 2049 } } }, options = { scale = 0.25 } },
      { inputs = { one, one }, options = { scale = -1 } },
      { inputs = { { dims = { 2049 } }, { dims = { 2049 } } }, options = { largest = true } },
      { inputs = { { dims = { 4 }, dtype = "i64", integer = 9 },
        { dims = { 4 }, dtype = "i64", integer = 9 } } },
      { inputs = { { dims = { 0, 2 } }, { dims = { 0, 2 } } } },
    },
    bad = {
      { inputs = { x, y }, code = "shape", match = "equal shapes" },
      { inputs = { ids, ids }, code = "dtype", match = "f32, f64 or i64 wanted" },
      { inputs = { { dims = { 4 }, dtype = "i64", integer = 9 },
        { dims = { 4 }, dtype = "i64", integer = 9 } }, options = { scale = 2 },
        code = "value", match = "scale 2 for i64" },
      { inputs = { { dims = { 4 }, dtype = "i64", integer = 9 },
        { dims = { 4 }, dtype = "i64", integer = 9 } }, options = { largest = true },
        code = "dtype", match = "largest of i64" },
    },
    oracle = accumulate, grad = false },
  { op = "write_rows", updates = true,
    cases = {
      { inputs = { { dims = { 2, 5, 3, 4 } }, { dims = { 2, 2, 3, 4 } },
        { dims = { 2 }, dtype = "i32", values = { 3, 0 } } } },
      { inputs = { { dims = { 3, 4, 300 } }, { dims = { 3, 3, 300 } },
        { dims = { 3 }, dtype = "i64", values = { -1, 2, 9 } } } },
      { inputs = { { dims = { 2, 4 } }, { dims = { 2, 1 } },
        { dims = { 2 }, dtype = "u8", values = { 1, 3 } } } },
      { inputs = { { dims = { 1, 6, 2 }, dtype = "i32", integer = 9 },
        { dims = { 1, 3, 2 }, dtype = "i32", integer = 9 },
        { dims = { 1 }, dtype = "i32", values = { 2 } } } },
      { inputs = { { dims = { 2, 3, 6, 5 } }, { dims = { 2, 3, 2, 5 } },
        { dims = { 2 }, dtype = "i32", values = { 5, 1 } } }, options = { dim = 3 } },
      { inputs = { { dims = { 2, 3, 6 } }, { dims = { 2, 3, 4 } },
        { dims = { 2 }, dtype = "i32", values = { 1, -2 } } }, options = { dim = -1 } },
      { inputs = { { dims = { 1, 0, 2 } }, { dims = { 1, 3, 2 } },
        { dims = { 1 }, dtype = "i32", values = { 0 } } } },
    },
    bad = {
      { inputs = { x, { dims = { 3, 2 } }, one }, code = "dtype", match = "i64" },
    },
    oracle = write_rows, grad = false },
}
