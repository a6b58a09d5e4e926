-- device_spec.lua -- a device with memory of its own, which queues its work
--
-- MRT_CUDA names the plug-in: that of a GPU, or the emulated one.  What single
-- operators promise is in ops_spec.lua, with MRT_SPEC_DEVICE=cuda:0.
local mrt = require "mrt"
local core = require "mrt.core"
local program = require "support.program"
local failure = require "support.failure"
local bits = require("support.bits").of
local training = require "support.training"

local nn, optim = mrt.nn, mrt.optim
local library = os.getenv "MRT_CUDA"

local run = program.script

local function message_of(...) return tostring(failure(...)) end

if not library then
  describe("a CUDA device", function()
    pending "MRT_CUDA names no plug-in"
  end)
  return
end

local cases = { vocab = 11, dim = 16, layers = 2, heads = 2, context = 8 }

-- A small GPT and a step of AdamW over it, on the present device.
local function trainer(options)
  mrt.seed(3)
  local model = nn.GPT(cases)
  local params = model:parameters()
  local opt = optim.adamw(params, { lr = 1e-2, weight_decay = 0.1 })
  return training.step(model, opt, options), params
end

local function batch(i)
  mrt.seed(100 + i)
  local ids = mrt.randint(0, cases.vocab, 3, cases.context + 1)
  return mrt.eval(ids:slice(2, 1, cases.context):copy()),
    mrt.eval(ids:slice(2, 2, cases.context + 1):copy())
end

-- Train and return the losses, and the bytes of all parameters.
local function train(device, steps, options)
  mrt.device(device)
  local step, params = trainer(options)
  local losses = {}
  for i = 1, steps do
    losses[i] = step(batch(i)):item()
  end
  return losses, bits(params), step
end

-- What three updates leave: the parameter and the optimizer's state, by name.
local function updated(device, dtype, make)
  mrt.device "cpu"
  mrt.seed(5)
  local start, grads = mrt.randn(5003):to(dtype), {}
  for i = 1, 3 do
    grads[i] = mrt.eval(mrt.randn(5003):to(dtype))
  end
  mrt.device(device)
  mrt.seed(9)
  local p = mrt.parameter(start:to(device), "p")
  local opt = make { p }
  local step = mrt.compile(function(g)
    opt:step { g }
  end)
  for i = 1, 3 do
    step(grads[i]:to(device))
  end
  local all = opt:state()
  all.p = p
  for name, t in pairs(all) do
    all[name] = t:to "f32":totable()
  end
  return all
end

