--- choices.lua -- what a run takes, and what it would take if it were asked otherwise
---
--- Each choice is a model of the same sizes, whose weights nobody computes, and a plan of
--- its step; nothing is run.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local Decoder = require "mrt.nn.decoder"
local format = require "mrt.util.format"
local method = require "mrt.finetune.method"
local options = require "mrt.util.options"
local process = require "mrt.compile.process"
local step = require "mrt.finetune.step"

local choices = {}

---@class mrt.finetune.Bytes
---@field weights integer      that are not trained
---@field trained integer      weights or adapters
---@field state integer        of the optimizer
---@field other integer        constants, accumulators
---@field transient integer    activations, gradients, workspaces, at the peak
---@field inputs integer       a mini-batch
---@field swapped integer      of all these, what is in a file

---@class mrt.finetune.Choice
---@field what string
---@field peak integer      bytes, with all kept
---@field seconds number    predicted, of a step
---@field budget integer?   bytes that `memory` leaves to the step
---@field within {peak: integer, seconds: number, kept: boolean, swapped: integer}?  in the
---  budget, perhaps with all kept; nil: nothing fits it, or there is none
---@field least integer?    bytes that would do, where nothing fits
---@field bytes mrt.finetune.Bytes
---@field asked boolean

local function total(list)
  local n = 0
  for _, tensor in pairs(list) do n = n + (core.is_tensor(tensor) and tensor:nbytes() or 0) end
  return n
end

--- Add up what a step takes, by what it is.
---@param model mrt.nn.Module
---@param optimizer mrt.Optimizer
---@param plan mrt.Plan
---@return mrt.finetune.Bytes
function choices.bytes(model, optimizer, plan)
  local trained = total(model:parameters())
  local weights, state = total(model:state()) - trained, total(optimizer:state())
  local known = weights + trained + state
  return { weights = weights, trained = trained, state = state,
    other = plan.persistent + plan.swapped - known, transient = plan.transient + plan.outputs,
    inputs = plan.inputs, swapped = plan.swapped }
end

