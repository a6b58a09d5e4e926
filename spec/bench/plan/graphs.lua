--- graphs.lua -- graphs of every sort for the planner, from seeds
---
--- A graph is a list of nodes {reads = {earlier nodes...}, rows = n}: its value
--- is n rows of 256 bytes.  What nobody reads is a result and lives elsewhere.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local optim = require "mrt.optim"

local graphs = {}

graphs.ROW = 256
local COLUMNS = graphs.ROW // 4 -- of f32

--- A function like math.random(n), the same for the same seed.
function graphs.generator(seed)
  local state = seed * 7919 % 2147483646 + 1
  return function(n)
    state = state * 48271 % 2147483647
    return state % n + 1
  end
end

local function add(nodes, random, reads)
  local unique, seen = {}, {}
  for _, from in ipairs(reads) do
    if not seen[from] then
      seen[from] = true
      unique[#unique + 1] = from
    end
  end
  nodes[#nodes + 1] = { reads = unique, rows = #unique + random(60) }
  return #nodes
end

-- Up to three inputs among the last `reach` nodes.
local function scattered(reach)
  return function(random, n)
    local nodes = {}
    for i = 1, n do
      local reads = {}
      for _ = 1, i > 1 and random(3) or 0 do
        reads[#reads + 1] = i - random(math.min(reach, i - 1))
      end
      add(nodes, random, reads)
    end
    return nodes
  end
end

local function layered(width)
  return function(random, n)
    local nodes = {}
    for i = 1, n do
      local reads, first = {}, (i - 1) // width * width
      for _ = 1, first > 0 and random(3) or 0 do
        reads[#reads + 1] = first - width + random(width)
      end
      if first > 0 and random(8) == 1 then reads[#reads + 1] = random(first) end
      add(nodes, random, reads)
    end
    return nodes
  end
end

-- Half of the nodes read nothing; the rest read up to three of any before.
local function wide(random, n)
  local nodes = {}
  for i = 1, n do
    local reads = {}
    for _ = 1, i > n // 2 and random(3) or 0 do reads[#reads + 1] = random(i - 1) end
    add(nodes, random, reads)
  end
  return nodes
end

-- Leaves merged by two or three until one is left.
local function tree(random, n)
  local nodes, open = {}, {}
  for _ = 1, math.max(n // 2, 2) do open[#open + 1] = add(nodes, random, {}) end
  while #open > 1 do
    local reads = {}
    for _ = 1, math.min(#open, 1 + random(2)) do
      reads[#reads + 1] = table.remove(open, random(#open))
    end
    open[#open + 1] = add(nodes, random, reads)
  end
  return nodes
end

-- A tree that fans out, and is gathered the same way.
local function mirrored(random, n)
  local nodes, children, back = {}, {}, {}
  for i = 1, n // 2 do
    local parent = i > 1 and random(i - 1)
    add(nodes, random, { parent or nil })
    children[i] = {}
    if parent then table.insert(children[parent], i) end
  end
  for i = n // 2, 1, -1 do
    local reads = { i }
    for _, child in ipairs(children[i]) do reads[#reads + 1] = back[child] end
    back[i] = add(nodes, random, reads)
  end
  return nodes
end

local function series_parallel(random, n)
  local nodes = {}
  local function grow(from, count)
    if count <= 1 then return add(nodes, random, { from }) end
    if random(2) == 1 then
      local first = random(count - 1)
      return grow(grow(from, first), count - first)
    end
    local ends, left = {}, count - 1
    for _ = 1, 1 + random(4) do
      if left < 1 then break end
      local part = random(left)
      ends[#ends + 1] = grow(from, part)
      left = left - part
    end
    return add(nodes, random, ends)
  end
  add(nodes, random, {})
  grow(1, n - 1)
  return nodes
end

-- A forward part and its gradients, which read what the forward part made.
local function backward(random, n)
  local nodes = scattered(30)(random, n // 2)
  local forward, gradient = #nodes, {}
  for i = forward, 1, -1 do
    local reads = {}
    for j = i + 1, forward do
      for _, from in ipairs(nodes[j].reads) do
        if from == i then
          reads[#reads + 1] = gradient[j]
          reads[#reads + 1] = random(2) == 1 and j or nil
        end
      end
    end
    if #reads == 0 then reads[1] = i end
    gradient[i] = add(nodes, random, reads)
  end
  return nodes
end

graphs.sorts = {
  { "reach 12", scattered(12) }, { "reach 30", scattered(30) },
  { "reach 100", scattered(100) }, { "reach all", scattered(math.huge) },
  { "layers of 5", layered(5) }, { "layers of 14", layered(14) },
  { "layers of 40", layered(40) }, { "tree", tree }, { "mirrored", mirrored },
  { "series-parallel", series_parallel }, { "backward", backward },
  { "wide", wide },
}

--- The plan of such a graph, as it is written.
function graphs.plan(nodes, options)
  local given = { fuse = false, inplace = false, simplify = false,
    cse = false, fold = false, effort = graphs.effort }
  for name, value in pairs(options or {}) do given[name] = value end
  local step = mrt.compile(function(input)
    local made, is_read, out = {}, {}, {}
    for i, node in ipairs(nodes) do
      local parts, rows = {}, node.rows
      for k, from in ipairs(node.reads) do
        local most = math.min(nodes[from].rows, rows - (#node.reads - k))
        parts[k], rows = made[from]:slice(1, 1, most), rows - most
        is_read[from] = true
      end
      if rows > 0 then parts[#parts + 1] = input:slice(1, 1, rows) end
      if #parts == 1 then -- a node of its own all the same
        local half = parts[1].shape[1] // 2
        parts = half > 0 and { parts[1]:slice(1, 1, half),
          parts[1]:slice(1, half + 1, -1) } or parts
      end
      made[i] = #parts > 1 and mrt.cat(parts, 1) or parts[1]:copy()
    end
    for i, t in ipairs(made) do
      if not is_read[i] then out[#out + 1] = t end
    end
    return table.unpack(out)
  end, given)
  return step:plan(mrt.zeros(64 + 3 + 200, COLUMNS))
end

local unary = { "relu", "tanh", "gelu", "sigmoid", "softmax", "layer_norm", "abs" }

--- The plan of a random net's training step, of about 6 `size` nodes: layers of
--- random widths, sums, concatenations; stochastic descent or AdamW.
function graphs.training(seed, size, options)
  local random, weights = graphs.generator(seed), {}
  local batch = 8 * random(16)
  local function grow(pool)
    local x, kind = pool[random(#pool)], random(10)
    if kind <= 4 then
      local w = mrt.variable(mrt.zeros(x.shape[2], 8 * random(32)))
      weights[#weights + 1] = w
      return x:matmul(w)
    elseif kind <= 7 then
      local name = unary[random(#unary)]
      return name == "softmax" and x:softmax(2) or x[name](x)
    elseif kind == 8 then
      local y = pool[random(#pool)]
      return x + (x.shape[2] == y.shape[2] and y or y:mean(2, true))
    elseif kind == 9 then
      return x * x
    end
    return mrt.cat({ x, pool[random(#pool)] }, 2)
  end
  local step = mrt.compile(function(x)
    local pool = { x:matmul(weights[1]) }
    for _ = 1, size do
      local y = grow(pool)
      if y.shape[2] <= 1024 then pool[#pool + 1] = y end
    end
    local loss
    for i = math.max(1, #pool - 2), #pool do
      local part = (pool[i] * pool[i]):mean()
      loss = loss and loss + part or part
    end
    local opt = random(2) == 1 and optim.adamw(weights, { lr = 1e-3 })
      or optim.sgd(weights, { lr = 0.1 })
    opt:step(mrt.grad(loss, weights, { allow_unused = true }))
    return loss
  end, options or { effort = graphs.effort })
  weights[1] = mrt.variable(mrt.zeros(64, 8 * random(32)))
  return step:plan(mrt.zeros(batch, 64))
end

--- Bytes of the arena: its height, the largest live sum, what any order needs.
function graphs.arena(plan)
  local rest = plan.persistent + plan.outputs
  return plan.transient, plan.lower_bound - rest, plan.order_free_bound - rest
end

return graphs
