-- links_spec.lua -- predicted times of collectives follow from a profile's links
--
-- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local read = require "mrt.device.read"
local files = require "support.files"
local program = require "support.program"

local GB <const> = 1e9

local function profile(links)
  return { name = "card", memory = { capacity = 1e12, bandwidth = 1e15 },
    flops = { f32 = 1e15 }, links = links }
end

-- Seconds of an operator's collective of 32 MB in f32 among so many ranks, by a plan.
local planner = [[
  local mrt = require "mrt"
  local core = require "mrt.core"
  local which, big = arg[1], mrt.zeros(1 << 23)
  local comm = mrt.communicator.create()
  local step = mrt.compile(function(x)
    if which == "allgather" then return comm:allgather(x:slice(1, 1, x:numel() // comm.size)) end
    if which == "broadcast" then return comm:broadcast(x, { root = 0 }) end
    return comm[which](comm, x)
  end)
  local plan = step:plan(big)
  for _, s in ipairs(plan:steps()) do
    if s.op == which then print(("%%.9g %%s"):format(s.time, tostring(plan.unlinked))) end
  end]]
local script = files.temporary(planner:gsub("%%%%", "%%"))

local function seconds(which, ranks, links)
  local text = { "return { name = 'card', memory = { capacity = 1e12, bandwidth = 1e15 }, "
    .. "flops = { f32 = 1e15 }, links = {" }
  for _, l in ipairs(links) do
    text[#text + 1] = ("{ ranks = %s, bandwidth = %g, latency = %g, ramp = %g },"):format(
      l[1] or "nil", l[2], l[3], l[4] or 0)
  end
  text[#text + 1] = "} }"
  local path = files.temporary(table.concat(text))
  local code, out = program.run(("plan --device %s --ranks %d %s %s"):format(path, ranks, script,
    which))
  assert(code == 0, out)
  local time, unlinked = out:match "^(%S+) (%S+)"
  return tonumber(time), tonumber(unlinked)
end

local BYTES <const> = 4 * 2 ^ 23

describe("links", function()
  it("have rings of as many steps and bytes as the textbook", function()
    local link = { nil, 10 * GB, 1e-5 }
    for _, p in ipairs { 2, 8, 64 } do
      local half = (p - 1) * 1e-5 + BYTES * (p - 1) / p / (10 * GB)
      assert.near(half, seconds("reduce_scatter", p, { link }), 1e-6 * half)
      assert.near(half, seconds("allgather", p, { link }), 1e-6 * half)
      local step = 1e-5 + BYTES / (10 * GB)
      assert.near(step, seconds("shift", p, { link }), 1e-6 * step)
      local tree = 2 * math.ceil(math.log(p, 2)) * 1e-5 + 2 * BYTES / (10 * GB)
      assert.near(math.min(2 * half, tree), seconds("allreduce", p, { link }), 1e-6 * half)
    end
  end)

  it("are level by level: what a node has reduced goes between nodes", function()
    local levels = { { 8, 100 * GB, 1e-6 }, { nil, 10 * GB, 1e-5 } }
    local node = 7 * 1e-6 + BYTES * 7 / 8 / (100 * GB)
    assert.near(node, seconds("reduce_scatter", 8, levels), 1e-9)
    local between = 7 * 1e-5 + BYTES / 8 * 7 / 8 / (10 * GB)
    assert.near(node + between, seconds("reduce_scatter", 64, levels), 1e-8)
    local ramp = math.sqrt(BYTES * 7 / 8) * 1e-8
    assert.near(node + ramp, seconds("reduce_scatter", 8, { { 8, 100 * GB, 1e-6, 1e-8 } }), 1e-8)
  end)

  it("are unknown where none joins so many ranks", function()
    local _, unlinked = seconds("allreduce", 8, {})
    assert.equal(1, unlinked)
    _, unlinked = seconds("allreduce", 16, { { 8, 100 * GB, 1e-6 } })
    assert.equal(1, unlinked)
    _, unlinked = seconds("allreduce", 8, { { 8, 100 * GB, 1e-6 } })
    assert.is_nil(unlinked)
    local code, out = program.run(("plan --device three-tiers --ranks 8 %s allreduce")
      :format(script))
    assert.equal(0, code)
    assert.truthy(out:find("without what 1 collectives take: its profile has no links", 1, true))
  end)

  it("are refused by field where they make no sense", function()
    for _, case in ipairs {
      { "links: a table wanted", 3 }, { "links%[1%].bandwidth' is missing", { { ranks = 2 } } },
      { "links%[1%].ranks' is missing", { { bandwidth = 1 }, { bandwidth = 1 } } },
      { "links%[2%].ranks': 4, an integer of more than 8", { { ranks = 8, bandwidth = 1 },
        { ranks = 4, bandwidth = 1 } } },
      { "5 levels, at most 4", { { ranks = 2, bandwidth = 1 }, { ranks = 4, bandwidth = 1 },
        { ranks = 8, bandwidth = 1 }, { ranks = 16, bandwidth = 1 }, { bandwidth = 1 } } },
      { "no field 'links%[1%].speed'", { { speed = 1, bandwidth = 1 } } },
      { "links%[1%].latency': zero or a positive", { { bandwidth = 1, latency = -1 } } },
    } do
      local flat, message = read.table(profile(case[2]))
      assert.is_nil(flat)
      assert.truthy(message:gsub("field 'links': ", "links: "):find(case[1]), message)
    end
  end)

  it("come with the machines, whose nodes Ethernet may join instead", function()
    local device = require "mrt.device"
    for _, name in ipairs { "a100-80", "h100", "h200", "rtx3090", "h100+25gbe",
      "rtx3080+100gbe" } do
      local found = assert(device.find(name))
      assert.equal(name, found.name)
      assert(read.table(found))
      assert.is_true(#found.links >= 2)
    end
    local fast, slow = device.find "h100".links, device.find "h100+10gbe".links
    assert.equal(fast[1], slow[1])
    assert.is_true(fast[2].bandwidth > 100 * slow[2].bandwidth)
    assert.is_nil((device.find "h100+40gbe"))
    local before = core.device()
    assert(device.use "a100-40")
    assert.equal(8, core.device().links[1].ranks)
    assert(device.use "declared")
    assert.same(before.links, core.device().links)
    assert.truthy(mrt)
  end)
end)
