-- ctc.lua -- samples of ctc_loss and its gradient: all paths, one after the other

-- Call f(path, its probability) for each path of `steps` classes of sequence n.
local function each_path(x, n, steps, f)
  local N, C = x.dims[2], x.dims[3]
  local path = {}
  local function go_on(t, p)
    if t > steps then return f(path, p) end
    for c = 0, C - 1 do
      path[t] = c
      go_on(t + 1, p * math.exp(x.data[((t - 1) * N + n - 1) * C + c + 1]))
    end
  end
  go_on(1, 1)
end

-- Does a path read as these labels?
local function reads_as(path, steps, labels, blank)
  local read = {}
  for t = 1, steps do
    if path[t] ~= blank and path[t] ~= path[t - 1] then read[#read + 1] = path[t] end
  end
  if #read ~= #labels then return false end
  for i, label in ipairs(labels) do
    if read[i] ~= label then return false end
  end
  return true
end

local function labels_of(ins, n)
  local S, labels = ins[2].dims[2], {}
  for i = 1, ins[4].data[n] do labels[i] = ins[2].data[(n - 1) * S + i] end
  return labels
end

local function ctc_loss(ins, options)
  local x, loss = ins[1], {}
  for n = 1, x.dims[2] do
    local sum, steps = 0, ins[3].data[n]
    local labels = labels_of(ins, n)
    each_path(x, n, steps, function(path, p)
      if reads_as(path, steps, labels, options.blank or 0) then sum = sum + p end
    end)
    loss[n] = -math.log(sum)
  end
  return { { dims = { x.dims[2] }, data = loss } }
end

local function ctc_loss_grad(ins, options)
  local x, dx = ins[1], {}
  local N, C = x.dims[2], x.dims[3]
  for i = 1, #x.data do dx[i] = 0.0 end
  for n = 1, N do
    local sum, steps, found = 0, ins[3].data[n], {}
    local labels = labels_of(ins, n)
    each_path(x, n, steps, function(path, p)
      if not reads_as(path, steps, labels, options.blank or 0) then return end
      sum = sum + p
      for t = 1, steps do
        local at = ((t - 1) * N + n - 1) * C + path[t] + 1
        found[at] = (found[at] or 0) + p
      end
    end)
    for at, p in pairs(found) do dx[at] = -ins[5].data[n] * p / sum end
  end
  return { { dims = x.dims, data = dx } }
end

local function ids(dims, values, dtype) return { dims = dims, dtype = dtype or "i64",
  values = values } end
local function x(...) return { dims = { ... }, low = -3, high = 0 } end

local forward = {
  { inputs = { x(5, 2, 3), ids({ 2, 2 }, { 1, 2, 2, 2 }), ids({ 2 }, { 5, 4 }),
    ids({ 2 }, { 2, 2 }) } },
  { inputs = { x(4, 3, 4), ids({ 3, 3 }, { 0, 1, 0, 3, 3, 3, 1, 0, 0 }, "i32"),
    ids({ 3 }, { 4, 4, 3 }, "u8"), ids({ 3 }, { 3, 2, 0 }, "i32") }, options = { blank = 2 } },
  { inputs = { x(3, 2, 3), ids({ 2, 1 }, { 1, 2 }), ids({ 2 }, { 1, 3 }), ids({ 2 }, { 1, 1 }) } },
  -- no path: two equal labels in two steps; none at all in none
  { inputs = { x(2, 2, 3), ids({ 2, 2 }, { 1, 1, 2, 2 }), ids({ 2 }, { 2, 0 }),
    ids({ 2 }, { 2, 1 }) }, grad = false },
  { inputs = { x(2, 2, 3), ids({ 2, 0 }, {}), ids({ 2 }, { 2, 0 }), ids({ 2 }, { 0, 0 }) } },
  { inputs = { x(2, 0, 3), ids({ 0, 2 }, {}), ids({ 0 }, {}), ids({ 0 }, {}) } },
  { inputs = { { dims = { 3, 1, 3 }, values = { -math.huge, -1, -0.5, -0.3, -math.huge, -1, -2,
    -math.huge, -0.2 } }, ids({ 1, 1 }, { 2 }), ids({ 1 }, { 3 }), ids({ 1 }, { 1 }) },
    grad = false },
}

local backward = {}
for _, case in ipairs(forward) do
  local ins = { table.unpack(case.inputs) }
  ins[5] = { dims = { ins[1].dims[2] }, low = 0.5, high = 2 }
  local possible = case ~= forward[4]
  if possible then backward[#backward + 1] = { inputs = ins, options = case.options } end
end

local function bad(code, match, given, options)
  local ins = { x(3, 2, 3), ids({ 2, 1 }, { 1, 2 }), ids({ 2 }, { 3, 3 }), ids({ 2 }, { 1, 1 }) }
  for i, input in pairs(given) do ins[i] = input end
  return { inputs = ins, options = options, code = code, match = match }
end

return {
  { op = "ctc_loss", grad = "once", cases = forward, oracle = ctc_loss, bad = {
    bad("shape", "[T, N, C]", { { dims = { 3, 3 } } }),
    bad("shape", "[2, S]", { [2] = ids({ 1, 2 }, { 1, 2 }) }),
    bad("shape", "a length", { [3] = ids({ 1 }, { 1 }) }),
    bad("dtype", "i64", { { dims = { 3, 2, 3 }, dtype = "i64" } }),
    bad("dtype", nil, { [4] = { dims = { 2 }, dtype = "f32" } }),
    bad("value", "blank 3 of 3", {}, { blank = 3 }),
    bad("value", "blank %-1", {}, { blank = -1 }),
    bad("data", "3", { [2] = ids({ 2, 1 }, { 1, 3 }) }),
    bad("data", "4", { [3] = ids({ 2 }, { 4, 1 }) }),
    bad("data", "%-1", { [4] = ids({ 2 }, { -1, 1 }) }),
  } },
  { op = "ctc_loss_grad", grad = false, cases = backward, oracle = ctc_loss_grad, bad = {
    { inputs = { x(3, 1, 3), ids({ 1, 1 }, { 1 }), ids({ 1 }, { 3 }), ids({ 1 }, { 1 }), x(2) },
      code = "shape" },
  } },
}
