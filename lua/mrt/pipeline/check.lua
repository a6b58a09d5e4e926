--- check.lua -- is a schedule complete, and can it run to its end?
---
--- Complete: each micro-batch goes forward and backward through each chunk of its stage
--- exactly once, and with W, where the schedule has any, exactly once too.  Then the
--- stages are walked in turn, each as far as what it waits for has been done: what is
--- left over when none can go on is a deadlock, and is told with its circle.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local show = require "mrt.util.options".show
local sizes = require "mrt.pipeline.schedule".check_sizes

local check = {}

---@class mrt.PipelineOrder  a schedule that has been checked
---@field stages mrt.PipelineAction[][]  each action with its chunk
---@field p integer        stages
---@field m integer        micro-batches
---@field v integer        chunks on each stage
---@field split boolean    backward is split into B and W

local function refuse(text, ...) core.fail("value", "pipeline", text:format(...)) end

--- An action in words: "B of micro-batch 3, chunk 2".
---@param a mrt.PipelineAction
---@param v integer  chunks on a stage
---@return string
function check.words(a, v)
  return ("%s of micro-batch %d%s"):format(a[1], a[2], v > 1 and ", chunk " .. a[3] or "")
end

--- The part of the layers that chunk `c` of stage `s` is, from 1.
---@param s integer
---@param c integer
---@param p integer  stages
---@return integer
function check.part(s, c, p) return (c - 1) * p + s end

--- The stage and the chunk of a part.
---@param part integer
---@param p integer  stages
---@return integer stage
---@return integer chunk
function check.home(part, p) return (part - 1) % p + 1, (part - 1) // p + 1 end

local KINDS <const> = { F = true, B = true, W = true }

local function read_action(a, s, at, m, v)
  local chunk = type(a) == "table" and (a[3] == nil and 1 or a[3])
  if type(a) ~= "table" or not KINDS[a[1]] then
    refuse("stage %d, position %d: %s, an action {\"F\"|\"B\"|\"W\", micro-batch, chunk} wanted",
      s, at, type(a) == "table" and "a table with " .. show(a[1]) or show(a))
  end
  for what, pair in pairs { ["micro-batch"] = { a[2], m }, chunk = { chunk, v } } do
    local n, most = pair[1], pair[2]
    if math.type(n) ~= "integer" or n < 1 or n > most then
      refuse("stage %d, position %d: %s %s, 1 to %d wanted", s, at, what, show(n), most)
    end
  end
  return { a[1], a[2], chunk }
end

-- How a stage's actions are counted: by kind, micro-batch and chunk.
local function key(kind, micro, chunk) return kind .. micro .. "." .. chunk end

local function read_stage(list, s, m, v)
  if type(list) ~= "table" then refuse("stage %d: %s, a list of actions wanted", s, show(list)) end
  local out, at = {}, {}
  for i, a in ipairs(list) do
    out[i] = read_action(a, s, i, m, v)
    local k = key(table.unpack(out[i]))
    if at[k] then
      refuse("stage %d: %s stands at position %d and at %d", s, check.words(out[i], v), at[k], i)
    end
    at[k] = i
  end
  return out, at
end

local function check_complete(order, places)
  for s, at in ipairs(places) do
    for micro = 1, order.m do
      for chunk = 1, order.v do
        for _, kind in ipairs(order.split and { "F", "B", "W" } or { "F", "B" }) do
          if not at[key(kind, micro, chunk)] then
            refuse("stage %d lacks %s", s, check.words({ kind, micro, chunk }, order.v))
          end
        end
      end
    end
  end
end

