-- keep_images_spec.lua -- images of few channels are rounded once for their convolutions
--
-- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local bits = require "support.bits"
local random_graph = require "support.random_graph"
local training = require "support.training"
local nn, optim, policy = mrt.nn, mrt.optim, mrt.policy

local GRAPHS <const> = tonumber(os.getenv "MRT_SPEC_GRAPHS") or 20

-- Two steps of a small network over images, and the plan, which says what they took.
local function train(case, o)
  mrt.seed(case.seed)
  local before = training.memory().now
  local first = nn.Conv2d(case.channels, case.out, case.kernel, { padding = case.padding,
    stride = case.stride, bias = case.bias })
  local second = nn.Conv2d(case.out, 8, 3, { padding = 1 })
  local params = {}
  for _, m in ipairs { first, second } do
    for _, p in ipairs(m:parameters()) do params[#params + 1] = p end
  end
  local opt = optim.sgd(params, { lr = 0.1 })
  local step = mrt.compile(function(x)
    local loss = second(first(x):relu()):square():mean() + first(x):tanh():mean()
    opt:step(mrt.grad(loss, params))
    return loss
  end, o)
  local x = mrt.eval(mrt.randn(3, case.channels, case.side, case.side))
  local plan, loss = step:plan(x), step(x)
  assert.equal(plan.peak + plan.inputs, training.memory().now - before)
  return bits.of { loss, step(x), table.unpack(params) }, plan
end

local function casts(plan)
  local n = 0
  for _, s in ipairs(plan:steps()) do n = n + (s.op == "cast" and 1 or 0) end
  return n
end

local picture = { seed = 1, channels = 3, out = 16, kernel = 3, padding = 1, stride = 1,
  bias = true, side = 12 }

describe("images of few channels", function()
  it("are rounded once for their convolutions, forward and for weights", function()
    local o = { precision = policy.precision.bf16(), keep_images = false, spend = 0 }
    local each, all = train(picture, o)
    o.keep_images = true
    local once, plan = train(picture, o)
    assert.equal(each, once)
    assert.equal(casts(all) + 1, casts(plan))
    o.precision = policy.precision.f32()
    assert.equal(0, casts(select(2, train(picture, o))))
  end)

  it("change no bit, nor what a budget can be", function()
    local random = random_graph.generator(41)
    local function pick(list) return list[random(#list)] end
    for i = 1, GRAPHS do
      local case = { seed = i, channels = random(6), out = pick { 4, 9, 16, 24, 33 },
        kernel = pick { 1, 2, 3, 5 }, padding = random(3) - 1, stride = random(2),
        bias = pick { true, false }, side = 6 + random(9) }
      local o = { precision = pick { policy.precision.bf16(), policy.precision.f16() },
        fuse = pick { true, false }, order = pick { "memory", "program" }, keep_images = false }
      local text = ("%d: %d to %d channels, kernel %d, stride %d"):format(i, case.channels,
        case.out, case.kernel, case.stride)
      local each, all = train(case, o)
      o.keep_images = true
      assert.equal(each, (train(case, o)), text)
      o.memory = all.peak
      assert.equal(each, (train(case, o)), text .. ", in a budget")
    end
  end)
end)
