--- rprop.lua -- steps by the sign of gradients, each of a length of its own
---
--- Riedmiller & Braun 1993, in the form of PyTorch's Rprop: for whole batches.  For each
--- element of a parameter p, with s = lr and h = 0 at first:
---
---   1.  g    = gradient
---   2.  s    = s etas[2] where g h > 0, s etas[1] where g h < 0, between step_sizes
---   3.  h    = g, and 0 where g h was < 0
---   4.  p    = p - s sign(h)
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local mrt = require "mrt"
local Optimizer = require "mrt.optim.optimizer"
local compose = require "mrt.optim.compose"

---@class mrt.RpropOptions
---@field lr? number             the first steps' length, default 0.01
---@field etas? number[]         factors of shorter and longer steps, default {0.5, 1.2}
---@field step_sizes? number[]   the shortest and the longest step, default {1e-6, 50}
---@field weight_decay? number   default 0, added to the gradient
---@field maximize? boolean      default false

--- Make an Rprop optimizer.
---
---     local model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
---     local opt = optim.rprop(model:parameters())
---@overload fun(params: mrt.Tensor[]|mrt.Group[], options?: mrt.RpropOptions): mrt.Optimizer
local rprop = Optimizer("rprop", { "h", "s" },
  { lr = 0.01, etas = { 0.5, 1.2 }, step_sizes = { 1e-6, 50 } })
rprop.elementwise = true

function rprop:init()
  local o = self.options
  if type(o.lr) ~= "number" then
    core.fail("value", "rprop", "lr: a number wanted, the first steps' length; a schedule has "
      .. "no meaning here")
  end
  local less, more = o.etas[1], o.etas[2]
  if type(less) ~= "number" or type(more) ~= "number" or not (0 < less and less < 1 and 1 < more)
  then
    core.fail("value", "rprop", "etas: {below 1, above 1} wanted")
  end
  local least, most = o.step_sizes[1], o.step_sizes[2]
  if type(least) ~= "number" or type(most) ~= "number" or not (least <= most) then
    core.fail("value", "rprop", "step_sizes: {the shortest, the longest} wanted")
  end
end

function rprop:slots_of(p)
  local group = self.group_of[p]
  local lr = group and group.lr or self.options.lr
  return { "h", { name = "s", initial = lr } }
end

---@param p mrt.Tensor
---@param g mrt.Tensor
---@param state {h: mrt.Tensor, s: mrt.Tensor}
---@param at mrt.Update
function rprop:update(p, g, state, at)
  local o, when = self.options, { when = at.when }
  g = compose.gradient(p, g, at)
  local same = g:sign() * state.h:sign() -- a product might be too small for its dtype
  local factor = mrt.where(same:gt(0), o.etas[2], mrt.where(same:lt(0), o.etas[1], 1))
  local s = (state.s * factor):clamp(o.step_sizes[1], o.step_sizes[2])
  local h = mrt.where(same:lt(0), 0, g)
  state.s:assign(s, when)
  state.h:assign(h, when)
  p:assign(p - h:sign() * s, when)
end

return rprop
