--- gpt.lua -- train a small GPT on text and let it write
---
---     mrt examples/gpt.lua                      on this project's own sources
---     mrt examples/gpt.lua --data input.txt     on any text
---
--- The defaults are nanoGPT's for a small run on a CPU (karpathy/nanoGPT,
--- README), but for twice its learning rate: on tinyshakespeare that ends at a
--- validation loss of 1.80 to 1.82, where `--lr 1e-3` gives 1.89 to 1.91 and
--- PyTorch with the same settings 1.91.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local arguments = require "mrt.cli.arguments"
local nn, optim, data, train = mrt.nn, mrt.optim, mrt.data, mrt.train

-- ---- flags ----------------------------------------------------------------

local flags = arguments.script {
  about = "Train a small GPT on text and let it write.",
  { "--data FILE", "text; else this project's sources" },
  { "--layers N", "transformer blocks", default = 4, least = 1 },
  { "--heads N", "attention heads", default = 4, least = 1 },
  { "--dim N", "width, a multiple of the heads", default = 128, least = 1 },
  { "--context N", "bytes a prediction can look back on", default = 64, least = 1 },
  { "--batch N", "sequences in a mini-batch", default = 12, least = 1 },
  { "--steps N", "updates", default = 2000, least = 1 },
  { "--lr X", "highest learning rate", default = 2e-3, least = 0 },
  { "--dropout X", "share of activations dropped, below 1", default = 0.0, least = 0 },
  { "--seed N", "of weights, data order, dropout and sample", default = 1337, least = 0 },
  { "--eval-every N", "steps between validations", default = 500, least = 1 },
  { "--sample N", "bytes to write at the end", default = 300, least = 0 },
}

local function fail(message)
  io.stderr:write("gpt.lua: ", message, "\n")
  os.exit(1)
end

if flags.dim % flags.heads ~= 0 then
  fail(("--dim %d is not a multiple of --heads %d"):format(flags.dim,
    flags.heads))
elseif flags.dropout >= 1 then
  fail(("--dropout %g is not below 1"):format(flags.dropout))
end

-- ---- text -----------------------------------------------------------------

-- The text files of the tree that this script is in.
local function own_sources()
  local root = arg[0]:match "^(.*)/[^/]*$" or "."
  local find = io.popen(("cd '%s/..' && find README.md core kernels lua "
    .. "examples -type f 2>/dev/null | LC_ALL=C sort")
    :format(root:gsub("'", "'\\''")))
  local files = {}
  for path in find:lines() do files[#files + 1] = root .. "/../" .. path end
  find:close()
  return files
end

local text, message = data.text(flags.data or { files = own_sources() })
if not text then return fail(message) end
local train_text, val_text = text:split(0.9)
local shape = { batch = flags.batch, context = flags.context }
print(("text: %d bytes, %d distinct; %d to train on, %d to validate")
  :format(text.tokens, text.vocab, train_text.tokens, val_text.tokens))

local function loader_of(part, shuffle)
  if part.tokens <= shape.context * shape.batch then
    fail(("a text of %d bytes is too short for %d sequences of %d")
      :format(text.tokens, shape.batch, shape.context))
  end
  return part:loader { batch = shape.batch, context = shape.context,
    seed = flags.seed, shuffle = shuffle }
end

-- ---- model and training ---------------------------------------------------

mrt.seed(flags.seed)
local model = nn.GPT { vocab = text.vocab, dim = flags.dim,
  layers = flags.layers, heads = flags.heads, context = flags.context,
  dropout = flags.dropout, bias = false }
local opt = optim.adamw(optim.groups(model, { weight_decay = 0.1 }),
  { betas = { 0.9, 0.99 } })
opt.lr = optim.cosine { lr = flags.lr, min = flags.lr / 10, warmup = 100,
  steps = flags.steps }
print(("model: %d layers, %d heads, width %d: %d parameters"):format(
  flags.layers, flags.heads, flags.dim, model:count()))

local function loss(m, tokens, targets)
  return nn.cross_entropy(m(tokens), targets)
end

local result = train.run {
  model = model, optimizer = opt, loss = loss, clip = 1.0, plan = true,
  loader = loader_of(train_text, true), steps = flags.steps,
  eval = train.evaluator { model = model, loss = loss,
    loader = loader_of(val_text, false) },
  eval_every = flags.eval_every,
}
print(("validation loss %.4f after %d steps in %.1f s")
  :format(result.eval, flags.steps, result.seconds))

-- ---- sample ---------------------------------------------------------------

if flags.sample > 0 then
  local start = text.ids["\n"] or 0
  local ids = nn.generate(model, { start }, flags.sample,
    { seed = flags.seed, temperature = 0.8 })
  print("\n" .. text:decode(table.move(ids, 2, #ids, 1, {})))
end
