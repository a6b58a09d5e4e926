--- gradient_noise_spec.lua -- how noisy gradients are, against what is known of them
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local files = require "support.files"
local random = require "mrt.data.random"
local ranks = require "support.ranks"

local nn, optim, policy, train = mrt.nn, mrt.optim, mrt.policy, mrt.train

local function close(wanted, got, tolerance, what)
  assert(math.abs(wanted - got) <= tolerance * math.max(1, math.abs(wanted)),
    ("%s: %g, not %g"):format(what or "it", got, wanted))
end

-- The gradient of mean(x w) is the mean of the rows of x.
local function linear(options)
  local w = mrt.parameter(mrt.zeros(4))
  return mrt.compile(function(x)
    local loss = (x * w):sum(2):mean()
    local g = mrt.grad(loss, w)
    w:assign(w - 0 * g)
    return g
  end, options)
end

local function square(x) return x:square():sum():item() end

-- What the definition gives for these rows in micro-batches of so many.
local function by_hand(x, size)
  local rows, q, inverse, n = x:size(1), 0, 0, 0
  for i = 1, rows, size do
    local part = x:slice(1, i, math.min(rows, i + size - 1))
    q, inverse, n = q + square(part:mean(1)), inverse + 1 / part:size(1), n + 1
  end
  local whole = square(x:mean(1))
  local noise = (q / n - whole) / (inverse / n - 1 / rows)
  return noise, whole - noise / rows
end

