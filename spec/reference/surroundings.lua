--- surroundings.lua -- what the examples of the reference take for granted
---
--- A name that an example does not make is made here when it is first read: by what its
--- entry is called, else as for all.  Files are written once into the folder where the
--- examples run.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local files = require "support.files"
local folder = require "generate.folder"

local data, nn, optim, train = mrt.data, mrt.nn, mrt.optim, mrt.train

local surroundings = {}

-- ---- values: each is made of `e`, where the others are ---------------------------------

local all = { mrt = mrt, nn = nn, optim = optim, policy = mrt.policy, data = data, train = train,
  prune = mrt.prune }

local makers = {}
function makers.x() return mrt.randn(4, 8) end
function makers.y() return mrt.randn(4, 8) end
function makers.w() return mrt.variable(mrt.randn(8, 8)) end
function makers.b() return mrt.variable(mrt.zeros(8)) end
function makers.a() return mrt.rand(4, 8) end
function makers.weight() return mrt.ones(8) end
function makers.bias() return mrt.zeros(8) end
function makers.q() return mrt.randn(2, 16, 4, 8) end
makers.k, makers.v = makers.q, makers.q
function makers.tokens() return (mrt.rand(2, 16) * 60):to "i32" end
makers.targets, makers.ids = makers.tokens, makers.tokens
function makers.images() return mrt.rand(4, 3, 16, 16) end
function makers.model() return nn.Linear(8, 8) end
makers.other, makers.block, makers.fn, makers.linear, makers.layer =
  makers.model, makers.model, makers.model, makers.model, makers.model
function makers.loss(e) return nn.mse(e.model(e.x), e.y) end
function makers.opt(e) return optim.sgd(e.model:parameters(), { lr = 0.1 }) end
function makers.step(e)
  return mrt.compile(function(x, y)
    local loss = nn.mse(e.model(x), y)
    e.opt:step(mrt.grad(loss, e.model:parameters()))
    return loss
  end)
end
function makers.plan(e) return e.step:plan(e.x, e.y) end
function makers.world() return mrt.communicator.create() end
makers.comm = makers.world
function makers.text() return assert(data.text "input.txt") end
function makers.val(e) return e.text end
function makers.loader() return data.batches({ mrt.randn(64, 8), mrt.randn(64, 8) },
  { batch = 8, seed = 1 }) end
function makers.tokenizer() return assert(mrt.text.tokenizer "SmolLM2-135M") end
function makers.messages() return { { role = "user", content = "Hello" } } end
function makers.samples() return assert(mrt.finetune.read("data.jsonl", {
  tokenizer = mrt.text.tokenizer "SmolLM2-135M", context = 64 })) end
function makers.ema(e) return optim.ema(e.model:parameters()) end
function makers.state(e) return (e.opt or e.ema):state() end

local function gpt() return nn.GPT { vocab = 65, dim = 16, layers = 1, heads = 2, context = 64 } end
local function gpt_function(e)
  return function(x, y)
    local loss = nn.cross_entropy(e.model(x), y)
    e.opt:step(mrt.grad(loss, e.model:parameters()))
    return loss
  end
end
local function gpt_step(e) return mrt.compile(gpt_function(e)) end
local function mlp() return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8)) end
local function sequences() return mrt.randn(2, 16, 8) end
local function small_image() return mrt.rand(2, 3, 16, 16) end
local function regression() return function(m, x, y) return nn.mse(m(x), y) end end

-- By what an entry is called, or begins with.
local of = {}
of["Tensor:attention"] = { padding = 0, B = 2, S = 16 }
of["Tensor:conv1d"] = { x = function() return mrt.randn(2, 3, 16) end,
  w = function() return mrt.randn(4, 3, 3) end }
of["Tensor:conv2d"] = { x = small_image, w = function() return mrt.randn(4, 3, 3, 3) end }
of["Tensor:conv3d"] = { x = function() return mrt.randn(1, 2, 4, 4, 4) end,
  w = function() return mrt.randn(3, 2, 3, 3, 3) end }
of["Tensor:conv_transpose1d"] = { x = function() return mrt.randn(2, 3, 16) end,
  w = function() return mrt.randn(3, 4, 3) end }
of["Tensor:conv_transpose2d"] = { x = small_image,
  w = function() return mrt.randn(3, 4, 3, 3) end }
of["Tensor:grid_sample"] = { x = small_image, theta = function()
  return mrt.tensor { { { 0.0, 1, 0 }, { -1, 0, 0 } } }:expand(2, 2, 3) end }
of["Tensor:interpolate"] = { x = small_image }
of["Tensor:linear_attention"] = { q = makers.q, k = makers.q, v = makers.q,
  gate = makers.q }
of["Tensor:linear_recurrence"] = { a = function() return mrt.rand(2, 16, 8) end, b = sequences }
of["Tensor:rope"] = { T = 16, start = function() return mrt.zeros(2):to "i32" end,
  q = function() return mrt.randn(2, 16, 4, 64) end }
