--- ranks.lua -- programs that several ranks run, as threads of this process
---
--- SPDX-License-Identifier: MIT

local assert = require "luassert"
local mrt = require "mrt"

local ranks = {}

local head = "local mrt, comm = ... local nn, optim, policy, train = "
  .. "mrt.nn, mrt.optim, mrt.policy, mrt.train "

--- What each of n ranks returns; none may fail.
---@param n integer
---@param code string
---@return any[]
function ranks.run(n, code)
  local results, failures = mrt.communicator.ranks(n, head .. code, { timeout = 60 })
  assert(not failures, failures and select(2, next(failures)))
  return results
end

--- What all of n ranks return.
---@param n integer
---@param code string
---@return any
function ranks.alike(n, code)
  local results = ranks.run(n, code)
  for r = 2, n do assert.equal(results[1], results[r]) end
  return results[1]
end

--- Code: a model, its parameters `p` and a `step` of data parallel training, which
--- returns the mean loss; it is compiled with `options`.
ranks.step = [[
  local model = nn.Sequential(nn.Linear(8, 16), nn.Linear(16, 4))
  local p = model:parameters()
  local opt = optim.adamw(p, { lr = 1e-2 })
  local step = mrt.compile(function(a, b)
    local d = model(a):tanh() - b
    local loss = (d * d):mean()
    local grads = mrt.grad(loss, p)
    for i, g in ipairs(grads) do grads[i] = comm:allreduce(g, { op = "mean" }) end
    opt:step(grads)
    return comm:allreduce(loss, { op = "mean" })
  end, options)
]]

return ranks
