--- adam_step.lua -- the fused update of adam and adamw, which differ in where decay goes
---
--- SPDX-License-Identifier: MIT

local fused = require "mrt.optim.update"

---@param self mrt.Optimizer
---@param p mrt.Tensor
---@param g mrt.Tensor
---@param state table<string, mrt.Tensor>
---@param at mrt.Update
---@param coupled boolean  decay is part of the gradient
return function(self, p, g, state, at, coupled)
  local o, inputs, op = self.options, { p, state.m, state.v }, "adamw"
  if o.master and p.dtype == "bf16" then
    inputs, op = { p, state.m, state.v, state.high, state.low }, "adamw_master"
  end
  table.move({ g, at.t, at.lr }, 1, 3, #inputs + 1, inputs)
  fused(op, inputs, at, { beta1 = o.betas[1], beta2 = o.betas[2], eps = o.eps,
    weight_decay = at.weight_decay, coupled = coupled, lazy = o.lazy },
    state.m_scale, state.v_scale)
end
