--- swap_spec.lua -- variables that live in a file change no bit and no promise
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local files = require "support.files"
local random_graph = require "support.random_graph"
local random_program = require "support.random_program"
local bits = require "support.bits"
local program = require "support.program"
local training = require "support.training"
local nn, optim, swap = mrt.nn, mrt.optim, mrt.policy.swap

local graphs = tonumber(os.getenv "MRT_SPEC_GRAPHS") or 25

-- A policy that swaps what its seed says.
local function by_chance(seed)
  local state = seed + 1
  return function()
    state = state * 48271 % 2147483647
    return state % 3 > 0 and "swap" or "keep"
  end
end

local function everything() return "swap" end

local function anything(seed)
  local choose, state = { "keep", "recompute", "swap" }, seed + 7
  return function()
    state = state * 48271 % 2147483647
    return choose[state % 3 + 1]
  end
end

-- A training step from given numbers, the same for each policy.
local function trained(policy, options, compiled)
  local own = { swap = policy }
  for name, value in pairs(compiled or {}) do own[name] = value end
  mrt.seed(3)
  local model = nn.Sequential(nn.Linear(150, 200), nn.GELU(), nn.Dropout(0.1),
    nn.Linear(200, 180), nn.GELU(), nn.Linear(180, 10))
  local opt = optim.adamw(model:parameters(), { lr = 1e-3 })
  local step = training.step(model, opt, own, options)
  mrt.seed(5)
  local x, y = mrt.eval(mrt.randn(16, 150), mrt.randint(0, 10, 16))
  step:plan(x, y)
  return { step = step, model = model, opt = opt, x = x, y = y }
end

local function outcome(t) return bits.trained(t.model, t.opt) end

