--- mrt.train -- the usual loop, for those who do not write their own
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
local options = require "mrt.util.options"
local log = require "mrt.train.log"
local loop = require "mrt.train.loop"
local mode = require "mrt.nn.mode"
local picture = require "mrt.plan.report.svg"
local progress = require "mrt.train.progress"
local ring = require "mrt.train.ring"
local save = require "mrt.plan.report.save"
local snapshot = require "mrt.train.snapshot"
local stop = require "mrt.train.stop"
local engine = require "mrt.communicator.engine"
local together = require "mrt.communicator.sync"

---@class mrt.train
local train = { log = log.open, read_log = log.read, report = log.report,
  snapshots = snapshot.new }

---@alias mrt.Loss fun(model: mrt.nn.Module, ...: mrt.Tensor): mrt.Tensor

---@class mrt.StepOptions
---@field model mrt.nn.Module
---@field optimizer mrt.Optimizer
---@field loss mrt.Loss
---@field clip? number     the longest gradient, all taken together; math.huge only measures
---@field accumulate? mrt.Accumulate  micro-batches a batch is split into
---@field gradient_noise? boolean|mrt.GradientNoiseOptions  see mrt.compile
---@field denominator? fun(model: mrt.nn.Module, ...: mrt.Tensor): mrt.Tensor  a scalar that the
---  loss of a mini-batch is a mean over; for micro-batches of what mixes its samples
---@field compile? table   options of mrt.compile

-- The options of mrt.compile: those given, `accumulate` and `gradient_noise`.
local function compile_options(o)
  local out = { name = "the training step" }
  for name, value in pairs(o.compile or {}) do out[name] = value end
  if o.accumulate ~= nil then out.accumulate = o.accumulate end
  if o.gradient_noise ~= nil then out.gradient_noise = o.gradient_noise end
  return out
end

local step_defaults = { model = options.want "table",
  optimizer = options.want "table", loss = options.want "function",
  clip = options.of "number", accumulate = options.none,
  gradient_noise = options.none, denominator = options.of "function",
  compile = options.of "table" }

local function new_step(o)
  if not options.is_callable(o.optimizer.parameters)
    or not options.is_callable(o.optimizer.step) then
    core.fail("value", "train.step", "optimizer: one of mrt.optim wanted")
  end
  return mrt.compile(function(...)
    local loss = o.loss(o.model, ...)
    local params = o.optimizer:parameters()
    local how = o.denominator and { denominator = o.denominator(o.model, ...) } or nil
    local norm = o.optimizer:step(mrt.grad(loss, params, how), { clip = o.clip })
    if o.clip then return loss, norm end
    return loss
  end, compile_options(o))
end

--- Compile one training step: loss, gradients, update.
---
---     local step = mrt.train.step { model = model, optimizer = opt, loss = loss }
---
--- Shapes: the loss is scalar.
--- Raises: an option that there is not.
---@param given mrt.StepOptions
---@return fun(...: mrt.Tensor): mrt.Tensor, mrt.Tensor? step  returns the loss and, with
---  `clip`, how long the gradients are together before they are shortened
function train.step(given)
  return new_step(options.read("train.step", given, step_defaults))
end

---@class mrt.EvaluatorOptions
---@field model mrt.nn.Module
---@field loss mrt.Loss
---@field loader mrt.data.Loader
---@field batches? integer  stop after so many

--- Make a function that returns the mean loss (or nn.accuracy) over an epoch of a
--- loader, in evaluation mode: no dropout.
---
---     local val_loss = train.evaluator{model = model, loss = loss,
---       loader = val:loader{batch = 12, context = 64, shuffle = false}}
---     print(val_loss())
---
--- Raises: an option that there is not.
---@param given mrt.EvaluatorOptions
---@return fun(): number
function train.evaluator(given)
  local o = options.read("train.evaluator", given, { model = options.want "table",
    loss = options.want "function", loader = options.want "table",
    batches = options.of "size" })
  if not options.is_callable(o.loader.epoch) then
    core.fail("value", "train.evaluator", "loader: one of mrt.data wanted")
  end
  local loss = mrt.compile(function(...) return o.loss(o.model, ...) end)
  return function()
    local _ <close> = mode.evaluating(o.model)
    local sum, count, batches = 0, 0, 0
    local used = ring.new(o.loader, loss)
    for x, y in o.loader:epoch(0) do
      local examples = x:size(1)
      local mean = loss(x, y)
      sum = sum + mean:item() * examples
      count, batches = count + examples, batches + 1
      used:batch { x, y }
      used:results { mean }
      if batches == o.batches then break end
    end
    core.space_empty(loss.space) -- the next step's memory is what it was
    return sum / count
  end
