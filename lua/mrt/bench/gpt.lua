--- gpt.lua -- steps of GPT-2 by their sizes, for a GPU
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"

local nn, optim, policy = mrt.nn, mrt.optim, mrt.policy

local gpt = {}

-- Sequences of `context` tokens, `batch` of them; N is counted.
gpt.cases = {
  tiny = { layers = 2, heads = 2, dim = 32, context = 16, batch = 2, vocab = 64 },
  ["124M"] = { layers = 12, heads = 12, dim = 768, context = 1024, batch = 16 },
  ["350M"] = { layers = 24, heads = 16, dim = 1024, context = 1024, batch = 16 },
  ["774M"] = { layers = 36, heads = 20, dim = 1280, context = 1024, batch = 8 },
  ["1558M"] = { layers = 48, heads = 25, dim = 1600, context = 1024, batch = 16 },
}
local VOCAB = 50304 -- GPT-2's 50257, padded to a multiple of 128

local function count_of(params)
  local n = 0
  for _, p in ipairs(params) do
    local size = 1
    for _, d in ipairs(p.shape) do size = size * d end
    n = n + size
  end
  return n
end

--- A step in bf16, its inputs, and how many parameters it has.
---@param size table     one of gpt.cases
---@param options table  of mrt.compile; gets a policy of precision
---@param weights? "f32"|"bf16"  what weights are stored in (default "f32"); in bf16 they
---  are the upper halves of master weights
function gpt.make(size, options, weights)
  local narrow = weights == "bf16"
  mrt.seed(1)
  local vocab = size.vocab or VOCAB
  local model = nn.GPT { vocab = vocab, dim = size.dim, layers = size.layers,
    heads = size.heads, context = size.context }
  if narrow then model:to "bf16" end
  local params = model:parameters()
  local opt = optim.adamw(params, { lr = 3e-4, weight_decay = 0.1, master = narrow })
  options.precision = narrow and policy.precision.bf16_pure() or policy.precision.bf16()
  local step = mrt.compile(function(tokens, targets)
    local loss = nn.cross_entropy(model(tokens), targets)
    opt:step(mrt.grad(loss, params))
    return loss
  end, options)
  local x = mrt.eval(mrt.randint(0, vocab, size.batch, size.context))
  local y = mrt.eval(mrt.randint(0, vocab, size.batch, size.context))
  return step, x, y, count_of(params)
end

return gpt
