-- recomputing.lua -- what plans that recompute do, and steps to see it with
local mrt = require "mrt"
local bits = require "support.bits"
local training = require "support.training"
local nn, optim = mrt.nn, mrt.optim

local recomputing = {}

--- How often nodes of an operator run again.
function recomputing.again(plan, op)
  local count = 0
  for _, s in ipairs(plan:steps()) do
    if s.recomputed and (not op or s.op:find(op, 1, true)) then count = count + 1 end
  end
  return count
end

--- Bytes of activations alive at once.
function recomputing.alive(plan)
  local change, now_alive, most = {}, 0, 0
  for _, v in ipairs(plan:values()) do
    if v.kind == "activation" then
      change[v.first] = (change[v.first] or 0) + v.bytes
      change[v.last + 1] = (change[v.last + 1] or 0) - v.bytes
    end
  end
  for i = 1, plan.nodes do
    now_alive = now_alive + (change[i] or 0)
    most = math.max(most, now_alive)
  end
  return most
end

--- A step of AdamW on cross entropy.
function recomputing.training(model, options)
  return training.step(model, optim.adamw(model:parameters(), { lr = 1e-2 }), options)
end

recomputing.cases = {
  { name = "an MLP with dropout",
    model = function()
      return nn.Sequential(nn.Linear(20, 32), nn.GELU(), nn.Dropout(0.2), nn.Linear(32, 32),
        nn.LayerNorm(32), nn.Tanh(), nn.Dropout(0.1), nn.Linear(32, 5))
    end,
    batch = function() return mrt.randn(16, 20), mrt.randint(0, 5, 16) end },
  { name = "a GPT with dropout",
    model = function()
      return nn.GPT { vocab = 31, dim = 32, layers = 4, heads = 2, context = 16, dropout = 0.1 }
    end,
    batch = function() return mrt.randint(0, 31, 4, 16), mrt.randint(0, 31, 4, 16) end },
}

--- Losses and parameters of three steps, and the plan.
function recomputing.train(case, options)
  mrt.seed(11)
  local model = case.model()
  mrt.eval(model:parameters())
  local x, y = mrt.eval(case.batch())
  mrt.seed(12)
  local step = recomputing.training(model, options)
  local all = {}
  for i = 1, 3 do all[i] = step(x, y) end
  table.move(model:parameters(), 1, #model:parameters(), 4, all)
  return bits.of(all), step:plan(x, y)
end

return recomputing
