-- recording_spec.lua -- a plan is recorded once, whatever its inputs and results
-- are, and done without where that fails
--
-- MRT_CUDA names the plug-in.  How often the emulated device has been asked for a
-- graph is what it tells at the end (MRT_EMULATE_COUNT).
local mrt = require "mrt"
local program = require "support.program"
local failure = require "support.failure"

local library = os.getenv "MRT_CUDA"

if not library then
  describe("recordings on a CUDA device", function()
    pending "MRT_CUDA names no plug-in"
  end)
  return
end

local emulated = library:find("emulated", 1, true) ~= nil

-- Every script prints what it has computed, bit for bit.
local head = [[
  local mrt = require "mrt"
  local core = require "mrt.core"
  local nn, optim = mrt.nn, mrt.optim
  mrt.device "cuda:0"
  mrt.seed(3)
  local model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 4))
  local opt = optim.adamw(model:parameters(), { lr = optim.cosine { lr = 1e-2, steps = 60 } })
  local function fn(x, y)
    local p = model(x)
    local d = p - y
    local loss = (d * d):mean()
    opt:step(mrt.grad(loss, opt:parameters()), { clip = 1 })
    return loss, p
  end
  local function batch(rows)
    return mrt.eval(mrt.randn(rows or 6, 8)), mrt.eval(mrt.randn(rows or 6, 4))
  end
  local function show(...)
    for _, t in ipairs { ... } do
      for _, x in ipairs(t) do
        print("bits " .. x:bytes():gsub(".", function(c) return ("%02x"):format(c:byte()) end))
      end
    end
  end
]]

