--- mlp.lua -- a multi-layer perceptron that reads digits
---
---     mrt examples/mlp.lua                          made-up clusters of points
---     mrt examples/mlp.lua --data optdigits.tra     8x8 digits, CSV; also .tes
---     mrt examples/mlp.lua --data mnist/            MNIST, idx files or .gz
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local arguments = require "mrt.cli.arguments"
local nn, optim, data, train = mrt.nn, mrt.optim, mrt.data, mrt.train

local function whole(word)
  local n = math.tointeger(tonumber(word))
  if n and n >= 1 then return n end
  return nil, ("'%s' is not a whole number of at least 1"):format(word)
end

local flags = arguments.script {
  about = "Train a multi-layer perceptron to read digits.",
  { "--data PATH", "optdigits CSV, or a folder with MNIST" },
  { "--hidden N", "width of the two hidden layers", default = 1024, least = 1 },
  { "--epochs N", "times through the training set", default = 5, least = 1 },
  { "--batch N", "examples in a mini-batch, or all", default = 128, read = function(word)
    return word == "all" and word or whole(word)
  end },
  { "--lr X", "learning rate", default = 1e-3 },
  { "--seed N", "of weights and data order", default = 1, least = 1 },
}

local function fail(message)
  io.stderr:write("mlp.lua: ", message, "\n")
  os.exit(1)
end

-- ---- three sources of examples: images f32 [N,D] in [0,1], labels u8 [N] --

-- Noisy points around four centres of each class.
local function made_up(count)
  local dim, classes, centres = 784, 10, 40
  local where = mrt.rand(centres, dim)
  local centre = mrt.randint(0, centres, { count })
  local images = where:embedding(centre) + mrt.randn(count, dim)
  return images, (centre % classes):to "u8"
end

-- 64 numbers from 0 to 16 and a digit on each line.
local function optdigits(path)
  local t, message, code = data.csv(path, { header = false })
  if not t and code == "file" then return nil, message end
  if not t then return fail(message) end
  if #t.names ~= 65 then fail(("%s: 65 columns wanted, not %d"):format(path, #t.names)) end
  local all, problem = t:numbers()
  if not all then return fail(problem) end
  return all:slice(2, 1, 64) / 16, all:select(2, 65):to "u8"
end

-- The file of this name, or the one packed by gzip.
local function idx(path)
  local rows, message, code = data.idx(path)
  if code == "file" then rows, message = data.idx(path .. ".gz") end
  if not rows then return fail(message) end
  return rows:tensor()
end

local function mnist(folder, name)
  local path = folder .. "/" .. name
  local images = assert(idx(path .. "-images-idx3-ubyte"))
  return images:flatten(2):to "f32" / 255, assert(idx(path .. "-labels-idx1-ubyte"))
end

-- The first four fifths, and the rest.
local function split(images, labels)
  local n = images:size(1)
  local border = n * 4 // 5
  return { images:slice(1, 1, border), labels:slice(1, 1, border) },
    { images:slice(1, border + 1, n), labels:slice(1, border + 1, n) }
end

local function load_sets(path)
  if not path then return split(made_up(12000)) end
  if io.open(path .. "/.") then
    return { mnist(path, "train") }, { mnist(path, "t10k") }
  end
  local images, labels = optdigits(path)
  if not images then fail(labels) end
  local test, is_training = path:gsub("%.tra$", ".tes")
  local test_images, test_labels = optdigits(test)
  if is_training == 0 or not test_images then return split(images, labels) end
  return { images, labels }, { test_images, test_labels }
end

-- ---- model and training ---------------------------------------------------

mrt.seed(flags.seed)
local train_set, test_set = load_sets(flags.data)
local width = train_set[1]:size(2)
local model = nn.Sequential(
  nn.Linear(width, flags.hidden), nn.ReLU(),
  nn.Linear(flags.hidden, flags.hidden), nn.ReLU(),
  nn.Linear(flags.hidden, 10))
print(model)

local epochs = flags.epochs ---@type integer
local loader = data.batches(train_set, { batch = flags.batch,
  seed = flags.seed, drop_last = flags.batch ~= "all" })
train.run {
  model = model, loader = loader, plan = true,
  optimizer = optim.adam(model:parameters(), { lr = flags.lr }),
  loss = function(m, x, y) return nn.cross_entropy(m(x), y) end,
  steps = epochs * loader.batches,
}

local accuracy = train.evaluator { model = model,
  loss = function(m, x, y) return nn.accuracy(m(x), y) end,
  loader = data.batches(test_set, { batch = 256, shuffle = false }) }
print(("test accuracy %.2f%% of %d"):format(100 * accuracy(),
  test_set[1]:size(1)))
