-- norm_spec.lua -- batch and group norms as layers: statistics, modes, memory
local mrt = require "mrt"
local nn = mrt.nn

local function near(wanted, got, tolerance)
  local off = (mrt.tensor(wanted) - got:to "f32"):abs():amax():item()
  assert(off <= (tolerance or 1e-5), ("%s, %s wanted"):format(got, mrt.tensor(wanted)))
end

local function ops(plan, op)
  local n = 0
  for _, node in ipairs(plan:steps()) do
    if node.op == op then n = n + 1 end
  end
  return n
end

describe("BatchNorm", function()
  local x = mrt.tensor { { 1.0, 10 }, { 2, 20 }, { 3, 30 }, { 6, 60 } }

  it("normalises by the batch while training, and keeps running statistics", function()
    local norm = nn.BatchNorm(2, { momentum = 0.5, eps = 0 })
    local y = norm(x)
    near({ 0, 0 }, y:mean(1))
    near({ 1, 1 }, (y * y):mean(1))
    near({ 1.5, 15 }, norm.running_mean)
    near({ 0.5 + 0.5 * 14 / 3, 0.5 + 50 * 14 / 3 }, norm.running_var, 1e-3)
  end)

  it("normalises by them in evaluation mode, and leaves them", function()
    local norm = nn.BatchNorm(2, { eps = 0 }):eval()
    norm:load_state { weight = mrt.tensor { 2.0, 3 }, bias = mrt.tensor { 1.0, 0 },
      running_mean = mrt.tensor { 1.0, 0 }, running_var = mrt.tensor { 4.0, 100 } }
    near({ { 1, 3 }, { 2, 6 }, { 3, 9 }, { 6, 18 } }, norm(x))
    near({ { 1, 3 }, { 2, 6 }, { 3, 9 }, { 6, 18 } },
      norm(x:reshape(4, 2, 1, 1)):reshape(4, 2))
    near({ 1, 0 }, norm.running_mean)
    assert.equal(2, #norm:parameters())
    assert.equal(2, #norm:buffers())
  end)

  it("refuses other channels, and one value for each", function()
    local norm = nn.BatchNorm(2)
    assert.error_matches(function() norm(mrt.zeros(2, 3)) end, "BatchNorm: .*N, 2, %.%.%.")
    assert.error_matches(function() norm(mrt.zeros(1, 2)) end, "BatchNorm: .*2 or more values")
    assert.error_matches(function() nn.BatchNorm(2, { epsilon = 1 }) end, "no option 'epsilon'")
    assert.error_matches(function() mrt.zeros(2, 3):batch_norm(nil, nil, { dim = 3 }) end,
      "batch_norm: dim 3")
  end)

  -- Two layers on [N,C,H,W], one step of training.
  local function network(options)
    mrt.seed(5)
    local first, second = nn.BatchNorm(4), nn.BatchNorm(4)
    local input = mrt.eval(mrt.randn(6, 4, 3, 3))
    local step = mrt.compile(function(images)
      local y = second(first(images):relu() * 2):permute(1, 3, 4, 2)
      local loss = (y * y * y):mean()
      local grads = mrt.grad(loss, first:parameters())
      for i, p in ipairs(first:parameters()) do p:assign(p - grads[i]) end
      return loss
    end, options)
    local loss = step(input):item()
    return loss, second, step:plan(input), first
  end

  it("stays channels last in memory: one copy, of the input", function()
    local _, _, plan = network {}
    assert.equal(1, ops(plan, "copy"))
    assert.equal(2, ops(plan, "running"))
  end)

  it("is updated once when the layer is computed again", function()
    local loss, norm = network {}
    local again, other, plan = network { checkpoint = function() return "recompute" end }
    assert.equal(loss, again)
    local more = 0
    for _, s in ipairs(plan:steps()) do
      more = more + (s.recomputed and s.op:find "standardize" and 1 or 0)
    end
    assert.is_true(more > 0)
    assert.equal(2, ops(plan, "batch_stats")) -- which updates read
    assert.equal(2, ops(plan, "running"))
    assert.equal(norm.running_var:bytes(), other.running_var:bytes())
  end)

  it("needs the whole batch unless it may take statistics of each part", function()
    assert.error_matches(function() network { accumulate = 2 } end, "allow_batch_statistics")
    local _, norm, _, first = network { accumulate = 2, allow_batch_statistics = true }
    local _, whole, _, first_whole = network {}
    assert.is_true((first.running_mean - first_whole.running_mean):abs():amax():item() < 1e-6)
    assert.is_true((norm.running_var - whole.running_var):abs():amax():item() < 0.1)
  end)
end)

describe("GroupNorm", function()
  it("normalises each sample's groups of channels", function()
    local x = mrt.eval(mrt.randn(3, 6, 2, 2) * 3 + 1)
    local y = nn.GroupNorm(2, 6)(x):reshape(3, 2, 12)
    near({ { 0, 0 }, { 0, 0 }, { 0, 0 } }, y:mean(3))
    near({ { 1, 1 }, { 1, 1 }, { 1, 1 } }, (y * y):mean(3), 1e-3)
    near({ { 0, 0 }, { 0, 0 }, { 0, 0 } },
      (y - x:reshape(3, 2, 12):layer_norm()):abs():amax(3))
  end)

  it("works row by row, so micro-batches are the whole batch", function()
    mrt.seed(2)
    local norm, x = nn.GroupNorm(2, 4), mrt.eval(mrt.randn(6, 4, 3))
    local function run(k)
      local w = mrt.parameter(mrt.ones(4))
      local step = mrt.compile(function(images)
        local loss = (norm(images):transpose(2, 3) * w):sin():mean()
        w:assign(w - mrt.grad(loss, w))
        return loss
      end, { accumulate = k })
      step(x)
      return w
    end
    assert.is_true((run(1) - run(3)):abs():amax():item() < 1e-6)
  end)

  it("refuses groups that do not divide the channels", function()
    assert.error_matches(function() nn.GroupNorm(4, 6) end, "6 channels in 4 groups")
    assert.error_matches(function() nn.GroupNorm(2, 6)(mrt.zeros(2, 5)) end, "N, 6, %.%.%.")
  end)
end)
