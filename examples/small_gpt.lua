--- small_gpt.lua -- the training step that several examples compare
---
--- No example of its own: fit.lua, checkpoint_policy.lua, microbatch.lua and
--- swap.lua read it.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local arguments = require "mrt.cli.arguments"
local core = require "mrt.core"
local nn, optim = mrt.nn, mrt.optim

local small = {}

local about = { layers = "transformer blocks", dim = "width", heads = "attention heads",
  context = "positions of a sequence", batch = "sequences in a mini-batch",
  steps = "to measure each plan" }

--- The options of an example: the model's sizes, --out for a picture, and its own.
---@param what string
---@param sizes table<string, integer?>  defaults: layers, dim, heads, context, batch, ...
---@param more? table  a row of its own
---@return table flags
function small.flags(what, sizes, more)
  local given = { about = what, more }
  for _, name in ipairs { "layers", "dim", "heads", "context", "batch", "steps" } do
    if sizes[name] then
      given[#given + 1] = { ("--%s N"):format(name), about[name], default = sizes[name],
        least = 1 }
    end
  end
  given[#given + 1] = { "--out FILE", "a picture, .svg or .html" }
  return arguments.script(given)
end

--- A GPT of these sizes, always the same numbers, with its training step and a batch.
---@param sizes table            layers, dim, heads, context, batch; dropout
---@param options? mrt.CompileOptions
---@return mrt.Compiled step
---@return mrt.Tensor tokens  `[batch, context]`
---@return mrt.Tensor targets
function small.make(sizes, options)
  mrt.seed(1)
  local model = nn.GPT { vocab = 65, dim = sizes.dim, layers = sizes.layers,
    heads = sizes.heads, context = sizes.context, dropout = sizes.dropout }
  local params = model:parameters()
  local opt = optim.adamw(params, { lr = 1e-3 })
  local shape = { sizes.batch, sizes.context }
  local x, y = mrt.eval(mrt.randint(0, 65, shape), mrt.randint(0, 65, shape))
  return mrt.compile(function(tokens, targets)
    local loss = nn.cross_entropy(model(tokens), targets)
    opt:step(mrt.grad(loss, params))
    return loss
  end, options), x, y
end

--- Run some steps.
---@param steps integer
---@return string bits    of the losses
---@return number seconds of the fastest
function small.run(steps, step, x, y)
  local bits, times = {}, {}
  for i = 1, steps do
    local began = core.clock()
    local loss = step(x, y)
    bits[i] = loss:bytes()
    loss:free()
    times[i] = core.clock() - began
  end
  table.sort(times)
  return table.concat(bits), times[1]
end

return small
