--- cost_spec.lua -- predicted times, device profiles, measured steps
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local json = require "mrt.util.json"
local cache = require "mrt.device.cache"
local read = require "mrt.device.read"
local files = require "support.files"
local training = require "support.training"
local nn, optim, device = mrt.nn, mrt.optim, mrt.device

local program = require "support.program"

local function with_file(text, act) act(files.temporary(text)) end

local function plan_of(fn, ...) return mrt.compile(fn):plan(...) end

local function time_of(class, fn, ...)
  local sum = 0
  for _, s in ipairs(plan_of(fn, ...):steps()) do
    if s.class == class then sum = sum + s.time end
  end
  return sum
end

local function training_step(options)
  mrt.seed(7)
  local model = nn.Sequential(nn.Embedding(9, 16), nn.Dropout(0.2), nn.GELU(),
    nn.Linear(16, 9))
  local opt = optim.adamw(model:parameters(), { lr = 0.01 })
  return training.step(model, opt, options), mrt.randint(0, 9, 32), mrt.randint(0, 9, 32), opt
end

before_each(function() device.use "declared" end)
teardown(function()
  device.use "declared"
  device.available(true)
end)

describe("a predicted time", function()
  it("exists for every operator: each row says its kind of work", function()
    local views = {}
    local file <close> = assert(io.open "core/ops.def")
    for name in file:read("a"):gmatch "\nVIEW%(([%w_]+)%)" do views[name] = true end
    local kinds = core.device().rate
    for _, op in ipairs(core.operators()) do
      assert.is_truthy(kinds[op.class], op.name)
      assert.equal(views[op.name] or false, op.class == "view", op.name)
    end
  end)

  it("is a pure function, and the sum of its steps and the call", function()
    local step, x, y = training_step()
    local plan = step:plan(x, y)
    local again = (training_step()):plan(x, y)
    assert.equal(plan.seconds, again.seconds)
    local sum = core.device().call
    for _, s in ipairs(plan:steps()) do
      assert.is_true(s.time > 0 and s.time < 1, s.op)
      sum = sum + s.time
    end
    assert.near(plan.seconds, sum, 1e-12)
    assert.same(core.device(), plan.device)
  end)

  it("grows with the work", function()
    local function product(m, n, k)
      return time_of("matmul", function(a, b) return a:matmul(b) end,
        mrt.zeros(m, k), mrt.zeros(k, n))
    end
    assert.near(8, product(1024, 1024, 1024) / product(512, 512, 512), 0.5)
    -- as much work in a thin product takes longer
    assert.is_true(product(4, 1024, 1024) > 1.5 * product(128, 128, 256))
    -- nor is it the same in convolutions of few places, least so back to weights
    local function convolution(kind, side, channels)
      return time_of(kind, function(x, w)
        local y = x:conv2d(w)
        return y, table.unpack(mrt.grad(y:sum(), { x, w }))
      end, mrt.zeros(8, channels, side, side), mrt.zeros(channels, channels, 1, 1))
    end
    local ratio = {}
    for i, kind in ipairs { "convolution", "convolution_dx", "convolution_dw" } do
      ratio[i] = convolution(kind, 2, 512) / convolution(kind, 16, 64)
    end
    assert.is_true(1 < ratio[1] and ratio[1] < ratio[2] and ratio[2] < ratio[3])
    local function sum(n)
      return time_of("pointwise", function(a) return a + a end, mrt.zeros(n))
    end
    assert.near(2, sum(1 << 23) / sum(1 << 22), 0.2)
    local function attend(T)
      local q = mrt.zeros(1, T, 2, 64)
      return time_of("attention", function(x)
        return (core.op.attention(x, x, x, { causal = true }))
      end, q)
    end
    assert.near(4, attend(4096) / attend(2048), 0.3)
  end)

  it("of a product is that of what its factors are multiplied in", function()
    local given = core.device()
    given.matrix.bf16, given.matrix.f16 = 4 * given.matrix.f32, 0
    given.bandwidth, given.cache_bandwidth = 1e15, 1e15
    core.set_device(given)
    local function product(a, b)
      return time_of("matmul", function(x, y) return x:matmul(y) end,
        mrt.zeros(512, 512, { dtype = a }), mrt.zeros(512, 512, { dtype = b }))
    end
    local function under(policy)
      local plan = mrt.compile(function(x, w) return x:matmul(w) end,
        { precision = policy }):plan(mrt.zeros(512, 512), mrt.zeros(512, 512))
      for _, s in ipairs(plan:steps()) do
        if s.class == "matmul" then return s.time end
      end
    end
    local wide = product("f32", "f32")
    for _, narrow in ipairs { "bf16", "f8_e4m3", "f8_e5m2" } do
      assert.near(4, wide / product(narrow, "bf16"), 0.1)
      assert.near(1, wide / product(narrow, "f32"), 0.01)
    end
    assert.near(1, wide / product("f16", "f16"), 0.01)
    assert.near(4, wide / under(mrt.policy.precision.bf16()), 0.1) -- its result is f32
    assert.near(1, wide / under(mrt.policy.precision.f16()), 0.01)
  end)

  it("of a fused chain is that of its kinds", function()
    local function plan()
      local steps = plan_of(function(x) return core.op.gelu(x * 2) + 1 end,
        mrt.zeros(1 << 16)):steps()
      return steps[#steps]
    end
    local before = plan()
    assert.equal("mul+gelu+add", before.op)
    assert.equal("activation", before.class)
    local faster = core.device()
    faster.rate.activation = faster.rate.activation * 4
    core.set_device(faster)
    assert.is_true(plan().time < 0.8 * before.time)
  end)

  it("counts of a view what it shows, of a broadcast what is there", function()
    local x = mrt.zeros(64, 1000)
    local steps = plan_of(function(t) return t:slice(1, 1, 2):softmax(2) end, x):steps()
    assert.equal(2 * 2 * 1000 * 4, steps[#steps].bytes)
  end)
end)

describe("a device profile", function()
  it("is shipped for cards that are not here, with sources", function()
    for _, profile in ipairs(device.list()) do
      local flat, message = read.table(profile)
      assert.is_truthy(flat, message)
      assert.is_string(profile.source)
      assert.equal(profile, device.use(profile.name))
      local step, x, y = training_step()
      local plan = step:plan(x, y)
      assert.equal(profile.name, plan.device.name)
      assert.equal(profile.memory.capacity // 1, plan.device.capacity)
      for _, v in ipairs(plan:values()) do assert.equal(0, v.offset % 256) end
    end
    assert.equal("a100-40", device.find("A100_40").name)
  end)

  it("says which field is wrong", function()
    local function good()
      return { name = "x", memory = { capacity = 1e9, bandwidth = 1e9 },
        flops = { f32 = 1e12 } }
    end
    assert.is_truthy(read.table(good()))
    local cases = {
      { "name", function(p) p.name = nil end },
      { "memory.capacity", function(p) p.memory.capacity = nil end },
      { "memory.bandwidth", function(p) p.memory.bandwidth = -1 end },
      { "memory.bandwith", function(p) p.memory.bandwith = 1 end },
      { "flops.f32", function(p) p.flops.f32 = 0 end },
      { "flops.f31", function(p) p.flops.f31 = 1 end },
      { "rate.gemm", function(p) p.rate = { gemm = 1 } end },
      { "rate.norm", function(p) p.rate = { norm = 0 / 0 } end },
      { "edge.matmul", function(p) p.edge = { matmul = { 1, 2 } } end },
      { "edge.matmul.4", function(p) p.edge = { matmul = { 1, 2, 3, 4 } } end },
      { "efficiency", function(p) p.efficiency = 2 end },
      { "cache.capacity", function(p) p.cache = { bandwidth = 1 } end },
      { "swap.speed", function(p) p.swap = { speed = 1 } end },
      { "launch", function(p) p.launch = math.huge end },
      { "launch", function(p) p.launch = "soon" end },
      { "7", function(p) p[7] = 1 end },
    }
    for _, case in ipairs(cases) do
      local p = good()
      case[2](p)
      local flat, message = read.table(p)
      assert.is_nil(flat)
      assert.matches("'" .. case[1] .. "'", message, 1, true)
      assert.has_error(function() device.use(p) end)
    end
    assert.is_nil((read.table(7)))
    local p = good()
    p.align = 3
    assert.has_error(function() device.use(p) end)
    assert.is_nil((device.use "no-such-card"))
  end)

  it("of a file sees nothing but its text", function()
    for _, text in ipairs { "return {", "os.exit(1)", "return 7", "\27Lua" } do
      with_file(text, function(path)
        local profile, message = read.file(path)
        assert.is_nil(profile)
        assert.is_string(message)
      end)
    end
  end)

  it("survives being written and read", function()
    local profile = device.find "h100"
    with_file(cache.text(profile), function(path)
      assert.same(read.table(profile), read.table((assert(read.file(path)))))
    end)
  end)

  it("of this machine takes declared figures where it lacks any", function()
    local declared = core.device()
    local profile = { name = "old", key = cache.key(),
      memory = { capacity = 1e9, bandwidth = 1e9 },
      flops = { f32 = 2 * declared.matrix.f32 }, rate = { norm = 7 } }
    device.use(profile)
    local now = core.device()
    for name, figure in pairs(declared.matrix) do assert.equal(2 * figure, now.matrix[name]) end
    assert.same({ 7, 2 * declared.rate.pooling }, { now.rate.norm, now.rate.pooling })
    assert.same(declared.edge, now.edge)
    profile.key = "another machine"
    device.use(profile)
    assert.equal(0, core.device().matrix.bf16)
  end)

  it("has rates to files and back, with and without company", function()
    local rates = core.measure_swap(1 << 16)
    for _, name in ipairs { "latency", "out", "in", "out_shared", "in_shared" } do
      assert.is_true(rates[name] > 0, name)
    end
  end)

  it("measured from this machine makes sense #long", function()
    local profile = device.profile { save = false }
    assert.is_truthy(read.table(profile))
    assert.equal(profile.name, core.device().name)
  end)
end)

describe("the kept profile", function()
  local script = [[
local cache = require "mrt.device.cache"
local device = require "mrt.device"
local p = device.find "h100"
local function state() return tostring(cache.load() and cache.load().name) end
io.write(state(), " ")
local own = {}
for k, v in pairs(p) do own[k] = v end
own.key = arg[1] == "foreign" and "another machine" or cache.key()
assert(cache.save(own))
if arg[1] == "corrupt" then
  io.open(cache.path(), "w"):write("return {name = "):close()
end
io.write(state(), " ", device.current().name)
]]
  local function try(kind)
    local folder, answer = files.name(), nil
    with_file(script, function(path)
      answer = select(2, program.shell(("MRT_DEVICE= XDG_CACHE_HOME=%s %s %s %s")
        :format(folder, program.path, path, kind)))
    end)
    return answer
  end

  it("is used when it is there", function()
    assert.equal("nil h100 h100", try "good")
  end)

  it("is as good as none when it is corrupt or another machine's", function()
    assert.matches("^nil nil cpu%-", try "corrupt")
    assert.matches("^nil nil cpu%-", try "foreign")
  end)
end)

describe("a measured file", function()
  it("predicts copies, but no budget is met by it while recomputing does", function()
    local swap = { capacity = 1e12, read = 5e9, write = 3e9, latency = 1e-4, guessed = false }
    local profile = { name = "here", key = cache.key(), swap = swap,
      memory = { capacity = 1e12, bandwidth = 1e10 }, flops = { f32 = 1e11 } }
    device.use(profile)
    local now = core.device()
    assert.same({ 5e9, 3e9, false }, { now.swap_read, now.swap_write, now.swap_known })
    profile.key = nil -- a machine that a script describes
    device.use(profile)
    assert.is_true(core.device().swap_known)
    device.use "declared"
  end)
end)

describe("mrt plan --device", function()
  local script = [[
local mrt = require "mrt"
local w = mrt.variable(mrt.zeros(4096, 4096))
mrt.compile(function(x) return x:matmul(w) end)(mrt.zeros(512, 4096))
]]

  it("predicts for a card that is not here", function()
    with_file(script, function(path)
      local status, text = program.run("plan --json --device a100-40 " .. path)
      assert.equal(0, status)
      local plan = json.decode(text)
      assert.equal("a100-40", plan.device.name)
      assert.equal(256, plan.device.align)
      -- 17 Gflop at 15 Tflop/s and less
      assert.is_true(plan.seconds > 1e-3 and plan.seconds < 3e-3)
      assert.equal("matmul", plan.steps[1].class)
    end)
  end)

  it("holds the step against the card's memory", function()
    with_file(script, function(path)
      with_file([[return {name = "small", flops = {f32 = 1e12},
        memory = {capacity = 1e6, bandwidth = 1e9}}]], function(small)
        local status, text = program.run(("plan --device %s %s"):format(small, path))
        assert.equal(1, status)
        assert.matches("has 1,000,000 ", text, 1, true)
      end)
    end)
    local status, text = program.run "plan --device nope x.lua"
    assert.equal(1, status)
    assert.is_truthy(text:find("no device 'nope'", 1, true)
      or text:find("x.lua", 1, true))
  end)
end)

describe("available memory", function()
  it("refuses a run before it begins, and can be overridden", function()
    local step, x, y, opt = training_step()
    mrt.eval(x, y)
    device.available(1000)
    local ok, problem = pcall(step, x, y)
    assert.is_false(ok)
    assert.equal("out of memory", problem.code)
    assert.matches(("%d"):format(step:plan(x, y).peak), tostring(problem), 1, true)
    assert.matches("and 1000 B are available; the largest part is ", tostring(problem), 1, true)
    device.available(false)
    step(x, y)
    assert.equal(1, opt.t:item())
    device.available(1000) -- nothing more has to be had
    step(x, y)
    device.available(true)
    assert.is_true(device.available() > 0)
  end)
end)

describe("a profiled step", function()
  it("changes nothing: the same bits follow, random numbers too", function()
    local function losses(profiled)
      local step, x, y, opt = training_step()
      local out = {}
      for i = 1, 4 do
        if i == profiled then step:profile(x, y) end
        out[i] = step(x, y):item()
      end
      return table.concat(out, " "), opt.t:item()
    end
    local plain = losses()
    assert.equal(plain, (losses(1)))
    assert.equal(plain, (losses(3)))
    assert.equal(4, select(2, losses(2)))
  end)

  it("is planned again with what it took", function()
    local step, x, y = training_step()
    local before = step:plan(x, y)
    local profile = step:profile(x, y)
    assert.equal(before.seconds, profile.predicted)
    local after, costs = step:plan(x, y), profile:costs()
    assert.not_equal(before, after)
    local sum = costs[0]
    for i, s in ipairs(profile.steps) do
      assert.is_true(s.measured >= 0)
      assert.equal(s.op, after:steps()[i].op)
      assert.equal(costs[s.key], after:steps()[i].time)
      sum = sum + costs[s.key]
    end
    assert.near(sum, after.seconds, 1e-9)
    assert.matches("predicted were", tostring(profile), 1, true)
    assert.equal(before.peak, after.peak)
  end)

  it("that swaps is planned again with the rates of the file", function()
    local step, x, y = training_step { swap = mrt.policy.swap.all { least = 1 } }
    step(x, y)
    local rates = step:profile(x, y).rates
    for _, t in ipairs(step:plan(x, y):transfers()) do
      assert.near(rates.latency + t.bytes / rates[t.lane], t.time, 1e-9)
    end
  end)

  it("may have micro-batches, as many as the step asks for", function()
    local counts = { 1, 3, 1, 4, 3 }
    local function losses(profiled)
      local step, x, y = training_step { accumulate = function(i) return counts[i] end }
      local out = {}
      for i in ipairs(counts) do
        if i == profiled then
          local before, profile = step:plan(x, y), step:profile(x, y)
          local after, costs = step:plan(x, y), profile:costs()
          local sum = profile.runs * costs[0]
          for _, s in ipairs(profile.steps) do sum = sum + s.runs * costs[s.key] end
          assert.equal(before.seconds, profile.predicted)
          assert.equal(counts[i] == 1 and 1 or counts[i] + 1, profile.runs)
          assert.near(sum, after.seconds, 1e-9)
          assert.equal(before.peak, after.peak)
        end
        out[i] = step(x, y):item()
      end
      return table.concat(out, " ")
    end
    local plain = losses()
    for i in ipairs(counts) do assert.equal(plain, losses(i)) end
  end)

  it("that fails leaves everything as it was", function()
    local step, x, y, opt = training_step()
    step(x, y)
    local weights = opt:parameters()[1]:bytes()
    assert.has_error(function() step:profile(x + 9, y) end)
    assert.equal(weights, opt:parameters()[1]:bytes())
    assert.equal(1, opt.t:item())
    step(x, y)
    assert.equal(2, opt.t:item())
  end)
end)