describe("the gradient noise of a step", function()
  it("is what the definition gives, also for parts of other sizes", function()
    mrt.seed(2)
    local draw = random.new(9)
    for _ = 1, 12 do
      local rows = 2 + draw:integer(15)
      local k = 2 + draw:integer(rows - 1)
      local x = mrt.eval(mrt.randn(rows, 4) + mrt.tensor { 1.0, 2, 0, 0 })
      local step = linear { accumulate = k, gradient_noise = { decay = 0 } }
      assert.is_nil(step:gradient_noise())
      step(x)
      local got = step:gradient_noise()
      local noise, signal = by_hand(x, (rows + k - 1) // k)
      close(noise, got.noise, 1e-4, "noise")
      close(signal, got.signal, 1e-4, "signal")
      assert.equal(rows, math.tointeger(got.big))
      if signal > 0.01 then close(noise / signal, got.scale, 1e-3, "scale") end
    end
  end)

  -- Rows are drawn with mean mu and covariance diag(v): |G|^2 = |mu|^2, S = sum v.
  it("is unbiased: on the average the covariance that rows are drawn with", function()
    mrt.seed(3)
    local mu, v = mrt.tensor { 0.5, -0.2, 0, 0.1 }, mrt.tensor { 1.0, 4, 0.25, 0.75 }
    local step = linear { accumulate = 4, gradient_noise = { decay = 0.9995 } }
    local mean = mrt.variable(mrt.zeros(4))
    for _ = 1, 3000 do
      local g = step(mrt.randn(8, 4) * v:sqrt() + mu)
      mean:assign(mean + g / 3000)
    end
    local got = step:gradient_noise()
    close(6, got.noise, 0.04, "noise")
    close(square(mu), got.signal, 0.05, "signal")
    -- so is the gradient of a mini-batch, of which it tells
    assert.is_true((mean - mu):abs():amax():item() < 0.05)
  end)

  it("changes no bit of the training, however the step is planned", function()
    local function run(given)
      mrt.seed(4)
      local model = nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.Dropout(0.1), nn.Linear(9, 3))
      local opt = optim.adamw(model:parameters(), { lr = 0.01 })
      local x, y = mrt.eval(mrt.randn(12, 6), mrt.randn(12, 3))
      local step = mrt.compile(function(a, b)
        local loss = nn.mse(model(a), b)
        opt:step(mrt.grad(loss, model:parameters()), { clip = 1 })
        return loss
      end, given)
      for _ = 1, 4 do step(x, y) end
      local bytes = {}
      for i, p in ipairs(model:parameters()) do bytes[i] = p:bytes() end
      return table.concat(bytes), step:gradient_noise()
    end
    for _, o in ipairs { {}, { precision = policy.precision.bf16() },
      { precision = policy.precision.f16 { loss_scale = 1024 } },
      { checkpoint = policy.checkpoint.all() }, { swap = policy.swap.optimizer() } } do
      o.accumulate = 3
      local wanted = run(o)
      o.gradient_noise = true
      local bits, noise = run(o)
      assert(wanted == bits)
      o.precision = nil
      local _, plain = run(o)
      close(plain.noise, noise.noise, 0.02)
      close(plain.signal, noise.signal, 0.02)
    end
  end)

  it("is the same of ranks as of micro-batches, however parameters lie", function()
    mrt.seed(5)
    local x = mrt.eval(mrt.randn(8, 4))
    local list = {}
    for i, n in ipairs(x:reshape(-1):totable()) do list[i] = ("%.9g"):format(n) end
    local noise, signal = by_hand(x, 4)
    local finer, finer_signal = by_hand(x, 2)
    for _, case in ipairs { { "ddp()" }, { "zero(1)" }, { "zero(2)" }, { "fsdp()" },
      { "ddp()", 2 }, { "zero(2)", 2 }, { "fsdp()", 2 },
      { "fsdp()", 2, "policy.precision.f16 { loss_scale = 256 }" } } do
      local code = ([[
        local all = mrt.tensor({ %s }, "f32"):reshape(8, 4)
        local x = mrt.eval(all:slice(1, 4 * comm.rank + 1, 4 * comm.rank + 4))
        local w = mrt.parameter(mrt.zeros(4))
        local opt = optim.sgd({ w }, { lr = 0 })
        local step = mrt.compile(function(a)
          local loss = (a * w):sum(2):mean()
          opt:step(mrt.grad(loss, { w }))
          return loss
        end, { shard = policy.shard.%s, accumulate = %s, gradient_noise = { decay = 0 },
          precision = %s })
        step(x)
        local got = step:gradient_noise()
        return ("%%.9g %%.9g %%g %%g"):format(got.noise, got.signal, got.small, got.big)
      ]]):format(table.concat(list, ","), case[1], case[2], case[3])
      local n, s, small, big = ranks.alike(2, code):match "(%S+) (%S+) (%S+) (%S+)"
      close(case[2] and finer or noise, tonumber(n), case[3] and 5e-3 or 1e-4, case[1])
      close(case[2] and finer_signal or signal, tonumber(s), case[3] and 5e-3 or 1e-4, case[1])
      assert.same({ case[2] and "2" or "4", "8" }, { small, big })
    end
  end)

  it("is the same of micro-batches that stages compute, on a mesh too", function()
    local code = [[
      local grid, rows = %s, 8
      mrt.seed(2)
      local x, y = mrt.eval(mrt.randn(8, 6), mrt.randn(8, 3))
      if grid and (grid.data or grid.shard) then
        rows = 4
        local from = comm.rank %% 2 * 4 + 1
        x = mrt.eval(x:slice(1, from, from + 3) + 0)
        y = mrt.eval(y:slice(1, from, from + 3) + 0)
      end
      mrt.seed(1)
      local layers = {}
      for i = 1, 4 do
        layers[2 * i - 1] = nn.Linear(i == 1 and 6 or 16, i == 4 and 3 or 16)
        layers[2 * i] = i < 4 and nn.Tanh() or nil
      end
      local model = nn.Sequential(table.unpack(layers))
      local opt = optim.adamw(model:parameters(), { lr = 0.01 })
      if grid then grid.comm = comm end
      local step = mrt.compile(function(a, b)
        local out = model(a)
        local loss = %s
        opt:step(mrt.grad(loss, model:parameters()), { clip = 1 })
        return loss
      end, { accumulate = rows // 2, mesh = grid, gradient_noise = { decay = 0.5 } })
      for _ = 1, 3 do step(x, y) end
      local got = step:gradient_noise()
      return ("%%.9g %%.9g %%g %%g"):format(got.noise, got.signal, got.small, got.big)
    ]]
    for _, loss in ipairs { "nn.mse(out, b)",
      "nn.mse(out, b) + 0.1 * (out:square():mean() + 1):log()" } do
      local wanted, wanted_signal = ranks.alike(1, code:format("nil", loss)):match "(%S+) (%S+)"
      for _, mesh in ipairs { "{ pipeline = 2 }", "{ pipeline = 4 }",
        "{ pipeline = 2, tensor = 2 }", "{ pipeline = 2, data = 2 }",
        "{ pipeline = 2, shard = 2 }" } do
        local n = mesh == "{ pipeline = 2 }" and 2 or 4
        local noise, signal, small, big = ranks.alike(n, code:format(mesh, loss)):match
          "(%S+) (%S+) (%S+) (%S+)"
        close(tonumber(wanted), tonumber(noise), 1e-4, mesh)
        close(tonumber(wanted_signal), tonumber(signal), 1e-4, mesh)
        assert.same({ "2", "8" }, { small, big })
      end
    end
  end)

  it("takes a loss that is a sum, and one of several sums", function()
    local w = mrt.parameter(mrt.ones(4))
    local x = mrt.eval(mrt.randn(8, 4))
    local function look(loss_of)
      local step = mrt.compile(function(a)
        local g = mrt.grad(loss_of(a), w)
        w:assign(w - 0 * g)
      end, { accumulate = 4, gradient_noise = { decay = 0 } })
      step(x)
      return step:gradient_noise()
    end
    local noise, signal = by_hand(x, 2)
    local sum = look(function(a) return (a * w):sum() end)
    close(64 * noise, sum.noise, 1e-4)
    close(64 * signal, sum.signal, 1e-4)
    local decayed = look(function(a)
      return (a * w):sum() / mrt.ones(a:size(1)):sum() + 0.5 * w:square():sum()
    end)
    close(noise, decayed.noise, 1e-3) -- what is no function of rows has no noise
  end)

  it("does not count a step that overflows, and goes on from a state", function()
    local w = mrt.parameter(mrt.zeros(4))
    local function make()
      return mrt.compile(function(x)
        local loss = (x * w):sum(2):mean()
        local g = mrt.grad(loss, w)
        w:assign(w - 0 * g)
        return loss
      end, { accumulate = 2, gradient_noise = true, precision = policy.precision.f16() })
    end
    local step, x = make(), mrt.eval(mrt.randn(8, 4))
    step(x)
    local before = step:gradient_noise()
    step(x * math.huge)
    assert.same(before, step:gradient_noise())
    local other = make()
    other:expect_state(step:state())
    other:load_state(step:state())
    step(x * 2)
    other(x * 2)
    assert.same(step:gradient_noise(), other:gradient_noise())
  end)

  it("is in the log of a run and on its page", function()
    mrt.seed(6)
    local folder, model = files.name(), nn.Linear(4, 1)
    local x, y = mrt.eval(mrt.randn(64, 4), mrt.randn(64, 1))
    local stdout, capture = io.stdout, io.tmpfile()
    io.stdout = capture -- luacheck: ignore 122
    local ok, message = pcall(train.run, { model = model,
      optimizer = optim.sgd(model:parameters(), { lr = 0.01 }),
      loader = mrt.data.batches({ x, y }, { batch = 16 }), steps = 6, log = folder,
      accumulate = 4, gradient_noise = { decay = 0.5 },
      loss = function(m, a, b) return nn.mse(m(a), b) end })
    io.stdout = stdout -- luacheck: ignore 122
    capture:close()
    assert(ok, message)
    local _, records = train.read_log(folder)
    assert.equal(6, #records)
    for _, r in ipairs(records) do
      assert.is_true(r.gradient_variance > 0 and math.type(r.step) == "integer")
      if r.gradient_noise then
        close(r.gradient_variance / r.gradient_square, r.gradient_noise, 1e-6)
      end
    end
    assert.matches("Gradient noise scale", files.read(folder .. "/report.html"))
  end)

  it("is refused where there is nothing to tell it from", function()
    local x = mrt.ones(6, 4)
    for _, count in ipairs { 1, false } do
      assert.error_matches(function()
        linear { gradient_noise = true, accumulate = count or nil }
      end, "gradient_noise_spec.lua:%d+: gradient_noise: a batch has no parts: "
        .. "accumulate = 2 or more")
    end
    assert.error_matches(function() linear { gradient_noise = 3 } end,
      "gradient_noise: true or a table of options wanted, got 3")
    assert.error_matches(function() linear { gradient_noise = { decay = 1 } } end,
      "decay = 1, wanted 0 <= decay < 1")
    assert.error_matches(function() linear { gradient_noise = { deacy = 0 } } end,
      "no option 'deacy'")
    local auto = linear { accumulate = "auto", gradient_noise = true }
    auto(x) -- one micro-batch: nothing to tell
    assert.is_nil(auto:gradient_noise())
    local step = linear { accumulate = 2, gradient_noise = true }
    step:ranges(x) -- of the whole batch
    assert.is_true(#step:plan(x):options { budget = "1MiB" } > 0)
    assert.is_nil(step:gradient_noise())
    assert.is_nil(linear {}:gradient_noise())
  end)
end)
