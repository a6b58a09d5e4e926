--- step.lua -- the step of a fine-tuning run, and its loss on other samples
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local method = require "mrt.finetune.method"
local mode = require "mrt.nn.mode"
local optim = require "mrt.optim"
local pack = require "mrt.finetune.pack"
local ring = require "mrt.train.ring"

local step = {}

--- The mean loss over the targets that are learned.
---@param model mrt.nn.Decoder
---@param tokens mrt.Tensor      i32 `[B,T]`
---@param targets mrt.Tensor     `[B,T]`
---@param segments? mrt.Tensor   `[B,T]`, of packed rows
---@param positions? mrt.Tensor  `[B,T]`
---@return mrt.Tensor
function step.loss(model, tokens, targets, segments, positions)
  local at = segments and { segments = segments, positions = positions } or nil
  return model:loss(tokens, targets, { at = at, ignore_index = pack.IGNORED })
end

---@class mrt.finetune.StepOptions: mrt.finetune.Method
---@field lr number
---@field steps integer         in all
---@field warmup? integer       of these; the rate then falls along half a cosine to a tenth
---@field weight_decay number
---@field clip? number
---@field state "f32"|"bf16"|"8bit"  what AdamW's moments are kept in
---@field accumulate integer    micro-batches of a batch
---@field memory? integer|table as of mrt.compile
---@field spend? number         as of mrt.compile
---@field swap boolean          values may go to a file

--- Make the optimizer and the compiled step of a model that a method has made ready.
---@param model mrt.nn.Decoder
---@param o mrt.finetune.StepOptions
---@return mrt.Compiled step
---@return mrt.Optimizer optimizer
function step.new(model, o)
  local rate = optim.cosine { lr = o.lr, min = o.lr / 10, warmup = o.warmup or 0,
    steps = o.steps }
  local optimizer = optim.adamw(model:parameters(), { lr = rate, weight_decay = o.weight_decay,
    state = o.state })
  local options = method.options(o)
  options.memory, options.spend = o.memory, o.spend
  if not o.swap then options.swap = require "mrt.policy.swap".none() end
  return mrt.train.step { model = model, optimizer = optimizer, loss = step.loss, clip = o.clip,
    accumulate = o.accumulate > 1 and o.accumulate or nil, compile = options }, optimizer
end

--- Make a function that returns the mean loss over the learned targets of a loader's
--- mini-batches, in evaluation mode.
---@param model mrt.nn.Decoder
---@param loader mrt.data.Loader  filled up, not shuffled
---@param o mrt.finetune.StepOptions
---@param beside? mrt.Compiled  the step, whose arena it uses in turn
---@return fun(): number evaluate
function step.evaluator(model, loader, o, beside)
  local options = method.options(o)
  options.name = "the evaluation"
  local compiled = mrt.compile(function(tokens, targets, ...)
    local count = targets:ne(pack.IGNORED):to "f32":sum()
    return step.loss(model, tokens, targets, ...) * count, count
  end, options)
  compiled.space = beside and beside.space or compiled.space
  return function()
    local _ <close> = mode.evaluating(model)
    local sum, count, used = 0, 0, ring.new(loader, compiled)
    local function take(...)
      local batch, results = { ... }, { compiled(...) }
      sum, count = sum + results[1]:item(), count + results[2]:item()
      used:batch(batch)
      used:results(results)
    end
    local iterate = loader:epoch(0)
    local batch = table.pack(iterate())
    while batch[1] do
      take(table.unpack(batch, 1, batch.n))
      batch = table.pack(iterate())
    end
    return sum / count
  end
end

return step
