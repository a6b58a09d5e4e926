--- cases.lua -- the training steps that benchmarks time.
--
-- Each case returns step, x, y, params: a compiled step, what to call it with, and the
-- parameters that it trains.  Sizes and optimizers are those of common public examples,
-- so that the same step can be timed elsewhere: torch_models.py has the other side.
--
-- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local heldout = require "mrt.bench.heldout"
local nn, optim = mrt.nn, mrt.optim

local models = {}

local function ids(n, ...)
  return mrt.randint(0, n, ..., { dtype = "i32" })
end

-- vocab, context, layers, dim, heads, batch, length
local gpts = {
  ["gpt"] = { 65, 256, 6, 384, 6, 12, 256 },
  ["gpt-tiny"] = { 512, 64, 3, 128, 4, 8, 64 },
  ["gpt-small"] = { 65, 64, 4, 128, 4, 12, 64 },
  ["gpt2"] = { 50257, 1024, 12, 768, 12, 1, 256 },
  ["gpt2-b4t64"] = { 50257, 1024, 12, 768, 12, 4, 64 },
}

--- The GPT step called `name`: AdamW, no dropout.
function models.gpt(name, options)
  local vocab, context, layers, dim, heads, batch, length =
    table.unpack(gpts[name])
  local model = nn.GPT { vocab = vocab, dim = dim, layers = layers,
    heads = heads, context = context }
  local params = model:parameters()
  local opt = optim.adamw(params, { lr = 3e-4, betas = { 0.9, 0.95 },
    weight_decay = 0.1 })
  local step = mrt.compile(function(tokens, targets)
    local loss = nn.cross_entropy(model(tokens), targets)
    opt:step(mrt.grad(loss, params))
    return loss
  end, options)
  local x, y = ids(vocab, { batch, length }), ids(vocab, { batch, length })
  mrt.eval(x, y)
  return step, x, y, params
end

-- The step of a classifier: mean cross entropy of logits `[..., classes]`.
local function classifier(model, params, opt, classes, options)
  return mrt.compile(function(x, y)
    local loss = nn.cross_entropy(model(x):reshape(-1, classes), y:reshape(-1))
    opt:step(mrt.grad(loss, params))
    return loss
  end, options)
end

--- 784-1024-1024-10 with ReLU and Adam, batch 128.
function models.mlp(_, options)
  local model = nn.Sequential(nn.Linear(784, 1024), nn.ReLU(),
    nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))
  local params = model:parameters()
  local opt = optim.adam(params, { lr = 1e-3 })
  local step = classifier(model, params, opt, 10, options)
  local x, y = mrt.randn(128, 784), ids(10, { 128 })
  mrt.eval(x, y)
  return step, x, y, params
end

--- ResNet-18 in its form for 32x32 images, SGD with momentum, batch 64.
function models.resnet18(_, options)
  local model = nn.ResNet { depth = 18, form = "cifar" }
  local params = model:parameters()
  local opt = optim.sgd(params, { lr = 0.1, momentum = 0.9, weight_decay = 5e-4 })
  local step = classifier(model, params, opt, 10, options)
  local x, y = mrt.randn(64, 3, 32, 32), ids(10, { 64 })
  mrt.eval(x, y)
  return step, x, y, params
end

--- A language model of characters: two LSTM layers 512 wide, 64 steps of 32 rows, Adam.
function models.lstm(_, options)
  local embedding, head = nn.Embedding(65, 512), nn.Linear(512, 65)
  local lstm = nn.LSTM(512, 512, { layers = 2, batch_first = true })
  local params = {}
  for _, layer in ipairs { embedding, lstm, head } do
    table.move(layer:parameters(), 1, #layer:parameters(), #params + 1, params)
  end
  local function model(tokens) return head((lstm(embedding(tokens)))) end
  local opt = optim.adam(params, { lr = 1e-3 })
  local step = classifier(model, params, opt, 65, options)
  local x, y = ids(65, { 32, 64 }), ids(65, { 32, 64 })
  mrt.eval(x, y)
  return step, x, y, params
end

local LONG <const>, CHUNK <const> = 1024, 16 -- steps; of one loss

--- A classifier of each of 1,024 steps: four LSTM layers 1,024 wide, 64 rows, SGD.
--- Too large to be timed in a while: to plan.
function models.lstm_long(_, options)
  local lstm, head = nn.LSTM(50, 1024, { layers = 4 }), nn.Linear(1024, 5000)
  local params = lstm:parameters()
  table.move(head:parameters(), 1, 2, #params + 1, params)
  local opt = optim.sgd(params, { lr = 0.1 })
  local function part(x, y, h, c)
    local out
    out, h, c = lstm(x, h, c)
    return nn.cross_entropy(head(out):reshape(-1, 5000), y:reshape(-1)), h, c
  end
  local step = mrt.compile(function(x, y)
    local h, c, sum = mrt.zeros(4, 64, 1024), mrt.zeros(4, 64, 1024), 0
    for i = 1, LONG, CHUNK do
      local loss
      loss, h, c = mrt.layer(part, x:slice(1, i, i + CHUNK - 1), y:slice(1, i, i + CHUNK - 1),
        h, c)
      sum = sum + loss
    end
    opt:step(mrt.grad(sum, params))
    return sum
  end, options)
  return step, mrt.zeros(LONG, 64, 50), ids(5000, { LONG, 64 }), params
end

--- A case of heldout.lua.
function models.held_out(name, options)
  local model, classes, optimizer, x, y, forward = heldout[name]()
  local params = model:parameters()
  local step = classifier(forward or model, params, optimizer(params), classes, options)
  mrt.eval(x, y)
  return step, x, y, params
end

local others = { mlp = models.mlp, resnet18 = models.resnet18, lstm = models.lstm,
  ["lstm-long"] = models.lstm_long }

models.names = { "mlp", "gpt-small", "gpt", "gpt2" }

--- Names for several cases, as `mrt bench step --cases` takes them.
models.groups = {
  usual = { "mlp", "gpt-small", "gpt", "gpt2", "resnet18", "lstm" },
  ["held-out"] = { "unet", "vit", "mobilenet", "llama", "bert", "vgg" },
}

--- Those whose time is convolutions of images.
models.convolutional = { resnet18 = true, unet = true, mobilenet = true, vgg = true }

--- The step of any name above.
function models.make(name, options)
  local make = gpts[name] and models.gpt or heldout[name] and models.held_out or others[name]
  if make then return make(name, options) end
  error("no model '" .. tostring(name) .. "'", 0)
end

return models
