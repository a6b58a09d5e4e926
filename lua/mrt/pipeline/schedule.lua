--- schedule.lua -- which stage does what when: pipeline schedules as Lua functions
---
--- A schedule is a function of the number of stages `p`, of micro-batches `m` and of
--- chunks on each stage `v`; it returns for each stage the list of its actions in their
--- order, `{ kind, micro_batch, chunk }`:
---
---     F  forward of a micro-batch through a chunk
---     B  its backward; where the schedule has W too, only the gradient of what came in
---     W  the gradients of the chunk's parameters
---
--- Stages, micro-batches and chunks count from 1; a chunk that is not named is 1.  With
--- v chunks the layers are cut into p v parts, and chunk c of stage s is part
--- (c - 1) p + s.  An own schedule is written just as those here are; check.lua proves
--- that it is complete and cannot deadlock, before anything runs.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local show = require "mrt.util.options".show

local schedule = {}

---@alias mrt.PipelineAction {[1]: "F"|"B"|"W", [2]: integer, [3]: integer?}
---@alias mrt.PipelineSchedule fun(p: integer, m: integer, v: integer): mrt.PipelineAction[][]

local function refuse(who, text, ...) core.fail("value", who, text:format(...)) end

local function check_size(who, name, n)
  if math.type(n) ~= "integer" or n < 1 then
    refuse(who, "%s: %s, a positive integer wanted", name, show(n))
  end
end

--- Raise unless all three are positive integers.
---@param who string  for the message
---@param p any
---@param m any
---@param v any
function schedule.check_sizes(who, p, m, v)
  check_size(who, "stages", p)
  check_size(who, "micro-batches", m)
  check_size(who, "chunks", v)
end

local function one_chunk(who, p, m, v)
  schedule.check_sizes(who, p, m, v)
  if v > 1 then refuse(who, "%d chunks on a stage; it has one (interleaved has several)", v) end
end

-- A list of each stage.
local function each(p, make)
  local stages = {}
  for s = 1, p do stages[s] = make(s) end
  return stages
end

--- GPipe: all forwards, then all backwards.  A stage holds the activations of all m
--- micro-batches; (p - 1) / (m + p - 1) of the time is idle.
--- Huang et al., GPipe, 2019, arXiv:1811.06965.
---
---     #mrt.pipeline.gpipe(4, 8)[1]  --> 16
---
--- Raises: counts below 1; several chunks.
---@param p integer   stages
---@param m integer   micro-batches
---@param v? integer  1
---@return mrt.PipelineAction[][] stages
function schedule.gpipe(p, m, v)
  one_chunk("gpipe", p, m, v or 1)
  return each(p, function()
    local list = {}
    for i = 1, m do list[i] = { "F", i } end
    for i = 1, m do list[m + i] = { "B", i } end
    return list
  end)
end

-- Forwards and backwards in turn after `warm` forwards: list k of `forward` and
-- `backward` says which.
local function in_turn(n, warm, forward, backward)
  local list = {}
  for k = 1, warm do list[k] = forward(k) end
  for k = 1, n - warm do
    list[#list + 1] = forward(warm + k)
    list[#list + 1] = backward(k)
  end
  for k = n - warm + 1, n do list[#list + 1] = backward(k) end
  return list
end

--- 1F1B, or PipeDream-flush: forward and backward in turn as soon as the last stage has
--- something to go back.  As much is idle as in GPipe, but stage s holds the activations
--- of min(p - s + 1, m) micro-batches.  Narayanan et al., Memory-Efficient
--- Pipeline-Parallel DNN Training, 2021, arXiv:2006.09503.
---
---     #mrt.pipeline.one_f_one_b(4, 8)[1]  --> 16
---
--- Raises: counts below 1; several chunks.
---@param p integer   stages
---@param m integer   micro-batches
---@param v? integer  1
---@return mrt.PipelineAction[][] stages
function schedule.one_f_one_b(p, m, v)
  one_chunk("one_f_one_b", p, m, v or 1)
  return each(p, function(s)
    return in_turn(m, math.min(p - s, m), function(k) return { "F", k } end,
      function(k) return { "B", k } end)
  end)
end

--- Interleaved 1F1B: v chunks of the layers on each stage, so that the idle time is a
--- v-th of 1F1B's, for v times the messages and more activations in flight.  Narayanan
--- et al., Efficient Large-Scale Language Model Training on GPU Clusters Using
--- Megatron-LM, 2021, arXiv:2104.04473.
---
---     #mrt.pipeline.interleaved(4, 8, 2)[1]  --> 32
---
--- Raises: counts below 1; micro-batches that are no multiple of the stages.
---@param p integer   stages
---@param m integer   micro-batches, a multiple of p
---@param v? integer  chunks on each stage; 2
---@return mrt.PipelineAction[][] stages
function schedule.interleaved(p, m, v)
  v = v or 2
  schedule.check_sizes("interleaved", p, m, v)
  if m % p ~= 0 then
    refuse("interleaved", "%d micro-batches on %d stages, a multiple of %d wanted", m, p, p)
  end
  local n = m * v
  -- The k-th: p micro-batches through a chunk, then through the next.
  local function place(k)
    local round, within = (k - 1) // (p * v), (k - 1) % (p * v)
    return round * p + within % p + 1, within // p + 1
  end
  return each(p, function(s)
    local warm = m == p and n or math.min(n, 2 * (p - s) + (v - 1) * p)
    return in_turn(n, warm, function(k)
      local micro, chunk = place(k)
      return { "F", micro, chunk }
    end, function(k)
      local micro, chunk = place(k)
      return { "B", micro, v - chunk + 1 }
    end)
  end)
end

--- ZB-H1: 1F1B whose backward is split, so that gradients of parameters (W) fill what
--- was idle.  With F, B and W of equal length a third as much is idle, and every stage
--- holds the activations of at most p micro-batches, as the first one of 1F1B does.
--- Qi et al., Zero Bubble Pipeline Parallelism, 2023, arXiv:2401.10241, section 2.1.
---
---     #mrt.pipeline.zero_bubble(4, 8)[1]  --> 24
---
--- Raises: counts below 1; several chunks.
---@param p integer   stages
---@param m integer   micro-batches
---@param v? integer  1
---@return mrt.PipelineAction[][] stages
function schedule.zero_bubble(p, m, v)
  one_chunk("zero_bubble", p, m, v or 1)
  return each(p, function(s)
    local list, done = {}, 0
    local warm, late = math.min(p - s, m), s - 1 -- how far W is behind B
    for k = 1, warm do list[k] = { "F", k } end
    for k = 1, m do
      if warm + k <= m then list[#list + 1] = { "F", warm + k } end
      list[#list + 1] = { "B", k }
      if k > late then
        done = done + 1
        list[#list + 1] = { "W", done }
      end
    end
    for k = done + 1, m do list[#list + 1] = { "W", k } end
    return list
  end)
end

schedule.named = { gpipe = schedule.gpipe, ["1f1b"] = schedule.one_f_one_b,
  interleaved = schedule.interleaved, zero_bubble = schedule.zero_bubble }

return schedule
