--- adafactor.lua -- Adam whose second moments are a row and a column
---
--- Shazeer & Stern, "Adafactor: adaptive learning rates with sublinear memory cost", ICML
--- 2018 (arXiv:1804.04235), without momentum, in the form of PyTorch's Adafactor.  For each
--- parameter p `[..., n, m]`, at update t, with R `[..., n, 1]` = C `[..., 1, m]` = 0 at
--- first, and rms(x) the root of the mean of squares:
---
---   1.  g    = gradient;  k = t^beta2_decay;  rho = min(lr, 1 / sqrt(t))
---   2.  a    = max(eps[2], rms(p)) rho;  p = p - lr weight_decay p
---   3.  R    = R + k (mean over columns of g^2 - R);  C = C + k (mean over rows - C)
---   4.  v    = R C / max(mean of R, eps[1])
---   5.  u    = g / sqrt(max(v, eps[1]^2))
---   6.  p    = p - a u / max(1, rms(u) / d)
---
--- A parameter of fewer dimensions keeps all of v.  So state of a matrix is n + m numbers,
--- where Adam has 2 n m.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local mrt = require "mrt"
local Optimizer = require "mrt.optim.optimizer"
local compose = require "mrt.optim.compose"
local options = require "mrt.util.options"

---@class mrt.AdafactorOptions
---@field lr? number|mrt.Schedule  the longest step, as a share of rms(p), default 0.01
---@field beta2_decay? number    default -0.8
---@field eps? number[]          {of v, of rms(p)}, default {false, 1e-3}; false: the dtype's
---@field d? number              the longest u, default 1
---@field weight_decay? number   default 0, AdamW's
---@field maximize? boolean      default false

--- Make an Adafactor optimizer.
---
---     local opt = optim.adafactor(model:parameters(), {lr = 0.01})
---@overload fun(params: mrt.Tensor[]|mrt.Group[], options?: mrt.AdafactorOptions): mrt.Optimizer
local adafactor = Optimizer("adafactor", {},
  { lr = 0.01, beta2_decay = -0.8, eps = { false, 1e-3 }, d = 1 })

local function is_number(x) return type(x) == "number" and x >= 0 end

function adafactor:init()
  local o = self.options
  if o.eps[1] and not is_number(o.eps[1]) or not is_number(o.eps[2]) then
    core.fail("value", "adafactor", ("eps: {a number or false, a number} wanted, got {%s, %s}")
      :format(options.show(o.eps[1]), options.show(o.eps[2])))
  elseif not (o.d >= 1) then
    core.fail("value", "adafactor", ("d = %g, 1 or more wanted"):format(o.d))
  end
end

-- Sizes of p with 1 in place of one of them, counted from the end.
local function without(p, last)
  local size = p:size()
  size[#size - last] = 1
  return size
end

function adafactor:slots_of(p)
  if not self.options then
    core.fail("value", "slots_of", "an optimizer wanted, got a class of them")
  end
  if p:dim() < 2 then return { "v" } end
  return { { name = "row", size = without(p, 0) }, { name = "col", size = without(p, 1) } }
end

-- Where a variable goes to: a share of the way to `to`.
local function towards(variable, to, share, when)
  local value = variable + (to - variable) * share
  variable:assign(value, when)
  return value
end

-- The estimate of the gradient's second moments.
local function estimate(state, g, share, eps, when)
  local square = g * g
  if state.v then return towards(state.v, square, share, when) end
  local row = towards(state.row, square:mean(-1, true), share, when)
  local col = towards(state.col, square:mean(-2, true), share, when)
  return row * col / row:mean(-2, true):maximum(eps)
end

---@param p mrt.Tensor
---@param g mrt.Tensor
---@param state {v: mrt.Tensor?, row: mrt.Tensor?, col: mrt.Tensor?}
---@param at mrt.Update
function adafactor:update(p, g, state, at)
  local o, when, dtype = self.options, { when = at.when }, at.lr.dtype
  if at.scale then g = g * at.scale end
  local t, root = at.t:to "f64", math.max(1, p:numel()) ^ 0.5
  local eps = o.eps[1] or mrt.dtype_info(dtype).epsilon
  local longest = at.lr:to "f64":minimum(t:rsqrt()):to(dtype)
  local a = (compose.length(p):to(dtype) / root):maximum(o.eps[2]) * longest
  local v = estimate(state, g, (t ^ o.beta2_decay):to(dtype), eps, when)
  local u = g * v:maximum(eps * eps):rsqrt()
  local long = (compose.length(u):to(dtype) / (root * o.d)):maximum(1)
  p:assign(compose.decayed(p, at) - u * (a / long), when)
end

return adafactor
