-- spread_spec.lua -- gradients of queries, keys and values are written where
-- the one of what they are parts of lies
--
-- MRT_CUDA names the plug-in.
local mrt = require "mrt"

if not os.getenv "MRT_CUDA" then
  describe("results side by side on a CUDA device", function()
    pending "MRT_CUDA names no plug-in"
  end)
  return
end

-- H heads of queries, Hk of keys: the gradient of all, and which operators the
-- step has.  `also`: that of keys is read once more.
local function gradient(device, x, H, Hk, also)
  mrt.device(device)
  local leaf = mrt.parameter(x:to(device), "x")
  local step = mrt.compile(function()
    local q, k = leaf:slice(3, 1, H), leaf:slice(3, H + 1, H + Hk)
    local v = leaf:slice(3, H + Hk + 1, H + 2 * Hk)
    local y = q:attention(k, v, { causal = true })
    local loss = (y:to "f32" * y:to "f32"):sum()
    if not also then return mrt.grad(loss, { leaf })[1] * 2 end
    local d = mrt.grad(loss, { q, k, v })
    return mrt.cat(d, 3) * 2, d[2] * 2
  end)
  local result = step()
  local count = {}
  for _, s in ipairs(step:plan():steps()) do count[s.op] = (count[s.op] or 0) + 1 end
  return result:to "cpu", count
end

describe("results side by side on a CUDA device", function()
  after_each(function() mrt.device "cpu" end)

  for _, case in ipairs {
    { "f32", 2, 2, 8 }, { "f32", 4, 2, 6 }, { "bf16", 2, 2, 16 },
    { "bf16", 3, 1, 20 }, { "f64", 2, 1, 4 },
  } do
    local dtype, H, Hk, D = table.unpack(case)
    it(("are one: %s, %d and %d heads of %d"):format(dtype, H, Hk, D), function()
      mrt.device "cpu"
      mrt.seed(4)
      local x = mrt.eval(mrt.randn(2, 7, H + 2 * Hk, D):to(dtype))
      local got, count = gradient("cuda:0", x, H, Hk)
      local want = gradient("cpu", x, H, Hk)
      assert.is_nil(count.cat)
      assert.are.equal(1, count.attention_grad)
      local worst = (got:to "f64" - want:to "f64"):abs():max():item()
      local most = want:to "f64":abs():max():item()
      local rounding = { f32 = 1e-5, f64 = 1e-12, bf16 = 0.02 }
      assert.is_true(worst <= rounding[dtype] * most, worst)
    end)
  end

  it("are several where another reads one of them", function()
    mrt.device "cpu"
    mrt.seed(4)
    local x = mrt.eval(mrt.randn(2, 7, 6, 8))
    local got, count = gradient("cuda:0", x, 2, 2, true)
    local alone = gradient("cuda:0", x, 2, 2)
    assert.are.equal(1, count.cat)
    assert.are.equal(alone:bytes(), got:bytes())
  end)
end)
