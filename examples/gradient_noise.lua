--- gradient_noise.lua -- annealed noise on gradients, as a transform of one's own
---
--- Neelakantan et al., "Adding gradient noise improves learning for very deep
--- networks", 2015 (arXiv:1511.06807), equation 1: to each gradient of step t, from 0,
--- is added
---
---     N(0, sigma^2),   sigma^2 = eta / (1 + t)^gamma
---
--- A network whose weights are all zero shows what it is good for: no gradient ever
--- reaches its hidden layers, so it stays a coin toss.  With noise it gets away from
--- there.
---
---     mrt examples/gradient_noise.lua [--steps N] [--eta E]
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local nn, optim = mrt.nn, mrt.optim

local settings = { steps = 600, eta = 0.01 }
for i = 1, #arg, 2 do
  local name, value = arg[i]:match "^%-%-(%a+)$", tonumber(arg[i + 1])
  if not settings[name] or not value then
    error("unknown option '" .. arg[i] .. "' (--steps N, --eta E)", 0)
  end
  settings[name] = value
end

-- ---- the transform ----------------------------------------------------------

local function gradient_noise(eta, gamma)
  local t = mrt.variable(0, "noise.t")
  local function grad(_, next, ys, xs, o)
    local grads, sigma = next(ys, xs, o), (eta / (t + 1) ^ gamma):sqrt()
    for i, g in ipairs(grads) do grads[i] = g + mrt.randn(g.shape) * sigma end
    return grads
  end
  return { name = "gradient noise", grad = grad, finish = function() t:assign(t + 1) end }
end

-- ---- what it is tried on ------------------------------------------------------

-- Two spirals, one in the other: points and the spiral each is on.
local function spirals(n)
  local angle = mrt.linspace(1, 7, n)
  local x = mrt.stack({ angle * angle:cos(), angle * angle:sin() }, 2) / 7
  return mrt.cat { x, -x }, mrt.cat { mrt.zeros(n):long(), mrt.ones(n):long() }
end

local x, classes = spirals(200)

local function relu(h) return h:relu() end

local function train(transforms)
  mrt.seed(1)
  local model = nn.Sequential(nn.Linear(2, 32), relu, nn.Linear(32, 32), relu,
    nn.Linear(32, 2))
  local params = model:parameters()
  for _, p in ipairs(params) do p:assign(0) end
  local opt = optim.adam(params, { lr = 0.01 })
  local step = mrt.compile(function(inputs, targets)
    local loss = nn.cross_entropy(model(inputs), targets)
    opt:step(mrt.grad(loss, params))
    return loss
  end, { transforms = transforms })
  local loss = step(x, classes)
  for _ = 2, settings.steps do loss = step(x, classes) end
  local right = model(x):argmax(2):eq(classes):float():mean()
  return loss:item(), 100 * right:item()
end

print(("%-14s  %8s  %8s"):format("", "loss", "accuracy"))
for _, case in ipairs { { "without" },
  { "gradient noise", { gradient_noise(settings.eta, 0.55) } } } do
  print(("%-14s  %8.4f  %7.1f%%"):format(case[1], train(case[2])))
end
