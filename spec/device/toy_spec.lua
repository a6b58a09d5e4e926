-- toy_spec.lua -- a device of three kernels: what it lacks the CPU computes
--
-- The toy (spec/device/toy) keeps its memory from everybody but its kernels and
-- copies, so a value that is read or written without a copy crashes.  What single
-- operators promise is in spec/op/ops_spec.lua, with MRT_SPEC_DEVICE=toy.
local mrt = require "mrt"
local core = require "mrt.core"
local bits = require("support.bits").of
local failure = require "support.failure"
local files = require "support.files"
local program = require "support.program"
local training = require "support.training"

local nn, optim = mrt.nn, mrt.optim

local function message_of(...) return tostring(failure(...)) end
local function has(text, part) assert.truthy(text:find(part, 1, true), text) end

-- An MLP with dropout, a step of AdamW over it, on the present device.
local function trainer(options)
  mrt.seed(3)
  local model = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Dropout(0.1), nn.Linear(24, 24),
    nn.ReLU(), nn.Linear(24, 5))
  local opt = optim.adamw(model:parameters(), { lr = 1e-2, weight_decay = 0.1 })
  return training.step(model, opt, options, { clip = 1 }), model:parameters()
end

local function batch(i)
  mrt.seed(100 + i)
  return mrt.eval(mrt.randn(16, 12)), mrt.eval(mrt.randint(0, 5, 16))
end

-- Train; the losses and the bytes of all parameters.
local function train(device, options, steps)
  mrt.device(device)
  local step, params = trainer(options)
  local losses = {}
  for i = 1, steps or 4 do losses[i] = step(batch(i)):item() end
  return losses, bits(params), step:plan(batch(1))
end

describe("a device by name", function()
  after_each(function() mrt.device "cpu" end)

  it("is any library of its name, by number", function()
    assert.are.equal("toy:0", mrt.device "toy")
    assert.are.equal("toy:1", mrt.device "toy:1")
    assert.are.equal("toy:0", mrt.device "toy:0")
    assert.are.equal(2, core.info().devices)
    has(message_of(mrt.device, "toy:2"), "there are 2 toys")
    has(table.concat(core.device_kinds(), " "), "toy")
  end)

  it("is listed where its library cannot be opened, with why not", function()
    local build = program.path:match "^(.*)/[^/]*$" or "."
    local toy, folder = files.read(build .. "/lib/libmrt_toy.so"), files.folder()
    -- The same for a machine of 32 bits.
    files.write(folder .. "/libmrt_toy.so", toy:sub(1, 4) .. "\1" .. toy:sub(6))
    files.write(folder .. "/libmrt_text.so", "not a library at all")
    local line = "cp '%s' '%s/mrt' && ln -s \"$(realpath '%s/lua')\" '%s/lua' && '%s/mrt' info"
    local code, out = program.shell(line:format(program.path, folder, build, folder, folder))
    assert.are.equal(0, code, out)
    assert.matches("  toy +[^\n]*libmrt_toy.so cannot be opened: [^\n]*ELF", out)
    assert.is_nil(out:find("  text", 1, true), out)
  end)

  it("says which file it looked for", function()
    local text = message_of(mrt.device, "toys")
    has(text, "no device 'toys': libmrt_toys.so")
    has(text, "MRT_TOYS")
    has(message_of(mrt.device, "../toy"), "no device '../toy'")
    has(message_of(mrt.device, "toy:x"), "no device 'toy:x'")
    has(message_of(mrt.ones(2).to, mrt.ones(2), "f31"), "'f31' is no dtype")
  end)

  it("is found by the environment too, or not at all", function()
    local script = 'print(pcall(require "mrt".device, "toy"))'
    has(program.script(script, "MRT_TOY=/no/such.so"), "/no/such.so")
    local here = program.path:gsub("[^/]*$", "lib/libmrt_toy.so")
    if here:sub(1, 1) ~= "/" then here = os.getenv "PWD" .. "/" .. here end
    has(program.script('print(require "mrt".device "other")', "MRT_OTHER=" .. here), "other:0")
  end)

  -- Its own folders know what it is called, and who tells what there is to choose.
  it("is named nowhere else", function()
    local apart = { "core/README.md", "lua/mrt/device/profiles.lua", "lua/mrt/bench/gpu.lua",
      "lua/mrt/bench/collectives", "lua/mrt/bench/torch", "lua/mrt/cli/command/bench.lua",
      "lua/mrt/cli/environment.lua", "lua/mrt/util/hints.lua", "lua/mrt/cluster/",
      "lua/mrt/communicator/engine.lua", "lua/mrt/cli/command/info.lua" }
    local _, found = program.shell(
      [[grep -rniE '\b(lib)?(mrt_)?(cuda|nccl)' core bindings lua kernels/cpu kernels/collectives]])
    for line in found:gmatch "[^\n]+" do
      local known = line:find "torch%.cuda" or line:find "%.md:"
        or line:find '%-%-%- .*`mrt%.device%("' -- an example in a docstring
      for _, file in ipairs(apart) do known = known or line:find(file, 1, true) end
      assert.truthy(known, line)
    end
  end)
end)

