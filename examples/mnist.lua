--- mnist.lua -- a small convolutional network that reads handwritten digits
---
---     mrt examples/mnist.lua                   made-up digits
---     mrt examples/mnist.lua --data mnist/     MNIST, idx files or .gz
---
--- Two convolutions of 3x3 with batch norm, each before a pool, and two layers on
--- top; on MNIST three epochs reach 99.0 %.  `--snapshots FOLDER --resume` goes on
--- where a run that was stopped had got to.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local arguments = require "mrt.cli.arguments"
local nn, optim, data, train = mrt.nn, mrt.optim, mrt.data, mrt.train
local glyphs = dofile((arg[0]:gsub("[^/]*$", "glyphs.lua")))

local flags = arguments.script {
  about = "Train a small convolutional network to read digits.",
  { "--data FOLDER", "with MNIST" },
  { "--epochs N", "times through the training set", default = 3, least = 1 },
  { "--batch N", "images in a mini-batch", default = 128, least = 1 },
  { "--width N", "channels of the first convolution", default = 24, least = 1 },
  { "--lr X", "highest learning rate", default = 3e-3 },
  { "--seed N", "of weights and data order", default = 1, least = 1 },
  { "--log FOLDER", "for run.jsonl, TensorBoard and a page" },
  { "--snapshots FOLDER", "for the run's state, saved after each epoch" },
  { "--resume", "go on from the last snapshot" },
}

local function fail(message)
  io.stderr:write("mnist.lua: ", message, "\n")
  os.exit(1)
end

-- ---- images u8 [N,28,28] and labels u8 [N] ----------------------------------

-- The file of this name, or the one packed by gzip.
local function idx(name)
  local path = flags.data .. "/" .. name
  local rows, message, code = data.idx(path)
  if code == "file" then rows, message = data.idx(path .. ".gz") end
  return rows or fail(message)
end

local function examples(name, count, seed)
  if not flags.data then
    return glyphs.make(count, { size = 28, scale = 3, seed = seed, noise = 0.5 })
  end
  return { idx(name .. "-images-idx3-ubyte"), idx(name .. "-labels-idx1-ubyte") }
end

if flags.resume and not flags.snapshots then fail "--resume without --snapshots" end
mrt.seed(flags.seed)
local train_set, test_set = examples("train", 6000, 1), examples("t10k", 1000, 2)

-- ---- model and training -----------------------------------------------------

local width = flags.width ---@type integer
local model = nn.Sequential(
  nn.Conv2d(1, width, 3, { padding = 1, bias = false }), nn.BatchNorm(width),
  nn.ReLU(), nn.MaxPool2d(2),
  nn.Conv2d(width, 2 * width, 3, { bias = false }), nn.BatchNorm(2 * width),
  nn.ReLU(), nn.MaxPool2d(2),
  nn.Flatten(), nn.Linear(2 * width * 6 * 6, 128), nn.ReLU(), nn.Dropout(0.25),
  nn.Linear(128, 10))
print(model)

-- Images come as they are in the files; the step makes numbers of them.
local function logits(m, images) return m(images:unsqueeze(2):to "f32" / 255) end

local epochs = flags.epochs ---@type integer
local loader = data.batches(train_set, { batch = flags.batch, seed = flags.seed,
  drop_last = true })
local steps = epochs * loader.batches
local opt = optim.adamw(model:parameters(), { weight_decay = 1e-3,
  lr = optim.one_cycle { lr = flags.lr, steps = steps } })
local result = train.run {
  model = model, optimizer = opt, loader = loader, steps = steps, plan = true,
  loss = function(m, x, y) return nn.cross_entropy(logits(m, x), y) end,
  eval = train.evaluator { model = model,
    loss = function(m, x, y) return nn.accuracy(logits(m, x), y) end,
    loader = data.batches(test_set, { batch = 250, shuffle = false }) },
  eval_name = "test accuracy", eval_every = loader.batches,
  log = flags.log, snapshots = flags.snapshots, snapshot_every = loader.batches,
  resume = flags.resume,
}
if result.eval then
  print(("test accuracy %.2f%% of %d after %d epochs, %.1f s"):format(100 * result.eval,
    test_set[1]:size(1), epochs, result.seconds))
else
  print "nothing left to do"
end
