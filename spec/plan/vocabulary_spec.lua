--- vocabulary_spec.lua -- every function that PyTorch has too, in a step under every technique
---
--- A row of spec/torch/ that has a gradient is trained: its float inputs are variables,
--- behind a layer and before another; the step is planned as a few random options ask.
--- All of them give the bits of the step that is computed line by line, and take the
--- bytes that their plans say.  MRT_SPEC_FIRST is the first seed.
---
--- SPDX-License-Identifier: MIT

local bits = require("support.bits").of
local mrt = require "mrt"
local vocabulary = require "support.vocabulary"

local policy = mrt.policy
local first_seed = tonumber(os.getenv "MRT_SPEC_FIRST") or 1
local tries = tonumber(os.getenv "MRT_SPEC_TRIES") or 2
-- Where everything is slow, one row of so many.
local one_of = os.getenv "MRT_SPEC_LEAN" == "1" and 6 or 1

local floats = { f32 = true, f64 = true, bf16 = true, f16 = true }

local function weighed(y)
  local n = y:numel()
  local w = mrt.cos(mrt.arange(n, { dtype = "f32" }) * 0.7 + 0.3):reshape(y.shape)
  local finite = mrt.lt(y:abs(), 1e30)
  return (mrt.where(finite, y, 0):to "f32" * w):sum()
end

-- The loss of a case, of what a layer makes of its inputs.
local function loss_of(case, xs)
  local made = {}
  for i, x in ipairs(xs) do
    made[i] = floats[x.dtype] and not case.constant[i] and x * 1.25 * 0.8 or x
  end
  local out = vocabulary.call(vocabulary.with(case, made), 1)
  if out.n == 1 and type(out[1]) == "table" and not mrt.is_tensor(out[1]) then
    out = table.pack(table.unpack(out[1]))
  end
  local loss
  for k = 1, math.min(out.n, case.row.results or 1) do
    local y = out[k]
    if mrt.is_tensor(y) and floats[y.dtype] then
      local term = weighed(y) + weighed((y * y):sigmoid())
      loss = loss and loss + term or term
    end
  end
  return loss
end

-- The variables of a case and a step that goes down its loss.
local function trained(case, options)
  local xs, params = {}, {}
  for i, x in ipairs(case.tensors) do
    xs[i] = x:copy()
    if floats[x.dtype] and not case.constant[i] then
      xs[i] = mrt.variable(xs[i])
      params[#params + 1] = xs[i]
    end
  end
  mrt.eval(xs)
  local function step()
    local loss = loss_of(case, xs)
    local grads = mrt.grad(loss, params, { allow_unused = true })
    for i, w in ipairs(params) do w:assign(w - grads[i] * 0.01) end
    return loss
  end
  return options and mrt.compile(step, options) or step, params
end

-- What the loss does not depend on is no part of the plan.
local function all_used(case)
  local xs = {}
  for _, x in ipairs(case.tensors) do
    if floats[x.dtype] then xs[#xs + 1] = x end
  end
  local given = vocabulary.with(case, case.tensors)
  given.constant = {}
  return (pcall(mrt.grad, loss_of(given, given.tensors), xs))
end

local function two_steps(case, options)
  local step, params = trained(case, options)
  local list = {}
  for i = 1, 2 do list[i] = bits { mrt.eval(step()) } end
  return table.concat(list) .. bits(params), step
end

-- A step may lead where there is no answer: a singular matrix.
local function left_domain(err) assert.equal("data", err.code, tostring(err)) end

-- The least that its plan can do with, by its refusal.
local function least_of(case, o)
  local given = { memory = 1 }
  for k, v in pairs(o) do given[k] = v end
  local ok, err = pcall(function() return (trained(case, given)):plan() end)
  assert(not ok, "one byte is enough")
  return err.least or math.tointeger(tostring(err):match "at least (%d+)")
end

local ways = {
  { "no fusing", function() return { fuse = false, inplace = false } end },
  { "all computed again", function() return { checkpoint = policy.checkpoint.all() } end },
  { "swapped", function()
    return { checkpoint = policy.checkpoint.swap(), swap = policy.swap.all { least = 1 } }
  end },
  { "program order, nothing shared", function() return { order = "program", share = false } end },
  { "as little memory as there can be", function(case)
    local least = least_of(case, {})
    return least and { memory = least } or {}
  end },
}

describe("what PyTorch has too, trained", function()
  local rows = {}
  for _, row in ipairs(vocabulary.rows()) do
    if row.grad and row.draw and not row.eager then rows[#rows + 1] = row end
  end

  local function each(f)
    for k, row in ipairs(rows) do
      for try = 1, k % one_of == 0 and tries or 0 do
        math.randomseed(first_seed * 100003 + k * 101 + try)
        local dtype = try % 3 == 0 and "f64" or "f32"
        local drawn = row.draw(vocabulary.r, dtype)
        local case = drawn and vocabulary.case(row, drawn, dtype)
        if case and not (row.only_if and not row.only_if(case.values, dtype)) then
          local elements = 0
          for _, x in ipairs(case.tensors) do elements = elements + x:numel() end
          if elements > 0 and elements < 5000 and pcall(loss_of, case, case.tensors) then
            f(case, k + try)
          end
        end
      end
    end
  end

  it("gives the same bits however it is planned", function()
    local count = 0
    each(function(case, k)
      local what = vocabulary.describe(case)
      local ok, wanted = pcall(two_steps, case, {})
      if not ok then return left_domain(wanted) end
      local line = two_steps(case)
      assert(wanted == line, what .. ": planned, it differs from line by line")
      local way = ways[k % #ways + 1]
      local got = two_steps(case, way[2](case))
      assert(got == wanted, what .. ": " .. way[1] .. ", it differs")
      count = count + 1
    end)
    assert.is_true(count > #rows // 2 // one_of)
  end)

  it("gives the same bits in bf16 however it is planned", function()
    each(function(case, k)
      local function narrow(o)
        o.precision = policy.precision.bf16()
        return o
      end
      local what = vocabulary.describe(case) .. ", bf16"
      local ok, wanted = pcall(two_steps, case, narrow {})
      if not ok then return left_domain(wanted) end
      local way = ways[k % (#ways - 1) + 1]
      local got = two_steps(case, narrow(way[2](case)))
      assert(got == wanted, what .. ": " .. way[1] .. ", it differs")
    end)
  end)

  it("takes the bytes that its plan says", function()
    each(function(case)
      -- a layer that a call makes has parameters of its own beside the step's
      if case.row.torch:find "^torch%.nn%.%u" or not all_used(case) then return end
      collectgarbage()
      collectgarbage()
      local before = mrt.memory { reset = true }.now
      local step = trained(case, {})
      local plan = step:plan()
      step():free()
      assert.equal(plan.peak, mrt.memory().peak - before, vocabulary.describe(case))
    end)
  end)
end)
