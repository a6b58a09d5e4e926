-- compress_spec.lua -- what is kept for the backward pass is kept smaller
--
-- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local bits = require("support.bits").of
local nn, optim, policy = mrt.nn, mrt.optim, mrt.policy

local tokens = mrt.eval(mrt.randint(0, 60, 4, 65))
local lean = os.getenv "MRT_SPEC_LEAN"
local STEPS <const> = lean and 5 or 40
local formats <const> = { "f16", "bf16", "int8", "f8", "nf4" }
local losses <const> = { f16 = 0.0003, bf16 = 0.002, int8 = 0.01, f8 = 0.03, nf4 = 0.1 }

local function made(o, dropout)
  mrt.seed(3)
  local model = nn.GPT { vocab = 60, context = 64, layers = 2, heads = 2, dim = 64,
    dropout = dropout or 0.1 }
  local params = model:parameters()
  local opt = optim.adamw(params, { lr = 3e-3 })
  mrt.seed(4)
  return mrt.compile(function(t)
    local loss = model:loss(t:slice(2, 1, 64), t:slice(2, 2, 65))
    opt:step(mrt.grad(loss, params), { clip = 1.0 })
    return loss
  end, o), params
end

local function after(o, steps, dropout)
  local step, params = made(o, dropout)
  local losses_of = {}
  for i = 1, steps do losses_of[i] = step(tokens):item() end
  return bits(params), losses_of, step:plan(tokens)
end