end

-- ---- the loop --------------------------------------------------------------

local defaults = { model = options.of "table", optimizer = options.of "table",
  loss = options.of "function", step = options.of "table",
  loader = options.want "table", steps = options.want "size",
  clip = options.of "number", compile = options.of "table", accumulate = options.none,
  gradient_noise = options.none, eval = options.of "function", eval_every = options.of "size",
  eval_name = "validation loss", plan = false, log_every = options.of "size",
  on_step = options.of "function", log = options.of "string",
  snapshots = options.of "string", snapshot_every = options.of "size",
  keep = options.of("size", 3), resume = false, more = options.of "table",
  late = options.of "boolean", grad_norm = options.of "boolean" }

-- What is called on it, as the messages say what is wanted.
local function want_methods(o, name, wanted, ...)
  for _, method in ipairs { ... } do
    if o[name] and not options.is_callable(o[name][method]) then
      core.fail("value", "train.run", ("option '%s': %s wanted"):format(name, wanted))
    end
  end
end

local function read(given)
  local o = options.read("train.run", given, defaults)
  if not o.step and not (o.model and o.optimizer and o.loss) then
    core.fail("value", "train.run",
      "step is missing, or model, optimizer and loss")
  end
  want_methods(o, "loader", "a loader", "next")
  want_methods(o, "step", "a compiled function", "plan", "state")
  want_methods(o, "model", "a module", "state", "count")
  want_methods(o, "optimizer", "an optimizer", "step", "parameters", "rate")
  if o.resume and not o.snapshots then
    core.fail("value", "train.run", "resume = true, but no folder of snapshots")
  end
  if not o.step then o.step, o.grad_norm = new_step(o), o.clip ~= nil end
  o.shows = together.rank() == 0
  o.noise = options.is_callable(o.step.gradient_noise) and o.step or nil
  if o.late == nil then o.late = core.info().queues and not o.on_step end
  return o
end

-- The snapshots of a run, the steps already done, and which of them were passed over.
local function go_on(o)
  if not o.snapshots then return nil, 0 end
  local parts = { model = o.model, optimizer = o.optimizer, loader = o.loader,
    step = o.step }
  for name, part in pairs(o.more or {}) do parts[name] = part end
  local kept = snapshot.new { folder = o.snapshots, keep = o.keep, parts = parts }
  if not o.resume then return kept, 0 end
  local done, message = kept:resume()
  if not done then core.fail("file", "train.run", message) end
  collectgarbage() -- what was read is no part of the run's memory
  return kept, done, message
end

local function want(ok, message)
  if not ok then core.fail("file", "train.run", message) end
end

-- What the script has that is not in the plan: tensors beside this batch.  A plan's inputs
-- are more than the batch: what changes from step to step, as the rate, comes with a step.
local function beside(plan, batch)
  local inputs, alignment = 0, core.info().alignment
  for i = 1, batch.n do
    if core.is_tensor(batch[i]) then
      mrt.eval(batch[i]) -- a loader may hand on what was never computed
      inputs = inputs + (batch[i]:nbytes() + alignment - 1) // alignment * alignment
    end
  end
  return math.max(mrt.memory().now - plan:here() - inputs, 0)
end

-- A step's inputs are not in its peak, nor is what else the script has.
local function open_log(o, plan, around, done, unit)
  if not o.log or not o.shows then return nil end
  local run, message = log.open(o.log, { after = o.resume and done > 0 and done or nil,
    run = { steps = o.steps, unit = unit, peak = plan.peak, inputs = plan.inputs,
      beside = around, predicted = plan.seconds,
      parameters = o.model and o.model:count(), engine = engine.serving } })
  if not run then core.fail("file", "train.run", message) end
  want(plan:save(o.log .. "/plan.html", { front = false }))
  want(save.write(o.log .. "/plan.svg", picture(plan, { plain = true })))
  collectgarbage() -- what pages are made of is not to lie beside the steps
  core.trim()
  return run
end

