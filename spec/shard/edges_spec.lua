-- edges_spec.lua -- sharding where it is easily wrong: sizes, norms, draws, beginnings
--
-- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local files = require "support.files"

local stages = { "policy.shard.ddp()", "policy.shard.zero(1)",
  "policy.shard.zero(2, { bucket = 0 })", "policy.shard.zero(3)",
  "policy.shard.fsdp { bucket = '3KiB' }", "function(p) return p.index % 4 end" }

-- What each of `n` ranks returns of `code` with a policy, which all return alike.
local function run(n, policy, code)
  local results, failures = mrt.communicator.ranks(n, ([[
    local mrt, comm = ...
    local nn, optim, policy = mrt.nn, mrt.optim, mrt.policy
    local core = require "mrt.core"
    local sharding = %s
    local function bits(...)
      local words = {}
      for i, t in ipairs { ... } do
        words[i] = t:bytes():gsub(".", function(c) return ("%%02x"):format(c:byte()) end)
      end
      return table.concat(words, " ")
    end
    %s
  ]]):format(policy, code), { timeout = 60 })
  assert(not failures, failures and select(2, next(failures)))
  for r = 2, n do assert.equal(results[1], results[r], policy .. " differs on rank " .. r - 1) end
  return results[1]
end

-- All stages have the bits of ddp; what these are.
local function alike(n, code, list)
  local ddp = run(n, (list or stages)[1], code)
  for i = 2, #(list or stages) do
    local stage = (list or stages)[i]
    assert.equal(ddp, run(n, stage, code), ("%d ranks, %s"):format(n, stage))
  end
  return ddp
end

