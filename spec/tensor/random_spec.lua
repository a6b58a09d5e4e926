-- random_spec.lua -- what is drawn has the distribution that it is said to have
local mrt = require "mrt"

-- Pearson's statistic of counts against expectations.
local function chi_square(counts, expected)
  local sum = 0
  for i, e in ipairs(expected) do sum = sum + (counts[i] - e) ^ 2 / e end
  return sum
end

-- How often each row of ids is there, by its digits.
local function tally(rows, cells)
  local counts = {}
  for i = 1, cells do counts[i] = 0 end
  for _, row in ipairs(rows) do
    local k = 0
    for _, id in ipairs(row) do k = k * 4 + id end
    counts[k + 1] = counts[k + 1] + 1
  end
  return counts
end

describe("a draw", function()
  before_each(function() mrt.seed(11) end)

  it("of an order makes each as likely as the others", function()
    local draws, seen = 12000, {}
    for _ = 1, draws do
      local key = table.concat(mrt.randperm(4):totable(), "")
      seen[key] = (seen[key] or 0) + 1
    end
    local counts, expected = {}, {}
    for _, n in pairs(seen) do counts[#counts + 1], expected[#expected + 1] = n, draws / 24 end
    assert.are.equal(24, #counts)
    assert.is_true(chi_square(counts, expected) < 49.7) -- 23 degrees, 0.1 %
    local ids = mrt.randperm(1000):sort():totable()
    for i = 1, 1000 do assert.are.equal(i - 1, ids[i]) end
    assert.are.same({}, mrt.randperm(0):totable())
  end)

  it("with replacement has the weights' proportions", function()
    local n = 40000
    local ids = mrt.multinomial(mrt.tensor { 1.0, 0, 3, 4 }, n, true):totable()
    local counts = { 0, 0, 0, 0 }
    for _, id in ipairs(ids) do counts[id + 1] = counts[id + 1] + 1 end
    assert.are.equal(0, counts[2])
    local rest = { counts[1], counts[3], counts[4] }
    assert.is_true(chi_square(rest, { n / 8, n * 3 / 8, n / 2 }) < 13.8) -- 2 degrees, 0.1 %
  end)

  it("without replacement takes the next in proportion to what is left", function()
    local p, n = { 0.1, 0.2, 0.3, 0.4 }, 40000
    local weights = mrt.tensor(p):expand(n, 4)
    local rows = mrt.multinomial(weights, 2):totable()
    local counts, expected, all = tally(rows, 16), {}, {}
    for i = 1, 4 do
      for j = 1, 4 do
        if i == j then
          assert.are.equal(0, counts[4 * (i - 1) + j])
        else
          all[#all + 1] = counts[4 * (i - 1) + j]
          expected[#expected + 1] = n * p[i] * p[j] / (1 - p[i])
        end
      end
    end
    assert.is_true(chi_square(all, expected) < 31.3) -- 11 degrees, 0.1 %
  end)

  it("that cannot be made is an error", function()
    local bad = mrt.multinomial(mrt.tensor { 1.0, 0, 0 }, 2)
    assert.error_matches(function() mrt.eval(bad) end, "index 3, 0 to 2 wanted")
    assert.error_matches(function() mrt.multinomial(mrt.ones(3), 4) end, "4 samples of 3")
    assert.error_matches(function() mrt.multinomial(mrt.ones(3), 0) end, "positive integer")
    assert.error_matches(function() mrt.randperm(-1) end, "0 or more")
    assert.error_matches(function() mrt.bernoulli(mrt.ones(2), 1.5) end, "0 to 1")
    for _, p in ipairs { 1.5, -0.5, 0 / 0 } do
      assert.error_matches(function() mrt.bernoulli(mrt.tensor { 0.5, p }) end, "not in %[0, 1%]")
    end
    assert.error_matches(function() mrt.normal(0, -1, { 2 }) end, "0 or more")
  end)

  it("of yes or no, and of normal numbers, has their means and deviations", function()
    local p = mrt.full({ 20000 }, 0.3)
    assert.is_true(math.abs(mrt.bernoulli(p):mean():item() - 0.3) < 0.015)
    local x = mrt.normal(mrt.full({ 20000 }, 5.0), 2)
    assert.is_true(math.abs(x:mean():item() - 5) < 0.07)
    assert.is_true(math.abs(x:std():item() - 2) < 0.05)
    assert.are.equal("f64", mrt.rand_like(mrt.ones(2, 3, { dtype = "f64" })).dtype)
    local whole = mrt.randint_like(mrt.ones(1000), 2, 5)
    assert.are.same({ 2, 4 }, { whole:amin():item(), whole:amax():item() })
  end)

  it("is new in every run of a compiled function", function()
    local step = mrt.compile(function()
      return mrt.randperm(20), mrt.multinomial(mrt.ones(9), 4)
    end)
    local function text(...)
      local list = {}
      for i, t in ipairs { ... } do list[i] = table.concat(t:totable(), " ") end
      return table.concat(list, ";")
    end
    local first, second = text(step()), text(step())
    assert.are_not.equal(first, second)
  end)
end)
