-- tags_spec.lua -- memory by counters of readers and a box of free tags
--
-- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local random_graph = require "support.random_graph"
local roles = require "mrt.plan.report.roles"
local tags = require "mrt.plan.report.tags"

-- How many blocks of the arena live at once, at most.
local function most_alive(values, steps)
  local most = 0
  for i = 1, #steps do
    local n = 0
    for _, v in ipairs(values) do
      if roles.in_arena[v.role] and v.bytes > 0 and v.first <= i and i <= v.last then n = n + 1 end
    end
    most = math.max(most, n)
  end
  return most
end

local function check(plan)
  local values, steps = plan:values(), plan:steps()
  local list, count = tags.simulate(plan)
  assert.equal(#steps, #list)
  assert.equal(most_alive(values, steps), count)
  local held, new = {}, 0
  for i, step in ipairs(list) do
    for _, t in ipairs(step.taken) do
      assert.is_nil(held[t.tag])
      held[t.tag] = t.value
      assert.equal(i, values[t.value].first)
      if t.new then new = new + 1 end
    end
    for _, l in ipairs(step.left) do
      local v = values[l.value]
      if roles.in_arena[v.role] and l.readers == 0 then assert.equal(v.last, i) end
    end
    for _, tag in ipairs(step.box) do held[tag] = nil end
  end
  assert.is_nil(next(held))
  assert.equal(count, new)
  assert.equal(count, #list[#list].box)
end

describe("the box of free tags", function()
  it("is what courses draw for a chain: two tags, however long it is", function()
    for n = 2, 6 do
      local step = mrt.compile(function(x)
        for _ = 1, n do x = x:cumsum(1) end
        return x:sum()
      end, { fuse = false, inplace = false, order = "program" })
      local plan = step:plan(mrt.ones(64, 64))
      local list, count = tags.simulate(plan)
      assert.equal(2, count)
      check(plan)
      assert.same({ 1 }, list[2].box)
      assert.equal(0, list[2].left[1].readers)
    end
  end)

  it("has as many tags as values live at once, of random programs", function()
    for seed = 1, 40 do
      local program = random_graph.program(seed, 4 + seed % 14)
      mrt.seed(seed)
      local leaves = { mrt.variable(mrt.randn(4, 6), "w1"), mrt.variable(mrt.randn(1, 6), "w2"),
        mrt.variable(mrt.randn(6, 4), "w3") }
      local step = mrt.compile(function()
        local results = program(leaves, function(t) return t end)
        return mrt.grad(results[1], leaves, { allow_unused = true })
      end, { effort = 0, inplace = seed % 2 == 0,
        checkpoint = seed % 3 == 0 and mrt.policy.checkpoint.all() or nil })
      check(step:plan())
    end
  end)

  it("stands in plan:walk()", function()
    local w = mrt.variable(mrt.randn(8, 8), "w")
    local plan = mrt.compile(function(x)
      return mrt.grad(x:matmul(w):tanh():sum(), { w })
    end):plan(mrt.ones(4, 8))
    local text = require "mrt.plan.report.walk" (plan)
    assert.truthy(text:find ", new tag 1\n")
    assert.truthy(text:find "readers left: input 1, w 0; box: ")
    assert.truthy(text:find "\n%d+ tags$")
  end)
end)
