-- join_losses_spec.lua -- gradients of classifiers' losses come with them; no bit changes
local mrt = require "mrt"
local bits = require("support.bits").of

local nn, optim, policy = mrt.nn, mrt.optim, mrt.policy

local count = require("support.steps").count

-- Losses, parameters after three steps, as bits, and the plan; `loss_of` makes a loss of
-- logits and targets.
local function train(classes, loss_of, options)
  mrt.seed(3)
  local model = nn.Sequential(nn.Linear(12, 24), nn.GELU(), nn.Linear(24, classes))
  local params = model:parameters()
  local opt = optim.adamw(params, { lr = 1e-2 })
  local step = mrt.compile(function(x, y)
    local loss, more = loss_of(model(x), y)
    opt:step(mrt.grad(loss, params), { clip = 1 })
    return loss, more
  end, options)
  local x, y, list = mrt.eval(mrt.randn(8, 12)), mrt.eval(mrt.randint(0, classes, 8)), {}
  for _ = 1, 3 do
    for _, t in ipairs { step(x, y) } do list[#list + 1] = t:copy() end
  end
  return bits(list) .. bits(params), step:plan(x, y)
end

local joined = {
  mean = function(x, y) return nn.cross_entropy(x, y) end,
  sum = function(x, y) return nn.cross_entropy(x, y, { reduction = "sum" }) * 0.25 end,
  smoothed = function(x, y) return nn.cross_entropy(x, y, { label_smoothing = 0.1 }) end,
  ignoring = function(x, y) return nn.cross_entropy(x, y, { ignore_index = 2 }) end,
  weighed = function(x, y)
    return (nn.cross_entropy(x, y, { reduction = "none" }) * mrt.arange(8):to "f32"):mean()
  end,
  ["with rows"] = function(x, y)
    local rows = nn.cross_entropy(x, y, { reduction = "none" })
    return rows:mean(), rows
  end,
}
local apart = {
  squared = function(x, y) return (nn.cross_entropy(x, y, { reduction = "none" }) ^ 2):mean() end,
  ["with logits"] = function(x, y) return nn.cross_entropy(x, y), x end,
  ["beside another"] = function(x, y) return nn.cross_entropy(x, y) + x:logsumexp(2):mean() end,
}

describe("losses of classifiers", function()
  for name, loss in pairs(joined) do
    it("come with their gradients, with the bits of both: " .. name, function()
      for _, classes in ipairs { 3, 70, 2500 } do
        for _, kind in ipairs { "none", "bf16", "f16", "bf16_pure" } do
          local function with(o)
            o.precision = kind ~= "none" and policy.precision[kind]() or nil
            return train(classes, loss, o)
          end
          local what = ("%d classes, %s"):format(classes, kind)
          local wanted, alone = with { join_losses = false }
          local got, plan = with {}
          assert.are.equal(1, count(plan, "cross_entropy_both"), what)
          assert.are.equal(0, count(alone, "cross_entropy_both"), what)
          assert.is_true(wanted == got, what)
          assert.is_true(plan.lower_bound <= alone.lower_bound, what)
          local tight = with { memory = plan.peak, checkpoint = policy.checkpoint.all() }
          assert.is_true(wanted == tight, what .. ", recomputed")
        end
        if name ~= "weighed" then -- whose weights are those of 8 rows
          local wanted = train(classes, loss, { accumulate = 2, join_losses = false })
          assert.is_true(wanted == train(classes, loss, { accumulate = 2 }))
        end
      end
    end)
  end

  for name, loss in pairs(apart) do
    it("stay apart where one needs the other, or others read the same: " .. name, function()
      local wanted = train(70, loss, { join_losses = false })
      local got, plan = train(70, loss, {})
      assert.are.equal(0, count(plan, "cross_entropy_both"))
      assert.is_true(wanted == got)
    end)
  end
end)
