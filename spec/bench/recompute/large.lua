--- large.lua -- programs of about 10,000 operators: training steps of
-- deep nets, as core.schedule wants them.
--
-- SPDX-License-Identifier: MIT

local function new(name)
  return { name = name, bytes = {}, ops = {}, pinned = {}, constant = 0 }
end

--- Append an operator that makes one value; its number.
local function add(problem, cost, bytes, reads)
  local v = #problem.bytes + 1
  problem.bytes[v] = bytes
  problem.ops[#problem.ops + 1] = { cost = cost, reads = reads, makes = { v } }
  return v
end

local function set(...)
  local list, seen = {}, {}
  for _, v in ipairs { ... } do
    if not seen[v] then list[#list + 1] = v end
    seen[v] = true
  end
  return list
end

--- For every operator, last first, one for each value it reads: the gradient
-- from what it read, what it made and the gradient of that; gradients are added
-- up where a value is read more than once.
local function differentiate(problem)
  local grad = {}
  for i = #problem.ops, 1, -1 do
    local op = problem.ops[i]
    local y = op.makes[1]
    for _, x in ipairs(op.reads) do
      grad[x] = add(problem, op.cost, problem.bytes[x],
        set(x, y, grad[y] or y, grad[x] or x))
    end
  end
  return problem
end

local large = {}

--- Residual blocks, each a matrix product up, an activation and one down.
function large.residual()
  local p = new "residual"
  local x = add(p, 1, 1000, {})
  for i = 1, 770 do
    local normed = add(p, 2, 1000, { x })
    local up = add(p, 40, 4000, { normed })
    local active = add(p, 4, 4000, { up })
    local down = add(p, 40, 1000 + i % 3, { active })
    x = add(p, 1, 1000, { x, down })
    x = add(p, 1, 1000, { x })
  end
  return differentiate(p)
end

--- A recurrent cell of four gates over time.
function large.recurrent()
  local p = new "recurrent"
  local h, c = add(p, 1, 100, {}), add(p, 1, 100, {})
  for _ = 1, 400 do
    local all, gates = add(p, 60, 400, { h }), {}
    for g = 1, 4 do gates[g] = add(p, 1, 100, { all }) end
    local kept, new_part = add(p, 1, 100, { gates[1], c }),
      add(p, 1, 100, { gates[2], gates[3] })
    c = add(p, 1, 100, { kept, new_part })
    h = add(p, 1, 100, { gates[4], add(p, 1, 100, { c }) })
  end
  return differentiate(p)
end

--- Four branches of several operators, joined, again and again.
function large.branches()
  local p = new "branches"
  local x = add(p, 1, 1200, {})
  for i = 1, 270 do
    local ends = {}
    for b = 1, 4 do
      local y = x
      for _ = 1, b do
        y = add(p, 20 + i % 7, 300, { y })
        y = add(p, 2, 300, { y })
      end
      ends[b] = y
    end
    x = add(p, 3, 1200, ends)
  end
  return differentiate(p)
end

return large
