-- ops_spec.lua -- what every operator promises, written once over all rows
local mrt = require "mrt"
local core = require "mrt.core"
local rows = require "op.rows"
local bits = require("support.bits").of

local samples = rows.all()

-- Where kernels take long to make or to run, the rules are tried, not every size.
local lean = os.getenv "MRT_SPEC_LEAN" == "1"

-- What has no samples of its own: made by the library, or drawn at random.
local apart = { fused = true, fused_reduce = true,
  swap_out = true, swap_in = true, swap_wait = true, arrive = true,
  custom = true, rand = true, randn = true, randint = true,
  dropout = true }

local function where(row, k, real)
  return ("%s, case %d, %s"):format(row.op, k, real)
end

local function tensors_of(ins)
  local list = {}
  for i, flat in ipairs(ins) do
    list[i] = rows.tensor(flat)
  end
  return list
end

-- Call f(row, case, k, real, ins) for every case that is not an update, in every
-- dtype, or in one: they take turns.
local function each_case(f, one)
  for _, row in ipairs(samples) do
    for k, case in ipairs(row.updates and {} or row.cases) do
      local reals = rows.reals(row, case)
      if one then reals = { reals[k % #reals + 1] } end
      for _, real in ipairs(reals) do
        f(row, case, k, real, rows.inputs(case, real))
      end
    end
  end
end

describe("every operator row", function()
  it("is complete: a doc line, samples with an oracle and bad input", function()
    local sampled = {}
    for _, row in ipairs(samples) do
      sampled[row.op] = row
    end
    for _, info in ipairs(rows.partial and {} or core.operators()) do
      assert(info.doc and #info.doc > 5, info.name .. " has no doc")
      if not apart[info.name] then
        assert(sampled[info.name], info.name .. " has no samples")
      end
    end
  end)

  it("agrees with its oracle, in every dtype", function()
    local checked = 0
    each_case(function(row, case, k, real, ins)
      if not row.oracle then
        return
      end
      local outs = rows.apply(row, tensors_of(ins), case.options)
      local wanted = row.oracle(ins, case.options or {})
      mrt.eval(outs)
      for i, w in ipairs(wanted) do
        local t = outs[i]
        assert.are.same(w.dims, t.shape, where(row, k, real) .. ": shape of output " .. i)
        local loose = case.tolerance or row.tolerance or rows.loosest(ins, real)
        local what = rows.differs(rows.data(t), w.data, loose)
        assert(not what, where(row, k, real) .. ": output " .. i .. ": " .. tostring(what))
        checked = checked + 1
      end
    end)
    assert(rows.partial or checked > 200)
  end)

  it("refuses bad input with the right code, naming itself", function()
    for _, row in ipairs(samples) do
      for k, bad in ipairs(row.updates and {} or row.bad or {}) do
        local ok, err = pcall(function()
          mrt.eval(rows.apply(row, tensors_of(rows.inputs(bad, "f32")), bad.options))
        end)
        local at = ("%s, bad case %d"):format(row.op, k)
        assert(not ok, at .. " was accepted")
        assert.are.equal(bad.code, err.code, at .. ": " .. tostring(err))
        assert(tostring(err):find(row.op, 1, true), at .. ": " .. tostring(err))
        if bad.match then
          local text = tostring(err)
          assert(text:find(bad.match, 1, true) or text:find(bad.match), at .. ": " .. text)
        end
      end
    end
  end)

  it("gives the same bits twice, fused or not, in place or not, poisoned or not", function()
    each_case(function(row, case, k, real, ins)
      if #ins == 0 then
        return
      end
      local given = tensors_of(ins)
      local function compiled(options)
        mrt.seed(7)
        local step = mrt.compile(function(...)
          -- something to fuse with, in place of which results can go
          local list = {}
          for i, t in ipairs { ... } do
            list[i] = (t.dtype == "f32" or t.dtype == "f64") and -(-t) * 1.5 / 1.5 or t
          end
          return table.unpack(rows.apply(row, list, case.options))
        end, options)
        return bits { step(table.unpack(given)) }
      end
      core.set_poison(true)
      local reference = compiled { fuse = false, inplace = false, share = false }
      assert.are.equal(reference, compiled {}, where(row, k, real) .. " as planned")
      assert.are.equal(reference, compiled {}, where(row, k, real) .. " again")
      if not lean then
        assert.are.equal(reference, compiled { cse = false, fold = false, simplify = false },
          where(row, k, real) .. " not simplified")
      end
      core.set_poison(false)
    end, lean)
  end)

  it("does not care whether an input is a strided view", function()
    each_case(function(row, case, k, real, ins)
      local given, views, strided = tensors_of(ins), {}, false
      for i, t in ipairs(given) do
        views[i] = t
        if #ins[i].dims >= 2 then
          local r = #ins[i].dims
          local turned = mrt.eval(t:transpose(r - 1, r):copy())
          views[i] = turned:transpose(r - 1, r)
          strided = true
        end
      end
      if not strided or not row.oracle then
        return
      end
      local straight = rows.apply(row, given, case.options)
      local turned = rows.apply(row, views, case.options)
      mrt.eval(straight)
      mrt.eval(turned)
      for i, t in ipairs(straight) do
        local what = rows.differs(rows.data(turned[i]), rows.data(t), rows.loosest(ins, real))
        assert(not what, where(row, k, real) .. " strided: " .. tostring(what))
      end
    end, lean)
  end)
end)

-- ---- gradients ------------------------------------------------------------

-- Sum of the float outputs, each weighted by fixed numbers, as a scalar.
local function weighted(outs)
  local total
  for _, t in ipairs(outs) do
    if t.dtype == "f64" then
      local n = rows.count(t.shape)
      local w = (mrt.arange(n, { dtype = "f64" }) * 0.7 + 0.3):sin():reshape(t.shape)
      local term = (t * w):sum()
      total = total and total + term or term
    end
  end
  return total
end

-- A line through input i: some of its elements, and how far each goes for a step
-- of one.  Numbers of every size and sign, so that no error hides another.
local function line_of(data)
  local line = {}
  for j = 1, #data, math.max(1, #data // 7) do
    line[j] = (1 + math.sin(1.7 * j) / 2) * (j % 2 == 0 and -1 or 1)
      * math.max(1, math.abs(data[j]))
  end
  return line
end

-- The derivative of f along it, by central differences.
local function numeric(f, ins, i, line, h)
  local given = ins[i].data
  local function moved(step)
    local data = { table.unpack(given) }
    for j, d in pairs(line) do data[j] = given[j] + step * d end
    ins[i].data = data
    return f(tensors_of(ins)):item()
  end
  local above, below = moved(h), moved(-h)
  ins[i].data = given
  return (above - below) / (2 * h)
end

local function check_gradient(f, ins, at, h, tolerance)
  local given, xs, places = tensors_of(ins), {}, {}
  for i, t in ipairs(given) do
    if t.dtype == "f64" and t:numel() > 0 and not ins[i].constant then
      xs[#xs + 1], places[#places + 1] = t, i
    end
  end
  if #xs == 0 then
    return
  end
  local y = f(given)
  if not y then
    return
  end
  local grads = mrt.grad(y, xs, { allow_unused = true })
  mrt.eval(grads)
  for n, i in ipairs(places) do
    local data, line, along = rows.data(grads[n]), line_of(ins[i].data), 0
    for j, d in pairs(line) do along = along + data[j] * d end
    local wanted = numeric(f, ins, i, line, h)
    assert(math.abs(along - wanted) <= tolerance * math.max(1, math.abs(wanted)),
      ("%s: input %d: gradient %.9g along a line, %.9g by differences"):format(at, i,
        along, wanted))
  end
end

describe("every differentiable row", function()
  -- The first `most` such cases of each row that is differentiable `twice`, or at all:
  -- `grad` is "once" of a row whose gradient has none.
  local function each_differentiable(most, twice, f)
    for _, row in ipairs(samples) do
      local tried = 0
      local counts = row.grad and not row.updates and not (twice and row.grad == "once")
      for k, case in ipairs(counts and row.cases or {}) do
        local ins = rows.inputs(case, "f64")
        local elements = 0
        for _, flat in ipairs(ins) do
          elements = elements + #flat.data
        end
        if elements < 3000 and case.grad ~= false and tried < most then
          tried = tried + 1
          f(row, case, ins, where(row, k, "f64"))
        end
      end
    end
  end

  it("has the gradient that finite differences give", function()
    each_differentiable(lean and 2 or math.huge, false, function(row, case, ins, at)
      check_gradient(function(list)
        return weighted(rows.apply(row, list, case.options))
      end, ins, at, 1e-6, 2e-6)
    end)
  end)

  it("has the second derivative that differences of the first give", function()
    each_differentiable(lean and 1 or math.huge, true, function(row, case, ins, at)
      check_gradient(function(list)
        local xs = {}
        for _, t in ipairs(list) do
          if t.dtype == "f64" then
            xs[#xs + 1] = t
          end
        end
        local y = weighted(rows.apply(row, list, case.options))
        return y and weighted(mrt.grad(y, xs, { allow_unused = true }))
      end, ins, at .. ", second", 1e-5, 2e-5)
    end)
  end)
end)

-- ---- updates --------------------------------------------------------------

describe("every updating row", function()
  it("writes what its oracle says, and nothing when told not to", function()
    for _, row in ipairs(samples) do
      for k, case in ipairs(row.updates and row.cases or {}) do
        for _, real in ipairs(rows.reals(row, case)) do
          local ins = rows.inputs(case, real)
          local list, wanted = tensors_of(ins), row.oracle(ins, case.options or {})
          for i = 1, row.variables or #wanted do
            list[i] = mrt.variable(list[i])
          end
          if row.op == "assign" then
            list[1]:assign(list[2], { when = list[3] })
          else
            core.update(row.op, list, case.options)
          end
          for i, w in ipairs(wanted) do
            local loose = row.tolerance or rows.tolerance[real]
            local what = rows.differs(rows.data(mrt.eval(list[i])), w.data, loose)
            assert(not what, where(row, k, real) .. ": variable " .. i .. ": " .. tostring(what))
          end
        end
      end
    end
  end)
end)
