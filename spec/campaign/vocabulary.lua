--- vocabulary.lua -- every function that PyTorch has too, and its gradient, beside PyTorch
---
--- Cases are drawn by the rows of spec/torch/, in all dtypes that a row names, with
--- arguments by place and by name.  PyTorch computes them in f64
--- (vocabulary_side.py); what differs by more than the dtype's tolerance, what is
--- refused on one side alone, and integers of another dtype are findings.
--- MRT_VOCABULARY=sort,topk: of these functions only.
---
--- SPDX-License-Identifier: MIT

local beside = require "support.beside_torch"
local files = require "support.files"
local mrt = require "mrt"
local vocabulary = require "support.vocabulary"

local CASES <const> = 1500
local random = math.random
local floats = beside.tolerance

local chosen = os.getenv "MRT_VOCABULARY"

local function is_float(t) return floats[t:get_dtype()] ~= nil end

local rows

local function load_rows()
  rows = {}
  for _, row in ipairs(vocabulary.rows()) do
    local name = row.torch:match "[^.]+$"
    if row.draw and (not chosen or ("," .. chosen .. ","):find("," .. name .. ",", 1, true)) then
      rows[#rows + 1] = row
    end
  end
end

-- Gradients of the float results with respect to the float inputs.
local function differentiate(case)
  local ys, dys, xs, places = {}, {}, {}, {}
  for k = 1, math.min(case.outs.n, case.row.results or 1) do
    local y = case.outs[k]
    if mrt.is_tensor(y) and is_float(y) then
      ys[#ys + 1] = y
      dys[#dys + 1] = mrt.eval(mrt.rand(y.shape) + 0.5):to(y.dtype)
      case.dys[k] = dys[#dys]
    end
  end
  for k, x in ipairs(case.tensors) do
    if is_float(x) and not case.constant[k] then xs[#xs + 1], places[#places + 1] = x, k end
  end
  if #ys == 0 or #xs == 0 then return end
  local dx = mrt.eval(mrt.grad(ys, xs, { grad_outputs = dys, allow_unused = true }))
  for i, g in ipairs(dx) do case.dxs[places[i]] = g end
end

local function flattened(outs)
  if outs.n == 1 and type(outs[1]) == "table" and not mrt.is_tensor(outs[1]) then
    return table.pack(table.unpack(outs[1]))
  end
  return outs
end

local function compute(case)
  case.outs = flattened(vocabulary.call(case, random()))
  local lazy = {}
  for k = 1, math.min(case.outs.n, case.row.results or 1) do
    if mrt.is_tensor(case.outs[k]) then lazy[#lazy + 1] = case.outs[k] end
  end
  mrt.eval(lazy)
  if case.row.grad then differentiate(case) end
end

local function make()
  local row = rows[random(#rows)]
  local dtype = row.dtypes and row.dtypes[random(#row.dtypes)] or random() < 0.5 and "f32" or "f64"
  local drawn = row.draw(vocabulary.r, dtype)
  local case = drawn and vocabulary.case(row, drawn, dtype)
  if not case or row.only_if and not row.only_if(case.values, dtype) then return end
  case.dys, case.dxs = {}, {}
  local ok, err = pcall(compute, case)
  case.refused = not ok and tostring(err) or nil
  return case
end

local function text_of(case)
  local grad = {}
  for k in pairs(case.dys) do grad[#grad + 1] = k end
  table.sort(grad)
  local reals = {}
  for k in pairs(case.dxs) do reals[#reals + 1] = k end
  table.sort(reals)
  return beside.json { id = case.id, call = vocabulary.python(case), inputs = #case.tensors,
    results = case.row.results or 1, as_given = case.row.as_given or false, grad = grad,
    reals = reals }
end

local kinds = { bool = "bool", i64 = "integer", i32 = "integer", u8 = "integer" }

-- What came out of one case, against `said`: PyTorch's dtypes or its refusal.
local function compare(case, wanted, said, findings)
  local row = case.row
  local function found(text)
    findings[#findings + 1] = ("%s: %s"):format(vocabulary.describe(case), text)
  end
  if said.refused then
    if not case.refused and not row.takes_more then found("PyTorch refuses: " .. said.refused) end
    return
  elseif case.refused then
    return found("refused: " .. case.refused:match "^[^\n]*")
  end
  local loosest = row.tolerance or 0
  for _, x in ipairs(case.tensors) do loosest = math.max(loosest, floats[x.dtype] or 0) end
  for k = 1, row.results or 1 do
    local t, name = case.outs[k], ("c%d.o%d"):format(case.id, k)
    if t == nil or wanted[name] == nil then
      return found(("result %d is missing here or there"):format(k))
    end
    if type(t) == "boolean" then t = mrt.tensor(t) end
    if type(t) == "number" then t = mrt.tensor(t, "f64") end
    local kind = kinds[t.dtype] or "float"
    if kind ~= said.kinds[k] then
      found(("result %d is %s, %s wanted"):format(k, t.dtype, said.kinds[k]))
    end
    local off = beside.differs(mrt.eval(t), wanted[name], loosest, 1e-2)
    if off then found(("result %d: %s"):format(k, off)) end
  end
  for k, g in pairs(case.dxs) do
    local w = wanted[("c%d.g%d"):format(case.id, k)]
    local off = w and beside.differs(g, w, loosest, 1)
    if off then found(("gradient %d: %s"):format(k, off)) end
  end
end

local function round(seed, folder)
  math.randomseed(seed)
  mrt.seed(seed)
  if not rows then load_rows() end
  local list, tensors, texts, findings = {}, {}, {}, {}
  while #list < CASES do
    local case = make()
    if case then
      list[#list + 1] = case
      case.id = #list
      local name = "c" .. case.id
      for k, x in ipairs(case.tensors) do tensors[name .. ".i" .. k] = x end
      for k, dy in pairs(case.dys) do tensors[name .. ".d" .. k] = dy end
      texts[#texts + 1] = text_of(case)
    end
  end
  local inputs, results = folder .. "/inputs.safetensors", folder .. "/results.safetensors"
  mrt.save(inputs, tensors)
  local cases = files.write(folder .. "/cases.json", "[" .. table.concat(texts, ",\n") .. "]")
  local answers, said = folder .. "/answers.lua", folder .. "/said"
  if not beside.python("spec/campaign/vocabulary_side.py", said, cases, inputs, results,
      answers) then
    return 0, { "vocabulary_side.py failed: " .. files.read(said):sub(-300) }
  end
  local wanted, told = mrt.load(results), dofile(answers)
  for _, case in ipairs(list) do compare(case, wanted, told[case.id], findings) end
  return #list, findings
end

return {
  about = "functions that PyTorch has too, with gradients (PYTHON=...)",
  unit = "cases",
  program = "plain",
  missing = beside.missing,
  round = round,
}
