--- evaluations.lua -- a random program, evaluated line by line as a user might
---
--- Some of its tensors are held, some are let go; gradients are taken twice; then
--- whatever is held is asked for in a random order, more than once.  All of that without
--- plans, where a few operators need none, and with a plan for each.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local random_graph = require "support.random_graph"

local evaluations = {}

-- The program of a seed: what it gives and what of it is held.
local function make(seed, random)
  local leaves = { mrt.variable(mrt.randn(4, 6)), mrt.variable(mrt.randn(6, 4)) }
  mrt.eval(leaves)
  local list = {}
  local out = random_graph.program(seed, 6 + seed % 24)(leaves, function(t)
    if random(3) == 1 then list[#list + 1] = t end
    return t
  end)
  for _ = 1, 2 do
    for _, g in ipairs(mrt.grad(out[1], leaves, { allow_unused = true })) do
      list[#list + 1] = g
    end
  end
  return table.move(out, 1, #out, #list + 1, list)
end

-- Bytes of all that is held, at last.
local function run(seed, plans)
  core.set_poison(plans)
  mrt.seed(seed)
  local random = random_graph.generator(seed + 1)
  local list, got = make(seed, random), {}
  for _ = 1, 2 * #list do
    list[random(#list)]:bytes()
    if random(4) == 1 then collectgarbage() end
  end
  for k, t in ipairs(list) do got[k] = t:bytes() end
  return got
end

--- Raise unless both ways give the same bits.
---@param seed integer
function evaluations.compare(seed)
  local ok, wanted = pcall(run, seed, true)
  core.set_poison(false)
  assert(ok, wanted)
  local got = run(seed, false)
  for k in ipairs(wanted) do
    assert(got[k] == wanted[k], ("seed %d: tensor %d has other bits"):format(seed, k))
  end
end

return evaluations
