--- mlp.lua -- the feed-forward half of a transformer block
---
--- SPDX-License-Identifier: MIT

local Module = require "mrt.nn.module"
local Linear = require "mrt.nn.linear"
local Dropout = require "mrt.nn.dropout"
local options = require "mrt.util.options"

--- Make a two-layer perceptron, four times as wide inside, with GPT-2's gelu:
--- `[..., dim]` -> `[..., dim]`.
---
---     nn.MLP(8)(mrt.zeros(2, 8)):type()  --> f32[2,8]
---@class mrt.nn.MLP: mrt.nn.Module
---@overload fun(dim: integer, options?: mrt.nn.BlockOptions): mrt.nn.MLP
local MLP = Module("MLP", "tensor")

function MLP:init(dim, given)
  local o = options.read("MLP", given, { bias = true, dropout = 0,
    init = options.none, init_residual = options.none })
  options.size("MLP", "dim", dim)
  self.fc = Linear(dim, 4 * dim, { bias = o.bias, init = o.init })
  self.proj = Linear(4 * dim, dim, { bias = o.bias, init = o.init_residual })
  self.dropout = Dropout(o.dropout)
end

---@param x mrt.Tensor  `[..., dim]`
---@return mrt.Tensor   `[..., dim]`
function MLP:forward(x)
  local h = self.fc(x):gelu { approximate = "tanh" }
  return self.dropout(self.proj(h))
end

return MLP