describe("a device of three kernels", function()
  after_each(function() mrt.device "cpu" end)

  it("computes with them, and with the CPU's", function()
    mrt.device "toy"
    local x = mrt.tensor({ { 1, 2, 3 }, { 4, 5, 6 } }, { dtype = "f32" })
    assert.are.same({ { 14, 32 }, { 32, 77 } }, x:matmul(x:t()):totable())
    assert.are.same({ 5, 7, 9 }, x:sum(1):totable())
    assert.are.same({ { 1, 4 }, { 2, 5 }, { 3, 6 } }, (x:t() + 0):totable())
    assert.are.equal(21, x:to "cpu":sum():item())
    assert.are.same({}, mrt.zeros(0, 3):exp():totable())
  end)

  it("trains as the CPU does", function()
    local wanted = train "cpu"
    for i, loss in ipairs((train "toy")) do
      assert.is_true(math.abs(loss - wanted[i]) < 1e-5 * wanted[i], i)
    end
  end)

  -- The toy sums products in an order of its own: without them it is the CPU.
  it("gives the CPU's bits in whatever both compute alike", function()
    local script = ([[
      package.path = "spec/?.lua;" .. package.path
      local mrt = require "mrt"
      local bits, training = require("support.bits").of, require "support.training"
      local nn, policy = mrt.nn, mrt.policy
      local function train(device, options)
        mrt.device(device)
        mrt.seed(3)
        local model = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Dropout(0.1),
          nn.Linear(24, 24), nn.GELU(), nn.LayerNorm(24), nn.Linear(24, 5))
        local opt = mrt.optim.adamw(model:parameters(), { lr = 1e-2 })
        local step = training.step(model, opt, options, { clip = 1 })
        for i = 1, 4 do
          mrt.seed(100 + i)
          step(mrt.eval(mrt.randn(16, 12)), mrt.eval(mrt.randint(0, 5, 16)))
        end
        local plan = step:plan(mrt.eval(mrt.randn(16, 12)), mrt.eval(mrt.randint(0, 5, 16)))
        assert(device == "cpu" or plan.hosted > 0 and plan.hosted < plan.nodes)
        return bits(model:parameters()), plan
      end
      local plain = train "cpu"
      for name, options in pairs {
        plain = {}, apart = { share = false, inplace = false, fuse = false },
        accumulated = { accumulate = 4 }, recomputed = { checkpoint = policy.checkpoint.sqrt() },
        swapped = { checkpoint = policy.checkpoint.swap(), swap = policy.swap.optimizer() },
        narrow = { precision = policy.precision.bf16() }, trapped = { nan = "trap" },
      } do
        local got, plan = train("toy:0", options)
        local wanted = train("cpu", options)
        print(name, got == wanted, got == plain, plan.swapped > 0)
      end
      local whole = select(2, train "toy:0")
      local tight, plan = train("toy:0", { memory = whole.peak * 95 // 100 })
      print("tight", tight == plain, plan.peak < whole.peak)
    ]])
    for _, kind in ipairs { "", " MRT_TOY_QUEUE=1" } do
      local out = program.script(script, "MRT_TOY_WITHOUT=matmul MRT_DEVICE=declared" .. kind)
      for name, words in pairs {
        plain = "true\ttrue\tfalse", apart = "true\ttrue\tfalse", accumulated = "true",
        recomputed = "true\ttrue\tfalse", swapped = "true\ttrue\ttrue",
        narrow = "true\tfalse", trapped = "true\ttrue\tfalse", tight = "true\ttrue",
      } do
        has(out, name .. "\t" .. words)
      end
    end
  end)

  it("takes exactly the bytes that the plan says, there and on the host", function()
    mrt.device "toy"
    local step = trainer()
    local x, y = batch(1)
    collectgarbage()
    collectgarbage()
    local before, host = core.info().bytes_now, core.info().bytes_host
    core.reset_peak()
    local plan = step:plan(x, y)
    local loss = step(x, y)
    -- the learning rate is an input, one number, and not in peak
    assert.are.equal(plan.peak + core.info().alignment, core.info().bytes_peak - before)
    assert.are.equal(plan.staging, core.info().bytes_host - host)
    assert.is_number(loss:item())
    local now = core.info()
    for _ = 1, 3 do
      step(x, y):item()
      collectgarbage()
    end
    assert.are.equal(now.bytes_host, core.info().bytes_host)
    assert.is_true(core.info().bytes_peak - now.bytes_now <= 2 * now.alignment)
    step, loss, plan = nil, nil, nil -- luacheck: ignore
    collectgarbage()
    collectgarbage()
    assert.are.equal(host, core.info().bytes_host)
  end)

  it("says what the CPU computes, how often and from how many bytes", function()
    local _, _, plan = train("toy", nil, 1)
    local hosted, seconds = 0, 0
    for _, s in ipairs(plan:steps()) do
      if s.hosted then hosted, seconds = hosted + 1, seconds + s.time end
    end
    assert.are.equal(plan.hosted, hosted)
    assert.is_true(hosted > 0 and hosted < plan.nodes)
    assert.is_true(plan.hosted_in > 0 and plan.hosted_out > 0)
    local text = plan:text()
    has(text, ("on the CPU  %d of %d nodes, which toy:0 has no kernels for: adamw 6"):format(
      hosted, plan.nodes))
    has(text, "of the host's memory, not in peak")
    -- the copies are part of the predicted time
    local figures = plan.device
    assert.is_true(seconds > plan.hosted_in / figures.swap_write
      + plan.hosted_out / figures.swap_read)
    assert.is_true(plan.seconds > seconds)
    local _, _, own = train("cpu", nil, 1)
    assert.are.equal(0, own.hosted + own.staging + own.hosted_in + own.hosted_out)
    assert.falsy(own:text():find("on the CPU", 1, true))
  end)

  it("tells a bad index by its line; the step changed nothing, and goes on", function()
    mrt.device "toy"
    mrt.seed(1)
    local table_ = mrt.parameter(mrt.randn(7, 4), "table")
    local opt = optim.adamw { table_ }
    local step = mrt.compile(function(ids)
      local loss = table_:embedding(ids):pow(2):sum()
      opt:step(mrt.grad(loss, { table_ }))
      return loss
    end)
    local good, bad = mrt.tensor { 1, 2, 6 }, mrt.tensor { 1, 7 , 2 }
    step(good)
    local before = bits { table_ }
    has(message_of(step, bad), "toy_spec.lua:")
    assert.are.equal(before, bits { table_ })
    assert.is_number(step(good):item())
    assert.are_not.equal(before, bits { table_ })
  end)

  it("tells it where it queues too, and says that nothing is recorded", function()
    local out = program.script([[
      local mrt = require "mrt"
      mrt.device "toy"
      mrt.seed(1)
      local table_ = mrt.parameter(mrt.randn(7, 4), "table")
      local opt = mrt.optim.adamw { table_ }
      local step = mrt.compile(function(ids)
        local loss = (table_:embedding(ids) * 2):pow(2):sum()
        opt:step(mrt.grad(loss, { table_ }))
        return loss
      end)
      local good, bad = mrt.tensor { 1, 2, 6 }, mrt.tensor { 1, 7, 2 }
      for _ = 1, 3 do step(good) end
      local before = table_:bytes()
      print(pcall(function() return step(bad):item() end))
      print(before == table_:bytes() and "nothing changed")
      print(pcall(function() return step(good):item() end))
      print(before == table_:bytes())
      print(step:plan(good):text())
    ]], "MRT_TOY_QUEUE=1")
    has(out, "embedding")
    has(out, "index 7, 0 to 6 wanted")
    has(out, "nothing changed\ntrue")
    has(out, "\nfalse\n")
    has(out, "not recorded")
  end)

  it("meets other ranks through the host", function()
    local path = files.temporary([[
      package.path = "spec/?.lua;" .. package.path
      local mrt = require "mrt"
      local bits = require("support.bits").of
      local comm = mrt.communicator.create { timeout = 20 }
      local function train(device)
        mrt.device(device)
        mrt.seed(4)
        local model = mrt.nn.Sequential(mrt.nn.Linear(6, 8), mrt.nn.Tanh(), mrt.nn.Linear(8, 3))
        local params = model:parameters()
        local opt = mrt.optim.adamw(params, { lr = 1e-2 })
        local step = mrt.compile(function(x, y)
          local loss = mrt.nn.cross_entropy(model(x), y)
          local grads = mrt.grad(loss, params)
          for i, g in ipairs(grads) do grads[i] = comm:allreduce(g, { op = "mean" }) end
          opt:step(grads)
          return loss
        end)
        for i = 1, 3 do
          mrt.seed(10 * i + comm.rank)
          step(mrt.eval(mrt.randn(4, 6)), mrt.eval(mrt.randint(0, 3, 4)))
        end
        return bits(params)
      end
      print(train "cpu" == train "toy:0")
    ]])
    local code, out = program.shell(("MRT_TOY_WITHOUT=matmul '%s' launch -n 2 '%s'"):format(
      program.path, path))
    assert.are.equal(0, code, out)
    assert.falsy(out:find("false", 1, true), out)
    assert.truthy(out:find("true.-true"), out)
  end)
end)

describe("a device that fails", function()
  local script = [[
    package.path = "spec/?.lua;" .. package.path
    local mrt = require "mrt"
    local training = require "support.training"
    mrt.seed(3)
    mrt.device "toy"
    local failed
    for _ = 1, 3 do
      local ok, err = pcall(function()
        local model = mrt.nn.Sequential(mrt.nn.Linear(6, 80), mrt.nn.ReLU(), mrt.nn.Linear(80, 3))
        local opt = mrt.optim.adamw(model:parameters(), { lr = 1e-2 })
        local step = training.step(model, opt)
        local x, y = mrt.randn(4, 6), mrt.randint(0, 3, 4)
        for _ = 1, 3 do step(x, y):item() end
      end)
      if not ok then print(err.code, err) failed = true end
      collectgarbage()
    end
    print(failed and "told" or "went well", mrt.device "cpu", mrt.ones(3):sum():item())
  ]]

  it("to have memory says so, and goes on where it can", function()
    local told = 0
    for n = 2, 40, 3 do
      local out = program.script(script, "MRT_TOY_FAIL=" .. n)
      if out:find("told", 1, true) then
        told = told + 1
        has(out, "memory\t")
        has(out, "out of memory")
      end
      has(out, "cpu\t3.0")
    end
    assert.is_true(told > 3, told)
    has(program.script(script, "MRT_TOY_MEMORY=4096"), "memory\t")
  end)

  it("in a copy names the node, and leaves torn what was being updated", function()
    local nodes, torn = 0, 0
    for n = 5, 200, 13 do
      local out = program.script(script, "MRT_TOY_BREAK=" .. n)
      has(out, "device\t")
      has(out, "the toy is broken")
      has(out, "cpu\t3.0")
      if out:find("at %g+ %(.-:%d+%): the toy is broken") then nodes = nodes + 1 end
      if out:find("adamw", 1, true) then torn = torn + 1 end
    end
    assert.is_true(nodes > 0 and torn > 0, nodes .. ", " .. torn)
  end)
end)
