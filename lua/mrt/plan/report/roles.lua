--- roles.lua -- what each block of a plan's memory is there for
---
--- Variables are told apart by who reads them.  What the model or its gradient
--- reads is a weight.  Of the others, what an update of a weight depends on is
--- optimizer state (moments, a step count, a loss scale); what only keeps itself up
--- to date is a buffer (running statistics, averaged weights).  Accumulators are what
--- gradients and totals of micro-batches are added up in; gathered weights are those
--- that all micro-batches read, and what they are gathered of is a weight.  What is fetched is a
--- variable that lives in the swap tier, while it is in the arena.
---
--- SPDX-License-Identifier: MIT

local roles = {}

--- All roles, in the order reports list them, and what a reader calls them.
roles.order = { "weight", "optimizer", "buffer", "accumulator", "gathered", "constant",
  "output",
  "fetched", "activation", "gradient", "workspace", "input", "swapped" }
roles.words = { weight = "weights", optimizer = "optimizer state",
  buffer = "buffers", accumulator = "accumulators", gathered = "gathered weights",
  constant = "constants", output = "outputs", activation = "activations",
  gradient = "gradients", workspace = "workspaces", input = "inputs",
  fetched = "fetched variables", swapped = "in the swap tier" }

roles.in_arena = { fetched = true, activation = true, gradient = true,
  workspace = true }
roles.outside = { input = true, swapped = true } -- of the peak

local function any(list, set)
  for _, v in ipairs(list) do if set[v] then return true end end
  return false
end

local function add(list, set)
  for _, v in ipairs(list) do set[v] = true end
end

-- The variable that each value is, an update's results being new versions.
local function variables_of(graph)
  local variable = {}
  for i, v in ipairs(graph.values) do
    if v.kind == "variable" then variable[i] = i end
  end
  for _, n in ipairs(graph.nodes) do
    for k = 1, n.updates do variable[n.writes[k]] = variable[n.reads[k]] end
  end
  return variable
end

local function note(list, variable, set)
  for _, v in ipairs(list) do
    if variable[v] then set[variable[v]] = true end
  end
end

-- Which variables are read on the way to a result or a gradient?  One walk from
-- the end: a node matters if it is a gradient's, if it writes gathered weights, or if
-- something that matters reads what it wrote.
local function read_by_model(graph, variable, gathered)
  local needed, seen = {}, {}
  add(graph.outputs, needed)
  for i = #graph.nodes, 1, -1 do
    local n = graph.nodes[i]
    local gathers = n.updates == 1 and gathered[variable[n.writes[1]]]
    if gathers or n.updates == 0 and (n.backward or any(n.writes, needed)) then
      add(n.reads, needed)
      note(n.reads, variable, seen)
    end
  end
  return seen
end

-- Which others are read on the way to an update of these?  What is found counts
-- as well, since the next step may need it: again, until nothing is found.
local function read_by_updates(graph, variable, weights)
  local state, size = {}, -1
  local function count()
    local n = 0
    for _ in pairs(state) do n = n + 1 end
    return n
  end
  while count() > size do
    local needed = {}
    size = count()
    for i = #graph.nodes, 1, -1 do
      local n, counts = graph.nodes[i], false
      for k = 1, n.updates do
        local v = variable[n.writes[k]]
        counts = counts or weights[v] or state[v]
      end
      if counts or any(n.writes, needed) then
        add(n.reads, needed)
        note(n.reads, variable, state)
      end
    end
  end
  return state
end

--- Say what the variables of a plan are: weight, optimizer or buffer, by number
--- of the block.
---@param graph table    of `plan:stage "differentiated"`: later, one node may do
---                      what a model and an update need
---@param planned table  of `plan:stage()`: it knows the blocks
---@param values table[]  the blocks
---@return table<integer, string>
function roles.of_variables(graph, planned, values)
  local variable, found, gathered = variables_of(graph), {}, {}
  for i, v in ipairs(planned.values) do
    gathered[i] = v.kind == "variable" and v.block and values[v.block].gathered
  end
  local weights = read_by_model(graph, variable, gathered)
  local state = read_by_updates(graph, variable, weights)
  for i, v in ipairs(planned.values) do
    if v.kind == "variable" and v.block then
      found[v.block] = weights[i] and "weight" or state[i] and "optimizer"
        or "buffer"
    end
  end
  return found
end

--- Add `role` to each block of memory: its kind, but what `roles.of_variables`
--- says for a variable, unless its home is in the swap tier.
---@param values table[]
---@param found table<integer, string>
---@param transfers table[]  of plan:transfers()
---@return table[] values
function roles.assign(values, found, transfers)
  for i, v in ipairs(values) do
    v.role = v.accumulator and v.kind == "variable" and "accumulator"
      or v.gathered and v.kind == "variable" and "gathered"
      or v.kind == "variable" and found[i] or v.kind
  end
  for _, t in ipairs(transfers) do -- what has an id is a variable's home
    if values[t.swapped].id then values[t.value].role = "fetched" end
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
