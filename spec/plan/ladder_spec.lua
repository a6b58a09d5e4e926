-- The rungs of the ladder that the script does not say are those of scripts that do.
--
-- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local program = require "support.program"
local training = require "support.training"
local nn, optim, policy = mrt.nn, mrt.optim, mrt.policy

local SHAPE <const> = "{ vocab = 384, dim = 32, layers = 2, heads = 2, context = 16 }"
local ROWS <const>, PLENTY <const> = 8, 1 << 30

local function tokens(rows) return mrt.randint(0, 384, { rows or ROWS, 16 }) end

-- A step of a small GPT: the loss as `head` says, or of all logits; all is kept, as
-- within a budget that leaves room for it.
local function make(options, state, head)
  local o = { spend = 0 }
  for name, value in pairs(options or {}) do o[name] = value end
  mrt.seed(4)
  local model = nn.GPT(load("return " .. SHAPE)())
  local opt = optim.adamw(model:parameters(), { lr = 1e-3, state = state })
  local step = mrt.compile(function(x, y)
    local loss = head and nn.linear_cross_entropy(model:features(x), model.tokens.weight, y)
      or nn.cross_entropy(model(x), y)
    opt:step(mrt.grad(loss, model:parameters()))
    return loss
  end, o)
  return step, model, opt
end

local function rung(ladder, way)
  for _, r in ipairs(ladder) do
    if r.way:match(way) then return r end
  end
end

local function numbers(step, model, opt, rounds)
  local x, y, out = tokens(), tokens(), {}
  for i = 1, rounds do out[i] = step(x, y):item() end
  for _, p in ipairs(model:parameters()) do out[#out + 1] = p:bytes() end
  for _, name in ipairs { "t", "1.m", "3.v" } do out[#out + 1] = opt:state()[name]:bytes() end
  return out
end

describe("the ladder", function()
  it("has rungs of what the script does not say: plans of scripts that do", function()
    local ways = make():plan(tokens(), tokens()):options { budget = PLENTY }
    local function same(way, ...) -- but for the order, which is not looked for long
      local plan, r = make(...):plan(tokens(), tokens()), rung(ways, way)
      assert.near(1, r.peak / plan.peak, 0.1, way)
      assert.near(1, r.seconds / plan.seconds, 1e-9, way)
      assert.is_true(r.other_bits and r.fits and not r.choice)
    end
    same("8 bits", nil, "8bit")
    same("8 chunks", nil, nil, true)
    same("^bf16$", { precision = policy.precision.bf16() })
    same("^compress", { compress = "int8" })
    assert.is_nil(rung(make(nil, "8bit"):plan(tokens(), tokens()):options { budget = PLENTY },
      "8 bits"))
  end)

  it("has the plan of one of several ranks as a rung, and moves nothing", function()
    local step, model, opt = make()
    step(tokens(), tokens()):free()
    local base = step:plan(tokens(), tokens())
    local low = base.outputs + (base.peak - base.outputs) // 3
    collectgarbage()
    local before = mrt.memory().now
    local r = rung(base:options { budget = low }, "devices")
    collectgarbage()
    assert.equal(before, mrt.memory().now)
    local code = ([[
      local mrt = require "mrt"
      local core = require "mrt.core"
      core.communicator.alone(0, %d)
      local model = mrt.nn.GPT %s
      local opt = mrt.optim.adamw(model:parameters(), { lr = 1e-3 })
      local step = mrt.compile(function(x, y)
        local loss = mrt.nn.cross_entropy(model(x), y)
        opt:step(mrt.grad(loss, model:parameters()))
        return loss
      end, { shard = mrt.policy.shard.zero(3) })
      local x = mrt.randint(0, 384, { %d, 16 })
      print(step:plan(x, x).peak)]]):format(r.devices, SHAPE, ROWS // r.devices)
    local out = program.script(code)
    local alone = tonumber(out)
    assert.is_true(r.fits and r.peak <= low, tostring(r.why))
    assert.is_true(alone <= low and alone == r.peak or alone > low, out)
    assert.is_true(#numbers(step, model, opt, 1) > 1)
  end)

  it("changes no bit of a function that goes on", function()
    local function bits(look)
      local step, model, opt = make()
      local x, y = tokens(), tokens()
      local loss = step(x, y):item()
      if look then
        local plan = step:plan(x, y)
        for _, part in ipairs { 0.2, 0.7, 1 } do
          plan:options { budget = math.floor(plan.peak * part) }
        end
      end
      return loss, numbers(step, model, opt, 2)
    end
    assert.same({ bits(false) }, { bits(true) })
  end)

  it("stars what is predicted to be quickest of what the options allow", function()
    for _, o in ipairs { {}, { accumulate = 1 }, { precision = policy.precision.bf16() },
      { compress = 0.01 }, { swap = policy.swap.none() }, { accumulate = 2, compress = "bf16" } } do
      local plan = make(o):plan(tokens(), tokens())
      local ways = plan:options { budget = plan.peak - plan.transient // 3 }
      for _, r in ipairs(ways) do
        local allowed = (o.accumulate or not r.changes.accumulate) and not r.other_bits
          and not r.devices and not r.guessed
        if r.fits and allowed then
          assert.is_true(ways.choice.seconds <= r.seconds, tostring(ways))
        end
        local told = r.peak or r.why:match "too little" or r.why:match "option 'compress'"
        assert.is_truthy(told, r.why)
      end
    end
  end)

  it("tells the time of several ranks where the profile has links", function()
    local out = program.script(([[
      local mrt = require "mrt"
      local model = mrt.nn.GPT %s
      local step = mrt.compile(function(x, y) return mrt.grad(mrt.nn.cross_entropy(model(x), y),
        model:parameters()) end)
      local x = mrt.randint(0, 384, { %d, 16 })
      local plan = step:plan(x, x)
      for _, r in ipairs(plan:options { budget = plan:needs() - plan.transient // 3 }) do
        if r.devices then print(r.devices, r.seconds) end
      end]]):format(SHAPE, ROWS), "MRT_DEVICE=h100")
    local devices, seconds = out:match "^(%d+)%s+(%S+)\n$"
    assert.is_true(tonumber(devices) > 1 and tonumber(seconds) > 0, out)
  end)

  it("tells of models whose loss and optimizer it does not know", function()
    local net = nn.Linear(4, 2)
    local step = training.step(net, optim.sgd(net:parameters(), { lr = 0.1 }))
    local ways = step:plan(mrt.randn(8, 4), mrt.randint(0, 2, { 8 })):options { budget = PLENTY }
    assert.is_nil(rung(ways, "8 bits"))
  end)
end)