-- What an action waits for beside its place in the list: {stage, kind, micro, chunk}s.
local function needs(order, s, a)
  local kind, micro, chunk = a[1], a[2], a[3]
  local part, out = check.part(s, chunk, order.p), {}
  local function want(kind_there, there)
    local stage, c = check.home(there, order.p)
    out[#out + 1] = { stage, kind_there, micro, c }
  end
  if kind == "F" and part > 1 then want("F", part - 1) end
  if kind == "B" then
    want("F", part)
    if part < order.p * order.v then want("B", part + 1) end
  elseif kind == "W" then
    want("B", part)
  end
  return out
end

check.needs = needs

--- Walk the stages, each as far as it can go: `visit(stage, position, action)` is called
--- for each action once all that it waits for has been visited.
---@param order mrt.PipelineOrder
---@param visit fun(stage: integer, position: integer, action: mrt.PipelineAction)
---@return integer[]? stuck  the position of each stage, if not all came to their end
function check.walk(order, visit)
  local next_of, done, left = {}, {}, 0
  for s = 1, order.p do
    next_of[s], done[s], left = 1, {}, left + #order.stages[s]
  end
  local function ready(s, a)
    for _, n in ipairs(needs(order, s, a)) do
      if not done[n[1]][key(n[2], n[3], n[4])] then return false end
    end
    return true
  end
  local moved = true
  while moved do
    moved = false
    for s, list in ipairs(order.stages) do
      local a = list[next_of[s]]
      while a and ready(s, a) do
        visit(s, next_of[s], a)
        done[s][key(a[1], a[2], a[3])] = true
        next_of[s], left, moved = next_of[s] + 1, left - 1, true
        a = list[next_of[s]]
      end
    end
  end
  return left > 0 and next_of or nil
end

-- From a stage that is stuck from one to the next until one comes again.
local function tell_circle(order, stuck, places)
  local function blocked(s)
    local a = order.stages[s][stuck[s]]
    for _, n in ipairs(a and needs(order, s, a) or {}) do
      if places[n[1]][key(n[2], n[3], n[4])] >= stuck[n[1]] then return a, n end
    end
  end
  local s, seen, lines = 1, {}, {}
  while not blocked(s) do s = s + 1 end
  while not seen[s] do
    local a, n = blocked(s)
    seen[s] = true
    lines[#lines + 1] = ("stage %d, position %d: %s waits for %s of stage %d, at position %d")
      :format(s, stuck[s], check.words(a, order.v), n[2], n[1],
        places[n[1]][key(n[2], n[3], n[4])])
    s = n[1]
  end
  refuse("the schedule deadlocks: %s", table.concat(lines, "; "))
end

local function call(schedule, p, m, v)
  local ok, stages = pcall(schedule, p, m, v)
  if ok then return stages end
  if type(stages) == "table" and stages.code then error(stages, 0) end
  refuse("the schedule failed for %d stages, %d micro-batches, %d chunks: %s", p, m, v,
    tostring(stages))
end

local function check_list(stages, p)
  if type(stages) ~= "table" or #stages ~= p then
    refuse("the schedule gave %s, the lists of %d stages wanted",
      type(stages) == "table" and #stages .. " lists" or show(stages), p)
  end
end

--- Ask a schedule for its actions and prove that they are complete and come to an end.
---
---     local order = mrt.pipeline.check(mrt.pipeline.one_f_one_b, 4, 8)
---
--- Raises: a schedule that is not complete, or deadlocks: where, and what waits for what.
---@param schedule mrt.PipelineSchedule
---@param p integer   stages
---@param m integer   micro-batches
---@param v? integer  chunks on each stage; 1
---@return mrt.PipelineOrder
function check.order(schedule, p, m, v)
  v = v or 1
  if type(schedule) ~= "function" then
    refuse("a schedule wanted, a function, got %s", show(schedule))
  end
  sizes("pipeline", p, m, v)
  local stages, places = call(schedule, p, m, v), {}
  check_list(stages, p)
  local order = { stages = {}, p = p, m = m, v = v, split = false }
  for s = 1, p do
    order.stages[s], places[s] = read_stage(stages[s], s, m, v)
    for _, a in ipairs(order.stages[s]) do order.split = order.split or a[1] == "W" end
  end
  check_complete(order, places)
  local stuck = check.walk(order, function() end)
  if stuck then tell_circle(order, stuck, places) end
  return order
end

return check
