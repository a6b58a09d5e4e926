--- distributions_spec.lua -- samples against distribution functions and moments; gradients
--- through samples; divergences; what is refused
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local failure = require "support.failure"
local D = mrt.distributions

local N <const> = 20000

local function f64(x) return mrt.tensor(x, "f64") end

-- Kolmogorov's distance of samples from a distribution function, times sqrt(n): above 1.95
-- with probability 0.001 only.
local function distance(samples, cdf)
  local list = samples:flatten():to("f64"):totable()
  table.sort(list)
  local shares, worst = cdf(mrt.tensor(list, "f64")):totable(), 0
  for i, p in ipairs(shares) do
    worst = math.max(worst, i / #list - p, p - (i - 1) / #list)
  end
  return worst * (#list) ^ 0.5
end

-- Mean and variance within 5 standard errors; the fourth moment is estimated.
local function moments_fit(name, x, mean, variance)
  x = x:to "f64"
  local n, m = x:size(1), x:mean(1)
  local v = ((x - m) ^ 2):mean(1)
  local fourth = ((x - m) ^ 4):mean(1)
  local function off(a, b, error) return ((a - b):abs() / (error + 1e-9)):amax():item() end
  local wanted = variance:to "f64"
  local of_mean = off(m, mean:to "f64", (wanted / n):sqrt())
  local of_variance = off(v, wanted, ((fourth - v * v):maximum(0) / n):sqrt())
  assert(of_mean < 5, ("%s: mean %g errors away"):format(name, of_mean))
  assert(of_variance < 5, ("%s: variance %g errors away"):format(name, of_variance))
end

local rates = f64 { 0.3, 2.5, 11 }
local cases = {
  Normal = { f64 { 0, 1, -2 }, f64 { 1, 0.5, 3 } },
  LogNormal = { f64 { 0, 0.2 }, f64 { 0.5, 0.2 } },
  Laplace = { f64 { 0, 1 }, f64 { 1, 0.3 } },
  Gumbel = { f64 { 0, 1 }, f64 { 1, 0.3 } },
  Uniform = { f64 { 0, -3 }, f64 { 1, 5 } },
  Exponential = { rates },
  Gamma = { f64 { 0.05, 0.7, 3, 60 }, f64 { 1, 2, 0.5, 7 } },
  Beta = { f64 { 0.5, 2, 30 }, f64 { 0.5, 5, 4 } },
  Dirichlet = { f64 { { 0.4, 2, 7 }, { 1, 1, 1 } } },
  StudentT = { f64 { 9, 30 }, f64 { 1, 0 }, f64 { 2, 1 } },
  Bernoulli = { f64 { 0.1, 0.5, 0.93 } },
  Geometric = { f64 { 0.1, 0.5, 0.93 } },
  Poisson = { f64 { 0.4, 8, 12, 300 } },
  Binomial = { f64 { 7, 20, 400, 30 }, f64 { 0.3, 0.97, 0.2, 0.5 } },
  OneHotCategorical = { f64 { { 0.1, 0.5, 0.4 }, { 0.98, 0.01, 0.01 } } },
}
local names = {}
for name in pairs(cases) do names[#names + 1] = name end
table.sort(names)

describe("samples", function()
  it("have the mean and the variance that the distribution says", function()
    for i, name in ipairs(names) do
      mrt.seed(100 + i)
      local d = D[name](table.unpack(cases[name]))
      local x = mrt.eval(d:sample(N))
      local shape = table.concat(d.batch_shape, ",")
        .. (d.event_shape[1] and "," .. d.event_shape[1] or "")
      assert.equal(("f64[%d,%s]"):format(N, shape), x:type())
      moments_fit(name, x, d.mean, d.variance)
    end
  end)

  it("have the distribution function, of those that have one", function()
    for i, name in ipairs { "Normal", "LogNormal", "Laplace", "Gumbel", "Uniform",
      "Exponential" } do
      mrt.seed(200 + i)
      local d = D[name](0.4, name == "Uniform" and 2 or name ~= "Exponential" and 0.7 or nil)
      local wide = D[name](f64(0.4), name == "Uniform" and f64(2)
        or name ~= "Exponential" and f64(0.7) or nil)
      local off = distance(d:sample(N), function(x) return wide:cdf(x) end)
      assert(off < 1.95, ("%s: %g"):format(name, off))
      local p = f64 { 0.01, 0.3, 0.5, 0.9 }
      assert.is_true((wide:cdf(wide:icdf(p)) - p):abs():amax():item() < 1e-9)
    end
  end)

  it("of gammas are exact: a sum of exponentials, a square of a normal, a power", function()
    mrt.seed(31)
    local function gamma(a) return D.Gamma(a, 1):sample(N) end
    local function erlang(x) return 1 - (-x):exp() * (1 + x + x * x / 2) end
    assert.is_true(distance(gamma(3), erlang) < 1.95)
    assert.is_true(distance(gamma(0.5), function(x) return x:sqrt():erf() end) < 1.95)
    assert.is_true(distance(D.Beta(0.25, 1):sample(N), function(x) return x ^ 0.25 end) < 1.95)
    assert.is_true(distance(D.Beta(1, 7):sample(N), function(x) return 1 - (1 - x) ^ 7 end) < 1.95)
  end)

  it("of counts have the probabilities of log_prob", function()
    for i, d in ipairs { D.Poisson(f64(3)), D.Poisson(f64(25)), D.Binomial(f64(12), f64(0.4)),
      D.Binomial(f64(100), f64(0.7)), D.Geometric(f64(0.4)) } do
      mrt.seed(300 + i)
      local x = mrt.eval(d:sample(N))
      local most = math.tointeger(x:amax():item())
      local p = mrt.eval(d:log_prob(mrt.arange(most + 1):to "f64"):exp()):totable()
      local counts, chi, kinds = x:to "i64":totable(), 0, 0
      local seen = {}
      for _, k in ipairs(counts) do seen[k] = (seen[k] or 0) + 1 end
      for k = 0, most do
        if p[k + 1] * N > 10 then
          chi = chi + ((seen[k] or 0) - p[k + 1] * N) ^ 2 / (p[k + 1] * N)
          kinds = kinds + 1
        end
      end
      assert(chi < kinds + 4 * (2 * kinds) ^ 0.5, ("%s: chi^2 %g of %d"):format(d.name, chi, kinds))
    end
  end)

  it("of classes are as likely as they should be", function()
    mrt.seed(9)
    local p = { 0.05, 0.2, 0, 0.75 }
    local ids = mrt.eval(D.Categorical(mrt.tensor { p, { 1.0, 1, 1, 1 } }):sample(N))
    assert.equal(("i64[%d,2]"):format(N), ids:type())
    for k, wanted in ipairs(p) do
      local share = ids:eq(k - 1):to("f64"):mean(1):totable()
      assert.is_true(math.abs(share[1] - wanted) <= 5 * (wanted * (1 - wanted) / N) ^ 0.5)
      assert.is_true(math.abs(share[2] - 0.25) < 5 * (0.1875 / N) ^ 0.5)
    end
  end)

  it("come from the seed, eagerly and in compiled steps, anew at each run", function()
    local function draw()
      return D.Normal(0, 1):sample(3), D.Gamma(2, 1):sample(3), D.Poisson(4):sample(3),
        D.Categorical(mrt.ones(5)):sample(3)
    end
    mrt.seed(5)
    local a = { mrt.eval(draw()) }
    mrt.seed(5)
    local b = { mrt.eval(draw()) }
    local step = mrt.compile(draw)
    mrt.seed(5)
    local c, d = { step() }, { step() }
    mrt.seed(5)
    local again = { mrt.compile(draw)() }
    for i = 1, 4 do
      assert.same(a[i]:totable(), b[i]:totable())
      assert.equal(a[i]:type(), c[i]:type())
      assert.same(c[i]:totable(), again[i]:totable())
    end
    assert.is_true((c[1] - d[1]):abs():sum():item() > 0)
    assert.is_true((c[2] - d[2]):abs():sum():item() > 0)
  end)

  it("of micro-batches are those of the whole batch", function()
    local function train(k)
      mrt.seed(8)
      local w = mrt.parameter(mrt.full({ 3 }, 1.5, { dtype = "f64" }))
      local step = mrt.compile(function(x)
        local draw = D.Gamma((x * w):exp(), 2):rsample()
        local counts = D.Poisson((x * w):exp():detach()):sample()
        local loss = (draw * counts):mean()
        w:assign(w - mrt.grad(loss, w) * 0.1)
        return loss
      end, { accumulate = k })
      local x = mrt.eval(mrt.arange(24, { dtype = "f64" }):reshape(8, 3) / 12 - 1)
      return step(x):item(), w:totable()
    end
    local whole, w = train(1)
    local parts, v = train(4)
    assert.is_true(math.abs(whole - parts) < 1e-9)
    for i = 1, 3 do assert.is_true(math.abs(w[i] - v[i]) < 1e-9) end
  end)
end)

describe("gradients through samples", function()
  -- The derivative of the mean over samples of f, with respect to each parameter, is that of
  -- its known mean.
  local function check(name, parameters, f, known)
    mrt.seed(77)
    local values = {}
    for i, x in ipairs(parameters) do values[i] = mrt.eval(f64(x)) end
    local d = D[name](table.unpack(values))
    local got = mrt.grad(f(d:rsample(200000)):mean(), values)
    local wanted = mrt.grad(known(table.unpack(values)), values)
    for i in ipairs(values) do
      local g, w = got[i]:item(), wanted[i]:item()
      assert(math.abs(g - w) < 0.03 * math.max(0.3, math.abs(w)),
        ("%s, parameter %d: %g, %g wanted"):format(name, i, g, w))
    end
  end

  it("are those of means", function()
    local function square(x) return x * x end
    check("Normal", { 0.5, 1.3 }, square, function(m, s) return m * m + s * s end)
    check("Laplace", { 0.5, 0.8 }, square, function(m, s) return m * m + s * s * 2 end)
    check("Exponential", { 1.4 }, square, function(r) return 2 / (r * r) end)
    check("Uniform", { -1, 2 }, square, function(a, b) return (a * a + a * b + b * b) / 3 end)
    for _, a in ipairs { 0.2, 1.7, 25 } do
      check("Gamma", { a, 2 }, square, function(c, r) return c * (c + 1) / (r * r) end)
    end
    check("Beta", { 1.5, 0.7 }, square, function(a, b)
      return a * (a + 1) / ((a + b) * (a + b + 1))
    end)
  end)

  it("of gammas are refused a second time, and by what counts at all", function()
    local a = mrt.eval(f64(2))
    local g = mrt.grad(D.Gamma(a, 1):rsample(), a)
    assert.is_false((pcall(mrt.grad, g, a)))
    for _, d in ipairs { D.Bernoulli(0.5), D.Poisson(1), D.Geometric(0.5), D.Binomial(3, 0.5),
      D.Categorical(mrt.ones(2)) } do
      assert.match(d.name .. ": no rsample", failure(d.rsample, d).message)
    end
    local p = mrt.eval(f64(0.4))
    assert.error_matches(function() mrt.grad(D.Bernoulli(p):sample(4):sum(), p) end, ".")
  end)
end)

describe("a distribution", function()
  it("has the entropy that is the mean of -log_prob", function()
    for i, name in ipairs { "Normal", "LogNormal", "Laplace", "Gumbel", "Gamma", "Beta", "StudentT",
      "Dirichlet", "OneHotCategorical", "Bernoulli", "Geometric", "Exponential", "Uniform" } do
      mrt.seed(400 + i)
      local parameters = cases[name]
      if name == "Gamma" then parameters = { f64 { 0.7, 3 }, f64 { 2, 0.5 } } end
      local d = D[name](table.unpack(parameters))
      local p = mrt.eval(d:log_prob(d:sample(N)))
      local error = (p:var(1) / N):sqrt() * 5 + 1e-6
      assert((-p:mean(1) - d:entropy()):abs():le(error):all():item(), name)
      assert.is_true((d:perplexity():log() - d:entropy()):abs():amax():item() < 1e-9)
    end
  end)

  it("broadcasts its parameters, and takes them by name", function()
    local d = D.Normal { loc = mrt.zeros(3, 1), scale = mrt.ones(4) }
    assert.same({ 3, 4 }, d.batch_shape)
    assert.equal("f32[5,3,4]", d:sample { 5 }:type())
    assert.equal("f32[3,4]", d:rsample():type())
    assert.equal("f32[2,6,3,4]", d:sample(2, 6):type())
    assert.equal("f32[3,4]", d:log_prob(0.5):type())
    assert.equal("f64[]", D.Normal(f64(0), 1):sample():type())
    assert.equal("Normal { loc = f32[3,1], scale = f32[4] [1.0 1.0 1.0 1.0] }, batch [3,4], "
      .. "event []", tostring(d))
    assert.equal("f32[3,4]", d.stddev:type())
    local rows = D.Independent(d, 1)
    assert.same({ { 3 }, { 4 } }, { rows.batch_shape, rows.event_shape })
    assert.equal("f32[7,3]", rows:log_prob(rows:sample(7)):type())
  end)

  it("mixes others", function()
    mrt.seed(12)
    local mixture = D.MixtureSameFamily(D.Categorical(mrt.tensor { 0.2, 0.8 }),
      D.Normal(f64 { -2, 1 }, f64 { 0.5, 1 }))
    local x = mixture:sample(N)
    assert.is_true(distance(x, function(y) return mixture:cdf(y) end) < 1.95)
    moments_fit("mixture", x, mixture.mean, mixture.variance)
    local of_rows = D.MixtureSameFamily(D.Categorical(mrt.ones(3, 2)),
      D.Independent(D.Normal(mrt.zeros(3, 2, 5), mrt.ones(3, 2, 5)), 1))
    assert.equal("f32[9,3,5]", of_rows:sample(9):type())
    assert.equal("f32[9,3]", of_rows:log_prob(of_rows:sample(9)):type())
    assert.equal("f32[3,5]", of_rows.mean:type())
  end)

  it("is as far from another as samples say", function()
    for i, pair in ipairs {
      { D.Normal(f64(0.3), f64(1)), D.Normal(f64(-0.4), f64(1.6)) },
      { D.Gamma(f64(2), f64(3)), D.Gamma(f64(1.2), f64(1)) },
      { D.Beta(f64(2), f64(3)), D.Beta(f64(1.2), f64(1)) },
      { D.Dirichlet(f64 { 1, 2, 3 }), D.Dirichlet(f64 { 2, 2, 1.5 }) },
      { D.Bernoulli(f64(0.3)), D.Bernoulli(f64(0.6)) },
      { D.Geometric(f64(0.3)), D.Geometric(f64(0.6)) },
      { D.Poisson(f64(3)), D.Poisson(f64(4)) },
      { D.Binomial(f64(9), f64(0.3)), D.Binomial(f64(9), f64(0.5)) },
      { D.Exponential(f64(2)), D.Gamma(f64(1.5), f64(1)) },
      { D.Uniform(f64(-1), f64(1)), D.Normal(f64(0.2), f64(0.7)) },
      { D.OneHotCategorical(f64 { 1, 2, 3 }), D.OneHotCategorical(f64 { 2, 1, 1 }) },
    } do
      mrt.seed(500 + i)
      local p, q = pair[1], pair[2]
      local x = p:sample(N)
      local each = mrt.eval(p:log_prob(x) - q:log_prob(x))
      local wanted, got = D.kl(p, q):item(), each:mean():item()
      local error = 5 * (each:var():item() / N) ^ 0.5
      assert(math.abs(wanted - got) < error, ("%s: %g, %g by samples"):format(p.name, wanted, got))
      assert.is_true(math.abs(D.kl_divergence(p, p):item()) < 1e-9 or p.name ~= q.name)
    end
    assert.equal(math.huge, D.kl(D.Uniform(0, 2), D.Uniform(0, 1)):item())
    local normal = D.Normal(mrt.zeros(2, 3), mrt.ones(2, 3))
    assert.equal("f32[2]", D.kl(D.Independent(normal, 1), D.Independent(normal, 1)):type())
    assert.match("no formula for Normal and Gamma",
      failure(D.kl, D.Normal(0, 1), D.Gamma(1, 1)).message)
    D.register_kl("Normal", "Laplace", function(p) return p.loc * 0 + 7 end)
    assert.equal(7, D.kl(D.Normal(0, 1), D.Laplace(0, 1)):item())
  end)

  it("refuses what it cannot be", function()
    local function refused(text, f, ...) assert.match(text, failure(f, ...).message) end
    refused("Normal: scale = %-1, more than 0", D.Normal, 0, -1)
    refused("Normal: loc: a tensor or a number wanted, got nil", D.Normal)
    refused("Normal: .*'sigma'", D.Normal, { loc = 0, sigma = 1 })
    refused("loc is i64%[2%], floats", D.Normal, mrt.tensor { 1, 2 }, 1)
    refused("do not broadcast", D.Normal, mrt.zeros(2), mrt.ones(3))
    refused("probs = 1.5, 0 to 1", D.Bernoulli, 1.5)
    refused("either probs or logits", D.Bernoulli, { probs = 0.5, logits = 0 })
    refused("Uniform: low 2", D.Uniform, 2, 1)
    refused("total_count = 1.5, a whole number", D.Binomial, 1.5, 0.2)
    refused("%[%.%.%., K%]", D.Categorical, f64(1))
    refused("a tensor wanted", D.Dirichlet, 3)
    refused("4 dimensions of a batch %[%]", D.Independent, D.Normal(0, 1), 4)
    refused("a Categorical wanted", D.MixtureSameFamily, D.Normal(0, 1), D.Normal(0, 1))
    refused("a mixture of 2", D.MixtureSameFamily, D.Categorical(mrt.ones(2)), D.Normal(0, 1))
    refused("shape 1: a size", D.Normal(0, 1).sample, D.Normal(0, 1), -1)
    refused("no cdf", D.Gamma(1, 1).cdf, D.Gamma(1, 1), 1)
    refused("a distribution wanted", D.kl, 3, D.Normal(0, 1))
    local nan = D.Normal(0, f64(-1)):log_prob(0):item()
    assert.is_true(nan ~= nan)
    local none = core.op.poisson(f64 { -1, 2 }):totable()
    assert.is_true(none[1] ~= none[1] and none[2] == none[2])
  end)
end)
