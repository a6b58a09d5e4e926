--- mlp.lua -- the feed-forward half of a decoder's layer
---
--- SPDX-License-Identifier: MIT

local Module = require "mrt.nn.module"
local Linear = require "mrt.nn.linear"

local activations = {
  silu = function(x) return x:silu() end,
  gelu = function(x) return x:gelu() end,
  gelu_tanh = function(x) return x:gelu { approximate = "tanh" } end,
  relu = function(x) return x:relu() end,
  relu2 = function(x) return x:relu():square() end,
  quick_gelu = function(x) return x * (x * 1.702):sigmoid() end,
  tanh = function(x) return x:tanh() end,
  mish = function(x) return x:mish() end,
}

--- down(act(up x)), or gated, down(act(gate x) * up x): `[..., dim]` -> `[..., dim]`.
---@class mrt.nn.decoder.MLP: mrt.nn.Module
local MLP = Module("DecoderMLP", "tensor")

--- The functions by name.
MLP.activations = activations

---@param o mrt.nn.DecoderOptions
---@param init {inner: mrt.nn.Recipe, last: mrt.nn.Recipe}
---@param hidden? integer  default o.hidden
function MLP:init(o, init, hidden)
  hidden = hidden or o.hidden
  local inner = { bias = o.bias.mlp, init = init.inner }
  if o.gated then self.gate = Linear(o.dim, hidden, inner) end
  self.up = Linear(o.dim, hidden, inner)
  self.down = Linear(hidden, o.dim, { bias = o.bias.mlp, init = init.last })
  self.activation = o.activation
end

function MLP:forward(x)
  local act = activations[self.activation]
  if self.gate then return self.down(act(self.gate(x)) * self.up(x)) end
  return self.down(act(self.up(x)))
end

function MLP:describe() return self.activation .. (self.gate and ", gated" or "") end

return MLP
