--- torch.lua -- every operator and its gradient against PyTorch
---
--- Cases come from the samples of the operators' specs, with other numbers, and for
--- operators that work element by element with other, broadcast shapes.  PyTorch
--- computes them in f64 (torch_side.py); what differs by more than the dtype's
--- tolerance is a finding.  PYTHON names the interpreter; without torch in it
--- nothing is compared, and the campaign says so.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local mrt = require "mrt"
local beside = require "support.beside_torch"
local files = require "support.files"
local rows = require "op.rows"

local CASES <const> = 2000
local tolerance, differs, json = beside.tolerance, beside.differs, beside.json

-- Not compared, and why.
local left_out = {
  rand = "random", randn = "random", randint = "random", dropout = "random",
  quantize = "no function of PyTorch", dequantize = "the same", quantized_linear = "the same",
  two_of_four = "the same", two_of_four_dense = "the same", two_of_four_pick = "the same",
  two_of_four_linear = "the same",
}

-- Outputs that have a gradient, where it is not the first alone.
local differentiated = { lstm_cell = { 2, 3 }, gru_cell = { 2 }, detach = {} }

-- Chosen differences: lua/mrt/tensor/README.md.  Those at bounds and ties of narrow
-- floats are kept apart by not asking for gradients there.
local ties = { max_pool2d = true, embedding_bag = true, amax = true, amin = true,
  maximum = true, minimum = true, abs = true, sign = true, relu = true, pow = true,
  remainder = true, prod = true }
local no_special = { prod = "overflows where f64 does not", remainder = "% 0 of an element",
  attention = "a masked NaN", cross_entropy = "-inf is a class of probability 0",
  arange = "", full = "", scatter_add = "", embedding_bag = "", conv2d = "inf * 0 of padding",
  lstm_cell = "", gru_cell = "", batch_norm = "overflow: the table's line",
  group_norm = "the same", layer_norm = "the same", rms_norm = "the same",
  global_norm = "the same", div = "of integers by 0: f32" }

-- The last three only where nothing is added up: there sums cancel or overflow.
local special = { math.huge, -math.huge, 0 / 0, 0.0, -0.0, 1.0, -1.0, 1e30, -1e30, 1e-30 }
local function is_real(t) return tolerance[t.dtype] ~= nil end

local elementwise = {}
for _, o in ipairs(core.operators()) do
  elementwise[o.name] = o.pointwise and #(o.options or {}) == 0
end

-- What PyTorch refuses, or ends the process for, where a tensor is empty.
local refuses_empty = { conv2d = true, max_pool2d = true, avg_pool2d = true,
  adaptive_avg_pool2d = true, batch_norm = true, group_norm = true, embedding_bag = true }

-- The elements of the smallest.
local function elements_in(tensors)
  local least = math.huge
  for _, x in ipairs(tensors) do least = math.min(least, x:numel()) end
  return least
end

local samples

