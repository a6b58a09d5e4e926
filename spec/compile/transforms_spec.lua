--- transforms_spec.lua -- transforms of one's own, and the trace being made
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local bits = require "support.bits"
local failure = require "support.failure"
local ranks = require "support.ranks"

local nn, optim, policy = mrt.nn, mrt.optim, mrt.policy

-- One weight, w = 1, and a step w = w - gradient of mean(x w^2), which is 2 w mean(x).
local function small(options, update)
  local w = mrt.parameter(mrt.ones {}, "w")
  local step = mrt.compile(function(x)
    local g = mrt.grad((x * w * w):mean(), w)
    if update then update(w, g) else w:assign(w - g) end
    return g
  end, options)
  return step, w, mrt.tensor { 1, 2, 3, 2 }
end

local function doubled(t)
  t.name = t.name or "double"
  function t:grad(next, ys, xs, o) -- luacheck: ignore 212
    local grads = next(ys, xs, o)
    for i, g in ipairs(grads) do grads[i] = g * 2 end
    return grads
  end
  return t
end

local function network()
  mrt.seed(5)
  local model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm(8), nn.Linear(8, 3))
  return model, mrt.randn(8, 6), mrt.randint(0, 3, { 8 })
end

local function network_step(model, opt, options, update)
  return mrt.compile(function(x, y)
    local loss = nn.cross_entropy(model(x), y)
    opt:step(mrt.grad(loss, model:parameters()), update)
    return loss
  end, options)
end

-- ---- hooks ---------------------------------------------------------------------

