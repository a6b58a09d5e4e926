-- add_norm_grads_spec.lua -- gradients of norms are added where they are made; no bit changes
local mrt = require "mrt"
local bits = require("support.bits").of

local nn, optim, policy = mrt.nn, mrt.optim, mrt.policy

local count = require("support.steps").count

-- Layers of x + f(norm(x)), or of x + f(norm(x)) + g(norm(x)); f: `linear`, or GELU of one.
local function residual(norm, dim, layers, wide, linear)
  local net = { norms = {}, first = {}, second = {} }
  for i = 1, layers do
    net.norms[i] = norm == "layer" and nn.LayerNorm(dim) or nn.RMSNorm(dim)
    net.first[i] = nn.Linear(dim, dim)
    net.second[i] = wide and nn.Linear(dim, dim)
  end
  function net.parameters()
    local list = {}
    for _, kind in ipairs { net.norms, net.first, net.second } do
      for i = 1, layers do
        if kind[i] then table.move(kind[i]:parameters(), 1, 9, #list + 1, list) end
      end
    end
    return list
  end
  function net.forward(x, dropout)
    for i = 1, layers do
      local y = net.norms[i](x)
      local f = net.first[i](y)
      if not linear then f = f:gelu() end
      if dropout then f = f:dropout(0.25) end
      x = x + f
      if wide then x = x + net.second[i](net.norms[i](x)) end
    end
    return x
  end
  return net
end

-- A training of three steps: losses and parameters as bits, and the plan.
local function train(made, dropout, options)
  mrt.seed(11)
  local net = residual(table.unpack(made))
  local params = net.parameters()
  local opt = optim.adamw(params, { lr = 1e-2 })
  local step = mrt.compile(function(x)
    local loss = (net.forward(x, dropout) ^ 2):mean()
    opt:step(mrt.grad(loss, params))
    return loss
  end, options)
  local x, losses = mrt.randn(6, 3, made[2]), {}
  for i = 1, 3 do losses[i] = step(x):copy() end
  return bits { table.unpack(losses) } .. bits(params), step:plan(x)
end

describe("gradients of norms", function()
  local drawn = tonumber(os.getenv "MRT_SPEC_DRAWS") or 24

  it("are added to what goes past the branch, with the bits of both", function()
    math.randomseed(20)
    local function one_of(list) return list[math.random(#list)] end
    for _ = 1, drawn do
      local made = { one_of { "layer", "rms" }, one_of { 16, 40, 67 }, math.random(1, 4),
        math.random() < 0.3, math.random() < 0.3 }
      local dropout, kind = math.random() < 0.4, one_of { "none", "bf16", "f16", "bf16_pure" }
      local function options(more)
        more.precision = kind ~= "none" and policy.precision[kind]() or nil
        return more
      end
      local what = ("%s %d wide, %d layers, %s%s"):format(made[1], made[2], made[3], kind,
        dropout and ", dropout" or "")
      local apart, alone = train(made, dropout, options { add_norm_grads = false })
      local added, plan = train(made, dropout, options {})
      assert.are.equal(apart, added, what)
      local op = made[1] .. "_norm_grad"
      assert.are.equal(count(alone, op), count(plan, op) + count(plan, op .. "_add"), what)
      assert.are.equal(0, count(alone, op .. "_add"))
      assert.is_true(count(plan, op .. "_add") >= made[3] - 1, what)
      assert.is_true(plan.lower_bound <= alone.lower_bound, what)
      assert.is_true(plan.peak <= 1.01 * alone.peak, what) -- how well both are packed
      local half = alone.peak - (alone.peak - alone.lower_bound) // 2
      local ok, tight = pcall(train, made, dropout, options { memory = half,
        checkpoint = policy.checkpoint.all() })
      if ok then assert.are.equal(apart, tight, what .. ", recomputed") end
    end
  end)

  it("come rounded where a product reads them so", function()
    local _, plan = train({ "layer", 32, 3, false, true }, false,
      { precision = policy.precision.bf16() })
    assert.are.equal(2, count(plan, "layer_norm_grad_add"))
    assert.are.equal(0, count(plan, "add+cast"))
    local _, rounded = plan:graph "add_norm_grads":gsub(
      "%%%d+ f32[^\n]+, %%%d+ bf16%[6,3,32%] = layer_norm_grad_add", "")
    assert.are.equal(2, rounded)
  end)

  it("stay apart where others read them", function()
    local norm, x = nn.RMSNorm(8), mrt.randn(5, 8)
    local plan = mrt.compile(function(a)
      local y = norm(a)
      local dx = mrt.grad((y ^ 2):sum(), { a })[1]
      return dx + a, dx
    end):plan(x)
    assert.are.equal(0, count(plan, "rms_norm_grad_add"))
    plan = mrt.compile(function(a)
      local dx = mrt.grad((norm(a) ^ 2):sum(), { a })[1]
      return dx + a
    end):plan(x)
    assert.are.equal(1, count(plan, "rms_norm_grad_add"))
    plan = mrt.compile(function(a)
      local dx = mrt.grad((norm(a) ^ 2):sum(), { a })[1]
      return dx + dx
    end):plan(x)
    assert.are.equal(0, count(plan, "rms_norm_grad_add"))
  end)
end)
