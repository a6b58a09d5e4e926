-- recompute_spec.lua -- programs within a budget: core.schedule and
-- `mrt bench recompute`

local check = require "bench.recompute.check"
local files = require "support.files"
local core = require "mrt.core"
local program = require "support.program"
local lookalikes = require "solve.lookalikes"
local problems = tonumber(os.getenv "MRT_SPEC_GRAPHS") or 60

local ENOUGH = 1 << 50

--- Solve, and follow the acts; nil when no schedule is found.
local function solve(problem, budget)
  local ok, result = pcall(core.schedule, problem, budget)
  if not ok then
    assert(type(result) == "table" and result.code == "budget", tostring(result))
    return nil, tonumber(tostring(result):match "(%d+) bytes are the least")
  end
  local wrong, peak, cost, runs = check(problem, result.acts)
  assert(not wrong, wrong)
  assert(peak == result.peak and peak <= budget, "the peak")
  assert(math.abs(cost - result.cost) <= 1e-9 * cost, "the cost")
  assert(result.bound <= result.cost * (1 + 1e-9), "the bound")
  return result, runs
end

--- A small program of any shape.
local function draw(random, n)
  local p = { ops = {}, bytes = {}, pinned = {} }
  for i = 1, n do
    local op = { cost = random(9), reads = {}, makes = {}, scratch = random(3) - 1 }
    for v = 1, #p.bytes do
      if random(#p.bytes) <= 2 then op.reads[#op.reads + 1] = v end
    end
    for _ = 1, random(6) == 1 and 2 or 1 do
      p.bytes[#p.bytes + 1] = random(8)
      op.makes[#op.makes + 1] = #p.bytes
      if random(8) == 1 then p.pinned[#p.bytes] = true end
    end
    for _, v in ipairs(op.reads) do
      if p.bytes[v] == p.bytes[op.makes[1]] and random(2) == 1 then
        op.takes = { { op.makes[1], v } }
      end
    end
    if random(5) == 1 then op.before = i + random(4) end
    p.ops[i] = op
  end
  return p
end

--- The least cost of any schedule, by a search over all states: how many
-- operators have run, and which values are there (a set of bits).
local function least_cost(p, budget)
  local made, read, bytes_of = {}, {}, { [0] = 0 }
  local function set(list)
    local bits = 0
    for _, v in ipairs(list) do bits = bits | 1 << v - 1 end
    return bits
  end
  local function bytes(bits)
    if not bytes_of[bits] then
      local low = bits & -bits
      local v = 0
      while low >> v ~= 1 do v = v + 1 end
      bytes_of[bits] = bytes(bits ~ low) + p.bytes[v + 1]
    end
    return bytes_of[bits]
  end
  local pinned = 0
  for v in pairs(p.pinned) do pinned = pinned | 1 << v - 1 end
  for i, op in ipairs(p.ops) do made[i], read[i] = set(op.makes), set(op.reads) end
  local n, best, open = #p.ops, { [0] = 0.0 }, { { 0, 0.0 } }
  local function reach(state, cost)
    if not best[state] or cost < best[state] then
      best[state] = cost
      open[#open + 1] = { state, cost }
    end
  end
  local function run(ran, there, i, cost)
    local op = p.ops[i]
    if read[i] & ~there ~= 0 then return end
    if i <= ran and op.before and ran + 1 > op.before then return end
    local during = bytes(there) + bytes(made[i]) + op.scratch
    local after = math.max(ran, i) << 32 | there | made[i]
    if during <= budget then reach(after, cost + op.cost) end
    for _, take in ipairs(op.takes or {}) do
      local out, from = 1 << take[1] - 1, 1 << take[2] - 1
      if there & out == 0 and during - p.bytes[take[2]] <= budget then
        reach(after & ~from, cost + op.cost)
      end
    end
  end
  while #open > 0 do
    local state, cost = table.unpack(table.remove(open))
    if best[state] == cost then
      local ran, there = state >> 32, state & 0xffffffff
      for v = 0, #p.bytes - 1 do
        if there >> v & 1 == 1 then reach(state ~ 1 << v, cost) end
      end
      for i = 1, math.min(ran + 1, n) do run(ran, there, i, cost) end
    end
  end
  local least = math.huge
  for state, cost in pairs(best) do
    if state >> 32 == n and pinned & ~state == 0 then least = math.min(least, cost) end
  end
  return least
end

describe("core.schedule", function()
  it("is as good as trying everything, nearly always, and its bound holds", function()
    local solved, best, missed = 0, 0, 0
    for seed = 1, problems do
      local random = lookalikes.generator(seed)
      local p = draw(random, 4 + seed % 5)
      local peak = solve(p, ENOUGH).peak
      for _, part in ipairs { 0.9, 0.75, 0.6 } do
        local budget = math.floor(peak * part)
        local least = least_cost(p, budget)
        local result = solve(p, budget)
        if not result then
          missed = missed + (least < math.huge and 1 or 0)
        else
          solved = solved + 1
          best = best + (result.cost <= least + 1e-9 and 1 or 0)
          assert(result.cost >= least - 1e-9, "cheaper than anything")
          assert(result.bound <= least + 1e-9, "the bound is above the least cost")
        end
      end
    end
    assert(solved > problems / 4, "too few could be solved: " .. solved)
    assert(best >= 0.98 * solved, ("best in %d of %d"):format(best, solved))
    assert(missed <= 0.02 * solved + 1, ("nothing found for %d"):format(missed))
  end)

  local shapes = { chain = lookalikes.chain(60), unet = lookalikes.unet(6),
    dense = lookalikes.dense(12), layered = lookalikes.layered(80, 7),
    lstm = lookalikes.lstm(12), tree = lookalikes.tree(4),
    transformer = lookalikes.transformer(3) }

  it("costs more as the budget falls, and little above its bound at first", function()
    for name, p in pairs(shapes) do
      local whole, last = solve(p, ENOUGH), nil
      for _, part in ipairs { 0.9, 0.8, 0.7 } do
        local result = solve(p, math.floor(whole.peak * part))
        assert(result or name == "layered" and part < 0.8, name .. ": nothing found")
        if result and name ~= "layered" then
          local extra, bound = result.cost - whole.cost, result.bound - whole.cost
          assert(extra <= 2.5 * bound, ("%s: %g, bound %g"):format(name, extra, bound))
          assert(not last or result.cost >= 0.999 * last)
          last = result.cost
        end
      end
    end
  end)

  it("gives the same acts every time", function()
    for _, p in pairs(shapes) do
      local budget = math.floor(0.75 * solve(p, ENOUGH).peak)
      local a, b = solve(p, budget), solve(p, budget)
      assert.same(a and a.acts, b and b.acts)
    end
  end)

  it("recomputes a long chain in about the root of its memory", function()
    -- one output in bytes; the gradients go back over the same values
    local n = 64
    local p = { bytes = {}, ops = {} }
    for i = 1, n do
      p.bytes[i] = 1
      p.ops[i] = { cost = 1, reads = i > 1 and { i - 1 } or {}, makes = { i } }
    end
    for i = n, 1, -1 do
      local v = #p.bytes + 1
      p.bytes[v] = 1
      p.ops[v] = { cost = 1, makes = { v }, reads = { i, i < n and v - 1 or nil } }
    end
    local result = solve(p, 20)
    assert(result, "nothing found in 20 values")
    assert(result.cost <= 3 * n, "more than one extra forward pass: " .. result.cost)
  end)

  it("costs no more than a forward pass in a third of what a deep program wants #long", function()
    local deep = { lstm = lookalikes.lstm(150), chain = lookalikes.chain(400),
      transformer = lookalikes.transformer(16) }
    for name, p in pairs(deep) do
      local whole, forward = solve(p, ENOUGH), 0
      for i = 1, p.forward do forward = forward + p.ops[i].cost end
      local result = solve(p, whole.peak // 3)
      assert(result, name .. ": nothing found")
      local extra = (result.cost - whole.cost) / forward
      assert(extra <= 1, ("%s: %.2f forward passes"):format(name, extra))
    end
  end)

  it("says the least it found when nothing fits", function()
    local p = lookalikes.chain(10)
    local result, least = solve(p, 250)
    assert(not result)
    assert(least > 250 and solve(p, least), "the least named does not do")
  end)

  it("limits its work by counts: a large program ends #long", function()
    local p = lookalikes.lstm(200)
    assert(solve(p, math.floor(0.6 * solve(p, ENOUGH).peak)))
  end)

  it("solves nothing as well", function()
    local result = solve({ ops = {}, bytes = {} }, 0)
    assert.equal(0, result.peak)
    assert.same({}, result.acts)
  end)

  it("refuses what is no problem", function()
    local function wrong(p, message)
      local ok, problem = pcall(core.schedule, p, 10)
      assert(not ok)
      assert.matches(message, tostring(problem))
    end
    local function one(op, bytes) return { ops = { op }, bytes = bytes or { 1 } } end
    wrong({}, "bytes is no list")
    wrong({ bytes = {} }, "ops is no list")
    wrong({ bytes = {}, ops = { 1 } }, "operator 1: is no table")
    wrong(one({ makes = { 1 } }), "operator 1: its cost is no number")
    wrong(one({ cost = -1, makes = { 1 } }), "operator 1 costs %-1")
    wrong(one({ cost = 0 / 0, makes = { 1 } }), "operator 1 costs")
    wrong(one({ cost = 1, makes = { 2 } }), "operator 1: no such value")
    wrong(one({ cost = 1, makes = { 1.5 } }), "operator 1: no such value")
    wrong(one({ cost = 1, makes = 1 }), "operator 1: no list")
    wrong(one({ cost = 1, makes = { 1 }, scratch = -1 }), "scratch and before")
    wrong(one({ cost = 1, makes = { 1 } }, { -1 }), "value 1 has %-1 bytes")
    wrong(one({ cost = 1, makes = { 1 } }, { "x" }), "value 1: its bytes are no integer")
    wrong(one({ cost = 1, makes = { 1 } }, { 1 << 61 }), "less than 60 bits")
    wrong(one({ cost = 1, makes = { 1, 1 } }), "value 1, which is made already")
    wrong(one({ cost = 1, makes = {} }), "no operator makes value 1")
    wrong(one({ cost = 1, makes = { 1 }, reads = { 1 } }), "which is not made before it")
    wrong({ bytes = { 1, 1 }, ops = { { cost = 1, makes = { 1 } },
      { cost = 1, makes = { 2 }, reads = { 1, 1 } } } }, "reads value 1 twice")
    wrong(one({ cost = 1, makes = { 1 }, takes = { { 1, 1 } } }), "takes")
  end)
end)

describe("mrt bench recompute", function()
  local file

  before_each(function() file = files.name ".tg" end)

  local function bench(text)
    return program.run("bench recompute --greedy " .. files.write(file, text))
  end

  -- a -> b -> c, then c and a are read: a may go meanwhile
  local small = [[
graph small 4 4 0 s
t 0 40 0
t 1 60 0
t 2 60 0
t 3 1 1
o 0 1 0 a 0 1 0
o 1 5 0 b 1 0 1 1
o 2 5 0 c 1 1 1 2
o 3 5 1 d 2 0 2 1 3
]]

  it("prints extra cost and bound by budget", function()
    local code, output = bench(small)
    assert.equal(0, code)
    assert.matches("small: 4 operators", output)
    assert.matches("extra %% +6%.25", output)
    assert.matches("< set", output)
    assert.matches("greedy %% +6%.25", output)
  end)

  it("says what is wrong with a file, and where", function()
    local function wrong(text, message)
      local code, output = bench(text)
      assert.equal(1, code)
      assert.matches(message, output)
    end
    local head = "graph g 1 1 0 s\n"
    wrong("", "empty, no instance")
    wrong("x 1\n", ":1: 'x' begins no line")
    wrong("t 0 1 0\n", ":1: 'graph' comes first")
    wrong("graph g 1 1\n", ":1: graph NAME OPS TENSORS")
    wrong("graph g 1 1 -1 s\n", "bytes of constants '%-1' is no integer")
    wrong(head .. head, ":2: a second line 'graph'")
    wrong(head .. "t 1 1 0\n", ":2: tensor 1 where 0 is next")
    wrong(head .. "t 0 x 0\n", "size 'x' is no integer")
    wrong(head .. "t 0 1 0\no 0 y 0 n 0 1 0\n", ":3: cost 'y' is no number")
    wrong(head .. "t 0 1 0\no 0 1 0 n 0 1 7\n", "there is no tensor 7")
    wrong(head .. "t 0 1 0\no 0 1 0 n 0 2 0\n", "tensor '' is no integer")
    wrong(head .. "t 0 1 0\no 0 1 0 n 0 1 0 0\n", "9 words, the lists end at 8")
    wrong(head .. "t 0 1 0\n", "0 operators, 1 are announced")
    wrong(head .. "t 0 1 0\no 0 1 0 n 0 0\n", "no operator makes value 1")
  end)
end)