of["Tensor:selective_scan"] = { u = sequences, z = sequences,
  delta = sequences, A = function() return -mrt.rand(8, 4) end,
  B = function() return mrt.randn(2, 16, 4) end, C = function() return mrt.randn(2, 16, 4) end,
  D = function() return mrt.ones(8) end }
of["mrt.associative_scan"] = { b = makers.x }
of["mrt.communicator"] = { gradient = makers.x }
of["mrt.data.batches"] = { images = makers.x, labels = makers.y }
of["mrt.data.idx"] = { step = function() return function() end end }
of["mrt.data.stream"] = { step = function() return function() end end,
  next_reading = function() return function() return { 1 }, 2, 3 end end }
of["mrt.distributions"] = { state = makers.x, reward = function() return mrt.rand(4) end }
of["mrt.fft"] = { signal = function() return mrt.randn(2, 16) end, n = 16 }
of["mrt.finetune"] = { data = makers.samples }
of["mrt.finetune.loader"] = { samples = function() return makers.samples().samples end }
of["Data:"] = of["mrt.finetune"]
of["mrt.grad"] = { loss = function(e) return (e.x:matmul(e.w) + e.b):sum() end,
  x = function() return mrt.variable(mrt.ones(4, 8)) end,
  y = function(e) return e.x:square():sum() end }
of["mrt.hvp"] = { params = function(e) return e.model:parameters() end,
  vs = function(e) return { mrt.ones(e.params[1].shape), mrt.ones(e.params[2].shape) } end,
  loss_of = function(e) return function(m) return nn.mse(m(e.x), e.y) end end }
of["mrt.linalg"] = { a = function() return mrt.eye(3) * 2 end,
  b = function() return mrt.ones(3, 1) end }
of["mrt.nn.Augment"] = { images = function() return mrt.rand(4, 3, 16, 16) end,
  model = function() return nn.Conv2d(3, 4, 3) end }
of["mrt.nn.EmbeddingBag"] = { ids = function() return mrt.zeros(32, 10):to "i32" end,
  flat = function() return mrt.zeros(300):to "i32" end,
  offsets = function() return mrt.zeros(32):to "i32" end }
of["Encoder:"] = { model = function() return nn.Encoder { vocab = 65, dim = 16, layers = 1,
  heads = 2, context = 64, head = "words", pooler = "tanh" } end }
of["mrt.nn.GPT"] = { tokens = function() return mrt.zeros(2, 64):to "i32" end,
  targets = function() return mrt.zeros(2, 64):to "i32" end }
of["mrt.nn.LSTM"] = { x = sequences, next_x = sequences }
of["mrt.nn.MultiheadAttention"] = { x = function() return mrt.randn(2, 8, 64) end }
of["mrt.nn.QuantizedLinear"] = { x = function() return mrt.randn(2, 768) end }
of["TwoOfFourLinear:"] = { layer = function(e)
  e.prune.two_of_four(e.linear)
  return nn.TwoOfFourLinear(e.linear)
end }
of["mrt.nn.UNet"] = { x = function() return mrt.randn(1, 1, 16, 16) end,
  targets = function() return mrt.zeros(1, 16, 16):to "i32" end }
of["mrt.nn.Unflatten"] = { x = function() return mrt.randn(2, 32) end }
of["ViT:"] = { images = small_image, model = function() return nn.ViT { image = 16, patch = 8,
  dim = 16, layers = 1, heads = 2, classes = 4, pooler = "tanh" } end }
of["mrt.nn.ctc_loss"] = { x = function() return mrt.randn(16, 2, 8) end,
  labels = function() return mrt.ones(2, 3):to "i32" end,
  steps = function() return mrt.tensor({ 16, 16 }, "i32") end,
  lengths = function() return mrt.tensor({ 3, 2 }, "i32") end }
of["mrt.nn.generate"] = { model = function(e) return nn.GPT { vocab = e.text.vocab, dim = 16,
  layers = 1, heads = 2, context = 256 } end }
of["mrt.nn.linear_cross_entropy"] = { table = function() return mrt.randn(10, 8) end,
  targets = function() return mrt.zeros(4):to "i32" end }
of["mrt.LinearCrossEntropyOptions"] = of["mrt.nn.linear_cross_entropy"]
of["mrt.nn.lora"] = { model = gpt }
of["mrt.nn.quantize"] = { model = function() return nn.Sequential(nn.Linear(64, 64)) end }
of["mrt.optim.muon"] = { model = gpt, hidden = function(e) return { e.w } end,
  others = function(e) return { e.b } end }
of["mrt.optim.plateau"] = { validation_loss = 2.5 }
of["Plan:"] = { model = gpt, step = gpt_step,
  plan = function(e) return e.step:plan(e.tokens, e.targets) end }
of["Compiled:"] = { model = gpt, step = gpt_step, fn = gpt_function }
of["mrt.pipeline.collect"] = { model = gpt, fn = gpt_function,
  tokens = function() return mrt.zeros(2, 64):to "i32" end,
  targets = function() return mrt.zeros(2, 64):to "i32" end }
of["mrt.pipeline.plan"] = of["mrt.pipeline.collect"]
of["Plan.compare"] = { a = makers.plan, b = makers.plan }
of["mrt.save"] = { w = function() return mrt.ones(4, 32) end,
  b = function() return mrt.ones(32) end }