describe("swapping", function()
  after_each(function() core.set_poison(false) end)

  it("changes no bit of random graphs and programs", function()
    core.set_poison(true)
    for seed = 1, graphs do
      local wanted
      for _, options in ipairs { {}, { swap = everything },
        { swap = by_chance(seed), checkpoint = anything(seed) }, { checkpoint = everything } } do
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
        for i, t in ipairs { step() } do all[i] = t:bytes() end
        for _, w in ipairs(leaves) do all[#all + 1] = w:bytes() end
        step()
        for _, w in ipairs(leaves) do all[#all + 1] = w:bytes() end
        wanted = wanted or table.concat(all, "|")
        assert(table.concat(all, "|") == wanted, "seed " .. seed)
      end
    end
    for seed = 1, 3 * graphs do
      math.randomseed(seed)
      local ok, problem = pcall(random_program.run, math.random,
        { swap = seed % 2 == 0 and everything or by_chance(seed),
          checkpoint = seed % 3 == 0 and anything(seed) or nil })
      assert(ok, ("seed %d: %s"):format(seed, problem))
    end
  end)

  it("changes no bit of training, and takes what the plan says to the byte", function()
    local wanted, peak
    for _, name in ipairs { "none", "weights", "optimizer", "all" } do
      for _, options in ipairs { false, { clip = 0.5 } } do
        local before = training.memory()
        local t = trained(swap[name](name ~= "none" and { least = 1 } or nil),
          options or nil)
        local plan = t.step:plan(t.x, t.y)
        assert.equal(plan.peak, plan.persistent + plan.transient + plan.outputs)
        local loss = t.step(t.x, t.y)
        assert.equal(plan.peak + plan.inputs, training.memory().now - before.now)
        assert.equal(plan.swapped, training.memory().swapped - before.swapped)
        mrt.memory { reset = true }
        for _ = 1, 3 do
          loss:free()
          loss = t.step(t.x, t.y)
        end
        assert.equal(plan.peak + plan.inputs, mrt.memory().peak - before.now)
        if not options then
          wanted, peak = wanted or outcome(t), peak or plan.peak
          assert(outcome(t) == wanted, name)
          assert(plan.peak <= peak)
        end
      end
    end
  end)

  it("goes with accumulation and with a budget", function()
    local wanted
    for _, policy in ipairs { false, swap.all { least = 1 } } do
      local before = training.memory().swapped
      local t = trained(policy or nil, nil, { accumulate = 3 })
      t.step(t.x, t.y)
      assert.equal(t.step:plan(t.x, t.y).swapped, training.memory().swapped - before)
      wanted = wanted or outcome(t)
      assert(outcome(t) == wanted)
    end
    local free = trained(swap.all { least = 1 })
    local peak = free.step:plan(free.x, free.y).peak
    local t = trained(swap.all { least = 1 }, nil, { memory = peak + 65536 })
    assert.is_true(t.step:plan(t.x, t.y).peak <= peak + 65536)
  end)

  it("lists its copies: each is waited for, an update comes back", function()
    local t = trained(swap.all { least = 1 })
    local plan = t.step:plan(t.x, t.y)
    local values, ins, outs = plan:values(), 0, 0
    for _, c in ipairs(plan:transfers()) do
      assert.is_true(c.start < c.wait)
      assert.equal("swapped", values[c.swapped].role)
      assert.is_true(values[c.value].first <= c.start and c.wait <= values[c.value].last)
      if c.lane == "in" then ins = ins + c.bytes else outs = outs + c.bytes end
    end
    assert.is_true(ins >= outs and outs > 0)
    assert.matches("swap tier", plan:text())
  end)

  it("draws and writes each copy, and what is fetched apart from activations", function()
    local t = trained(swap.all { least = 1 })
    local plan = t.step:plan(t.x, t.y)
    local page, list = require "mrt.plan.report.html" (plan), plan:transfers()
    assert.equal(#list, select(2, page:gsub("<title>[^<]*T_swap", "")))
    assert.matches("T_swap <= T_compute holds for %d+\nstall", plan:text())
    local json = require "mrt.util.json".decode(require "mrt.plan.report.json" (plan))
    assert.equal(plan.swapped, json.swapped)
    for i, c in ipairs(list) do
      for _, field in ipairs { "lane", "name", "value", "swapped", "bytes", "start", "wait" } do
        assert.equal(c[field], json.transfers[i][field])
      end
      assert.equal("fetched", json.values[c.value].role)
    end
    local whole = 0
    for role, bytes in pairs(json.at_peak) do
      if role ~= "input" and role ~= "swapped" then whole = whole + bytes end
    end
    assert.is_true(whole <= plan.peak)
  end)

  it("takes activations out and brings them back, for less memory", function()
    local wanted, peak
    for _, policy in ipairs { false, function(v) return v.saved and "swap" or "keep" end } do
      mrt.seed(3)
      local layers = {}
      for i = 1, 12, 2 do layers[i], layers[i + 1] = nn.Linear(90, 90), nn.GELU() end
      local model = nn.Sequential(table.unpack(layers))
      local step = mrt.compile(function(x)
        local loss = (model(x) - x):square():mean()
        return loss, table.unpack(mrt.grad(loss, model:parameters()))
      end, { checkpoint = policy or nil })
      mrt.seed(5)
      local x = mrt.eval(mrt.randn(400, 90))
      local plan, all = step:plan(x), {}
      for i, t in ipairs { step(x) } do all[i] = t:bytes() end
      wanted, peak = wanted or table.concat(all), peak or plan.transient
      assert(table.concat(all) == wanted)
      if policy then
        assert.is_true(plan.transient < 0.6 * peak and plan.stall > 0)
        assert.equal(0, plan.swapped % 4096)
      end
    end
  end)

  it("lets other functions read, write and print what is swapped", function()
    local t, u = trained(swap.all { least = 1 }), trained(swap.none())
    local w, v = t.model:parameters()[1], u.model:parameters()[1]
    local read = mrt.compile(function() return w:sum() end)
    local function both(f)
      assert.equal(tostring(f(u, v)), tostring(f(t, w)))
    end
    for _ = 1, 3 do
      both(function(s) return s.step(s.x, s.y) end)
      assert.equal(read():item(), w:sum():item())
      both(function(_, p) return p end)
      both(function(_, p) return p:slice(1, 1, 2):sum() end)
      both(function(_, p) p:assign(p * 0.5) return p:mean() end)
      both(function(s) return outcome(s) end)
    end
    assert.equal(t.step(t.x, t.y):item(), u.step(u.x, u.y):item())
    local before = training.memory().now
    assert.equal(#w:bytes(), w:nbytes())
    assert.equal(before, training.memory().now) -- and it has left again
  end)

  it("shares homes between functions", function()
    local before = training.memory().swapped
    local w = mrt.variable(mrt.ones(300, 300), "w")
    local add = mrt.compile(function() w:assign(w + 1) end, { swap = everything })
    local sum = mrt.compile(function() return w:sum() end, { swap = everything })
    for i = 1, 3 do
      add()
      assert.equal(90000 * (i + 1), sum():item())
    end
    assert.equal(before + 360448, training.memory().swapped) -- 360,000 in pages of 4 KiB
    assert.has_error(function()
      mrt.compile(function(x) return x + w end, { swap = everything })(w)
    end)
  end)

  it("gives homes back", function()
    local before = training.memory().swapped
    do
      local w = mrt.variable(mrt.ones(300, 300))
      mrt.compile(function() w:assign(w + 1) end, { swap = everything })()
      assert.is_true(mrt.memory().swapped > before)
    end
    assert.equal(before, training.memory().swapped)
  end)

  it("refuses nonsense with the variable and its line", function()
    local function refused(text, option)
      local ok, problem = pcall(function()
        local t = trained(option)
        t.step(t.x, t.y)
      end)
      assert.is_false(ok)
      assert.matches(text, tostring(problem))
    end
    refused("option 'swap': a policy or a function wanted, got 7", 7)
    refused("the policy %(spec/plan/swap_spec.lua:%d+%) answered nil for 't' f32%[%] "
      .. "%(spec/plan/swap_spec.lua:%d+%).*\"keep\" or \"swap\" wanted", function() end)
    refused("failed on 't' f32%[%] .*: my own", function() error("my own", 0) end)
    refused("failed on .*: the error object is a table", function() error {} end)
    refused("read%-only", function(v) v.bytes = 0 end)
    refused("policy.swap.all makes a policy and must be called", swap.all)
    assert.has_error(function() swap.weights { least = "much" } end)
    assert.has_error(function() swap.weights { most = 1 } end)
    assert.has_error(function() mrt.swap_folder "/nowhere" end)
    assert.has_error(function() mrt.swap_folder "" end)
  end)
end)

local big = [[
  local mrt = require "mrt"
  local nn, optim, swap = mrt.nn, mrt.optim, mrt.policy.swap
  local layers = {}
  for i = 1, 12 do
    layers[#layers + 1], layers[#layers + 2] = nn.Linear(1024, 1024), nn.ReLU()
  end
  local model = nn.Sequential(table.unpack(layers))
  local opt = optim.adamw(model:parameters())
  local step = mrt.compile(function(x)
    local loss = (model(x) - x):square():mean()
    opt:step(mrt.grad(loss, model:parameters()))
    return loss
  end, { swap = swap.all() })
  local x = mrt.randn(32, 1024)
]]

describe("a process that swaps", function()
  it("trains a model three times its memory #process", function()
    local out = program.script(big .. [[
      local function status(name)
        for line in io.lines "/proc/self/status" do
          local kib = line:match("^" .. name .. ":%s*(%d+)")
          if kib then return kib * 1024 end
        end
      end
      mrt.eval(x)
      local before = status "VmRSS"
      local plan = step:plan(x)
      for i = 1, 3 do step(x):item() end
      print(plan.peak, plan.swapped, status "VmHWM" - before)]])
    local peak, swapped, grown = out:match "(%d+)%s+(%d+)%s+(%-?%d+)"
    assert(peak, out)
    assert(peak + swapped >= 3 * peak, out)
    assert(grown + 0 <= peak + (16 << 20), out)
  end)

  it("finds a full disk before the step starts, and may try again", function()
    local out = program.script(big .. [[
      local ok, problem = pcall(step, x)
      print(ok, problem, problem.code, model:parameters()[1]:sum():item())]],
      "ulimit -f 20000;")
    assert.matches("^false", out)
    assert.matches("swap file: %d+ bytes wanted, %d+ more than it has in %S+: "
      .. "File too large %(ulimit %-f%); another folder would do", out)
    assert.matches("device%s+%-?%d", out)
    out = program.script("local mrt = require 'mrt' mrt.swap_folder '/nowhere/at/all'" .. big .. [[
      print(pcall(step, x))]])
    assert.matches("no swap file in /nowhere/at/all: No such file", out)
  end)

  it("may choose its folder until something is swapped", function()
    local out = program.script [[
      local mrt = require "mrt"
      local w = mrt.parameter(mrt.zeros(128, 128), "w")
      local step = mrt.compile(function() w:assign(w + 1) end,
        { swap = mrt.policy.swap.all() })
      mrt.swap_folder "/tmp"
      print(pcall(mrt.swap_folder, "/nowhere"))
      mrt.swap_folder "."
      step()
      print(w:sum():item(), pcall(mrt.swap_folder, "/tmp"))]]
    assert.matches("^false.-no swap file in /nowhere: No such file or directory; "
      .. "another folder would do", out)
    assert.matches("\n16384.0%sfalse.-the swap file has 65536 bytes already", out)
  end)

  it("leaves no file behind, however it ends", function()
    local folder = files.folder()
    program.script(big .. "step(x) step(x) os.exit(1, true)", "TMPDIR=" .. folder)
    program.script(big .. "step(x) os.exit(1)", "TMPDIR=" .. folder)
    assert(os.execute("rmdir " .. folder))
  end)
end)
