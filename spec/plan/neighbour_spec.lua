-- Plans of one function for many lengths, within a budget.
local mrt = require "mrt"
local core = require "mrt.core"
local cache = require "mrt.compile.cache"

local WIDTH, LAYERS = 16, 6

-- A step on x [length, WIDTH]; `layers` says how many a length has.
local function step_of(layers, options)
  mrt.seed(3)
  local weights = {}
  for i = 1, LAYERS do
    weights[2 * i - 1] = mrt.variable(mrt.randn(WIDTH, 4 * WIDTH) * 0.2)
    weights[2 * i] = mrt.variable(mrt.randn(4 * WIDTH, WIDTH) * 0.2)
  end
  mrt.eval(weights)
  return mrt.compile(function(x)
    local h = x
    for i = 1, layers(x:size(1)) do
      h = h + h:layer_norm():matmul(weights[2 * i - 1]):gelu():matmul(weights[2 * i])
    end
    local loss = h:square():mean()
    local grads = mrt.grad(loss, weights, { allow_unused = true })
    for i, w in ipairs(weights) do w:assign(w - grads[i] * 0.05) end
    return loss, grads[1]
  end, options)
end

local function all_layers() return LAYERS end

local function budget_for(layers, length)
  local plan = step_of(layers):plan(mrt.randn(length, WIDTH))
  return plan.peak - plan.transient // 3
end

-- The bits of all results over the lengths, the plans, and the seconds each took.
local function run(step, lengths)
  local bytes, plans, took = {}, {}, {}
  for i, length in ipairs(lengths) do
    mrt.seed(100 + length)
    local x = mrt.eval(mrt.randn(length, WIDTH))
    local began = os.clock()
    plans[i] = step:plan(x)
    took[i] = os.clock() - began
    for _, t in ipairs { step(x) } do bytes[#bytes + 1] = t:bytes() end
  end
  return table.concat(bytes), plans, took
end

describe("lengths of one function within a budget", function()
  local most = cache.MOST_PLANS
  after_each(function()
    core.set_poison(false)
    cache.MOST_PLANS = most
  end)

  it("run as the last one did where that loses no more", function()
    core.set_poison(true)
    local lengths = { 96, 94, 92, 98, 90, 96 }
    local memory = budget_for(all_layers, 96)
    local wanted = run(step_of(all_layers), lengths)
    local bits, plans, took = run(step_of(all_layers, { memory = memory }), lengths)
    assert.is_true(bits == wanted)
    local others = 0
    for i, plan in ipairs(plans) do
      assert(plan.peak <= memory and plan:choices().recomputed > 0, lengths[i])
      if i > 1 then others = others + took[i] end
    end
    assert(others / (#lengths - 1) < 0.7 * took[1], ("%g s, then %g s"):format(took[1],
      others / (#lengths - 1)))
  end)

  it("are planned anew where a length makes another program, or a plan is gone", function()
    core.set_poison(true)
    local function layers(length) return length % LAYERS + 1 end
    local lengths = { 95, 89, 94, 90, 83, 95 }
    local memory = budget_for(layers, 95)
    local wanted = run(step_of(layers), lengths)
    local step = step_of(layers, { memory = memory })
    cache.MOST_PLANS = 1
    local bits, plans = run(step, lengths)
    assert.is_true(bits == wanted)
    for i, plan in ipairs(plans) do assert(plan.peak <= memory, lengths[i]) end
  end)
end)