describe("a CUDA device", function()
  after_each(function()
    mrt.device "cpu"
  end)

  it("is chosen by name, and says why it cannot be", function()
    assert.are.equal("cpu", mrt.device())
    assert.are.equal("cuda:0", mrt.device "cuda")
    assert.are.equal("cuda:0", mrt.device())
    assert.truthy(message_of(mrt.device, "cuda:99"):find("cuda:99: there", 1, true))
    assert.truthy(message_of(mrt.device, "cuba"):find("no device 'cuba'", 1, true))
    assert.are.equal("cuda:0", mrt.device())
  end)

  it("declares what its attributes say", function()
    if not library:find("emulated", 1, true) then return pending "not the emulated device" end
    local script = [[
      local mrt = require "mrt"
      mrt.device "cuda:0"
      local d = require "mrt.core".device()
      print(d.bandwidth, d.matrix.f32, d.matrix.bf16, d.rate.norm)]]
    local function figures(before)
      local list = {}
      for x in run(script, "MRT_DEVICE=declared " .. before):gmatch "%S+" do
        list[#list + 1] = tonumber(x)
      end
      return list
    end
    local h100 = figures ""
    local sheet = { 3350e9, 67e12, 989.4e12, 3350e9 }
    for i, x in ipairs(sheet) do
      assert.is_true(math.abs(h100[i] / (0.77 * x) - 1) < 0.015, h100[i])
    end
    local slower = figures "MRT_EMULATE_MEMORY_CLOCK=1000000 MRT_EMULATE_CLOCK=990000"
    assert.is_true(math.abs(slower[1] / h100[1] - 1 / 2.619) < 1e-3)
    assert.is_true(math.abs(slower[2] / h100[2] - 0.5) < 1e-3)
    assert.is_true(math.abs(slower[4] / slower[1] - h100[4] / h100[1]) < 1e-3)
  end)

  it("keeps tensors where they are made; operators take those of one device", function()
    local here = mrt.tensor { 1, 2, 3 }
    mrt.device "cuda:0"
    local there = mrt.tensor { 4, 5, 6 }
    local text = message_of(function()
      return here + there
    end)
    assert.truthy(text:find("cpu", 1, true) and text:find("cuda:0", 1, true), text)
    assert.truthy(text:find("device_spec.lua:%d+"), text)
    assert.are.same({ 5, 7, 9 }, (here:to "cuda:0" + there):totable())
    assert.are.same({ 5, 7, 9 }, (here + there:to "cpu"):totable())
    mrt.device "cpu"
    assert.are.same({ 8, 10, 12 }, (2 * there):totable())
    local step = mrt.compile(function(x)
      return x * 2
    end)
    assert.are.same({ 2, 4, 6 }, step(here):totable())
  end)

  it("trains as the CPU does", function()
    local wanted = train("cpu", 6)
    local losses = train("cuda:0", 6)
    for i, loss in ipairs(wanted) do
      assert.is_true(math.abs(losses[i] - loss) < 2e-4 * loss,
        ("step %d: %.7f, %.7f wanted"):format(i, losses[i], loss))
    end
  end)

  -- Powers may differ in their last bit, and then a rounding.
  it("updates variables as the CPU does, what is rounded at random too", function()
    local sgd = { lr = 0.05, momentum = 0.9, nesterov = true, state = "bf16" }
    local makers = {
      function(p) return optim.adamw(p, { lr = 0.01 }) end,
      function(p) return optim.adamw(p, { lr = 0.01, state = "bf16" }) end,
      function(p) return optim.adamw(p, { lr = 0.01, state = "8bit" }) end,
      function(p) return optim.sgd(p, sgd) end,
      function(p) return optim.rmsprop(p, { lr = 0.01 }) end,
      function(p) return optim.lion(p, { lr = 0.001, state = "bf16" }) end,
    }
    for k, make in ipairs(makers) do
      for _, dtype in ipairs { "f32", "bf16" } do
        local there = updated("cuda:0", dtype, make)
        for name, wanted in pairs(updated("cpu", dtype, make)) do
          local got, differ = there[name], 0
          for i = 1, type(wanted) == "table" and #wanted or 0 do
            differ = differ + (got[i] == wanted[i] and 0 or 1)
          end
          assert.is_true(differ <= 5, ("%d, %s, %s: %d differ"):format(k, dtype, name, differ))
        end
      end
    end
  end)

  it("gives the same bits recorded or queued step by step", function()
    local _, replayed = train("cuda:0", 5)
    mrt.device "cuda:0"
    local step, params = trainer { nan = "trap" } -- looks at each node: no replay
    for i = 1, 5 do
      step(batch(i))
    end
    assert.are.equal(replayed, bits(params))
  end)

  it("gives the same bits recomputed, swapped, shared or not", function()
    local _, wanted = train("cuda:0", 3)
    for name, options in pairs {
      recomputed = { checkpoint = mrt.policy.checkpoint.sqrt() },
      swapped = { checkpoint = mrt.policy.checkpoint.swap(),
        swap = mrt.policy.swap.optimizer() },
      apart = { share = false, inplace = false, fuse = false },
    } do
      local _, got = train("cuda:0", 3, options)
      assert.are.equal(wanted, got, name)
    end
  end)

  it("takes exactly the bytes that the plan says", function()
    mrt.device "cuda:0"
    local step = trainer()
    local x, y = batch(1)
    collectgarbage()
    collectgarbage()
    local before = core.info().bytes_now
    core.reset_peak()
    local plan = step:plan(x, y)
    local loss = step(x, y)
    -- the learning rate is an input, one number, and not in peak
    assert.are.equal(plan.peak + core.info().alignment, core.info().bytes_peak - before)
    assert.is_number(loss:item())
    core.reset_peak()
    local now = core.info().bytes_now
    for _ = 1, 3 do
      step(x, y):item()
      collectgarbage()
    end
    assert.is_true(core.info().bytes_peak - now <= 2 * core.info().alignment)
  end)

  it("leaves of a budget what its driver and libraries take", function()
    mrt.device "cuda:0"
    local x, y = batch(1)
    local free = trainer():plan(x, y)
    local overhead = free.device.overhead
    assert.is_true(overhead > 0)
    assert.is_true(mrt.overhead() > 0)
    assert.truthy(free:text():find("driver and libraries", 1, true))
    local same = trainer { memory = free.peak + overhead }:plan(x, y)
    assert.are.equal(free.peak, same.peak)
    local less = trainer { memory = free.peak + overhead - 1 }:plan(x, y)
    assert.is_true(less.peak < free.peak)
    local ok, err = pcall(function()
      trainer { memory = overhead + 1 }:plan(x, y)
    end)
    assert.is_false(ok)
    assert.is_true(err.needed > overhead, tostring(err))
  end)

  it("tells a bad index by its line; the step changed nothing, and goes on", function()
    mrt.device "cuda:0"
    local step, params = trainer()
    local x, y = batch(1)
    step(x, y):item()
    local before = bits(params)
    local bad = mrt.eval((x + 100):copy())
    local text = message_of(function()
      step(bad, y):item()
    end)
    assert.truthy(text:find("embedding", 1, true), text)
    assert.truthy(text:find("0 to 10 wanted", 1, true), text)
    assert.are.equal(before, bits(params))
    step(x, y):item()
    assert.are_not.equal(before, bits(params))
  end)

  it("reads a loss while the next step is still to come", function()
    mrt.device "cuda:0"
    local step = trainer()
    local x, y = batch(1)
    local bad = mrt.eval((x + 100):copy())
    step(x, y):item()
    local first = step(x, y)
    local second = step(bad, y)
    -- The emulator does no more than it must; a GPU may have met the bad index.
    local ok, err = pcall(first.item, first)
    if library:find "emulated" then assert.is_true(ok, tostring(err)) end
    assert.truthy(message_of(ok and second.item or error, ok and second or err)
      :find("0 to 10 wanted", 1, true))
    local losses = {}
    for i = 1, 40 do losses[i] = step(x, y) end -- more than there are marks
    for i = 2, 40 do assert.is_true(losses[i]:item() < losses[i - 1]:item(), i) end
  end)

  -- Small ones by a kernel's arguments, others by pinned pieces, the largest waited for.
  it("takes what the host has, however much at a time", function()
    local here, there = {}, {}
    for i, n in ipairs { 1, 16, 17, 1000, 300000, 262144, 262145, 1048576, 1048577, 5 } do
      here[i] = mrt.eval(mrt.arange(n) + i)
      there[i] = here[i]:to "cuda:0"
    end
    for i, x in ipairs(here) do
      assert.are.equal(x:bytes(), there[i]:bytes(), i)
    end
  end)

  it("reads a variable after what has written it last", function()
    mrt.device "cuda:0"
    local w = mrt.variable(mrt.zeros(3))
    local add = mrt.compile(function(by)
      w:assign(w + by)
      return w * 1
    end)
    local one = mrt.eval(mrt.ones(3))
    local kept = add(one)
    for _ = 1, 3 do add(one) end
    assert.are.same({ 1, 1, 1 }, kept:totable())
    assert.are.same({ 4, 4, 4 }, w:totable())
    add(one)
    w:assign(mrt.tensor { 7, 8, 9 })
    assert.are.same({ 7, 8, 9 }, w:totable())
    local same = mrt.variable(kept)
    add(one)
    local plus = mrt.compile(function() same:assign(same + 1) end)
    assert.are.same({ 1, 1, 1 }, same:totable())
    plus()
    assert.are.same({ 2, 2, 2 }, same:totable())
    assert.are.same({ 1, 1, 1 }, kept:totable())
  end)

  it("says what is wrong when it fails within a step, and then stays failed", function()
    if not library:find "emulated" then return pending "not the emulated device" end
    local out = run([[
      local mrt = require "mrt"
      mrt.device "cuda:0"
      local w = mrt.variable(mrt.ones(4, 4))
      local step = mrt.compile(function(x)
        local y = (x:matmul(w):tanh() * w):sum()
        w:assign(w - 0.1 * mrt.grad(y, w))
        return y
      end)
      local x = mrt.eval(mrt.ones(4, 4))
      local told = 0
      for i = 1, 40 do
        local ok, err = pcall(function() return step(x):item() end)
        if not ok then
          told = told + 1
          if told == 1 then print(err) end
        elseif told > 0 then
          print "works again"
        end
      end
      print(told > 0 and "failed" or "did not fail")
      print(pcall(w.item, w:sum()))
    ]], "MRT_EMULATE_FAIL=154")
    assert.truthy(out:find("cuda:0 failed", 1, true), out)
    assert.truthy(out:find("%(.-:%d+%)"), out)
    assert.truthy(out:find("\nfailed", 1, true), out)
    assert.falsy(out:find("works again", 1, true), out)
  end)

  -- With milestones after each node, after some, and nowhere.
  it("names the node that failed in a recorded run, or those it lies between", function()
    if not library:find "emulated" then return pending "not the emulated device" end
    local function named(bandwidth, kernel, options)
      local out = run(([[
        local mrt = require "mrt"
        mrt.device "cuda:0" mrt.device.current() -- no plan chooses another
        require "mrt.core".set_device { bandwidth = %g, cache_bandwidth = %g }
        local w = mrt.variable(mrt.ones(4, 4))
        local step = mrt.compile(function(x)
          local a = x:softmax(-1)
          local b = a:cumsum(1)
          local c = b:matmul(w)
          local d = c:softmax(-1)
          local e = d:cumsum(2)
          w:assign(w + e)
          return e:sum()
        end, %s)
        local x = mrt.eval(mrt.ones(4, 4))
        for i = 1, 4 do
          print(i, pcall(function()
            local loss = step(x)
            return i > 1 and loss:item()
          end))
        end
      ]]):format(bandwidth, bandwidth, options), ("MRT_EMULATE_BREAK='%s'"):format(kernel))
      local run_number, text = out:match "\n(%d+)%s+false%s+%S+:%d+: (.-): cuda:0 failed"
      assert(text, out)
      return (run_number .. " " .. text):gsub("%([^()]-:(%d+)%)", "%1")
    end
    for kernel, wanted in pairs {
      ["each_row<:5"] = "3 at softmax 6", ["each_row<:6"] = "3 at softmax 9",
      ["scan_columns:4"] = "4 at cumsum 7", ["cublas:2"] = "2 at matmul 8",
      ["scan_rows:3"] = "3 at cumsum 10", ["fold_rows:3"] = "3 at sum 12",
    } do
      assert.are.equal(wanted, named(1, kernel))
    end
    assert.are.equal("3 at the latest at matmul 8", named(1e6, "each_row<:5"))
    assert.are.equal("3 after matmul 8, at the latest at add 11", named(1e6, "scan_rows:3"))
    assert.are.equal("3 after add 11, at the latest at sum 12", named(1e6, "fold_rows:3"))
    assert.are.equal("3 at the latest at sum 12", named(1e12, "scan_rows:3"))
    assert.are.equal("3 at cumsum 10", named(1e12, "scan_rows:3", '{ nan = "trap" }'))
  end)

  it("says at planning that a step is too large for its memory", function()
    if not library:find "emulated" then return pending "not the emulated device" end
    local out = run([[
      local mrt = require "mrt"
      mrt.device "cuda:0"
      local step = mrt.compile(function(x) return (x * 2):exp() end)
      print(pcall(step, mrt.ones(1024, 4096)))
    ]], "MRT_EMULATE_MEMORY=" .. (24 << 20))
    assert.truthy(out:find("false", 1, true), out)
    assert.truthy(out:find("available", 1, true) or out:find("out of memory", 1, true), out)
  end)
end)
