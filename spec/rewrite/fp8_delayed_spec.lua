--- fp8_delayed_spec.lua -- f8 numbers scaled by what was largest in earlier steps
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local failure = require "support.failure"
local bits = require("support.bits").of
local ranks = require "support.ranks"
local training = require "support.training"
local files = require "support.files"

local optim, policy, train = mrt.optim, mrt.policy, mrt.train
local fp8, gpt = policy.precision.fp8, training.gpt

local function delayed(o)
  o = o or {}
  o.scaling, o.history = "delayed", o.history or 4
  return fp8(o)
end

local function rounded(x) return (string.unpack("<f", string.pack("<f", x))) end

local FLT_MAX <const> = 0x1.fffffep+127

-- Transformer Engine's scale of one tensor, by its definition: the history's first
-- slot takes the present amax; after use it rolls and the slot is zeroed.
local function reference(room, o)
  local history, scale = {}, 1
  for i = 1, o.history do history[i] = 0 end
  return function(amax)
    history[1] = amax -- the slot that was zeroed
    local most, bad = 0, false
    for _, a in ipairs(history) do
      bad = bad or a ~= a
      most = math.max(most, a)
    end
    if not bad and most > 0 and most < math.huge then
      local fits = room / most
      fits = fits < 0x1.ffffffp+127 and rounded(fits) / 2 ^ o.margin or math.huge
      scale = fits < math.huge and rounded(fits) or FLT_MAX
    end
    table.insert(history, table.remove(history, 1))
    history[1] = 0
    return scale
  end
end

