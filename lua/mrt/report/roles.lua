--- roles.lua -- what each block of a plan's memory is there for
---
--- Variables are told apart by who reads them.  What the model or its gradient
--- reads is a weight.  Of the others, what an update of a weight depends on is
--- optimizer state (moments, a step count, a loss scale); what only keeps itself up
--- to date is a buffer (running statistics, averaged weights).
---
--- SPDX-License-Identifier: MIT

local roles = {}

--- All roles, in the order reports list them, and what a reader calls them.
roles.order = { "weight", "optimizer", "buffer", "constant", "output", "activation",
  "gradient", "workspace", "input" }
roles.words = { weight = "weights", optimizer = "optimizer state",
  buffer = "buffers", constant = "constants", output = "outputs", activation = "activations",
  gradient = "gradients", workspace = "workspaces", input = "inputs" }

roles.in_arena = { activation = true, gradient = true, workspace = true }

local function any(list, set)
  for _, v in ipairs(list) do if set[v] then return true end end
  return false
end

-- Which variables are read on the way to a result or a gradient?  One walk from
-- the end: a step matters if it is a gradient's or if something that matters
-- reads what it wrote.
local function read_by_model(values, steps, operands)
  local needed, variable, seen = {}, {}, {}
  for i, v in ipairs(values) do
    needed[i], variable[i] = v.kind == "output", v.kind == "variable"
  end
  for i = #steps, 1, -1 do
    local o = operands[i]
    local matters = not any(o.writes, variable)
      and (steps[i].backward or any(o.writes, needed))
    for _, v in ipairs(o.writes) do
      needed[v] = values[v].kind == "output"
    end
    for _, v in ipairs(o.reads) do
      if matters then needed[v], seen[v] = true, true end
    end
  end
  return seen
end

-- Which values do updates of weights depend on?
local function read_by_updates(steps, operands, weights)
  local needed = {}
  for i = #steps, 1, -1 do
    local o = operands[i]
    if any(o.writes, weights) or any(o.writes, needed) then
      for _, v in ipairs(o.reads) do needed[v] = true end
    end
  end
  return needed
end

--- Add `role` to each value: its kind, but weight, optimizer or buffer for a
--- variable.
---@param values table[]
---@param steps table[]
---@param operands table[]
---@return table[] values
function roles.assign(values, steps, operands)
  local seen, weights = read_by_model(values, steps, operands), {}
  for i, v in ipairs(values) do
    weights[i] = v.kind == "variable" and seen[i]
  end
  local needed = read_by_updates(steps, operands, weights)
  for i, v in ipairs(values) do
    v.role = v.kind ~= "variable" and v.kind or weights[i] and "weight"
      or needed[i] and "optimizer" or "buffer"
  end
  return values
end

--- Sum bytes by role: of what is alive at a step, the arena's, and of all that
--- lives outside it.
---@param values table[]  with roles
---@param step integer
---@return table<string, integer>
function roles.sums(values, step)
  local sums = {}
  for _, v in ipairs(values) do
    if not roles.in_arena[v.role] or v.first <= step and step <= v.last then
      sums[v.role] = (sums[v.role] or 0) + v.bytes
    end
  end
  return sums
end

return roles
