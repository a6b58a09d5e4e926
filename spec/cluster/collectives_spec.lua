--- collectives_spec.lua -- seconds of collectives, by hand and by what must not happen
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local collectives = require "mrt.cluster.collectives"
local topology = require "mrt.cluster.topology"

-- Round figures: 100 bytes a second and 1 s a step in a node of 4, 10 and 2 s between.
local function levels(more)
  local node = { name = "node", size = 4, bandwidth = 100, latency = 1 }
  local net = { name = "net", bandwidth = 10, latency = 2 }
  for k, v in pairs(more or {}) do net[k] = v end
  return { node, net }
end

local kinds <const> = { "allreduce", "reduce_scatter", "allgather", "broadcast", "all_to_all",
  "shift" }

describe("where the ranks of a group stand", function()
  local rows = { -- size, stride, ranks on each level
    { 4, 1, { 4, 1 } }, { 8, 1, { 4, 2 } }, { 2, 4, { 1, 2 } }, { 4, 2, { 2, 2 } },
    { 2, 1, { 2, 1 } }, { 6, 8, { 1, 6 } },
  }
  for _, row in ipairs(rows) do
    it(("%d ranks, %d apart"):format(row[1], row[2]), function()
      assert.same(row[3], topology.joined(levels(), { size = row[1], stride = row[2] }))
    end)
  end

  it("two ranks meet at the innermost level that joins them", function()
    assert.equal(1, topology.between(levels(), 0, 3))
    assert.equal(2, topology.between(levels(), 3, 4))
  end)
end)

describe("a collective takes", function()
  -- 400 bytes over 4 ranks of a node: 3 steps, 3/4 of the bytes given away
  it("half a ring: p - 1 steps and (p - 1) / p of the bytes", function()
    assert.near(3 + 3, collectives.seconds(levels(), "allgather", 400, { size = 4 }), 1e-9)
    assert.near(3 + 3, collectives.seconds(levels(), "reduce_scatter", 400, { size = 4 }), 1e-9)
  end)

  it("for a shift a step over the slowest link that a neighbour is behind", function()
    assert.near(1 + 4, collectives.seconds(levels(), "shift", 400, { size = 4 }), 1e-9)
    assert.near(2 + 40, collectives.seconds(levels(), "shift", 400, { size = 8 }), 1e-9)
  end)

  it("both halves for an allreduce of many bytes, a tree of few", function()
    local seconds, way = collectives.seconds(levels(), "allreduce", 4000, { size = 4 })
    assert.near(6 + 60, seconds, 1e-9)
    assert.equal("ring", way)
    seconds, way = collectives.seconds(levels(), "allreduce", 4, { size = 4 })
    assert.near(2 * 2 * 1 + 2 * 4 / 100, seconds, 1e-9) -- 2 log2 p steps, bytes both ways
    assert.equal("tree", way)
  end)

  it("a hierarchy where links differ: a quarter of the bytes goes out", function()
    -- in: 3 s and 3 of 4 quarters; out: 2 nodes, 1 step of 2 s, half of 400 / 4 at 10
    local byhand = 3 + 300 / 100 + 2 + 50 / 10
    local seconds = collectives.seconds(levels(), "reduce_scatter", 400, { size = 8 })
    assert.is_true(seconds <= byhand + 1e-9)
    assert.is_true(seconds >= 350 / 40) -- what leaves a node has four cards
  end)

  it("what the switch needs, where it adds up", function()
    local with = levels()
    with[1].switch = { bandwidth = 1000, latency = 0.5, least = 3 }
    local seconds, way = collectives.seconds(with, "allreduce", 4000, { size = 4 })
    assert.near(0.5 + 6000 / 1000, seconds, 1e-9)
    assert.equal("switch", way)
    assert.equal("ring", (select(2, collectives.seconds(with, "allreduce", 4000, { size = 2 }))))
  end)

  it("of all to all what leaves a node, through the node on rails", function()
    local group = { size = 8 }
    assert.near(2 + 400 * 4 / 8 / 10, collectives.seconds(levels(), "all_to_all", 400, group), 1e-9)
    local rail = levels { rail = true, bandwidth = 1e6 }
    -- 3 of 8 parts stay, and 3 of 4 of the 4 that go out change cards first
    assert.near(3 + 400 * (3 / 8 + 4 / 8 * 3 / 4) / 100,
      collectives.seconds(rail, "all_to_all", 400, group), 1e-9)
  end)

  it("on a torus as many steps as along its axes", function()
    local torus = { { name = "torus", size = 16, axes = { 4, 4 }, bandwidth = 1e9, latency = 1 } }
    assert.near(6, collectives.seconds(torus, "allgather", 16, { size = 16 }), 1e-6)
  end)

  it("nothing for one rank", function()
    for _, kind in ipairs(kinds) do
      assert.equal(0, collectives.seconds(levels(), kind, 100, { size = 1 }))
    end
  end)
end)

describe("a collective is never quicker", function()
  local function grows(what, list, seconds)
    for _, kind in ipairs(kinds) do
      it(("%s: %s"):format(what, kind), function()
        local last = 0
        for _, x in ipairs(list) do
          local now = seconds(kind, x)
          assert.is_true(now >= last - 1e-12)
          last = now
        end
      end)
    end
  end
  local cluster = mrt.cluster "dgx-h100:64"
  local sizes = {}
  for i = 0, 34 do sizes[#sizes + 1] = 2 ^ i end
  for _, group in ipairs { { size = 8 }, { size = 64 }, { size = 8, stride = 8 }, { size = 16 } } do
    grows(("for more bytes, %d ranks %d apart"):format(group.size, group.stride or 1), sizes,
      function(kind, bytes) return (cluster:collective(kind, bytes, group)) end)
  end
  for _, bytes in ipairs { 1, 1000, 1e6 } do
    grows(("for more oversubscription, %d bytes"):format(bytes), { 1, 2, 4, 8 },
      function(kind, over)
        return (collectives.seconds(levels { oversubscription = over }, kind, bytes, { size = 16 }))
      end)
  end
end)

it("what is no collective is refused", function()
  local c = mrt.cluster "dgx-a100"
  assert.error_matches(function() c:collective("gossip", 1) end, "no collective 'gossip'")
  assert.error_matches(function() c:collective("allreduce", 1, { size = 0 }) end,
    "one rank or more")
end)
