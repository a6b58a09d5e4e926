--- muon.lua -- momentum, made orthogonal
---
--- Jordan et al., "Muon: an optimizer for hidden layers in neural networks", 2024
--- (kellerjordan.github.io/posts/muon).  For each weight p of two dimensions or
--- more, `[rows, ...]` taken as a matrix, with buf = 0 at first:
---
---   1.  g    = gradient
---   2.  buf  = momentum buf + g
---   3.  u    = g + momentum buf;  without nesterov, buf
---   4.  x    = u / |u|, turned so that it is not higher than wide
---   5.  five times:  a = x x^T,  b = -4.7750 a + 2.0315 a^2,
---       x = 3.4445 x + b x      (Newton-Schulz: singular values come near 1)
---   6.  p    = p - lr (max(1, rows / columns)^0.5 x + weight_decay p)
---
--- The rest is AdamW's: parameters of fewer dimensions, and groups that say
--- `adamw = true`, as embeddings and the last layer should.  Their learning rate
--- is `adamw_scale` of Muon's, under one schedule.
---
--- SPDX-License-Identifier: MIT

local Optimizer = require "mrt.optim.optimizer"
local argument = require "mrt.util.argument"
local fused = require "mrt.optim.update"

---@class mrt.MuonOptions
---@field lr? number|mrt.Schedule  default 0.02
---@field momentum? number       default 0.95
---@field nesterov? boolean      default true
---@field steps? integer         of Newton-Schulz, default 5
---@field weight_decay? number   default 0
---@field adamw_scale? number    default 0.015
---@field betas? number[]        AdamW's, default {0.9, 0.95}
---@field eps? number            AdamW's, default 1e-8

--- Make a Muon optimizer.
---
---     local opt = optim.muon(model:parameters(), {lr = 0.02})
---     local opt = optim.muon({ {params = hidden}, {params = others, adamw = true} })
---@overload fun(params: mrt.Tensor[]|mrt.Group[], options?: mrt.MuonOptions): mrt.Optimizer
local muon = Optimizer("muon", {}, { lr = 0.02, momentum = 0.95, nesterov = true, steps = 5,
  adamw_scale = 0.015, betas = { 0.9, 0.95 }, eps = 1e-8 })

local function is_matrix(self, p) return p:dim() >= 2 and not self.group_of[p].adamw end

function muon:whole(p)
  return is_matrix(self, argument.tensor("muon", "whole", p))
end

function muon:slots_of(p) return is_matrix(self, p) and { "buf" } or { "m", "v" } end

-- A matrix with the singular vectors of `u`, its singular values about 1.
local function orthogonal(u, steps)
  local high = u:size(1) > u:size(2)
  local x = high and u:t() or u
  x = x / (x:norm() + 1e-7)
  for _ = 1, steps do
    local a = x:matmul(x:t())
    x = x * 3.4445 + (a * -4.7750 + a:matmul(a) * 2.0315):matmul(x)
  end
  return high and x:t() or x
end

---@param p mrt.Tensor
---@param g mrt.Tensor
---@param state {buf: mrt.Tensor?, m: mrt.Tensor?, v: mrt.Tensor?}
---@param at mrt.Update
function muon:update(p, g, state, at)
  local o, when = self.options, { when = at.when }
  if not is_matrix(self, p) then
    return fused("adamw", { p, state.m, state.v, g, at.t, at.lr * o.adamw_scale }, at,
      { beta1 = o.betas[1], beta2 = o.betas[2], eps = o.eps,
        weight_decay = at.weight_decay })
  end
  if at.scale then g = g * at.scale end
  local buf = state.buf * o.momentum + g
  local u = (o.nesterov and g + buf * o.momentum or buf):reshape(p:size(1), -1)
  local x = orthogonal(u, o.steps) * math.max(1, u:size(1) / u:size(2)) ^ 0.5
  x = x:reshape(p:size())
  if at.weight_decay ~= 0 then x = x + p * at.weight_decay end
  state.buf:assign(buf, when)
  p:assign(p - x * at.lr, when)
end

return muon