describe("norms of gradients", function()
  local function clipped(size, more)
    return ([[
      local size = %g
      local a = mrt.parameter(mrt.ones(300, 3), "a")
      local b = mrt.parameter(mrt.ones(5), "b")
      local opt = optim.sgd({ a, b }, { lr = 1 })
      local x = mrt.arange(1, 901):to "f32":reshape(300, 3) * size
      local norm
      local step = mrt.compile(function(x)
        local loss = (a * x):sum() + (b * size):sum()
        norm = opt:step(mrt.grad(loss, { a, b }), { clip = 0.5 })
        return norm
      end, { shard = sharding%s })
      norm = step(x)
      return ("%%.7g %%.6g %%.6g"):format(norm:item() / size, 1 - a:slice(1, 300):min():item(),
        1 - b:min():item()) .. "\n" .. bits(a, b, norm)
    ]]):format(size, more or "")
  end

  it("neither overflow nor vanish, in the bits of all stages", function()
    for _, more in ipairs { "", ", precision = policy.precision.f16 { loss_scale = 1 }" } do
      local seen = {}
      for _, size in ipairs { 1e25, 1, 1e-30 } do
        local code = clipped(size, more)
        local whole, figures = run(1, "nil", code):match "^%S+", nil
        for _, n in ipairs { 2, 3 } do
          figures = alike(n, code):match "^[^\n]*"
          assert.near(tonumber(whole), tonumber(figures:match "%S+"), 1e-6 * tonumber(whole))
        end
        seen[#seen + 1] = figures
      end
      -- as long as their size says; shortened where they are longer than 0.5
      local squares = 900 * 901 * 1801 / 6 + 5
      for _, figures in ipairs(seen) do
        assert.near(math.sqrt(squares), tonumber(figures:match "%S+"), 0.02)
      end
      local most = 0.5 * 900 / math.sqrt(squares)
      assert.near(most, tonumber(seen[1]:match "%S+ (%S+)"), 1e-5)
      assert.near(most, tonumber(seen[2]:match "%S+ (%S+)"), 1e-5)
    end
  end)
end)

describe("random bits of updates", function()
  -- Three steps of a model whose parameters begin at odd multiples of 256 in buckets.
  local function trained(optimizer, settings, precision)
    return ([[
      mrt.seed(3)
      local sizes = { { 300 }, { 7, 40 }, { 1 }, { 513 }, { 64, 65 }, { 2 }, { 256 } }
      local params, groups = {}, { { params = {} }, { params = {}, weight_decay = 0.1 } }
      for i, size in ipairs(sizes) do
        params[i] = mrt.parameter(mrt.randn(table.unpack(size)), ("layers.%%d.w"):format(i))
        table.insert(groups[i %% 2 + 1].params, params[i])
      end
      local opt = optim.%s(groups, %s)
      local all = opt:parameters()
      local step = mrt.compile(function(x)
        local loss = 0
        for _, p in ipairs(all) do loss = loss + ((p:to "f32" - x) ^ 2):sum() end
        opt:step(mrt.grad(loss, all))
        return loss
      end, { shard = sharding, precision = %s })
      for i = 1, 3 do step(mrt.full({}, i + comm.rank)) end
      local state = {}
      for i = 1, #all do state[i] = opt:state()[i .. ".m"] end
      return all[1].dtype .. bits(table.unpack(all)) .. bits(table.unpack(state))
    ]]):format(optimizer, settings, precision or "nil")
  end

  for i, case in ipairs {
    { "adamw", "{ lr = 0.01 }", "policy.precision.bf16_pure()" },
    { "adamw", "{ lr = 0.01, state = 'bf16' }" },
    { "lion", "{ lr = 0.01, state = '8bit' }", "policy.precision.bf16_pure()" },
  } do
    local name = "are the same in all stages: " .. table.concat(case, " ")
    it(i == 3 and name or name .. " #long", function()
      local code = trained(table.unpack(case))
      for n = i == 1 and 2 or 3, i == 1 and 4 or 3 do
        local said = alike(n, code)
        assert.equal(case[3] and "bf16" or "f32", said:match "^%a+%d%d")
      end
      -- with the same batch everywhere, one rank draws the same too
      local same = code:gsub("comm.rank", "0")
      assert.equal(run(1, "nil", same), run(2, "policy.shard.zero(3)", same))
    end)
  end

  it("are the same with micro-batches, whose gradients nothing adds up twice", function()
    local code = [[
      mrt.seed(3)
      local model = nn.Llama { vocab = 65, dim = 32, layers = 1, heads = 2, context = 16 }
      local all = table.move(model:parameters(), 1, 3, 1, {})
      local opt = optim.adamw(all, { lr = 0.01 })
      local step = mrt.compile(function(ids)
        local loss = nn.cross_entropy(model(ids), ids)
        opt:step(mrt.grad(loss, all))
        return loss
      end, { shard = sharding, precision = policy.precision.bf16_pure(), accumulate = 2 })
      local ids = mrt.randint(0, 65, 4, 8)
      for i = 1, 3 do step(ids) end
      local totals = 0
      for _, v in ipairs(step:plan(ids):values()) do
        if v.accumulator and v.name:find("gradient", 1, true) then totals = totals + 1 end
      end
      assert(totals > 0 and totals <= #all, totals)
      return bits(table.unpack(all))]]
    assert.equal(run(1, "nil", code), alike(2, code))
  end)

  it("differ from update to update, and with the seed", function()
    local ones = mrt.communicator.ranks(1, [[
      local mrt = ...
      local core = require "mrt.core"
      local function updated(seed, o)
        mrt.seed(seed)
        local p, m = mrt.parameter(mrt.ones(768):to "bf16"), mrt.parameter(mrt.zeros(768))
        local g = mrt.ones(768) * 0.3
        mrt.compile(function()
          core.update("lion", { p, m, g, mrt.full({}, 0.001) }, o)
        end)()
        return p:bytes()
      end
      local function o(draw, place) return { stochastic = true, draw = draw, place = place } end
      local a = updated(1, o(9, 0))
      assert(a == updated(1, o(9, 0)) and a ~= updated(2, o(9, 0)) and a ~= updated(1, o(8, 0)))
      assert(a:sub(513) == updated(1, o(9, 256)):sub(1, 1024))
      assert(a:sub(1025) == updated(1, o(9, 512)):sub(1, 512))
      for _, place in ipairs { 1, 128, -256 } do
        local ok, why = pcall(updated, 1, o(9, place))
        assert(not ok and tostring(why):find("a multiple of 256 below", 1, true), tostring(why))
      end
      return true
    ]])
    assert.same({ true }, ones)
  end)
end)

describe("parameters of odd sizes", function()
  -- Models of few random sizes, three steps each: bits of parameters, state and norms.
  local function trained(settings, seed)
    return ([[
      local random = seed
      local function pick(list)
        random = (random * 1103515245 + 12345) %% 2147483648
        return list[random // 65536 %% #list + 1]
      end
      local sizes = { { 0 }, { 1 }, { 0, 5 }, {}, { 2 }, { 255 }, { 256 }, { 257 }, { 3, 171 },
        { 1000 }, { 60, 90 } }
      local words = {}
      for case = 1, 4 do
        local count = pick { 1, 1, 2, 3, 7 }
        local params = {}
        mrt.seed(case)
        for i = 1, count do
          params[i] = mrt.parameter(mrt.randn(pick(sizes)), pick { "a", "b" } .. "." .. i)
        end
        local opt = optim.adamw(params, %s)
        local step = mrt.compile(function(x)
          local loss = x * 0
          for _, p in ipairs(params) do loss = loss + ((p - x) ^ 2):sum() end
          local norm = opt:step(mrt.grad(loss, params), { clip = 1 })
          return norm
        end, { shard = sharding })
        for i = 1, 2 do words[#words + 1] = bits(step(mrt.full({}, i + comm.rank))) end
        words[#words + 1] = bits(table.unpack(params))
        local state = opt:state()
        for i = 1, count do words[#words + 1] = bits(state[i .. ".m"], state[i .. ".v"]) end
        for i, p in ipairs(params) do p:assign(p * 0 + i) end
        words[#words + 1] = bits(table.unpack(params))
      end
      return table.concat(words, "\n")
    ]]):gsub("seed", seed, 1):format(settings)
  end

  local narrow = { "policy.shard.ddp { gather = 'bf16', retain = true }",
    "policy.shard.zero(1, { gather = 'bf16', retain = true, bucket = 0 })",
    "policy.shard.zero(2, { gather = 'bf16', reduce = 'f32' })",
    "policy.shard.zero(3, { gather = 'bf16', retain = true, bucket = 0 })" }

  for n = 1, 4 do
    it(("have the same bits in all stages on %d ranks"):format(n)
      .. (n ~= 2 and " #long" or ""), function()
      alike(n, trained("{ lr = 0.1 }", n))
      alike(n, trained("{ lr = 0.1, state = '8bit' }", 10 + n),
        { stages[1], stages[3], stages[4], stages[6] })
      alike(n, trained("{ lr = 0.1 }", 20 + n), narrow)
    end)
  end

  it("are saved in pieces, and go on from them", function()
    local folder = files.name()
    local code = ([[
      local params = {}
      for i, size in ipairs { { 0 }, { 300 }, {}, { 0, 2 }, { 5 } } do
        params[i] = mrt.parameter(mrt.full(size, i), "p" .. i)
      end
      local opt = optim.adamw(params, { lr = 0.1 })
      local step = mrt.compile(function(x)
        local loss = x * 0
        for _, p in ipairs(params) do loss = loss + ((p - x) ^ 2):sum() end
        opt:step(mrt.grad(loss, params))
      end, { shard = sharding })
      local part = { state = function()
        local state = opt:state()
        for i, p in ipairs(params) do state["p" .. i] = p end
        return state
      end }
      local snapshots = mrt.train.snapshots { folder = "%s", parts = { all = part } }
      local x = mrt.full({}, 3)
      if snapshots:resume() == 0 then step(x) assert(snapshots:save(1)) else step:plan(x) end
      return bits(table.unpack(params)) .. bits(opt:state()["1.m"], opt:state()["2.v"])
    ]]):format(folder)
    local first = run(3, "policy.shard.zero(3)", code)
    assert.equal(first, run(2, "policy.shard.zero(1)", code))
    assert.equal(first, run(1, "nil", code))
  end)
end)

describe("updates by hand", function()
  local policies = { "policy.shard.ddp { gather = 'bf16' }",
    "policy.shard.ddp { gather = 'bf16', retain = true }",
    "policy.shard.zero(1, { gather = 'bf16' })",
    "policy.shard.zero(2, { gather = 'bf16', retain = true, bucket = 0 })",
    "policy.shard.zero(3, { gather = 'bf16', bucket = 0 })" }

  -- Three steps of a function of x that updates `params`.
  local function trained(body)
    return ([[
      mrt.seed(1)
      local model = nn.Sequential(nn.Linear(5, 7), nn.Linear(7, 3))
      local params = model:parameters()
      local step = mrt.compile(function(x)
        local loss = (model(x) ^ 2):mean()
        %s
        return loss
      end, { shard = sharding })
      local losses = {}
      for i = 1, 3 do
        losses[i] = ("%%a"):format(comm:allreduce(step(mrt.full({ 4, 5 }, comm.rank + i)),
          { op = "mean" }):item())
      end
      return table.concat(losses, " ") .. bits(table.unpack(params))
    ]]):format(body)
  end

  for name, body in pairs {
    ["read weights in full"] = [[
      local g = mrt.grad(loss, params)
      for i, p in ipairs(params) do p:assign(p - g[i] * 2 ^ -12) end]],
    ["may depend on a predicate"] = [[
      local g = mrt.grad(loss, params)
      for i, p in ipairs(params) do
        p:assign(p - g[i] * 0.01, { when = comm:allreduce(loss):gt(1) })
        p:assign(p * 0.75)
      end]],
    ["come after several gradients, before and after the first"] = [[
      local other = (model(x * 2) ^ 2):mean()
      local g = mrt.grad(loss, params)
      local h = mrt.grad(other, params)
      local f = mrt.grad((model(x * 3) ^ 2):mean() + other, params)
      for i, p in ipairs(params) do p:assign(p - (g[i] + h[i] + f[i]) * 0.001) end]],
    ["need no gradient"] = [[
      mrt.grad(loss, params)
      for _, p in ipairs(params) do p:assign(0.25) end]],
  } do
    it(name, function()
      for _, list in ipairs { policies, stages } do alike(2, trained(body), list) end
    end)
  end

  it("lose nothing to a narrow dtype that weights are gathered in", function()
    local steps = trained [[
      mrt.grad(loss, params)
      for _, p in ipairs(params) do p:assign(p + 2 ^ -14) end]]
    local function weights(policy) return run(2, policy, steps):match " (%x+ %x+ %x+)$" end
    assert.equal(weights "policy.shard.ddp()", weights(policies[3]))
  end)

  it("may write what has no gradient, in a function that knows of it", function()
    alike(2, trained [[
      if _G.known then for _, p in ipairs(params) do p:assign(p * 0.5) end
      else mrt.grad(loss, params) end
      _G.known = true]], policies)
  end)
end)

describe("parameters of ranks with seeds of their own", function()
  -- The sums of two parameters after a step that changes nothing.
  local function begun(meanwhile)
    return ([[
      mrt.seed(1 + comm.rank)
      local model = nn.Sequential(nn.Linear(64, 64, { bias = false }),
        nn.Linear(64, 64, { bias = false }))
      local p = model:parameters()
      local opt = optim.sgd(p, { lr = 0 })
      local step = mrt.compile(function(x)
        local loss = (model(x) ^ 2):mean()
        opt:step(mrt.grad(loss, p))
        return loss
      end, { shard = sharding })
      local x = mrt.ones(2, 64)
      step:plan(x)
      %s
      step(x)
      return bits(p[1]:sum(), p[2]:sum())]]):format(meanwhile)
  end

  it("begin as rank 0's, but for those that have been assigned", function()
    local list = { stages[1], stages[2], stages[4] }
    assert.equal(run(1, "nil", begun ""), alike(2, begun "", list))
    local one = begun "p[1]:assign(mrt.full({ 64, 64 }, 0.5))"
    assert.equal(run(1, "nil", one), alike(2, one, list))
    local loaded = begun "p[2]:assign(0); model:load_state(model:state())"
    assert.equal(run(1, "nil", begun "p[2]:assign(0)"), alike(2, loaded, list))
  end)
end)

describe("policy.shard", function()
  it("refuses what it cannot do", function()
    local shard, compile = mrt.policy.shard, mrt.compile
    local part = mrt.communicator.create():split(0, 0)
    local fake = setmetatable({}, getmetatable(part))
    local elsewhere = setmetatable({ number = 99999 }, getmetatable(part))
    part:close()
    local bytes = "is not a number of bytes"
    for _, case in ipairs {
      { '\'gather\': "bf16" or "f16" wanted, got "f32"', shard.ddp, { gather = "f32" } },
      { '\'gather\': "bf16" or "f16" wanted, got true', shard.fsdp, { gather = true } },
      { '\'reduce\': "f32" or "bf16" or "f16" wanted, got "f8_e4m3"', shard.ddp,
        { reduce = "f8_e4m3" } },
      { "shard.zero: no option 'gathr' (options: bucket, comm, gather, prefetch, reduce, "
          .. "reduce_each, retain)",
        shard.zero, 1, { gathr = "bf16" } },
      { "no option '1'", shard.ddp, { "bf16" } },
      { "a table of options wanted, got string", shard.ddp, "bf16" },
      { 'stage "2", 1, 2 or 3 wanted', shard.zero, "2" },
      { "stage 2.0, 1, 2 or 3 wanted", shard.zero, 2.0 },
      { "stage 0, 1, 2 or 3 wanted", shard.zero, 0 },
      { "stage nil, 1, 2 or 3 wanted", shard.zero },
      { "stage a table, 1, 2 or 3 wanted", shard.zero, {} },
      { bytes, shard.ddp, { bucket = -1 } }, { bytes, shard.ddp, { bucket = 0 / 0 } },
      { bytes, shard.ddp, { bucket = math.huge } }, { bytes, shard.ddp, { bucket = "-1MiB" } },
      { bytes, shard.ddp, { bucket = true } }, { bytes, shard.ddp, { bucket = {} } },
      { "'retain': a boolean wanted, got 1", shard.ddp, { retain = 1, gather = "bf16" } },
      { "'gather', which is not given", shard.ddp, { retain = true } },
      { "'prefetch': a count of gathers wanted, got -1", shard.ddp, { prefetch = -1 } },
      { "'prefetch': a count of gathers wanted, got 1.5", shard.ddp, { prefetch = 1.5 } },
      { "'comm': a communicator wanted, got 3", shard.ddp, { comm = 3 } },
      { "'comm': a communicator wanted, got a table", shard.ddp, { comm = fake } },
      { ("'comm': communicator %d is closed"):format(part.number), shard.ddp, { comm = part } },
      { "'comm': no communicator 99999", shard.ddp, { comm = elsewhere } },
      { "'shard': a policy or a function wanted, got \"ddp\"", compile, print,
        { shard = "ddp" } },
      { "policy.shard.zero makes a policy and must be called", compile, print,
        { shard = shard.zero } },
    } do
      local ok, why = pcall(case[2], table.unpack(case, 3))
      assert(not ok, case[1])
      assert.truthy(tostring(why):find(case[1], 1, true), tostring(why))
    end
    for _, bucket in ipairs { 0, 0.0, "0", "1KiB", 2 ^ 20 } do shard.ddp { bucket = bucket } end
  end)
end)