describe("transforms", function()
  it("begin from the inside, wrap from the outside, finish from the outside", function()
    local calls = {}
    local function noting(name)
      local function note(hook) calls[#calls + 1] = name .. " " .. hook end
      return { name = name, begin = function() note "begin" end,
        finish = function() note "finish" end,
        grad = function(_, next, ...)
          note "grad"
          local grads = next(...)
          note "graded"
          return grads
        end,
        assign = function(_, next, ...)
          note "assign"
          return next(...)
        end }
    end
    local step, _, x = small { transforms = { noting "a", noting "b" } }
    step(x)
    assert.same({ "b begin", "a begin", "a grad", "b grad", "b graded", "a graded",
      "a assign", "b assign", "a finish", "b finish" }, calls)
    step(x)
    assert.equal(10, #calls) -- the plan runs; nothing is traced
  end)

  it("change gradients and assignments", function()
    local step, w, x = small { transforms = { doubled {} } }
    assert.equal(8, step(x):item())
    assert.equal(1 - 8, w:item())
    local seen
    step, w, x = small { transforms = { { name = "tenth",
      assign = function(_, next, variable, value, when)
        seen = variable
        return next(variable, value * 0.5, when)
      end } } }
    step(x)
    assert.equal((1 - 4) / 2, w:item())
    assert.equal(w, seen)
  end)

  it("see gradients of the whole batch, unscaled, or where they lie", function()
    for _, case in ipairs { { nil, 4 }, { "loss scaling", 4 }, { "sharding", 4 * 1024 },
      { "accumulation", 4 * 1024 } } do
      local seen
      local step, _, x = small { accumulate = 2, transforms = { { name = "look",
        wraps = case[1],
        grad = function(self, next, ys, xs, o)
          local grads = next(ys, xs, o)
          seen = mrt.variable(0.0)
          seen:assign(grads[1])
          self.seen = seen
          return grads
        end } }, precision = policy.precision.f16 { loss_scale = 1024 } }
      assert.equal(4, step(x):item())
      assert.equal(case[2], seen:item(), case[1])
    end
  end)

  it("decide when updates happen", function()
    local open = mrt.variable(mrt.tensor(false, "bool"))
    local model, x, y = network()
    local opt = optim.adamw(model:parameters(), { lr = 0.1 })
    local before = bits.trained(model, opt)
    local mean = bits.of { model.layers[2].running_mean }
    local step = network_step(model, opt, { transforms = { { name = "when open",
      gate = function(_, next, when)
        when = next(when)
        return when and when:logical_and(open) or open
      end } } })
    step(x, y)
    assert.equal(before, bits.trained(model, opt))
    assert.equal(mean, bits.of { model.layers[2].running_mean })
    open:assign(mrt.tensor(true, "bool"))
    step(x, y)
    assert.not_equal(before, bits.trained(model, opt))
    assert.not_equal(mean, bits.of { model.layers[2].running_mean })
  end)

  it("are asked by optimizers", function()
    local asked = {}
    local function pass(hook)
      return function(_, next, ...)
        asked[hook] = (asked[hook] or 0) + 1
        return next(...)
      end
    end
    local t = { name = "passes on" }
    for _, hook in ipairs { "map", "squares", "later", "unscaled", "updates", "units" } do
      t[hook] = pass(hook)
    end
    local model, x, y = network()
    local opt = optim.sgd(model:parameters(), { lr = 0.1 })
    network_step(model, opt, { transforms = { t } }, { clip = 1.0 })(x, y)
    assert.same({ squares = 1, later = 1, unscaled = 1, updates = 1, units = 1 }, asked)
    mrt.compile(function(g) return (optim.clip_grad_value({ g }, 1)) end,
      { transforms = { t } })(x)
    assert.equal(1, asked.map)
  end)

  it("leave updates for later, round at random, and choose what is updated", function()
    local model, x, y = network()
    local opt = optim.sgd(model:parameters(), { lr = 0.1 })
    local before = bits.of { model.layers[1].weight }
    local mean, late = bits.of { model.layers[2].running_mean }, {}
    network_step(model, opt, { transforms = { { name = "not the first",
      units = function(_, next, ...)
        local units = next(...)
        table.remove(units, 1)
        return units
      end,
      updates = function(_, next, params) return next(params) or true end,
      later = function(_, _, update) late[#late + 1] = update end } } })(x, y)
    assert.equal(before, bits.of { model.layers[1].weight })
    assert.equal(mean, bits.of { model.layers[2].running_mean })
    assert.equal(1, #late)
  end)

  it("are told of steps, plans and state", function()
    local told = {}
    local t = { name = "told", count = mrt.variable(7, "count") }
    function t.prepare(_, k) told[#told + 1] = "plan " .. k end
    function t.before_step() told[#told + 1] = "before" end
    function t.after_step() told[#told + 1] = "after" end
    function t:state(out) out["told.count"] = self.count end
    function t:load_state(state) self.count:assign(state["told.count"]) end
    function t.expect_state(_, state) told.expected = state["told.count"] ~= nil end
    local step, _, x = small { transforms = { t }, accumulate = 2 }
    step(x)
    step(x)
    assert.same({ "plan 2", "before", "after", "before", "after" }, told)
    local state = step:state()
    assert.equal(7, state["told.count"]:item())
    state["told.count"] = mrt.tensor(9)
    step:expect_state(state)
    assert.is_true(told.expected)
    step:load_state(state)
    assert.equal(9, t.count:item())
  end)

  it("add up totals of their own over micro-batches", function()
    local sections
    local sum = mrt.variable(0.0, "sum")
    local t = { name = "total", totals = function(_, n)
      sections = n
      return {}
    end }
    local step, _, x = small { transforms = { t }, accumulate = 3 }
    step(x)
    assert.equal(1, sections)
    step(mrt.ones(5)) -- 2, 2 and 1 rows
    assert.equal(2, sections)
    assert.equal(0, sum:item())
  end)

  it("have a self of their own for each call of the function", function()
    local calls, t = {}, { name = "counts", settings = { 1 } }
    function t:begin(trace)
      assert.is_nil(rawget(self, "count"))
      assert.equal(trace, self.trace)
      assert.equal(t.settings, self.settings)
      self.count, calls[#calls + 1] = 1, self
    end
    local step, _, x = small { transforms = { t }, accumulate = 2 }
    step(x)
    assert.equal(2, #calls) -- a micro-batch, and the whole
    assert.not_equal(calls[1], calls[2])
    assert.is_nil(t.count)
  end)

  it("read numbers anew before every run", function()
    local rate = 1
    local step, w, x = small { transforms = { { name = "rate",
      begin = function(self) self.rate = mrt.runtime(function() return rate end) end,
      grad = function(self, next, ...)
        local grads = next(...)
        for i, g in ipairs(grads) do grads[i] = g * self.rate end
        return grads
      end } } }
    step(x)
    assert.equal(-3, w:item())
    rate = 0
    step(x)
    assert.equal(-3, w:item())
  end)

  it("are those of the function that is traced, not of one that it calls", function()
    local inner = mrt.compile(function(x, w) return mrt.grad((x * w * w):mean(), w) end,
      { transforms = { doubled {} } })
    local w = mrt.parameter(mrt.ones {})
    local outer = mrt.compile(function(x) return inner(x, w) end,
      { transforms = { doubled { name = "outer" }, doubled { name = "again" } } })
    assert.equal(4 * 4, outer(mrt.tensor { 1, 3 }):item())
    assert.equal(4, mrt.grad((w * w * 2):mean(), w):item()) -- none outside
  end)

  it("work in coroutines that the function runs", function()
    local step, w, x = small({ transforms = { doubled {} } }, function(w, g)
      local co = coroutine.wrap(function()
        coroutine.yield(mrt.grad(w * w, w))
        w:assign(w - g)
      end)
      assert.equal("f32[]", co():type())
      co()
    end)
    coroutine.wrap(function() step(x) end)()
    assert.equal(1 - 8, w:item())
    assert.is_nil(core.current_trace())
  end)

  it("survive with() and are taken away by false", function()
    local step, _, x = small { transforms = { doubled {} } }
    assert.equal(8, step:with({ fuse = false })(x):item())
    assert.equal(2 * (1 - 8) * 2, step:with({ transforms = false })(x):item())
  end)
end)

-- ---- combined ------------------------------------------------------------------

local identity = [[
  local function pass(_, next, ...) return next(...) end
  local identity = { name = "identity", begin = function() end, finish = function() end }
  for _, hook in ipairs { "grad", "assign", "map", "squares", "gate", "later", "unscaled",
    "updates", "units" } do
    identity[hook] = pass
  end
]]

-- Three steps with and without the transform: the bits of all that is trained, the
-- losses, and the scale.
local train = identity .. [[
  local function train(transforms)
    mrt.seed(11)
    local model = nn.Sequential(nn.Linear(8, 32), nn.LayerNorm(32), nn.Linear(32, 32),
      nn.Linear(32, 4))
    local opt = optim.adamw(model:parameters(), { lr = 0.01 })
    local o = options()
    o.transforms = transforms
    local step = mrt.compile(function(x, y)
      local loss = nn.cross_entropy(model(x), y)
      opt:step(mrt.grad(loss, model:parameters()), { clip = clip })
      return loss
    end, o)
    mrt.seed(12 + comm.rank)
    local x, y, out = mrt.randn(12, 8), mrt.randint(0, 4, { 12 }), {}
    if budget then
      local tight = step:with { memory = step:plan(x, y).peak * 9 // 10 }
      if pcall(tight.plan, tight, x, y) then step, out[1] = tight, "within" end
    end
    for _ = 1, 3 do out[#out + 1] = ("%a"):format(step(x, y):item()) end
    for _, p in ipairs(model:parameters()) do
      out[#out + 1] = p:to "f64":sum():item()
      out[#out + 1] = p:bytes()
    end
    out[#out + 1] = tostring(step:loss_scale())
    return table.concat(out, " ")
  end
  return train(nil) == train(wraps)
]]

-- Code for a draw: how many ranks, and the options.
local function drawn(random)
  local function choose(list) return list[random(#list)] end
  local n = choose { 1, 2 }
  local o = {
    choose { "nil", "2", "3", "5" },
    choose { "nil", "policy.precision.bf16()", "policy.precision.f16 {}",
      "policy.precision.f16 { loss_scale = 64 }", "policy.precision.fp8()",
      'policy.precision.fp8 { scaling = "delayed", history = 2 }',
      "policy.precision.bf16_pure()" },
    n == 1 and choose { "nil", "policy.shard.ddp()" }
      or choose { "policy.shard.ddp()", "policy.shard.zero(1)", "policy.shard.zero(2)",
        "policy.shard.fsdp()", "policy.shard.fsdp { bucket = 256 }" },
    choose { "nil", "1.0" }, choose { "true", "false" },
    choose { "{ identity }", "{ { name = 'b' }, identity }",
      "{ { name = 'b', wraps = 'accumulation', grad = pass }, identity }",
      "{ { name = 'b', wraps = 'sharding', grad = pass, assign = pass } }" } }
  return n, ([[
    local function options()
      return { accumulate = %s, precision = %s, shard = %s }
    end
    local clip, budget = %s, %s
  ]]):format(o[1], o[2], o[3], o[4], o[5])
    .. train:gsub("wraps%)", function() return o[6] .. ")" end), table.concat(o, "; ")
end

describe("a transform that changes nothing", function()
  it("changes no bit, whatever it is combined with", function()
    local state = 20
    local function random(n)
      state = (state * 6364136223846793005 + 1442695040888963407)
      return (state >> 33) % n + 1
    end
    for _ = 1, tonumber(os.getenv "MRT_DRAWS") or 12 do
      local n, code, what = drawn(random)
      local ok, results = pcall(ranks.run, n, code)
      assert(ok, ("%d ranks, %s: %s"):format(n, what, tostring(results)))
      for r = 1, n do assert.is_true(results[r], ("%d ranks, %s"):format(n, what)) end
    end
  end)

  it("changes no bit of a step that swaps", function()
    local function run(transforms)
      local model, x, y = network()
      local opt = optim.adamw(model:parameters(), { lr = 0.1 })
      local step = network_step(model, opt, { transforms = transforms,
        swap = policy.swap.optimizer() })
      for _ = 1, 3 do step(x, y) end
      return bits.trained(model, opt)
    end
    local t = load(identity .. "return identity")()
    assert.equal(run(nil), run { t })
  end)
end)

describe("gradients in pieces", function()
  it("stay so in trace:map, and may be read whole, with the same bits", function()
    local out = ranks.alike(2, [[
      local function train(grad)
        mrt.seed(3)
        local model = nn.Linear(64, 64)
        local opt = optim.sgd(model:parameters(), { lr = 0.1 })
        local step = mrt.compile(function(x)
          local loss = (model(x) ^ 2):mean()
          opt:step(mrt.grad(loss, model:parameters()))
          return loss
        end, { shard = policy.shard.fsdp(), transforms = { { name = "half", grad = grad } } })
        local x = mrt.ones(4, 64)
        for _ = 1, 2 do step(x) end
        local gathers = 0
        for _, s in ipairs(step:plan(x):steps()) do
          if s.op == "allgather" then gathers = gathers + 1 end
        end
        return gathers, model.weight:bytes()
      end
      local pieces, one = train(function(self, next, ...)
        return self.trace:map(next(...), function(g) return g * 0.5 end)
      end)
      local whole, two = train(function(_, next, ...)
        local grads = next(...)
        for i, g in ipairs(grads) do grads[i] = g * 0.5 end
        return grads
      end)
      return ("%s %d %d"):format(one == two, pieces, whole)
    ]])
    assert.equal("true 1 2", out)
  end)

  it("are this rank's own inside sharding, and the mean outside", function()
    local out = ranks.run(2, [[
      local seen = {}
      local function look(name, wraps)
        local kept = mrt.variable(0.0)
        seen[name] = kept
        return { name = name, wraps = wraps, grad = function(_, next, ...)
          local grads = next(...)
          kept:assign(grads[1])
          return grads
        end }
      end
      local w = mrt.parameter(mrt.ones {})
      mrt.compile(function(x)
        w:assign(w - mrt.grad((x * w):mean(), w))
      end, { shard = policy.shard.ddp(), transforms = { look "outside",
        look("inside", "accumulation") } })(mrt.full({ 2 }, 1 + 2 * comm.rank))
      return ("%g %g"):format(seen.inside:item(), seen.outside:item())
    ]])
    assert.same({ "1 2", "3 2" }, out)
  end)
end)

-- ---- mistakes ------------------------------------------------------------------

describe("an error in a hook", function()
  local here = debug.getinfo(1, "S").short_src

  -- The error of a step, which leaves nothing behind; a later step works.
  local function error_of(t)
    local broken = true
    for _, hook in ipairs { "begin", "finish", "grad", "assign", "gate" } do
      local own = t[hook]
      t[hook] = own and function(self, next, ...)
        if broken then return own(self, next, ...) end
        if type(next) == "function" then return next(...) end
      end
    end
    local step, w, x = small { transforms = { t } }
    local err, text = failure(step, x)
    assert.is_false(mrt.tracing())
    assert.is_nil(core.current_trace())
    assert.equal(1, w:item())
    assert.equal(4, mrt.grad(w * w * 2, w):item())
    broken = false
    assert.equal(4, step(x):item())
    assert.equal(-3, w:item())
    return err, text
  end

  it("is raised at its line, and leaves nothing behind", function()
    for _, hook in ipairs { "begin", "grad", "assign", "gate", "finish" } do
      local _, text = error_of { name = "bad", [hook] = function() error "mine" end }
      assert.equal(("%s:%d: mine"):format(here, debug.getinfo(1, "l").currentline - 1), text)
      local err = error_of { name = "bad", [hook] = function()
        return mrt.ones(2):matmul(mrt.ones(3))
      end }
      assert.equal("shape", err.code)
      assert.equal(("%s:%d"):format(here, debug.getinfo(1, "l").currentline - 3), err.position)
    end
  end)

  it("is one of what it returns, or asks for", function()
    local function of(grad) return error_of({ name = "bad", grad = grad }).message end
    assert.matches("grad: transform 'bad': 1 gradients wanted, got nil", of(function() end))
    assert.matches("1 gradients wanted, got a table of 0", of(function() return {} end))
    assert.matches("1 gradients wanted, got f32%[%]", of(function(_, next, ...)
      return next(...)[1]
    end))
    assert.matches("a list of outputs wanted, got nil", of(function(_, next) return next() end))
    assert.matches("a list of inputs wanted, got a table of 1", of(function(_, next, ys)
      return next(ys, { 1 }, {})
    end))
    assert.matches("the table of options wanted, got nil", of(function(_, next, ys, xs)
      return next(ys, xs)
    end))
  end)
end)

describe("the option transforms", function()
  it("refuses what is none, by name", function()
    local function message(transforms)
      local err = failure(mrt.compile, print, { transforms = transforms })
      assert.equal("value", err.code)
      return err.message
    end
    local function t(fields)
      fields.name = "mine"
      return { fields }
    end
    for pattern, wrong in pairs {
      ["a list of transforms wanted, got 3"] = 3,
      ["a list of transforms wanted, got f32%[1%]"] = mrt.ones(1),
      ["got the transform \"mine\""] = { name = "mine" },
      ["a table with a field \"grad\""] = { grad = print },
      ["a transform wanted at 1, a table, got a function"] = { print },
      ["transform 1 has no name: a string wanted, got nil"] = { {} },
      ["a string wanted, got 3"] = { { name = 3 } },
      ["there are two transforms 'mine'"] = { { name = "mine" }, { name = "mine" } },
      ["there are two transforms 'sharding'"] = { { name = "sharding" } },
      ["'mine' has a hook 'gradient' that there is not %(hooks: after_step, assign, "]
        = t { gradient = print },
      ["'mine': grad is 3, a function wanted"] = t { grad = 3 },
      ["'mine' wraps \"shard\", one of loss scaling, gradient noise scale, pipeline, "]
        = t { wraps = "shard" },
    } do
      assert.matches(pattern, message(wrong))
    end
  end)
end)
