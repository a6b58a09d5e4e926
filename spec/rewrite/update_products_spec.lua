-- update_products_spec.lua -- gradients that only their update reads are not stored
--
-- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local bits = require "support.bits"
local random_graph = require "support.random_graph"
local nn, optim, policy = mrt.nn, mrt.optim, mrt.policy

local GRAPHS <const> = tonumber(os.getenv "MRT_SPEC_GRAPHS") or 20

-- Weights larger than the cache that is declared: a table that is multiplied by, too, and a
-- layer of its own.
local WORDS <const>, DIM <const>, HIDDEN <const> = 4100, 256, 4096

local function model_of()
  local tokens, up = nn.Embedding(WORDS, DIM), nn.Linear(DIM, HIDDEN)
  local down = nn.Linear(HIDDEN, DIM, { bias = false })
  local params = { tokens.weight, up.weight, up.bias, down.weight }
  return params, function(x, y)
    local h = tokens(x)
    h = h + down(up(h):gelu())
    return nn.cross_entropy(h:linear(tokens.weight), y)
  end
end

local optimizers = {
  adamw = function(params) return optim.adamw(params, { lr = 1e-2 }) end,
  sgd = function(params) return optim.sgd(params, { lr = 0.1, momentum = 0.9 }) end,
  plain = function(params) return optim.sgd(params, { lr = 0.1, weight_decay = 0.1 }) end,
  rmsprop = function(params) return optim.rmsprop(params, { lr = 1e-3 }) end,
  lion = function(params) return optim.lion(params, { lr = 1e-3 }) end,
}

-- What `steps` steps trained, and the plan.
local function train(name, o, step_options, steps)
  mrt.seed(5)
  local params, loss = model_of()
  local opt = optimizers[name](params)
  local step = mrt.compile(function(x, y)
    local l = loss(x, y)
    opt:step(mrt.grad(l, params), step_options)
    return l
  end, o)
  mrt.seed(6)
  local x, y = mrt.randint(0, WORDS, { 24 }), mrt.randint(0, WORDS, { 24 })
  mrt.eval(x, y)
  local losses = {}
  for i = 1, steps or 2 do losses[i] = step(x, y) end
  local list, state, names = { table.unpack(params) }, opt:state(), {}
  for key in pairs(state) do names[#names + 1] = key end
  table.sort(names)
  for _, key in ipairs(names) do list[#list + 1] = state[key] end
  return bits.of(losses) .. bits.of(list), step:plan(x, y)
end

local function products(plan)
  local count = 0
  for _, s in ipairs(plan:steps()) do count = count + (s.op:find "_product$" and 1 or 0) end
  return count
end

describe("updates that compute their gradient", function()
  for _, name in ipairs { "adamw", "sgd", "plain", "rmsprop" } do
    it("have the bits of a gradient that is stored, and none: " .. name, function()
      local stored, all = train(name, { update_products = false, spend = 0 })
      local computed, plan = train(name, { spend = 0 })
      assert.equal(stored, computed)
      assert.equal(0, products(all))
      assert.equal(3, products(plan)) -- the table with its rows, up, down
      assert.is_true(plan.peak < all.peak)
    end)
  end

  it("are none where somebody else reads the gradient, or the optimizer has no such", function()
    for _, o in ipairs { { { spend = 0 }, { clip = 1.0 } }, { { nan = "trap" } },
      { { accumulate = 2 } } } do
      local _, plan = train("adamw", o[1], o[2], 1)
      assert.equal(0, products(plan))
    end
    local _, plan = train("lion", {}, nil, 1)
    assert.equal(0, products(plan))
  end)

  it("let what they read be computed again, as a policy says", function()
    local stored = train("adamw", { update_products = false })
    local again, plan = train("adamw", { checkpoint = policy.checkpoint.all() })
    assert.equal(stored, again)
    assert.equal(3, products(plan))
    local gelus = 0
    for _, s in ipairs(plan:steps()) do
      gelus = gelus + (s.op:find "gelu$" and s.recomputed and 1 or 0)
    end
    assert.is_true(gelus > 0)
  end)

  it("change no bit beside all else", function()
    local random = random_graph.generator(31)
    local function pick(list) return list[random(#list)] end
    for i = 1, GRAPHS // 4 do
      local precision = pick { policy.precision.f32(), policy.precision.bf16(),
        policy.precision.bf16_pure(), policy.precision.f16 { loss_scale = "dynamic" } }
      local o = { precision = precision, checkpoint = pick { nil, policy.checkpoint.sqrt() },
        order = pick { "memory", "program" }, inplace = pick { true, false },
        fuse = pick { true, false }, spend = pick { 0, 0.1 } }
      local name = pick { "adamw", "sgd", "plain", "rmsprop" }
      local text = {}
      for key, value in pairs(o) do text[#text + 1] = key .. " = " .. tostring(value) end
      text = ("%d: %s, %s"):format(i, name, table.concat(text, ", "))
      o.update_products = false
      local stored, all = train(name, o)
      o.update_products = true
      if random(2) == 1 and not o.checkpoint then o.memory = all.peak end
      assert.equal(stored, (train(name, o)), text)
    end
  end)
end)
