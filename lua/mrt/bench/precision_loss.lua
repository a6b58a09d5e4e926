--- precision_loss.lua -- `mrt bench precision --steps N`: losses in narrow floats.
--
-- All train in turn on the same batches: of a file, of tinyshakespeare where MRT_DATA
-- names a folder that has it, or else of a text that a Markov chain writes, whose
-- loss cannot fall below 1.21.
--
-- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local random = require "mrt.data.random"

local nn, optim = mrt.nn, mrt.optim

-- A letter follows from the two before: one of four, at 1/2, 1/4, 1/8 and 1/8.
local function markov(length)
  local source, a, b = random.new(7), 0, 0
  local followers, out = {}, {}
  local letters = "abcdefghijklmnopqrstuvwxyz "
  for i = 0, 4 * #letters * #letters - 1 do followers[i] = source:integer(#letters) end
  local choices = { [0] = 0, 0, 0, 0, 1, 1, 2, 3 }
  for i = 1, length do
    a, b = b, followers[(a * #letters + b) * 4 + choices[source:integer(8)]]
    out[i] = letters:sub(b + 1, b + 1)
  end
  return table.concat(out)
end

local function text_of(path)
  local folder = os.getenv "MRT_DATA"
  if not path and folder then
    path = folder .. "/text/tinyshakespeare.txt"
    local file = io.open(path)
    if file then file:close() else path = nil end
  end
  if path then return assert(mrt.data.text(path)), path end
  return assert(mrt.data.text { text = markov(1 << 20) }), "a Markov chain's"
end

local sizes = {
  small = { dim = 128, layers = 4, heads = 4, context = 64, batch = 12, lr = 2e-3 },
  large = { dim = 384, layers = 6, heads = 6, context = 256, batch = 12, lr = 1e-3 },
}

-- The size that is asked for.
local function size_of(o)
  local size = {}
  for name, value in pairs(o.large and sizes.large or sizes.small) do size[name] = value end
  size.batch = o.batch or size.batch
  return size
end

local function make(vocab, size, steps, options)
  mrt.seed(1)
  local model = nn.GPT { vocab = vocab, dim = size.dim, layers = size.layers,
    heads = size.heads, context = size.context }
  local params = model:parameters()
  local opt = optim.adamw(params, { betas = { 0.9, 0.99 }, weight_decay = 0.1 })
  opt.lr = optim.cosine { lr = size.lr, min = size.lr / 10,
    warmup = math.min(100, steps // 5), steps = steps }
  return mrt.compile(function(tokens, targets)
    local loss = nn.cross_entropy(model(tokens), targets)
    opt:step(mrt.grad(loss, params))
    return loss
  end, options)
end

local function train(list, loader, o)
  local tail = o.steps - math.max(1, o.steps // 10)
  for i = 1, o.steps do
    local x, y = loader:next()
    for _, v in ipairs(list) do
      local began, loss = os.clock(), v.step(x, y):item()
      v.seconds = v.seconds + os.clock() - began
      if i > tail then v.sum, v.count = v.sum + loss, v.count + 1 end
    end
    if i % math.max(1, o.steps // 10) == 0 then
      io.stderr:write(("step %d of %d\n"):format(i, o.steps))
    end
  end
end

return function(list, o)
  local text, name = text_of(o.data)
  local size = size_of(o)
  local info = core.info()
  print(("%d layers, width %d, batch %d of %d, %s text; %s, %d threads; %d steps"):format(
    size.layers, size.dim, size.batch, size.context, name, info.isa, info.threads,
    o.steps))
  for _, v in ipairs(list) do
    v.step = make(text.vocab, size, o.steps, v.options)
    v.sum, v.count, v.seconds = 0, 0, 0
  end
  train(list, text:loader { batch = size.batch, context = size.context, seed = 1,
    shuffle = true }, o)
  print(("%-19s %12s %9s %14s %12s"):format("", "loss, end", "", "processor s",
    "loss scale"))
  local first = list[1].sum / list[1].count
  for _, v in ipairs(list) do
    local loss, scale = v.sum / v.count, v.step:loss_scale()
    print(("%-19s %12.4f %+8.2f%% %14.1f %12s"):format(v.name, loss,
      100 * (loss / first - 1), v.seconds, scale and ("%g"):format(scale) or "-"))
  end
end
