--- optim -- optimizers, learning rates, clipping: a file for each
---
--- SPDX-License-Identifier: MIT

local schedule = require "mrt.optim.schedule"

return {
  Optimizer = require "mrt.optim.optimizer",
  sgd = require "mrt.optim.sgd",
  adam = require "mrt.optim.adam",
  adamw = require "mrt.optim.adamw",

  groups = require "mrt.optim.groups".split,
  clip_grad_norm = require "mrt.optim.clip".clip_grad_norm,

  constant = schedule.constant,
  cosine = schedule.cosine,
  linear = schedule.linear,
  step = schedule.step,
}
