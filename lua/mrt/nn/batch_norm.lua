--- batch_norm.lua -- Ioffe & Szegedy 2015 (arXiv:1502.03167)
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local Module = require "mrt.nn.module"
local options = require "mrt.util.options"
local trace = require "mrt.compile.trace"

---@class mrt.nn.BatchNormOptions
---@field eps? number        added to the variance; default 1e-5
---@field momentum? number   share of the newest batch in the running
---  statistics; default 0.1
---@field affine? boolean    weight and bias; default true
---@field tracking? boolean  running statistics; default true.  Without them
---  evaluation normalises by the batch too

--- Make a batch norm for `[N, channels, ...]` with any number of dimensions
--- after the channels: y = (x - mean) / sqrt(var + eps) * weight + bias.
---
---     nn.BatchNorm(3)(mrt.randn(8, 3, 16, 16)):type()  --> f32[8,3,16,16]
---
--- While training, mean and (biased) variance are those of the batch, and the
--- running statistics move towards them (the variance unbiased, as in PyTorch);
--- in evaluation mode the running statistics serve.  A batch norm needs its whole
--- batch: micro-batches need `allow_batch_statistics`.
---@class mrt.nn.BatchNorm: mrt.nn.Module
---@field weight mrt.Tensor?        `[channels]`
---@field bias mrt.Tensor?          `[channels]`
---@field running_mean mrt.Tensor?  `[channels]`, a buffer
---@field running_var mrt.Tensor?   `[channels]`, a buffer
---@overload fun(channels: integer, options?: mrt.nn.BatchNormOptions): mrt.nn.BatchNorm
local BatchNorm = Module("BatchNorm", "tensor")

function BatchNorm:init(channels, given)
  options.size("BatchNorm", "channels", channels)
  local o = options.read("BatchNorm", given,
    { eps = 1e-5, momentum = 0.1, affine = true, tracking = true })
  self.channels, self.eps, self.momentum = channels, o.eps, o.momentum
  if o.affine then
    self.weight = mrt.parameter(mrt.ones(channels))
    self.bias = mrt.parameter(mrt.zeros(channels))
  end
  if o.tracking then
    self:register_buffer("running_mean", mrt.variable(mrt.zeros(channels)))
    self:register_buffer("running_var", mrt.variable(mrt.ones(channels)))
  end
end

local function check(self, x)
  if x:dim() >= 2 and x:size(2) == self.channels then return end
  core.fail("shape", "BatchNorm", ("%s, [N, %d, ...] wanted")
    :format(x:type(), self.channels))
end

local function by_running_statistics(self, x)
  local shape = { 1, self.channels }
  for d = 3, x:dim() do shape[d] = 1 end
  local scale = (self.running_var + self.eps):rsqrt()
  if self.weight then scale = scale * self.weight end
  local y = (x - self.running_mean:reshape(shape)) * scale:reshape(shape)
  return self.bias and y + self.bias:reshape(shape) or y
end

---@param x mrt.Tensor  `[N, channels, ...]`
---@return mrt.Tensor   shape of x
function BatchNorm:forward(x)
  check(self, x)
  if not self.training and self.running_mean then
    return by_running_statistics(self, x)
  end
  local y, mean, rstd = x:batch_norm(self.weight, self.bias, { eps = self.eps })
  if self.training and self.running_mean then
    local count = x:numel() // self.channels
    if count < 2 then
      core.fail("shape", "BatchNorm",
        ("%s, 2 or more values for each channel wanted to train"):format(x:type()))
    end
    local rates = { momentum = self.momentum, eps = self.eps, count = count }
    trace.later(function(when)
      core.update("running", { self.running_mean, self.running_var, mean:detach(),
        rstd:detach(), when }, rates)
    end)
  end
  return y
end

function BatchNorm:describe() return ("%d"):format(self.channels) end

return BatchNorm
