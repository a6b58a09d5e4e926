--- loop.lua -- the steps of a run, one after the other
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local options = require "mrt.util.options"

local loop = {}

---@class mrt.train.Loop
---@field o table            the options of train.run
---@field bar mrt.Progress
---@field record mrt.Log?
---@field snapshots mrt.Snapshots?
---@field stop mrt.train.Stop
---@field used mrt.train.Ring
---@field noise mrt.Compiled?   what knows the gradient noise
---@field summary table         of the run, as train.run returns it
---@field memory integer        most bytes that tensors took in a step
---@field held integer?         bytes of tensors after the first step
---@field saved integer?        the step of the last snapshot

--- How much a mini-batch is, and of what: integers [B,T] are tokens.
---@param x mrt.Tensor
---@return integer amount
---@return "examples"|"tokens" unit
function loop.amount(x)
  if x.dtype:find "^f" or x:dim() ~= 2 then return x:size(1), "examples" end
  return x:numel(), "tokens"
end

--- Take the next mini-batch.
---@param o table
---@return table batch  packed
function loop.next_batch(o)
  local batch = table.pack(o.loader:next())
  if core.is_tensor(batch[1]) then return batch end
  core.fail("value", "train.run", ("loader:next() gave %s, tensors wanted")
    :format(options.show(batch[1])))
end

-- Is this step the last, or one of every so many?
local function due(o, step, every)
  return step == o.steps or (every and step % every == 0)
end

local function want(ok, message)
  if not ok then core.fail("file", "train.run", message) end
end

-- What tensors took in a step: the most since the peak before, if it was exceeded, or
-- what there is after it, for the arena stays where it is.  What there is more than after
-- the first step lies beside the plan: constants of an evaluation, or of another shape.
local function measure(run, before)
  local info = core.info()
  run.held = run.held or info.bytes_now
  run.bar:beside(info.bytes_now - run.held)
  local most = info.bytes_now
  if info.bytes_peak > before then most = math.max(most, info.bytes_peak) end
  run.memory = math.max(run.memory, most)
  return most
end

-- Begin one step; what is known of it.
local function begin(run, step, batch)
  local o, before = run.o, core.info().bytes_peak
  local now = { step = step, began = core.clock(), amount = loop.amount(batch[1]),
    lr = o.optimizer and o.optimizer:rate() }
  now.results = table.pack(o.step(table.unpack(batch, 1, batch.n)))
  now.memory = measure(run, before)
  run.used:batch(batch)
  return now
end

-- The number of a tensor with one element.
local function number_of(x)
  return core.is_tensor(x) and x:numel() == 1 and x:item() or nil
end

-- Wait for its loss, and show it.  run.last: when the step before was done.  A late
-- one sees the averages over the next step too.  `pending`: its own line comes.
local function finish(run, now, pending)
  now.loss = now.results[1]:item()
  now.norm = run.o.grad_norm and number_of(now.results[2]) or nil
  now.noise = run.noise and run.record and run.noise:gradient_noise()
  run.used:results(now.results)
  local last = run.last or 0
  run.last = core.clock()
  now.throughput = now.amount / math.max(run.last - math.max(now.began, last), 1e-9)
  run.summary.loss = now.loss
  run.bar:step(now.step, now.loss, now.amount, { lr = now.lr, norm = now.norm,
    memory = now.memory, pending = pending })
  if run.o.on_step then
    run.o.on_step { step = now.step, loss = now.loss, norm = now.norm }
  end
end

-- Do something beside the steps.
local function pause(run, f)
  local began = core.clock()
  f()
  run.bar:pause(core.clock() - began)
end

local function evaluate(run, now)
  pause(run, function() now.eval = run.o.eval() end)
  run.summary.eval = now.eval
  run.bar:evaluation(run.o.eval_name, now.eval)
end

local function write(run, now)
  if not run.record then return end
  local noise = now.noise or {}
  want(run.record:write(now.step, { loss = now.loss, lr = now.lr, memory = now.memory,
    throughput = now.throughput, eval = now.eval, grad_norm = now.norm,
    gradient_noise = noise.scale, gradient_variance = noise.noise,
    gradient_square = noise.signal }))
end

local function save(run, step)
  pause(run, function() want(run.snapshots:save(step)) end)
  run.saved = step
end

-- Begin a step, finish the one before if its loss has not been read; returns
-- this one if its loss may wait.
local function advance(run, step, batch, before)
  local o, now = run.o, begin(run, step, batch)
  if before then
    finish(run, before)
    write(run, before)
  end
  local evaluates = o.eval and due(o, step, o.eval_every)
  local saves = run.snapshots and due(o, step, o.snapshot_every)
  if o.late and not (evaluates or saves) and step < o.steps then return now end
  finish(run, now, evaluates)
  if evaluates then evaluate(run, now) end
  write(run, now)
  if saves then save(run, step) end
end

-- How to go on after Ctrl-C.
local function to_go_on(o)
  if not o.snapshots then return "nothing is saved: train.run has no option 'snapshots'" end
  return ("saved in %s; to go on: the same again%s"):format(o.snapshots,
    o.resume and "" or ", with resume = true")
end

-- What Ctrl-C ends a run with, as errors of the core are; no line is at fault.
local Ended = { __name = "mrt.Error", __tostring = function(e) return e.message end }

-- Ctrl-C has come: what has been done is kept, and the run ends with an error.
local function interrupted(run, step, before)
  if before then
    finish(run, before)
    write(run, before)
  end
  if run.snapshots and run.saved ~= step then save(run, step) end
  run.bar:close()
  error(setmetatable({ code = "interrupted", position = "",
    message = ("interrupted after step %d of %d; %s"):format(step, run.o.steps,
      to_go_on(run.o)) }, Ended), 0)
end

-- The mini-batch after this step; where there is none, the step is finished first.
local function following(run, before)
  local ok, got = pcall(loop.next_batch, run.o)
  if ok then return got end
  if before then
    finish(run, before)
    write(run, before)
  end
  error(got, 0)
end

--- Take the steps that are left.
---@param run mrt.train.Loop
---@param done integer   steps of an earlier process
---@param batch table    the first mini-batch
function loop.go(run, done, batch)
  local before
  for step = done + 1, run.o.steps do
    before = advance(run, step, batch, before)
    if step == run.o.steps then return end
    if run.stop:asked(step) then interrupted(run, step, before) end
    batch = following(run, before)
  end
end

return loop