local function state_of(step)
  local out = {}
  if not step.options.delayed then return "" end
  step.options.delayed:state(out)
  local list = {}
  for _, n in ipairs(out.fp8) do
    list[#list + 1] = out["fp8.scale." .. n]
    list[#list + 1] = out["fp8.history." .. n]
  end
  return bits(list)
end

local function run(options, steps)
  local t, losses = gpt(options), {}
  for i = 1, steps do losses[i] = t.step(table.unpack(t.batch)):item() end
  return table.concat(losses, " ") .. bits(t.model:parameters()) .. state_of(t.step), losses
end

describe("current scaling", function()
  it("takes numbers of every size", function()
    local function product(x, w) return x:matmul(w) end
    local step = mrt.compile(product, { precision = fp8() })
    local trapped = mrt.compile(product, { precision = fp8(), nan = "trap" })
    local one = mrt.tensor { { 1.0, 0 }, { 0, 1 } }
    for peak, kept in pairs { [0] = 0, [1e-3] = 1e-3, [3e38] = 3e38, [1e-37] = 1e-37 } do
      if peak == 0 then trapped(mrt.zeros(1, 2), one) end
      local y = step(mrt.tensor { { 0.0, peak + 0.0 } }, one)
      assert.equal(0, y[1][1]:item())
      assert.near(kept, y[1][2]:item(), kept / 16) -- 4 bits
    end
    local large = mrt.tensor { { 0.0, 1e30 } }
    assert.same({ { 0, math.huge } }, step(large, mrt.eye(2) * 1e30):totable())
  end)

  it("shows what is not finite", function()
    for _, scaling in ipairs { "current", "delayed" } do
      local step = mrt.compile(function(x, w) return x:matmul(w) end,
        { precision = fp8 { scaling = scaling } })
      for _, x in ipairs { math.huge, -math.huge, 0 / 0 } do
        local y = step(mrt.tensor { { 1.0, x } }, mrt.ones(2, 1)):item()
        assert.is_false(y - y == 0)
      end
    end
  end)
end)

describe("delayed scaling", function()
  it("goes as Transformer Engine's does, step by step", function()
    local inf, nan = math.huge, 0 / 0
    local peaks = { 0, 2, 0.5, 0.25, 1e-3, 3e4, 1, 1, 1, 0, 0, 0, 0, 7, inf, 2, 2, 2, 2,
      nan, 5, 5, 5, 5, 1e-38, 1e-38, 1e-38, 1e-38, 1e-41, 1e-41, 1e-41, 1e-41, 1, 3e38 }
    for _, o in ipairs { { history = 3, margin = 0 }, { history = 1, margin = 2 },
      { history = 1024, margin = 0 } } do
      local step = mrt.compile(function(x, w) return x:matmul(w) end,
        { precision = delayed { history = o.history, margin = o.margin } })
      local next_x, next_w = reference(448, o), reference(448, o)
      local sx, sw = 1, 1
      local w = mrt.tensor { { 0.5, -1.5 }, { 3, 0.25 } }
      local function fit(x, s) return (x * s):to "f8_e4m3":to "f32" end
      for i, peak in ipairs(peaks) do
        local x = mrt.tensor { { 0.3 * peak, -peak } }
        local wanted = fit(x, sx):matmul(fit(w, sw))
          * mrt.tensor(1 / math.max(sx, sw), "f32") * mrt.tensor(1 / math.min(sx, sw), "f32")
        local got = step(x, w)
        if peak < 1e30 and peak > 1e-30 then -- and no NaN
          assert.equal(wanted:bytes(), got:bytes(), "step " .. i)
        end
        sx, sw = next_x(rounded(peak)), next_w(3)
        local now = step:fp8()
        assert.equal(2, #now)
        assert.equal(sx, now[1].scale, ("scale after step %d"):format(i))
        assert.equal(sw, now[2].scale)
      end
    end
  end)

  it("saturates what earlier steps did not foresee", function()
    local step = mrt.compile(function(x, w) return x:matmul(w) end,
      { precision = delayed() })
    local one = mrt.tensor { { 1.0 } }
    step(one, one)
    assert.equal(448, step:fp8()[1].scale)
    assert.near(1, step(mrt.tensor { { 100.0 } }, one):item(), 1e-6)
    assert.near(100, step(mrt.tensor { { 100.0 } }, one):item(), 1e-4)
  end)

  it("trains, as f32 does to what f8 holds #long", function()
    local _, wide = run({ precision = fp8() }, 40)
    local _, losses = run({ precision = delayed() }, 40)
    assert.near(wide[40], losses[40], 0.05 * wide[40] + 0.02)
  end)

  it("gives the same bits however the step is planned #long", function()
    local wanted = run({ precision = delayed() }, 4)
    for name, options in pairs {
      order = { order = "program" }, fuse = { fuse = false },
      inplace = { inplace = false, share = false },
      recompute = { checkpoint = policy.checkpoint.all() },
      swap = { checkpoint = policy.checkpoint.swap(), swap = policy.swap.all() },
    } do
      options.precision = delayed()
      assert(wanted == run(options, 4), name)
    end
    local t = gpt { precision = delayed() }
    local peak = t.step:plan(table.unpack(t.batch)).peak
    assert(wanted == run({ precision = delayed(), memory = peak - 30000 }, 4), "budget")
  end)

  it("counts its state, which only one update changes", function()
    local t = gpt { precision = delayed { history = 1024 } }
    local step, batch = t.step, t.batch
    local plan, bytes = step:plan(table.unpack(batch)), {}
    for _, v in ipairs(plan:values()) do
      if v.name then bytes[v.name] = (bytes[v.name] or 0) + v.bytes end
    end
    local sites = #step:fp8()
    assert.equal((sites * 4 + 63) // 64 * 64, bytes["fp8.scale"])
    assert.equal(sites * 4096, bytes["fp8.history"])
    assert.is_nil(bytes["fp8.amax"])
    assert.matches("f8_e5m2", plan:graph "precision")
    local before = state_of(step)
    step:profile(table.unpack(batch))
    step:ranges(table.unpack(batch))
    assert.equal(before, state_of(step))
    assert.matches("f8_e5m2   gradient, ", tostring(step:fp8()))
    assert.matches("support/training.lua:%d+", tostring(step:fp8()))
  end)

  it("takes what is largest in any micro-batch", function()
    local w = mrt.parameter(mrt.ones(4, 2), "w")
    local function make(k)
      local opt = optim.sgd({ w }, { lr = 0.0 })
      return mrt.compile(function(x)
        local loss = x:matmul(w):sum()
        opt:step(mrt.grad(loss, { w }))
        return loss
      end, { precision = delayed { history = 2 }, accumulate = k })
    end
    local whole, parts = make(1), make(3) -- of 3, 3 and 1 rows
    local function scales(step)
      local list = {}
      for i, s in ipairs(step:fp8()) do list[i] = { s.scale, s.amax } end
      return list
    end
    local peaks = { { 5, 2, 3 }, { 1, 2, 9 }, { 1, 1, 1 }, { 1, 2, 1 }, { 0, 0, 0 } }
    for _, p in ipairs(peaks) do
      local x = mrt.cat({ mrt.full({ 3, 4 }, p[1]), mrt.full({ 3, 4 }, -p[2]),
        mrt.full({ 1, 4 }, p[3]) }, 1)
      assert.near(whole(x):item(), parts(x):item(), 1e-4)
      assert.same(scales(whole), scales(parts))
      assert.equal(math.max(table.unpack(p)), scales(parts)[1][2])
    end
    assert.equal(mrt.ones(4, 2):bytes(), w:bytes())
    local counted = parts:plan(mrt.ones(7, 4)).accumulators
    assert.equal(3 * 64, counted) -- the loss, the gradient, and amax
  end)

  it("goes on from a state, and from a snapshot, with the same bits", function()
    local folder = files.name()
    local function new(o)
      local t = gpt { precision = delayed(o) }
      t.snapshots = train.snapshots { folder = folder,
        parts = { step = t.step, model = t.model, optimizer = t.opt } }
      return t
    end
    local function run_on(t) for _ = 1, 3 do t.step(table.unpack(t.batch)) end end
    local one, other, third = new(), new(), new()
    run_on(one)
    assert(one.snapshots:save(3))
    run_on(one)
    assert.equal(3, other.snapshots:resume())
    run_on(other)
    assert.equal(bits(one.model:parameters()), bits(other.model:parameters()))
    assert.equal(state_of(one.step), state_of(other.step))
    third.step:load_state(one.step:state())
    assert.equal(state_of(one.step), state_of(third.step))
    local short = new { history = 2 }
    assert.matches("fp8.history.*wanted f32%[2,", failure(function()
      short.snapshots:load(folder .. "/step-00000003.safetensors")
    end).message)
  end)

  it("is one state for plans of as many values", function()
    local step = mrt.compile(function(x, w, twice)
      local y = x:matmul(w)
      return twice and y:matmul(w) or y
    end, { precision = delayed() })
    local w = mrt.ones(2, 2)
    step(mrt.ones(3, 2), w)
    step(mrt.full({ 5, 2 }, 7), w)
    assert.equal(448 / 7, step:fp8()[1].scale)
    step(mrt.full({ 5, 2 }, 9), w, true)
    assert.equal(3, #step:fp8())
    assert.equal(rounded(448 / 9), step:fp8()[1].scale)
    step(mrt.ones(3, 2), w)
    assert.same({ 2, 3 }, step:state().fp8)
    local none = mrt.compile(function(x) return x + 1 end, { precision = delayed() })
    none(w)
    assert.is_nil(none:fp8())
  end)

  it("has the scales of all rows on all ranks, or of all pieces", function()
    local code = [[
      local grid = %s
      mrt.seed(3)
      local x = mrt.eval(mrt.randn(8, 16))
      mrt.seed(1)
      local w, v = mrt.parameter(mrt.randn(16, 16), "w"), mrt.parameter(mrt.randn(16, 16), "v")
      local opt = optim.sgd({ w, v }, { lr = 0.01 })
      if grid then grid.comm = comm end
      local step = mrt.compile(function(a)
        local loss = a:matmul(w):relu():matmul(v):square():sum()
        opt:step(mrt.grad(loss, { w, v }))
        return loss
      end, { mesh = grid, precision = policy.precision.fp8 { scaling = "delayed", history = 2 } })
      local rows = 8 // (grid and (grid.data or grid.shard) or 1)
      local from = comm.rank * rows %% 8
      for _ = 1, 3 do step(mrt.eval(x:slice(1, from + 1, from + rows) + 0)) end
      local scales = {}
      for _, site in ipairs(step:fp8()) do
        scales[#scales + 1] = not site.backward and ("%%a"):format(site.scale) or nil
      end
      return table.concat(scales, " ")
    ]]
    for _, mesh in ipairs { "{ data = 2 }", "{ shard = 2 }" } do
      local n, of_all = {}, ranks.alike(2, (code:format(mesh)))
      for scale in of_all:gmatch "%S+" do n[#n + 1] = tonumber(scale) end
      assert.is_true(#n >= 2)
    end
    -- of a sum of losses activations are those of one rank
    assert.equal(ranks.alike(1, (code:format("nil"))), ranks.alike(2,
      (code:format("{ tensor = 2 }"))))
  end)

  it("is refused where micro-batches and the update both have products", function()
    local w = mrt.parameter(mrt.ones(4, 4), "w")
    local opt = optim.muon({ w }, { lr = 0.1 })
    local step = mrt.compile(function(x)
      local loss = x:matmul(w):sum()
      opt:step(mrt.grad(loss, { w }))
      return loss
    end, { precision = delayed(), accumulate = 2 })
    local err = failure(function() step(mrt.ones(4, 4)) end)
    assert.matches("plans of %d+ and of 3 scaled values.*option 'except'", err.message)
    assert.matches("fp8_delayed_spec.lua:%d+", tostring(err))
  end)

  it("is refused where it makes no sense", function()
    local function refused(o) return failure(fp8, o).message end
    assert.matches('"current" or "delayed" wanted, got "late"', refused { scaling = "late" })
    assert.matches("'history': a positive integer", refused { scaling = "delayed",
      history = 0 })
    assert.matches("'margin': an integer from 0 to 64 wanted, got 0.5",
      refused { scaling = "delayed", margin = 0.5 })
    assert.matches("option 'history' is of scaling", refused { history = 16 })
    assert.matches("option 'margin' is of scaling", refused { margin = 1 })
    assert.matches("fp8_delayed_spec.lua:%d+",
      tostring(failure(function() fp8 { scaling = 1 } end)))
  end)
end)
