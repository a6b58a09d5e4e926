--- digits.lua -- a multi-layer perceptron that reads 8x8 digits from a table
---
---     mrt examples/digits.lua                    made-up digits
---     mrt examples/digits.lua --data digits/     UCI's optdigits.tra and .tes
---
--- The digits of the test were written by other people than those of the
--- training set; the network reads 98 % of them.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local arguments = require "mrt.cli.arguments"
local nn, optim, data, train = mrt.nn, mrt.optim, mrt.data, mrt.train
local glyphs = dofile((arg[0]:gsub("[^/]*$", "glyphs.lua")))

local flags = arguments.script {
  about = "Train a multi-layer perceptron to read 8x8 digits.",
  { "--data FOLDER", "with optdigits.tra and optdigits.tes" },
  { "--hidden N", "width of the two hidden layers", default = 256, least = 1 },
  { "--epochs N", "times through the training set", default = 40, least = 1 },
  { "--seed N", "of weights and data order", default = 1, least = 1 },
}

local function fail(message)
  io.stderr:write("digits.lua: ", message, "\n")
  os.exit(1)
end

-- ---- examples: images f32 [N,64] from 0 to 1, labels u8 [N] -----------------

-- 64 numbers from 0 to 16 and a digit on each line.
local function optdigits(path)
  local t, message = data.csv(path, { header = false })
  if not t then return fail(message) end
  if #t.names ~= 65 then fail(("%s: 65 columns wanted, not %d"):format(path, #t.names)) end
  local all, problem = t:numbers()
  if not all then return fail(problem) end
  return { all:slice(2, 1, 64) / 16, all:select(2, 65):to "u8" }
end

local function examples(name, count, seed)
  if flags.data then return optdigits(flags.data .. "/optdigits." .. name) end
  local set = glyphs.make(count, { size = 8, scale = 1, seed = seed, noise = 0.4 })
  return { set[1]:flatten(2):to "f32" / 255, set[2] }
end

mrt.seed(flags.seed)
local train_set, test_set = examples("tra", 3000, 1), examples("tes", 1000, 2)

-- ---- model and training -----------------------------------------------------

local width = flags.hidden
local model = nn.Sequential(
  nn.Linear(64, width), nn.BatchNorm(width), nn.ReLU(), nn.Dropout(0.4),
  nn.Linear(width, width), nn.BatchNorm(width), nn.ReLU(), nn.Dropout(0.4),
  nn.Linear(width, 10))
print(model)

local epochs = flags.epochs ---@type integer
local loader = data.batches(train_set, { batch = 64, seed = flags.seed })
local steps = epochs * loader.batches
train.run {
  model = model, loader = loader, steps = steps, plan = true,
  optimizer = optim.adamw(model:parameters(),
    { lr = optim.cosine { lr = 2e-3, steps = steps, warmup = 50 } }),
  loss = function(m, x, y)
    return nn.cross_entropy(m(x), y, { label_smoothing = 0.1 })
  end,
}

local accuracy = train.evaluator { model = model,
  loss = function(m, x, y) return nn.accuracy(m(x), y) end,
  loader = data.batches(test_set, { batch = 256, shuffle = false }) }
print(("test accuracy %.2f%% of %d"):format(100 * accuracy(), test_set[1]:size(1)))
