--- options.lua -- the options of mrt.compile
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local accumulate = require "mrt.accumulate"
local compress = require "mrt.policy.compress"
local format = require "mrt.util.format"
local process = require "mrt.compile.process"
local check_names = require "mrt.util.options".check_names
local show = require "mrt.util.options".show
local swap = require "mrt.policy.swap"
local transforms = require "mrt.compile.transforms"

local options = {}

local MOST_EFFORT = 1000

---@class mrt.CompileOptions
---@field name? string        for reports and errors
---@field simplify? boolean  algebraic identities; the bits of results stay (default
---  true, as all below)
---@field fold? boolean       constant folding
---@field product_before_gather? boolean  products of a table before its lookups
---@field sink_permute? boolean  permutations move past pointwise operators
---@field cse? boolean        common subexpressions
---@field dce? boolean        removal of dead nodes
---@field mask_batch_norm? boolean  gradients of batch norms take those of a relu behind them
---@field split_batch_norm? boolean  normalising by channels is fused with what follows it
---@field fuse_epilogue? boolean  products compute the GELU of their sums, and sums of
---  what they read, where the device does so; it rounds otherwise
---@field join_losses? boolean  the gradient of a classifier's only loss comes with it
---@field add_products? boolean  products, and rows of tables, are added to sums where these lie
---@field add_norm_grads? boolean  gradients of norms are added to those of what goes past
---  them, and rounded, where they are computed
---@field update_products? boolean  updates of large weights compute the products that are
---  their gradients, some rows at a time: no such gradient is stored
---@field keep_matrices? boolean  weights that many products of few rows read in bf16 or
---  f16 are rounded, and turned, once
---@field keep_images? boolean  images of few channels are rounded once for their
---  convolutions in bf16 or f16
---@field fuse? boolean       pointwise fusion
---@field inplace? boolean    results in the place of inputs
---@field share? boolean      values that share memory
---@field place? mrt.PlacePolicy  where in the arena each block lies; by default as low as
---  is found
---@field order? "memory"|"program"  which order to run in
---@field effort? integer     how long to search for an order and places.  By default as
---  long as the bytes that may still be gained are worth it, about 20 ms a MiB; with a
---  budget as for 1.  0: not at all; 1 to 1000: so many times as long as is usual
---@field spend? number       without a budget and a policy: the share of a step's predicted
---  time that may go to computing again what is quick to make, for less memory; 0: none.
---  By default 1/64 on a CPU, none elsewhere
---@field checkpoint? mrt.CheckpointPolicy  what is kept for the backward pass
---@field compress? mrt.CompressPolicy  what is kept for the backward pass is kept in
---  "bf16", "f16", "f8", "int8" or "nf4", all of it or what a function says; a number: a
---  budget may have it so, in what loses no more than that part (0.01: int8)
---@field accumulate? mrt.Accumulate  micro-batches that a batch is split into
---@field allow_batch_statistics? boolean  of each micro-batch: changes results
---@field memory? integer|string|{process: integer|string}  a budget for the peak: "2GiB",
---  2e9; what it takes is recomputed or swapped, whichever is predicted quickest;
---  { process = "2GiB" }: for the whole process, libraries and threads included
---@field job? mrt.Job        what the step is for, told by plan:options()
---@field precision? mrt.PrecisionPolicy  which nodes compute in narrow floats
---@field shard? mrt.ShardPolicy  how parameters are spread over the ranks
---@field mesh? mrt.MeshOptions  what ranks share: data, shard, tensor, pipeline, and how many each
---@field pipeline? mrt.PipelineOptions  stages of the layers, a rank each
---@field gradient_noise? boolean|mrt.GradientNoiseOptions  estimate how noisy the
---  gradient is, from micro-batches and ranks: step:gradient_noise()
---@field transforms? mrt.Transform[]  of one's own, outermost first: they change what
---  gradients and assignments are while the function is traced
---@field nan? "trap"  a step ends with an error where a NaN or an infinity is made,
---  naming operator and line; nothing is fused, and it is slow.  Under a dynamic loss
---  scale, which gradients may overflow, only what comes before them is looked at
---@field swap? mrt.SwapPolicy       which variables live in a file; by default those
---  that a budget wants there; policy.swap.none(): nothing is swapped
---@field update_on_host? boolean  on a device whose swap tier is the host's memory: the
---  CPU updates what is swapped there, where it lies; by default where that is predicted
---  quicker than copying it to the device and back.  The bits are the same

