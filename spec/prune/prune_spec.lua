-- prune_spec.lua -- what is pruned is 0 and stays 0
local mrt = require "mrt"
local nn, optim, prune, train = mrt.nn, mrt.optim, mrt.prune, mrt.train
local random = require "mrt.data.random"
local files = require "support.files"

local function zeros(x) return x:eq(0):to "i64":sum():item() end

-- A layer with these weights.
local function layer_of(rows)
  return nn.Linear(#rows[1], #rows, { bias = false,
    init = function() return mrt.tensor(rows, "f32") end })
end

describe("prune.magnitude", function()
  it("prunes exactly the share, the smallest, of equal ones the first", function()
    local draw = random.new(3)
    for _ = 1, 20 do
      local n, k, few = draw:integer(6) + 1, draw:integer(9) + 1, draw:integer(2) == 0
      local rows, flat = {}, {}
      for i = 1, n do
        rows[i] = {}
        for j = 1, k do
          local w = few and draw:integer(5) - 2 or draw:integer(2000) / 1000 - 1.0003
          rows[i][j] = w
          flat[#flat + 1] = { math.abs(w), #flat + 1, w }
        end
      end
      local share = draw:integer(100) / 100
      local layer = prune.magnitude(layer_of(rows), { share = share })
      table.sort(flat, function(a, b) return a[1] < b[1] or a[1] == b[1] and a[2] < b[2] end)
      local gone = math.floor(share * n * k + 0.5)
      local got = layer.weight:reshape(-1):totable()
      local kept = layer.weight_mask:reshape(-1):totable()
      for rank, entry in ipairs(flat) do
        assert.equal(rank > gone, kept[entry[2]])
        local wanted = rank > gone and mrt.tensor(entry[3], "f32"):item() or 0
        assert.equal(wanted, got[entry[2]])
      end
    end
  end)

  it("takes the smallest of all layers together with global", function()
    local net = nn.Sequential(layer_of { { 1, 2, 3, 4 } },
      layer_of { { 10 }, { 0.5 }, { 20 }, { 30 } })
    prune.magnitude(net, { share = 0.5, global = true })
    assert.same({ { 0, 0, 0, 4 } }, net.layers[1].weight:totable())
    assert.same({ { 10 }, { 0 }, { 20 }, { 30 } }, net.layers[2].weight:totable())
    local report = prune.report(net)
    assert.same({ 4, 8, 0.5 }, { report.zeros, report.count, report.share })
    assert.matches("layers%.1 +3 of +4 zero +75%.0 %%", tostring(report))
  end)
end)

describe("prune.two_of_four", function()
  it("keeps the two largest of each four along a row", function()
    mrt.seed(4)
    for _, layer in ipairs { nn.Linear(24, 7), nn.Conv2d(4, 5, 3) } do
      local before = mrt.eval(layer.weight:abs():reshape(-1, 4)):totable()
      prune.two_of_four(layer)
      for i, kept in ipairs(layer.weight_mask:reshape(-1, 4):totable()) do
        local least, most, count = math.huge, 0, 0
        for j = 1, 4 do
          if kept[j] then
            count, least = count + 1, math.min(least, before[i][j])
          else
            most = math.max(most, before[i][j])
          end
        end
        assert.equal(2, count)
        assert.is_true(least >= most)
      end
    end
    local tie = prune.two_of_four(layer_of { { 1, -1, 1, 1, 0, 0, 2, 0 } })
    assert.same({ { 1, -1, 0, 0, 0, 0, 2, 0 } }, tie.weight:totable())
  end)
end)

describe("what is pruned", function()
  local function net()
    mrt.seed(8)
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))
  end

  -- A step, compiled and run before anything is pruned: its moments are not 0.
  local function trained(model, opt, options)
    local x, y = mrt.eval(mrt.randn(32, 8), mrt.randn(32, 4))
    local step = mrt.compile(function()
      local loss = nn.mse(model(x), y)
      opt:step(mrt.grad(loss, opt:parameters()), { clip = 10 })
      return loss
    end, options)
    for _ = 1, 3 do step() end
    return step
  end

  it("stays exactly 0 with every optimizer, and the rest trains", function()
    for _, name in ipairs { "sgd", "adam", "adamw", "rmsprop", "adagrad", "lion", "lamb",
      "muon" } do
      local model = net()
      local o = name == "sgd" and { lr = 0.01, momentum = 0.9 } or { lr = 0.01 }
      local matrices = { model.layers[1].weight, model.layers[3].weight }
      local opt = optim[name](name == "muon" and matrices or model:parameters(), o)
      local step = trained(model, opt)
      prune.magnitude(model, { share = 0.5 })
      local before, first = model.layers[1].weight:totable(), step():item()
      for _ = 1, 10 do step() end
      assert.same({ 96, 192 }, { prune.report(model).zeros, prune.report(model).count }, name)
      assert.not_same(before, model.layers[1].weight:totable())
      assert.is_true(step():item() < first, name)
    end
  end)

  it("may grow, survives saving, and ends with remove", function()
    local model = net()
    local step = trained(model, optim.adamw(model:parameters(), { lr = 0.01 }),
      { precision = mrt.policy.precision.f16() })
    for _, share in ipairs { 0.3, 0.6, 0.5 } do
      prune.magnitude(model, { share = share })
      step()
      assert.equal(math.max(share, 0.3) == 0.3 and 38 or 77, zeros(model.layers[1].weight))
    end
    local other = prune.magnitude(net(), { share = 0 })
    other:load_state(model:state())
    assert.equal(model.layers[1].weight_mask:bytes(), other.layers[1].weight_mask:bytes())
    prune.remove(model)
    assert.equal(0, #model:buffers())
    assert.equal(77, zeros(model.layers[1].weight))
    step()
    assert.equal(0, zeros(model.layers[1].weight))
  end)

  it("is 0 in averages of before, and after loading what does not fit the masks", function()
    local model = net()
    local ema = optim.ema(model:parameters(), { decay = 0.9 })
    ema:update()
    prune.magnitude(model, { share = 0.5 })
    ema:apply(function() assert.equal(96, prune.report(model).zeros) end)
    ema:update()
    assert.equal(64, zeros(ema.averages[1]))
    local state = net():state()
    for name, buffer in pairs(model:state()) do
      if name:find "mask" then state[name] = buffer:copy() end
    end
    model:load_state(state)
    assert.equal(96, prune.report(model).zeros)
  end)

  it("stays exactly 0 however a step is planned, and after it is resumed", function()
    local precision, folder = mrt.policy.precision, files.name()
    local function run(name, given, options)
      mrt.seed(8)
      local model = nn.Sequential(nn.Linear(64, 96), nn.GELU(), nn.Linear(96, 64))
      prune.two_of_four(model)
      local masks, o = model.layers[1].weight_mask:bytes(), { lr = 1e-3, weight_decay = 0.1 }
      for k, v in pairs(given) do o[k] = v end
      local opt = optim[name](model:parameters(), o)
      local ema = optim.ema(model:parameters(), { decay = 0.5 })
      local x = mrt.eval(mrt.randn(8, 64))
      local step = mrt.compile(function(a)
        local loss = nn.mse(model(a), a)
        opt:step(mrt.grad(loss, opt:parameters()), { clip = 1 })
        ema:update()
        return loss
      end, options)
      local function check()
        assert(masks == model.layers[1].weight_mask:bytes())
        assert.equal(64 * 96, prune.report(model).zeros, name)
        ema:apply(function() assert.equal(64 * 96, prune.report(model).zeros, name) end)
      end
      local snapshots = train.snapshots { folder = folder, parts = { model = model, opt = opt,
        ema = ema, step = step } }
      return function()
        step(x)
        check()
      end, snapshots, model
    end
    for name, given in pairs { adamw = {}, sgd = { momentum = 0.9 }, lion = {} } do
      for i, options in ipairs { {}, { accumulate = 2, precision = precision.bf16() },
        { precision = precision.f16 { loss_scale = { init = 2.0 ^ 24 } } },
        { precision = precision.bf16_pure { stochastic = false },
          swap = mrt.policy.swap.optimizer() },
        { accumulate = 2, checkpoint = mrt.policy.checkpoint.every(1) } } do
        given.state = ({ "f32", "8bit", "bf16" })[i % 3 + 1]
        local step, snapshots, model = run(name, given, options)
        for _ = 1, 3 do step() end
        assert(snapshots:save(3))
        step()
        local wanted = model.layers[1].weight:bytes()
        step, snapshots, model = run(name, given, options)
        assert.equal(3, snapshots:resume())
        step()
        assert(wanted == model.layers[1].weight:bytes(), name .. " other bits, " .. i)
      end
    end
  end)

  it("is refused where it cannot be", function()
    assert.error_matches(function() prune.magnitude(net(), { share = 1 }) end,
      "share = 1, wanted 0 <= share < 1")
    assert.error_matches(function() prune.magnitude(net()) end, "share is missing")
    assert.error_matches(function() prune.magnitude(nn.LayerNorm(3), { share = 0.5 }) end,
      "no weights to prune in LayerNorm")
    assert.error_matches(function() prune.magnitude(layer_of { { 0 / 0, 1 } }, { share = 0.9 }) end,
      "not numbers %(NaN%)")
    assert.error_matches(function() prune.two_of_four(layer_of { { 0 / 0, 1, 2, 3 } }) end,
      "prune.two_of_four: Linear%(4, 1, no bias%): weights are not numbers %(NaN%)")
    assert.error_matches(mrt.compile(function() prune.two_of_four(net()) end),
      "inside a compiled function")
    for _, share in ipairs { -0.1, 0 / 0, math.huge } do
      assert.error_matches(function() prune.magnitude(net(), { share = share }) end,
        "wanted 0 <= share < 1")
    end
    assert.error_matches(function() prune.two_of_four(nn.Sequential(nn.Linear(6, 2))) end,
      "'layers.1', Linear%(6, 2%): rows of 6 weights, a multiple of 4 wanted")
    assert.error_matches(function() prune.report(3) end, "a module wanted")
  end)
end)
