--- simulate.lua -- a schedule by the clock: when each action runs, what is idle, what
--- is held
---
--- Each stage does its actions in their order, each as soon as what it waits for is
--- there.  A micro-batch is in flight in a chunk from its F until its B, or its W where
--- the schedule has W: until then what F saved is held.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local check = require "mrt.pipeline.check"
local show = require "mrt.util.options".show

---@class mrt.PipelineTimes  seconds, or any unit: a number, or a function of the stage
---  and the chunk
---@field F? number|fun(stage: integer, chunk: integer): number  default 1 / v
---@field B? number|fun(stage: integer, chunk: integer): number  2 / v; split, 1 / v
---@field W? number|fun(stage: integer, chunk: integer): number  1 / v
---@field send? number   from one stage to another; default 0

---@class mrt.PipelineSimulation
---@field order mrt.PipelineOrder
---@field actions table[][]    of each stage: kind, micro, chunk, start, finish, and how many
---  chunks of micro-batches it holds meanwhile (held)
---@field makespan number      of the whole
---@field busy number[]        of each stage
---@field idle number[]        of each stage, as a share of the makespan
---@field bubble number        idle share of all stages together
---@field in_flight integer[]  of each stage: the most chunks of micro-batches whose
---  activations it holds at once; each has a v-th of a stage's layers

local function duration(times, kind, stage, chunk, otherwise)
  local t = times[kind]
  if type(t) == "function" then t = t(stage, chunk) end
  if t == nil then t = otherwise end
  if type(t) ~= "number" or not (t >= 0) then
    core.fail("value", "pipeline", ("a time of %s for %s of stage %d, 0 or more wanted")
      :format(show(t), kind, stage))
  end
  return t
end

local function usual(order)
  local v = order.v
  return { F = 1 / v, B = (order.split and 1 or 2) / v, W = 1 / v, send = 0 }
end

local function most_held(list, last)
  local held, most = 0, 0
  for _, a in ipairs(list) do
    if a.kind == "F" then held = held + 1 end
    most, a.held = math.max(most, held), held
    if a.kind == last then held = held - 1 end
  end
  return most
end

local function sum_up(out, order)
  local all = 0
  for s, list in ipairs(out.actions) do
    local busy = 0
    for _, a in ipairs(list) do
      busy = busy + a.finish - a.start
      out.makespan = math.max(out.makespan, a.finish)
    end
    out.busy[s], all = busy, all + busy
    out.in_flight[s] = most_held(list, order.split and "W" or "B")
  end
  for s, busy in ipairs(out.busy) do
    out.idle[s] = out.makespan > 0 and 1 - busy / out.makespan or 0
  end
  out.bubble = out.makespan > 0 and 1 - all / (out.makespan * order.p) or 0
end

--- Time a schedule that has been checked.
---
---     local sim = mrt.pipeline.simulate(mrt.pipeline.check(mrt.pipeline.gpipe, 4, 8))
---     sim.bubble == 3 / 11
---
--- Raises: what is no checked schedule; a time that is no number.
---@param order mrt.PipelineOrder
---@param times? mrt.PipelineTimes
---@return mrt.PipelineSimulation
return function(order, times)
  if type(order) ~= "table" or type(order.stages) ~= "table" then
    core.fail("value", "simulate", "a schedule that pipeline.check returned wanted, got "
      .. show(order))
  elseif times ~= nil and type(times) ~= "table" then
    core.fail("value", "simulate", "a table of times wanted, got " .. show(times))
  end
  times = times or {}
  local preset, ends, free = usual(order), {}, {}
  local out = { order = order, actions = {}, makespan = 0, busy = {}, idle = {}, in_flight = {} }
  for s = 1, order.p do ends[s], free[s], out.actions[s] = {}, 0, {} end
  local send = duration(times, "send", 1, 1, preset.send)
  local function key(kind, micro, chunk) return kind .. micro .. "." .. chunk end
  check.walk(order, function(s, at, a)
    local start = free[s]
    for _, n in ipairs(check.needs(order, s, a)) do
      local there = ends[n[1]][key(n[2], n[3], n[4])]
      start = math.max(start, there + (n[1] ~= s and send or 0))
    end
    local finish = start + duration(times, a[1], s, a[3], preset[a[1]])
    ends[s][key(a[1], a[2], a[3])], free[s] = finish, finish
    out.actions[s][at] = { kind = a[1], micro = a[2], chunk = a[3], start = start,
      finish = finish }
  end)
  sum_up(out, order)
  return out
end