describe("compress", function()
  it("keeps less for the backward pass, and the loss", function()
    local _, wanted, plan = after({ spend = 0 }, STEPS, 0)
    for _, format in ipairs(formats) do
      local _, got, less = after({ compress = format, spend = 0 }, STEPS, 0)
      local most = { f16 = 0.5, bf16 = 0.5, int8 = 0.27, f8 = 0.25, nf4 = 0.15 }
      assert.is_true(less.compressed_to <= most[format] * less.compressed, format)
      assert.is_true(less.compressed > 0.85 * plan:kept())
      assert.is_true(less:kept() <= plan:kept() - 0.9 * (less.compressed - less.compressed_to))
      assert.is_true(less.peak < plan.peak, format)
      local far = math.abs(got[STEPS] - wanted[STEPS]) / wanted[STEPS]
      assert.is_true(far < (format == "nf4" and 0.5 or 0.1), format)
      assert.truthy(less:text():find "compressed ")
    end
  end)

  it("gives the same bits however the step is planned", function()
    local checkpoint = policy.checkpoint
    for i, format in ipairs { "int8", "nf4", "f8" } do
      local precision = i == 2 and policy.precision.bf16() or nil
      local wanted, _, plan = after({ compress = format, precision = precision }, 3)
      local others = { { order = "program" }, { fuse = false }, { share = false, inplace = false },
        { checkpoint = checkpoint.all() }, { checkpoint = checkpoint.every(1) },
        { checkpoint = checkpoint.swap(), swap = policy.swap.all() }, { cse = false, fold = false },
        i == 1 and not lean and { memory = math.floor(plan.peak - 0.2 * plan.transient) } or nil }
      for k, o in ipairs(others) do
        o.compress, o.precision = format, precision
        if not lean or k % 3 == i % 3 then
          assert.equal(wanted, (after(o, 3)), ("%s, plan %d"):format(format, k))
        end
      end
    end
  end)

  it("tells how far gradients are off, and leaves the run as it was", function()
    for _, format in ipairs(formats) do
      local step, params = made { compress = format, accumulate = 2 }
      local before = bits(params)
      local off = step:compress_error(tokens)
      assert.equal(before, bits(params))
      assert.is_true(off.relative > 0 and off.relative <= losses[format], format)
      assert.equal(#params, #off.gradients)
      assert.truthy(tostring(off):find "^gradients are off by")
      local loss = step(tokens):item()
      assert.equal(loss, made { compress = format, accumulate = 2 }(tokens):item())
    end
  end)

  it("asks a function about each value", function()
    local seen = {}
    local _, _, plan = after({ compress = function(v)
      seen[#seen + 1] = v.op
      assert(not pcall(function() v.format = "nf4" end))
      if not v.refused and v.bytes >= 65536 then return "int8" end
    end }, 1)
    assert.is_true(#seen > 10)
    local all = made { compress = "int8" }:plan(tokens)
    assert.is_true(plan.compressed > 0 and plan.compressed < all.compressed)
  end)

  it("is left to a budget within a tolerance", function()
    local w = {}
    for i = 1, 8 do w[i] = mrt.variable(mrt.randn(128, 128) * 0.1) end
    local rows = mrt.eval(mrt.randn(256, 128))
    local function net(o)
      return mrt.compile(function(x)
        for i = 1, #w do x = x:matmul(w[i]):gelu() end
        return mrt.grad(x:square():mean(), w)
      end, o)
    end
    local free = net { compress = 0.01 }:plan(rows)
    assert.equal(nil, free.compressed)
    local budget = math.floor(free.peak - 0.45 * free.transient)
    local plain = net { memory = budget }:plan(rows)
    local o = { memory = budget, compress = 0.01 }
    local plan = net(o):plan(rows)
    assert.is_true(plan.peak <= budget and plan.seconds < plain.seconds and plan.compressed > 0)
    assert.equal(bits(net(o)(rows)), bits(net(o)(rows)))
    o.accumulate, o.allow_batch_statistics = 2, true
    assert.is_true(net(o):plan(rows).peak <= budget)
    assert.error_matches(function() net { memory = 1000, compress = 0.1 }:plan(rows) end,
      "compress_spec.lua:%d+: .*too little")
  end)

  it("refuses what it cannot do, by line, and loses nothing", function()
    local function refused(o, text)
      assert.error_matches(function() made(o):plan(tokens) end, text)
    end
    refused({ compress = "int4" }, 'compress_spec.lua:%d+: compile: option .compress.: "bf16"')
    refused({ compress = 0.001 }, "compress_spec.lua:%d+: .*a tolerance from 0.002 %(bf16%) to 1")
    refused({ compress = 2 }, "a tolerance from")
    refused({ compress = function() return "int4" end },
      "the policy %(.*compress_spec.lua:%d+%) answered .int4. for .*nf4")
    refused({ compress = function(v) return v.refused and "int8" end },
      "answered .int8. for .*%(.*:%d+%): it is ")
    refused({ compress = function(v) return v.dtype == "bf16" and "f16" or nil end,
      precision = policy.precision.bf16() }, "takes no less than bf16")
    refused({ compress = function() error "no" end }, "failed on .*no")
    local w = mrt.variable(mrt.ones(4, 4))
    local forward = mrt.compile(function(x) return x:matmul(w) end, { compress = "int8" })
    assert.error_matches(function() forward(mrt.ones(2, 4)) end,
      "nothing here is kept for a backward pass")
    assert.error_matches(function() made {}:compress_error(tokens) end, "compresses nothing")
    assert.error_matches(function() forward:compress_error(mrt.ones(2, 4)) end, "nothing here")
  end)

  it("reads shapes of all kinds", function()
    local w = mrt.variable(mrt.randn(3, 2, 3, 3))
    for _, shape in ipairs { { 2, 2, 7, 5 }, { 1, 2, 3, 3 }, { 3, 2, 9, 66 } } do
      for _, format in ipairs(formats) do
        local x = mrt.eval(mrt.randn(shape))
        local function step(o)
          return mrt.compile(function(t)
            local h = (t * 1.5):tanh():conv2d(w, nil, { padding = 1 }):gelu()
            return mrt.grad((h * h):mean(), { w })[1]
          end, o)(x)
        end
        local exact, off = step(), step { compress = format }
        local far = ((off - exact) ^ 2):sum():item() / (exact ^ 2):sum():item()
        assert.is_true(far ^ 0.5 < 2 * losses[format], format)
      end
    end
  end)
end)