of["mrt.prune.channels"] = { model = mlp, other = mlp }
of["mrt.prune.heads"] = { model = function() return nn.GPT { vocab = 65, dim = 16, layers = 1,
  heads = 4, context = 64 } end }
of["mrt.train"] = { loss = regression }
of["mrt.TrainOptions"] = of["mrt.train"]
of["mrt.train.evaluator"] = { loss = function()
  return function(m, x, y) return nn.cross_entropy(m(x), y) end
end, model = function(e) return nn.GPT { vocab = e.text.vocab, dim = 16, layers = 1, heads = 2,
  context = 64 } end }
of["Rows:"] = { rows = function() return assert(data.idx "train-images-idx3-ubyte.gz") end }
of["Loader:"] = { state = function(e) return e.loader:state() end }
of["BPE:"] = { bpe = makers.tokenizer }
of["Stream:"] = { stream = function()
  return data.stream(coroutine.wrap(function()
    for i = 1, 64 do coroutine.yield({ i }, i) end
  end), { batch = 4 })
end }
of["Stream:push"] = { stream = function(e) return e.tokenizer:stream() end, id = 72 }
of["Stream:finish"] = of["Stream:push"]
of["Tokens:"] = { tokens = function() return assert(data.tokens "train.bin") end }
of["File:"] = { file = function() return assert(mrt.open "weights.safetensors") end }
of["EMA:"] = { evaluate = function(e) return function() return e.loss:item() end end,
  state = function(e) return e.ema:state() end }
of["LBFGS:"] = { opt = function(e) return optim.lbfgs(e.model:parameters()) end }
of["Comparison:"] = { comparison = function(e) return mrt.plan.compare { one = e.plan } end }
of["Template:"] = { template = function()
  return assert(mrt.text.template "{{ messages[0].content }}") end }
of["Log:"] = { log = function() return assert(train.log("log-" .. os.time())) end, step = 1 }
of["Snapshots:"] = { snapshots = function(e) return train.snapshots { folder = "runs/one",
  parts = { model = e.model, optimizer = e.opt } } end }
of["Profile:"] = { profile = function(e) return e.step:profile(e.x, e.y) end }
of["Ranges:"] = { ranges = function(e) return e.step:ranges(e.x, e.y) end }

--- Where an example of an entry runs: its own values, everything else as everywhere.
---@param name string
---@return table
function surroundings.of(name)
  local here = of[name] or of[name:match "^[%w_]+[:.]" or ""]
    or of[name:match "^(mrt%.[%w_]+)" or ""] or {}
  local quiet = { print = function() end, io = setmetatable({ write = function() end },
    { __index = io }) }
  return setmetatable(quiet, { __index = function(e, key)
    local make = here[key]
    if make == nil then make = makers[key] end
    if make == nil then make = all[key] end
    if make == nil then return _G[key] end
    local value = make
    if type(make) == "function" and (here[key] or makers[key]) then value = make(e) end
    rawset(e, key, value)
    return value
  end })
end

-- ---- files --------------------------------------------------------------------------

--- Write the files that examples name into the folder.
function surroundings.write()
  local made = folder.make()
  for _, name in ipairs { "SmolLM2-135M", "SmolLM-135M", "Qwen3-0.6B", "Qwen2-0.5B" } do
    assert(os.execute(("cp -r '%s' '%s'"):format(made, name)))
  end
  files.write("input.txt", ("ROMEO: to be or not to be, that is it.\n"):rep(60))
  files.write("houses.csv", "area,price,city\n50,300,Bern\n80,500,Chur\n100,700,Bern\n")
  files.write("points.csv", ("1,2\n3,4\n"):rep(40))
  files.write("train.bin", ("\1\0\2\0\3\0"):rep(8000))
  local lines = {}
  for i = 1, 8 do lines[i] = ('{"prompt": "%d+1=", "completion": "%d"}'):format(i, i + 1) end
  files.write("train.jsonl", table.concat(lines, "\n") .. "\n")
  files.write("data.jsonl", (table.concat(lines, "\n") .. "\n"):rep(40))
  files.write("train-images-idx3-ubyte", string.pack(">I4I4I4I4", 2051, 128, 4, 4)
    .. ("\7"):rep(128 * 16))
  files.write("train-labels-idx1-ubyte", string.pack(">I4I4", 2049, 128) .. ("\1"):rep(128))
  assert(os.execute "gzip train-images-idx3-ubyte train-labels-idx1-ubyte")
  assert(mrt.save("weights.safetensors", { weight = mrt.ones(2, 3), ["wte.weight"] = mrt.ones(3) }))
  files.write("model.safetensors.index.json",
    '{"metadata": {}, "weight_map": {"wte.weight": "weights.safetensors"}}')
  assert(mrt.save("model.safetensors", nn.Linear(2, 3):state()))
  assert(mrt.save("x.npy", mrt.arange(6)))
  files.write("small.lua", 'local mrt = require "mrt"\n'
    .. "return { checkpoint = mrt.policy.checkpoint.sqrt() }\n")
end

return surroundings
