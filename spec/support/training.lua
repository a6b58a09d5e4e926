--- training.lua -- steps that train, of small models
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local nn, optim = mrt.nn, mrt.optim

local training = {}

--- A step of `opt` down the cross entropy of model(x) and y, which it returns.
---@param options? table of mrt.compile
---@param update? table of opt:step
function training.step(model, opt, options, update)
  local params = model:parameters()
  return mrt.compile(function(x, y)
    local loss = nn.cross_entropy(model(x), y)
    opt:step(mrt.grad(loss, params), update)
    return loss
  end, options)
end

--- A small GPT, the same each time, its step and a batch.
---@param options? table of mrt.compile
---@param o? {dim?: integer, dropout?: number, optimizer?: string, settings?: table,
---clip?: number} settings: the optimizer's
---@return {step: table, batch: table, model: table, opt: table}
function training.gpt(options, o)
  o = o or {}
  mrt.seed(3)
  local model = nn.GPT { vocab = 17, dim = o.dim or 32, layers = 2, heads = 2, context = 16,
    dropout = o.dropout or 0 }
  local opt = optim[o.optimizer or "adamw"](model:parameters(), o.settings or { lr = 3e-3 })
  local step = training.step(model, opt, options, { clip = o.clip })
  local tokens, targets = mrt.randint(0, 17, { 8, 16 }), mrt.randint(0, 17, { 8, 16 })
  return { step = step, batch = mrt.eval { tokens, targets }, model = model, opt = opt }
end

--- What is allocated when garbage is gone: mrt.memory().
function training.memory()
  collectgarbage()
  collectgarbage()
  return mrt.memory()
end

return training
