--- events_spec.lua -- streams, pipelines and chains, by hand
---
--- SPDX-License-Identifier: MIT

local Chain = require "mrt.cluster.chain"
local Events = require "mrt.cluster.events"
local pipeline = require "mrt.cluster.pipeline"
local schedule = require "mrt.pipeline.schedule"

describe("streams", function()
  it("do their tasks in order, after what these wait for", function()
    local sim = Events.new()
    local a, b = sim:stream "a", sim:stream "b"
    local x = sim:task(a, 2)
    local y = sim:task(b, 1, { x })
    local z = sim:task(a, 5)
    assert.equal(7, sim:run())
    assert.same({ 2, 3 }, { sim:of(y) })
    assert.same({ 2, 7 }, { sim:of(z) })
    assert.equal(7, sim:busy(a))
  end)

  it("slow each other while both are busy", function()
    local sim = Events.new()
    local compute = sim:stream "compute"
    local net = sim:stream("net", { slows = compute, by = 1 })
    local x = sim:task(compute, 4)
    sim:task(net, 2)
    sim:run() -- 2 s at half the rate, then 3 s of what is left
    assert.same({ 0, 5 }, { sim:of(x) })
  end)

  it("that wait for each other are told with their place", function()
    local sim = Events.new()
    local a, b = sim:stream "a", sim:stream "b"
    local x = sim:task(a, 1, nil, "x")
    local y = sim:task(b, 1, { x }, "y")
    sim:wait(x, y)
    assert.error_matches(function() sim:run() end, "deadlock: a waits at its task 1 %(x%)")
  end)
end)

local function one_and_two(kind) return kind == "F" and 1 or 2 end

describe("the bubble of a pipeline is (p - 1) / (m + p - 1)", function()
  for _, name in ipairs { "gpipe", "one_f_one_b" } do
    for _, row in ipairs { { 2, 2 }, { 4, 8 }, { 8, 8 }, { 3, 20 }, { 1, 5 } } do
      local p, m = row[1], row[2]
      it(("%s, %d stages, %d micro-batches"):format(name, p, m), function()
        local seconds, busy = pipeline.run { stages = p, micros = m, chunks = 1,
          order = schedule[name], seconds = one_and_two }
        assert.near(3 * (m + p - 1), seconds, 1e-9)
        for stage = 1, p do
          assert.near((p - 1) / (m + p - 1), 1 - busy[stage] / seconds, 1e-9)
        end
      end)
    end
  end

  it("and a v-th of it with v chunks", function()
    local seconds = pipeline.run { stages = 4, micros = 8, chunks = 2,
      seconds = function(kind) return one_and_two(kind) / 2 end }
    assert.near(8 * 3 + 3 * 3 / 2, seconds, 1e-9)
  end)
end)

describe("a schedule", function()
  local function run(actions) -- of each stage
    return pcall(pipeline.run, { stages = 2, micros = 2, chunks = 1, seconds = one_and_two,
      order = function() return { actions, actions } end })
  end
  local function refused(actions, text)
    local ok, problem = run(actions)
    assert.is_false(ok)
    assert.matches(text, type(problem) == "table" and problem.message or tostring(problem))
  end

  it("that deadlocks is told before anything runs", function()
    refused({ { "B", 1, 1 }, { "F", 1, 1 }, { "F", 2, 1 }, { "B", 2, 1 } },
      "deadlock: stage 1 waits at its task 1 %(B1.1%)")
  end)
  it("that leaves a micro-batch out is refused", function()
    refused({ { "F", 1, 1 }, { "B", 1, 1 } }, "micro%-batch 2 is missing")
  end)
  it("that does one twice is refused", function()
    refused({ { "F", 1, 1 }, { "F", 1, 1 } }, "is there already")
  end)

  it("waits for what is sent", function()
    local function seconds(send)
      return (pipeline.run { stages = 2, micros = 1, chunks = 1, seconds = one_and_two,
        send = function() return send end })
    end
    assert.near(6, seconds(0), 1e-9)
    assert.near(7, seconds(0.5), 1e-9) -- there and back
  end)
end)

describe("a chain of kernels", function()
  it("is bound by its host or by its device", function()
    local slow_host = Chain.new(2, 1):times(10)
    assert.equal(21, slow_host.until_done)
    local slow_device = Chain.new(1, 2):times(10)
    assert.equal(21, slow_device.until_done)
  end)

  it("joined is the same as kernel by kernel", function()
    local kernels = { { 1, 5 }, { 2, 1 }, { 7, 1 }, { 1, 4 }, { 3, 3 } }
    local launched, done = 0, 0
    local first, second = Chain.new(), Chain.new()
    for i, k in ipairs(kernels) do
      launched = launched + k[1]
      done = math.max(done, launched) + k[2]
      if i <= 2 then first = first:then_(Chain.new(k[1], k[2]))
      else second = second:then_(Chain.new(k[1], k[2])) end
    end
    assert.equal(done, first:then_(second).until_done)
  end)
end)