--- How a choice is called: "lora rank 8, bf16, 4 x 512".
---@param o mrt.finetune.Options
---@return string
function choices.name(o)
  local parts = { o.method .. (o.method == "full" and "" or " rank " .. o.rank), o.dtype }
  parts[3] = ("%d x %d"):format(o.batch, o.context)
  if o.accumulate > 1 then parts[4] = o.accumulate .. " micro-batches" end
  if o.state ~= "f32" then parts[#parts + 1] = "state " .. o.state end
  return table.concat(parts, ", ")
end

-- Rows as a loader gives them: of zeros, which nobody computes.
local function batch_of(o)
  local x = mrt.zeros({ o.batch, o.context }, { dtype = "i32" })
  if o.pack then return x, x, x, x end
  return x, x
end

-- Bytes that a bound on the process leaves to this step; 0: none.
local function budget_of(o, plan)
  if not o.memory then return nil end
  local ok, left = pcall(process.left, o.memory, plan.core, plan.space)
  if ok then return left end
  if type(left) ~= "table" or left.code ~= "budget" then error(left, 0) end
  return 0
end

-- What is known of a plan within the budget; nil and what would do.
local function within(plan, budget)
  local ok, made = true, plan
  if plan:needs() > budget then
    if budget == 0 then return nil end
    ok, made = pcall(plan.replan, { memory = budget }, nil, true)
  end
  if ok then
    return { peak = made.peak, seconds = made.seconds, kept = made == plan,
      swapped = made.swapped }
  end
  if type(made) ~= "table" or made.code ~= "budget" then error(made, 0) end
  return nil, made.needed
end

local function planned(settings, o)
  local model = method.suppose(Decoder(settings), o)
  local compiled, optimizer = step.new(model, options.with(o, "memory", nil))
  local plan = compiled:plan(batch_of(o))
  local out = { what = choices.name(o), peak = plan.peak, seconds = plan.seconds, asked = false,
    bytes = choices.bytes(model, optimizer, plan) }
  out.budget = budget_of(o, plan)
  if out.budget then out.within, out.least = within(plan, out.budget) end
  return out
end

--- Plan one choice.  What that takes in memory is gone afterwards.
---@param settings mrt.nn.DecoderOptions
---@param o mrt.finetune.Options
---@return mrt.finetune.Choice
function choices.plan(settings, o)
  local choice = planned(settings, o)
  collectgarbage()
  core.trim()
  return choice
end

-- ---- what else there is ------------------------------------------------------

local function changed(o, changes)
  local out = {}
  for name, value in pairs(o) do out[name] = value end
  for name, value in pairs(changes) do out[name] = value end
  return out
end

-- Other ways to ask, from those that change least on.
local function others(o)
  local list = {}
  local function add(when, changes) if when then list[#list + 1] = changed(o, changes) end end
  local half = o.batch // 2
  add(o.batch % 2 == 0 and o.accumulate == 1, { accumulate = 2 })
  add(o.batch > 2 and o.accumulate == 1, { accumulate = o.batch })
  add(half >= 1, { batch = half, accumulate = 1 })
  add(o.context >= 128, { context = o.context // 2 })
  add(o.dtype == "f32", { dtype = "bf16" })
  add(o.method == "full" and o.state == "f32", { state = "8bit" })
  add(o.method ~= "full" and o.rank >= 4, { rank = o.rank // 2 })
  add(o.method == "full", { method = "lora", dtype = "bf16" })
  add(o.method ~= "qlora", { method = "qlora", dtype = "bf16" })
  add(o.method ~= "full" and (half >= 1 or o.context >= 128),
    { method = "qlora", dtype = "bf16", batch = 1, accumulate = 1 })
  return list
end

--- Plan what was asked for, and other ways beside it.
---@param settings mrt.nn.DecoderOptions
---@param o mrt.finetune.Options
---@param asked mrt.finetune.Choice
---@return mrt.finetune.Choice[]
function choices.all(settings, o, asked)
  local list = { asked }
  for _, other in ipairs(others(o)) do
    local ok, choice = pcall(choices.plan, settings, other)
    if ok then list[#list + 1] = choice end
  end
  return list
end

-- ---- text --------------------------------------------------------------------

local function line(name, bytes)
  return ("  %-34s %15s bytes %11s"):format(name, format.count(bytes), format.bytes(bytes))
end

--- What a run takes, to the byte, in lines.
---@param o mrt.finetune.Options
---@param bytes mrt.finetune.Bytes
---@param plan mrt.Plan
---@return string
function choices.report(o, bytes, plan)
  local out = { ("%s: a step takes"):format(choices.name(o)),
    line("weights", bytes.weights),
    line(o.method == "full" and "weights that are trained" or "adapters", bytes.trained),
    line("optimizer state", bytes.state),
    line("activations, gradients, workspaces", bytes.transient) }
  if bytes.other ~= 0 then table.insert(out, 5, line("constants, accumulators", bytes.other)) end
  if bytes.swapped > 0 then out[#out + 1] = line("of these in a file", bytes.swapped) end
  out[#out + 1] = line("at the peak", plan.peak)
  out[#out + 1] = ("  and %s a mini-batch; a step is predicted to take %s")
    :format(format.bytes(bytes.inputs), format.time(plan.seconds))
  local does = plan:choices()
  if does.recomputed > 0 or plan.swapped > 0 then out[#out + 1] = "  " .. does.text end
  return table.concat(out, "\n")
end

local function verdict(choice)
  local made = choice.within
  if not choice.budget then return "" end
  if not made then
    return choice.least and "no: least " .. format.bytes(choice.least) or "no"
  end
  return made.kept and "yes" or ("%s: %s"):format(made.swapped > 0 and "swap" or "recompute",
    format.bytes(made.peak))
end

local function table_line(choice)
  return ("%s %-46s %10s  %-22s %9s"):format(choice.asked and "*" or " ", choice.what,
    format.bytes(choice.peak), verdict(choice),
    format.time((choice.within or choice).seconds))
end

--- The choices as a table.
---@param list mrt.finetune.Choice[]
---@param memory integer?  the bound on the process
---@return string
function choices.table(list, memory)
  local out = { ("  %-46s %10s  %-22s %9s"):format("", "all kept",
    memory and "within " .. format.bytes(memory) or "", "a step") }
  for _, choice in ipairs(list) do out[#out + 1] = table_line(choice) end
  return table.concat(out, "\n")
end

return choices
