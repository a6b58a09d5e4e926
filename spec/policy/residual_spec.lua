-- residual_spec.lua -- what layers hand on is narrow where a precision policy says so
--
-- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local nn, optim, policy = mrt.nn, mrt.optim, mrt.policy
local precision, checkpoint = policy.precision, policy.checkpoint

local LAYERS <const>, DIM <const>, ROWS <const> = 6, 64, 4
local STEPS <const> = os.getenv "MRT_SPEC_LEAN" and 3 or 20

local function step_of(o)
  mrt.seed(5)
  local model = nn.GPT { vocab = 64, context = 32, layers = LAYERS, heads = 2, dim = DIM }
  local params = model:parameters()
  local opt = optim.adamw(params, { lr = 1e-3 })
  return mrt.compile(function(x)
    local loss = model:loss(x, x)
    opt:step(mrt.grad(loss, params))
    return loss
  end, o)
end

local x = mrt.randint(0, 64, ROWS, 32)

-- How many values of a boundary's size live long, by dtype.
local function boundaries(o)
  local plan, sums = step_of(o):plan(x), {}
  for _, v in ipairs(plan:values()) do
    local dtype = v.role == "activation" and v.type:match "^(%w+)%[4,32,64%]$"
    if dtype and v.last - v.first > 60 then
      sums[dtype] = (sums[dtype] or 0) + 1
    end
  end
  return sums
end

describe("what layers hand on", function()
  it("is kept narrow between checkpoints, or as it was computed", function()
    local one = checkpoint.every(1)
    for _, name in ipairs { "bf16", "f16" } do
      local narrow = boundaries { precision = precision[name](), checkpoint = one }
      assert.is_nil(narrow.f32)
      assert.is_true(narrow[name] >= 3)
      local wide = boundaries { precision = precision[name] { residual = "f32" },
        checkpoint = one }
      assert.is_true(wide.f32 >= 3)
    end
  end)

  it("changes no bit with what is recomputed, and little of the loss", function()
    local function losses(o)
      local step, list = step_of(o), {}
      for i = 1, STEPS do list[i] = step(x):item() end
      return list
    end
    local plain = losses {}
    for _, p in ipairs { precision.bf16(), precision.f16(), precision.fp8(),
      precision.bf16_pure() } do
      local kept = losses { precision = p }
      assert.same(kept, losses { precision = p, checkpoint = checkpoint.every(1) })
      assert.same(kept, losses { precision = p, checkpoint = checkpoint.sqrt() })
      assert.near(plain[STEPS], kept[STEPS], 0.03 * plain[STEPS])
    end
  end)

  it("is asked about: sums, tables and what no variable leads to are not handed on", function()
    local seen = {}
    local w = mrt.parameter(mrt.randn(8, 8))
    local step = mrt.compile(function(a)
      local table = a:cos()
      local h = mrt.layer(function(v) return (v:matmul(w) + table):tanh() end, a)
      local out = mrt.layer(function(v) return (v * table):exp() end, h)
      return out:mean(), mrt.grad(out:mean(), { w })[1]
    end, { precision = function(node)
      if node.boundary then seen[#seen + 1] = node.op end
    end })
    step:plan(mrt.randn(4, 8))
    assert.same({ "tanh", "exp" }, seen)
  end)

  it("is named with the line where a policy's answers take more than keeping all", function()
    local function told(o)
      local said = {}
      local warned = warn
      _G.warn = function(text) said[#said + 1] = text end -- luacheck: ignore
      mrt.seed(5)
      local model = nn.GPT { vocab = 64, context = 256, layers = 12, heads = 2, dim = 128 }
      local params = model:parameters()
      local ok, plan = pcall(function()
        return mrt.compile(function(t)
          local loss = model:loss(t, t)
          return loss, mrt.grad(loss, params)
        end, o):plan(mrt.zeros({ 8, 256 }, { dtype = "i64" }))
      end)
      _G.warn = warned -- luacheck: ignore
      assert(ok, plan)
      return said, plan
    end
    local wide = precision.bf16 { residual = "f32" }
    local said, plan = told { precision = wide,
      checkpoint = checkpoint.selective { recompute = { "norm" } } }
    assert.equal(1, #said)
    assert.truthy(said[1]:find "option 'checkpoint': the policy raises the peak from .- "
      .. "with all kept to .- at .- of mrt/nn/%w+%.lua:%d+")
    assert.is_true(plan.lower_bound > plan.kept_peak)
    said = told { precision = wide, checkpoint = checkpoint.every(1) }
    assert.equal(0, #said)
  end)

  it("has two types", function()
    for _, case in ipairs { { "bf16", "f16" }, { "f16", "bf16" }, { "fp8", "f16" },
      { "bf16_pure", 3 } } do
      assert.error_matches(function() precision[case[1]] { residual = case[2] } end,
        'option \'residual\': "b?f16" or "f32" wanted')
    end
  end)
end)
