--- lora.lua -- train a few numbers beside frozen linear layers
---
---     y = base(x) + alpha / rank * (x A^T) B^T,  A [rank, inputs], B [outputs, rank]
---
--- Hu et al. 2021, "LoRA: low-rank adaptation of large language models"
--- (arXiv:2106.09685); over a quantised base Dettmers et al. 2023, "QLoRA"
--- (arXiv:2305.14314).
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local Module = require "mrt.nn.module"
local Dropout = require "mrt.nn.dropout"
local Linear = require "mrt.nn.linear"
local QuantizedEmbedding = require "mrt.nn.quantized_embedding"
local QuantizedLinear = require "mrt.nn.quantized_linear"
local edit = require "mrt.nn.edit"
local initial = require "mrt.nn.initial"
local options = require "mrt.util.options"

---@class mrt.nn.LoRAOptions
---@field rank? integer   default 8
---@field alpha? number   default 16
---@field dropout? number  of the adapter's inputs; default 0
---@field layers? string|string[]|fun(name: string, layer: mrt.nn.Module): boolean
---  which Linear and QuantizedLinear: patterns of names, or a function; default all

local defaults = { rank = 8, alpha = 16.0, dropout = 0.0, layers = options.none }

---@class mrt.nn.LoRA: mrt.nn.Module
---@field base mrt.nn.Linear|mrt.nn.QuantizedLinear
---@field a mrt.Tensor  f32 (f64) `[rank, inputs]`, normal with variance 1 / inputs at first
---@field b mrt.Tensor  `[outputs, rank]`, zeros at first
local LoRA = Module("LoRA", "tensor")

local function base_weight(base)
  return getmetatable(base) == Linear and base.weight or base:weights()
end

local function sizes(base)
  if getmetatable(base) ~= Linear then return base.outputs, base.inputs end
  return base.weight:size(1), base.weight:size(2)
end

function LoRA:init(base, o)
  local outputs, inputs = sizes(base)
  local like = rawget(base, "weight") or base.bias or base.scales
  local dtype = like:get_dtype() == "f64" and "f64" or "f32" -- of narrow weights too
  self.a = mrt.parameter(initial.normal(1 / math.sqrt(inputs))(o.rank, inputs):to(dtype))
  self.b = mrt.parameter(mrt.zeros({ outputs, o.rank }, { dtype = dtype }))
  self.base = base
  self.dropout = Dropout(o.dropout)
  self.rank, self.scale = o.rank, o.alpha / o.rank
end

-- Where the base computes in a narrow dtype, so does the product that is as wide as
-- the base's: no copy of it in f32, nor of its gradient, is made.
---@param x mrt.Tensor  `[..., inputs]`
---@return mrt.Tensor   `[..., outputs]`
function LoRA:forward(x)
  local y = self.base(x)
  local small = self.dropout(x):linear(self.a) * self.scale -- `[..., rank]`
  local dtype = y:get_dtype()
  return y + small:to(dtype):linear(self.b:to(dtype))
end

--- Return a plain, frozen layer that computes the same.  What is pruned of the base
--- is so no more.
---@return mrt.nn.Linear
function LoRA:merged()
  local base = self.base
  local like = rawget(base, "weight") or base.bias or self.a
  local weight = base_weight(base) + self.b:matmul(self.a) * self.scale
  weight = weight:to(like:get_dtype())
  local outputs, inputs = sizes(base)
  local out = Linear(inputs, outputs, { bias = base.bias ~= nil,
    init = function() return weight:detach() end })
  if base.bias then out.bias = base.bias end
  mrt.eval { out.weight }
  out.frozen = true
  return edit.inherit(out, self)
end

function LoRA:describe()
  return ("rank %d, alpha %g"):format(self.rank, self.scale * self.rank)
end

-- ---- whole models ----------------------------------------------------------

local lora = {}

local function read(given)
  local o = options.read("lora", given, defaults)
  options.size("lora", "rank", o.rank)
  if not (o.alpha > 0 and o.alpha < math.huge) then
    core.fail("value", "lora", ("alpha = %g, a positive number wanted"):format(o.alpha))
  end
  return o
end

-- Freeze all but the adapters.
local function freeze(model)
  model:freeze()
  for _, module in model:modules() do
    if getmetatable(module) == LoRA then module.frozen = false end
  end
end

local function check_rank(name, layer, rank)
  local outputs, inputs = sizes(layer)
  local most = math.min(outputs, inputs)
  if rank <= most then return end
  core.fail("value", "lora", ("rank %d of %s, at most %d wanted (option 'layers')")
    :format(rank, edit.called(name, layer), most))
end