-- The type of each; "any" is read by its own module.
local kinds = { name = "string", inplace = "boolean", share = "boolean",
  order = "string", effort = "number", spend = "number", checkpoint = "any", compress = "any",
  memory = "any", swap = "any", place = "any",
  accumulate = "any", nan = "any", shard = "any", mesh = "any", transforms = "any",
  gradient_noise = "any", pipeline = "any",
  precision = "any", allow_batch_statistics = "boolean", job = "table",
  update_on_host = "boolean" }
for _, name in ipairs(core.rewrites()) do kinds[name] = "boolean" end

local function refuse(who, name, wanted, value)
  core.fail("value", who, ("option '%s': %s wanted, got %s"):format(name,
    wanted, show(value)))
end

local function check_effort(effort, who)
  if math.type(effort) ~= "integer" or effort < 0 or effort > MOST_EFFORT then
    refuse(who, "effort", ("an integer from 0 to %d"):format(MOST_EFFORT), effort)
  end
end

local function check_spend(share, who)
  if not (share >= 0 and share <= 1) then refuse(who, "spend", "a number from 0 to 1", share) end
end

--- Raise unless `given` is a table of options that there are.
---@param who string  for messages
---@param given any
function options.check_names(who, given) check_names(who, given, kinds) end

local function check_kinds(given, who)
  check_names(who, given, kinds)
  for name, value in pairs(given) do
    if kinds[name] ~= "any" and type(value) ~= kinds[name] then
      refuse(who, name, "a " .. kinds[name], value)
    end
  end
  local order = given.order or "memory"
  if order ~= "memory" and order ~= "program" then
    refuse(who, "order", "memory or program", order)
  end
  check_effort(given.effort or 1, who)
  check_spend(given.spend or 0, who)
  if given.nan and given.nan ~= "trap" then refuse(who, "nan", '"trap"', given.nan) end
end

local function read_memory(value, who)
  local bytes, message = format.read_bytes(value)
  if not bytes then
    core.fail("value", who, "option 'memory': " .. message)
  end
  return bytes
end

--- Options with others laid over them, as a new table.
---@param under table
---@param over table
---@return table
function options.merge(under, over)
  local out = {}
  for name, value in pairs(under) do out[name] = value end
  for name, value in pairs(over) do out[name] = value end
  return out
end

--- Options with some changed; false takes one away that is no boolean.
---@param given mrt.CompileOptions
---@param changes mrt.CompileOptions
---@return mrt.CompileOptions
function options.change(given, changes)
  local out = options.merge(given, changes)
  for name, value in pairs(changes) do
    if value == false and kinds[name] == "any" then out[name] = nil end
  end
  return out
end

-- What a module reads of its option.  It loads where there is one: seldom.
local function read(module, name, option, ...)
  if option == nil then return nil end
  return require(module)[name](option, ...)
end

local function read_precision(own)
  local option = own.precision
  own.loss_scale = read("mrt.policy.precision", "loss_scale", option)
  own.overflows = own.loss_scale and own.loss_scale.dynamic
  own.weights = read("mrt.policy.precision", "weights", option)
  own.delayed = read("mrt.policy.precision", "delayed", option)
  own.precision = read("mrt.policy.precision", "decider", option)
end

--- Check options and return them as the planner reads them.
---@param given mrt.CompileOptions
---@param who string  for messages
---@return table
function options.check(given, who)
  check_kinds(given, who)
  local own = options.merge(given, {})
  accumulate.check(own.accumulate)
  transforms.check(own.transforms)
  if own.job then require "mrt.plan.alternatives".read_job(own.job) end
  own.checkpoint = read("mrt.policy.checkpoint", "decider", own.checkpoint, who)
  if own.nan then own.trap, own.fuse, own.order = true, false, "program" end
  read_precision(own)
  own.compress, own.tolerated = compress.read(own.compress)
  own.mesh = read("mrt.mesh", "read", own.mesh)
  own.shard = read("mrt.policy.shard", "read", own.shard)
  if own.mesh then
    own.shard, own.sequence = own.mesh:sharding(own.shard), own.mesh.sequence
    own.ring = own.mesh.ring
    own.pipeline = own.mesh:staged(own.pipeline)
  end
  own.pipeline = read("mrt.pipeline.options", "read", own.pipeline, own)
  own.place = read("mrt.policy.place", "decider", own.place)
  own.noise = read("mrt.compile.gradient_noise", "read", own.gradient_noise)
  own.no_swap = swap.is_none(own.swap)
  own.swap = swap.decider(own.swap)
  own.process = process.read(own.memory, who)
  if own.process then own.memory = nil end
  if own.memory then own.memory = read_memory(own.memory, who) end
  return own
end

return options
