--- run.lua -- a fine-tuning run: it begins or goes on, is watched, saved, and ends
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local choices = require "mrt.finetune.choices"
local format = require "mrt.util.format"
local method = require "mrt.finetune.method"
local mode = require "mrt.nn.mode"
local peft = require "mrt.pretrained.peft"
local pretrained = require "mrt.pretrained"
local step = require "mrt.finetune.step"
local train = require "mrt.train"

---@class mrt.finetune.Summary
---@field model mrt.nn.Decoder   trained, adapters beside its layers
---@field steps integer          taken by this call
---@field done integer           taken in all
---@field loss number?           of the last step
---@field eval number?
---@field seconds number
---@field stopped boolean        by Ctrl-C
---@field peak integer           bytes of a step

-- ---- what a snapshot has -----------------------------------------------------

-- What is trained, as a part of a snapshot: weights that stay as they are are not in it.
local function trained_part(model)
  local list = {}
  local wanted = {}
  for _, p in ipairs(model:parameters()) do wanted[p] = true end
  for name, p in model:named_parameters() do
    if wanted[p] then list[name] = p end
  end
  return { state = function() return list end }
end

local kept = { "method", "dtype", "rank", "alpha", "dropout", "context", "batch", "accumulate",
  "pack", "steps", "lr", "warmup", "weight_decay", "clip", "state", "seed" }

-- What the run was asked for: one that is asked for something else does not go on from it.
local function settings_part(o, rows)
  local part = {}
  function part.state()
    local out = { rows = rows }
    for _, name in ipairs(kept) do out[name] = o[name] end
    return out
  end
  function part.load_state(_, saved)
    for name, value in pairs(part.state()) do
      if saved[name] ~= value then
        core.fail("value", "finetune", ("resume: %s is %s, the snapshots are of %s"):format(name,
          tostring(value), tostring(saved[name])))
      end
    end
  end
  return part
end

-- The step's random numbers go on by the signature of its arguments, which begins with
-- the number of the mode that modules are in; another process may have come to another one.
local function step_part(compiled)
  local part = {}
  function part.state()
    local out = compiled:state()
    for _, run in ipairs(out.runs) do run.signature = run.signature:gsub("^%d+ ", "") end
    return out
  end
  function part.load_state(_, saved)
    for _, run in ipairs(saved.runs) do
      run.signature = ("%d %s"):format(mode.current, run.signature)
    end
    compiled:load_state(saved)
  end
  return part
end

-- ---- the run -----------------------------------------------------------------

local function load_model(o)
  if o.model then return o.model end
  return pretrained.load(o.folder, { dtype = method.stored(o), context = o.context,
    quantize = method.quantized(o) })
end

-- The model, ready to be trained, and to be written in the end.
local function ready(o)
  local model, message, code = load_model(o)
  if not model then return nil, message, code end
  mrt.seed(o.seed)
  method.apply(model, o)
  if o.out and o.method ~= "full" and rawget(model, "family") then peft.check(model) end
  collectgarbage()
  return model
end

local function say_what_it_takes(o, model, optimizer, plan)
  o.say(choices.report(o, choices.bytes(model, optimizer, plan), plan))
end

local function is_interrupt(raised)
  local text = type(raised) == "table" and (raised.code or raised.message) or raised
  return tostring(text):find "interrupt" ~= nil
end

-- The loader where it is after so many steps, whatever it has given since.
local function set_back(loader, done)
  if done == 0 then return loader:load_state { epoch = 0, position = 0, seed = loader.seed } end
  loader:load_state { epoch = (done - 1) // loader.batches,
    position = (done - 1) % loader.batches + 1, seed = loader.seed }
end

-- After Ctrl-C: save what there is, and say how to go on.
local function stop(o, parts, loader)
  local done = math.tointeger(parts.optimizer.t:item())
  if not o.out then
    o.say(("stopped after step %d of %d"):format(done, o.steps))
    return done
  end
  set_back(loader, done)
  local snapshots = train.snapshots { folder = o.out .. "/snapshots", keep = o.keep,
    parts = parts }
  local path, message = snapshots:save(done)
  if not path then return nil, message, "file" end
  o.say(("stopped after step %d of %d, and saved; to go on: %s"):format(done, o.steps, o.again))
  return done
end

local function write(o, model)
  if not o.out then return true end
  core.make_folders(o.out)
  local nn = mrt.nn -- which gives models their method `save`
  if o.method == "full" then return model:save(o.out) end
  if not rawget(model, "family") then
    return mrt.save(o.out .. "/adapters.safetensors", nn.lora.state(model))
  end
  return peft.save(model, o.out)
end

local function tenth(o) return math.max(1, o.steps // 10) end

-- Train from where it is to the end; raises what train.run raises.
local function go(o, compiled, parts, evaluate)
  return train.run { step = compiled, optimizer = parts.optimizer, loader = parts.loader,
    steps = o.steps,
    more = { step = parts.step, trained = parts.trained, settings = parts.settings },
    eval = evaluate, eval_every = o.eval_every or tenth(o),
    log = o.out and o.out .. "/log", snapshots = o.out and o.out .. "/snapshots",
    snapshot_every = o.snapshot_every or tenth(o), keep = o.keep, resume = o.resume,
    on_step = o.on_step, grad_norm = true }
end

local function summary_of(o, model, plan, found)
  return { model = model, steps = found.steps, done = o.steps, loss = found.loss,
    eval = found.eval, seconds = found.seconds, stopped = false, peak = plan.peak }
end

-- The compiled step, its plan, and what is saved of a run.
local function parts_of(o, model, made)
  local compiled, optimizer = step.new(model, o)
  local example = table.pack(made.loader:epoch(0)())
  local plan = compiled:plan(table.unpack(example, 1, example.n))
  say_what_it_takes(o, model, optimizer, plan)
  return compiled, plan, { step = step_part(compiled), optimizer = optimizer,
    loader = made.loader, trained = trained_part(model),
    settings = settings_part(o, made.loader.rows) }
end

--- Run.
---@param o mrt.finetune.Options  complete
---@param made {settings: table, loader: mrt.data.Loader, watch: mrt.data.Loader?}
---@return mrt.finetune.Summary? summary
---@return string? message
---@return string? code
return function(o, made)
  local model, message, code = ready(o)
  if not model then return nil, message, code end
  local bound = o.memory and { process = o.memory }
  local settings = setmetatable({ memory = bound }, { __index = o })
  local compiled, plan, parts = parts_of(settings, model, made)
  local evaluate = made.watch and step.evaluator(model, made.watch, settings, compiled)
  local ok, found = pcall(go, o, compiled, parts, evaluate)
  if not ok then
    if not is_interrupt(found) then error(found, 0) end
    local done, why, kind = stop(o, parts, made.loader)
    if not done then return nil, why, kind end
    return { model = model, done = done, stopped = true, peak = plan.peak }
  end
  local written, problem, what = write(o, model)
  if not written then return nil, problem, what end
  if o.out then
    o.say(("%s written to %s; the peak of a step was %s"):format(
      o.method == "full" and "the model is" or "adapters are", o.out, format.bytes(plan.peak)))
  end
  return summary_of(o, model, plan, found)
end
