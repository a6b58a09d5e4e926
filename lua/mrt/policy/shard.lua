--- shard.lua -- how a model's parameters are spread over the ranks
---
---     local step = mrt.compile(fn, { shard = policy.shard.zero(2) })
---
--- Every rank computes the gradients of its own part of the batch; what updates
--- read is their mean.  What is in pieces, one on each rank, is gathered where it
--- is needed (Rajbhandari, Rasley, Ruwase & He, "ZeRO: memory optimizations toward
--- training trillion parameter models", SC 2020, arXiv:1910.02054):
---
--- | policy    | in pieces                             | elements moved in a step   |
--- |-----------|---------------------------------------|----------------------------|
--- | `ddp()`   | nothing                               | 2P: gradients              |
--- | `zero(1)` | optimizer state, master weights       | 2P: gradients, weights     |
--- | `zero(2)` | and gradients                         | 2P                         |
--- | `zero(3)` | and weights: gathered for the forward | 3P: and weights once more  |
--- |           | pass, and again for the backward pass |                            |
--- | `fsdp{}`  | as `zero(3)`                          | 3P                         |
---
--- All give the same bits on as many ranks.  Gradients never live longer than
--- their bucket, so `zero(1)` is `zero(2)` here, but for `retain` and micro-batches.
---
--- Over k micro-batches (`accumulate`) weights are gathered once a step, by `zero(3)`
--- twice in each micro-batch.  Gradients are reduced in each and added up in pieces, or
--- added up and reduced once, as `reduce_each` says (elements moved, bytes of
--- accumulators, N ranks):
---
--- | policy               | "micro-batch"     | "step"          |
--- |----------------------|-------------------|-----------------|
--- | `ddp()`              | 2kP, 4P           | 2P, 4P          |
--- | `zero(1)`, `zero(2)` | (k + 1)P, 4P / N  | 2P, 4P          |
--- | `zero(3)`            | 3kP, 4P / N       | (2k + 1)P, 4P   |
---
--- Sums have another order then, so all policies have the same bits where they agree
--- in this.  (DeepSpeed takes "step" for stage 1, PyTorch's no_sync for any.)  The
--- gradient of a loss that is no sum or mean over the batch, but a function of several,
--- is reduced once in any case: how much a micro-batch counts is known at the end.
---
--- On one rank nothing is done, so a script is the same alone and on many.
---
--- SPDX-License-Identifier: MIT

local ask = require "mrt.policy.ask"
local core = require "mrt.core"
local format = require "mrt.util.format"
local options = require "mrt.util.options"

---@class mrt.policy.shard
local shard = {}
local asked = {} -- by the compiler

---@class mrt.ShardOptions
---@field comm? mrt.Communicator   default: of all ranks
---@field bucket? integer|string   parameters travel together until a bucket has so
---  many bytes and a layer ends: default 25 MiB for ddp, 1 MiB for the others; 0:
---  each layer by itself
---@field package replicas mrt.Communicator?  of a mesh: ranks that have the same pieces
---  and rows of their own
---@field package experts mrt.ShardOptions?  of a mesh: the same of experts' matrices, of
---  which ranks have their own
---@field gather? "bf16"|"f16"     weights are read, and travel, in this dtype
---@field reduce? "f32"|"bf16"|"f16"  the dtype in which gradients travel; they are
---  added up in f32, in the order of the ranks.  Default: the parameters' own
---@field reduce_each? "micro-batch"|"step"  whether gradients of micro-batches are
---  reduced before they are added up (the default), or after
---@field retain? boolean          keep what `gather` makes of the weights, and the
---  gradients, between steps too, as the paper counts them
---@field prefetch? integer        so many gathers may begin before their weights are
---  read, beside the computation, and reductions go on beside it, where that takes no
---  memory beyond the plan's peak or the budget; 0: nothing runs beside.  Default: 1,
---  where the ranks of a host have two cores each or more

---@class mrt.Sharding
---@field name string
---@field stage_of fun(p: mrt.ShardParameter): integer
---@field options mrt.ShardOptions
local Sharding = {}
Sharding.__index = Sharding
Sharding.__name = "mrt.Sharding"
function Sharding:__tostring() return "policy.shard." .. self.name end

--- What a policy sees of a parameter.
---@class mrt.ShardParameter
---@field name? string
---@field index integer    among those that a gradient is asked for
---@field elements integer
---@field bytes integer
---@field type string      "f32[384,384]"
---@field dim integer      how many dimensions

--- A function answers for each parameter with a stage, 0 to 3.
---@alias mrt.ShardPolicy mrt.Sharding | fun(p: mrt.ShardParameter): integer

local MOST_GATHERS <const> = 1 << 20 -- no plan has as many

local function check_word(who, name, value, ...)
  if value == nil then return end
  for _, word in ipairs { ... } do if value == word then return end end
  core.fail("value", who, ("option '%s': \"%s\" wanted, got %s"):format(name,
    table.concat({ ... }, '" or "'), options.show(value)))
end

-- Closed ones, and those of another process, are none.
local function check_comm(who, comm)
  if comm == nil then return end
  local found = type(comm) == "table" and math.type(comm.number) == "integer"
    and (getmetatable(comm) or {}).__name == "mrt.Communicator"
  if not found then
    core.fail("value", who, "option 'comm': a communicator wanted, got "
      .. options.show(comm))
  end
  local ok, problem = pcall(core.communicator.info, comm.number)
  if not ok then core.fail("value", who, "option 'comm': " .. problem.message) end
end

local function read(who, given, bucket)
  local o = options.read(who, given, { comm = options.none, bucket = bucket,
    gather = options.none, reduce = options.none, retain = false,
    prefetch = options.none, reduce_each = "micro-batch" }, true)
  local bytes, message = 0, nil
  if tonumber(o.bucket) ~= 0 then bytes, message = format.read_bytes(o.bucket) end
  if not bytes then core.fail("value", who, "option 'bucket': " .. message) end
  o.bucket = bytes
  check_comm(who, o.comm)
  check_word(who, "gather", o.gather, "bf16", "f16")
  check_word(who, "reduce", o.reduce, "f32", "bf16", "f16")
  check_word(who, "reduce_each", o.reduce_each, "step", "micro-batch")
  local n = o.prefetch
  if n ~= nil and (math.type(n) ~= "integer" or n < 0 or n > MOST_GATHERS) then
    core.fail("value", who, ("option 'prefetch': a count of gathers wanted, got %s")
      :format(options.show(n)))
  end
  if type(o.retain) ~= "boolean" then
    core.fail("value", who, "option 'retain': a boolean wanted, got "
      .. options.show(o.retain))
  elseif o.retain and not o.gather then
    core.fail("value", who, "retain = true keeps weights in the dtype 'gather', which is "
      .. "not given")
  end
  return o
end

local function make(name, stage_of, o)
  return setmetatable({ name = name, stage_of = stage_of, options = o }, Sharding)
end

--- Data parallel: every rank has everything, gradients are averaged.
---
---     local s = policy.shard.ddp()
---
--- Raises: an option that there is not.
---@param o? mrt.ShardOptions
---@return mrt.Sharding
function shard.ddp(o)
  return make("ddp()", function() return 0 end, read("shard.ddp", o, 25 << 20))
end

--- ZeRO by its stages; see above.
---
---     local s = policy.shard.zero(2)
---
--- Raises: a stage that is not 1, 2 or 3.
---@param stage 1|2|3
---@param o? mrt.ShardOptions
---@return mrt.Sharding
function shard.zero(stage, o)
  if math.type(stage) ~= "integer" or stage < 1 or stage > 3 then
    core.fail("value", "shard.zero", ("stage %s, 1, 2 or 3 wanted")
      :format(options.show(stage)))
  end
  return make(("zero(%d)"):format(stage), function() return stage end,
    read("shard.zero", o, 1 << 20))
end

--- Fully sharded data parallel: everything is in pieces, layer by layer.
---
---     local s = policy.shard.fsdp()
---
--- Raises: an option that there is not.
---@param o? mrt.ShardOptions
---@return mrt.Sharding
function shard.fsdp(o)
  return make("fsdp{}", function() return 3 end, read("shard.fsdp", o, 1 << 20))
end

-- The stage that a user's function answers.
local function answer(fn, p)
  local about = ("%s %s"):format(p.name or ("parameter %d"):format(p.index), p.type)
  local stage = ask.call("shard", about, fn, ask.view(p))
  if math.type(stage) == "integer" and stage >= 0 and stage <= 3 then return stage end
  core.fail("value", "shard", ("%s answered %s for %s; a stage from 0 to 3 wanted")
    :format(ask.name(fn), options.show(stage), about))
end

--- What the option `shard` of mrt.compile says; nil for nil.
---@param option mrt.ShardPolicy?
---@return mrt.Sharding?
function asked.read(option)
  if option == nil or getmetatable(option) == Sharding then return option end
  ask.refuse_uncalled("compile", "shard", option, shard)
  if type(option) ~= "function" then
    core.fail("value", "compile", ("option 'shard': a policy or a function wanted, got %s")
      :format(options.show(option)))
  end
  return make("function", function(p) return answer(option, p) end,
    read("shard", nil, 1 << 20))
end

return ask.hide(shard, asked)
