-- initial_spec.lua -- recipes of parameters: what their numbers look like
local mrt = require "mrt"
local initial = mrt.nn.initial

local function near(wanted, got, tolerance)
  assert(math.abs(wanted - got) <= (tolerance or 0.03) * math.max(0.1, math.abs(wanted)),
    ("%g, %g wanted"):format(got, wanted))
end

-- Mean, standard deviation, smallest, largest.
local function about(x)
  local mean = x:mean():item()
  return mean, ((x - mean) ^ 2):mean():sqrt():item(), x:amin():item(), x:amax():item()
end

describe("a recipe", function()
  before_each(function() mrt.seed(1) end)

  it("draws from its distribution", function()
    local mean, std = about(initial.normal(0.5, 2)(200, 200))
    near(2, mean)
    near(0.5, std)
    local low, high
    mean, std, low, high = about(initial.uniform(1, 3)(200, 200))
    near(2, mean)
    near(2 / math.sqrt(12), std)
    assert.is_true(low >= 1 and high < 3)
    near(0, (about(initial.uniform(0.5)(200, 200))))
    assert.same({ { 7, 7 } }, initial.constant(7)(1, 2):totable())
  end)

  it("cuts what is far from the mean", function()
    for cut, wanted in pairs { [2] = 0.8796, [1] = 0.5396 } do
      local recipe = initial.truncated_normal(3, { mean = 5, cut = cut })
      local mean, std, low, high = about(recipe(300, 300))
      near(5, mean)
      near(3 * wanted, std)
      assert.is_true(low >= 5 - 3 * cut and high <= 5 + 3 * cut)
    end
  end)

  it("counts inputs and outputs, of kernels too", function()
    local function deviation(recipe, ...) return (select(2, about(recipe(...)))) end
    near(math.sqrt(2 / 500), deviation(initial.xavier_uniform(), 200, 300))
    near(3 * math.sqrt(2 / 500), deviation(initial.xavier_normal(3), 200, 300))
    near(math.sqrt(2 / 900), deviation(initial.kaiming_normal(), 64, 100, 3, 3))
    near(math.sqrt(1 / 576), deviation(initial.kaiming_uniform { mode = "outputs", gain = 1 },
      64, 100, 3, 3))
    near(initial.gain "tanh", 5 / 3)
    near(initial.gain("leaky_relu", 1), 1)
    assert.error_matches(function() initial.xavier()(3) end, "at least two dimensions")
    assert.error_matches(function() initial.kaiming { mode = "fan" } end, "mode 'fan'")
    assert.error_matches(function() initial.gain "cube" end, "no nonlinearity 'cube'")
  end)

  it("makes orthogonal rows or columns", function()
    for _, shape in ipairs { { 30, 30 }, { 10, 40 }, { 40, 5, 2 }, { 1, 7 } } do
      local x = mrt.eval(initial.orthogonal(2)(table.unpack(shape))):reshape(shape[1], -1)
      if shape[1] > x:size(2) then x = x:t() end
      local off = x:matmul(x:t()) - mrt.eye(x:size(1)) * 4
      assert.is_true(off:abs():amax():item() < 1e-4)
    end
  end)
end)
