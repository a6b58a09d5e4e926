--- optim -- optimizers, learning rates, clipping: a file for each
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"

local clip = require "mrt.optim.clip"
local schedule = require "mrt.optim.schedule"

---@class mrt.optim
local optim = {
  Optimizer = require "mrt.optim.optimizer",
  sgd = require "mrt.optim.sgd",
  adam = require "mrt.optim.adam",
  adamw = require "mrt.optim.adamw",
  rmsprop = require "mrt.optim.rmsprop",
  adagrad = require "mrt.optim.adagrad",
  lion = require "mrt.optim.lion",
  lamb = require "mrt.optim.lamb",
  muon = require "mrt.optim.muon",
  adafactor = require "mrt.optim.adafactor",
  nadam = require "mrt.optim.nadam",
  radam = require "mrt.optim.radam",
  adamax = require "mrt.optim.adamax",
  adadelta = require "mrt.optim.adadelta",
  asgd = require "mrt.optim.asgd",
  rprop = require "mrt.optim.rprop",
  lbfgs = require "mrt.optim.lbfgs",
  ema = require "mrt.optim.ema",

  groups = require "mrt.optim.groups".split,
  clip_grad_norm = clip.clip_grad_norm,
  clip_grad_value = clip.clip_grad_value,
}

for name, f in pairs(schedule) do optim[name] = f end

-- Behind a C function a caller that ends in `return optim.cosine(o)` keeps its line.
for name, f in pairs(optim) do
  if type(f) == "function" then optim[name] = core.front(f, nil, name) end
end

return require "mrt.util.hints".attach("optim", optim)