local function whole_cases()
  samples = {}
  for _, row in ipairs(rows.all()) do
    local info
    for _, o in ipairs(core.operators()) do if o.name == row.op then info = o end end
    if not left_out[row.op] and not info.internal and not info.collective then
      samples[#samples + 1] = { row = row, info = info }
    end
  end
end

local random = math.random

local function dims_of(dims)
  local mine = {}
  for i, d in ipairs(dims) do mine[i] = random() < 0.3 and 1 or d end
  -- leading dimensions may be missing
  return random() < 0.2 and #mine > 0 and { table.unpack(mine, random(#mine + 1)) } or mine
end

-- Other shapes for operators that work element by element.
local function reshaped(inputs)
  local dims, list = {}, {}
  for k = 1, random(0, 4) do dims[k] = random() < 0.07 and 0 or random(9) end
  for i, sample in ipairs(inputs) do
    local copy = {}
    for k, v in pairs(sample) do copy[k] = v end
    copy.dims, copy.values = #inputs > 1 and dims_of(dims) or dims, nil
    list[i] = copy
  end
  return list
end

local function given(inputs)
  for _, sample in ipairs(inputs) do
    if sample.values then return true end
  end
end

local function fill(flat, sample, mode, row)
  local low, high = sample.low or -1, sample.high or 1
  local real = not (flat.dtype:find "^[iub]")
  if sample.values and mode ~= "special" or sample.integer or sample.constant then
    if not (sample.integer and not sample.values) then return end
  end
  local same = low + (high - low) * random()
  for i = 1, #flat.data do
    if sample.integer then
      flat.data[i] = random(0, sample.integer - 1)
    elseif flat.dtype == "bool" then
      flat.data[i] = random(0, 1)
    elseif real then
      local x = mode == "constant" and same or low + (high - low) * random()
      if mode == "special" and random() < 0.3 then
        x = special[random(elementwise[row] and #special or 7)]
      end
      flat.data[i] = x + 0.0
    end
  end
end

-- One case: inputs as tensors, and what is asked of it; or nil where it is refused.
local function make()
  local s = samples[random(#samples)]
  local row, info = s.row, s.info
  local case = row.cases[random(#row.cases)]
  local inputs, grad = case.inputs or {}, row.grad and case.grad ~= false
  local reals = rows.reals(row, case)
  local real = random() < 0.2 and ({ "f16", "bf16" })[random(2)] or reals[random(#reals)]
  if elementwise[row.op] and random() < 0.6 and not given(inputs) then
    inputs = reshaped(inputs)
  end
  local mode = random()
  mode = mode < 0.15 and not no_special[row.op] and "special" or mode < 0.25 and "constant" or "any"
  local narrow = real == "f16" or real == "bf16"
  local tensors, elements = {}, 0
  for i, sample in ipairs(inputs) do
    local flat = rows.input(sample, i, real)
    if flat.dtype:find "^f8" then return end
    fill(flat, sample, mode, row.op)
    elements = elements + #flat.data
    tensors[i] = rows.tensor(flat)
  end
  if refuses_empty[row.op] and elements_in(tensors) == 0 then return end
  if elements > 20000 or (case.options and tostring(case.options.dtype):find "^f8") then return end
  if case.options and case.options.compute then return end
  -- floats saturate as integers: a chosen difference
  if row.op == "cast" and is_real(tensors[1]) and not tolerance[case.options.dtype] then return end
  grad = grad and info.differentiable and mode ~= "special"
    and not (ties[row.op] and (narrow or mode == "constant"))
  return { op = row.op, options = case.options or {}, tensors = tensors, mode = mode,
    real = real, row = row, grad = grad and (differentiated[row.op] or { 1 }) or {},
    tolerance = case.tolerance or row.tolerance }
end

local function compute(case)
  local outs = rows.apply(case.row, case.tensors, case.options)
  if case.op == "split" then case.grad = {} end
  case.outs, case.dys, case.dxs = outs, {}, {}
  local ys, dys, xs = {}, {}, {}
  for _, k in ipairs(case.grad) do
    if not is_real(outs[k]) then case.grad = {} return end
    ys[#ys + 1], dys[#dys + 1] = outs[k], mrt.eval(mrt.randn(outs[k].shape):to(outs[k].dtype))
    case.dys[k] = dys[#dys]
  end
  for k, x in ipairs(case.tensors) do
    if is_real(x) then xs[#xs + 1], case.dxs[#case.dxs + 1] = x, { k } end
  end
  if #ys == 0 or #xs == 0 then case.grad = {} return end
  local dx = mrt.grad(ys, xs, { grad_outputs = dys, allow_unused = true })
  for i, g in ipairs(dx) do case.dxs[i][2] = g end
end

local function describe(case)
  local list = {}
  for i, x in ipairs(case.tensors) do list[i] = x:type() end
  for name, v in pairs(case.options) do
    list[#list + 1] = name .. "=" .. (type(v) == "table" and table.concat(v, ",") or tostring(v))
  end
  return ("%s(%s) %s"):format(case.op, table.concat(list, ", "), case.mode)
end

local function compare(case, results, findings)
  local compared, loosest = 0, case.tolerance or 0
  for _, x in ipairs(case.tensors) do
    loosest = math.max(loosest, tolerance[x.dtype] or 0)
  end
  local function check(what, t, name)
    local wanted = results["c" .. case.id .. name]
    if not wanted then return end
    compared = 1
    -- what sums cancel leaves errors of the size of what was added
    local least = loosest > 1e-3 and name:find "g" and 1 or elementwise[case.op] and 0 or 1e-2
    local off = differs(t, wanted, loosest, least)
    if off then findings[#findings + 1] = ("%s: %s: %s"):format(describe(case), what, off) end
  end
  for k, y in ipairs(case.outs) do check("output " .. k, y, ".o" .. k) end
  if #case.grad > 0 then
    for _, d in ipairs(case.dxs) do check("gradient " .. d[1], d[2], ".g" .. d[1]) end
  end
  return compared
end

local function round(seed, folder)
  math.randomseed(seed)
  mrt.seed(seed)
  if not samples then whole_cases() end
  local list, tensors, texts, findings = {}, {}, {}, {}
  while #list < CASES do
    local case = make()
    if case and pcall(compute, case) then
      list[#list + 1] = case
      case.id = #list
      local name = "c" .. case.id
      for k, x in ipairs(case.tensors) do tensors[name .. ".i" .. k] = x end
      for k, dy in pairs(case.dys) do tensors[name .. ".d" .. k] = dy end
      texts[#texts + 1] = json { id = case.id, op = case.op, options = case.options,
        inputs = #case.tensors, grad = case.grad }
    end
  end
  local inputs, results = folder .. "/inputs.safetensors", folder .. "/results.safetensors"
  mrt.save(inputs, tensors)
  local cases = files.write(folder .. "/cases.json", "[" .. table.concat(texts, ",\n") .. "]")
  local said = folder .. "/said"
  local ok = beside.python("spec/campaign/torch_side.py", said, cases, inputs, results)
  if os.getenv "MRT_CAMPAIGN_TRACE" then io.stderr:write(files.read(said)) end
  if not ok then return 0, { "torch_side.py failed: " .. files.read(said):sub(-300) } end
  local wanted, compared = mrt.load(results), 0
  for _, case in ipairs(list) do compared = compared + compare(case, wanted, findings) end
  return compared, findings
end

return {
  about = "operators and gradients against PyTorch (PYTHON=...)",
  unit = "cases",
  program = "plain",
  missing = beside.missing,
  round = round,
}
