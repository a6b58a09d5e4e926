-- cross_entropy.lua -- samples of cross_entropy and its gradient

local function lead(dims)
  return { table.unpack(dims, 1, #dims - 1) }
end

-- Call f(r, at, n, id) for each row of logits; id is 1-based, nil if ignored.
local function each_row(logits, targets, options, f)
  local n, ignored = logits.dims[#logits.dims], options.ignore_index or -100
  for r = 1, #targets.data do
    local id = targets.data[r]
    f(r, (r - 1) * n, n, id ~= ignored and id + 1 or nil)
  end
end

local function cross_entropy(ins, options)
  local x, loss, lse = ins[1], {}, {}
  each_row(x, ins[2], options, function(r, at, n, id)
    local max, s = -math.huge, 0.0
    for i = 1, n do
      max = math.max(max, x.data[at + i])
    end
    for i = 1, n do
      s = s + math.exp(x.data[at + i] - max)
    end
    lse[r] = id and math.log(s) + max or 0.0
    local mean, smoothing = 0.0, options.label_smoothing or 0
    for i = 1, n do
      mean = mean + x.data[at + i] / n
    end
    loss[r] = id and lse[r] - (1 - smoothing) * x.data[at + id] - smoothing * mean or 0.0
  end)
  local dims = lead(x.dims)
  return { { dims = dims, data = loss }, { dims = dims, data = lse } }
end

local function nll_loss(ins, options)
  local sum, count = 0.0, 0.0
  each_row(ins[1], ins[2], options, function(_, at, _, id)
    if id then sum, count = sum - ins[1].data[at + id], count + 1 end
  end)
  return { { dims = {}, data = { options.mean == false and sum or sum / count } } }
end

local function cross_entropy_grad(ins, options)
  local x, targets, lse, dloss = table.unpack(ins)
  local dx = {}
  each_row(x, targets, options, function(r, at, n, id)
    for i = 1, n do
      local p = math.exp(x.data[at + i] - lse.data[r])
      local smoothing = options.label_smoothing or 0
      local wanted = smoothing / n + (i == id and 1 - smoothing or 0)
      dx[at + i] = id and (p - wanted) * dloss.data[r] or 0.0
    end
  end)
  return { { dims = x.dims, data = dx } }
end

local function cross_entropy_both(ins, options)
  local sums = cross_entropy(ins, options)
  local dx = cross_entropy_grad({ ins[1], ins[2], sums[2], ins[3] }, options)
  return { dx[1], sums[1] }
end

local function logits(...)
  return { dims = { ... }, low = -3, high = 3 }
end

local function ids(dims, dtype, values, n)
  return { dims = dims, dtype = dtype, values = values, integer = n }
end

local heads = {
  { logits(4, 7), ids({ 4 }, "i64", nil, 7) },
  { logits(2, 3, 5), ids({ 2, 3 }, "i32", nil, 5) },
  { logits(6), ids({}, "u8", nil, 6) },
  { logits(3, 1), ids({ 3 }, "i64", nil, 1) },
  { logits(2, 2500), ids({ 2 }, "i64", nil, 2500) },
  { logits(4, 7), ids({ 4 }, "i64", { -100, 3, -100, 6 }) },
  { logits(4, 7), ids({ 4 }, "i32", { 2, 3, 2, 6 }), ignore = 2 },
  { logits(4, 7), ids({ 4 }, "i32", { 2, 3, 2, 6 }), ignore = 3, smoothing = 0.2 },
  { logits(2, 2500), ids({ 2 }, "i64", nil, 2500), smoothing = 0.5 },
  { logits(0, 5), ids({ 0 }, "i64", {}) },
  { { dims = { 1, 4 }, values = { -90, 0, 85, 90 } }, ids({ 1 }, "i64", { 2 }) },
}

local forward, backward, losses, both = {}, {}, {}, {}
for i, head in ipairs(heads) do
  local x, targets = head[1], head[2]
  local per_row = { dims = targets.dims, low = 2, high = 5 }
  local options = { ignore_index = head.ignore,
    label_smoothing = head.smoothing }
  forward[i] = { inputs = { x, targets }, options = options }
  if not head.smoothing then
    losses[#losses + 1] = { inputs = { x, targets }, options = {
      ignore_index = head.ignore, mean = i % 2 == 0 and i < 10 or false } }
  end
  both[i] = { inputs = { x, targets, { dims = targets.dims } }, options = options,
    grad = not x.values }
  if not x.values then
    backward[#backward + 1] =
      { inputs = { x, targets, per_row, { dims = targets.dims } }, options = options }
  end
end

local x, t = logits(4, 7), ids({ 4 }, "i64", nil, 7)

return {
  { op = "cross_entropy", cases = forward,
    bad = {
      { inputs = { x, { dims = { 4 } } }, code = "dtype", match = "i64, i32 or u8" },
      { inputs = { x, ids({ 7 }, "i64", nil, 7) }, code = "shape", match = "one target" },
      { inputs = { x, t }, options = { label_smoothing = 2 }, code = "value", match = "0 to 1" },
      { inputs = { t, t }, code = "dtype", match = "f32 or f64" },
      { inputs = { { dims = {} }, t }, code = "shape", match = "at least one dimension" },
    },
    oracle = cross_entropy, grad = { 1 } },
  { op = "nll_loss", cases = losses, grad = { 1 }, oracle = nll_loss,
    bad = {
      { inputs = { x, { dims = { 4 } } }, code = "dtype", match = "i64, i32 or u8" },
      { inputs = { x, ids({ 7 }, "i64", nil, 7) }, code = "shape", match = "one target" },
    } },
  { op = "cross_entropy_grad", cases = backward,
    bad = {
      { inputs = { x, t, { dims = { 7 } }, { dims = { 4 } } }, code = "shape",
        match = "one number" },
      { inputs = { x, t, { dims = { 4 } }, { dims = {} } }, code = "shape", match = "one number" },
    },
    oracle = cross_entropy_grad, grad = { 1, 3, 4 } },
  { op = "cross_entropy_both", cases = both,
    bad = {
      { inputs = { x, t, { dims = { 7 } } }, code = "shape", match = "one number" },
      { inputs = { t, t, { dims = { 4 } } }, code = "dtype", match = "f32 or f64" },
    },
    oracle = cross_entropy_both, grad = { 1, 3 } },
}