local scripts = {
  ["a loop that keeps its results"] = { 1, 29, [[
    local step, losses, rows = mrt.compile(fn), {}, {}
    for i = 1, 30 do losses[i], rows[i] = step(batch()) end
    show(losses, rows, opt:parameters())
  ]] },
  ["a thousand steps"] = { 1, 999, [[
    local step, loss = mrt.compile(fn)
    for i = 1, 1000 do loss = step(batch()) end
    show({ loss }, opt:parameters())
  ]] },
  ["a loop that seeds each step and reads its losses"] = { 1, 29, [[
    local step, losses = mrt.compile(fn), {}
    for i = 1, 30 do
      mrt.seed(i)
      losses[i] = step(batch())
      losses[i]:item()
    end
    show(losses, opt:parameters())
  ]] },
  -- Of 4, 4 and 2 rows, and what comes after them.
  ["micro-batches"] = { 3, 45, [[
    local step, losses, rows = mrt.compile(fn, { accumulate = 3 }), {}, {}
    for i = 1, 12 do losses[i], rows[i] = step(batch(10)) end
    show(losses, rows, opt:parameters())
  ]] },
  ["micro-batches within a budget"] = { nil, nil, [[
    local x, y = batch(10)
    local step = mrt.compile(fn, { accumulate = 2 })
    local plan = step:plan(x, y)
    step = mrt.compile(fn, { accumulate = 2, memory = plan.device.overhead + plan.peak - 64 })
    local losses = {}
    for i = 1, 5 do losses[i] = step(x, y) end
    show(losses, opt:parameters())
  ]] },
  ["train.run"] = { 1, 29, [[
    local loader = { next = function() return batch() end }
    mrt.train.run { model = model, optimizer = opt, loader = loader, steps = 30,
      step = mrt.compile(fn), log_every = 1000 }
    show(opt:parameters())
  ]] },
  -- An input is a result of the plan, of another, a variable, the same twice.
  ["results that are inputs"] = { 2, 58, [[
    local w = mrt.variable(mrt.ones(5, 5))
    local a = mrt.compile(function(h, x)
      w:assign(w * 0.9 + 0.01)
      return (h:matmul(w) + x):tanh(), h * 1, x
    end)
    local b = mrt.compile(function(h, u, x) return h * u - x, h end)
    local h, kept = mrt.eval(mrt.randn(5, 5)), {}
    local u, x = w, h
    for i = 1, 30 do
      local before = h
      h, kept[#kept + 1], kept[#kept + 2] = a(h, h)
      h, x = b(h, i % 3 == 0 and w or before, x)
      if i % 7 == 0 then collectgarbage() end
      kept[#kept + 1] = h
    end
    show(kept, { w, h, x })
  ]] },
  -- What a plan has given is a constant of another, and moves.
  ["a result that another plan holds"] = { nil, nil, [[
    local a = mrt.compile(function(x) return x * 2 end)
    local first = a(mrt.eval(mrt.randn(3, 3)))
    local b = mrt.compile(function(x) return x + first end)
    local kept = { first }
    for i = 1, 8 do
      kept[#kept + 1] = b(mrt.eval(mrt.randn(3, 3)))
      kept[#kept + 1] = a(mrt.eval(mrt.randn(3, 3)))
    end
    show(kept)
  ]] },
  ["a variable that took a result"] = { nil, nil, [[
    local w = mrt.variable(mrt.ones(3, 3))
    local a = mrt.compile(function(x)
      w:assign(w * 0.5)
      return w + x
    end)
    local kept = {}
    for i = 1, 8 do
      local r = a(mrt.eval(mrt.randn(3, 3)))
      if i % 2 == 0 then w:assign(r) end
      kept[i] = r
    end
    show(kept, { w })
  ]] },
  ["plans of one function that take turns"] = { 2, 28, [[
    local step, losses = mrt.compile(fn), {}
    for i = 1, 30 do losses[i] = step(batch(i % 2 == 0 and 6 or 9)) end
    show(losses, opt:parameters())
  ]] },
}

local function run(name, before)
  return program.script(head .. scripts[name][3], before)
end

local function bits_in(said)
  local lines = {}
  for line in said:gmatch "bits %x+" do lines[#lines + 1] = line end
  return #lines > 0 and table.concat(lines, "\n") or said
end

-- What it prints, and how often the device was asked for what.
local function counted(name, before)
  local out, count = run(name, "MRT_EMULATE_COUNT=1 " .. (before or "")), {}
  for n, what in out:gmatch "emulated device: (%d+) ([^\n]*)" do count[what] = tonumber(n) end
  return bits_in(out), count, out
end

describe("recordings on a CUDA device", function()
  for name, script in pairs(scripts) do
    it("are one of each plan, with the same bits: " .. name, function()
      local wanted = bits_in(run(name, "MRT_CUDA_GRAPHS=off"))
      assert.truthy(wanted:find "^bits ", wanted)
      local said, count = counted(name)
      assert.are.equal(wanted, said)
      if not emulated then return end
      local made = count.cudaGraphInstantiate or 0
      if script[1] then assert.are.equal(script[1], made) end
      if script[2] then assert.are.equal(script[2], count.cudaGraphLaunch) end
      assert.are.equal(made, count.cudaStreamEndCapture or 0)
    end)
  end

  it("are done without where CUDA fails to make them", function()
    if not emulated then return pending "not the emulated device" end
    for _, name in ipairs { "a loop that keeps its results", "micro-batches" } do
      local wanted = bits_in(run(name))
      for _, at in ipairs { "begin", "inside", "end", "instantiate" } do
        local said, count, out = counted(name, "MRT_EMULATE_CAPTURE=" .. at)
        local _, told = out:gsub("cannot be recorded as one launch: cuda:0: cuda%w+: ", "")
        assert.are.equal(1, told, out)
        assert.are.equal(wanted, said, at)
        assert.is_nil(count.cudaGraphLaunch)
        -- it is not tried again
        local ended = at == "instantiate" and scripts[name][1] or nil
        assert.are.equal(ended, count.cudaStreamEndCapture, at)
      end
    end
  end)

  it("have places for inputs in the plan's bytes", function()
    mrt.device "cuda:0"
    local step = mrt.compile(function(x) return x:relu():sum() end)
    local x = mrt.eval(mrt.randn(1000))
    local plan = step:plan(x)
    assert.are.equal(4096, plan.slots)
    assert.are.equal(plan.peak, plan.persistent + plan.transient + plan.outputs)
    assert.is_true(plan.transient >= plan.slots)
    assert.truthy(plan:text():find("where inputs are copied to", 1, true))
    mrt.device "cpu"
    local here = mrt.compile(function(y) return y:relu():sum() end)
    assert.is_nil(here:plan(mrt.eval(mrt.randn(1000))).slots)
  end)
end)

describe("the count of updates on a CUDA device", function()
  after_each(function() mrt.device "cpu" end)

  local rows = 11

  -- A step over an embedding, which an index out of range breaks.
  local function stepper(lr, options)
    mrt.device "cuda:0"
    mrt.seed(1)
    local table_of = mrt.parameter(mrt.randn(rows, 4), "table")
    local opt = mrt.optim.sgd({ table_of }, { lr = lr })
    local step = mrt.compile(function(ids, times)
      local loss = table_of:embedding(ids):sum() * times
      opt:step(mrt.grad(loss, { table_of }))
      return loss
    end, options)
    return step, opt
  end

  local good, bad, one

  before_each(function()
    mrt.device "cuda:0"
    good, bad = mrt.eval(mrt.tensor({ 1, 2 }, "i32")), mrt.eval(mrt.tensor({ 1, 99 }, "i32"))
    one = mrt.eval(mrt.ones {})
  end)

  it("does not wait for the step under way", function()
    local asked = {}
    local step, opt = stepper(function(n)
      asked[#asked + 1] = n
      return 0.1 / n
    end)
    for i = 1, 3 do step(good, one) assert.are.equal(i, #asked) end
    step(bad, one)
    -- That step is not done: to read what it writes would tell its index.
    assert.are.equal(0.1 / 5, opt:rate())
    local told = failure(function() return step(good, one):item() end)
    assert.truthy(tostring(told):find("0 to 10 wanted", 1, true))
    local updates = opt.t:item()
    assert.is_true(updates < 5)
    assert.are.equal(0.1 / (updates + 1), opt:rate())
    step(good, one)
    step(good, one)
    assert.are.equal(0.1 / (updates + 3), opt:rate())
    assert.are.equal(updates + 2, opt.t:item())
  end)

  it("is read anew after a state was loaded or the variable set", function()
    local step, opt = stepper(function(n) return n end)
    step(good, one)
    local state = {}
    for name, t in pairs(opt:state()) do state[name] = mrt.eval(t:copy()) end
    step(good, one)
    step(good, one)
    assert.are.equal(4, opt:rate())
    opt:load_state(state)
    assert.are.equal(2, opt:rate())
    step(good, one)
    opt.t:assign(40)
    assert.are.equal(41, opt:rate())
    step(good, one)
    assert.are.equal(42, opt:rate())
    step:profile(good, one)
    assert.are.equal(42, opt:rate())
    step(good, one)
    assert.are.equal(43, opt:rate())
  end)

  it("counts each of several updates in a step", function()
    mrt.device "cuda:0"
    local p = mrt.parameter(mrt.ones(3), "p")
    local asked = {}
    local opt = mrt.optim.sgd({ p }, { lr = function(n) asked[#asked + 1] = n return 0.1 end })
    local step = mrt.compile(function()
      opt:step { p * 1 }
      opt:step { p * 1 }
    end)
    for _ = 1, 4 do step() end
    assert.are.equal(8, opt.t:item())
    assert.are.equal(9, math.tointeger(opt.t:item()) + 1)
    assert.are.same({ 1, 1, 3, 3, 5, 5, 7, 7 }, asked)
  end)

  it("knows of a skipped update one step late", function()
    mrt.device "cuda:0"
    local p = mrt.parameter(mrt.ones(3), "p")
    local asked = {}
    local opt = mrt.optim.sgd({ p }, { lr = function(n) asked[#asked + 1] = n return 0.1 end })
    local step = mrt.compile(function(when)
      opt:step({ p * 1 }, { when = when:gt(0) })
    end)
    local yes, no = mrt.eval(mrt.ones {}), mrt.eval(mrt.zeros {})
    for i = 1, 9 do step((i == 4 or i == 5) and no or yes) end
    --            skipped: 4  5
    assert.are.same({ 1, 2, 3, 4, 5, 5, 5, 6, 7 }, asked)
    assert.are.equal(7, opt.t:item())
    step(yes)
    assert.are.equal(8, asked[10])
  end)
end)
