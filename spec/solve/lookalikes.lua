--- lookalikes.lua -- programs of known shapes, as core.schedule wants them: a
-- forward pass, and for each operator one of the backward pass that reads what
-- its operator read, and the gradient.

local lookalikes = {}

--- A generator of numbers 1..n, the same everywhere.
function lookalikes.generator(seed)
  return function(n)
    seed = (seed * 6364136223846793005 + 1442695040888963407) & math.maxinteger
    return (seed >> 33) % n + 1
  end
end

local function new() return { ops = {}, bytes = {}, pinned = {} } end

local function add(problem, cost, bytes, reads)
  local v = #problem.bytes + 1
  problem.bytes[v] = bytes
  problem.ops[#problem.ops + 1] = { cost = cost, reads = reads, makes = { v } }
  return v
end

--- Append the backward pass; gradients have the bytes of what they belong to.
-- `forward` is the number of operators before it.
local function backward(problem)
  local grad, forward = {}, #problem.ops
  problem.forward = forward
  for i = forward, 1, -1 do
    local op = problem.ops[i]
    local dy = grad[op.makes[1]]
    for _, v in ipairs(op.reads) do
      local reads, seen = {}, {}
      for _, u in ipairs { v, op.makes[1], dy or v, grad[v] or v } do
        if not seen[u] then reads[#reads + 1] = u end
        seen[u] = true
      end
      grad[v] = add(problem, op.cost * 1.5, problem.bytes[v], reads)
    end
  end
  return problem
end

--- n operators, cheap and dear ones in turn.
function lookalikes.chain(n)
  local p = new()
  local v = add(p, 1, 100, {})
  for i = 2, n do v = add(p, i % 3 == 0 and 10 or 1, 100 + i % 5 * 20, { v }) end
  return backward(p)
end

--- Down `depth` levels and up again, each level read across.
function lookalikes.unet(depth)
  local p, levels = new(), {}
  local v, bytes = add(p, 5, 4096, {}), 4096
  for i = 1, depth do
    v = add(p, 10, bytes, { v })
    levels[i] = v
    bytes = math.max(bytes // 2, 16)
    v = add(p, 1, bytes, { v })
  end
  for i = depth, 1, -1 do
    v = add(p, 10, p.bytes[levels[i]], { v, levels[i] })
    v = add(p, 2, p.bytes[levels[i]], { v })
  end
  return backward(p)
end

--- Every layer reads all features before it, joined.
function lookalikes.dense(layers)
  local p, features = new(), {}
  features[1] = add(p, 5, 64, {})
  for i = 2, layers do
    local joined = add(p, 2, 32 * i, table.move(features, 1, #features, 1, {}))
    local normed = add(p, 2, 32 * i, { joined })
    features[i] = add(p, 20, 32, { normed })
  end
  return backward(p)
end

--- Layers of random width, reading some of the layers before.
function lookalikes.layered(n, seed)
  local p, random = new(), lookalikes.generator(seed)
  for i = 1, n do
    local reads, seen = {}, {}
    for _ = 1, math.min(i - 1, 1 + random(4)) do
      local v = math.max(1, i - random(i % 7 == 0 and i or 12))
      if v < i and not seen[v] then reads[#reads + 1] = v end
      seen[v] = true
    end
    add(p, random(1000), random(4000), reads)
  end
  return p
end

--- Cells of a recurrent network over time.
function lookalikes.lstm(steps)
  local p = new()
  local h, c = add(p, 1, 32, {}), add(p, 1, 32, {})
  for _ = 1, steps do
    local gates = add(p, 20, 128, { h })
    local i, f = add(p, 1, 32, { gates }), add(p, 1, 32, { gates })
    c = add(p, 2, 32, { i, f, c })
    h = add(p, 2, 32, { gates, c })
  end
  return backward(p)
end

--- A binary tree of cells, leaves first.
function lookalikes.tree(depth)
  local p = new()
  local function cell(level)
    if level == 0 then return add(p, 2, 32, {}) end
    local a, b = cell(level - 1), cell(level - 1)
    return add(p, 3, 32, { add(p, 10, 96, { a, b }) })
  end
  cell(depth)
  return backward(p)
end

--- Layers of attention and a wide part, their scores the largest values; what
-- is dropped out leaves a mask beside its output.
function lookalikes.transformer(layers)
  local p = new()
  local function drop_out(v, bytes)
    v = add(p, 3, bytes, { v })
    local mask = #p.bytes + 1
    p.bytes[mask] = bytes // 4
    table.insert(p.ops[#p.ops].makes, mask)
    return v
  end
  local x = add(p, 1, 64, {})
  for _ = 1, layers do
    local all = add(p, 30, 192, { x })
    local q, k, v = add(p, 2, 64, { all }), add(p, 2, 64, { all }), add(p, 2, 64, { all })
    local scores = drop_out(add(p, 20, 256, { add(p, 15, 256, { q, k }) }), 256)
    local out = add(p, 12, 64, { add(p, 25, 64, { scores, v }) })
    x = add(p, 4, 64, { add(p, 2, 64, { x, drop_out(out, 64) }) })
    local wide = drop_out(add(p, 5, 256, { add(p, 40, 256, { x }) }), 256)
    x = add(p, 4, 64, { add(p, 2, 64, { x, add(p, 40, 64, { wide }) }) })
  end
  return backward(p)
end

return lookalikes
