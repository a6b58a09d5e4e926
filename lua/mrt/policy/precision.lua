--- precision.lua -- which nodes compute in what, and what is kept narrow
---
---     mrt.compile(step, { precision = policy.precision.bf16() })
---
--- Products (matmul, convolution, attention) read narrow inputs and add up in f32
--- (matmul, linear and conv2d in a narrow type where `accumulate` says so);
--- norms, softmax, losses and sums compute in f32 whatever comes in (on a device whose
--- products have epilogues the gradient of a linear's bias adds up, in f32, what its
--- weight's gradient reads: dy rounded); variables,
--- optimizer state, arguments and results stay f32.  What the backward pass reads
--- of the forward pass is kept narrow, and so is what layers hand on (`residual`).
---
--- A policy of one's own is asked once for each node that computes floats, while
--- planning, but for what only updates read.  It answers a dtype to compute in, or a
--- table; nil leaves f32:
---
---     precision = function(node)
---       if node.width == "narrow" and node.layer > 1 then return "bf16" end
---     end
---
--- The behaviours (narrow, wide, follow) are those of PyTorch's autocast, as a
--- rewrite of the graph.
---
--- SPDX-License-Identifier: MIT

local answers = require "mrt.policy.answers"
local ask = require "mrt.policy.ask"
local core = require "mrt.core"
local delayed = require "mrt.compile.fp8_scaling"
local options = require "mrt.util.options"
local scaling = require "mrt.compile.loss_scale"

---@class mrt.policy.precision
local precision = {}
local asked = {} -- by the compiler

--- What a policy sees of a node.
---@class mrt.Computation
---@field op string       the operator
---@field name? string    of its first result, given by mrt.name
---@field class string    kind of work: "matmul", "norm", ...
---@field width "narrow"|"wide"|"follow"  gains by narrow inputs; loses range or
---  sums many terms; neither
---@field backward boolean  part of the gradient
---@field boundary boolean  of the forward pass: hands on to another layer what
---  variables lead to (mrt.layer; every block of nn's models is one)
---@field layer integer   1, 2, ... as marked by mrt.layer; 0: none
---@field type string     of its first result: "f32[4,8]"
---@field bytes integer   ditto
---@field flops number
---@field file string
---@field line integer
---@field module string?   the path of the module that was called

--- What it answers.
---@class mrt.ComputationChoice
---@field compute? mrt.DType  what inputs are rounded to
---@field output? mrt.DType   what results are rounded to (default: compute, where
---  something narrow comes of them; f32 if scaled)
---@field accumulate? mrt.DType  of matmul, linear and conv2d: a narrow float that each
---  sum is rounded to after each term, to see what is lost (slow); default f32
---@field scaled? boolean      of products: inputs are scaled to fit `compute`, by what
---  is largest in them, and the result is scaled back
---@field gradient? mrt.DType  if scaled, instead of `compute` for gradients

---@alias mrt.PrecisionFunction fun(node: mrt.Computation):
---  mrt.DType|mrt.ComputationChoice|nil
---@alias mrt.PrecisionPolicy mrt.Precision | mrt.PrecisionFunction

---@class mrt.Precision
---@field name string
---@field choose mrt.PrecisionFunction
---@field loss_scale? table  settings of mrt/compile/loss_scale.lua
---@field delayed? mrt.DelayedScaling  scales of earlier steps
---@field keep? mrt.DType  what the backward pass reads of the forward pass
---@field weights? mrt.Weights  what parameters are stored in
local Precision = {}
Precision.__index = Precision
Precision.__name = "mrt.Precision"
function Precision:__tostring() return "policy.precision." .. self.name end

local function make(fields) return setmetatable(fields, Precision) end

-- What layers hand on is stored in `residual`, whatever it was computed in.
local function handed_on(node, residual)
  if node.boundary and node.width ~= "narrow" and residual ~= "f32" then
    return { compute = "f32", output = residual }
  end
end

local function products_in(dtype, residual, sums)
  local product = sums ~= "f32" and { compute = dtype, accumulate = sums } or dtype
  return function(node)
    if answers.sums_narrow[node.op] then return product end
    if node.width == "narrow" then return dtype end
    return handed_on(node, residual)
  end
end

local function read_sums(who, value, narrow)
  if value == nil then return "f32" end
  if value == narrow or value == "f32" then return value end
  core.fail("value", who, ("option 'accumulate': \"%s\" or \"f32\" wanted, got %s"):format(
    narrow, options.show(value)))
end

local function read_residual(who, value, narrow)
  if value == nil then return narrow end
  if value == narrow or value == "f32" then return value end
  core.fail("value", who, ("option 'residual': \"%s\" or \"f32\" wanted, got %s"):format(
    narrow, options.show(value)))
end

--- Compute all in f32, as traced.
---
---     local p = policy.precision.f32()
---@return mrt.Precision
function precision.f32() return make { name = "f32()", choose = function() end } end

---@class mrt.BF16Options
---@field residual? "bf16"|"f32"  what layers hand on is stored so: bf16 (default), as
---  Megatron has it, or as it was computed
---@field accumulate? "f32"|"bf16"  what matmul, linear and conv2d add up in: f32 (default),
---  or bf16 term by term, slowly, as mrt.ComputationChoice has it

--- Products in bf16, which has the range of f32 and 8 bits of precision.
---
---     local p = policy.precision.bf16()
---
--- Raises: an option that there is not.
---@param given? mrt.BF16Options
---@return mrt.Precision
function precision.bf16(given)
  local who = "precision.bf16"
  local o = options.read(who, given, { residual = options.none, accumulate = options.none })
  return make { name = "bf16()", keep = "bf16",
    choose = products_in("bf16", read_residual(who, o.residual, "bf16"),
      read_sums(who, o.accumulate, "bf16")) }
end

---@class mrt.PureOptions
---@field residual? "bf16"|"f32"  as of bf16
---@field stochastic? boolean  default true: updates round up or down at random,
---  with the probability that keeps the mean; false: to nearest

--- As bf16, with parameters that are stored in bf16 themselves: two bytes each, and
--- so are their gradients.  What the step's optimizers update is converted where it
--- is when the step is first traced, and stays so; for that the function runs twice,
--- unless the model has been converted before (model:to "bf16").  Changes smaller than half a
--- unit of a parameter, 1/512 of it, are lost without stochastic rounding, which
--- draws by seed, step and place, so that a run that goes on draws the same. The
--- fused updates have it: adamw, adam, rmsprop, adagrad, lion, sgd with momentum;
--- what assigns weights (muon, lamb, plain sgd) rounds to nearest.  With the option
--- `master` of adamw and adam nothing is lost: they keep the bits that are rounded off.
---
---     local p = policy.precision.bf16_pure()
---
--- Raises: an option that there is not.
---@param given? mrt.PureOptions
---@return mrt.Precision
function precision.bf16_pure(given)
  local who = "precision.bf16_pure"
  local o = options.read(who, given, { stochastic = true, residual = options.none })
  return make { name = "bf16_pure()", keep = "bf16",
    choose = products_in("bf16", read_residual(who, o.residual, "bf16"), "f32"),
    weights = { dtype = "bf16", stochastic = o.stochastic } }
end

---@class mrt.F16Options
---@field loss_scale? "dynamic"|number|mrt.LossScale|false  default "dynamic"
---@field residual? "f16"|"f32"  what layers hand on is stored so: f16 (default), which
---  ends at 65504, or as it was computed
---@field accumulate? "f32"|"f16"  as of bf16

--- Products in f16, whose smallest number is 6e-8: gradients are computed of a loss
--- that is scaled up. `step:loss_scale()` tells by how much.  A dynamic scale shrinks
--- where they overflow, so nan = "trap" looks at them under a number or false only.
---
---     local p = policy.precision.f16()
---
--- Raises: an option that there is not.
---@param given? mrt.F16Options
---@return mrt.Precision
function precision.f16(given)
  local o = options.read("precision.f16", given, { loss_scale = "dynamic",
    residual = options.none, accumulate = options.none }, true)
  local scale = o.loss_scale and scaling.read(o.loss_scale) or nil
  return make { name = "f16()", keep = "f16", loss_scale = scale,
    choose = products_in("f16", read_residual("precision.f16", o.residual, "f16"),
      read_sums("precision.f16", o.accumulate, "f16")) }
end

---@class mrt.FP8Options
---@field except? fun(node: mrt.Computation): boolean  products that stay in bf16
---@field residual? "bf16"|"f32"  as of bf16
---@field scaling? "current"|"delayed"  by what is largest in a tensor now (default),
---  or was in the last steps: mrt/compile/fp8_scaling.lua
---@field history? integer  if delayed: how many steps count, this one included
---  (default 1024)
---@field margin? integer   if delayed: scales are 2^margin smaller than what just
---  fits (default 0)

local products = { matmul = true, conv = true }
-- Weights with scales of their own; results that are not in proportion.
local unscaled = { quantized_linear = true, two_of_four_linear = true, linear_gelu = true,
  matmul_gelu_grad = true, matmul_sums = true }

local function read_scaling(o)
  if o.scaling ~= "current" and o.scaling ~= "delayed" then
    core.fail("value", "precision.fp8", ("option 'scaling': \"current\" or \"delayed\" "
      .. "wanted, got %s"):format(options.show(o.scaling)))
  elseif o.scaling == "delayed" then
    return delayed.read(o.history or 1024, o.margin or 0)
  elseif o.history or o.margin then
    core.fail("value", "precision.fp8", ("option '%s' is of scaling = \"delayed\"")
      :format(o.history and "history" or "margin"))
  end
end

--- Products of matrices in f8 (e4m3 forward, e5m2 for gradients), each tensor scaled
--- by what is largest in it; attention, products with quantised weights, and what
--- `except` names, in bf16.  If delayed, each is scaled by what was largest in it in
--- earlier steps, in the first by 1, and what is larger than f8 holds becomes the
--- largest f8; `step:fp8()` tells the scales.
---
---     local p = policy.precision.fp8()
---
--- Raises: an option that there is not.
---@param given? mrt.FP8Options
---@return mrt.Precision
function precision.fp8(given)
  local o = options.read("precision.fp8", given, { except = options.none,
    scaling = "current", history = options.none, margin = options.none,
    residual = options.none })
  local residual = read_residual("precision.fp8", o.residual, "bf16")
  return make { name = "fp8()", keep = "bf16", delayed = read_scaling(o),
    choose = function(node)
    if node.width ~= "narrow" then return handed_on(node, residual) end
    if not products[node.class] or unscaled[node.op] or o.except and o.except(node) then
      return "bf16"
    end
    return { compute = "f8_e4m3", gradient = "f8_e5m2", scaled = true,
      output = "bf16" }
  end }
end

-- ---- asking -------------------------------------------------------------------

--- The settings of a policy's loss scale; nil: it has none.
---@param option any
---@return table?
function asked.loss_scale(option)
  return getmetatable(option) == Precision and option.loss_scale or nil
end

--- What a policy stores parameters in; nil: as they are.
---@param option any
---@return mrt.Weights?
function asked.weights(option)
  return getmetatable(option) == Precision and option.weights or nil
end

--- The settings of a policy's delayed scales; nil: it has none.
---@param option any
---@return mrt.DelayedScaling?
function asked.delayed(option)
  return getmetatable(option) == Precision and option.delayed or nil
end

--- What the core asks, for a policy that the user gives.
---@param option any
---@return (fun(all: mrt.Computation[]))?
function asked.decider(option)
  if option == nil then return nil end
  ask.refuse_uncalled("compile", "precision", option, precision)
  local policy, keep = option, nil
  if getmetatable(option) == Precision then
    policy, keep = option.choose, option.keep
  elseif type(option) ~= "function" then
    core.fail("value", "compile",
      ("option 'precision': a policy or a function wanted, got %s")
      :format(options.show(option)))
  end
  return function(all)
    all.keep = keep
    for _, node in ipairs(all) do
      answers.decide(policy, node)
    end
  end
end

return ask.hide(precision, asked)
