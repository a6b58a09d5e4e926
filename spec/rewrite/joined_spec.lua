-- joined_spec.lua -- results of one kernel are written where the cat of them lies
--
-- On a CUDA device: spec/kernels/cuda/spread_spec.lua.
local mrt = require "mrt"
local nn, optim = mrt.nn, mrt.optim

-- H heads of queries, Hk of keys: the gradient of all of them, and the plan.
-- `also`: that of keys is read once more, so that they stay apart.
local function gradient(x, H, Hk, also)
  local leaf = mrt.parameter(x, "x")
  local step = mrt.compile(function()
    local q, k = leaf:slice(3, 1, H), leaf:slice(3, H + 1, H + Hk)
    local v = leaf:slice(3, H + Hk + 1, H + 2 * Hk)
    local y = q:attention(k, v, { causal = true })
    local loss = (y:to "f32" * y:to "f32"):sum()
    if not also then return mrt.grad(loss, { leaf })[1] * 2 end
    local d = mrt.grad(loss, { q, k, v })
    return mrt.cat(d, 3) * 2, d[2] * 2
  end)
  local result = mrt.eval((step()))
  return result, step:plan()
end

local function count(plan, op)
  local n = 0
  for _, s in ipairs(plan:steps()) do n = n + (s.op == op and 1 or 0) end
  return n
end

describe("the cat of all results of attention's gradient", function()
  for _, case in ipairs {
    { "f32", 2, 2, 8, 7 }, { "f32", 4, 2, 6, 70 }, { "f32", 2, 1, 64, 130 }, { "bf16", 2, 2, 16, 7 },
    { "bf16", 3, 1, 20, 65 }, { "f64", 2, 1, 4, 9 },
  } do
    local dtype, H, Hk, D, T = table.unpack(case)
    it(("is no node: %s, %d and %d heads of %d"):format(dtype, H, Hk, D), function()
      mrt.seed(4)
      local x = mrt.eval(mrt.randn(2, T, H + 2 * Hk, D):to(dtype))
      local got, plan = gradient(x, H, Hk)
      local apart, other = gradient(x, H, Hk, true)
      assert.are.equal(0, count(plan, "cat"))
      assert.are.equal(1, count(other, "cat"))
      assert.are.equal(apart:bytes(), got:bytes())
    end)
  end

  it("takes memory once in a GPT's step, at every budget that fits", function()
    mrt.seed(1)
    local model = nn.GPT { vocab = 64, context = 48, layers = 3, heads = 2, dim = 32 }
    local opt = optim.adamw(model:parameters(), { lr = 1e-3 })
    local function step_of(options)
      return mrt.compile(function(x, y)
        local loss = nn.cross_entropy(model(x), y)
        opt:step(mrt.grad(loss, model:parameters()))
        return loss
      end, options)
    end
    local x, y = mrt.randint(0, 64, 4, 48), mrt.randint(0, 64, 4, 48)
    mrt.eval(x, y)
    local plan = step_of():plan(x, y)
    assert.are.equal(0, count(plan, "cat"))
    local less = step_of { memory = math.floor(plan.peak * 0.85) }
    assert.is_true(less:plan(x, y).peak <= plan.peak * 0.85)
    less(x, y):item()
  end)
end)