local function add(model, given)
  edit.want_module("lora", model)
  local o = read(given)
  local wanted, count = edit.chooser("lora", "layers", o.layers, true), 0
  -- Call `fn` for each layer to adapt.
  local function each(fn)
    return edit.replace(model, function(name, layer)
      local kind = getmetatable(layer)
      if kind == LoRA or kind == QuantizedEmbedding then return false end -- a table's rows
      if kind ~= Linear and kind ~= QuantizedLinear or not wanted(name, layer) then return nil end
      return fn(name, layer)
    end)
  end
  each(function(name, layer) -- all are looked at before one is replaced
    check_rank(name, layer, o.rank)
    count = count + 1
    return false
  end)
  if count == 0 then
    core.fail("value", "lora", ("no Linear or QuantizedLinear in %s(%s) that 'layers' chooses")
      :format(model.type, model:describe()))
  end
  local out = each(function(_, layer) return edit.inherit(LoRA(layer, o), layer) end)
  freeze(out)
  return out
end

-- Exchange by `fn`, or raise that there is nothing to.
local function exchange(who, model, what, fn)
  edit.want_module(who, model)
  local count = 0
  local out = edit.replace(model, function(_, layer)
    local other = fn(layer)
    if other then count = count + 1 end
    return other
  end)
  if count == 0 then
    core.fail("state", who, ("no %s in %s(%s)"):format(what, model.type, model:describe()))
  end
  return out
end

--- Put a plain, frozen Linear in the place of each adapter and its base.
---
---     local model = nn.lora(nn.Sequential(nn.Linear(8, 8)), { rank = 2 })
---     local merged = nn.lora.merge(model)
---
--- Raises: a model without an adapter.
---@param model mrt.nn.Module
---@param given? {keep: boolean?}  keep adapters and bases for `unmerge`; default false
---@return mrt.nn.Module model
function lora.merge(model, given)
  local keep = options.read("lora.merge", given, { keep = false }).keep
  return exchange("lora.merge", model, "adapter", function(layer)
    if getmetatable(layer) ~= LoRA then return nil end
    local merged = layer:merged()
    if keep then rawset(merged, "_adapter", layer) end
    return merged
  end)
end

--- Put the adapters back that `merge` kept: the model computes what it did before,
--- bit for bit.
---
---     local model = nn.lora(nn.Sequential(nn.Linear(8, 8)), { rank = 2 })
---     nn.lora.merge(model, { keep = true })
---     nn.lora.unmerge(model)
---
--- Raises: a model in which no merged adapter was kept.
---@param model mrt.nn.Module
---@return mrt.nn.Module model
function lora.unmerge(model)
  return exchange("lora.unmerge", model, "merged adapter (merge with keep = true)",
    function(layer) return rawget(layer, "_adapter") end)
end

--- Return the adapters alone, by name: a few numbers to save.
---
---     local model = nn.lora(nn.Sequential(nn.Linear(8, 8)), { rank = 2 })
---     for name, x in pairs(nn.lora.state(model)) do print(name, x:type()) end
---
--- Shapes: `[rank, inputs]` and `[outputs, rank]` of each.
--- Raises: what is no module.
---@param model mrt.nn.Module
---@return table<string, mrt.Tensor>
function lora.state(model)
  edit.want_module("lora.state", model)
  local state = {}
  for name, layer in model:modules() do
    if getmetatable(layer) == LoRA then
      local prefix = name == "" and "" or name .. "."
      state[prefix .. "a"], state[prefix .. "b"] = layer.a, layer.b
    end
  end
  return state
end

--- Set the adapters, all or none.
---
--- Raises: a name that is missing, unknown, or has another shape.
---
---     local model = nn.lora(nn.Sequential(nn.Linear(8, 8)), { rank = 2 })
---     nn.lora.load_state(model, nn.lora.state(model))
---@param model mrt.nn.Module
---@param state table<string, mrt.Tensor>
---@return mrt.nn.Module model
function lora.load_state(model, state)
  require "mrt.io.load_state".load(lora.state(model), state)
  return model
end

--- `lora(model, options)`: put an adapter around the chosen linear layers and freeze
--- all else, so that `model:parameters()` gives the adapters.  At first the model
--- computes what it did.  Returns the model (or, if it is itself a layer, what took
--- its place); make the optimizer afterwards.
---
---     nn.lora(model, {rank = 8, alpha = 16, layers = {"qkv", "proj"}})
---     local opt = optim.adamw(model:parameters(), {lr = 1e-3})
---
--- Raises: no layer is chosen; a rank above the inputs or outputs of one that is.
---@overload fun(model: mrt.nn.Module, options?: mrt.nn.LoRAOptions): mrt.nn.Module
return setmetatable(lora, { __call = function(_, model, given) return add(model, given) end })
