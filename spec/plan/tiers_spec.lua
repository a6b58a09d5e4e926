--- tiers_spec.lua -- several swap tiers in one plan: the same bits, exact bytes in each
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local read = require "mrt.device.read"
local bits = require "support.bits"
local files = require "support.files"
local program = require "support.program"
local ranks = require "support.ranks"
local random_graph = require "support.random_graph"
local training = require "support.training"
local nn, optim, swap = mrt.nn, mrt.optim, mrt.policy.swap

local folders = { files.folder(), files.folder() }

-- A device with a quick and a slow tier, in folders of their own.
local function device(quick, slow)
  return { name = "two tiers", memory = { capacity = 1e9, bandwidth = 1e10 },
    flops = { f32 = 2e10 },
    swap = { { name = "host", folder = folders[1], capacity = quick, bandwidth = 4e9,
      latency = 1e-5 },
      { name = "disk", folder = folders[2], capacity = slow, bandwidth = 4e8, latency = 1e-4 } } }
end

local function by_chance(seed, choose)
  local state = seed + 1
  return function()
    state = state * 48271 % 2147483647
    return choose[state % #choose + 1]
  end
end

local fates = { "keep", "recompute", "swap" }
local homes = { "keep", "swap", "host", "disk" }

local function taken()
  collectgarbage()
  collectgarbage()
  local out = {}
  for _, t in ipairs(mrt.memory().tiers) do out[t.folder or ""] = t.bytes end
  return { out[folders[1]] or 0, out[folders[2]] or 0 }
end

-- Train a little; what came out, the plan, and what each tier holds.
local function trained(compiled)
  local before = taken()
  mrt.seed(3)
  local model = nn.Sequential(nn.Linear(150, 200), nn.GELU(), nn.Dropout(0.1),
    nn.Linear(200, 180), nn.GELU(), nn.Linear(180, 10))
  local opt = optim.adamw(model:parameters(), { lr = 1e-3 })
  local step = training.step(model, opt, compiled)
  mrt.seed(5)
  local x, y = mrt.eval(mrt.randn(16, 150), mrt.randint(0, 10, 16))
  local plan = step:plan(x, y)
  step(x, y)
  local after = taken()
  for _ = 1, 3 do step(x, y) end
  return { bits = bits.trained(model, opt), plan = plan,
    host = after[1] - before[1], disk = after[2] - before[2] }
end

-- Planned is taken in each tier, within its capacity, and adds up.
local function check(t, what)
  local host, disk = table.unpack(t.plan:tiers())
  assert.equal(host.bytes, t.host, what)
  assert.equal(disk.bytes, t.disk, what)
  assert.equal(t.plan.swapped, host.bytes + disk.bytes, what)
  assert(host.bytes <= (host.capacity or math.huge), what)
  assert(disk.bytes <= (disk.capacity or math.huge), what)
  local out, into = 0, 0
  for _, c in ipairs(t.plan:transfers()) do
    assert(c.tier == 1 or c.tier == 2)
    assert.equal(c.tier, t.plan:values()[c.swapped].tier)
    if c.lane == "out" then out = out + c.bytes else into = into + c.bytes end
  end
  if not t.plan.micro_batches then
    assert.equal(host.copied_out + disk.copied_out, out)
    assert.equal(host.copied_in + disk.copied_in, into)
  end
end

describe("swap tiers", function()
  after_each(function() core.set_device() end)

  it("hold what is planned, and change no bit: with precision, accumulation, budgets", function()
    local both = 0
    for _, base in ipairs { {}, { precision = mrt.policy.precision.bf16() }, { accumulate = 3 } } do
      mrt.device.use(device(1e9, 1e9))
      local wanted = trained(base)
      for _, quick in ipairs { 1, 90e3, 400e3, 1e9 } do
        mrt.device.use(device(quick, 1e9))
        for k, way in ipairs { { swap = swap.all { least = 1 } },
          { swap = by_chance(quick // 1, { "keep", "swap", "disk" }),
            checkpoint = by_chance(quick // 1, fates) },
          { swap = swap.all { least = 1 }, checkpoint = function() return "swap" end },
          { memory = wanted.plan.peak * 9 // 10 } } do
          for name, value in pairs(base) do way[name] = value end
          local what = ("%g bytes, way %d, %s"):format(quick, k, next(base) or "plain")
          local ok, t = pcall(trained, way)
          if ok then
            assert(t.bits == wanted.bits, what)
            check(t, what)
            if t.host > 0 and t.disk > 0 then both = both + 1 end
          else -- what is least depends on the threads
            assert(way.memory and t.code == "budget", tostring(t))
          end
        end
      end
    end
    assert(both > 10, both)
  end)

  it("change no bit of random graphs", function()
    for seed = 1, 12 do
      local wanted
      for _, options in ipairs { {}, { swap = by_chance(seed, homes),
        checkpoint = by_chance(seed + 7, fates) } } do
        mrt.device.use(device(1e6, 1e6))
        local run = random_graph.program(seed, 4 + seed % 14)
        mrt.seed(seed)
        local leaves = { mrt.variable(mrt.randn(4, 6), "w1"),
          mrt.variable(mrt.randn(1, 6), "w2"), mrt.variable(mrt.randn(6, 4), "w3") }
        mrt.eval(leaves)
        mrt.seed(seed + 1)
        local step = mrt.compile(function()
          local results = run(leaves, function(t) return t end)
          local grads = mrt.grad(results[1], leaves, { allow_unused = true })
          for i, w in ipairs(leaves) do w:assign(w - grads[i] * 0.01) end
          return table.unpack(results)
        end, options)
        local all = {}
        for _ = 1, 2 do
          for _, t in ipairs { step() } do all[#all + 1] = t:bytes() end
          for _, w in ipairs(leaves) do all[#all + 1] = w:bytes() end
        end
        wanted = wanted or table.concat(all, "|")
        assert(table.concat(all, "|") == wanted, "seed " .. seed)
      end
    end
  end)

  it("are filled by what gains most, and a policy may name one", function()
    mrt.device.use(device(300e3, 1e9))
    local t = trained { swap = swap.all { least = 1 } }
    local slow = trained { swap = function() return "disk" end }
    assert.equal(0, slow.host)
    assert(t.host > 200e3 and t.plan.seconds < slow.plan.seconds)
    mrt.device.use(device(1e9, 1e9))
    local named = trained { swap = function(v) return v.role == "weight" and "disk" or "host" end }
    assert(named.disk > 0 and named.host > 1.9 * named.disk)
    assert.matches("in host and .- in disk", named.plan:choices().text)
    assert.matches("\n  host +%d.-\n  disk +%d", named.plan:text())
  end)
end)

local head = [[
  local mrt = require "mrt"
  local nn, optim, policy = mrt.nn, mrt.optim, mrt.policy
  local function tiers(quick, first, second)
    mrt.device.use { name = "two", memory = { capacity = 1e9, bandwidth = 1e10 },
      flops = { f32 = 1e10 }, swap = {
        { name = "host", folder = first, capacity = quick, bandwidth = 4e9, latency = 1e-5 },
        { name = "disk", folder = second, bandwidth = 4e8, latency = 1e-4 } } }
  end
]]

describe("swap tiers", function()
  it("hold what is planned on every rank of fsdp, with the same bits", function()
    ranks.alike(2, head .. ([[
      local wanted
      for _, quick in ipairs { 0, 8e3, 30e3 } do
        tiers(quick, %q, %q)
        mrt.seed(3)
        local model = nn.Sequential(nn.Linear(40, 60), nn.GELU(), nn.Linear(60, 40))
        local opt = optim.adamw(model:parameters(), { lr = 1e-2 })
        local step = mrt.compile(function(x)
          local loss = (model(x) - 1):square():mean()
          opt:step(mrt.grad(loss, model:parameters()))
          return loss
        end, { shard = policy.shard.fsdp(),
          swap = quick > 0 and policy.swap.all { least = 1 } or nil })
        local x = mrt.eval(mrt.randn(8, 40))
        local plan, losses = step:plan(x), {}
        for i = 1, 3 do losses[i] = step(x):item() end
        local host, disk = table.unpack(plan:tiers())
        wanted = wanted or table.concat(losses, " ")
        assert(wanted == table.concat(losses, " "))
        assert(host.bytes + disk.bytes == plan.swapped and host.bytes <= math.max(quick, 0))
        assert(quick == 0 or host.bytes > 0 and disk.bytes > 0)
      end
      return wanted]]):format(folders[1], folders[2]))
  end)

  it("are the host's memory and a file behind a device with memory of its own", function()
    local script = head .. ([[
      local function train(options)
        mrt.seed(3)
        local model = nn.Sequential(nn.Linear(60, 80), nn.GELU(), nn.Linear(80, 40))
        local opt = optim.adamw(model:parameters(), { lr = 1e-2 })
        local step = mrt.compile(function(x)
          local loss = model(x):square():mean()
          opt:step(mrt.grad(loss, model:parameters()))
          return loss
        end, options)
        local x = mrt.eval(mrt.randn(8, 60))
        local plan, all = step:plan(x), {}
        for i = 1, 4 do all[i] = step(x):item() end
        for _, p in ipairs(model:parameters()) do all[#all + 1] = p:bytes() end
        return table.concat(all, "|"), plan
      end
      mrt.device(DEVICE)
      tiers(70e3, nil, %q)
      local wanted = train {}
      local got, plan = train { swap = policy.swap.all { least = 1 },
        checkpoint = policy.checkpoint.swap() }
      local host, disk = table.unpack(plan:tiers())
      local taken = mrt.memory().tiers
      print(got == wanted, host.bytes > 0 and disk.bytes > 0, taken[1].bytes == host.bytes,
        taken[2].bytes == disk.bytes)]]):format(folders[2])
    local devices = { "toy:0" }
    if os.getenv "MRT_CUDA" then devices[2] = "cuda:0" end
    for _, name in ipairs(devices) do
      for _, queue in ipairs { "", "MRT_TOY_QUEUE=1" } do
        assert.equal("true\ttrue\ttrue\ttrue\n",
          program.script(script:gsub("DEVICE", ("%q"):format(name)), queue))
      end
    end
  end)
end)

describe("a swap tier", function()
  after_each(function() core.set_device() end)

  it("that is full refuses the plan by name and line, and the variables stay", function()
    mrt.device.use(device(100e3, 100e3))
    local w = mrt.variable(mrt.ones(200, 200), "w")
    local function step(answer)
      return mrt.compile(function() w:assign(w + 1) end, { swap = function() return answer end })
    end
    for _, answer in ipairs { "swap", "host", "disk" } do
      local ok, problem = pcall(step(answer))
      assert.is_false(ok)
      assert.matches("tiers_spec.lua:%d+: swap tier '%a+' is full: it holds 100000 bytes, and "
        .. "'w' %(160000 bytes, .*tiers_spec.lua:%d+%) no longer fits", tostring(problem))
    end
    step("keep")()
    assert.equal(80000, w:sum():item())
    local ok, problem = pcall(step "tape")
    assert.is_false(ok)
    assert.matches('"keep", "swap", "host" or "disk" wanted', tostring(problem))
  end)

  it("whose disk is full says so before the step, which may be tried again", function()
    local out = program.script(([[
      local mrt = require "mrt"
      mrt.device.use { name = "two", memory = { capacity = 1e9, bandwidth = 1e10 },
        flops = { f32 = 1e10 }, swap = { { name = "host", folder = %q, capacity = 5e6,
          bandwidth = 4e9 }, { name = "disk", folder = %q, bandwidth = 4e8 } } }
      local w, v = mrt.variable(mrt.ones(1024, 1024), "w"), mrt.variable(mrt.ones(4096, 1024), "v")
      local step = mrt.compile(function() w:assign(w + 1) v:assign(v + 1) end,
        { swap = function() return "swap" end })
      local ok, problem = pcall(step)
      print(ok, problem, problem.code)
      print(w:sum():item(), v:sum():item())
      mrt.compile(function() w:assign(w + 1) v:assign(v + 1) end)()
      print(w:sum():item(), v:sum():item())]]):format(folders[1], folders[2]), "ulimit -f 10000;")
    assert.matches("^false%s.-:8: swap file: 16777216 bytes wanted.-File too large", out)
    assert.matches("device\n1048576.0%s4194304.0\n2097152.0%s8388608.0", out)
  end)

  it("is read from a profile, and refused where it makes no sense", function()
    local function refused(text, tiers)
      local p = device(1, 1)
      p.swap = tiers
      local flat, message = read.table(p)
      assert.is_nil(flat)
      assert.matches(text, message)
    end
    local one = { name = "host", bandwidth = 1e9 }
    refused("'swap%[2%].name' is missing", { one, { bandwidth = 1 } })
    refused("'swap%[2%].name': two tiers are 'host'", { one, one })
    refused("'swap%[2%].read' is missing", { one, { name = "disk" } })
    refused("no field 'swap%[1%].speed'", { { name = "host", speed = 1 } })
    refused("'swap%[1%].name': 'keep' is an answer of policies",
      { { name = "keep", bandwidth = 1 } })
    refused("'swap%[1%].folder': 1 to 255 bytes", { { name = "a", bandwidth = 1, folder = "" } })
    refused("5 tiers, at most 4", { one, one, one, one, one })
    refused("a tier or a list of tiers wanted, it has 'capacity' too", { one, capacity = 1 })
    refused("'swap%[2%]': a table wanted", { one, 7 })
    local flat = assert(read.table(device(1, 2)))
    assert.equal("disk", flat.slower[1].name)
  end)
end)
