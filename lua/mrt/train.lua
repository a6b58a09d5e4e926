--- train.lua -- the usual loop, for those who do not write their own
---
---     train.run{
---       model = model, optimizer = opt, loader = loader, steps = 2000,
---       loss = function(m, x, y) return nn.cross_entropy(m(x), y) end,
---     }
---
--- is, but for the progress line,
---
---     local step = mrt.compile(function(x, y)
---       local loss = nn.cross_entropy(model(x), y)
---       opt:step(mrt.grad(loss, model:parameters()))
---       return loss
---     end)
---     for _ = 1, 2000 do step(loader:next()) end
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local options = require "mrt.options"
local progress = require "mrt.progress"

local train = {}

---@alias mrt.Loss fun(model: mrt.nn.Module, ...: mrt.Tensor): mrt.Tensor

---@class mrt.StepOptions
---@field model mrt.nn.Module
---@field optimizer mrt.Optimizer
---@field loss mrt.Loss
---@field clip? number     the longest gradient, all taken together
---@field accumulate? mrt.Accumulate  micro-batches a batch is split into
---@field compile? table   options of mrt.compile

-- The options of mrt.compile: those given, and `accumulate`.
local function compile_options(o)
  local out = { name = "the training step" }
  for name, value in pairs(o.compile or {}) do out[name] = value end
  if o.accumulate ~= nil then out.accumulate = o.accumulate end
  return out
end

--- Compile one training step: loss, gradients, update.
---@param o mrt.StepOptions
---@return fun(...: mrt.Tensor): mrt.Tensor step  returns the loss
function train.step(o)
  return mrt.compile(function(...)
    local loss = o.loss(o.model, ...)
    local params = o.optimizer:parameters()
    o.optimizer:step(mrt.grad(loss, params), { clip = o.clip })
    return loss
  end, compile_options(o))
end

---@class mrt.EvaluatorOptions
---@field model mrt.nn.Module
---@field loss mrt.Loss
---@field loader mrt.data.Loader
---@field batches? integer  stop after so many

--- Make a function that returns the mean loss over an epoch of a loader, in
--- evaluation mode: no dropout.
---
---     local val_loss = train.evaluator{model = model, loss = loss,
---       loader = val:loader{batch = 12, context = 64, shuffle = false}}
---     print(val_loss())
---@param o mrt.EvaluatorOptions
---@return fun(): number
function train.evaluator(o)
  local loss = mrt.compile(function(...) return o.loss(o.model, ...) end)
  return function()
    local training = o.model.training
    o.model:eval()
    local sum, count, batches = 0, 0, 0
    for x, y in o.loader:epoch(0) do
      local examples = x:size(1)
      sum = sum + loss(x, y):item() * examples
      count, batches = count + examples, batches + 1
      if batches == o.batches then break end
    end
    o.model:train(training)
    return sum / count
  end
end

-- How much a mini-batch is, and of what.
local function amount(x)
  if x.dtype:find "^f" then return x:size(1), "examples" end
  return x:numel(), "tokens"
end

local required = { "loader", "steps" }
local defaults = { model = options.none, optimizer = options.none,
  loss = options.none, step = options.none, loader = options.none,
  steps = options.none, clip = options.none, compile = options.none,
  accumulate = options.none,
  eval = options.none, eval_every = options.none, plan = false,
  log_every = options.none, on_step = options.none }

local function read(given)
  local o = options.read("train.run", given, defaults)
  for _, name in ipairs(required) do
    if o[name] == nil then
      core.fail("value", "train.run", name .. " is missing")
    end
  end
  if not o.step and not (o.model and o.optimizer and o.loss) then
    core.fail("value", "train.run",
      "step is missing, or model, optimizer and loss")
  end
  o.step = o.step or train.step(o)
  return o
end

--- Train for a number of steps and show how it goes: step, loss, speed, memory,
--- time left.
---
--- Ctrl-C ends the loop with an error between two steps; the parameters are
--- those of the last whole step.
---@class mrt.TrainOptions
---@field model mrt.nn.Module
---@field optimizer mrt.Optimizer
---@field loss mrt.Loss
---@field step? function         instead of the three above: a compiled step that returns the loss
---@field loader mrt.data.Loader
---@field steps integer
---@field clip? number           longest gradient, all taken together
---@field accumulate? mrt.Accumulate  micro-batches a batch is split into; a step is still one batch
---@field compile? table         options of mrt.compile
---@field eval? fun(): number    see train.evaluator
---@field eval_every? integer    steps; also after the last one
---@field plan? boolean          print the memory plan first
---@field log_every? integer     steps between plain lines
---@field on_step? fun(info: {step: integer, loss: number})
---@param given mrt.TrainOptions
---@return {loss: number, eval: number?, seconds: number} summary  of the last step
function train.run(given)
  local o = read(given)
  local batch = table.pack(o.loader:next())
  local plan = o.step:plan(table.unpack(batch, 1, batch.n))
  if o.plan then plan:report() end
  local _, unit = amount(batch[1])
  local bar <close> = progress.new { steps = o.steps, every = o.log_every,
    unit = unit, memory = plan.peak }
  local summary, began = {}, core.clock()
  for step = 1, o.steps do
    summary.loss = o.step(table.unpack(batch, 1, batch.n)):item()
    bar:step(step, summary.loss, (amount(batch[1])))
    if o.on_step then o.on_step { step = step, loss = summary.loss } end
    if o.eval and (step == o.steps or step % (o.eval_every or o.steps) == 0) then
      summary.eval = o.eval()
      bar:line(("step %d/%d  validation loss %.4f"):format(step, o.steps,
        summary.eval))
    end
    if step < o.steps then batch = table.pack(o.loader:next()) end
  end
  summary.seconds = core.clock() - began
  return summary
end

return train
