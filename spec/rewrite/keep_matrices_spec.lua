-- keep_matrices_spec.lua -- matrices that many small products read are rounded and turned once
--
-- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local bits = require "support.bits"
local random_graph = require "support.random_graph"
local ranks = require "support.ranks"
local training = require "support.training"
local nn, optim, policy = mrt.nn, mrt.optim, mrt.policy

local GRAPHS <const> = tonumber(os.getenv "MRT_SPEC_GRAPHS") or 20

-- Products that read a weight `[N, K]`, each in its own way.
local ways = {
  linear = function(x, w) return x:linear(w) end,
  turned = function(x, w) return x:matmul(w:t()) end,
  twice = function(x, w) return x:linear(w:t():t()) end,
}

-- A recurrence over one weight: what two steps of training made, and the plan, which says
-- what they took.
local function train(case, o)
  mrt.seed(5)
  local before = training.memory().now
  local w = mrt.parameter((mrt.randn(case.size, case.size) / case.size ^ 0.5):to(case.dtype))
  local opt = optim.sgd({ w }, { lr = 0.1 })
  local step = mrt.compile(function(x)
    local h = x
    for i = 1, case.uses do h = (ways[case.ways[i % #case.ways + 1]](h, w) + x):tanh() end
    local loss = (h * h):mean()
    opt:step(mrt.grad(loss, { w }))
    return loss
  end, o)
  local x = mrt.eval(mrt.randn(case.rows, case.size):to(case.dtype))
  local plan, loss = step:plan(x), step(x)
  assert.equal(plan.peak + plan.inputs, training.memory().now - before)
  return bits.of { loss, step(x), w }, plan
end

local count = require("support.steps").count

local function case_of(o)
  local case = { rows = 24, size = 96, uses = 6, ways = { "linear" }, dtype = "f32" }
  for key, value in pairs(o or {}) do case[key] = value end
  return case
end

describe("matrices that many products of few rows read", function()
  it("are rounded once, and turned once for the products backward", function()
    local o = { precision = policy.precision.bf16(), keep_matrices = false, spend = 0 }
    local each, all = train(case_of(), o)
    o.keep_matrices = true
    local once, plan = train(case_of(), o)
    assert.equal(each, once)
    assert.equal(count(all, "cast") + 1, count(plan, "cast"))
    assert.equal(count(all, "copy") + 1, count(plan, "copy"))
  end)

  it("are read as they are by few products, of many rows or hardly any, in f32, and where small",
    function()
      local bf16 = policy.precision.bf16()
      for _, at in ipairs { { case_of { uses = 3 }, bf16 }, { case_of { rows = 129 }, bf16 },
        { case_of { rows = 16 }, bf16 }, { case_of { size = 48 }, bf16 },
        { case_of { rows = 17, size = 300 }, bf16 }, { case_of(), policy.precision.f32() } } do
        local _, all = train(at[1], { precision = at[2], keep_matrices = false, spend = 0 })
        local _, plan = train(at[1], { precision = at[2], spend = 0 })
        assert.equal(count(all, "cast"), count(plan, "cast"))
        assert.equal(count(all, "copy"), count(plan, "copy"))
      end
    end)

  it("change no bit, nor what a budget can be, beside all else", function()
    local random = random_graph.generator(67)
    local function pick(list) return list[random(#list)] end
    for i = 1, GRAPHS do
      local case = case_of { rows = random(140), size = 60 + random(80), uses = 2 + random(9),
        ways = { pick { "linear", "turned", "twice" }, pick { "linear", "turned", "twice" } },
        dtype = pick { "f32", "f32", "bf16" } }
      local o = { precision = pick { policy.precision.bf16(), policy.precision.f16(),
        policy.precision.bf16_pure() }, checkpoint = pick { nil, policy.checkpoint.sqrt(),
        policy.checkpoint.all() }, order = pick { "memory", "program" },
        inplace = pick { true, false }, fuse = pick { true, false }, keep_matrices = false }
      if case.dtype == "bf16" then o.precision = nil end
      local text = ("%d: %d rows of %d, %d uses as %s and %s, %s"):format(i, case.rows,
        case.size, case.uses, case.ways[1], case.ways[2], case.dtype)
      local each, all = train(case, o)
      o.keep_matrices = true
      assert.equal(each, (train(case, o)), text)
      if not o.checkpoint then
        o.memory = all.peak
        assert.equal(each, (train(case, o)), text .. ", in a budget")
      end
    end
  end)

  it("leave a budget that only a plan without them keeps to", function()
    local o = { precision = policy.precision.bf16(), keep_matrices = false, memory = 1 }
    local case = case_of { uses = 12, size = 128, rows = 17 }
    local function least()
      local ok, problem = pcall(train, case, o)
      assert.is_false(ok)
      return problem.needed
    end
    o.memory = least()
    local each, all = train(case, o)
    o.keep_matrices = true
    local once, plan = train(case, o)
    assert.equal(each, once)
    assert.is_true(plan.peak <= all.peak)
    o.memory = 1
    assert.is_true(least() <= all.peak + all.device.overhead)
  end)

  it("are those of a network of long memory", function()
    local function recurrent(keep)
      mrt.seed(3)
      local model = nn.LSTM(64, 64, { layers = 2 })
      local params = model:parameters()
      local opt = optim.adamw(params, { lr = 1e-2 })
      local step = mrt.compile(function(x)
        local loss = model(x):square():mean()
        opt:step(mrt.grad(loss, params))
        return loss
      end, { precision = policy.precision.bf16(), keep_matrices = keep })
      local x = mrt.eval(mrt.randn(12, 20, 64))
      return bits.of { step(x), step(x) } .. bits.of(params), step:plan(x)
    end
    local each, all = recurrent(false)
    local once, plan = recurrent(true)
    assert.equal(each, once)
    assert.equal(count(all, "copy") + 2, count(plan, "copy"))
  end)

  it("change no bit, and take what is planned, together with ranks and all that they share",
    function()
      ranks.run(2, [[
        local how = {
          ddp = { shard = policy.shard.ddp { comm = comm } },
          zero1 = { shard = policy.shard.zero(1, { comm = comm }), accumulate = 2 },
          zero3 = { shard = policy.shard.zero(3, { comm = comm, gather = "bf16" }) },
          both = { shard = policy.shard.zero(3, { comm = comm }), accumulate = 2 },
          tensor = { mesh = { tensor = 2, comm = comm } },
          stages = { mesh = { pipeline = 2, comm = comm }, accumulate = 2 },
          compress = { compress = "int8" },
          swap = { swap = policy.swap.all { least = 1 } },
          scaled = { precision = policy.precision.f16 { loss_scale = "dynamic" } },
        }
        local function numbers(name, keep)
          collectgarbage() collectgarbage()
          mrt.seed(3)
          local before, o = mrt.memory().now, {}
          for key, value in pairs(how[name]) do o[key] = value end
          o.precision, o.keep_matrices = o.precision or policy.precision.bf16(), keep
          local model = nn.LSTM(64, 64, { layers = 2 })
          local params = model:parameters()
          local opt = optim.adamw(params, { lr = 1e-2 })
          local step = mrt.compile(function(x)
            local loss = model(x:transpose(1, 2)):square():mean()
            opt:step(mrt.grad(loss, params), { clip = 1.0 })
            return loss
          end, o)
          local x = mrt.eval(mrt.randn(48, 10, 64))
          local plan, words = step:plan(x), {}
          for i = 1, 3 do
            local loss = step(x)
            words[i] = ("%a"):format(loss:item())
            loss:free()
            if i == 1 then
              collectgarbage() collectgarbage()
              mrt.memory { reset = true }
            end
          end
          local taken = mrt.memory().peak - before - plan.inputs
          assert(taken == plan.peak, name .. ": " .. taken .. " bytes, planned " .. plan.peak)
          if name == "stages" then mrt.pipeline.collect(step) end
          for _, p in ipairs(params) do
            words[#words + 1] = ("%a"):format(p:to "f64":sum():item())
          end
          return table.concat(words, " ")
        end
        local names = {}
        for name in pairs(how) do names[#names + 1] = name end
        table.sort(names)
        for _, name in ipairs(names) do
          assert(numbers(name, true) == numbers(name, false), name)
        end
        return true
      ]])
    end)
end)
