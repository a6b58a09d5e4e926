--- mrt.distributions -- random variables: samples, log-probabilities, divergences
---
---     local D = mrt.distributions
---     local policy = D.Categorical{logits = model(state)}
---     local action = policy:sample()
---     local loss = -(policy:log_prob(action) * reward):mean()
---
--- PyTorch's classes and names.  Samples come from the library's counters: the same seed
--- draws the same, in compiled functions too.
---
---   distribution.lua  what all share       gammas.lua       gamma, beta, Dirichlet, t
---   continuous.lua    normal, uniform ...  categorical.lua  one of several
---   discrete.lua      Bernoulli, Poisson   compound.lua     independent parts, mixtures
---   multivariate.lua  normal vectors       kl.lua           divergences of pairs
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"

---@class mrt.distributions
local distributions = {}

for _, name in ipairs { "continuous", "gammas", "discrete", "categorical", "compound", "kl" } do
  for key, value in pairs(require("mrt.distributions." .. name)) do distributions[key] = value end
end
for key, value in pairs(require("mrt.distributions.multivariate").kinds) do
  distributions[key] = value
end

-- Behind a C function a caller that ends in `return p:log_prob(x)` keeps its line.
local function front(t)
  for key, f in pairs(t) do
    if type(f) == "function" and key ~= "init" and not key:find "^__" then
      t[key] = core.front(f, nil, key)
    end
  end
end

for _, class in pairs(distributions) do
  if type(class) == "table" then front(class) end
end
front(distributions)

return distributions
