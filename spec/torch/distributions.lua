--- distributions.lua -- PyTorch's distributions, beside mrt.distributions
---
--- A case is log_prob, entropy, mean, variance, cdf or icdf of random parameters, with
--- gradients of them and of the value; or a divergence.  Samples are looked at in
--- spec/distributions.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"

local rows = {}

local function positive(dims) return { dims = dims, low = 0.2, high = 4 } end
local function any(dims) return { dims = dims, low = -2, high = 2 } end
local function share(dims) return { dims = dims, low = 0.05, high = 0.95 } end

-- What is drawn of a tensor for a value in `support`.
local supports = {
  real = function(_, dims) return { dims = dims, low = -3, high = 3 } end,
  positive = positive,
  share = share,
  bits = function(_, dims) return { dims = dims, values = { 0, 1, 1, 0, 1 }, constant = true } end,
  counts = function(_, dims)
    return { dims = dims, values = { 0, 2, 1, 5, 3, 4 }, constant = true }
  end,
}

local function support(name, r, dims)
  local f = supports[name]
  if f == positive or f == share then return f(dims) end
  return f(r, dims)
end

-- `name` with parameters {name, drawing}: `asks` lists what is compared.
local function row(name, parameters, values, asks, more)
  local args = {}
  for i, p in ipairs(parameters) do args[i] = { p[1], "tensor" } end
  local out = { torch = "torch.distributions." .. name, ours = "mrt.distributions." .. name,
    args = args, grad = true, dtypes = { "f64" }, tolerance = 1e-8 }
  for key, value in pairs(more or {}) do out[key] = value end
  local shown = { table.unpack(args) }
  out.args[#args + 1] = { "_value", "tensor" }
  for i = 1, #shown do shown[i] = shown[i][1] end
  local letters = "abcdef"
  out.draw = function(r)
    local dims = r.pick { { 4 }, { 2, 3 }, {}, { 3, 1 } }
    if more and more.rows then dims[#dims + 1] = r(2, 4) end
    local o = { _ask = r.pick(asks) }
    for _, p in ipairs(parameters) do o[p[1]] = p[2](dims, r) end
    local takes = o._ask == "log_prob" or o._ask == "cdf" or o._ask == "icdf"
    if takes then
      o._value = values == "rows" and { dims = dims } or support(
        o._ask == "icdf" and "share" or values, r, dims)
      if more and more.value then o._value = more.value(dims, r) end
    end
    return o
  end
  out.call = function(v, t)
    local given = {}
    for i, p in ipairs(parameters) do given[p[1]] = t[i] end
    local d = mrt.distributions[name](given)
    local ask = v._ask
    if ask == "mean" or ask == "variance" or ask == "mode" then return d[ask] end
    return d[ask](d, t[#parameters + 1])
  end
  out.expression = function(v)
    local list = {}
    for i, p in ipairs(parameters) do list[i] = p[1] .. "=" .. letters:sub(i, i) end
    local ask, k = v._ask, #parameters + 1
    local call = ask
    if ask == "entropy" then
      call = "entropy()"
    elseif v._value then
      call = ("%s(%s)"):format(ask, letters:sub(k, k))
    end
    return ("torch.distributions.%s(%s, validate_args=False).%s"):format(name,
      table.concat(list, ", "), call)
  end
  rows[#rows + 1] = out
end

local moments = { "log_prob", "entropy", "mean", "variance" }
local function with(...)
  return { "log_prob", "entropy", "mean", "variance", ... }
end

local place = { { "loc", any }, { "scale", positive } }
row("Normal", place, "real", with("cdf", "icdf", "mode"))
row("LogNormal", place, "positive", with("cdf", "icdf", "mode"))
row("Laplace", place, "real", with("cdf", "icdf"))
row("Gumbel", place, "real", moments)
row("Cauchy", place, "real", { "log_prob", "entropy" })
row("Uniform", { { "low", any }, { "high", function(dims)
  return { dims = dims, low = 2.5, high = 4 }
end } }, "real", with("cdf", "icdf"))
row("Exponential", { { "rate", positive } }, "positive", with("cdf", "icdf", "mode"))
row("Gamma", { { "concentration", positive }, { "rate", positive } }, "positive", moments)
row("Chi2", { { "df", positive } }, "positive", moments)
row("Beta", { { "concentration1", positive }, { "concentration0", positive } }, "share", moments)
row("StudentT", { { "df", function(dims) return { dims = dims, low = 2.5, high = 9 } end },
  { "loc", any }, { "scale", positive } }, "real", moments)
row("Bernoulli", { { "probs", share } }, "bits", with("mode"))
row("Geometric", { { "probs", share } }, "counts", moments)
row("Poisson", { { "rate", positive } }, "counts", { "log_prob", "mean", "variance" })
row("Binomial", { { "total_count", function(dims)
  return { dims = dims, values = { 5, 7, 6, 9 }, constant = true }
end }, { "probs", share } }, "counts", { "log_prob", "mean", "variance", "mode" })

local function simplex(dims)
  local values, n, k = {}, 1, dims[#dims]
  for _, d in ipairs(dims) do n = n * d end
  for i = 1, n do values[i] = (2 * ((i - 1) % k) + 1) / (k * k) end
  return { dims = dims, values = values, constant = true }
end
row("Dirichlet", { { "concentration", positive } }, "rows", moments,
  { rows = true, value = simplex })
local function one_hot(dims, r)
  local values, n, k = {}, 1, dims[#dims]
  for _, d in ipairs(dims) do n = n * d end
  for first = 1, n, k do
    local at = r(0, k - 1)
    for i = 0, k - 1 do values[first + i] = i == at and 1 or 0 end
  end
  return { dims = dims, values = values, constant = true }
end
row("OneHotCategorical", { { "probs", positive } }, "rows", { "log_prob", "entropy", "mean",
  "variance" }, { rows = true, value = one_hot })
local function ids(dims)
  return { dims = { table.unpack(dims, 1, #dims - 1) }, integer = dims[#dims] }
end
row("Categorical", { { "logits", any } }, "rows", { "log_prob", "entropy" },
  { rows = true, value = ids })

-- Compounds: the bases are made of the tensors.
rows[#rows + 1] = { torch = "torch.distributions.Independent",
  ours = "mrt.distributions.Independent", grad = true, dtypes = { "f64" },
  args = { { "base_distribution", "tensor" }, { "reinterpreted_batch_ndims", "int" },
    { "_scale", "tensor" }, { "_value", "tensor" } },
  draw = function(r)
    local dims = { 2, 3, 2 }
    return { base_distribution = any(dims), _scale = positive(dims), _value = any(dims),
      reinterpreted_batch_ndims = r(0, 3), _ask = r.bool() }
  end,
  call = function(v, t)
    local D = mrt.distributions
    local d = D.Independent(D.Normal(t[1], t[2]), v.reinterpreted_batch_ndims)
    return v._ask and d:log_prob(t[3]) or d:entropy()
  end,
  expression = function(v)
    return ("torch.distributions.Independent(torch.distributions.Normal(a, b), %d).%s"):format(
      v.reinterpreted_batch_ndims, v._ask and "log_prob(c)" or "entropy()")
  end }
rows[#rows + 1] = { torch = "torch.distributions.MixtureSameFamily",
  ours = "mrt.distributions.MixtureSameFamily", grad = true, dtypes = { "f64" },
  args = { { "mixture_distribution", "tensor" }, { "component_distribution", "tensor" },
    { "_scale", "tensor" }, { "_value", "tensor" } },
  draw = function(r)
    return { mixture_distribution = any { 2, 4 }, component_distribution = any { 2, 4 },
      _scale = positive { 2, 4 }, _value = any { r(1, 3), 2 },
      _ask = r.pick { "log_prob(d)", "mean", "variance", "cdf(d)" } }
  end,
  call = function(v, t)
    local D = mrt.distributions
    local d = D.MixtureSameFamily(D.Categorical { logits = t[1] }, D.Normal(t[2], t[3]))
    local ask = v._ask:match "^[%l_]+"
    if ask == v._ask then return d[ask] end
    return d[ask](d, t[4])
  end,
  expression = function(v)
    return "torch.distributions.MixtureSameFamily(torch.distributions.Categorical(logits=a), "
      .. "torch.distributions.Normal(b, c))." .. v._ask
  end }

-- Of a covariance m m' + 1; "kl" is to one of twice that, around the value.
rows[#rows + 1] = { torch = "torch.distributions.MultivariateNormal",
  ours = "mrt.distributions.MultivariateNormal", grad = true, dtypes = { "f64" },
  tolerance = 1e-8,
  args = { { "loc", "tensor" }, { "covariance_matrix", "tensor" }, { "_value", "tensor" } },
  draw = function(r)
    local K, batch = r(1, 4), r.pick { {}, { 3 }, { 2, 1 } }
    local many = { table.unpack(batch) }
    many[#many + 1] = K
    local square = r.bool() and {} or { table.unpack(batch) }
    square[#square + 1], square[#square + 2] = K, K
    return { loc = any(many), covariance_matrix = any { table.unpack(square) },
      _value = any(many), _ask = r.pick { "log_prob", "entropy", "mean", "variance", "kl" },
      _given = r.pick { "covariance_matrix", "precision_matrix", "scale_tril" } }
  end,
  call = function(v, t)
    local normal, m = mrt.distributions.MultivariateNormal, t[2]
    local K = m:size(-1)
    local matrix = m:matmul(m:transpose(-2, -1)) + mrt.eye(K, { dtype = "f64" })
    if v._given == "scale_tril" then matrix = mrt.linalg.cholesky(matrix) end
    local d = normal { loc = t[1], [v._given] = matrix }
    if v._ask == "kl" then
      return mrt.distributions.kl_divergence(d, normal { loc = t[3], [v._given] = matrix * 2 })
    end
    local ask = d[v._ask]
    if v._ask == "log_prob" then return d:log_prob(t[3]) end
    return mrt.is_tensor(ask) and ask or ask(d)
  end,
  expression = function(v)
    local make = "torch.distributions.MultivariateNormal(%s, " .. v._given .. "=%s)"
    local matrix = "(b @ b.mT + torch.eye(b.shape[-1], dtype=b.dtype))"
    if v._given == "scale_tril" then matrix = "torch.linalg.cholesky(" .. matrix .. ")" end
    if v._ask == "kl" then
      return ("torch.distributions.kl_divergence(%s, %s)"):format(make:format("a", matrix),
        make:format("c", matrix .. " * 2"))
    end
    local call = { log_prob = ".log_prob(c)", entropy = ".entropy()" }
    return make:format("a", matrix) .. (call[v._ask] or "." .. v._ask)
  end }

-- Divergences of pairs of a kind, each with its parameters.
local pairs_of = {
  { "Normal", place }, { "LogNormal", place }, { "Laplace", place }, { "Gumbel", place },
  { "Exponential", { { "rate", positive } } }, { "Poisson", { { "rate", positive } } },
  { "Gamma", { { "concentration", positive }, { "rate", positive } } },
  { "Beta", { { "concentration1", positive }, { "concentration0", positive } } },
  { "Dirichlet", { { "concentration", positive } }, true },
  { "Bernoulli", { { "probs", share } } }, { "Geometric", { { "probs", share } } },
  { "Categorical", { { "logits", any } }, true },
  { "OneHotCategorical", { { "logits", any } }, true },
  { "Uniform", { { "low", any }, { "high", function(dims)
    return { dims = dims, low = 2.5, high = 4 }
  end } } },
}
rows[#rows + 1] = { torch = "torch.distributions.kl_divergence",
  ours = "mrt.distributions.kl_divergence", grad = true, dtypes = { "f64" }, tolerance = 1e-8,
  args = { { "p", "tensor" }, { "q", "tensor" }, { "_p", "tensor" }, { "_q", "tensor" } },
  draw = function(r)
    local pair = r.pick(pairs_of)
    local dims = pair[3] and { r(1, 3), 3 } or r.pick { {}, { 4 }, { 2, 3 } }
    local o, keys = { _pair = pair }, { { "p", "q" }, { "_p", "_q" } }
    for i, parameter in ipairs(pair[2]) do
      for _, key in ipairs(keys[i]) do o[key] = parameter[2](dims, r) end
    end
    return o
  end,
  call = function(v, t)
    local made = {}
    for k = 1, 2 do
      local given = {}
      for i, parameter in ipairs(v._pair[2]) do given[parameter[1]] = t[2 * i - 2 + k] end
      made[k] = mrt.distributions[v._pair[1]](given)
    end
    return mrt.distributions.kl_divergence(made[1], made[2])
  end,
  expression = function(v)
    local made, letters = {}, "abcd"
    for k = 1, 2 do
      local list = {}
      for i, parameter in ipairs(v._pair[2]) do
        list[i] = parameter[1] .. "=" .. letters:sub(2 * i - 2 + k, 2 * i - 2 + k)
      end
      made[k] = ("torch.distributions.%s(%s)"):format(v._pair[1], table.concat(list, ", "))
    end
    return ("torch.distributions.kl_divergence(%s)"):format(table.concat(made, ", "))
  end }
rows[#rows + 1] = { torch = "torch.distributions.register_kl",
  ours = "mrt.distributions.register_kl", args = { { "p", "string" }, { "q", "string" },
    { "rule", "function" } }, differs = "of names, a function" }


local function absent(names, reason)
  for name in names:gmatch "%S+" do
    rows[#rows + 1] = { torch = "torch.distributions." .. name, absent = reason }
  end
end
absent("LowRankMultivariateNormal",
  "MultivariateNormal(loc, factor:matmul(factor:t()) + diagonal:diag())")
absent("HalfNormal HalfCauchy Pareto Weibull InverseGamma Kumaraswamy FisherSnedecor "
  .. "LogisticNormal TransformedDistribution",
  "functions of those that are here: log_prob of the inverse less the logarithm of the slope")
absent("Multinomial NegativeBinomial", "counts of Categorical; a Poisson of a Gamma rate")
absent("RelaxedBernoulli RelaxedOneHotCategorical",
  "(logits + Gumbel noise) / temperature, through sigmoid or softmax")
absent("VonMises Wishart LKJCholesky ContinuousBernoulli",
  "rarely used; log_prob is a formula of a line or two")

return rows
