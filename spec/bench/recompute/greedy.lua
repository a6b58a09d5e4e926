--- greedy.lua -- what eviction by a score costs, to compare with.
--
-- The program runs in its order.  When room is wanted, of the values that are
-- there and not in use the one goes whose closure (what must run to have it
-- again) costs least for its bytes times the distance to its next use; a value
-- without one goes first.  What is missing runs again when it is read.  The
-- score is that of Dynamic Tensor Rematerialization (Kirisame et al., ICLR
-- 2021) with the future known instead of the past.
--
-- `greedy(problem, budget)` gives the cost, or nil when there is no room, or
-- it does more than `LIMIT` steps.
--
-- SPDX-License-Identifier: MIT

local LIMIT, DEPTH = 20000000, 1500

local function failed() error({}, 0) end

local function new(problem, budget)
  local g = { p = problem, budget = budget, maker = {}, uses = {}, at = {},
    there = {}, held = {}, live = 0, cost = 0, steps = 0, now = 1 }
  for v in ipairs(problem.bytes) do g.uses[v], g.at[v], g.held[v] = {}, 1, 0 end
  for i, op in ipairs(problem.ops) do
    for _, v in ipairs(op.makes) do g.maker[v] = i end
    for _, v in ipairs(op.reads) do table.insert(g.uses[v], i) end
  end
  for v in ipairs(problem.bytes) do
    if problem.pinned[v] then table.insert(g.uses[v], #problem.ops + 1) end
  end
  return g
end

local function next_use(g, v)
  local uses = g.uses[v]
  while uses[g.at[v]] and uses[g.at[v]] < g.now do g.at[v] = g.at[v] + 1 end
  return uses[g.at[v]]
end

local function closure(g, v, seen)
  local i = g.maker[v]
  if seen[i] then return 0 end
  seen[i] = true
  g.steps = g.steps + 1
  local cost = g.p.ops[i].cost
  for _, u in ipairs(g.p.ops[i].reads) do
    if not g.there[u] then cost = cost + closure(g, u, seen) end
  end
  return cost
end

local function drop(g, v)
  g.there[v] = nil
  g.live = g.live - g.p.bytes[v]
end

local function score(g, v)
  local use = next_use(g, v)
  if not use then return -1 end
  return closure(g, v, {}) / (g.p.bytes[v] * (use - g.now + 1))
end

local function make_room(g, bytes)
  while g.live + bytes > g.budget do
    local best, least
    for v in pairs(g.there) do
      if g.held[v] == 0 and g.p.bytes[v] > 0 then
        local s = score(g, v)
        if not best or s < least or s == least and v < best then best, least = v, s end
      end
    end
    if not best or g.steps > LIMIT then failed() end
    drop(g, best)
  end
end

local function run(g, i, depth)
  if depth > DEPTH or g.steps > LIMIT then failed() end
  local op, bytes = g.p.ops[i], g.p.ops[i].scratch or 0
  for _, v in ipairs(op.reads) do
    if not g.there[v] then run(g, g.maker[v], depth + 1) end
    g.held[v] = g.held[v] + 1
  end
  for _, v in ipairs(op.makes) do
    if not g.there[v] then bytes = bytes + g.p.bytes[v] end
  end
  make_room(g, bytes)
  for _, v in ipairs(op.makes) do
    if not g.there[v] then g.live = g.live + g.p.bytes[v] end
    g.there[v] = true
  end
  for _, v in ipairs(op.reads) do g.held[v] = g.held[v] - 1 end
  g.cost, g.steps = g.cost + op.cost, g.steps + 1
end

local function run_all(g)
  for i, op in ipairs(g.p.ops) do
    g.now = i
    run(g, i, 0)
    g.now = i + 1
    for _, list in ipairs { op.reads, op.makes } do
      for _, v in ipairs(list) do
        if g.there[v] and not next_use(g, v) then drop(g, v) end
      end
    end
  end
  for v in ipairs(g.p.bytes) do
    if g.p.pinned[v] and not g.there[v] then run(g, g.maker[v], 0) end
    if g.p.pinned[v] then g.held[v] = 1 end
  end
end

return function(problem, budget)
  local g = new(problem, budget)
  local ok, message = pcall(run_all, g)
  if not ok and type(message) ~= "table" then error(message, 0) end
  return ok and g.cost or nil
end
