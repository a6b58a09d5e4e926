--- mamba.lua -- a selective state-space model as a layer
---
--- Gu & Dao, arXiv:2312.00752.  A causal convolution of each channel by itself, then
--- states that keep or forget what the input says; all gated.  Sequences are
--- `[B,T,dim]`: nothing is transposed, and states are never stored whole.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local mrt = require "mrt"
local Module = require "mrt.nn.module"
local Linear = require "mrt.nn.linear"
local Conv1d = require("mrt.nn.conv_nd").Conv1d
local options = require "mrt.util.options"

---@class mrt.nn.MambaOptions
---@field state? integer   N, numbers of a channel's state; default 16
---@field conv? integer    positions that the convolution reads; default 4
---@field expand? integer  channels inside for each outside; default 2
---@field rank? integer    of what delta is made of; default dim / 16, rounded up

--- Make a Mamba block: `[B,T,dim]` -> `[B,T,dim]`, each position reading itself and those
--- before it.
---
---     local y = nn.Mamba(64)(mrt.randn(2, 100, 64))
---
--- Its first steps delta are spread from 0.001 to 0.1, and states fade at rates 1 to N.
---@class mrt.nn.Mamba: mrt.nn.Module
---@field A_log mrt.Tensor  `[inner, N]`: states fade by exp(-delta exp(A_log))
---@field D mrt.Tensor      `[inner]`: what passes by the states
---@overload fun(dim: integer, options?: mrt.nn.MambaOptions): mrt.nn.Mamba
local Mamba = Module("Mamba", "tensor")

function Mamba:init(dim, given)
  local o = options.read("Mamba", given, { state = options.of("size", 16),
    conv = options.of("size", 4), expand = options.of("size", 2), rank = options.of "size" })
  options.size("Mamba", "dim", dim)
  local inner, rank = o.expand * dim, o.rank or -(-dim // 16)
  self.input = Linear(dim, 2 * inner, { bias = false })
  self.conv = Conv1d(inner, inner, o.conv, { groups = inner, padding = o.conv - 1 })
  self.select = Linear(inner, rank + 2 * o.state, { bias = false })
  self.step = Linear(rank, inner)
  local first = ((mrt.rand(inner) * math.log(100)):exp() * 0.001) -- delta, through softplus
  self.step.bias = mrt.parameter((first:exp() - 1):log())
  self.A_log = mrt.parameter((mrt.arange(1, o.state + 1, { dtype = "f32" })):log()
    :reshape(1, o.state):expand(inner, o.state):copy())
  self.D = mrt.parameter(mrt.ones(inner))
  self.output = Linear(inner, dim, { bias = false })
  rawset(self, "sizes", { rank = rank, state = o.state, inner = inner })
end

---@param x mrt.Tensor  `[B,T,dim]`
---@return mrt.Tensor   `[B,T,dim]`
function Mamba:forward(x)
  local s, T = self.sizes, x:dim() == 3 and x:size(2)
  if not T then
    core.fail("shape", "Mamba", ("%s, [B,T,dim] wanted"):format(x:type()))
  end
  local u, z = self.input(x):split(s.inner, 3)
  u = self.conv(u:permute(1, 3, 2)):permute(1, 3, 2):slice(2, 1, T):silu()
  local chosen = self.select(u)
  local delta = self.step(chosen:slice(3, 1, s.rank))
  local B = chosen:slice(3, s.rank + 1, s.rank + s.state)
  local C = chosen:slice(3, s.rank + s.state + 1, s.rank + 2 * s.state)
  local y = u:selective_scan(delta, self.A_log:exp():neg(), B, C,
    { D = self.D, z = z, delta_softplus = true })
  return self.output(y)
end

function Mamba:describe()
  local s = self.sizes
  return ("%d inside, states of %d"):format(s.inner, s.state)
end

return Mamba
