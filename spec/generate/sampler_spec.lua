-- sampler_spec.lua -- the next token, against the same in plain Lua

local mrt = require "mrt"
local draws = require "mrt.generate.draws"
local sampler = require "mrt.generate.sampler"

local V <const> = 37

-- Ids in descending order of their logits, and the probabilities that are left.
local function left(logits, o)
  local order, p, sum = {}, {}, 0
  for i = 1, V do order[i] = i end
  table.sort(order, function(a, b)
    return logits[a] > logits[b] or logits[a] == logits[b] and a < b
  end)
  local n = math.min(o.top_k or V, V)
  for i = 1, n do
    p[i] = math.exp((logits[order[i]] - logits[order[1]]) / o.temperature)
    sum = sum + p[i]
  end
  local before, kept = 0, 0
  for i = 1, n do
    local here = p[i] / sum
    if before > (o.top_p or math.huge) or here < (o.min_p or 0) * p[1] / sum then p[i] = 0 end
    before, kept = before + here, kept + p[i]
  end
  return order, p, kept
end

-- The shares of [0, 1) that each id has, of the filters as the sampler orders ids.
local function shares(logits, o)
  local order, p, kept = left(logits, o)
  local of = {}
  for i, id in ipairs(order) do of[id] = (p[i] or 0) / kept end
  return of
end

local filters = {
  {}, { top_k = 5 }, { top_p = 0.6 }, { min_p = 0.2 }, { top_k = 9, top_p = 0.8 },
  { top_k = 12, min_p = 0.1 }, { top_p = 0.9, min_p = 0.15 },
  { top_k = 20, top_p = 0.7, min_p = 0.05 }, { top_k = 1 }, { top_p = 0 }, { min_p = 1 },
  { top_k = 100 },
}

describe("the sampler", function()
  it("draws each token as often as its filters say", function()
    mrt.seed(1)
    local N <const> = 2000
    local drawn = {}
    for i = 1, N do drawn[i] = (i - 0.5) / N end
    for _, filter in ipairs(filters) do
      for _, temperature in ipairs { 0.7, 1.5 } do
        local o = { temperature = temperature, top_k = filter.top_k, top_p = filter.top_p,
          min_p = filter.min_p }
        local logits = mrt.randn(1, V) * 2
        local ids = sampler.next(logits:expand(N, V), sampler.kind(o, V), sampler.numbers(o),
          mrt.tensor(drawn, "f32")):totable()
        local wanted, count = shares(logits:totable()[1], o), {}
        for _, id in ipairs(ids) do count[id + 1] = (count[id + 1] or 0) + 1 end
        for id = 1, V do
          assert.is_true(math.abs((count[id] or 0) - wanted[id] * N) <= 1.5,
            ("%s %s: %d, %g"):format(filter.top_k, filter.top_p, count[id] or 0, wanted[id] * N))
        end
      end
    end
  end)

  it("takes the likeliest, the first of equals, where the temperature is 0", function()
    local o = { temperature = 0, top_k = 3, top_p = 0.5 }
    local logits = mrt.tensor { { 1, 5, 2, 5 }, { -1, -2, -1, -3 } }
    assert.same({ 1, 0 }, sampler.next(logits, sampler.kind(o, 4), sampler.numbers(o)):totable())
  end)

  it("makes what is there less likely, once, whatever lies behind the end", function()
    local o = { temperature = 0, repetition_penalty = 2 }
    local logits = mrt.tensor { { 3, 4, 5.5, 1 }, { -1, -2, -3, -4 }, { 3, 4, 5.5, 1 } }
    local history = mrt.tensor({ { 2, 2, 1, 0 }, { 0, 0, 0, 3 }, { 1, 2, 2, 2 } }, "i32")
    local ids = sampler.next(logits, sampler.kind(o, 4), sampler.numbers(o), nil, history,
      mrt.tensor({ 3, 1, 1 }, "i32"))
    assert.same({ 0, 0, 2 }, ids:totable()) -- -1 * 2 = -2, as likely as the second
  end)

  it("has numbers that depend on seed and position alone, and are even", function()
    assert.equal(draws.at(3, 7), draws.at(3, 7))
    local sum, below = 0, 0
    for seed = 0, 39 do
      for i = 0, 49 do
        local u = draws.at(seed, i)
        assert.is_true(u >= 0 and u < 1)
        sum, below = sum + u, below + (u < 0.25 and 1 or 0)
      end
    end
    assert.is_true(math.abs(sum / 2000 - 0.5) < 0.02)
    assert.is_true(math.abs(below / 2000 - 0.25) < 0.03)
  end)
end)
