-- Schedules: complete, without deadlock, and as idle and as full as their papers say.
local mrt = require "mrt"
local pipeline = mrt.pipeline

local random = 20240607
local function draw(n)
  random = (random * 1103515245 + 12345) % (1 << 31)
  return random // 65536 % n + 1
end

local function near(expected, got) assert.is_true(math.abs(expected - got) < 1e-9, got) end

-- A random schedule that can run: the stages' actions as a random walk through what may
-- come next gives them.
local function random_schedule(p, m, v, split)
  local done, stages, left = {}, {}, {}
  for s = 1, p do stages[s] = {} end
  local function is_done(kind, i, part) return done[kind .. i .. "." .. part] end
  local function may(kind, i, part)
    if kind == "F" then return part == 1 or is_done("F", i, part - 1) end
    if kind == "W" then return is_done("B", i, part) end
    return is_done("F", i, part) and (part == p * v or is_done("B", i, part + 1))
  end
  for part = 1, p * v do
    for i = 1, m do
      for _, kind in ipairs(split and { "F", "B", "W" } or { "F", "B" }) do
        left[#left + 1] = { kind, i, part }
      end
    end
  end
  while #left > 0 do
    local at = draw(#left)
    local kind, i, part = table.unpack(left[at])
    if may(kind, i, part) then
      table.remove(left, at)
      done[kind .. i .. "." .. part] = true
      table.insert(stages[(part - 1) % p + 1], { kind, i, (part - 1) // p + 1 })
    end
  end
  return stages
end

-- Whether a circle of waiting is there, by another algorithm: repeatedly take away
-- actions of which nothing that they wait for is left.
local function has_circle(stages, p, v)
  local needs, left, count = {}, {}, 0
  for s, list in ipairs(stages) do
    for at, a in ipairs(list) do
      local part = (a[3] - 1) * p + s
      local own = {}
      local function want(kind, there) own[#own + 1] = kind .. a[2] .. "." .. there end
      if at > 1 then
        local b = list[at - 1]
        own[1] = b[1] .. b[2] .. "." .. (b[3] - 1) * p + s
      end
      if a[1] == "F" and part > 1 then want("F", part - 1) end
      if a[1] == "B" then want("F", part) end
      if a[1] == "B" and part < p * v then want("B", part + 1) end
      if a[1] == "W" then want("B", part) end
      local name = a[1] .. a[2] .. "." .. part
      needs[name], left[name], count = own, true, count + 1
    end
  end
  local moved = true
  while moved do
    moved = false
    for name in pairs(left) do
      local free = true
      for _, n in ipairs(needs[name]) do free = free and not left[n] end
      if free then left[name], count, moved = nil, count - 1, true end
    end
  end
  return count > 0
end

describe("pipeline schedules", function()
  it("are idle for (p - 1) / (m + p - 1) as GPipe and 1F1B, which hold m and min(p - s, m)",
    function()
      for p = 1, 9 do
        for _, m in ipairs { 1, 2, 3, 4, 7, 8, 16, 33 } do
          local gpipe = pipeline.simulate(pipeline.check(pipeline.gpipe, p, m))
          local turns = pipeline.simulate(pipeline.check(pipeline.one_f_one_b, p, m))
          near((p - 1) / (m + p - 1), gpipe.bubble)
          near((p - 1) / (m + p - 1), turns.bubble)
          near(3 * (m + p - 1), gpipe.makespan)
          for s = 1, p do
            assert.equal(m, gpipe.in_flight[s])
            assert.equal(math.min(p - s + 1, m), turns.in_flight[s])
          end
        end
      end
    end)

  it("lose a v-th of that interleaved, a third as ZB-H1, which holds no more than 1F1B",
    function()
      for p = 2, 8 do
        for times = 1, 3 do
          local m = p * times
          for v = 1, 4 do
            local sim = pipeline.simulate(pipeline.check(pipeline.interleaved, p, m, v))
            near(3 * m + 3 * (p - 1) / v, sim.makespan)
          end
          local sim = pipeline.simulate(pipeline.check(pipeline.zero_bubble, p, m))
          near(3 * m + (p - 1), sim.makespan)
          for s = 1, p do assert.equal(math.min(p, m), sim.in_flight[s]) end
        end
      end
    end)

  it("take times of each stage, and of messages", function()
    local order = pipeline.check(pipeline.gpipe, 2, 2)
    local sim = pipeline.simulate(order, { F = function(s) return s end, B = 4, send = 10 })
    -- 1 + 10 + 2, 2 more, then backwards 4 + 4; the first stage gets the last 10 later
    near(1 + 10 + 2 + 2 + 4 + 4 + 10 + 4, sim.makespan)
    near(2 * 1 + 2 * 4, sim.busy[1])
  end)

  it("are proved free of deadlock, whoever made them, or refused with the circle", function()
    local deadlocks = 0
    for _ = 1, 300 do
      local p, m, v, split = draw(4), draw(4), draw(2), draw(2) == 1
      local stages = random_schedule(p, m, v, split)
      local function own() return stages end
      local order = pipeline.check(own, p, m, v)
      assert.equal(split, order.split)
      local sim = pipeline.simulate(order)
      assert.is_true(sim.makespan >= 3 * m - 1e-9)
      -- mutated: two actions of a stage change places
      local list = stages[draw(p)]
      local i, k = draw(#list), draw(#list)
      list[i], list[k] = list[k], list[i]
      local bad = has_circle(stages, p, v)
      local ok, err = pcall(pipeline.check, own, p, m, v)
      assert.equal(not bad, ok)
      if bad then
        deadlocks = deadlocks + 1
        assert.match("the schedule deadlocks: stage %d, position %d+: %u of micro%-batch %d",
          err.message)
      end
    end
    assert.is_true(deadlocks > 50)
  end)

  it("are refused when something is missing, twice, or nowhere", function()
    local function refused(change, text)
      local function own(p, m)
        local stages = pipeline.one_f_one_b(p, m)
        return change(stages) or stages
      end
      local ok, err = pcall(pipeline.check, own, 2, 4)
      assert.is_false(ok)
      assert.equal("value", err.code)
      assert.match(text, err.message, 1, true)
    end
    refused(function(t) table.remove(t[2]) end, "stage 2 lacks B of micro-batch 4")
    refused(function(t) t[1][3] = { "F", 1 } end,
      "stage 1: F of micro-batch 1 stands at position 1 and at 3")
    refused(function(t) t[1][3] = { "G", 1 } end, "stage 1, position 3: a table with \"G\"")
    refused(function(t) t[1][3] = 7 end, "stage 1, position 3: 7")
    refused(function(t) t[1][3] = { "F", 5 } end, "micro-batch 5, 1 to 4 wanted")
    refused(function(t) t[1][3] = { "F", 1, 2 } end, "chunk 2, 1 to 1 wanted")
    refused(function(t) table.insert(t[1], { "W", 1 }) end, "stage 1 lacks W of micro-batch 2")
    refused(function() return {} end, "the schedule gave 0 lists, the lists of 2 stages wanted")
    refused(function() return 1 end, "the schedule gave 1")
    refused(function() error "oops" end, "oops")
    refused(function(t) t[1] = "F1" end, "stage 1: \"F1\"")
    assert.has_error(function() pipeline.check(pipeline.gpipe, 0, 4) end)
    assert.has_error(function() pipeline.gpipe(2, 4, 2) end)
    assert.has_error(function() pipeline.interleaved(2, 3, 2) end)
    assert.has_error(function()
      pipeline.simulate(pipeline.check(pipeline.gpipe, 2, 2), { F = "1" })
    end)
  end)

  it("are drawn with each action, and written as text", function()
    local sim = pipeline.simulate(pipeline.check(pipeline.zero_bubble, 3, 6))
    local svg = pipeline.svg { { title = "ZB-H1 & more", simulation = sim, bytes = { 1, 2, 3 } } }
    local _, titles = svg:gsub("<title>", "")
    assert.equal(3 * 6 * 3, titles)
    assert.match("ZB%-H1 &amp; more: 10%.0 %% idle", svg)
    assert.match("holds 3, 2 B", svg)
    assert.match("stage 1  123%.%.", pipeline.text(sim))
    assert.match("\27%[7;31m1", pipeline.text(sim, true))
  end)
end)