--- Train for a number of steps and show how it goes: step, loss, speed, memory,
--- time left.
---
--- With `snapshots` the run is saved now and then and at its end; with `resume`
--- it goes on from the last snapshot, if there is one, as if it had never
--- stopped: the same steps, bit for bit.
---
--- Of several ranks (mrt.communicator.create comes first) all call it alike.  Rank 0
--- shows and logs what it sees, so its loss is the whole batch's where `loss` or
--- `step` makes it so (allreduce); `eval` and `on_step` run on every rank.  They
--- save together, into one file that rank 0 writes.
---
--- Ctrl-C ends the loop with an error (code "interrupted") after the step that is under
--- way; with `snapshots` the run is saved first.  A second Ctrl-C ends it at once, with the
--- parameters of the last whole step.
---
---     mrt.train.run { model = model, optimizer = opt, loss = loss, loader = loader, steps = 100 }
---@class mrt.TrainOptions
---@field model mrt.nn.Module
---@field optimizer mrt.Optimizer
---@field loss mrt.Loss
---@field step? mrt.Compiled     instead of the three above: a compiled step that returns the loss
---@field loader mrt.data.Loader
---@field steps integer
---@field clip? number           longest gradient, all taken together; how long they are is
---  shown and logged then, for it is known; math.huge only measures (all gradients have to
---  be there before the first update)
---@field grad_norm? boolean     of a `step` of your own: its second result is that length
---@field accumulate? mrt.Accumulate  micro-batches a batch is split into; a step is still one batch
---@field gradient_noise? boolean|mrt.GradientNoiseOptions  how noisy the gradient is, from
---  micro-batches and ranks, into the log: gradient_noise (the scale, in rows),
---  gradient_variance and gradient_square
---@field compile? table         options of mrt.compile
---@field eval? fun(): number    see train.evaluator
---@field eval_every? integer    steps; also after the last one
---@field eval_name? string      what `eval` returns, default "validation loss"
---@field plan? boolean          print the memory plan first
---@field log_every? integer     steps between plain lines
---@field on_step? fun(info: {step: integer, loss: number, norm: number?})
---@field log? string            a folder for run.jsonl, TensorBoard, report.html and plan.html
---@field snapshots? string      a folder
---@field snapshot_every? integer  steps; also after the last one
---@field keep? integer          snapshots kept, default 3
---@field resume? boolean        go on from the last snapshot
---@field more? table<string, table>  more that is saved: anything with state and load_state
---@field late? boolean          read a step's loss when the next step is on its way, so that
---  the device does not wait for the host: default where it queues its work and there
---  is no on_step, which would see the next step's parameters
---@param given mrt.TrainOptions
---@return {loss: number?, eval: number?, seconds: number, steps: integer} summary
---  of the last step; steps: taken by this call
function train.run(given)
  local o = read(given)
  local snapshots, done, skipped = go_on(o)
  local summary, began = { steps = math.max(o.steps - done, 0) }, core.clock()
  if summary.steps == 0 then
    summary.seconds = 0
    if o.shows then
      print(("nothing to do: %s has step %d of %d"):format(o.snapshots, done, o.steps))
    end
    return summary
  end
  local batch = loop.next_batch(o)
  local plan = o.step:plan(table.unpack(batch, 1, batch.n))
  if o.plan and o.shows then plan:report() end
  local _, unit = loop.amount(batch[1])
  local around = beside(plan, batch)
  local record <close> = open_log(o, plan, around, done, unit)
  local bar <close> = progress.new { steps = o.steps, every = o.log_every,
    unit = unit, memory = plan.peak + plan.inputs + around, done = done, quiet = not o.shows }
  if done > 0 then
    bar:line(("going on from step %d of %d, saved in %s%s"):format(done, o.steps, o.snapshots,
      skipped and ": " .. skipped or ""))
  end
  if record and record.aside then
    bar:line(("the log of an earlier run is now in %s"):format(record.aside))
  end
  local stopper <close> = stop.new(done)
  local run = { o = o, bar = bar, record = record, summary = summary, snapshots = snapshots,
    stop = stopper, used = ring.new(o.loader, o.step), noise = o.noise, memory = 0 }
  loop.go(run, done, batch)
  summary.seconds = core.clock() - began
  bar:summary({ loss = summary.loss, eval = summary.eval, eval_name = o.eval_name,
    memory = run.memory }, summary.steps)
  return summary
end

return train
